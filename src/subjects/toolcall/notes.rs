//! The notes of agents, tools and users in the history, besides streams and calls, as values.
//!
//! The record of a turn, which is its stream, contains notes about tool calls. The record of a
//! channel contains notes about its state, at the host and at its clients.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::contents::Contents;
use crate::history::{Data, Stream};
use crate::subject::Recorder;

/// The author of a note about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// The agent that made the call, at the host.
    Agent,
    /// A user that watches the chat.
    User,
    /// The tool, in the window that runs it.
    Tool,
    /// A second connection of a window, which receives every change on its own.
    Second,
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Agent => "agent",
            Self::User => "user",
            Self::Tool => "tool",
            Self::Second => "second",
        })
    }
}

/// A note about a call: `agent: call-1 is over: completed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OfCall {
    /// The author.
    pub by: By,
    /// The id that the host gave the call, or the number of a question.
    pub call: String,
    /// The event.
    pub what: Became,
}

/// An event in the lifecycle of a call or of a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Became {
    /// The agent starts the call.
    Calls {
        /// The called tool.
        tool: String,
        /// Whether the agent, and not the host, chose the owner.
        of_its_choice: bool,
    },
    /// The agent has completed the parameters.
    Ready {
        /// Whether a user must consent before the call may run.
        asks: bool,
    },
    /// The wait of the agent for permission ended: the call may run, or it must not.
    Permitted(bool),
    /// The agent received the end of the call.
    Over(CallEnd),
    /// A call that the agent made in one step ended, or was refused for this reason. The note is
    /// about the tool: the agent does not learn the id of the call.
    Returns(Result<CallEnd, String>),
    /// The agent stopped waiting.
    GivenUp,
    /// The agent asks a client a question.
    Asks(Question),
    /// The agent receives the answer, or the reason why there is none.
    Hears(Result<String, String>),
    /// The tool reports its work for the call.
    Works(ToolWork),
    /// An observer sees this status.
    Is(Status),
    /// The user approves the call, or denies it.
    Decides(bool),
    /// The user's reply to the request for consent was accepted, or refused for this reason.
    Replies(Result<(), String>),
}

/// A question of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Question {
    /// The client.
    pub client: String,
    /// How long its window needs to answer, in milliseconds.
    pub takes: u64,
    /// Whether the window does not know the question.
    pub is_unknown: bool,
}

/// The work of a tool for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToolWork {
    /// The tool begins.
    Begins,
    /// The tool has finished its work.
    Ends,
    /// The tool was stopped.
    Stopped,
}

/// The end of a call for its agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CallEnd {
    /// With a result.
    Completed,
    /// With this failure, as the text that the model reads.
    Failed(String),
    /// With neither a result nor a failure.
    Cancelled,
}

impl CallEnd {
    /// The status that observers see.
    pub(super) fn status(&self) -> Status {
        match self {
            Self::Completed => Status::Completed,
            Self::Failed(_) => Status::Failed,
            Self::Cancelled => Status::Cancelled,
        }
    }

    /// Returns whether the text asks the model to try again with another client. The protocol has
    /// no other form for that than this text.
    pub(super) fn offers_another(&self) -> bool {
        matches!(self, Self::Failed(why) if why.contains("try again"))
    }
}

/// The status of a call for an observer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Its parameters are not complete.
    Streaming,
    /// The call waits for the user's consent.
    ToBeConfirmed,
    /// The tool may run.
    Running,
    /// The call has a result.
    Completed,
    /// The call failed.
    Failed,
    /// The call was cancelled.
    Cancelled,
    /// None of these.
    SomethingElse,
}

impl Status {
    pub(super) fn is_end(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

impl fmt::Display for OfCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {}", self.by, self.call, self.what)
    }
}

impl fmt::Display for Became {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Calls { tool, of_its_choice } => {
                write!(f, "calls {tool}{}", if *of_its_choice { " of its choice" } else { "" })
            }
            Self::Ready { asks: false } => f.write_str("is ready"),
            Self::Ready { asks: true } => f.write_str("is ready and needs consent"),
            Self::Permitted(true) => f.write_str("is permitted"),
            Self::Permitted(false) => f.write_str("is not permitted"),
            Self::Over(end) => write!(f, "is over: {end}"),
            Self::Returns(Ok(end)) => write!(f, "returns: {end}"),
            Self::Returns(Err(why)) => write!(f, "returns nothing: refused ({why})"),
            Self::GivenUp => f.write_str("is abandoned by its agent"),
            Self::Asks(Question { client, .. }) => write!(f, "asks {client}"),
            Self::Hears(Ok(answer)) => write!(f, "receives an answer: {answer}"),
            Self::Hears(Err(why)) => write!(f, "receives no answer: {why}"),
            Self::Works(work) => work.fmt(f),
            Self::Is(status) => write!(f, "is {status}"),
            Self::Decides(true) => f.write_str("is approved by its user"),
            Self::Decides(false) => f.write_str("is denied by its user"),
            Self::Replies(Ok(())) => f.write_str("has a reply"),
            Self::Replies(Err(why)) => write!(f, "refuses the reply: {why}"),
        }
    }
}

impl fmt::Display for ToolWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Begins => "begins",
            Self::Ends => "ends",
            Self::Stopped => "is stopped",
        })
    }
}

