//! The reasons why the server refuses a request, with their error codes. A refused request has
//! changed nothing.

use reknit_seams::defect;

use super::process::ProcessId;
use crate::wire::{Message, RequestId, code};

/// The reason why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RequestError {
    #[error("the first request of a connection is `initialize`")]
    NotInitialized,
    #[error("`initialized` must precede all other requests")]
    NotReady,
    #[error("this connection is already initialized")]
    InitializedTwice,
    #[error("unknown session id {0}")]
    UnknownSession(String),
    #[error("session {0} is attached to another connection; try again")]
    StillAttached(String),
    #[error("session has been resumed by another connection")]
    Resumed,
    #[error("unknown process id {0}")]
    UnknownProcess(ProcessId),
    #[error("process {0} is starting")]
    Starting(ProcessId),
    #[error("process id {0} is taken")]
    Duplicate(ProcessId),
    #[error("start was cancelled")]
    StartCancelled,
    #[error("the process could not be started: {0}")]
    StartFailed(String),
    #[error("the request failed: {0}")]
    HttpFailed(String),
    #[error("unknown method {0}")]
    UnknownMethod(String),
    #[error("invalid parameters: {0}")]
    Params(String),
    #[error("this server cannot enforce `{0}`, so the process was not started")]
    CannotEnforce(&'static str),
    #[error("this server cannot enforce `sandbox`, so the process was not started: {0}")]
    CannotConfine(String),
    #[error("too many {0}")]
    TooMany(&'static str),
    /// A request for files failed: the code, and the message.
    #[error("{1}")]
    File(i64, String),
}

impl RequestError {
    /// Returns the error code that the client acts on.
    pub(super) fn code(&self) -> i64 {
        match self {
            Self::StillAttached(_) if defect!(StillAttachedIsInvalid) => code::INVALID_REQUEST,
            Self::StillAttached(_) => code::STILL_ATTACHED,
            Self::NotInitialized | Self::NotReady | Self::InitializedTwice => code::INVALID_REQUEST,
            Self::UnknownSession(_) | Self::Resumed => code::INVALID_REQUEST,
            Self::UnknownProcess(_) if defect!(UnknownIsInternal) => code::INTERNAL,
            Self::UnknownProcess(_)
            | Self::Starting(_)
            | Self::Duplicate(_)
            | Self::StartCancelled => code::INVALID_REQUEST,
            Self::UnknownMethod(_) => code::UNKNOWN_METHOD,
            Self::Params(_) | Self::CannotEnforce(_) | Self::CannotConfine(_) => {
                code::INVALID_PARAMS
            }
            Self::File(code, _) => *code,
            Self::StartFailed(_) | Self::HttpFailed(_) | Self::TooMany(_) => code::INTERNAL,
        }
    }

    /// Returns the error of a request for files that is not valid.
    pub(super) fn invalid_file_request(why: impl Into<String>) -> Self {
        Self::File(code::INVALID_REQUEST, why.into())
    }

    /// Renders the answer to the request with this id.
    pub(super) fn answer(&self, id: RequestId) -> String {
        Message::error(id, self.code(), self.to_string()).to_text()
    }
}

impl From<serde_json::Error> for RequestError {
    fn from(error: serde_json::Error) -> Self {
        Self::Params(error.to_string())
    }
}

/// An error of the operating system's files, with the codes of codex 0.169.0.
impl From<std::io::Error> for RequestError {
    fn from(error: std::io::Error) -> Self {
        use std::io::ErrorKind::{InvalidInput, NotFound, PermissionDenied};
        let code = match error.kind() {
            NotFound => code::NOT_FOUND,
            InvalidInput | PermissionDenied => code::INVALID_REQUEST,
            _ => code::INTERNAL,
        };
        Self::File(code, error.to_string())
    }
}
