//! The notes of the app-server about the turns that it played, of the broker about its end, and the
//! tag that names a turn.

use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};
use tokio::time::Instant;

use crate::digest::Digest;
use crate::history::{Call, Data, Stream};
use reknit_turn::broker::BrokerCounts;

/// The name of a turn in a scenario, and the operation that started it. The text of a request contains
/// it: `[turn t1 call 7]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    /// The name.
    pub turn: String,
    /// The operation.
    pub call: Call,
}

impl Default for Tag {
    fn default() -> Self {
        Self { turn: "unknown".to_owned(), call: Call::NONE }
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[turn {} call {}]", self.turn, self.call.0)
    }
}

impl Tag {
    /// Finds the first tag in a text.
    pub fn find(text: &str) -> Option<Self> {
        let (_, rest) = text.split_once("[turn ")?;
        let (tag, _) = rest.split_once(']')?;
        let (turn, call) = tag.split_once(" call ")?;
        Some(Self { turn: turn.to_owned(), call: Call(call.parse().ok()?) })
    }

    /// Returns the stream that contains the notes.
    pub fn stream(&self) -> Stream {
        Stream::from(format!("{}-{}", self.turn, self.call.0).as_str())
    }

    /// Returns the answer of the agent in this turn.
    pub fn answer(&self) -> String {
        format!("The answer. {self}")
    }
}

/// A piece of work that a report lists.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// A command, by its command line.
    Command(String),
    /// A change of a file, by its path.
    Edit(String),
}

/// The pauses between the messages about a turn when it was interrupted, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Silence {
    /// The time since the last message.
    pub now: u64,
    /// The longest pause between two messages, the last such one.
    pub longest: u64,
    /// The time since the end of the longest pause.
    pub ago: u64,
}

/// The times at which messages about a turn leave.
pub struct Sent {
    last: Instant,
    longest: Duration,
    /// The end of the longest pause.
    until: Instant,
}

impl Sent {
    /// The turn starts now.
    pub fn start() -> Self {
        let now = Instant::now();
        Self { last: now, longest: Duration::ZERO, until: now }
    }

    /// A message leaves now.
    pub fn sends(&mut self) {
        let pause = self.last.elapsed();
        self.last = Instant::now();
        // Timers are exact to a millisecond.
        if pause + Duration::from_millis(1) >= self.longest {
            (self.longest, self.until) = (self.longest.max(pause), self.last);
        }
    }

    /// Returns the pauses so far.
    pub fn silence(&self) -> Silence {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Silence {
            now: millis(self.last.elapsed()),
            longest: millis(self.longest),
            ago: millis(self.until.elapsed()),
        }
    }
}

/// An event of a turn, as the app-server really played it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TurnNote {
    /// The command got a thread.
    Thread(String),
    /// The thread of the command is removed.
    Removed(String),
    /// The app-server that is asked for the turn works for this account.
    Account(String),
    /// It refuses to start the turn.
    Refused,
    /// The turn starts.
    Started {
        /// The id.
        turn: String,
        /// The thread.
        thread: String,
    },
    /// The app-server sends the id of the turn for the first time.
    Named,
    /// The agent, or a subagent, completed a piece of work.
    Did(Work),
    /// A command or a subagent of the turn starts to work, while none worked.
    Works,
    /// No command and no subagent of the turn works any more.
    Rests,
    /// The agent answers.
    Answered {
        /// Whether it is a final answer with text.
        is_final: bool,
    },
    /// The app-server has sent more than the client takes: unreadable lines, an unreadable answer to the
    /// start request, or text before it.
    TooMuch,
    /// A client interrupts the turn.
    Interrupted,
    /// The app-server refuses to interrupt the turn, which runs on.
    InterruptRefused,
    /// A client asks for the interrupt of the turn, but it is over.
    InterruptedLate,
    /// A client asks for the interrupt of the turn on a thread that is not its own.
    InterruptedElsewhere,
    /// For how long the app-server had sent nothing about the turn when it was interrupted.
    Silent(Silence),
    /// The app-server reports the end.
    Reported(Reported),
    /// The turn is over, but the app-server does not report it.
    Left,
    /// The app-server plays the turn no longer: the turn is over, or its process ended.
    Gone,
}

