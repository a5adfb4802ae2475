//! Answers that users of `toolcall` receive, as values, for those that a property checks.

use std::fmt;

use serde::{Serialize, Serializer};

use super::contents::shown;
use crate::history::{Answer, Coded, Data};
use reknit_toolcall::client::Failure;
use reknit_toolcall::wire::SnapshotState;

/// The result of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Did {
    /// The session has this title.
    Named(String),
    /// A chat with this name exists.
    Made(String),
    /// This turn began.
    Began(String),
    /// The state of a channel, as a user reads it.
    Reads(Reading),
    /// The host accepted a forgery.
    Forged,
    /// The host believed a false claim: it replayed the missed actions although the claimed state
    /// does not exist.
    CaughtUp,
}

/// The state of a channel, as a user reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reading {
    /// The state as text.
    pub text: String,
    /// The title of the session.
    pub title: Option<String>,
}

impl Reading {
    /// Reads a state.
    pub(super) fn of(state: &SnapshotState) -> Self {
        let title = match state {
            SnapshotState::Session(session) => Some(session.title.clone()),
            _ => None,
        };
        Self { text: shown(state), title }
    }
}

impl fmt::Display for Did {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(title) => write!(f, "named {title}"),
            Self::Made(chat) => write!(f, "made {chat}"),
            Self::Began(turn) => write!(f, "began {turn}"),
            Self::Reads(reading) => f.write_str(&reading.text),
            Self::Forged => f.write_str("forged"),
            Self::CaughtUp => f.write_str("caught up by a replay"),
        }
    }
}

impl From<Did> for Data {
    fn from(did: Did) -> Self {
        Self::of(did)
    }
}

/// The reason why the host refused an action, as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rejected(pub String);

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Rejected> for Data {
    fn from(why: Rejected) -> Self {
        Self::of(why)
    }
}

/// The reason why something failed for a user: the failure that the client returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ToolcallFailure(pub(super) Failure);

impl fmt::Display for ToolcallFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for ToolcallFailure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// Converts a failure into an answer. A refusal counts as an answer, because the protocol requires
/// an answer.
///
/// # Errors
/// The reason, if the failure is not a refusal.
pub(super) fn refusal(failure: Failure) -> Result<Answer, Data> {
    use Failure::{Full, Gone, Refused, Rejected as Turned, Unsubscribed};
    match failure {
        Turned(why) => Ok(Answer::refused(Rejected(why))),
        Refused { code, message } => Ok(Answer::refused(Data::of(Coded { code, message }))),
        failure @ (Gone | Full | Unsubscribed) => {
            Ok(Answer::refused(Data::of(ToolcallFailure(failure))))
        }
        failure => Err(Data::of(ToolcallFailure(failure))),
    }
}

/// The reason of a user that asks nothing of its client, because its window runs no call in the state
/// that the operation needs.
pub(super) const NO_SUCH_CALL: &str = "the window has no such call";

/// The reason of a refusal, as far as a property distinguishes reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason<'a> {
    /// The channel does not exist.
    NoChannel,
    /// Too many requests or actions of the client wait.
    Full,
    /// The user unsubscribed before the answer arrived.
    Unsubscribed,
    /// The reason is this text.
    Text(&'a str),
}

/// Returns the reason of a refusal that comes from the client or the host.
pub(super) fn reason(why: &Data) -> Option<Reason<'_>> {
    match why.downcast_ref().map(|ToolcallFailure(failure)| failure) {
        Some(Failure::Gone) => Some(Reason::NoChannel),
        Some(Failure::Full) => Some(Reason::Full),
        Some(Failure::Unsubscribed) => Some(Reason::Unsubscribed),
        _ if words(why).is_empty() => None,
        _ => Some(Reason::Text(words(why))),
    }
}

/// The text of a refusal. The protocol has no other form for the reason.
fn words(why: &Data) -> &str {
    let rejected = why.downcast_ref::<Rejected>().map(|rejected| &rejected.0);
    rejected.or(why.downcast_ref::<Coded>().map(|error| &error.message)).map_or("", String::as_str)
}

/// Returns the error code of a refusal, and its text.
pub(super) fn coded(why: &Data) -> Option<(i64, &str)> {
    why.downcast_ref::<Coded>().map(|error| (error.code, error.message.as_str()))
}

/// Returns whether the host refused because the channel does not exist.
pub(super) fn is_of_no_channel(why: &Data) -> bool {
    matches!(why.downcast_ref(), Some(ToolcallFailure(Failure::Gone)))
        || words(why).ends_with("no such channel")
}

/// Returns whether the host refused because a token is missing.
pub(super) fn wants_a_token(answer: &Answer) -> bool {
    matches!(answer, Answer::Refused(why) if words(why).contains("a token is required"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_an_answer_with_the_text_of_the_client() {
        let coded =
            || Failure::Refused { code: -32003, message: "there is no such channel".into() };
        for failure in [Failure::Rejected("no such channel".into()), coded()] {
            let shown = failure.to_string();
            let answer = refusal(failure).unwrap();
            assert_eq!(answer.to_string(), shown);
            assert!(matches!(answer, Answer::Refused(why) if is_of_no_channel(&why)));
        }
        assert_eq!(
            refusal(Failure::Full).unwrap().to_string(),
            "refused: too many requests or actions are waiting"
        );
        assert_eq!(refusal(Failure::Late), Err(Data::of(ToolcallFailure(Failure::Late))));
    }
}
