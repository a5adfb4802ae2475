//! The faults. The table in [`words`](super::words) describes their effect on both ends and their
//! real-world causes.

use std::collections::BTreeMap;
use std::time::Duration;

use super::names::{Conn, Host, NameList, Named};
use super::trigger::Trigger;

/// A fault: a word of the table, with its fields.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// A connection dies, and each end learns of the cut at its own time.
    Cut {
        /// The connection.
        conn: Conn,
        /// When each end learns of the cut; a host that is not named learns at once.
        learns: BTreeMap<Host, Learns>,
    },
    /// A connection dies as soon as a given amount of data has arrived at a host, even in the
    /// middle of a frame.
    CutAfter {
        /// The connection.
        conn: Conn,
        /// The host toward which the counted data flows.
        toward: Host,
        /// The amount of data that arrives, counted from the start of the connection.
        count: TrafficCount,
        /// When each end learns of the cut; a host that is not named learns at once.
        learns: BTreeMap<Host, Learns>,
    },
    /// No packets pass between two hosts.
    Partition {
        /// The two hosts.
        hosts: (Host, Host),
        /// Blocks only packets toward this host; `None` blocks both directions.
        toward: Option<Host>,
        /// The duration; `None` means the rest of the run.
        lasts: Option<Duration>,
    },
    /// No packets pass on a connection in one direction.
    Stall {
        /// The connection.
        conn: Conn,
        /// The host toward which packets are blocked.
        toward: Host,
        /// The duration; `None` means the rest of the run.
        lasts: Option<Duration>,
    },
    /// No packets pass on a connection in either direction, and neither end is notified.
    Blackhole {
        /// The connection.
        conn: Conn,
        /// The duration; `None` means the rest of the run.
        lasts: Option<Duration>,
    },
    /// Packets take longer.
    Delay {
        /// The connection or link that it affects.
        place: LinkPlace,
        /// Delays only packets toward this host; `None` delays both directions.
        toward: Option<Host>,
        /// The additional delay.
        by: Duration,
        /// The duration; `None` means the rest of the run.
        lasts: Option<Duration>,
    },
    /// The close of a connection (its FIN or RST) arrives late in one direction.
    DelayClose {
        /// The connection.
        conn: Conn,
        /// The host toward which the close is delayed.
        toward: Host,
        /// The additional delay.
        by: Duration,
    },
    /// A middlebox resets a connection.
    Reset {
        /// The connection.
        conn: Conn,
        /// The only end that receives an RST; `None` means both ends.
        toward: Option<Host>,
    },
    /// A bad link: high latency, low bandwidth, small segments, a small window.
    Slow {
        /// The connection or link that it affects.
        place: LinkPlace,
        /// Affects only traffic toward this host; `None` affects both directions.
        toward: Option<Host>,
        /// The properties of the bad link.
        by: SlowBy,
        /// The duration; `None` means the rest of the run.
        lasts: Option<Duration>,
    },
    /// New connections to a host are refused.
    Refuse {
        /// The host.
        host: Host,
        /// The duration; `None` means the rest of the run.
        lasts: Option<Duration>,
    },
    /// New connections to a host get no answer.
    Hang {
        /// The host.
        host: Host,
        /// The duration; `None` means the rest of the run.
        lasts: Option<Duration>,
    },
    /// A middlebox accepts new connections to a host and closes them at once.
    AcceptThenClose {
        /// The host.
        host: Host,
        /// The duration; `None` means the rest of the run.
        lasts: Option<Duration>,
    },
    /// A task that reaches the point of the step's trigger is held there.
    Hold {
        /// The end of the hold.
        end: HoldEnd,
    },
    /// A host's process dies, and its kernel closes its sockets.
    Crash {
        /// The host.
        host: Host,
        /// The time until the host restarts; `None` means never.
        lasts: Option<Duration>,
        /// Whether the processes that it launched die or live on.
        processes: Orphans,
    },
    /// A host dies together with its kernel; its peers are not notified.
    PowerLoss {
        /// The host.
        host: Host,
        /// Whether its files lose data that was not synced.
        unsynced: Unsynced,
        /// The time until the host restarts; `None` means never.
        lasts: Option<Duration>,
    },
    /// A host that is down restarts.
    Restart {
        /// The host.
        host: Host,
    },
    /// The child processes of a host are killed.
    KillChildren {
        /// The host.
        host: Host,
    },
    /// The child processes of a host are suspended.
    StopChildren {
        /// The host.
        host: Host,
        /// The duration; `None` means the rest of the run.
        lasts: Option<Duration>,
    },
    /// The child processes of a host run slowly.
    SlowChildren {
        /// The host.
        host: Host,
        /// The pause before each step of a child process.
        by: Duration,
        /// The duration; `None` means the rest of the run.
        lasts: Option<Duration>,
    },
    /// The output of the child processes of a host arrives late.
    DelayOutput {
        /// The host.
        host: Host,
        /// The additional delay.
        by: Duration,
        /// The duration; `None` means the rest of the run.
        lasts: Option<Duration>,
    },
    /// A pipe of each child process of a host is closed.
    ClosePipe {
        /// The host.
        host: Host,
        /// The pipe.
        pipe: Pipe,
    },
    /// A host's wall clock jumps.
    ClockJump {
        /// The host.
        host: Host,
        /// The size of the jump in milliseconds; a negative value is a jump back.
        by_ms: i64,
    },
}

