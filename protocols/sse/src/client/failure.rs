//! Why a follower fails, and why it lost a connection.

use crate::wire::{CommandId, Gap, RefusalBody};

/// Why a follower has failed. It is final: the follower returns the same failure from then on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// It has made no progress for the whole [`budget`](crate::limits::ClientLimits::budget). The
    /// command may still run, and another follower can continue from the cursor. Contains the reason of
    /// the last attempt that ended by itself.
    #[error("no progress for too long; the last attempt: {0}")]
    NoProgress(Loss),
    /// The server does not have the command: it was restarted, or an original execd has dropped it.
    /// How the command ended is unknown.
    #[error("the server does not have the command any more")]
    NotFound,
    /// The command has ended, and the server no longer has its output. Its status is left.
    #[error("the command has ended, and its output is no longer available")]
    Expired,
    /// The server has another run of a command with this id.
    #[error("the server has another run of the command")]
    AnotherRun,
    /// The server refuses the request, and would refuse it again.
    #[error("the server refuses the request: {0}")]
    Refused(Refused),
    /// The server twice left out events without a report.
    #[error("the server does not send all events: {0}")]
    Hole(Gap),
    /// The server does not follow the protocol.
    #[error("the server {0}")]
    Protocol(&'static str),
    /// Only with an original execd: the answer to the start is lost. The command may run, and a
    /// repeated start could run it twice.
    #[error("the answer to the start is lost ({0}): the command may run")]
    StartUnknown(Loss),
    /// Only with an original execd: it sends events without positions, so that the stream cannot
    /// continue after a loss.
    #[error("the stream cannot continue ({0}): its events have no positions")]
    NotResumable(Loss),
}

/// An answer that is not a success.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{status} {code}: {message}")]
pub struct Refused {
    /// The status code.
    pub status: u16,
    /// The name of the refusal; empty if the answer is not one of this protocol.
    pub code: String,
    /// A sentence for people.
    pub message: String,
    /// Whether the server says that it has not performed the request. A proxy cannot know that.
    pub no_effect: bool,
}

impl Refused {
    pub(super) fn new(status: u16, body: RefusalBody) -> Self {
        let RefusalBody { code, message, no_effect, .. } = body;
        Self { status, code, message, no_effect }
    }
}

/// Why an attempt or a stream is over, although the command is not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    /// There was no connection, so the server did not receive the request.
    #[error("no connection")]
    NotConnected,
    /// The connection ended before the head of the answer.
    #[error("no answer")]
    NoAnswer,
    /// The attempt took too long.
    #[error("no answer in time")]
    OpenTimeout,
    /// The body of the answer ended without the ending of the command.
    #[error("the stream ended early")]
    EndedEarly,
    /// The connection broke.
    #[error("the connection broke")]
    Broken,
    /// The connection was silent for too long.
    #[error("the connection was silent")]
    Silent,
    /// The bytes are not a stream of events.
    #[error("the stream is not readable")]
    Unreadable,
    /// Events are missing.
    #[error("the stream left out events")]
    Hole,
    /// The server refuses the request for now.
    #[error("refused: {0}")]
    Refused(Refused),
    /// The answer to the start of a background command is complete. The output follows on the next
    /// connection.
    #[error("command {0} was started in the background")]
    Detached(CommandId),
}