/// An event of an app-server as a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AppServerNote {
    /// It answered `initialize`.
    Initialized,
    /// It was killed, or its host died.
    Killed,
    /// It got SIGTERM, although it needs only a moment to end after the end of its input.
    Hurried,
}

/// A line that an app-server got from its client. Of a long line, only the start is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Got(String);

/// The bytes of a line that are kept.
const KEPT: usize = 8 << 10;

impl Got {
    /// Keeps a line, or the start of a long line with its length and its hash.
    pub fn of(line: &str) -> Self {
        if line.len() <= KEPT {
            return Self(line.to_owned());
        }
        let begin: String = line.chars().take(80).collect();
        let mut digest = Digest::default();
        digest.bytes(line.as_bytes());
        Self(format!("{begin}… ({} bytes, {digest})", line.len()))
    }

    /// Returns what is kept of the line.
    pub fn line(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Got {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the app-server gets {}", self.0)
    }
}

impl From<Got> for Data {
    fn from(got: Got) -> Self {
        Data::of(got)
    }
}

/// A text that a user saw: news of a command, its report, a page about jobs, or lines of the broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shown(pub String);

impl Shown {
    /// Returns the stream of the texts that an operation shows.
    pub fn stream(call: Call) -> Stream {
        Stream::from(format!("shown-{}", call.0).as_str())
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the user sees {}", self.0)
    }
}

impl From<Shown> for Data {
    fn from(shown: Shown) -> Self {
        Data::of(shown)
    }
}

/// A client got news of a thread that it does not own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Heard(pub String);

impl Heard {
    /// Returns the stream of such notes about the client of an operation.
    pub fn stream(call: Call) -> Stream {
        Stream::from(format!("heard-{}", call.0).as_str())
    }
}

impl fmt::Display for Heard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the client gets news of {}, which it does not own", self.0)
    }
}

impl From<Heard> for Data {
    fn from(heard: Heard) -> Self {
        Data::of(heard)
    }
}

/// An event of a thread of an app-server, besides those that a turn has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThreadNote {
    /// The thread exists.
    Made(String),
    /// It has a name, is that of a review, or is removed.
    Settled(String),
}

impl fmt::Display for ThreadNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Made(thread) => write!(f, "the app-server has {thread}"),
            Self::Settled(thread) => write!(f, "{thread} is in use or removed"),
        }
    }
}

impl From<ThreadNote> for Data {
    fn from(note: ThreadNote) -> Self {
        Data::of(note)
    }
}

/// An event of the broker of a client's machine, as a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BrokerNote {
    /// It serves its directory.
    Serves,
    /// It does not any more: it ends, or was killed.
    Ended,
}

impl fmt::Display for BrokerNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Serves => "the broker serves its directory",
            Self::Ended => "the broker serves its directory no longer",
        })
    }
}

impl From<BrokerNote> for Data {
    fn from(note: BrokerNote) -> Self {
        Data::of(note)
    }
}

/// The counts of a broker, after each change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerCounted(pub BrokerCounts);

impl fmt::Display for BrokerCounted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BrokerCounts {
            clients,
            requests,
            request_bytes,
            interrupts,
            late_starts,
            turns,
            finished_turns,
            threads,
            unclaimed_bytes,
            outbox_bytes,
        } = self.0;
        write!(
            f,
            "the broker has {clients} clients, {requests} requests ({request_bytes} bytes), "
        )?;
        write!(f, "{interrupts} interrupts, {late_starts} late starts, {turns} turns, ")?;
        write!(f, "{finished_turns} finished turns, {threads} threads, ")?;
        write!(f, "{unclaimed_bytes} unclaimed bytes, {outbox_bytes} bytes for clients")
    }
}

