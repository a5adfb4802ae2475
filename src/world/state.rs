//! The state of a world, and the writing of its history.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use tokio::sync::mpsc::UnboundedSender;
use turmoil_net::Packet;

use crate::history::{Call, ConnIndex, Event, EventKind, History, Time};
use crate::schedule::{Operation, Plan};
use crate::subject::{DynSubject, Root};

use super::Options;
use super::conns::{Conns, SharedEnd};
use super::engine::Stack;
use super::event::Turns;
use super::faults::ActiveFaults;
use super::hosts::Hosts;
use super::local::HostIx;
use super::queue::{Due, Queue};
use super::resources::Counters;
use super::steps::StepRunner;

/// A world. Nothing in it runs product code.
pub(super) struct World {
    pub plan: Arc<Plan>,
    pub subject: Arc<dyn DynSubject>,
    pub options: Options,
    /// The virtual time that has passed, cached until the clock moves.
    pub clock: Cell<Option<Duration>>,
    /// A reused buffer for the packets that the kernels send.
    pub outbound: Vec<Packet>,
    /// The kernels of all hosts, and the clock.
    pub stack: Box<dyn Stack>,
    pub hosts: Hosts,
    pub conns: Conns,
    pub faults: ActiveFaults,
    pub steps: StepRunner,
    pub queue: Queue,
    pub history: History,
    /// The root of the outside world, until it is started.
    pub outside: Option<Root>,
    /// The lines of the subject's own tracing output.
    pub log: Vec<String>,
    pub turns: Turns,
    /// Wakes the driver.
    pub driver: Option<Waker>,
    /// How long the run continues at most after the clients are closed.
    pub settle: Duration,
    pub phase: Phase,
    /// Connection attempts whose SYN has not been seen yet, in order, by host.
    pub opening: Vec<(HostIx, PendingConnect)>,
    /// Directions in which kernels sent segments in this turn, if the world keeps the windows.
    pub leaving: Vec<(ConnIndex, crate::history::Side)>,
    /// Ends whose window was smaller than a segment and that have room again.
    pub reopened: Vec<(ConnIndex, crate::history::Side)>,
    /// Ends whose users dropped their streams with unread bytes in this turn.
    pub aborting: Vec<(ConnIndex, crate::history::Side)>,
    /// The channel for the operations of each client's user.
    pub users: Vec<(HostIx, UnboundedSender<(Call, Operation)>)>,
    pub calls: u64,
    /// The counters of the subject's resources.
    pub gauges: Vec<Counters>,
    /// Reports of things that belong to no host. Each is reported once.
    pub unowned_resources: BTreeSet<String>,
    pub entropy: Vec<ChaCha8Rng>,
    /// Set if the run must stop now, because virtual time does not move. Contains the reason.
    pub livelock: Option<String>,
    /// Whether this run counts messages.
    pub dissects: bool,
}

/// A connection attempt.
pub(super) struct PendingConnect {
    /// The server and its port.
    pub to: (HostIx, u16),
    pub label: Option<&'static str>,
    pub end: SharedEnd,
}

/// The phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Before the first turn is over.
    Starting,
    /// The schedule runs.
    Running,
    /// The users have stopped, and the clients close.
    Closing,
    /// The clients are closed, and the remaining resources get time to be released.
    Settling,
    /// The run is over, and the remaining resources are counted.
    Over,
}

impl World {
    /// Returns the virtual time, rounded up to whole milliseconds.
    pub fn now(&self) -> Time {
        let passed = self.passed();
        Time(passed.as_secs() * 1_000 + u64::from(passed.subsec_nanos().div_ceil(1_000_000)))
    }

    /// Returns whether the clock is at a whole millisecond.
    pub fn is_whole(&self) -> bool {
        self.passed().subsec_nanos().is_multiple_of(1_000_000)
    }

    fn passed(&self) -> Duration {
        let passed = self.clock.get().unwrap_or_else(|| self.stack.passed());
        self.clock.set(Some(passed));
        passed
    }

