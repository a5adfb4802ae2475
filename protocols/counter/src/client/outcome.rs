//! What a client says to its user: its state, the numbers of a stream, how streams and calls end.

use std::num::NonZeroU64;

use crate::wire::{Absence, Refusal};

/// Whether a client has a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has one.
    Connected,
    /// It tries to get one, until its recovery deadline.
    Recovering,
    /// It gave up, and waits to be asked for something.
    Failed,
}

/// Why a stream or a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// No connection came up in time.
    #[error("no connection within the recovery deadline")]
    RecoveryDeadline,
    /// The server no longer knows the session.
    #[error("the server no longer knows the session")]
    SessionLost,
    /// The server refused the session.
    #[error("the server refused: {0}")]
    Refused(Refusal),
    /// The server sent what is no line of this protocol.
    #[error("the server broke the protocol")]
    Protocol,
    /// Numbers are missing, and the server no longer has them.
    #[error("gap: number {next} is no longer kept, the oldest is {oldest}")]
    Gap {
        /// The number that would have come next.
        next: NonZeroU64,
        /// The oldest one that is there.
        oldest: u64,
    },
    /// The server has no such stream.
    #[error("the server has no such stream: {0}")]
    NoStream(Absence),
    /// This client watches a stream of that name already.
    #[error("watched already")]
    WatchedAlready,
    /// The user reads more slowly than numbers come.
    #[error("the user is too slow")]
    Overrun,
    /// The connection died between question and answer.
    #[error("the connection was lost")]
    ConnectionLost,
    /// No answer came in time.
    #[error("no answer in time")]
    Unanswered,
    /// The server knows of the add, but no longer its outcome.
    #[error("the outcome is no longer known")]
    Forgotten,
    /// The user closed it.
    #[error("closed")]
    Closed,
}

/// How a stream ended. Asked again, it is the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All its numbers were delivered.
    Completed {
        /// How many there were.
        total: u64,
    },
    /// It failed.
    Failed(Failure),
}

/// A number of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    /// Its position, from 1.
    pub index: u64,
    /// The number.
    pub value: u64,
    /// The generation over which it came.
    pub generation: u64,
}
