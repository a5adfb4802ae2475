//! The client without sockets: replicas of channels, what it asked for, and what it does about its connection, driven by what comes
//! in and what time it is.
//!
//! - `line`: the connection: attempts, pauses, the handshake. `phase`: how it is.
//! - `inbound`: what the host says. `replica`: what is known of a channel, and what is only assumed.
//! - `outbound`: what the user asks for, in one order, over however many connections. `request`: what of that waits.
//! - `runner`: the calls that this client runs. `run`: one of them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use reknit_resume::{BackOff, Seen};
use serde_json::value::RawValue;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::Failure;
use crate::limits::ClientLimits;
use crate::wire::ahp::state::ToolDefinition;
use crate::wire::{Message, RequestId, SnapshotState};

mod inbound;
mod line;
mod outbound;
mod phase;
mod replica;
mod request;
mod run;
mod runner;
#[cfg(test)]
mod tests;

pub use run::{Key, Run};

use phase::Line;
use replica::Replica;
use request::{Asked, Held, Unconfirmed};
use run::Running;

/// What a client is, besides its limits.
#[derive(Clone, Debug)]
pub struct ClientIdentity {
    /// What the host knows it by, over all its connections: a new one for each window, and each time it is loaded.
    pub client: String,
    /// The tools that it runs.
    pub tools: Vec<ToolDefinition>,
}

/// How a client stands with its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It has not been connected yet.
    Connecting,
    /// It is connected, and everything that was missed is known.
    Connected,
    /// It was connected, and is getting there again.
    Reconnecting,
    /// It is over, for good.
    Closed(Failure),
}

/// What is to be done outside.
#[derive(Debug)]
pub enum ClientEffect {
    /// A connection is to be opened; it is the one of this number.
    Open(u64),
    /// Something is to be said on it.
    Send(u64, Message),
    /// It is not wanted any more.
    Close(u64),
    /// A call is to be run.
    Run(Run),
    /// A call is over: nobody is to work at it any more.
    Stop(Key),
    /// The host wants to know something.
    Asked {
        /// Over which connection.
        generation: u64,
        /// What the answer is known by.
        id: RequestId,
        /// What it wants to know.
        method: String,
        /// With what.
        params: Option<Box<RawValue>>,
    },
}

/// The client.
pub struct ClientCore {
    limits: ClientLimits,
    identity: ClientIdentity,
    line: Line,
    back_off: BackOff,
    /// How many attempts there were since it was last connected; only a defect asks.
    attempts: u32,
    /// The number of the newest connection.
    generation: u64,
    /// Whether it was ever connected.
    was_connected: bool,
    /// The life of the host that it knows.
    epoch: Option<String>,
    /// The number of the last action that it saw.
    seen: u64,
    replicas: BTreeMap<String, Replica>,
    unconfirmed: BTreeMap<i64, Unconfirmed>,
    actions: i64,
    requests: i64,
    /// What was asked over this connection, and is not answered.
    in_flight: BTreeMap<i64, Asked>,
    /// What waits for a connection, in order.
    held: VecDeque<Held>,
    tokens: BTreeMap<String, String>,
    /// Whether the host took it in anew, and has not answered all tokens since.
    tokens_are_owed: bool,
    /// The sessions in which it is active.
    joined: BTreeSet<String>,
    running: BTreeMap<Key, Running>,
    /// The calls that it began.
    begun: Seen<Key>,
    effects: VecDeque<ClientEffect>,
    changes: watch::Sender<u64>,
    changed: Arc<Notify>,
}

/// How much of everything a client holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientResources {
    /// Channels that it subscribes to.
    pub channels: u64,
    /// Actions that the host did not confirm.
    pub unconfirmed: u64,
    /// Requests in flight.
    pub in_flight: u64,
    /// Requests and actions that wait for a connection.
    pub held: u64,
    /// Calls that it runs.
    pub running: u64,
}

impl ClientCore {
    /// A client that opens its first connection at once.
    pub fn new(limits: ClientLimits, identity: ClientIdentity, now: Instant) -> Self {
        Self {
            limits,
            identity,
            line: Line::Waiting { until: now },
            back_off: BackOff::new(limits.back_off_min, limits.back_off_max),
            attempts: 0,
            generation: 0,
            was_connected: false,
            epoch: None,
            seen: 0,
            replicas: BTreeMap::new(),
            unconfirmed: BTreeMap::new(),
            actions: 0,
            requests: 0,
            in_flight: BTreeMap::new(),
            held: VecDeque::new(),
            tokens: BTreeMap::new(),
            tokens_are_owed: false,
            joined: BTreeSet::new(),
            running: BTreeMap::new(),
            begun: Seen::new(limits.begun_calls),
            effects: VecDeque::new(),
            changes: watch::Sender::new(0),
            changed: Arc::default(),
        }
    }

    /// What the host knows it by.
    pub fn id(&self) -> &str {
        &self.identity.client
    }

    /// How it stands with its host.
    pub fn state(&self) -> State {
        match &self.line {
            Line::Closed(why) => State::Closed(why.clone()),
            Line::Connected { .. } => State::Connected,
            _ if self.was_connected => State::Reconnecting,
            _ => State::Connecting,
        }
    }

    /// How many connections it has opened, or tried to.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The number of the last action that it saw.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// What the host confirmed of a channel.
    pub fn confirmed(&self, channel: &str) -> Option<&SnapshotState> {
        self.replicas.get(channel)?.confirmed()
    }

    /// The same, with what this client did and the host did not confirm yet.
    pub fn view(&self, channel: &str) -> Option<SnapshotState> {
        let mut state = self.confirmed(channel)?.clone();
        for unconfirmed in
            self.unconfirmed.values().filter(|unconfirmed| unconfirmed.channel == channel)
        {
            // What does not fit any more will be refused, too.
            let _ = crate::state::apply(&mut state, &unconfirmed.action);
        }
        Some(state)
    }

    /// Hears of every change.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Wakes whoever has to look at [`ClientCore::effect`] and [`ClientCore::due`] again.
    pub fn changed(&self) -> Arc<Notify> {
        self.changed.clone()
    }

    /// What is to be done outside.
    pub fn effect(&mut self) -> Option<ClientEffect> {
        self.effects.pop_front()
    }

    /// How much of everything it holds.
    pub fn resources(&self) -> ClientResources {
        let count = |n: usize| n as u64;
        ClientResources {
            channels: count(self.replicas.len()),
            unconfirmed: count(self.unconfirmed.len()),
            in_flight: count(self.in_flight.len()),
            held: count(self.held.len()),
            running: count(self.running.len()),
        }
    }

    fn outside(&mut self, effect: ClientEffect) {
        self.effects.push_back(effect);
        self.changed.notify_one();
    }

    fn send(&mut self, message: Message) {
        self.outside(ClientEffect::Send(self.generation, message));
    }

    fn notify(&mut self) {
        self.changes.send_modify(|version| *version += 1);
    }
}
