//! The record of a run: all observations in order, with virtual times.
//!
//! There are two sources, and neither relies on claims of the protocol. The simulated outside world
//! records the ground truth: the items that were produced, the effects that took place, the events
//! of the network and the faults. The driver of the client's user records the items that were
//! delivered and the results of calls. Properties are predicates over the record; the story and the
//! picture are rendered from it.
//!
//! - [`Event`], [`EventKind`]: one entry.
//! - [`Stream`], [`Call`]: the subjects of entries.
//! - [`ConnIndex`], [`Connection`], [`Packet`], [`Scope`]: the network and its faults in entries.
//! - [`Content`]: the bytes of an item. [`Data`]: outcomes, reasons and user observations.
//!   [`Answer`]: the result of a call.
//! - [`Digest`]: the chained digest that compares two runs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Serialize, Serializer};

pub use crate::digest::Digest;
pub use crate::schedule::Side;
use crate::schedule::{Conn, Fault, Host, MilestoneValue, Operation, Tampering, Which};

mod answer;
pub mod content;
mod data;
mod network;

pub use crate::schedule::Nature;
pub use answer::{Answer, Coded};
pub use content::Content;
pub use data::{Data, Fact, PlainText, ProcessOutcome};
pub use network::{ConnEnd, ConnIndex, Connection, Fate, Flags, Packet, Scope};

/// A moment of virtual time: whole milliseconds since the start of the world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// The start of the world.
    pub const ZERO: Time = Time(0);

    /// Returns the time since an earlier moment; zero if `earlier` is later.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// Returns the moment this long before; the start of the world if that would be negative.
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

/// A stream of bytes from a server's outside world to a client's user: `s1`, `p1/stdout`. An upload
/// is recorded as the stream of its acknowledgements.
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

/// The number of a call. Each requested operation is a call; calls are numbered from 1 in the order
/// of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Call(pub u64);

impl Call {
    /// No call. In an effect: the outside world cannot identify the call that requested it. In the
    /// opening of a stream: the opening answers no call.
    pub const NONE: Call = Call(0);
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call {}", self.0)
    }
}

/// The guarantee of the protocol for an operation.
/// [`Operations::class`](crate::subject::Operations::class) lists the classes in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Survives a dropped connection: the client repeats the request, or resumes. It may fail only
    /// if the faults of the run, the retention of the server or the user made success impossible.
    /// Example: to follow a log; to add to a counter under an id.
    Durable,
    /// May fail if its connection died between request and reply. The user then does not know
    /// whether it took effect. Example: a request that the client does not repeat.
    InFlight,
    /// Ends with its connection: the user learns of the end within a second. The same holds for a
    /// stream that it opened. Example: a lock that the server releases when the connection is lost.
    Bound,
}

/// One entry of the history.
#[derive(Clone, Debug)]
pub struct Event {
    /// The time of the event.
    pub at: Time,
    /// The host of the event, if it belongs to one.
    pub host: Option<Host>,
    /// The event.
    pub what: EventKind,
}

// A run may have tens of thousands of entries, so large and rare contents are boxed.
const _: () = assert!(size_of::<Event>() <= 96);

/// The content of an entry.
#[derive(Clone, Debug)]
pub enum EventKind {
    // -- the ground truth, from the outside world ------------------------------
    /// The producer of a stream really wrote these bytes, as one item.
    Produced {
        /// The stream.
        stream: Stream,
        /// The item.
        bytes: Content,
    },
    /// The producer of a stream really ended, with this outcome.
    Ended {
        /// The stream.
        stream: Stream,
        /// The outcome, in the subject's own type: `exit 7`, `total 60`.
        outcome: Data,
    },
    /// A mutating operation really took effect.
    Effect {
        /// The call that requested it, if the outside world can identify it.
        call: Call,
        /// The target of the effect. Effects on one target must take place in the order in which
        /// their calls were issued.
        target: String,
    },
    /// The product asked the outside world for something, and the answer takes this long.
    Fetched {
        /// The thing that the product asked for.
        what: String,
        /// The duration until the answer.
        takes: Duration,
    },

    /// The producer of a stream asked the product for something, and got no answer.
    Unanswered {
        /// The stream.
        stream: Stream,
        /// The thing that it asked for.
        what: String,
    },

