//! The record of a run: all that was seen in it, in order, with virtual times.
//!
//! Two hands write it, and neither trusts the protocol's own word: the simulated outside world (what was really produced,
//! which effects took place, what the network and the faults did) and the driver of the client's user (what was delivered,
//! how calls ended). Properties are predicates over it; the story and the picture are drawn from it.
//!
//! - [`Event`], [`EventKind`]: one entry.
//! - [`Stream`], [`Call`]: what entries are about.
//! - [`ConnIndex`], [`Connection`], [`Packet`], [`Scope`]: what entries say of the network and its faults.
//! - [`Content`]: what an item consists of. [`Data`]: outcomes, reasons, and what a user saw. [`Answer`]: how a call came back.
//! - [`Digest`]: the chained digest by which two runs are compared.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Serialize, Serializer};

pub use crate::digest::Digest;
pub use crate::schedule::Side;
use crate::schedule::{Conn, Fault, Host, MilestoneValue, Operation, Which};

mod answer;
pub mod content;
mod data;
mod network;

pub use answer::{Answer, Coded};
pub use content::Content;
pub use data::{Data, Fact, PlainText, ProcessOutcome};
pub use network::{ConnEnd, ConnIndex, Connection, Fate, Flags, Nature, Packet, Scope};

/// A moment of virtual time: whole milliseconds since the start of the world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// The start of the world.
    pub const ZERO: Time = Time(0);

    /// The time that has passed since an earlier moment; zero if it is later.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// The moment this long before; the start of the world if there was none.
    pub fn before(self, by: Duration) -> Time {
        Time(self.0.saturating_sub(u64::try_from(by.as_millis()).unwrap_or(u64::MAX)))
    }
}

impl From<Duration> for Time {
    fn from(since_start: Duration) -> Self {
        Time(since_start.as_millis() as u64)
    }
}

impl std::ops::Add<Duration> for Time {
    type Output = Time;

    fn add(self, after: Duration) -> Time {
        Time(self.0.saturating_add(after.as_millis() as u64))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}.{:03} s", self.0 / 1000, self.0 % 1000))
    }
}

/// A stream of bytes that flows from a server's outside world to a client's user: `s1`, `p1/stdout`. An upload is the stream of its
/// acknowledgements.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stream(pub Arc<str>);

impl From<&str> for Stream {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl Serialize for Stream {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The number of a call: one operation that was asked for, from 1, in order of asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call(pub u64);

impl Call {
    /// Stands for no call. In an effect: the outside world cannot tell which call asked for it. In the opening of a stream: the
    /// opening answers no call.
    pub const NONE: Call = Call(0);
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call {}", self.0)
    }
}

/// What the protocol promises of an operation. [`Operations::class`](crate::subject::Operations::class) has the choice as a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Survives a dropped connection: the client asks again, or resumes. It may fail only where the faults of the run, the
    /// retention of the server or the user left no other way. Example: to follow a log; to add to a counter under an id.
    Durable,
    /// May fail if its connection died between request and reply. The user does not know then whether it took effect. Example: a
    /// request that the client does not send again.
    InFlight,
    /// Dies with its connection: within a second, the user learns of it. So does a stream that it opened. Example: a lock that the
    /// server releases when the connection is lost.
    Bound,
}

/// One entry.
#[derive(Clone, Debug)]
pub struct Event {
    /// When.
    pub at: Time,
    /// On which host, if on one.
    pub host: Option<Host>,
    /// What.
    pub what: EventKind,
}

// A run may have tens of thousands of them: what is large and rare is boxed.
const _: () = assert!(size_of::<Event>() <= 96);

/// What an entry says.
#[derive(Clone, Debug)]
pub enum EventKind {
    // -- the truth, from the outside world ---------------------------------------------------------------------------
    /// A stream's producer really wrote these bytes, as one item.
    Produced {
        /// The stream.
        stream: Stream,
        /// The item.
        bytes: Content,
    },
    /// A stream's producer really ended, with this outcome.
    Ended {
        /// The stream.
        stream: Stream,
        /// `exit 7`, `total 60`: whatever the subject calls the outcome.
        outcome: Data,
    },
    /// A mutating operation really took effect.
    Effect {
        /// The call that asked for it, where the outside world can tell.
        call: Call,
        /// On what it took effect: effects on one target must come in the order of issue.
        target: String,
    },

