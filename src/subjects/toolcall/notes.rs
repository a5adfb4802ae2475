//! What agents, tools and users note in the history besides streams and calls, as values.
//!
//! Of a turn (its record is the stream): what became of its tool calls. Of a channel: how its state is, here and there.

use std::fmt;

use serde::Serialize;

use crate::history::{Data, Stream};
use crate::subject::Recorder;

/// Who notes something of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// The agent that called, at the host.
    Agent,
    /// A user who looks at the chat.
    User,
    /// The tool, in the window that runs it.
    Tool,
    /// A second connection of a window, which sees every change by itself.
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

/// A note of a call: `agent: call-1 is over: completed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OfCall {
    /// Who notes it.
    pub by: By,
    /// What the host calls it; the number of a question.
    pub call: String,
    /// What became of it.
    pub what: Became,
}

/// What became of a call or of a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Became {
    /// An agent begins it.
    Calls {
        /// What is to run.
        tool: String,
        /// Whether the agent, and not the host, chose who is to run it.
        of_its_choice: bool,
    },
    /// An agent knows that its parameters are complete.
    Ready,
    /// An agent was told its end.
    Over(CallEnd),
    /// An agent does not wait any longer.
    GivenUp,
    /// An agent asks this client something.
    Asks(String),
    /// An agent hears the answer, or why there is none.
    Hears(Result<String, String>),
    /// What a tool does for it.
    Works(ToolWork),
    /// How it is for somebody who looks.
    Is(Status),
}

/// What a tool does for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToolWork {
    /// It begins.
    Begins,
    /// It has done its work.
    Ends,
    /// It is stopped.
    Stopped,
}

/// How a call ended for its agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CallEnd {
    /// With a result.
    Completed,
    /// With this failure, in the words that the model reads.
    Failed(String),
    /// Without either.
    Cancelled,
}

impl CallEnd {
    /// How it is for somebody who looks.
    pub(super) fn status(&self) -> Status {
        match self {
            Self::Completed => Status::Completed,
            Self::Failed(_) => Status::Failed,
            Self::Cancelled => Status::Cancelled,
        }
    }

    /// Whether the model is told to try again with another client. The protocol has no other form of that than these words.
    pub(super) fn offers_another(&self) -> bool {
        matches!(self, Self::Failed(why) if why.contains("try again"))
    }
}

/// How a call is for somebody who looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Its parameters are not complete.
    Streaming,
    /// It waits for a consent.
    ToBeConfirmed,
    /// It may run.
    Running,
    /// It has a result.
    Completed,
    /// It has failed.
    Failed,
    /// It was cancelled.
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
            Self::Ready => f.write_str("is ready"),
            Self::Over(end) => write!(f, "is over: {end}"),
            Self::GivenUp => f.write_str("is waited for no longer"),
            Self::Asks(client) => write!(f, "asks {client}"),
            Self::Hears(Ok(answer)) => write!(f, "hears an answer: {answer}"),
            Self::Hears(Err(why)) => write!(f, "hears of none: {why}"),
            Self::Works(work) => work.fmt(f),
            Self::Is(status) => write!(f, "is {status}"),
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
    /// Writes it into the record of a turn.
    pub fn note(self, record: &Recorder, turn: &Stream) {
        record.saw(turn, Data::of(self));
    }
}

/// A note of a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OfChannel {
    /// Its state has changed.
    Stirs,
    /// Its state has been like this for a while.
    Settles {
        /// Whether it is what a second connection knows.
        second: bool,
        /// What the state comes to; nothing where there is no such channel.
        digest: String,
    },
    /// Its user looks at it from now on, and knows its state; nobody notes it at the host.
    Known,
    /// Its user does not look at it any more.
    LetGo,
    /// It is not there any more.
    Gone,
    /// A session has this title.
    Title(String),
    /// A session has this chat.
    Lists(String),
    /// Whether the user's client is active in a session, which it was not before, or was.
    TakesPart(bool),
}

impl fmt::Display for OfChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stirs => f.write_str("stirs"),
            Self::Settles { second: false, digest } => write!(f, "settles {digest}"),
            Self::Settles { second: true, digest } => write!(f, "second settles {digest}"),
            Self::Known => f.write_str("known"),
            Self::LetGo => f.write_str("let go"),
            Self::Gone => f.write_str("gone"),
            Self::Title(title) => write!(f, "title {title}"),
            Self::Lists(chat) => write!(f, "lists {chat}"),
            Self::TakesPart(true) => f.write_str("takes part"),
            Self::TakesPart(false) => f.write_str("takes part no more"),
        }
    }
}

impl OfChannel {
    pub(super) fn note(self, record: &Recorder, channel: &str) {
        record.saw(&Stream::from(channel), Data::of(self));
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
        let settles = |second| OfChannel::Settles { second, digest: "0f".into() }.to_string();
        assert_eq!([settles(false), settles(true)], ["settles 0f", "second settles 0f"]);
        assert_eq!(OfChannel::LetGo.to_string(), "let go");
    }
}
