//! The results that a client returns to its user: its state, the numbers of a stream, and the ends
//! of streams and calls.

use std::num::NonZeroU64;

use crate::wire::{Absence, Refusal};

/// Whether a client has a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has a connection.
    Connected,
    /// It tries to connect, until its recovery deadline.
    Recovering,
    /// It gave up, and waits for a request of the user.
    Failed,
}

/// The reason why a stream or a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The client could not connect within the recovery deadline.
    #[error("no connection within the recovery deadline")]
    RecoveryDeadline,
    /// The server no longer knows the session.
    #[error("the server no longer knows the session")]
    SessionLost,
    /// The server refused the session.
    #[error("the server refused: {0}")]
    Refused(Refusal),
    /// The server sent an invalid line.
    #[error("the server violated the protocol")]
    Protocol,
    /// The server no longer has some of the missing numbers.
    #[error("gap: number {next} is no longer kept, the oldest is {oldest}")]
    Gap {
        /// The next number that the client needed.
        next: NonZeroU64,
        /// The oldest number that the server has.
        oldest: u64,
    },
    /// The server has no such stream.
    #[error("the server has no such stream: {0}")]
    NoStream(Absence),
    /// This client already watches a stream with that name.
    #[error("watched already")]
    WatchedAlready,
    /// The user reads more slowly than the numbers arrive.
    #[error("the user is too slow")]
    Overrun,
    /// The connection ended between request and answer.
    #[error("the connection was lost")]
    ConnectionLost,
    /// No answer arrived in time.
    #[error("no answer in time")]
    Unanswered,
    /// The server knows the add, but no longer its outcome.
    #[error("the outcome is no longer known")]
    Forgotten,
    /// The user closed it.
    #[error("closed")]
    Closed,
}

/// The ending of a stream. Repeated queries return the same value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All its numbers were delivered.
    Completed {
        /// The number of delivered numbers.
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
    /// The generation of the connection that delivered it.
    pub generation: u64,
}