    // -- what the client's user saw ------------------------------------------------------------------------------------
    /// The user asked for an operation.
    Asked {
        /// Its number.
        call: Call,
        /// What was asked for.
        operation: Box<Operation>,
        /// What the protocol promises of it.
        class: Class,
    },
    /// The call came back with a result.
    Answered {
        /// Its number.
        call: Call,
        /// The answer.
        answer: Answer,
    },
    /// The call came back with a failure.
    Failed {
        /// Its number.
        call: Call,
        /// The reason.
        reason: Data,
    },
    /// A stream was opened by a call: from now on its items are owed to this host.
    Opened {
        /// The stream.
        stream: Stream,
        /// The call.
        call: Call,
    },
    /// An item came out of a stream.
    Delivered {
        /// The stream.
        stream: Stream,
        /// The item.
        bytes: Content,
        /// The generation over which it came, if the client tells.
        generation: Option<u64>,
    },
    /// A stream ended for its user. It may be asked again, and then this stands here again.
    StreamEnded {
        /// The stream.
        stream: Stream,
        /// How.
        ending: Ending,
    },
    /// The user saw something of a stream that only a property of the subject's own can judge: `event 5 after event 3`.
    Saw {
        /// The stream.
        stream: Stream,
        /// What.
        saw: Data,
    },
    /// The user closed a stream or the client by an operation of its own: what ends by it is justified.
    GaveUp {
        /// The stream; all streams of this host where none is given.
        stream: Option<Stream>,
        /// The call.
        call: Call,
    },