    /// Clears the cached time, because the clock is about to move.
    pub fn forget_time(&self) {
        self.clock.set(None);
    }

    /// Writes an entry to the history.
    pub fn record(&mut self, host: Option<HostIx>, what: EventKind) {
        let at = self.now();
        digest(&mut self.history, at, host, &what);
        let host = host.map(|host| self.hosts.get(host).name.clone());
        self.history.events.push(Event { at, host, what });
    }

    /// Returns whether a task of the subject panicked.
    pub fn has_panicked(&self) -> bool {
        self.history.events.iter().any(|event| matches!(event.what, EventKind::Panicked { .. }))
    }

    /// Schedules an event. Within one millisecond, lower ranks come first.
    pub fn schedule(&mut self, at: Time, rank: u32, due: Due) {
        self.queue.push(at, rank, due);
    }

    /// Makes the driver check the queue again.
    pub fn wake_driver(&mut self) {
        if let Some(waker) = self.driver.take() {
            waker.wake();
        }
    }

    /// Returns the seed of this world's draws.
    pub fn seed(&self) -> u64 {
        self.plan.seed
    }
}

/// Adds an entry to the digest. Leaves out entries that only detailed histories contain.
fn digest(history: &mut History, at: Time, host: Option<HostIx>, what: &EventKind) {
    let chain = &mut history.digest;
    let mut head = |kind: u64| {
        chain.number(kind | (host.map_or(0, |host| host.0 as u64 + 1) << 8));
        chain.number(at.0);
    };
    match what {
        EventKind::Packet(_) | EventKind::Message { .. } => {}
        EventKind::Produced { stream, bytes } => {
            head(1);
            chain.bytes(stream.0.as_bytes());
            chain.bytes(&bytes.whole());
        }
        EventKind::Delivered { stream, bytes, generation } => {
            head(2);
            chain.bytes(stream.0.as_bytes());
            chain.bytes(&bytes.whole());
            chain.number(generation.map_or(0, |generation| generation + 1));
        }
        EventKind::Milestone { name, fields } => {
            head(3);
            chain.bytes(name.as_bytes());
            fields.iter().for_each(|field| digest_field(chain, field));
        }
        EventKind::Point { name, fields, held } => {
            head(4);
            chain.bytes(name.as_bytes());
            chain.number(u64::from(*held));
            fields.iter().for_each(|field| digest_field(chain, field));
        }
        EventKind::ConnOpened { conn } => {
            head(5);
            chain.number(conn.0 as u64);
        }
        EventKind::ConnUp { conn, side } => {
            head(6);
            chain.number(conn.0 as u64 * 2 + *side as u64);
        }
        EventKind::Gauge { name, value } => {
            head(8);
            chain.bytes(name.as_bytes());
            chain.number(*value);
        }
        // These entries are rare, so they are digested as a text with all their fields in order.
        EventKind::Answered { call, answer } => {
            head(7);
            chain.bytes(format!("Answered {{ call: {call:?}, result: {answer:?} }}").as_bytes());
        }
        EventKind::Observed { stream, saw } => {
            head(7);
            chain.bytes(format!("Saw {{ stream: {stream:?}, what: {saw:?} }}").as_bytes());
        }
        EventKind::ResourceCounts { baseline, counts } => {
            head(7);
            let text = format!("Census {{ baseline: {baseline:?}, counts: {counts:?} }}");
            chain.bytes(text.as_bytes());
        }
        EventKind::Unowned { what } => {
            head(7);
            chain.bytes(format!("Stray {{ what: {what:?} }}").as_bytes());
        }
        other => {
            head(7);
            chain.bytes(format!("{other:?}").as_bytes());
        }
    }
}

fn digest_field(
    chain: &mut crate::history::Digest,
    (name, value): &(&'static str, crate::schedule::MilestoneValue),
) {
    chain.bytes(name.as_bytes());
    match value {
        crate::schedule::MilestoneValue::Number(n) => chain.number(*n),
        crate::schedule::MilestoneValue::Text(text) => chain.bytes(text.as_bytes()),
    }
}
