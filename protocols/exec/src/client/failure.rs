//! The reason why something failed: one enum for calls, processes, bodies and the client as a
//! whole.

use crate::wire::process::WriteStatus;

/// The reason why something failed. It does not change afterwards: later calls return the same
/// reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    // -- of the whole client: also ends its calls, processes and bodies --
    /// No connection came up within the recovery deadline.
    #[error("no connection within the recovery deadline")]
    RecoveryDeadline,
    /// The server no longer has the session, and so no longer has its processes.
    #[error("the server no longer knows the session: {0}")]
    SessionLost(String),
    /// The server answered with a session other than the requested one.
    #[error("the server answered with a different session")]
    WrongSession,
    /// The server refused the handshake permanently.
    #[error("the server refused the handshake: {message} ({code})")]
    HandshakeRefused {
        /// The error code.
        code: i64,
        /// The server's error message.
        message: String,
    },
    /// The server's answer to the handshake is malformed.
    #[error("the server sent an invalid response to the handshake")]
    HandshakeMalformed,
    /// The user closed or dropped the client.
    #[error("the client is closed")]
    Closed,

    // -- of one call --
    /// The connection died between request and answer. Whether the request took effect is unknown.
    #[error("the connection was lost before the answer came")]
    ConnectionLost,
    /// The server refused the request.
    #[error("the server refused: {message} ({code})")]
    Refused {
        /// The error code: one of [`code`](crate::wire::code).
        code: i64,
        /// The server's error message.
        message: String,
    },
    /// No answer arrived in time, although the connection was alive.
    #[error("no answer in time")]
    Unanswered,
    /// The server's answer is longer than the limit
    /// [`message_bytes`](crate::limits::WireLimits::message_bytes) of this client: each connection
    /// over which the request was sent has ended with a message that was too long.
    #[error("the answer is longer than this client accepts")]
    AnswerTooLong,
    /// The answer does not match the method.
    #[error("invalid response: {0}")]
    Malformed(String),
    /// A process with this id exists already, or an older one with this id is still being
    /// terminated.
    #[error("the id is taken")]
    IdTaken,
    /// The bytes were not written.
    #[error("not written: {0:?}")]
    NotWritten(WriteStatus),

    // -- of one process --
    /// Events are missing, and the server no longer has them. The client terminated the process.
    /// Whether a request that waited for its answer took effect is unknown.
    #[error("gap: event {next} is no longer retained, but event {last} is")]
    Gap {
        /// The number of the next expected event.
        next: u64,
        /// The number of the last event that the server reported.
        last: u64,
    },
    /// The server's reports about the process contradict each other. The client terminated the
    /// process.
    #[error("the server contradicts itself about the process")]
    Contradiction,
    /// The server could not observe the process to its end.
    #[error("the server lost the process: {0}")]
    Unwatched(String),
    /// The subscription began when the client no longer kept the first event. Only this
    /// subscription fails.
    #[error("the client no longer keeps the first event")]
    NotKept,
    /// The handle belongs to an older process, and a newer process has taken its id.
    #[error("the id belongs to a newer process")]
    Superseded,

    // -- of one HTTP body --
    /// The reader of the body is too slow.
    #[error("the reader of the body is too slow")]
    BodyOverrun,
    /// The server reported that the body is incomplete.
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