    // -- the network, the hosts, the schedule --------------------------------------------------------------------------
    /// A host's root was started.
    Started,
    /// A host died. With `kernel`, its kernel died with it.
    Died {
        /// Whether it was a power loss.
        kernel: bool,
    },
    /// A step of the schedule was carried out.
    Stepped {
        /// Its number in the schedule, from 0.
        step: usize,
        /// What came of it, where that is not plain: `no such connection yet`.
        note: Option<String>,
    },
    /// A fault came into force. Its number is unique in the run.
    FaultBegan {
        /// Its number.
        fault: usize,
        /// The step that brought it.
        step: usize,
        /// The fault.
        what: Box<Fault>,
        /// Where it is in force.
        scope: Box<Scope>,
        /// What it does to what is in its scope.
        nature: Nature,
        /// How many bytes of payload were on their way there, in both directions.
        in_flight: u32,
    },
    /// A fault is over: nothing is in force any more, what it held has arrived, and each end of a connection that it killed
    /// has learned of it, by the fault or by its own detection.
    FaultEnded {
        /// Its number.
        fault: usize,
    },
    /// A connection was opened by its client (its SYN was sent).
    ConnOpened {
        /// Which.
        conn: ConnIndex,
    },
    /// A connection is established at one end.
    ConnUp {
        /// Which.
        conn: ConnIndex,
        /// At which end.
        side: Side,
    },
    /// One end of a connection is over for its user.
    ConnOver {
        /// Which.
        conn: ConnIndex,
        /// At which end.
        side: Side,
        /// How.
        how: ConnEnd,
    },
    /// A segment was sent, and what became of it (kept in detailed histories only).
    Packet(Packet),
    /// A whole message was handed to a connection, as the subject's dissector reads it (kept in detailed histories only).
    Message {
        /// On which connection.
        conn: ConnIndex,
        /// By which end.
        from: Side,
        /// Its name: `process/read p1 after 40`.
        label: String,
        /// The byte of the direction with which it ends, counted from 1.
        end: u64,
        /// When its last byte was delivered, once it was.
        delivered: Option<Time>,
    },
    /// Product code passed a milestone.
    Milestone {
        /// Its name.
        name: &'static str,
        /// Its fields, in order.
        fields: Arc<[(&'static str, MilestoneValue)]>,
    },
    /// A task passed a point, or was held there.
    Point {
        /// Its name.
        name: &'static str,
        /// Its fields, in order.
        fields: Arc<[(&'static str, MilestoneValue)]>,
        /// Whether the schedule holds the task.
        held: bool,
    },
    /// A task that was held goes on.
    Released {
        /// The point.
        name: &'static str,
    },
    /// A value that the subject's census counts rose above what it had been before in this run.
    Gauge {
        /// Its name.
        name: &'static str,
        /// The new highest value.
        value: u64,
    },

    // -- the end ---------------------------------------------------------------------------------------------------------
    /// What is counted on a host: once before the first connection (`baseline`), once when all is over.
    Census {
        /// Whether it is the count before the first connection.
        baseline: bool,
        /// `tasks`, `sockets`, and the subject's own counters, by name.
        counts: BTreeMap<String, u64>,
    },
    /// Tasks outlived their host.
    Outlived {
        /// How many.
        tasks: u64,
    },
    /// Something of the subject's belongs to no host: a task that was spawned outside of any other, a socket that does not come
    /// from [`Env`](crate::env::Env).
    Stray {
        /// What: `a task`, `a socket that listens at 0.0.0.0:80`.
        what: String,
    },
    /// A task of the subject panicked.
    Panicked {
        /// Its message.
        message: String,
    },
    /// Virtual time stood still while tasks went on and on.
    Livelock {
        /// What was counted: `100 rounds of triggers`, `300000 polls`.
        what: String,
    },
}

/// How a stream ended for its user.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// Complete: all was delivered, and this is the outcome.
    Completed {
        /// As in [`EventKind::Ended`].
        outcome: Data,
    },
    /// It failed, explicitly.
    Failed {
        /// Why, as the client says.
        reason: Data,
    },
}

/// The record of one run.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// All entries, in order.
    pub events: Vec<Event>,
    /// The connections, by index.
    pub conns: Vec<Connection>,
    /// How often each milestone was reached.
    pub milestones: BTreeMap<&'static str, u64>,
    /// How often each point was reached.
    pub points: BTreeMap<&'static str, u64>,
    /// When the run was over.
    pub end: Time,
    /// How many segments were sent.
    pub packets: u64,
    /// How many segments arrived (payload, SYN, FIN, RST) of connections whose client had installed a newer generation by then.
    pub stale: u64,
    /// How many times tasks of the subject's hosts were polled.
    pub polls: u64,
    /// The digest over every packet and every entry but those kept in detailed histories only.
    pub digest: Digest,
}

impl History {
    /// The entries about one stream, with their positions.
    pub fn of_stream<'a>(&'a self, stream: &'a Stream) -> impl Iterator<Item = (usize, &'a Event)> {
        self.events.iter().enumerate().filter(move |(_, event)| event.what.stream() == Some(stream))
    }

    /// The position of the first entry that is not the same in another record; `None` where all are.
    pub fn parts_from(&self, other: &History) -> Option<usize> {
        let same = |n: &usize| match (self.events.get(*n), other.events.get(*n)) {
            (Some(a), Some(b)) => {
                a.at == b.at
                    && a.host == b.host
                    && format!("{:?}", a.what) == format!("{:?}", b.what)
            }
            (None, None) => true,
            _ => false,
        };
        (0..self.events.len().max(other.events.len())).find(|n| !same(n))
    }

    /// The connection of this index.
    pub fn conn(&self, index: ConnIndex) -> &Connection {
        &self.conns[index.0]
    }

    /// Whether a schedule's name means the connection of this index at some time: for `#last`, until the next is opened. A name
    /// without a label means connections of every label, counted together.
    pub fn is_named(&self, index: ConnIndex, name: &Conn) -> bool {
        let is_of_kind = |conn: &&Connection| {
            let labelled =
                |label: &String| conn.name.starts_with(&format!("{}/{label}#", conn.client));
            conn.client == name.host && name.label.as_ref().is_none_or(labelled)
        };
        let conn = self.conn(index);
        is_of_kind(&conn)
            && match name.which {
                Which::Number(n) => {
                    self.conns[..=index.0].iter().filter(is_of_kind).count() == n as usize
                }
                Which::Generation(generation) => conn.generation == Some(generation),
                Which::Last => true,
            }
    }
}

impl EventKind {
    /// The stream that the entry is about.
    pub fn stream(&self) -> Option<&Stream> {
        match self {
            EventKind::Produced { stream, .. }
            | EventKind::Ended { stream, .. }
            | EventKind::Opened { stream, .. }
            | EventKind::Delivered { stream, .. }
            | EventKind::Saw { stream, .. }
            | EventKind::StreamEnded { stream, .. } => Some(stream),
            EventKind::GaveUp { stream, .. } => stream.as_ref(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_label_means_connections_of_every_label() {
        let conn = |name: &str, generation| Connection {
            name: name.into(),
            client: name.split(['/', '#']).next().expect("a host").into(),
            server: "server".into(),
            generation,
            opened: Time::ZERO,
            over: (None, None),
        };
        let conns = [
            ("a#1", Some(1)),
            ("b/http#1", None),
            ("a/http#1", None),
            ("a/http#2", None),
            ("a#4", Some(2)),
        ];
        let history = History {
            conns: conns.map(|(name, generation)| conn(name, generation)).into(),
            ..History::default()
        };
        let named = |name: &str| {
            let name = name.parse().expect("a name");
            (0..history.conns.len())
                .filter(|n| history.is_named(ConnIndex(*n), &name))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            ["a#1", "a#2", "a#3", "a#4", "a#5"].map(named),
            [vec![0], vec![2], vec![3], vec![4], vec![]]
        );
        assert_eq!(
            ["a/http#1", "a/http#2", "a/http#4", "b#1"].map(named),
            [vec![2], vec![3], vec![], vec![1]]
        );
        assert_eq!(
            ["a#last", "a/http#last", "a:gen2", "c#last"].map(named),
            [vec![0, 2, 3, 4], vec![2, 3], vec![4], vec![]]
        );
    }
}
