//! Violations of properties, as data.
//!
//! A [`Violation`] records which property was violated, what it concerns, when, and the
//! [`ViolationKind`] with its values. [`report`](mod@crate::report::sentence) renders the sentence.

use std::fmt;
use std::time::Duration;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::history::{Answer, Call, Connection, Data, Event, Stream, Time};
use crate::schedule::{Host, Plan};

/// A violation of a property in a run.
///
/// A subject's own property declares its kinds, and supplies their values:
///
/// ```
/// use reknit::history::Time;
/// use reknit::property::{Violation, ViolationFields, ViolationKind};
///
/// static STALE: ViolationKind = ViolationKind {
///     name: "stale",
///     sentence: "{subject:}version {read} was read after version {known} {moment}",
/// };
///
/// let data = ViolationFields::from([("read", 3_u64.into()), ("known", 4_u64.into())]);
/// let violation = Violation::new("reads_are_fresh", "config", Time(1_200), &STALE, data);
/// assert_eq!(
///     reknit::report::sentence(&violation),
///     "config: version 3 was read after version 4 (at 1.200 s)"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Violation {
    /// The name of the property.
    pub property: &'static str,
    /// The stream, call or other thing that the violation concerns.
    pub subject: About,
    /// The time of the violation.
    pub at: Time,
    /// The kind of violation.
    pub kind: &'static ViolationKind,
    /// The values for the sentence of that kind.
    pub data: ViolationFields,
}

impl Violation {
    /// Creates a violation of this kind.
    pub fn new(
        property: &'static str,
        subject: impl Into<About>,
        at: Time,
        kind: &'static ViolationKind,
        data: ViolationFields,
    ) -> Self {
        Self { property, subject: subject.into(), at, kind, data }
    }

    /// Returns whether another violation concerns the same thing and is of the same kind, whatever
    /// its values are.
    pub fn is_like(&self, other: &Self) -> bool {
        let is_same = self.property == other.property
            && self.subject == other.subject
            && self.kind == other.kind;
        is_same && self.data.phrases() == other.data.phrases()
    }

    /// Returns the stream that the violation concerns, if it concerns a stream.
    pub fn stream(&self) -> Option<&Stream> {
        match &self.subject {
            About::Stream(stream) => Some(stream),
            _ => None,
        }
    }
}

/// Creates a violation for tests, from a subject and a text.
#[cfg(test)]
pub(crate) fn sample_violation(
    property: &'static str,
    subject: impl Into<About>,
    at: Time,
    text: &str,
) -> Violation {
    kinds! {
        SAID = "said": "{subject:}{text}";
    }
    Violation::new(property, subject, at, &SAID, fields! { text })
}

/// One way in which a property can be violated.
///
/// The sentence contains a `{name}` for each value of the violation's data. These names have a
/// special meaning:
/// - `{subject:}`: the subject and a colon; empty if the subject is the whole run;
/// - `{subject}`: the subject alone;
/// - `{at}`: the time of the violation;
/// - `{moment}`: the time in parentheses, after the value `generation` if there is one:
///   `(generation 2, at 4.231 s)`.
#[derive(Debug, PartialEq, Eq)]
pub struct ViolationKind {
    /// The name, unique among the kinds of a property.
    pub name: &'static str,
    /// The template of the sentence.
    pub sentence: &'static str,
}

/// Declares kinds, and optionally a list of them.
macro_rules! kinds {
    ($vis:vis $list:ident; $($rest:tt)*) => {
        $crate::property::violation::kinds!(@list $vis $list [$($rest)*]);
        $crate::property::violation::kinds!($vis $($rest)*);
    };
    (@list $vis:vis $list:ident [$($name:ident = $text:literal: $sentence:literal;)*]) => {
        $vis static $list: &[&$crate::property::ViolationKind] = &[$(&$name),*];
    };
    ($vis:vis $($name:ident = $text:literal: $sentence:literal;)*) => {
        $($vis static $name: $crate::property::ViolationKind = $crate::property::ViolationKind { name: $text, sentence: $sentence };)*
    };
}
pub(crate) use kinds;

/// Builds [`ViolationFields`]: `fields! { item: n + 1, reason }`.
macro_rules! fields {
    ($($name:ident $(: $value:expr)?),* $(,)?) => {
        $crate::property::ViolationFields::from([$((stringify!($name), $crate::property::violation::fields!(@ $name $($value)?))),*])
    };
    (@ $name:ident) => { $crate::property::ViolationValue::from($name) };
    (@ $name:ident $value:expr) => { $crate::property::ViolationValue::from($value) };
}
pub(crate) use fields;

/// The subject of a violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// The whole run.
    Run,
    /// A stream.
    Stream(Stream),
    /// A call, with the verb of its operation if known.
    Call(Call, Option<String>),
    /// A host.
    Host(Host),
    /// A milestone or point that a file expects: its name, and its full description.
    Mark(String, String),
    /// A step of a schedule: its number from 0, and the line in its file.
    Step(usize, Option<usize>),
    /// Anything else with a name: a process, a channel, a client.
    Named(String),
}

impl About {
    /// Returns the sort of subject, as one word.
    pub fn sort(&self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Stream(_) => "stream",
            Self::Call(..) => "call",
            Self::Host(_) => "host",
            Self::Mark(..) => "mark",
            Self::Step(..) => "step",
            Self::Named(_) => "name",
        }
    }
}

