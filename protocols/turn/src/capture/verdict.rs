//! The end of a turn, for its client.

use std::time::Duration;

/// How a turn ended. A capture gives exactly one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The turn completed.
    Completed(Evidence),
    /// The turn failed, or its end is unknown.
    Failed(Failure),
    /// The turn was interrupted.
    Interrupted(Interruption),
}

impl Verdict {
    /// The name for records and logs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Completed(_) => "completed",
            Self::Failed(_) => "failed",
            Self::Interrupted(_) => "cancelled",
        }
    }

    /// Whether the server reported the end of the turn, so that nothing of it runs on.
    pub fn is_reported(&self) -> bool {
        match self {
            Self::Completed(evidence) => *evidence == Evidence::Reported,
            Self::Failed(failure) => {
                matches!(failure, Failure::Turn { .. } | Failure::UnknownStatus { .. })
            }
            Self::Interrupted(by) => *by != Interruption::CancelledUnconfirmed,
        }
    }
}

/// Why the client considers a turn complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// The server said so.
    Reported,
    /// The final answer came, no work was open, and the server said nothing more for a while.
    Silence,
    /// The final answer came, no work was open, and the server ended.
    EndOfServer,
}

/// The one that interrupted a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruption {
    /// The user of this client, and the server confirmed it.
    Cancelled,
    /// The user of this client. The server did not confirm it: the turn may have ended otherwise.
    CancelledUnconfirmed,
    /// Another client, or the server.
    Other,
}

/// Why a turn failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The server reported that the turn failed.
    #[error("the turn failed: {message}")]
    Turn {
        /// The message of the server.
        message: String,
    },
    /// The server reported an error that it does not retry, and then did not end the turn.
    #[error("the app-server reported an error and did not end the turn: {message}")]
    Error {
        /// The message of the server.
        message: String,
    },
    /// The server ended the turn with a status that the client does not know.
    #[error("the app-server ended the turn with the unknown status '{status}'")]
    UnknownStatus {
        /// The status.
        status: String,
    },
    /// The server ended first.
    #[error("disconnected before the turn was complete: {why}")]
    Disconnected {
        /// How it ended.
        why: String,
    },
    /// The server was silent for too long.
    #[error("the app-server was silent for {} s, so the client interrupted the turn", .0.as_secs())]
    Idle(Duration),
    /// The turn took too long.
    #[error("the turn took more than {} s, so the client interrupted it", .0.as_secs())]
    TooLong(Duration),
    /// The server refused to start the turn.
    #[error("the app-server refused to start the turn: {message} (error {code})")]
    Refused {
        /// The error code.
        code: i64,
        /// The message of the server.
        message: String,
    },
    /// The server did not answer the start request.
    #[error("the app-server did not answer the request to start the turn")]
    NoAnswer,
    /// The server answered the start request without the id of the turn, and did not report it later.
    #[error("the app-server started a turn without an id")]
    NoTurnId,
    /// Too many lines of the server were unreadable.
    #[error("{lines} lines of the app-server were unreadable")]
    Unreadable {
        /// How many.
        lines: usize,
    },
    /// The server sent too much before it answered the start request.
    #[error("the app-server sent too many notifications before it answered the start request")]
    TooMuchBuffered,
}
