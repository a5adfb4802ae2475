//! Answers that users of `exec` receive, and observations besides output, as values. The properties
//! check them, and reports render them.

use std::fmt;

use serde::{Serialize, Serializer};

use super::files::FileContent;
use super::sum::Total;
use crate::history::{Answer, Data, Stream};
use reknit_exec::client::Failure;
use reknit_exec::wire::process::ReadResult;

/// Implements the conversions of types into [`Data`].
macro_rules! data {
    ($($type:ty),* $(,)?) => {
        $(impl From<$type> for Data {
            fn from(value: $type) -> Self {
                Data::of(value)
            }
        })*
    };
}

data!(
    FileContent,
    Read,
    StreamTotals,
    WrongAnswer,
    WrongBlock,
    WrongTask,
    WasRunning,
    ExecObservation,
    NotRetained,
    ExecFailure
);

/// The answer to one read: `chunks 3 to 7, next 9, exit 0, closed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Read {
    /// The event after which the read asked, if the operation refers to the last event that the
    /// user received. Otherwise the schedule already contains the number.
    pub(super) after: Option<u64>,
    /// The first and the last event in the answer.
    pub(super) chunks: Option<(u64, u64)>,
    /// The number of the next event.
    pub(super) next: u64,
    pub(super) exit: Option<i32>,
    pub(super) closed: bool,
    /// Whether the server could not observe the process to its end.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) lost: bool,
    /// Whether a sandbox seems to have stopped the process.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) denied: bool,
}

impl Read {
    pub(super) fn of(after: Option<u64>, read: &ReadResult) -> Self {
        let chunks =
            read.chunks.first().zip(read.chunks.last()).map(|(first, last)| (first.seq, last.seq));
        let exit = read.exit_code.filter(|_| read.exited);
        Self {
            after,
            chunks,
            next: read.next_seq,
            exit,
            closed: read.closed,
            lost: read.failure.is_some(),
            denied: read.sandbox_denied,
        }
    }

    /// Returns whether the answer contains no event after `after`.
    pub(super) fn says_nothing_new(&self, after: u64) -> bool {
        self.chunks.is_none() && !self.closed && self.next <= after + 1
    }

    /// Returns the same answer without the event after which the read asked.
    pub(super) fn alone(self) -> Self {
        Self { after: None, ..self }
    }
}

impl fmt::Display for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(after) = self.after {
            write!(f, "after {after}: ")?;
        }
        match self.chunks {
            Some((first, last)) => write!(f, "chunks {first} to {last}")?,
            None => f.write_str("nothing")?,
        }
        write!(f, ", next {}", self.next)?;
        if let Some(code) = self.exit {
            write!(f, ", exit {code}")?;
        }
        let flags = [(self.closed, "closed"), (self.lost, "lost"), (self.denied, "denied")];
        let mut set = flags.iter().filter(|(is_set, _)| *is_set);
        set.try_for_each(|(_, flag)| write!(f, ", {flag}"))
    }
}

/// The totals of a process that was read to its end, by stream: `closed: p1/stdout 340 bytes 0f3a…,
/// p1/stderr 0 bytes …`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct StreamTotals(pub(super) Vec<(Stream, Total)>);

impl StreamTotals {
    /// Returns the number of bytes of all streams.
    pub(super) fn bytes(&self) -> u64 {
        self.0.iter().map(|(_, total)| total.bytes()).sum()
    }
}

impl fmt::Display for StreamTotals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("closed: ")?;
        self.0.iter().enumerate().try_for_each(|(n, (stream, total))| {
            let before = if n == 0 { "" } else { ", " };
            write!(f, "{before}{stream} {total}")
        })
    }
}

/// The refusal of a page-wise read up to the close: how many chunks of the output were not in its answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotRetained(pub(super) u64);

impl fmt::Display for NotRetained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} chunks are no longer retained", self.0)
    }
}

impl Serialize for NotRetained {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The answer to a terminate: whether the process was running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WasRunning(pub(super) bool);

impl fmt::Display for WasRunning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "running: {}", self.0)
    }
}

impl Serialize for WasRunning {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// An answer that is invalid for any read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum WrongAnswer {
    /// The server answered a read that may wait at once, with nothing after this event.
    NothingNew { after: u64 },
    /// The answer contained an event that is not newer than the one before it.
    Backward { event: u64, after: u64 },
    /// The answer contained an event with other bytes than the first time.
    Changed { event: u64 },
    /// A subscription ended because the client did not keep the event after this one.
    NotKept { after: u64 },
    /// A byte stream of a process that failed ended as if it were complete.
    EndOfFailed,
    /// A byte stream accepted bytes behind bytes that were not written.
    WrittenBehindMissing,
    /// The error of a byte stream has another kind than its failure, or another one follows it.
    OtherError,
}

impl fmt::Display for WrongAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingNew { after } => {
                write!(
                    f,
                    "wrong: a long-poll read after event {after} was answered at once, with nothing new"
                )
            }
            Self::Backward { event, after } => {
                write!(f, "wrong: event {event} after event {after}")
            }
            Self::Changed { event } => {
                write!(f, "wrong: event {event} has other bytes than the first time")
            }
            Self::NotKept { after } => {
                write!(f, "wrong: the events after event {after} were not kept for the user")
            }
            Self::WrittenBehindMissing => f.write_str(
                "wrong: a byte stream accepted bytes behind bytes that were not written",
            ),
            Self::OtherError => f.write_str(
                "wrong: the error of a byte stream does not have the kind of its failure",
            ),
            Self::EndOfFailed => {
                f.write_str("wrong: the byte stream of a failed process ended without an error")
            }
        }
    }
}

