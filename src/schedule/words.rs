//! The fault table, with one row per word. Parsing, writing, the schema, the docs and `list faults`
//! are all derived from it.
//!
//! A [`FaultWord`] defines the name of a fault in files, its [`Field`]s, its effect on each side of
//! a connection, its real-world causes, and how faithfully each engine implements it.
//!
//! - [`fields`]: the fields of a fault as values. [`shared`]: fields that several faults have.
//!
//! The rows are part of the [definitions](super::fault::Definition) of faults. This module does not
//! depend on TOML.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use super::fault::values::Learns;
use super::names::{Conn, Host, NameList};
use super::trigger::Trigger;

pub mod fields;
pub mod shared;

pub use fields::{FaultFields, Unfit};

/// One row of the fault table.
#[derive(Clone, Copy)]
pub struct FaultWord {
    /// The name in files: `cut-after`.
    pub name: &'static str,
    /// A description in one to three sentences.
    pub does: &'static str,
    /// The fields, in the order in which they are written.
    pub fields: &'static [Field],
    /// The effect on the end that opened the connection.
    pub client_sees: &'static str,
    /// The effect on the end that accepted the connection.
    pub server_sees: &'static str,
    /// The real-world causes.
    pub outside: &'static str,
    /// How faithfully the event-driven engine implements it.
    pub event: Fidelity,
    /// How faithfully stock `turmoil` implements it.
    pub turmoil: Fidelity,
}

impl std::fmt::Debug for FaultWord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// How faithfully an engine implements a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fidelity {
    /// The engine does everything that the row describes.
    Full,
    /// The engine does most of it, except for this difference.
    Partly(&'static str),
    /// The engine cannot do it, for this reason.
    None(&'static str),
}

/// A field of a word.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The name in files.
    pub name: &'static str,
    /// The type of its value.
    pub kind: FieldType,
    /// Whether the field is required.
    pub need: Need,
    /// A description.
    pub doc: &'static str,
}

/// Whether a field is required.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Required.
    Always,
    /// Optional; the text describes the behaviour without it.
    Else(&'static str),
    /// Of the fields of this word with this need, exactly one is required.
    OneOf,
    /// Of the fields of this word with this need, at least one is required.
    SomeOf,
    /// Required if this other field is present, not allowed otherwise.
    With(&'static str),
    /// Optional if this other field is present, not allowed otherwise; the text describes the
    /// behaviour without it.
    WithElse(&'static str, &'static str),
}

/// The type of a field's value.
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
    /// A forward or backward jump of a clock.
    Jump,
    /// A number of bytes, with its unit.
    Size,
    /// A count, from 0.
    Count,
    /// For each host, when it learns of the cut.
    Learns,
    /// One of a list of names.
    Name(&'static NameList),
    /// The milestone or point that ends a hold.
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
    /// A count.
    Count(u64),
    /// For each host, when it learns of the cut.
    Learns(BTreeMap<Host, Learns>),
    /// One of a list of names.
    Name(&'static NameList, &'static str),
    /// The milestone or point that ends a hold.
    Trigger(Trigger),
}

impl FaultWord {
    /// Returns the field with this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

impl FieldType {
    /// Describes the syntax of the value in files, with an example.
    pub fn written(self) -> Cow<'static, str> {
        let text = match self {
            FieldType::Host => "a host: `\"server\"`",
            FieldType::Hosts => "two hosts: `[\"client\", \"server\"]`",
            FieldType::Conn => "a connection: `\"client#1\"`",
            FieldType::Duration => "a duration: `\"800ms\"`",
            FieldType::Jump => "a duration, which may be negative: `\"-3s\"`",
            FieldType::Size => "a size: `\"64KiB\"`",
            FieldType::Count => "a number: `3`",
            FieldType::Learns => {
                "for hosts, a duration or `\"never\"`: `{ client = \"0ms\", server = \"never\" }`"
            }
            FieldType::Name(list) => return list.written().into(),
            FieldType::Trigger => "a milestone or a point, as in `after` but without `delay`",
        };
        text.into()
    }
}

impl FieldValue {
    /// Returns the type of the value.
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
            FieldValue::Name(list, _) => FieldType::Name(list),
            FieldValue::Trigger(_) => FieldType::Trigger,
        }
    }
}
