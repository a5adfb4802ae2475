//! The notes of the user of a client: values for the things that it sees besides the streams of a
//! command. The properties read them.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::history::{Call, Content, Data};
use reknit_sse::client::{Failure, Loss};
use reknit_sse::server::Counts;
use reknit_sse::wire::{CommandStatus, Cursor, Ending, Gap, OutputStream};

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

data!(SseFailure, SseNote, SeenStatus, SeenLogs, SeenRefusal, SeenEvents);

/// Why a follower failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SseFailure(pub(super) Failure);

impl SseFailure {
    /// Whether another stream of the command was in the way until the end.
    pub(super) fn is_conflict(&self) -> bool {
        self.has_code("STREAM_ACTIVE")
    }

    /// Whether too many commands ran until the end.
    pub(super) fn is_busy(&self) -> bool {
        self.has_code("SERVICE_UNAVAILABLE")
    }

    fn has_code(&self, code: &str) -> bool {
        match &self.0 {
            Failure::NoProgress(Loss::Refused(refused)) | Failure::Refused(refused) => {
                refused.code == code
            }
            _ => false,
        }
    }

    /// Whether the server refused the request, and nothing was in the way.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(
            &self.0,
            Failure::Refused(_)
                | Failure::Expired
                | Failure::AnotherRun
                | Failure::NoProgress(Loss::Refused(_))
        )
    }
}

impl fmt::Display for SseFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for SseFailure {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// Something that a user sees of a command, and that the history has no entry for.
#[derive(Clone, PartialEq)]
pub(super) enum SseNote {
    /// It runs in the shell session with this path.
    RunsIn { call: Call, session: String },
    /// The user asks the shell session with this path to end what it runs.
    Interrupts { call: Call, session: String },
    /// The user deletes the shell session with this path.
    Deletes { call: Call, session: String },
    /// The cursor stood at `position` after an event, and at `after` before it, which is not the position
    /// before.
    NotNext { after: u64, position: u64 },
    /// A gap, when the user had everything up to `after`.
    Gap { after: u64, gap: Gap },
    /// Output after a gap.
    Output { position: u64, pipe: OutputStream, bytes: Content },
    /// The ending after a gap.
    Ended { position: u64, ending: Ending },
    /// A failure after a gap, or of a start that may have taken effect.
    Failed(SseFailure),
    /// The user continues from this cursor.
    Continues(Cursor),
    /// The user asks with this cursor. It knows a run of the command, or not.
    Asks { call: Call, cursor: String, knows_run: bool },
    /// The ending was that the command was killed: because of its time limit, or not.
    Killed { timed_out: bool },
    /// The server said that the command took so many milliseconds.
    Took(u64),
    /// The follower said that the command has ended, but not how.
    EndedSomehow,
    /// An item that followed the ending.
    AfterTheEnding(String),
    /// A follower that had ended or failed said something else when its user asked again.
    SaidAnother { first: String, then: String },
    /// The server deleted the shell session with this path, although it had deleted it before.
    DeletedAgain { session: String },
}

impl SseNote {
    /// Whether a follower returned it as an item.
    pub(super) fn is_item(&self) -> bool {
        matches!(self, Self::Gap { .. } | Self::Output { .. } | Self::Ended { .. })
    }
}

impl fmt::Display for SseNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RunsIn { session, .. } => write!(f, "the user runs it in {session}"),
            Self::Interrupts { session, .. } => write!(f, "the user interrupts {session}"),
            Self::Deletes { session, .. } => write!(f, "the user deletes {session}"),
            Self::NotNext { after, position } => write!(f, "after event {after}: event {position}"),
            Self::Gap { after, gap } => write!(f, "after event {after}: {gap}"),
            Self::Output { position, pipe, bytes } => {
                write!(f, "event {position} ({pipe:?}, {} bytes)", bytes.len())
            }
            Self::Ended { position, ending } => write!(f, "event {position}: {ending:?}"),
            Self::Failed(failure) => write!(f, "failed: {failure}"),
            Self::Continues(cursor) => write!(f, "continues after {cursor}"),
            Self::Asks { cursor, .. } => write!(f, "the user asks with the cursor `{cursor}`"),
            Self::Killed { timed_out: true } => f.write_str("ended because of its time limit"),
            Self::Killed { timed_out: false } => f.write_str("ended by a signal"),
            Self::Took(ms) => write!(f, "the command took {ms} ms"),
            Self::EndedSomehow => f.write_str("ended, and the user does not know how"),
            Self::AfterTheEnding(item) => write!(f, "after the ending: {item}"),
            Self::SaidAnother { first, then } => {
                write!(f, "the follower said {first}, and {then} when it was asked again")
            }
            Self::DeletedAgain { session } => write!(f, "{session} was deleted again"),
        }
    }
}

