//! What agents, tools and users note in the history besides streams and calls: one line each, written and read here.
//!
//! Of a turn (its record is the stream): what became of its tool calls. Of a channel: how its state is, here and there.

use std::fmt;

use crate::history::Stream;
use crate::subject::Recorder;

/// Who notes something of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// The agent that called, at the host.
    Agent,
    /// A user who looks at the chat.
    User,
    /// The tool, in the window that runs it.
    Tool,
    /// A second connection of a window, which sees every change by itself.
    Second,
}

impl By {
    const ALL: [(&'static str, Self); 4] =
        [("agent: ", Self::Agent), ("user: ", Self::User), ("tool: ", Self::Tool), ("second: ", Self::Second)];

    fn before(self) -> &'static str {
        Self::ALL.iter().find(|(_, by)| *by == self).map_or("", |(before, _)| before)
    }
}

/// A note of a call: `agent: call-1 is over: completed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OfCall<'n> {
    pub(super) by: By,
    /// What the host calls it.
    pub(super) call: &'n str,
    /// What became of it.
    pub(super) what: &'n str,
}

/// What an agent notes when it begins a call; behind it stands the tool.
pub(super) const CALLS: &str = "calls ";
/// What stands behind that where the agent, and not the host, chose who is to run it.
pub(super) const OF_ITS_CHOICE: &str = " of its choice";
/// What a tool notes when it begins.
pub(super) const BEGINS: &str = "begins";
/// What an agent notes when the parameters are complete.
pub(super) const READY: &str = "is ready";
/// What an agent notes when it was told the end of a call; behind it stands how it ended.
pub(super) const OVER: &str = "is over: ";
/// What an agent notes when it does not wait any longer.
pub(super) const GIVEN_UP: &str = "is waited for no longer";
/// What a tool notes when it has done its work.
pub(super) const ENDS: &str = "ends";
/// What a tool notes when it is stopped.
pub(super) const STOPPED: &str = "is stopped";
/// What an agent notes of a question; the call is the number of the question.
pub(super) const ASKS: &str = "asks ";
/// What an agent notes of its answer.
pub(super) const HEARS: &str = "hears ";

impl fmt::Display for OfCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{} {}", self.by.before(), self.call, self.what)
    }
}

impl<'n> OfCall<'n> {
    /// Reads a note, if it is one of a call.
    pub(super) fn read(note: &'n str) -> Option<Self> {
        let (by, rest) = By::ALL.iter().find_map(|(before, by)| Some((*by, note.strip_prefix(before)?)))?;
        let (call, what) = rest.split_once(' ')?;
        Some(Self { by, call, what })
    }

    pub(super) fn note(self, record: &Recorder, turn: &Stream) {
        record.saw(turn, self.to_string());
    }
}

/// A note of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OfChannel<'n> {
    /// Its state has changed.
    Stirs,
    /// Its state has been like this for a while; `second` on a second connection.
    Settles { second: bool, digest: &'n str },
    /// Its user looks at it from now on, and knows its state; nobody notes it at the host.
    Known,
    /// Its user does not look at it any more.
    LetGo,
    /// It is not there any more.
    Gone,
    /// A session has this title.
    Title(&'n str),
    /// A session has this chat.
    Lists(&'n str),
}

impl fmt::Display for OfChannel<'_> {
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
        }
    }
}

impl<'n> OfChannel<'n> {
    /// Reads a note, if it is one of a channel.
    pub(super) fn read(note: &'n str) -> Option<Self> {
        match note {
            "stirs" => return Some(Self::Stirs),
            "known" => return Some(Self::Known),
            "let go" => return Some(Self::LetGo),
            "gone" => return Some(Self::Gone),
            _ => {}
        }
        let settles = |second| move |digest| Self::Settles { second, digest };
        (note.strip_prefix("settles ").map(settles(false)))
            .or_else(|| note.strip_prefix("second settles ").map(settles(true)))
            .or_else(|| note.strip_prefix("title ").map(Self::Title))
            .or_else(|| note.strip_prefix("lists ").map(Self::Lists))
    }

    pub(super) fn note(&self, record: &Recorder, channel: &str) {
        record.saw(&Stream::from(channel), self.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_read_again() {
        let of_call = OfCall { by: By::Tool, call: "call-1", what: "is over: failed (gone)" };
        assert_eq!(OfCall::read(&of_call.to_string()), Some(of_call));
        for note in [
            OfChannel::Stirs,
            OfChannel::Settles { second: false, digest: "0f" },
            OfChannel::Settles { second: true, digest: "0f" },
            OfChannel::Known,
            OfChannel::LetGo,
            OfChannel::Gone,
            OfChannel::Title("client 7"),
            OfChannel::Lists("n7"),
        ] {
            assert_eq!(OfChannel::read(&note.to_string()), Some(note.clone()));
        }
        assert_eq!((OfCall::read("stirs"), OfChannel::read("agent: call-1 begins")), (None, None));
    }
}
