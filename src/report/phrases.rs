//! Phrases for the parts of a schedule or a history: durations, faults, operations, triggers,
//! endings.
//!
//! Every function converts data to a part of a sentence, without host and time. Host and time have
//! separate columns.

use std::io::ErrorKind;

use crate::history::{ConnEnd, ConnIndex, Ending, History};
use crate::hunt::Shrunk;
use crate::schedule::{Action, MilestoneValue, Operation, Step, When};

pub use crate::schedule::phrases::{count, nth, span, trigger};

/// Returns the action of a step.
pub fn step(step: &Step) -> String {
    match &step.action {
        Action::Operation(what) => operation(what),
        Action::Fault(what) => what.sentence(),
    }
}

/// Returns the trigger of a step, unless it waits only for a time.
pub fn cause(when: &When) -> Option<String> {
    match when {
        When::At(_) => None,
        When::After(what) => Some(format!("after {}", trigger(what))),
    }
}

/// Returns an operation: its verb and its fields.
pub fn operation(operation: &Operation) -> String {
    let mut text = operation.verb.clone();
    for (n, (name, value)) in operation.fields.iter().enumerate() {
        text += if n == 0 { " " } else { ", " };
        match value {
            serde_json::Value::String(value) => text += &format!("{name} {value}"),
            other => text += &format!("{name} {other}"),
        }
    }
    text
}

/// Returns the fields of a milestone or point, without the connection: ` (generation 2)`, or an
/// empty string.
pub fn fields(fields: &[(&'static str, MilestoneValue)]) -> String {
    let parts: Vec<_> = fields
        .iter()
        .filter(|(name, _)| *name != "conn")
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}

/// Returns the name of the connection of a milestone or point: ` on client#2`, or an empty string.
pub fn about_conn(history: &History, fields: &[(&'static str, MilestoneValue)]) -> String {
    let conn = MilestoneValue::number(fields, "conn")
        .and_then(|n| history.conns.get((n as usize).checked_sub(1)?));
    conn.map_or(String::new(), |conn| format!(" on {}", conn.name))
}

/// Returns the name of a connection, with its generation if it has one: `client#2 (generation 1)`.
pub fn conn(history: &History, index: ConnIndex) -> String {
    match history.conns.get(index.0) {
        Some(conn) => match conn.generation {
            Some(generation) => format!("{} (generation {generation})", conn.name),
            None => conn.name.clone(),
        },
        None => format!("connection {}", index.0),
    }
}

/// Returns the origin of a shrunk schedule: `shrunk from 19 in 84 runs`.
pub fn origin(shrunk: &Shrunk) -> String {
    format!("shrunk from {} in {}", count(shrunk.from as u64, "step"), count(shrunk.runs, "run"))
}

/// Returns how a stream ended for its user.
pub fn ending(ending: &Ending) -> String {
    match ending {
        Ending::Completed { outcome } => format!("completed, {outcome}"),
        Ending::Failed { reason } => format!("failed: {reason}"),
    }
}

/// Returns how one end of a connection ended.
pub fn conn_end(how: ConnEnd) -> String {
    match how {
        ConnEnd::Closed => "closed".into(),
        ConnEnd::Eof => "the other end closed it".into(),
        ConnEnd::Error(kind) => error(kind),
        ConnEnd::NotOpened(kind) => format!("not opened: {}", error(kind)),
    }
}

/// Returns an error of a connection: `connection reset`.
pub fn error(kind: ErrorKind) -> String {
    kind.to_string()
}
