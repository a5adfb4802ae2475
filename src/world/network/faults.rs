//! The faults in force: what each one affects, and where.

use std::collections::BTreeMap;

use crate::history::{ConnIndex, Nature, Time};
use crate::schedule::fault::effect::ChildFault;
use crate::schedule::fault::segment::{Leaving, LinkEffects, Passing};
use crate::schedule::{Conn, Fault, Host, Learns, Tampering, TrafficCount};
use crate::world::thread::HostIx;

use super::conns::Conns;

/// A fault that begins.
pub(in crate::world) struct NewFault<'f> {
    /// The step of the schedule, and what it says.
    pub step: usize,
    pub fault: &'f Fault,
    pub target: Target,
    /// If set, the fault affects only traffic toward this host.
    pub toward: Option<HostIx>,
    pub kind: FaultAction,
}

/// An active fault.
pub(in crate::world) struct ActiveFault {
    pub number: usize,
    pub target: Target,
    /// If set, the fault affects only traffic toward this host.
    pub toward: Option<HostIx>,
    pub kind: FaultAction,
    /// The time at which the fault began.
    pub began: Time,
    /// The time at which the fault expires, if it is known beforehand.
    pub until: Option<Time>,
}

/// The target of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::world) enum Target {
    /// The connection of this host with this name. It may not exist yet.
    Named(HostIx, Conn),
    /// This connection.
    Conn(ConnIndex),
    /// All traffic between two hosts.
    Link(HostIx, HostIx),
    /// All traffic to or from a host.
    Host(HostIx),
}

/// The effect of a fault on its target.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::world) enum FaultAction {
    /// It changes the fate of segments.
    Link(Fault),
    /// The connection dies when this number of bytes or messages has arrived.
    CutAfter(TrafficCount),
    /// Messages change, this many more at most.
    Tamper(Tampering, u64),
    /// The connection is dead, or the host is down. The fault is over when both ends have detected
    /// it.
    Dead,
    /// Nothing: a task is held, or what it does is done.
    Nothing,
    /// The child processes of the host behave differently.
    Children(ChildFault),
}

impl ActiveFault {
    /// Returns whether the fault affects a segment of `conn` toward a host.
    pub fn touches(&self, conns: &Conns, conn: ConnIndex, toward: HostIx) -> bool {
        self.toward.is_none_or(|host| host == toward) && self.target.holds(conns, conn)
    }

    /// Changes the fate of a segment that the fault affects.
    pub fn pass(&self, segment: Passing, effects: &mut LinkEffects) {
        if let FaultAction::Link(fault) = &self.kind {
            let since = self.began.since(Time::ZERO);
            let until = self.until.map(|until| until.since(Time::ZERO));
            let leaving = segment.leaving.map(|leaving| Leaving { since, until, ..leaving });
            fault.pass(&Passing { leaving, ..segment }, effects);
        }
    }

    /// Returns whether segments can still be on their way that it has delayed.
    pub fn delays(&self) -> bool {
        matches!(&self.kind, FaultAction::Link(fault) if fault.effect().nature() == Nature::Slows)
    }
}

impl Target {
    /// Returns whether the target contains a connection.
    pub fn holds(&self, conns: &Conns, index: ConnIndex) -> bool {
        let conn = conns.get(index);
        match self {
            Target::Named(host, name) => conns.is_named(index, *host, name),
            Target::Conn(this) => *this == index,
            Target::Link(a, b) => same_link((*a, *b), (conn.client, conn.server)),
            Target::Host(host) => conn.client == *host || conn.server == *host,
        }
    }
}

/// Returns whether two pairs of hosts are the same link, in either order.
fn same_link(a: (HostIx, HostIx), b: (HostIx, HostIx)) -> bool {
    a == b || a == (b.1, b.0)
}

/// The faults of a run.
#[derive(Default)]
pub(in crate::world) struct ActiveFaults {
    pub active: Vec<ActiveFault>,
    /// When each end of a connection detects a cut that is still to come, by the number of the
    /// fault.
    pub learns: BTreeMap<usize, BTreeMap<Host, Learns>>,
    pub begun: usize,
}