impl Serialize for BrokerCounted {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl BrokerCounted {
    /// Returns counts as data.
    pub fn data(counts: BrokerCounts) -> Data {
        Data::of(Self(counts))
    }
}

/// A broker ended with this exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BrokerExited(pub u8);

impl fmt::Display for AppServerNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Initialized => "the app-server answers `initialize`",
            Self::Killed => "the app-server is killed",
            Self::Hurried => "the app-server gets SIGTERM before it could end",
        })
    }
}

impl From<AppServerNote> for Data {
    fn from(note: AppServerNote) -> Self {
        Data::of(note)
    }
}

impl fmt::Display for BrokerExited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the broker exits with {}", self.0)
    }
}

impl From<BrokerExited> for Data {
    fn from(exited: BrokerExited) -> Self {
        Data::of(exited)
    }
}

/// The status with which the app-server reports the end of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reported {
    /// The turn completed.
    Completed,
    /// The turn failed.
    Failed,
    /// The turn was interrupted.
    Interrupted,
}

impl fmt::Display for TurnNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Thread(thread) => write!(f, "the command has {thread}"),
            Self::Removed(thread) => write!(f, "the app-server removes {thread}"),
            Self::Account(account) => write!(f, "the app-server works for the account {account}"),
            Self::Refused => f.write_str("the app-server refuses the turn"),
            Self::Started { turn, thread } => write!(f, "the app-server starts {turn} on {thread}"),
            Self::Named => f.write_str("the app-server names the turn"),
            Self::Did(Work::Command(command)) => write!(f, "the agent ran {command}"),
            Self::Did(Work::Edit(path)) => write!(f, "the agent changed {path}"),
            Self::Works => f.write_str("the turn has open work"),
            Self::Rests => f.write_str("the turn has no open work"),
            Self::Answered { is_final: true } => f.write_str("the agent gives its final answer"),
            Self::Answered { is_final: false } => {
                f.write_str("the agent answers without a phase or text")
            }
            Self::TooMuch => f.write_str("the app-server has sent more than the client takes"),
            Self::Interrupted => f.write_str("the turn is interrupted"),
            Self::InterruptRefused => f.write_str("the app-server refuses to interrupt the turn"),
            Self::InterruptedElsewhere => f.write_str("an interrupt names another thread"),
            Self::InterruptedLate => f.write_str("an interrupt comes after the end of the turn"),
            Self::Silent(Silence { now, .. }) => {
                write!(f, "the app-server had been silent for {now} ms")
            }
            Self::Reported(Reported::Completed) => f.write_str("the app-server reports: completed"),
            Self::Reported(Reported::Failed) => f.write_str("the app-server reports: failed"),
            Self::Reported(Reported::Interrupted) => {
                f.write_str("the app-server reports: interrupted")
            }
            Self::Left => f.write_str("the app-server leaves the turn without a report"),
            Self::Gone => f.write_str("the app-server has left the turn"),
        }
    }
}

impl From<TurnNote> for Data {
    fn from(note: TurnNote) -> Self {
        Data::of(note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_found_in_a_text() {
        let tag = Tag { turn: "t1".into(), call: Call(7) };
        assert_eq!(Tag::find(&format!("Do it. {tag} Now.")), Some(tag.clone()));
        assert_eq!(tag.stream().0.as_ref(), "t1-7");
        assert_eq!(Tag::find("[turn t1 call x]"), None);
        assert_eq!(Tag::find("none"), None);
    }

    #[test]
    fn a_history_keeps_the_begin_of_a_long_line() {
        let short = "x".repeat(KEPT);
        assert_eq!(Got::of(&short), Got(short.clone()));
        let long = |last: &str| Got::of(&format!("{short}{last}"));
        assert!(long("a").0.ends_with(')') && long("a").0.contains("(8193 bytes, "));
        assert!(long("a").0.len() < 200);
        assert_ne!(long("a"), long("b"));
    }
}
