//! Typed data for facts: outcomes, reasons, answers, and observations of a subject's user.
//!
//! A subject records values of its types, and its properties read them back with their types.
//! The rest of reknit only compares the values, displays them, and writes them as JSON.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

/// A type that can be a fact. It is implemented for every type with the required traits; there is
/// nothing to implement by hand.
pub trait Fact: Any + fmt::Debug + fmt::Display + Send + Sync {
    /// Whether the other fact has the same type and is equal.
    fn is_equal(&self, other: &dyn Fact) -> bool;

    /// The fact as JSON.
    fn json(&self) -> serde_json::Value;
}

impl<T: Any + fmt::Debug + fmt::Display + PartialEq + Serialize + Send + Sync> Fact for T {
    fn is_equal(&self, other: &dyn Fact) -> bool {
        (other as &dyn Any).downcast_ref::<T>() == Some(self)
    }

    fn json(&self) -> serde_json::Value {
        // If a type has no JSON form, its text is used.
        serde_json::to_value(self).unwrap_or_else(|_| self.to_string().into())
    }
}

/// A typed value that is cheap to clone.
///
/// `Display` formats it as the user of the protocol sees it; `Debug` formats the same text in
/// quotes.
#[derive(Clone)]
pub struct Data(Arc<dyn Fact>);

impl Data {
    /// Wraps a value.
    pub fn of(value: impl Fact) -> Self {
        Self(Arc::new(value))
    }

    /// Returns the value, if it is of this type.
    pub fn downcast_ref<T: Any>(&self) -> Option<&T> {
        (&*self.0 as &dyn Any).downcast_ref()
    }

    /// Returns the value as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        self.0.json()
    }
}

/// Two values are equal if they have the same type and compare equal.
impl PartialEq for Data {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.is_equal(&*other.0)
    }
}

impl fmt::Display for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

impl Serialize for Data {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_json().serialize(serializer)
    }
}

/// A plain text, for a subject that has no specific type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlainText(Cow<'static, str>);

impl fmt::Display for PlainText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl From<&'static str> for Data {
    fn from(text: &'static str) -> Self {
        Self::of(PlainText(Cow::Borrowed(text)))
    }
}

impl From<String> for Data {
    fn from(text: String) -> Self {
        Self::of(PlainText(Cow::Owned(text)))
    }
}

impl From<u64> for Data {
    fn from(number: u64) -> Self {
        Self::of(number)
    }
}

/// The ending of a process or of one of its pipes: the one outcome type that reknit itself defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessOutcome {
    /// The process exited with this code.
    Exit(i32),
    /// A signal of this number killed the process.
    Signal(i32),
    /// The last holder of the pipe or terminal closed it.
    Closed,
}

impl fmt::Display for ProcessOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(code) => write!(f, "exit {code}"),
            Self::Signal(number) => write!(f, "signal {number}"),
            Self::Closed => f.write_str("closed"),
        }
    }
}

impl From<ProcessOutcome> for Data {
    fn from(outcome: ProcessOutcome) -> Self {
        Self::of(outcome)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn data_is_equal_only_to_data_of_the_same_type() {
        assert_eq!(Data::from("exit 7"), Data::from("exit 7".to_owned()));
        assert_eq!(Data::from(ProcessOutcome::Exit(7)), Data::from(ProcessOutcome::Exit(7)));
        assert_ne!(Data::from(ProcessOutcome::Exit(7)), Data::from(ProcessOutcome::Exit(8)));
        assert_ne!(Data::from(ProcessOutcome::Exit(7)), Data::from("exit 7"));
    }

    #[test]
    fn data_is_shown_and_read_back() {
        let data = Data::from(ProcessOutcome::Signal(9));
        assert_eq!(
            (data.to_string().as_str(), format!("{data:?}").as_str()),
            ("signal 9", "\"signal 9\"")
        );
        assert_eq!(data.downcast_ref(), Some(&ProcessOutcome::Signal(9)));
        assert_eq!(data.downcast_ref::<PlainText>(), None);
    }

    #[test]
    fn data_has_a_json_form() {
        let of = |data: Data| serde_json::to_value(data).unwrap();
        assert_eq!(
            [of(5.into()), of("a".into()), of(ProcessOutcome::Exit(7).into())],
            [json!(5), json!("a"), json!({ "exit": 7 })]
        );
    }
}
