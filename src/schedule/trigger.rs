//! When a step happens after something: the n-th time that a milestone or a point is reached.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::names::{Conn, Host};

/// What a trigger waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TriggerMark {
    /// A milestone of this name.
    Milestone(String),
    /// A point of this name.
    Point(String),
}

impl TriggerMark {
    /// The name of the milestone or point.
    pub fn name(&self) -> &str {
        match self {
            TriggerMark::Milestone(name) | TriggerMark::Point(name) => name,
        }
    }
}

impl fmt::Display for TriggerMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TriggerMark::Milestone(name) => f.write_str(name),
            TriggerMark::Point(name) => write!(f, "point {name}"),
        }
    }
}

/// The value of a field of a milestone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MilestoneValue {
    /// A number (also a `true`, which is 1, and a `false`, which is 0).
    Number(u64),
    /// Any other value, as text.
    Text(String),
}

impl MilestoneValue {
    /// The field of this name.
    pub fn of<'f>(fields: &'f [(&str, MilestoneValue)], name: &str) -> Option<&'f MilestoneValue> {
        fields.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// The number in the field of this name, if it holds one.
    pub fn number(fields: &[(&str, MilestoneValue)], name: &str) -> Option<u64> {
        match Self::of(fields, name)? {
            MilestoneValue::Number(number) => Some(*number),
            MilestoneValue::Text(_) => None,
        }
    }

    /// The text in the field of this name, if it holds one.
    pub fn text<'f>(fields: &'f [(&str, MilestoneValue)], name: &str) -> Option<&'f str> {
        match Self::of(fields, name)? {
            MilestoneValue::Number(_) => None,
            MilestoneValue::Text(text) => Some(text),
        }
    }
}

impl fmt::Display for MilestoneValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MilestoneValue::Number(n) => n.fmt(f),
            MilestoneValue::Text(text) => text.fmt(f),
        }
    }
}

/// The n-th time that a milestone or a point is reached, and then a while.
#[derive(Clone, Debug, PartialEq)]
pub struct Trigger {
    /// What is reached.
    pub mark: TriggerMark,
    /// On which host; any where none is given.
    pub host: Option<Host>,
    /// About which connection (its field `conn`); any where none is given.
    pub conn: Option<Conn>,
    /// With which other fields, each equal.
    pub fields: BTreeMap<String, MilestoneValue>,
    /// Which time, from 1, among those that match.
    pub nth: u64,
    /// How long after it; 0 acts at the end of the turn, before what it sent leaves its host.
    pub delay: Duration,
}

impl Trigger {
    /// The first time that the milestone is reached, anywhere.
    pub fn milestone(name: impl Into<String>) -> Self {
        Self::first(TriggerMark::Milestone(name.into()))
    }

    /// The first time that the point is reached, anywhere.
    pub fn point(name: impl Into<String>) -> Self {
        Self::first(TriggerMark::Point(name.into()))
    }

    fn first(mark: TriggerMark) -> Self {
        Self {
            mark,
            host: None,
            conn: None,
            fields: BTreeMap::new(),
            nth: 1,
            delay: Duration::ZERO,
        }
    }

    /// The same, the n-th time.
    pub fn nth(mut self, nth: u64) -> Self {
        self.nth = nth;
        self
    }

    /// The same, on this host.
    pub fn on(mut self, host: impl Into<Host>) -> Self {
        self.host = Some(host.into());
        self
    }

    /// The same, with this field.
    pub fn field(mut self, name: impl Into<String>, value: u64) -> Self {
        self.fields.insert(name.into(), MilestoneValue::Number(value));
        self
    }

    /// The same, and then a while.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }
}
