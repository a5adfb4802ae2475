//! The paths of requests, as a client writes them. An id needs no escapes.

use super::{CommandId, Cursor};

/// `POST` runs a command.
pub const START: &str = "/command";

/// `GET` continues the stream of a command.
pub fn resume(id: &CommandId, cursor: Cursor) -> String {
    format!("/command/{id}/resume?after_eid={cursor}")
}

/// `GET` returns the state of a command.
pub fn status(id: &CommandId) -> String {
    format!("/command/status/{id}")
}

/// `GET` returns the output of a background command.
pub fn logs(id: &CommandId, cursor: Cursor) -> String {
    format!("/command/{id}/logs?cursor={cursor}")
}

/// `DELETE` asks a command to end.
pub fn interrupt(id: &CommandId) -> String {
    format!("/command?id={id}")
}