/// When an end of a cut connection learns of the cut (through an RST).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learns {
    /// This long after the cut.
    After(Duration),
    /// The network never notifies it.
    Never,
}

/// Whether the processes that a host launched die or live on when it crashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Orphans {
    /// They die with the host.
    #[default]
    Die,
    /// They live on; the other ends of their pipes are closed.
    Live,
}

impl Named for Orphans {
    const LIST: &'static NameList =
        &NameList { what: "a fate of processes", names: &["die", "live"] };
    const ALL: &'static [Self] = &[Self::Die, Self::Live];
}

/// A pipe between a child process and the host that launched it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pipe {
    /// Its standard input.
    Stdin,
    /// Its standard output.
    Stdout,
    /// Its standard error.
    Stderr,
}

impl Named for Pipe {
    const LIST: &'static NameList =
        &NameList { what: "a pipe", names: &["stdin", "stdout", "stderr"] };
    const ALL: &'static [Self] = &[Self::Stdin, Self::Stdout, Self::Stderr];
}

/// What a power loss does to data that was written to files, but not synced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unsynced {
    /// Nothing is lost.
    #[default]
    Kept,
    /// It can be lost, in whole or in part.
    Lost,
}

impl Named for Unsynced {
    const LIST: &'static NameList =
        &NameList { what: "a fate of unsynced data", names: &["kept", "lost"] };
    const ALL: &'static [Self] = &[Self::Kept, Self::Lost];
}

/// An amount of data in one direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficCount {
    /// This many bytes.
    Bytes(u64),
    /// This many messages, as the subject's dissector counts them, and no byte of the next one.
    Messages(u64),
}

/// The part of the network that a link fault affects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkPlace {
    /// One connection.
    Conn(Conn),
    /// All traffic between two hosts.
    Link(Host, Host),
}

/// The properties of a slow link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlowBy {
    /// Additional latency.
    pub latency: Option<Duration>,
    /// The maximum number of bytes per second.
    pub bandwidth: Option<u64>,
    /// The maximum number of bytes per segment.
    pub segment: Option<u64>,
    /// The maximum window that the receiver advertises, in bytes.
    pub window: Option<u64>,
}

/// The end of a hold at a point.
#[derive(Clone, Debug, PartialEq)]
pub enum HoldEnd {
    /// After this duration.
    After(Duration),
    /// After another milestone or point is reached and a delay has passed, but at the latest after
    /// `at_most`.
    Until {
        /// The milestone or point, and the delay after it.
        trigger: Box<Trigger>,
        /// The maximum duration of the hold.
        at_most: Duration,
    },
}