impl fmt::Display for CallEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(why) => write!(f, "failed ({why})"),
            other => other.status().fmt(f),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Streaming => "streaming",
            Self::ToBeConfirmed => "to be confirmed",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::SomethingElse => "something else",
        })
    }
}

impl OfCall {
    /// Adds the note to the record of a turn.
    pub fn note(self, record: &Recorder, turn: &Stream) {
        record.observed(turn, Data::of(self));
    }
}

/// A note about a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OfChannel {
    /// The state has changed.
    Changed,
    /// The state has not changed for a while.
    Stable {
        /// Whether this is the state of a second connection.
        second: bool,
        /// The digest of the state; empty if the channel does not exist.
        digest: String,
        /// The state in the memory of the host; only the host records it.
        #[serde(skip)]
        contents: Option<Contents>,
        /// The number of the last action: the host performed it, or the client saw it. A second
        /// connection does not record it.
        #[serde(skip)]
        number: Option<u64>,
    },
    /// A user begins to watch the channel, and has the state. The host never records this note.
    Received,
    /// A user stopped watching the channel.
    Unsubscribed,
    /// The channel no longer exists.
    Removed,
    /// The session has this title.
    Title(String),
    /// The session lists this chat.
    ContainsChat(String),
    /// Whether the user's client is active in the session; recorded when it changes.
    Joined(bool),
    /// The host's storage contains the channel from now on.
    Stored,
    /// The host's storage does not contain the channel any more.
    Deleted,
    /// The window shows this turn in the chat, although it belongs to another chat.
    ShowsForeignTurn(String),
    /// A session was announced to a connection, with this summary.
    Announced(Value),
    /// The agent of a turn in this chat begins.
    TurnBegan(String),
    /// The agent of a turn in this chat has played its whole script.
    TurnPlayed(String),
    /// The agent of a turn in this chat panics.
    TurnBroken(String),
    /// The host's storage contains this turn of the chat from now on.
    TurnStored(String),
    /// The session lists these chats.
    Lists {
        /// The chats.
        chats: Vec<String>,
        /// The session that a restart of the host would restore.
        #[serde(skip)]
        stored: Option<Contents>,
    },
    /// The session's entry of this chat is not the summary of the chat.
    EntryDiffers(String),
}

impl fmt::Display for OfChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed => f.write_str("state changed"),
            Self::Stable { second: false, digest, .. } => write!(f, "state stable: {digest}"),
            Self::Stable { second: true, digest, .. } => {
                write!(f, "second connection: state stable: {digest}")
            }
            Self::Received => f.write_str("state received"),
            Self::Unsubscribed => f.write_str("unsubscribed"),
            Self::Removed => f.write_str("removed"),
            Self::Title(title) => write!(f, "title {title}"),
            Self::ContainsChat(chat) => write!(f, "contains chat {chat}"),
            Self::Joined(true) => f.write_str("joined"),
            Self::Joined(false) => f.write_str("left"),
            Self::Stored => f.write_str("stored"),
            Self::Deleted => f.write_str("deleted from the storage"),
            Self::TurnBegan(turn) => write!(f, "turn {turn} begins"),
            Self::ShowsForeignTurn(turn) => write!(f, "shows the turn {turn} of another chat"),
            Self::Announced(summary) => write!(f, "announced: {summary}"),
            Self::TurnPlayed(turn) => write!(f, "turn {turn} played"),
            Self::TurnBroken(turn) => write!(f, "the agent of turn {turn} panics"),
            Self::TurnStored(turn) => write!(f, "turn {turn} stored"),
            Self::Lists { chats, .. } => write!(f, "the session lists {}", chats.join(", ")),
            Self::EntryDiffers(chat) => write!(f, "the entry of {chat} differs from the chat"),
        }
    }
}

impl OfChannel {
    /// The state of a client has not changed for a while.
    pub(super) const fn stable(second: bool, digest: String) -> Self {
        Self::Stable { second, digest, contents: None, number: None }
    }

    pub(super) fn note(self, record: &Recorder, channel: &str) {
        record.observed(&Stream::from(channel), Data::of(self));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_of_a_call_is_shown_in_a_line() {
        let shown = |by, what| OfCall { by, call: "call-1".into(), what }.to_string();
        let calls = |of_its_choice| Became::Calls { tool: "t1".into(), of_its_choice };
        assert_eq!(shown(By::Agent, calls(false)), "agent: call-1 calls t1");
        assert_eq!(shown(By::Agent, calls(true)), "agent: call-1 calls t1 of its choice");
        assert_eq!(
            shown(By::Agent, Became::Over(CallEnd::Failed("gone".into()))),
            "agent: call-1 is over: failed (gone)"
        );
        assert_eq!(shown(By::Tool, Became::Works(ToolWork::Stopped)), "tool: call-1 is stopped");
        assert_eq!(
            shown(By::Second, Became::Is(Status::ToBeConfirmed)),
            "second: call-1 is to be confirmed"
        );
    }

    #[test]
    fn a_note_of_a_channel_is_shown_in_a_line() {
        let settles = |second| OfChannel::stable(second, "0f".into()).to_string();
        assert_eq!(
            [settles(false), settles(true)],
            ["state stable: 0f", "second connection: state stable: 0f"]
        );
        assert_eq!(OfChannel::Unsubscribed.to_string(), "unsubscribed");
    }
}
