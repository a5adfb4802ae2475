//! The answers that are not a success.
//!
//! execd answers with a status code and a body `{"code": …, "message": …}`. Most of its codes are
//! `INVALID_REQUEST_BODY`. Here each refusal has its own code, unless execd has one that says the same.
//! So a client knows whether it should repeat the request. All status codes
//! are those of execd where it has the case.

use std::time::Duration;

use reknit_seams::defect;
use serde::{Deserialize, Serialize};

use super::{AgeQuestion, CommandId, CursorError, InvalidRequest, MalformedCursor, MalformedOwner};

/// Why a request has no effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The body of a start is wrong.
    #[error("{0}")]
    Invalid(#[from] InvalidRequest),
    /// A parameter is missing.
    #[error("the parameter {0} is missing")]
    Missing(&'static str),
    /// The cursor is not a cursor.
    #[error("{0}")]
    MalformedCursor(#[from] MalformedCursor),
    /// The cursor is not one of this run, or not yet.
    #[error("{0}")]
    Cursor(#[from] CursorError),
    /// The header with the owner is wrong.
    #[error("the header x-reknit-owner: {0}")]
    MalformedOwner(#[from] MalformedOwner),
    /// The server cannot do what the request asks for.
    #[error("{0}")]
    NotSupported(&'static str),
    /// The command belongs to a shell session, whose output is not kept.
    #[error("command {0} belongs to a shell session: its output cannot be resumed")]
    NotResumable(CommandId),
    /// The request is for background commands only.
    #[error("command {0} does not run in the background")]
    NotBackground(CommandId),
    /// The access token is wrong or missing.
    #[error("Unauthorized: invalid or missing header X-EXECD-ACCESS-TOKEN")]
    Unauthorized,
    /// The server does not know the command.
    #[error("there is no command {0}")]
    UnknownCommand(CommandId),
    /// The server cannot know whether it is older than this repeated start: the connection may have been
    /// long on its way. The client sends the start again, with its new age.
    #[error("the start of command {id} may be older than this server: repeat it with its age")]
    TooEarly {
        /// The command.
        id: CommandId,
        /// The question. The client sends it back with the age.
        question: AgeQuestion,
    },
    /// The server does not know the shell session.
    #[error("there is no session {0}")]
    UnknownSession(String),
    /// The command has ended, and its output is no longer kept.
    #[error("command {0} has ended, and its output is no longer kept")]
    Expired(CommandId),
    /// Another stream of this command makes progress.
    #[error("another stream of command {id} is active; try again in {} ms", retry.as_millis())]
    Active {
        /// The command.
        id: CommandId,
        /// When the other stream is considered dead if it makes no progress until then.
        retry: Duration,
    },
    /// The client has made a later request for the same stream.
    #[error("a later request of the same client has the stream of command {0}")]
    Superseded(CommandId),
    /// The id of a start is in use for another command.
    #[error("operation_id {0} was used for another command")]
    IdInUse(CommandId),
    /// The command that should be interrupted has ended.
    #[error("command {0} is not running")]
    NotRunning(CommandId),
    /// A shell session runs one command at a time.
    #[error("session {0} is busy with another command")]
    SessionBusy(String),
    /// The server has no room for another one of these.
    #[error("the server has too many {0}")]
    TooMany(&'static str),
    /// The body is larger than the server accepts.
    #[error("the body is larger than {0} bytes")]
    BodyTooLarge(usize),
    /// The body did not arrive in time.
    #[error("the body did not arrive within {} ms", .0.as_millis())]
    BodyTooSlow(Duration),
    /// There is no such path.
    #[error("there is no such path")]
    UnknownPath,
    /// The path does not have this method.
    #[error("the path does not have this method")]
    WrongMethod,
}

/// The body of a refusal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusalBody {
    /// A name for programs.
    #[serde(default)]
    pub code: String,
    /// A sentence for people.
    #[serde(default)]
    pub message: String,
    /// An extension: after how many milliseconds a repetition may succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// An extension: the [question](AgeQuestion) that a client answers with the age of its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_asked: Option<String>,
    /// An extension in some refusals that may pass: the server has not performed the request, and will not. A
    /// proxy that answers for a server does not know that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_effect: bool,
}

/// The code of a request that is wrong in itself.
const INVALID: &str = "INVALID_REQUEST_BODY";

impl Refusal {
    /// Returns the status code of the answer.
    pub fn status(&self) -> u16 {
        self.row().0
    }

    /// Returns the name of the refusal for programs.
    pub fn code(&self) -> &'static str {
        self.row().1
    }

    fn row(&self) -> (u16, &'static str) {
        match self {
            Self::Invalid(_) | Self::MalformedOwner(_) | Self::NotBackground(_) => (400, INVALID),
            Self::Missing(_) => (400, "MISSING_QUERY"),
            Self::MalformedCursor(_) => (400, "CURSOR_MALFORMED"),
            Self::Cursor(CursorError::Foreign { .. }) => (400, "CURSOR_FOREIGN"),
            Self::Cursor(CursorError::Future { .. }) => (400, "CURSOR_FUTURE"),
            Self::NotSupported(_) => (400, "NOT_SUPPORTED"),
            Self::NotResumable(_) => (400, "NOT_RESUMABLE"),
            Self::Unauthorized => (401, "UNAUTHORIZED"),
            Self::UnknownCommand(_) => (404, "COMMAND_NOT_FOUND"),
            Self::UnknownSession(_) => (404, "CONTEXT_NOT_FOUND"),
            Self::Expired(_) => (404, "COMMAND_EXPIRED"),
            Self::UnknownPath => (404, "PATH_NOT_FOUND"),
            Self::WrongMethod => (405, "METHOD_NOT_ALLOWED"),
            Self::BodyTooSlow(_) => (408, "BODY_TOO_SLOW"),
            Self::Active { .. } => (409, "STREAM_ACTIVE"),
            Self::Superseded(_) => (409, "STREAM_SUPERSEDED"),
            Self::IdInUse(_) => (409, "OPERATION_ID_IN_USE"),
            Self::NotRunning(_) => (409, "NOT_RUNNING"),
            Self::SessionBusy(_) => (409, "SESSION_BUSY"),
            Self::BodyTooLarge(_) => (413, "BODY_TOO_LARGE"),
            Self::TooEarly { .. } => (425, "START_TOO_EARLY"),
            Self::TooMany(_) => (503, "SERVICE_UNAVAILABLE"),
        }
    }

    /// Returns after what time a repetition may succeed; `None` if the server does not know it.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Active { retry, .. } => Some(*retry),
            _ => None,
        }
    }

    /// Whether a client may repeat the request as if it had not sent it. The command of a start runs before
    /// the server refuses its stream because of another reader. Other refusals do not pass, so their clients
    /// repeat nothing.
    fn has_no_effect(&self) -> bool {
        let is_behind_a_reader = matches!(self, Self::Active { .. } | Self::Superseded(_));
        matches!(self, Self::BodyTooSlow(_) | Self::TooEarly { .. } | Self::TooMany(_))
            || is_behind_a_reader && defect!(ReadersUndoTheStart)
    }

    /// Returns the question for the age of a start.
    fn age_asked(&self) -> Option<String> {
        match self {
            Self::TooEarly { question, .. } => Some(question.to_string()),
            _ => None,
        }
    }

    /// Returns the JSON of the answer.
    pub fn to_json(&self) -> String {
        if *self == Self::Unauthorized {
            return serde_json::json!({ "error": self.to_string() }).to_string();
        }
        let body = RefusalBody {
            code: self.code().to_owned(),
            message: self.to_string(),
            retry_after_ms: self.retry_after().map(|retry| retry.as_millis() as u64),
            age_asked: self.age_asked(),
            no_effect: self.has_no_effect(),
        };
        serde_json::to_string(&body).expect("the fields are plain data")
    }
}

#[cfg(test)]
mod tests {
    use super::super::Epoch;
    use super::*;

    #[test]
    fn the_three_refusals_of_a_cursor_differ() {
        let refusals = [
            Refusal::from("x".parse::<super::super::Cursor>().unwrap_err()),
            CursorError::Foreign { theirs: Epoch(1), ours: Epoch(2) }.into(),
            CursorError::Future { after: 2, last: 1 }.into(),
        ];
        assert_eq!(
            refusals.each_ref().map(|refusal| (refusal.status(), refusal.code())),
            [(400, "CURSOR_MALFORMED"), (400, "CURSOR_FOREIGN"), (400, "CURSOR_FUTURE")]
        );
    }

    #[test]
    fn a_refusal_tells_programs_and_people_what_to_do() {
        let retry = Duration::from_millis(2500);
        let refusal = Refusal::Active { id: "c1".parse().unwrap(), retry };
        let body: RefusalBody = serde_json::from_str(&refusal.to_json()).unwrap();
        assert_eq!((refusal.status(), body.retry_after_ms), (409, Some(2500)));
        assert!(!body.no_effect, "the command of a start has begun");
        assert_eq!(body.code, "STREAM_ACTIVE");
        assert_eq!(body.message, "another stream of command c1 is active; try again in 2500 ms");
    }

    #[test]
    fn a_refusal_for_lack_of_room_had_no_effect() {
        let refusal = Refusal::TooMany("running commands");
        let body: RefusalBody = serde_json::from_str(&refusal.to_json()).unwrap();
        assert!(body.no_effect);
    }

    #[test]
    fn a_missing_token_is_reported_as_execd_reports_it() {
        assert_eq!(Refusal::Unauthorized.status(), 401);
        assert_eq!(
            Refusal::Unauthorized.to_json(),
            r#"{"error":"Unauthorized: invalid or missing header X-EXECD-ACCESS-TOKEN"}"#
        );
    }

    #[test]
    fn the_body_of_an_original_execd_is_understood() {
        let body: RefusalBody =
            serde_json::from_str(r#"{"code":"INVALID_REQUEST_BODY","message":"m"}"#).unwrap();
        assert_eq!((body.code.as_str(), body.retry_after_ms), (INVALID, None));
        assert!(!body.no_effect);
    }
}
