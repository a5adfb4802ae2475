//! Triggers: a step can wait for the n-th time that a milestone or a point is reached.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::names::{Conn, Host};

/// The milestone or point that a trigger waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TriggerMark {
    /// A milestone with this name.
    Milestone(String),
    /// A point with this name.
    Point(String),
}

impl TriggerMark {
    /// Returns the name of the milestone or point.
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
    /// A number. A boolean is stored as 1 for `true` and 0 for `false`.
    Number(u64),
    /// Any other value, as text.
    Text(String),
}

impl MilestoneValue {
    /// Returns the field with this name.
    pub fn of<'f>(fields: &'f [(&str, MilestoneValue)], name: &str) -> Option<&'f MilestoneValue> {
        fields.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Returns the value of the field with this name, if it is a number.
    pub fn number(fields: &[(&str, MilestoneValue)], name: &str) -> Option<u64> {
        match Self::of(fields, name)? {
            MilestoneValue::Number(number) => Some(*number),
            MilestoneValue::Text(_) => None,
        }
    }

    /// Returns the value of the field with this name, if it is a text.
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

/// A condition that is met when a milestone or a point is reached for the n-th time and a delay has
/// passed.
#[derive(Clone, Debug, PartialEq)]
pub struct Trigger {
    /// The milestone or point.
    pub mark: TriggerMark,
    /// The host on which it must be reached; `None` means any host.
    pub host: Option<Host>,
    /// The connection that its field `conn` must name; `None` means any connection.
    pub conn: Option<Conn>,
    /// Other fields that must be equal.
    pub fields: BTreeMap<String, MilestoneValue>,
    /// The number of the occurrence, from 1, among those that match.
    pub nth: u64,
    /// The delay after that. With a delay of 0, the step acts at the end of the turn, before data
    /// sent in this turn leaves the host.
    pub delay: Duration,
}

impl Trigger {
    /// The first time that this milestone is reached on any host.
    pub fn milestone(name: impl Into<String>) -> Self {
        Self::first(TriggerMark::Milestone(name.into()))
    }

    /// The first time that this point is reached on any host.
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

    /// Waits for the n-th occurrence.
    pub fn nth(mut self, nth: u64) -> Self {
        self.nth = nth;
        self
    }

    /// Restricts the trigger to this host.
    pub fn on(mut self, host: impl Into<Host>) -> Self {
        self.host = Some(host.into());
        self
    }

    /// Restricts the trigger to occurrences with this field value.
    pub fn field(mut self, name: impl Into<String>, value: u64) -> Self {
        self.fields.insert(name.into(), MilestoneValue::Number(value));
        self
    }

    /// Adds a delay after the occurrence.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }
}
