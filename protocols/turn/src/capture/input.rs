//! The inputs of a capture.

use reknit_jsonrpc::ErrorBody;
use reknit_seams::defect;
use serde_json::value::RawValue;

use crate::upstream::RequestFailure;
use crate::wire::StartAnswer;

/// The kind of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnKind {
    /// Started with `turn/start`. Its result is the answer of the agent.
    Task,
    /// Started with `review/start`. Its result is the review.
    Review,
}

/// An event of the outside.
#[derive(Clone, Debug)]
pub enum Input {
    /// The server answered the start request.
    Answer(StartAnswer),
    /// The server refused the start request. No turn started.
    Refused {
        /// The error code.
        code: i64,
        /// The message.
        message: String,
    },
    /// The start request has no answer and will get none: the time for it is over, or its answer was
    /// unreadable. The turn may have started.
    NoAnswer,
    /// The server sent a notification.
    Notification(Raw),
    /// The server sent a line without a readable message. A last line without an end is none: it is
    /// part of the end of the server.
    Unreadable,
    /// The server ended, and the capture has all of its notifications.
    End {
        /// One line: how it ended.
        why: String,
    },
    /// The user cancelled the turn.
    Cancel,
}

impl Input {
    /// Returns the input for the outcome of the start request. `None` if the connection ended: its end
    /// follows.
    pub fn from_outcome(outcome: Result<Box<RawValue>, RequestFailure>) -> Option<Self> {
        match outcome {
            Ok(result) => {
                let answer = serde_json::from_str(result.get());
                // The bug: an answer that cannot be read counts as one without an id.
                let answer = match defect!(GarbledAnswersCount) {
                    true => Ok(answer.unwrap_or_default()),
                    false => answer,
                };
                Some(answer.map_or(Self::NoAnswer, Self::Answer))
            }
            Err(RequestFailure::Refused(ErrorBody { code, message, .. })) => {
                Some(Self::Refused { code, message })
            }
            Err(RequestFailure::Deadline) => Some(Self::NoAnswer),
            Err(RequestFailure::Ended(_)) => None,
        }
    }
}

/// A notification as it came.
#[derive(Clone, Debug)]
pub struct Raw {
    /// The method.
    pub method: String,
    /// The parameters.
    pub params: Option<Box<RawValue>>,
}

impl Raw {
    /// Returns the size in bytes, without the envelope.
    pub fn weight(&self) -> usize {
        self.method.len() + self.params.as_ref().map_or(0, |params| params.get().len())
    }
}
