//! The simulated network: connections, the links between hosts with their faults, and the kernels of
//! the hosts.
//!
//! A segment takes this way: a user writes (`stream`, above this layer); the kernel makes a segment,
//! and it leaves at the end of the turn (`leaving`); the link model decides when it arrives (`link`);
//! a fault may hold it (`held`, `retransmission`); it waits in the event queue (`queue`); it is
//! delivered to the kernel of its receiver (`arriving`). `ends` closes connections and answers for
//! ends that no kernel answers for.

use std::time::Duration;

use turmoil_net::Packet;

use crate::history::{ConnEnd, ConnIndex, Event, EventKind, History, Side, Time};
use crate::net::ConnId;
use crate::schedule::TieOrder;

use super::options::Detail;
use super::thread::{self, HostIx};

pub(super) mod acks;
pub(super) mod arriving;
pub(super) mod conns;
mod digest;
pub(super) mod directory;
pub(super) mod ends;
pub(super) mod fault_effects;
pub(super) mod faults;
mod held;
pub(super) mod leaving;
pub(super) mod link;
pub(super) mod messages;
mod packets;
pub(super) mod queue;
pub(super) mod retransmission;
pub(super) mod stack;
mod tampering;
pub(super) mod timeline;
pub(super) mod windows;

use conns::{Conns, PendingConnect};
use directory::Directory;
use faults::ActiveFaults;
use queue::Due;
use stack::Stack;
use timeline::Timeline;

/// The settings of a network, from the plan and the options of a run.
pub(super) struct NetSettings {
    /// The seed of all draws.
    pub seed: u64,
    /// Whether packets or timers come first within a millisecond.
    pub order: TieOrder,
    /// The range of the latency of a segment.
    pub latency: (Duration, Duration),
    /// The start of the healed tail, if the plan has one.
    pub healed_from: Option<Time>,
    /// What happens to packets of an older generation after a newer one is installed.
    pub stale: StaleSegments,
    /// How much detail the history contains.
    pub detail: Detail,
    /// Whether the driver sleeps past packets without a visible effect.
    pub quiet_acks: bool,
    /// Whether the network does the work of kernels that have no windows and no acknowledgements:
    /// those of stock turmoil.
    pub keeps_windows: bool,
}

/// What happens to the segments of an older generation after a newer one is installed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum StaleSegments {
    /// They are delivered, as in every run except a control run.
    Delivered,
    /// Those with data for the server are delivered, and all others dropped.
    DroppedExceptRequests,
    /// They are dropped.
    Dropped,
}

/// The network of a world. It knows no hosts besides their addresses, and runs no product code.
pub(super) struct SimNet {
    pub settings: NetSettings,
    pub timeline: Timeline,
    pub history: History,
    pub directory: Directory,
    /// The kernels of all hosts.
    pub stack: Box<dyn Stack>,
    pub conns: Conns,
    pub faults: ActiveFaults,
    /// Connection attempts whose SYN has not been seen yet, in order, by host.
    pub opening: Vec<(HostIx, PendingConnect)>,
    /// A reused buffer for the packets that the kernels send.
    outbound: Vec<Packet>,
    /// Directions in which kernels sent segments in this turn, if the network keeps the windows.
    leaving: Vec<(ConnIndex, Side)>,
    /// Ends whose window was smaller than a segment and that have room again.
    reopened: Vec<(ConnIndex, Side)>,
    /// Ends whose users dropped their streams with unread bytes in this turn.
    aborting: Vec<(ConnIndex, Side)>,
}

impl SimNet {
    /// Creates a network without connections.
    pub fn new(settings: NetSettings, directory: Directory, stack: Box<dyn Stack>) -> Self {
        Self {
            settings,
            timeline: Timeline::new(stack.clock()),
            history: History::default(),
            directory,
            stack,
            conns: Conns::default(),
            faults: ActiveFaults::default(),
            opening: Vec::new(),
            outbound: Vec::new(),
            leaving: Vec::new(),
            reopened: Vec::new(),
            aborting: Vec::new(),
        }
    }

    /// Returns the virtual time, rounded up to whole milliseconds.
    pub fn now(&self) -> Time {
        self.timeline.now()
    }

    /// Schedules an event. Within one millisecond, lower ranks come first.
    pub fn schedule(&mut self, at: Time, rank: u32, due: Due) {
        self.timeline.schedule(at, rank, due);
    }

    /// Writes an entry to the history.
    pub fn record(&mut self, host: Option<HostIx>, what: EventKind) {
        let at = self.now();
        digest::digest(&mut self.history, at, host, &what);
        let host = host.map(|host| self.directory.name(host).clone());
        self.history.events.push(Event { at, host, what });
    }

    /// Records how one end of a connection was closed for its user. Only the first call has an
    /// effect.
    pub fn record_conn_end(&mut self, conn: ConnIndex, side: Side, how: ConnEnd) {
        let now = self.now();
        let state = self.conns.get_mut(conn);
        let slot = &mut state.over[side as usize];
        if slot.is_some() {
            return;
        }
        *slot = Some(how);
        let host = state.host(side);
        let over = &mut self.history.conns[conn.0].over;
        match side {
            Side::Client => over.0 = Some(now),
            Side::Server => over.1 = Some(now),
        }
        thread::note_of_world(host, thread::Noted::Entry(EventKind::ConnOver { conn, side, how }));
        self.close_faults_of(conn);
    }

    /// Returns the connection with a number that product code uses.
    pub fn index_of(&self, id: ConnId) -> Option<ConnIndex> {
        let index = usize::try_from(id.0).ok()?.checked_sub(1)?;
        (index < self.history.conns.len()).then_some(ConnIndex(index))
    }

    /// Returns whether packets come before timers in a millisecond.
    pub fn packets_first(&self, at: Time) -> bool {
        link::packets_first(self.settings.seed, self.settings.order, at)
    }

    /// Returns whether the healed tail has begun.
    pub fn is_healed(&self) -> bool {
        self.settings.healed_from.is_some_and(|tail| self.now() >= tail)
    }
}
