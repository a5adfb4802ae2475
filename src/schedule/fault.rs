//! The faults. What each does to both ends, and where it comes from outside, stands in the table of [`words`](super::words).

use std::collections::BTreeMap;
use std::time::Duration;

use super::names::{Conn, Host};
use super::trigger::Trigger;

/// One fault: a word of the table, with its fields.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// A connection dies, and each end learns of it in its own time.
    Cut {
        /// The connection.
        conn: Conn,
        /// When each end learns of it; a host that is not named learns at once.
        learns: BTreeMap<Host, Learns>,
    },
    /// A connection dies as soon as some of what flows toward a host has arrived there, also inside a frame.
    CutAfter {
        /// The connection.
        conn: Conn,
        /// The direction in which is counted: toward this host.
        toward: Host,
        /// How much arrives, counted from the beginning of the connection.
        count: TrafficCount,
        /// When each end learns of it; a host that is not named learns at once.
        learns: BTreeMap<Host, Learns>,
    },
    /// Nothing passes between two hosts.
    Partition {
        /// The two.
        hosts: (Host, Host),
        /// Only packets toward this one are lost; where none is given, both ways.
        toward: Option<Host>,
        /// How long; for the rest of the run where none is given.
        lasts: Option<Duration>,
    },
    /// Nothing passes on a connection in one direction.
    Stall {
        /// The connection.
        conn: Conn,
        /// The direction: toward this host.
        toward: Host,
        /// How long; for the rest of the run where none is given.
        lasts: Option<Duration>,
    },
    /// Nothing passes on a connection, in either direction, and nobody is told.
    Blackhole {
        /// The connection.
        conn: Conn,
        /// How long; for the rest of the run where none is given.
        lasts: Option<Duration>,
    },
    /// Packets take longer.
    Delay {
        /// Where.
        place: LinkPlace,
        /// Only those toward this host; where none is given, both ways.
        toward: Option<Host>,
        /// How much longer.
        by: Duration,
        /// How long; for the rest of the run where none is given.
        lasts: Option<Duration>,
    },
    /// The end of a connection (its FIN or RST) arrives late in one direction.
    DelayClose {
        /// The connection.
        conn: Conn,
        /// The direction: toward this host.
        toward: Host,
        /// How much later.
        by: Duration,
    },
    /// Somebody in the middle resets a connection.
    Reset {
        /// The connection.
        conn: Conn,
        /// Only this end gets an RST; where none is given, both.
        toward: Option<Host>,
    },
    /// A bad link: more latency, little bandwidth, small segments, a small window.
    Slow {
        /// Where.
        place: LinkPlace,
        /// Only toward this host; where none is given, both ways.
        toward: Option<Host>,
        /// What is bad about it.
        by: SlowBy,
        /// How long; for the rest of the run where none is given.
        lasts: Option<Duration>,
    },
    /// New connections to a host are refused.
    Refuse {
        /// The host.
        host: Host,
        /// How long; for the rest of the run where none is given.
        lasts: Option<Duration>,
    },
    /// New connections to a host are not answered.
    Hang {
        /// The host.
        host: Host,
        /// How long; for the rest of the run where none is given.
        lasts: Option<Duration>,
    },
    /// New connections to a host are accepted by somebody in its place, and closed at once.
    AcceptThenClose {
        /// The host.
        host: Host,
        /// How long; for the rest of the run where none is given.
        lasts: Option<Duration>,
    },
    /// A task that reaches the point of the step's trigger stays there.
    Hold {
        /// Until when.
        end: HoldEnd,
    },
    /// A host's process dies; its kernel closes its sockets.
    Crash {
        /// The host.
        host: Host,
        /// It starts again after this; never where none is given.
        lasts: Option<Duration>,
        /// What becomes of the processes that it launched.
        processes: Orphans,
    },
    /// A host dies with its kernel: nobody is told.
    PowerLoss {
        /// The host.
        host: Host,
        /// It starts again after this; never where none is given.
        lasts: Option<Duration>,
    },
    /// A host that is down starts again.
    Restart {
        /// The host.
        host: Host,
    },
    /// A host's wall clock jumps.
    ClockJump {
        /// The host.
        host: Host,
        /// By how many milliseconds; back where it is below 0.
        by_ms: i64,
    },
}

/// When an end of a connection that was cut learns of it (by an RST).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learns {
    /// This long after the cut.
    After(Duration),
    /// Not from the network.
    Never,
}

/// What becomes of the processes that a host launched, when it crashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Orphans {
    /// They die, too.
    #[default]
    Die,
    /// They live on, and nobody holds the other ends of their pipes.
    Live,
}

impl Orphans {
    /// What a file calls each.
    pub const NAMES: &[(&str, Orphans)] = &[("die", Orphans::Die), ("live", Orphans::Live)];

    /// What a file calls it.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, of)| *of == self).expect("each has a name").0
    }
}

/// How much of one direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficCount {
    /// This many bytes.
    Bytes(u64),
    /// This many messages, as the subject's dissector counts them, and nothing of the next.
    Messages(u64),
}

/// Where a fault of a link is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkPlace {
    /// On one connection.
    Conn(Conn),
    /// On all that passes between two hosts.
    Link(Host, Host),
}

/// What is bad about a slow link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlowBy {
    /// So much more latency.
    pub latency: Option<Duration>,
    /// At most so many bytes a second.
    pub bandwidth: Option<u64>,
    /// At most so many bytes a segment.
    pub segment: Option<u64>,
    /// The receiver advertises at most so many bytes.
    pub window: Option<u64>,
}

/// When a task that is held at a point goes on.
#[derive(Clone, Debug, PartialEq)]
pub enum HoldEnd {
    /// After this.
    After(Duration),
    /// When something else is reached, and then a while; but after `at_most` in any case.
    Until {
        /// What is reached. Its `delay` is the while.
        trigger: Box<Trigger>,
        /// The longest hold.
        at_most: Duration,
    },
}
