//! The fault table: one row a word, from which parsing, writing, the schema, the docs and `list faults` are drawn.
//!
//! A [`FaultWord`] says what a fault is called in files, which [`Field`]s it has, what each side of a connection sees of it, what
//! causes it in the world outside, and on which engine it is faithful. The rows stand in [`WORDS`].
//!
//! A [`Fault`] and its row with a list of fields are two forms of one thing: [`Fault::word`] and [`Fault::fields`] lead
//! from the first to the second, [`FaultWord::build`] back. Nothing here knows TOML, and nothing here carries a fault out: that
//! is the link model's work, which keeps to what the table says.
//!
//! - [`table`]: the rows. [`convert`]: the way there and back.

use std::collections::BTreeMap;
use std::time::Duration;

use super::fault::{Fault, Learns, Orphans};
use super::names::{Conn, Host};
use super::trigger::Trigger;

pub mod convert;
pub mod table;

pub use convert::{FaultFields, Unfit};
pub use table::WORDS;

/// One row of the fault table.
#[derive(Clone, Copy)]
pub struct FaultWord {
    /// Its name in files: `cut-after`.
    pub name: &'static str,
    /// What it does, in a sentence or three.
    pub does: &'static str,
    /// Its fields, in the order in which they are written.
    pub fields: &'static [Field],
    /// What the end that opened the connection sees of it.
    pub client_sees: &'static str,
    /// What the end that accepted the connection sees of it.
    pub server_sees: &'static str,
    /// What causes it in the world outside.
    pub outside: &'static str,
    /// How faithful it is on the event-driven engine.
    pub event: Fidelity,
    /// How faithful it is on stock `turmoil`.
    pub turmoil: Fidelity,
    /// Puts the fault together, from fields that were found to be complete.
    pub(super) build: fn(&FaultFields) -> Fault,
}

impl std::fmt::Debug for FaultWord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// How faithful an engine is to the world outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fidelity {
    /// It does what the row says.
    Full,
    /// It does most of it; what differs.
    Partly(&'static str),
    /// It cannot do it; why.
    None(&'static str),
}

/// One field of a word.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name in files.
    pub name: &'static str,
    /// What kind of value it takes.
    pub kind: FieldType,
    /// Whether it must be there.
    pub need: Need,
    /// What it says.
    pub doc: &'static str,
}

/// Whether a field must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// It must.
    Always,
    /// It need not; what holds without it.
    Else(&'static str),
    /// Exactly one of the fields of this word that have this need must be there.
    OneOf,
    /// At least one of the fields of this word that have this need must be there.
    SomeOf,
    /// It must where this other field is there, and must not where it is not.
    With(&'static str),
    /// It may be there where this other field is there, and must not where it is not; what holds without it.
    WithElse(&'static str, &'static str),
}

/// The kind of a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// A host.
    Host,
    /// Two hosts.
    Hosts,
    /// A connection.
    Conn,
    /// A duration.
    Duration,
    /// A jump of a clock, forth or back.
    Jump,
    /// A number of bytes, with its unit.
    Size,
    /// A number of things, from 0.
    Count,
    /// For hosts, when each learns of it.
    Learns,
    /// What becomes of processes.
    Orphans,
    /// What is waited for.
    Trigger,
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldValue {
    /// A host.
    Host(Host),
    /// Two hosts.
    Hosts(Host, Host),
    /// A connection.
    Conn(Conn),
    /// A duration.
    Duration(Duration),
    /// A jump of a clock, in milliseconds.
    Jump(i64),
    /// A number of bytes.
    Size(u64),
    /// A number of things.
    Count(u64),
    /// For hosts, when each learns of it.
    Learns(BTreeMap<Host, Learns>),
    /// What becomes of processes.
    Orphans(Orphans),
    /// What is waited for.
    Trigger(Trigger),
}

impl FaultWord {
    /// The row of this name.
    pub fn find(name: &str) -> Option<&'static FaultWord> {
        WORDS.iter().find(|word| word.name == name)
    }

    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

impl FieldType {
    /// What a person writes there, with an example in the syntax of files.
    pub fn written(self) -> &'static str {
        match self {
            FieldType::Host => "a host: `\"server\"`",
            FieldType::Hosts => "two hosts: `[\"client\", \"server\"]`",
            FieldType::Conn => "a connection: `\"client#1\"`",
            FieldType::Duration => "a duration: `\"800ms\"`",
            FieldType::Jump => "a duration, also below 0: `\"-3s\"`",
            FieldType::Size => "a size: `\"64KiB\"`",
            FieldType::Count => "a number: `3`",
            FieldType::Learns => {
                "for hosts, a duration or `\"never\"`: `{ client = \"0ms\", server = \"never\" }`"
            }
            FieldType::Orphans => "`\"die\"` or `\"live\"`",
            FieldType::Trigger => "a milestone or a point, as in `after`, without `delay`",
        }
    }
}

impl FieldValue {
    /// Its kind.
    pub fn kind(&self) -> FieldType {
        match self {
            FieldValue::Host(_) => FieldType::Host,
            FieldValue::Hosts(..) => FieldType::Hosts,
            FieldValue::Conn(_) => FieldType::Conn,
            FieldValue::Duration(_) => FieldType::Duration,
            FieldValue::Jump(_) => FieldType::Jump,
            FieldValue::Size(_) => FieldType::Size,
            FieldValue::Count(_) => FieldType::Count,
            FieldValue::Learns(_) => FieldType::Learns,
            FieldValue::Orphans(_) => FieldType::Orphans,
            FieldValue::Trigger(_) => FieldType::Trigger,
        }
    }
}
