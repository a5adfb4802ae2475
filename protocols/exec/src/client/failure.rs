//! Why something failed, in one enum for calls, processes, bodies, and the client as a whole.

use crate::wire::process::WriteStatus;

/// Why something failed. What failed once, fails for the same reason however often it is asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    // -- of the whole client, and of everything that it had --
    /// No connection came up within the recovery deadline.
    #[error("no connection within the recovery deadline")]
    RecoveryDeadline,
    /// The server no longer knows the session, and with it the processes.
    #[error("the server no longer knows the session: {0}")]
    SessionLost(String),
    /// The server answered with another session than the one that was asked for.
    #[error("the server answered with another session")]
    WrongSession,
    /// The server refused the handshake for good.
    #[error("the server refused the handshake: {message} ({code})")]
    HandshakeRefused {
        /// The number of the error.
        code: i64,
        /// What the server says about it.
        message: String,
    },
    /// The server answered the handshake with what is no answer.
    #[error("the server answered the handshake with what is no answer")]
    HandshakeMalformed,
    /// The user closed the client, or let it go.
    #[error("the client is closed")]
    Closed,

    // -- of one call --
    /// The connection died between request and answer: whether it took effect is not known.
    #[error("the connection was lost before the answer came")]
    ConnectionLost,
    /// The server refused.
    #[error("the server refused: {message} ({code})")]
    Refused {
        /// The number of the error: one of [`code`](crate::wire::code).
        code: i64,
        /// What the server says about it.
        message: String,
    },
    /// No answer came in time, over a connection that lived.
    #[error("no answer in time")]
    Unanswered,
    /// The answer is none of this method.
    #[error("the answer makes no sense: {0}")]
    Malformed(String),
    /// A process of this id is there already, or what is left of one that is being ended.
    #[error("the id is taken")]
    IdTaken,
    /// The bytes were not written.
    #[error("not written: {0:?}")]
    NotWritten(WriteStatus),

    // -- of one process --
    /// Events are missing, and the server no longer has them. The process was ended.
    #[error("gap: event {next} is no longer there, though {last} is")]
    Gap {
        /// The event that would have come next.
        next: u64,
        /// The last one that the server told of.
        last: u64,
    },
    /// What the server says of the process contradicts itself. The process was ended.
    #[error("the server contradicts itself about the process")]
    Contradiction,
    /// The server could not watch the process to its end.
    #[error("the server lost the process: {0}")]
    Unwatched(String),
    /// The subscriber was slower than the log is long: events are missing for it, and for nobody else.
    #[error("the subscriber is too slow")]
    Lagged,
    /// The handle is of an older process, whose id a newer one has.
    #[error("the id belongs to a newer process")]
    Superseded,

    // -- of one HTTP body --
    /// The reader of a body is too slow.
    #[error("the reader of the body is too slow")]
    BodyOverrun,
    /// The server says that the body broke off.
    #[error("the body broke off: {0}")]
    BodyBroken(String),
    /// A piece of the body is missing.
    #[error("a piece of the body is missing")]
    BodyGap,
}

impl From<crate::wire::ErrorBody> for Failure {
    fn from(error: crate::wire::ErrorBody) -> Self {
        Self::Refused { code: error.code, message: error.message }
    }
}