impl fmt::Debug for SseNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for SseNote {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// The state of a command, as the server reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct SeenStatus(pub(super) CommandStatus);

/// The alternate form (`{:#}`) contains all fields.
impl fmt::Display for SeenStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CommandStatus { last, ending, .. } = &self.0;
        match ending {
            None => write!(f, "running, event {last}")?,
            Some(ending) => write!(f, "ended ({ending:?}), event {last}")?,
        }
        if !f.alternate() {
            return Ok(());
        }
        let CommandStatus { id, content, running, exit_code, error, started_at, .. } = &self.0;
        write!(f, ", {id} (`{content}`) started at {started_at}, runs: {running}")?;
        if let Some(finished_at) = &self.0.finished_at {
            write!(f, ", finished at {finished_at}")?;
        }
        if let Some(code) = exit_code {
            write!(f, ", code {code}")?;
        }
        if error.is_empty() { Ok(()) } else { write!(f, ", error: {error}") }
    }
}

/// The lines that a standard client of server-sent events has read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct SeenEvents(pub(super) String);

impl SeenEvents {
    /// Returns the position in the id of each event that has one, and its own.
    pub(super) fn positions(&self) -> impl Iterator<Item = (u64, u64)> {
        let events = self.0.split("\n\n");
        events.filter_map(|event| {
            let id = event.lines().find_map(|line| line.strip_prefix("id: "))?;
            let json = event.lines().find_map(|line| line.strip_prefix("data: "))?;
            let json: serde_json::Value = serde_json::from_str(json).ok()?;
            Some((id.parse::<Cursor>().ok()?.after, json["eid"].as_u64()?))
        })
    }
}

impl fmt::Display for SeenEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// All logs of a command that one operation has read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct SeenLogs {
    /// The output.
    pub(super) output: String,
    /// The gaps, in order.
    pub(super) gaps: Vec<Gap>,
    /// The cursor after the last page.
    pub(super) next: u64,
    /// Whether the cursor after each page names a run.
    pub(super) has_run: bool,
    /// Whether the user read on until the command had ended.
    pub(super) whole: bool,
}

impl fmt::Display for SeenLogs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of logs up to event {}", self.output.len(), self.next)?;
        for gap in &self.gaps {
            write!(f, ", without {gap}")?;
        }
        f.write_str(if self.whole { ", complete" } else { "" })
    }
}

/// The counts of a server, after each change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerCounted(pub(super) Counts);

impl ServerCounted {
    /// Returns counts as data.
    pub(super) fn data(counts: Counts) -> Data {
        Data::of(Self(counts))
    }
}

impl fmt::Display for ServerCounted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { connections, commands, running, .. } = self.0;
        write!(
            f,
            "the server has {connections} connections, {commands} logs, {running} commands run"
        )
    }
}

impl Serialize for ServerCounted {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct SeenRefusal {
    /// The status code.
    pub(super) status: u16,
    /// The name.
    pub(super) code: String,
}

impl fmt::Display for SeenRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.status, self.code)
    }
}
