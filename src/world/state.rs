//! The state of a world, and its history as it is written.

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
    /// How much virtual time has passed in this turn, once somebody asked for it.
    pub clock: Cell<Option<Duration>>,
    /// Packets on their way out of the kernels, between turns.
    pub outbound: Vec<Packet>,
    /// The kernels of all hosts, and the clock.
    pub stack: Box<dyn Stack>,
    pub hosts: Hosts,
    pub conns: Conns,
    pub faults: ActiveFaults,
    pub steps: StepRunner,
    pub queue: Queue,
    pub history: History,
    /// What the world outside runs, until it is started.
    pub outside: Option<Root>,
    /// The lines of the subject's own tracing output.
    pub log: Vec<String>,
    pub turns: Turns,
    /// Wakes the director.
    pub driver: Option<Waker>,
    /// The most that is still to be waited for when the clients are closed.
    pub settle: Duration,
    pub phase: Phase,
    /// Connections that were asked for and whose SYN has not been seen yet, in order, by host.
    pub opening: Vec<(HostIx, PendingConnect)>,
    /// Directions in which kernels sent something in this turn, where the world keeps the windows.
    pub leaving: Vec<(ConnIndex, crate::history::Side)>,
    /// Ends that have room again after their window had been below a segment.
    pub reopened: Vec<(ConnIndex, crate::history::Side)>,
    /// Ends whose users dropped their streams with bytes unread, in this turn.
    pub aborting: Vec<(ConnIndex, crate::history::Side)>,
    /// Where the operations of each client's user go.
    pub users: Vec<(HostIx, UnboundedSender<(Call, Operation)>)>,
    pub calls: u64,
    /// The counters of the subject's census.
    pub gauges: Vec<Counters>,
    /// What was said of things that belong to no host: each is said once.
    pub strays: BTreeSet<String>,
    pub entropy: Vec<ChaCha8Rng>,
    /// The run must stop now: time stands still.
    pub livelock: Option<String>,
    /// Whether messages are counted in this run.
    pub dissects: bool,
}

/// A connection that was asked for.
pub(super) struct PendingConnect {
    /// The server, and its port.
    pub to: (HostIx, u16),
    pub label: Option<&'static str>,
    pub end: SharedEnd,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Before the first turn is over.
    Starting,
    /// The schedule runs.
    Running,
    /// The users have gone: the clients close.
    Closing,
    /// The clients are gone; what is left is given time to go.
    Settling,
    /// It is over, and what is left is to be counted.
    Over,
}

impl World {
    /// The virtual time, rounded up to whole milliseconds.
    pub fn now(&self) -> Time {
        let passed = self.passed();
        Time(passed.as_secs() * 1_000 + u64::from(passed.subsec_nanos().div_ceil(1_000_000)))
    }

    /// Whether the clock stands at a whole millisecond.
    pub fn is_whole(&self) -> bool {
        self.passed().subsec_nanos().is_multiple_of(1_000_000)
    }

    fn passed(&self) -> Duration {
        let passed = self.clock.get().unwrap_or_else(|| self.stack.passed());
        self.clock.set(Some(passed));
        passed
    }

    /// The clock is about to move.
    pub fn forget_time(&self) {
        self.clock.set(None);
    }

    /// Writes an entry.
    pub fn record(&mut self, host: Option<HostIx>, what: EventKind) {
        let at = self.now();
        digest(&mut self.history, at, host, &what);
        let host = host.map(|host| self.hosts.get(host).name.clone());
        self.history.events.push(Event { at, host, what });
    }

    /// Whether a task of the subject panicked.
    pub fn has_panicked(&self) -> bool {
        self.history.events.iter().any(|event| matches!(event.what, EventKind::Panicked { .. }))
    }

    /// Has something happen at a time; within one millisecond, lower ranks come first.
    pub fn schedule(&mut self, at: Time, rank: u32, due: Due) {
        self.queue.push(at, rank, due);
    }

    /// Has the director look at the queue again.
    pub fn wake_driver(&mut self) {
        if let Some(waker) = self.driver.take() {
            waker.wake();
        }
    }

    /// The seed of this world's draws.
    pub fn seed(&self) -> u64 {
        self.plan.seed
    }
}

/// Chains an entry to the digest. What detailed histories alone hold is left out.
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
        // Rare entries: a text that has every field, in order.
        EventKind::Answered { call, answer } => {
            head(7);
            chain.bytes(format!("Answered {{ call: {call:?}, result: {answer:?} }}").as_bytes());
        }
        EventKind::Saw { stream, saw } => {
            head(7);
            chain.bytes(format!("Saw {{ stream: {stream:?}, what: {saw:?} }}").as_bytes());
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