/// The block of a file at this offset was shorter than requested without the end of the file, or had the
/// end although it was not shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct WrongBlock(pub(super) u64);

impl fmt::Display for WrongBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wrong: the block at {} did not say truly whether the file ends there", self.0)
    }
}

/// An answer to a task with files that is not as the scenario demands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct WrongTask {
    /// The number of the task, from 1.
    pub(super) task: u64,
    /// The answer.
    pub(super) said: String,
    /// The answer that it must be.
    pub(super) wanted: String,
}

impl fmt::Display for WrongTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wrong: task {} said `{}`, not `{}`", self.task, self.said, self.wanted)
    }
}

/// An observation, other than output, of the user of a process or a body, or of the HTTP server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ExecObservation {
    /// The exit, with the number of its event.
    ExitAt(u64),
    /// A second exit.
    ExitAgain { code: i32 },
    /// An event that does not directly follow the previous one.
    Jump { event: u64, after: u64 },
    /// A gap that does not begin with the next event.
    GapFrom { event: u64, after: u64 },
    /// An item after the end of a body.
    AfterTheEnd(String),
    /// The HTTP server received credentials that belong to another origin.
    ForeignCredentials,
    /// The HTTP server received a request with another method than the redirect demands.
    OtherMethod,
    /// The HTTP server received a request whose body has another length than that of its user.
    OtherBody,
    /// The user received a response with another status or length than the HTTP server sent.
    OtherHead,
}

impl fmt::Display for ExecObservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ExitAt(event) => write!(f, "exit as event {event}"),
            Self::ExitAgain { code } => write!(f, "exit {code} after its exit"),
            Self::Jump { event, after } => write!(f, "event {event} after event {after}"),
            Self::GapFrom { event, after } => {
                write!(f, "a gap starts at event {event}, but the last event was {after}")
            }
            Self::AfterTheEnd(what) => write!(f, "{what} after its end"),
            Self::ForeignCredentials => f.write_str("credentials of another origin"),
            Self::OtherMethod => f.write_str("a request with another method"),
            Self::OtherBody => f.write_str("a request with another body"),
            Self::OtherHead => f.write_str("a response with another head"),
        }
    }
}

/// The reason why something failed for a user: the failure that the client returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExecFailure(pub(super) Failure);

impl ExecFailure {
    /// Returns whether `reason` is this failure.
    pub(super) fn is(reason: &Data, failure: &Failure) -> bool {
        reason.downcast_ref::<Self>().is_some_and(|reason| reason.0 == *failure)
    }

    /// Returns whether a process failed because some of its events are missing.
    pub(super) fn is_gap(reason: &Data) -> bool {
        matches!(reason.downcast_ref(), Some(Self(Failure::Gap { .. })))
    }

    /// Returns whether a call was refused because its process has failed: some of its events are
    /// missing, or its own read had no answer.
    pub(super) fn is_of_its_process(refusal: &Data) -> bool {
        matches!(refusal.downcast_ref(), Some(Self(Failure::Gap { .. } | Failure::Unanswered)))
    }

    /// Returns whether the client as a whole has failed.
    pub(super) fn is_of_the_client(reason: &Data) -> bool {
        use Failure::{
            Closed, HandshakeMalformed, HandshakeRefused, RecoveryDeadline, SessionLost,
            WrongSession,
        };
        let failure = reason.downcast_ref::<Self>().map(|reason| &reason.0);
        matches!(
            failure,
            Some(
                RecoveryDeadline
                    | SessionLost(_)
                    | WrongSession
                    | HandshakeRefused { .. }
                    | HandshakeMalformed
                    | Closed
            )
        )
    }

    /// Returns whether the answer reports that the process id is taken. The server has no separate
    /// error code for that.
    pub(super) fn is_taken(answer: &Answer) -> bool {
        match answer.refusal() {
            Some(Self(Failure::IdTaken)) => true,
            Some(Self(Failure::Refused { message, .. })) => message.contains(" is taken"),
            _ => false,
        }
    }
}

impl fmt::Display for ExecFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for ExecFailure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_displays_its_content() {
        let read =
            Read { chunks: Some((3, 7)), next: 9, exit: Some(0), closed: true, ..Read::default() };
        assert_eq!(read.to_string(), "chunks 3 to 7, next 9, exit 0, closed");
        assert_eq!(
            Read { after: Some(2), next: 3, ..Read::default() }.to_string(),
            "after 2: nothing, next 3"
        );
    }

    #[test]
    fn a_closed_process_counts_as_new() {
        let nothing = |next, closed| Read { next, closed, ..Read::default() };
        assert!(nothing(3, false).says_nothing_new(2));
        assert!(!nothing(3, false).says_nothing_new(1));
        assert!(!nothing(3, true).says_nothing_new(2));
    }
}
