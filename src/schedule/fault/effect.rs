//! The effect of a fault when it begins, as data.

use std::collections::BTreeMap;
use std::time::Duration;

use super::values::{HoldEnd, Learns, LinkPlace, Orphans, Pipe, Tampering, TrafficCount, Unsynced};
use crate::schedule::names::{Conn, Host};

/// The effect of a fault when it begins.
#[derive(Clone, Copy, Debug)]
pub enum Effect<'f> {
    /// It changes the fate of segments ([`pass`](super::Definition::pass)).
    Link {
        /// The segments.
        place: Place<'f>,
        /// Only segments toward this host; `None` means both directions.
        toward: Option<&'f Host>,
        /// The duration; `None` means the rest of the run.
        lasts: Option<Duration>,
        /// How it affects connections.
        nature: Nature,
    },
    /// A connection dies.
    Cut {
        /// The connection.
        conn: &'f Conn,
        /// When each end learns of it; a host that is not named learns at once.
        learns: &'f BTreeMap<Host, Learns>,
    },
    /// A connection dies when a given amount of data has arrived.
    CutAfter {
        /// The connection.
        conn: &'f Conn,
        /// The host toward which the counted data flows.
        toward: &'f Host,
        /// The amount.
        count: TrafficCount,
        /// When each end learns of it; a host that is not named learns at once.
        learns: &'f BTreeMap<Host, Learns>,
    },
    /// Messages change on their way.
    Tamper {
        /// The connection or link.
        place: Place<'f>,
        /// The host toward which the messages flow.
        toward: &'f Host,
        /// The change.
        how: Tampering,
        /// The number of messages that change; `None` means all.
        messages: Option<u64>,
        /// The duration; `None` means the rest of the run.
        lasts: Option<Duration>,
    },
    /// The network sends an RST to the ends of a connection.
    Reset {
        /// The connection.
        conn: &'f Conn,
        /// The only end that gets one; `None` means both.
        toward: Option<&'f Host>,
    },
    /// A task that reaches the point of the step's trigger is held there.
    Hold(&'f HoldEnd),
    /// A host dies.
    Death(Death<'f>),
    /// A host that is down starts again.
    Restart(&'f Host),
    /// The wall clock of a host jumps.
    ClockJump {
        /// The host.
        host: &'f Host,
        /// The size in milliseconds; a negative value is a jump back.
        by_ms: i64,
    },
    /// Something happens to the child processes of a host.
    Children {
        /// The host.
        host: &'f Host,
        /// The effect on them.
        what: ChildEffect,
    },
}

/// The segments that a fault affects.
#[derive(Clone, Copy, Debug)]
pub enum Place<'f> {
    /// Those of one connection.
    Conn(&'f Conn),
    /// All between two hosts.
    Link(&'f Host, &'f Host),
    /// All to or from one host.
    Host(&'f Host),
}

impl LinkPlace {
    /// Returns the segments of this place.
    pub fn as_place(&self) -> Place<'_> {
        match self {
            LinkPlace::Conn(conn) => Place::Conn(conn),
            LinkPlace::Link(one, other) => Place::Link(one, other),
        }
    }
}

/// The death of a host.
#[derive(Clone, Copy, Debug)]
pub struct Death<'f> {
    /// The host.
    pub host: &'f Host,
    /// The time until it restarts; `None` means never.
    pub lasts: Option<Duration>,
    /// Whether its kernel dies with it.
    pub kernel: bool,
    /// Whether the processes that it launched die or live on.
    pub orphans: Orphans,
    /// Whether its files lose data that was not synced.
    pub unsynced: Unsynced,
}

/// The effect of a fault on the child processes of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildEffect {
    /// They are killed.
    Kill,
    /// This pipe of each is closed.
    ClosePipe(Pipe),
    /// They behave differently for this time; `None` means the rest of the run.
    Change(ChildFault, Option<Duration>),
}

/// A different behaviour of child processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildFault {
    /// They are suspended.
    Stop,
    /// They pause this long before each step.
    Slow(Duration),
    /// Their output arrives this much later.
    DelayOutput(Duration),
}

/// How a fault affects its scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Nature {
    /// It kills connections, or prevents new ones from being established.
    Kills,
    /// It slows or holds traffic or a task; the fault alone kills nothing.
    Slows,
    /// Neither of the two (a jump of the wall clock).
    Harmless,
}

impl<'f> Effect<'f> {
    /// Returns the effect of a fault on new connections to a host: no client gets through.
    pub fn on_openings(host: &'f Host, lasts: Option<Duration>) -> Self {
        let (place, toward) = (Place::Host(host), Some(host));
        Effect::Link { place, toward, lasts, nature: Nature::Kills }
    }

    /// Returns how it affects its scope.
    pub fn nature(&self) -> Nature {
        match self {
            Effect::Link { nature, .. } => *nature,
            Effect::Cut { .. } | Effect::CutAfter { .. } | Effect::Reset { .. } => Nature::Kills,
            // A message that does not arrive can end a connection, or prevent one.
            Effect::Tamper { .. } => Nature::Kills,
            Effect::Death(_) => Nature::Kills,
            Effect::Hold(_) => Nature::Slows,
            Effect::Children { what: ChildEffect::Change(..), .. } => Nature::Slows,
            Effect::Children { .. } | Effect::Restart(_) | Effect::ClockJump { .. } => {
                Nature::Harmless
            }
        }
    }

    /// Returns the connection that it names.
    pub fn conn(&self) -> Option<&'f Conn> {
        match self {
            Effect::Link { place: Place::Conn(conn), .. }
            | Effect::Tamper { place: Place::Conn(conn), .. }
            | Effect::Cut { conn, .. }
            | Effect::CutAfter { conn, .. }
            | Effect::Reset { conn, .. } => Some(conn),
            _ => None,
        }
    }

    /// Returns whether it affects connections only.
    pub fn is_of_the_network(&self) -> bool {
        matches!(
            self,
            Effect::Link { .. }
                | Effect::Tamper { .. }
                | Effect::Cut { .. }
                | Effect::CutAfter { .. }
                | Effect::Reset { .. }
        )
    }
}