    // -- observations of the client's user ------------------------------
    /// The user requested an operation.
    Asked {
        /// The number of the call.
        call: Call,
        /// The operation.
        operation: Box<Operation>,
        /// The guarantee of the protocol for the operation.
        class: Class,
    },
    /// The call returned a result.
    Answered {
        /// The number of the call.
        call: Call,
        /// The answer.
        answer: Answer,
    },
    /// The call returned a failure.
    Failed {
        /// The number of the call.
        call: Call,
        /// The reason.
        reason: Data,
    },
    /// A call opened a stream: from now on the user of this host must receive its items.
    Opened {
        /// The stream.
        stream: Stream,
        /// The call.
        call: Call,
    },
    /// The user received an item of a stream.
    Delivered {
        /// The stream.
        stream: Stream,
        /// The item.
        bytes: Content,
        /// The generation that carried it, if the client reports it.
        generation: Option<u64>,
    },
    /// A stream ended for its user. The user may ask for the ending again; each answer is a
    /// separate entry.
    StreamEnded {
        /// The stream.
        stream: Stream,
        /// The ending.
        ending: Ending,
    },
    /// The user made an observation about a stream that only a specific property of the subject can
    /// judge: `event 5 after event 3`.
    Observed {
        /// The stream.
        stream: Stream,
        /// The observation.
        saw: Data,
    },
    /// The user closed a stream or the client by an operation. Endings that this causes are
    /// justified.
    GaveUp {
        /// The stream; `None` means all streams of this host.
        stream: Option<Stream>,
        /// The call.
        call: Call,
    },