/// `s1`, `call 7 (add)`, `client`; empty for the whole run.
impl fmt::Display for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run => Ok(()),
            Self::Stream(stream) => stream.fmt(f),
            Self::Call(call, None) => call.fmt(f),
            Self::Call(call, Some(verb)) => write!(f, "{call} ({verb})"),
            Self::Host(host) => host.fmt(f),
            Self::Mark(_, name) | Self::Named(name) => f.write_str(name),
            Self::Step(step, None) => write!(f, "step {}", step + 1),
            Self::Step(step, Some(line)) => write!(f, "step {} in line {line}", step + 1),
        }
    }
}

impl Serialize for About {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("sort", self.sort())?;
        map.serialize_entry("name", &self.to_string())?;
        map.end()
    }
}

impl From<&Stream> for About {
    fn from(stream: &Stream) -> Self {
        Self::Stream(stream.clone())
    }
}

impl From<Call> for About {
    fn from(call: Call) -> Self {
        Self::Call(call, None)
    }
}

impl From<Option<&Host>> for About {
    fn from(host: Option<&Host>) -> Self {
        host.map_or(Self::Run, |host| Self::Host(host.clone()))
    }
}

impl From<&str> for About {
    fn from(name: &str) -> Self {
        Self::Named(name.to_owned())
    }
}

/// The values of a violation, by name, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ViolationFields(Vec<(&'static str, ViolationValue)>);

impl<const N: usize> From<[(&'static str, ViolationValue); N]> for ViolationFields {
    fn from(fields: [(&'static str, ViolationValue); N]) -> Self {
        Self(fields.into())
    }
}

impl ViolationFields {
    /// Adds one more value, if there is one.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: Option<impl Into<ViolationValue>>) -> Self {
        self.0.extend(value.map(|value| (name, value.into())));
        self
    }

    /// Returns the value with this name.
    pub fn get(&self, name: &str) -> Option<&ViolationValue> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Returns the kinds of all phrases among the values, in order.
    fn phrases(&self) -> Vec<&'static ViolationKind> {
        let phrases = self.0.iter().filter_map(|(_, value)| match value {
            ViolationValue::Phrase(phrase) => Some(&**phrase),
            _ => None,
        });
        phrases.flat_map(|phrase| [vec![phrase.kind], phrase.data.phrases()].concat()).collect()
    }

    /// Returns all values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &ViolationValue)> {
        self.0.iter().map(|(name, value)| (*name, value))
    }
}

/// A value of a violation.
#[derive(Clone, Debug, PartialEq)]
pub enum ViolationValue {
    /// A number.
    Number(u64),
    /// A text: a name, or data in the form in which the user received it.
    Text(String),
    /// A point in virtual time.
    Time(Time),
    /// A duration.
    Duration(Duration),
    /// A phrase with alternative wordings.
    Phrase(Box<Phrase>),
    /// An entry of a history.
    Entry(Box<ViolationEntry>),
}

/// A part of a sentence, with its own kinds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Phrase {
    /// The kind of phrase.
    pub kind: &'static ViolationKind,
    /// The values of the phrase.
    pub data: ViolationFields,
}

impl Phrase {
    /// Creates a phrase of this kind.
    pub fn new(kind: &'static ViolationKind, data: ViolationFields) -> Self {
        Self { kind, data }
    }
}

/// An entry, with the context that is needed to render it.
#[derive(Clone, Debug)]
pub struct ViolationEntry {
    /// The plan of its run.
    pub plan: Plan,
    /// The connections of its run.
    pub conns: Vec<Connection>,
    /// The entry.
    pub event: Event,
}

impl PartialEq for ViolationEntry {
    fn eq(&self, other: &Self) -> bool {
        format!("{:?}", self.event) == format!("{:?}", other.event)
    }
}

/// Serializes the values by name. Times and durations are in milliseconds, and their names end in
/// `_ms`.
impl Serialize for ViolationFields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            match value {
                ViolationValue::Time(_) | ViolationValue::Duration(_) => {
                    map.serialize_entry(&format!("{name}_ms"), value)?
                }
                _ => map.serialize_entry(name, value)?,
            }
        }
        map.end()
    }
}

impl Serialize for ViolationValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(n) => serializer.serialize_u64(*n),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Time(at) => serializer.serialize_u64(at.0),
            Self::Duration(span) => {
                serializer.serialize_u64(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
            }
            Self::Phrase(phrase) => phrase.serialize(serializer),
            Self::Entry(entry) => serializer.collect_str(&format_args!("{:?}", entry.event)),
        }
    }
}

impl Serialize for ViolationKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

/// Generates the conversions into [`ViolationValue`].
macro_rules! values {
    ($($type:ty: |$value:ident| $into:expr;)*) => {
        $(impl From<$type> for ViolationValue {
            fn from($value: $type) -> Self {
                $into
            }
        })*
    };
}

values! {
    u64: |n| Self::Number(n);
    u32: |n| Self::Number(n.into());
    usize: |n| Self::Number(n as u64);
    &str: |text| Self::Text(text.to_owned());
    &&str: |text| Self::Text((*text).to_owned());
    String: |text| Self::Text(text);
    &String: |text| Self::Text(text.clone());
    Time: |at| Self::Time(at);
    &Time: |at| Self::Time(*at);
    Duration: |span| Self::Duration(span);
    &Data: |data| Self::Text(data.to_string());
    &Answer: |answer| Self::Text(answer.to_string());
    &Stream: |stream| Self::Text(stream.to_string());
    &Host: |host| Self::Text(host.to_string());
    Call: |call| Self::Text(call.to_string());
    Phrase: |phrase| Self::Phrase(phrase.into());
    ViolationEntry: |entry| Self::Entry(entry.into());
}