    // -- the network, the hosts, the schedule --------------------------------------------------------------------------
    /// A host's root was started.
    Started,
    /// A host died.
    Died {
        /// Whether it was a power loss, in which the kernel of the host died, too.
        kernel: bool,
    },
    /// A step of the schedule was executed.
    Stepped {
        /// Its number in the schedule, from 0.
        step: usize,
        /// The result of the step, if it is not obvious: `no such connection yet`.
        note: Option<String>,
    },
    /// A fault took effect.
    FaultBegan {
        /// The number of the fault, unique in the run.
        fault: usize,
        /// The step that caused it.
        step: usize,
        /// The fault.
        what: Box<Fault>,
        /// The hosts, links and connections that it affects.
        scope: Box<Scope>,
        /// How it affects its scope.
        nature: Nature,
        /// How many bytes of payload were in flight in the scope, in both directions.
        in_flight: u32,
    },
    /// A fault is over: it no longer affects anything, the segments that it held have arrived, and
    /// each end of a connection that it killed has learned of that, through the fault or through
    /// its own detection.
    FaultEnded {
        /// The number of the fault.
        fault: usize,
    },
    /// A fault changed a message on its way.
    Tampered {
        /// The number of the fault.
        fault: usize,
        /// The connection.
        conn: ConnIndex,
        /// The end that wrote the message.
        from: Side,
        /// The change.
        how: Tampering,
        /// The label of the message before the change.
        label: String,
    },
    /// A client opened a connection (its SYN was sent).
    ConnOpened {
        /// The connection.
        conn: ConnIndex,
    },
    /// A connection is established at one end.
    ConnUp {
        /// The connection.
        conn: ConnIndex,
        /// The end.
        side: Side,
    },
    /// One end of a connection is over for its user.
    ConnOver {
        /// The connection.
        conn: ConnIndex,
        /// The end.
        side: Side,
        /// How it ended.
        how: ConnEnd,
    },
    /// A segment was sent, with its fate (detailed histories only).
    Packet(Packet),
    /// A complete message was written to a connection, according to the subject's dissector
    /// (detailed histories only).
    Message {
        /// The connection.
        conn: ConnIndex,
        /// The end that wrote it.
        from: Side,
        /// The label of the message: `process/read p1 after 40`.
        label: String,
        /// The position of its last byte in the direction, counted from 1.
        end: u64,
        /// When its last byte was delivered; `None` before that.
        delivered: Option<Time>,
    },
    /// Product code reached a milestone.
    Milestone {
        /// The name of the milestone.
        name: &'static str,
        /// The fields of the milestone, in order.
        fields: Arc<[(&'static str, MilestoneValue)]>,
    },
    /// A task reached a point, and passed it or was held there.
    Point {
        /// The name of the point.
        name: &'static str,
        /// The fields of the point, in order.
        fields: Arc<[(&'static str, MilestoneValue)]>,
        /// Whether the schedule holds the task.
        held: bool,
    },
    /// A task that was held continues.
    Released {
        /// The point.
        name: &'static str,
    },
    /// A resource count of the subject rose above its previous maximum in this run, or, if it is a
    /// level, changed.
    Gauge {
        /// The name of the counter.
        name: &'static str,
        /// The new value.
        value: u64,
    },

    // -- the end ---------------------------------------------------------------------------------------------------------
    /// The resource counts of a host. They are taken twice: before the first connection
    /// (`baseline`) and at the end of the run.
    ResourceCounts {
        /// Whether the counts were taken before the first connection.
        baseline: bool,
        /// The counts of `tasks`, of `sockets`, and of the subject's own counters, by name.
        counts: BTreeMap<String, u64>,
    },
    /// Tasks outlived their host.
    Outlived {
        /// The number of tasks.
        tasks: u64,
    },
    /// The subject created a resource that belongs to no host: a task spawned outside of all other
    /// tasks, or a socket that was not created through [`Env`](crate::env::Env).
    Unowned {
        /// A description: `a task`, `a socket that listens at 0.0.0.0:80`.
        what: String,
    },
    /// A task of the subject panicked.
    Panicked {
        /// The panic message.
        message: String,
    },
    /// Tasks kept running without end while virtual time stood still.
    Livelock {
        /// The count that exceeded its bound: `100 rounds of triggers`, `300000 polls`.
        what: String,
    },
}

/// The ending of a stream for its user.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// The stream completed: all items were delivered.
    Completed {
        /// The outcome, as in [`EventKind::Ended`].
        outcome: Data,
    },
    /// The stream failed explicitly.
    Failed {
        /// The reason that the client reported.
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
    /// The time at which the run ended.
    pub end: Time,
    /// How many segments were sent.
    pub packets: u64,
    /// How many stale segments arrived (payload, SYN, FIN, RST): the client of their connection had
    /// already installed a newer generation.
    pub stale: u64,
    /// How many times tasks of the subject's hosts were polled.
    pub polls: u64,
    /// The digest over every packet and every entry, except the entries that only detailed
    /// histories have.
    pub digest: Digest,
}

impl History {
    /// The entries about one stream, with their positions.
    pub fn of_stream<'a>(&'a self, stream: &'a Stream) -> impl Iterator<Item = (usize, &'a Event)> {
        self.events.iter().enumerate().filter(move |(_, event)| event.what.stream() == Some(stream))
    }

    /// Returns the position of the first entry that differs from another record; `None` if all
    /// entries are equal.
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

    /// Returns the connection with this index.
    pub fn conn(&self, index: ConnIndex) -> &Connection {
        &self.conns[index.0]
    }

    /// Whether a name in a schedule refers to the connection with this index at some time of the
    /// run. A connection matches `#last` until the next one is opened. A name without a label
    /// covers connections of every label, counted together.
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
    /// The stream of the entry, if it is about one.
    pub fn stream(&self) -> Option<&Stream> {
        match self {
            EventKind::Produced { stream, .. }
            | EventKind::Ended { stream, .. }
            | EventKind::Opened { stream, .. }
            | EventKind::Delivered { stream, .. }
            | EventKind::Observed { stream, .. }
            | EventKind::StreamEnded { stream, .. } => Some(stream),
            EventKind::GaveUp { stream, .. } => stream.as_ref(),
            _ => None,
        }
    }

    /// Returns whether the entry is ground truth: what processes and other servers did, and what the
    /// product asked of them.
    pub fn is_ground_truth(&self) -> bool {
        matches!(
            self,
            Self::Produced { .. }
                | Self::Ended { .. }
                | Self::Effect { .. }
                | Self::Fetched { .. }
                | Self::Unanswered { .. }
        )
    }

    /// Returns whether the entry is something that a user got or did, besides asking.
    pub fn is_of_user(&self) -> bool {
        matches!(
            self,
            Self::Answered { .. }
                | Self::Failed { .. }
                | Self::Opened { .. }
                | Self::Delivered { .. }
                | Self::Observed { .. }
                | Self::StreamEnded { .. }
                | Self::GaveUp { .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_label_covers_connections_of_every_label() {
        let conn = |name: &str, generation| Connection {
            generation,
            ..Connection::new(
                name.into(),
                name.split(['/', '#']).next().expect("a host").into(),
                "server".into(),
                Time::ZERO,
            )
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
