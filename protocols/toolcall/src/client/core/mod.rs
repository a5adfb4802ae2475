//! The client without sockets: replicas of channels, its requests, and its connection. Its inputs
//! are events and the current time.
//!
//! - `line`: the connection: attempts, pauses, the handshake. `phase`: the state of the connection.
//! - `inbound`: messages of the host. `replica`: the confirmed state of a channel.
//! - `outbound`: the user's requests, in one order over any number of connections. `request`: the
//!   requests that wait.
//! - `runner`: the calls that this client runs. `run`: one such call.
//! - `defects`: what only seeded bugs do.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use reknit_resume::{BackOff, SeenIds};
use reknit_seams::defect;
use serde_json::value::RawValue;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::Failure;
use crate::limits::ClientLimits;
use crate::wire::ahp::state::ToolDefinition;
use crate::wire::{Message, RequestId, SnapshotState};

mod defects;
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

use defects::SeededState;
use phase::Line;
use replica::Replica;
use request::{Held, PendingRequest, Unconfirmed};
use run::Running;

/// The identity of a client, without its limits.
#[derive(Clone, Debug)]
pub struct ClientIdentity {
    /// The client's id at the host, for all its connections. Each window has a new one, each time
    /// it is loaded.
    pub client: String,
    /// The tools that the client runs.
    pub tools: Vec<ToolDefinition>,
}

/// The state of a client's connection to its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Not connected yet.
    Connecting,
    /// Connected, and up to date.
    Connected,
    /// Was connected before, and is reconnecting.
    Reconnecting,
    /// Closed for good.
    Closed(Failure),
}

/// A request of the core to the driver.
#[derive(Debug)]
pub enum ClientEffect {
    /// Opens the connection with this number.
    Open(u64),
    /// Sends a message on the connection.
    Send(u64, Message),
    /// Closes the connection.
    Close(u64),
    /// Runs a call.
    Run(Run),
    /// Stops work on a call, because the call is over.
    Stop(Key),
    /// The host sent a request.
    AnswerRequest {
        /// The connection that carried the request.
        generation: u64,
        /// The id of the request.
        id: RequestId,
        /// The method.
        method: String,
        /// The parameters.
        params: Option<Box<RawValue>>,
    },
}

/// The state machine of the client.
pub struct ClientCore {
    limits: ClientLimits,
    identity: ClientIdentity,
    line: Line,
    back_off: BackOff,
    /// The number of the newest connection.
    generation: u64,
    /// Whether it was ever connected.
    was_connected: bool,
    /// The epoch (incarnation) of the host that it knows.
    epoch: Option<String>,
    /// The longest message in bytes that the host accepts.
    longest: usize,
    /// The number of the last action that it saw.
    seen: u64,
    /// The answers over this connection include all actions up to this number.
    included: u64,
    replicas: BTreeMap<String, Replica>,
    /// The number of replicas that it ever had.
    copies: u64,
    /// The channels from which the user has unsubscribed since the handshake began. The host does not
    /// know it yet, even if the user has subscribed again.
    dropped: BTreeSet<String>,
    unconfirmed: BTreeMap<i64, Unconfirmed>,
    actions: i64,
    requests: i64,
    /// Requests sent over this connection without an answer yet.
    in_flight: BTreeMap<i64, PendingRequest>,
    /// Requests and actions that wait for a connection, in order.
    held: VecDeque<Held>,
    tokens: BTreeMap<String, String>,
    /// Whether the host still has to answer some token since the last `initialize`.
    tokens_are_owed: bool,
    /// The sessions in which it is active.
    joined: BTreeSet<String>,
    running: BTreeMap<Key, Running>,
    /// The calls that it started.
    begun: SeenIds<Key>,
    effects: VecDeque<ClientEffect>,
    changes: watch::Sender<u64>,
    changed: Arc<Notify>,
    seeded: SeededState,
}

/// Resource counts of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientResources {
    /// Subscribed channels.
    pub channels: u64,
    /// Actions that the host has not confirmed.
    pub unconfirmed: u64,
    /// Requests in flight.
    pub in_flight: u64,
    /// Requests and actions that wait for a connection.
    pub held: u64,
    /// Calls that the client runs.
    pub running: u64,
}

impl ClientCore {
    /// Creates a client that opens its first connection at once.
    pub fn new(limits: ClientLimits, identity: ClientIdentity, now: Instant) -> Self {
        Self {
            limits,
            identity,
            line: Line::Waiting { until: now },
            back_off: BackOff::new(limits.back_off_min, limits.back_off_max),
            generation: 0,
            was_connected: false,
            epoch: None,
            longest: limits.wire.message_bytes,
            seen: 0,
            included: 0,
            replicas: BTreeMap::new(),
            copies: 0,
            dropped: BTreeSet::new(),
            unconfirmed: BTreeMap::new(),
            actions: 0,
            requests: 0,
            in_flight: BTreeMap::new(),
            held: VecDeque::new(),
            tokens: BTreeMap::new(),
            tokens_are_owed: false,
            joined: BTreeSet::new(),
            running: BTreeMap::new(),
            begun: SeenIds::new(limits.begun_calls),
            effects: VecDeque::new(),
            changes: watch::Sender::new(0),
            changed: Arc::default(),
            seeded: SeededState::default(),
        }
    }

    /// Returns the client's id at the host.
    pub fn id(&self) -> &str {
        &self.identity.client
    }

    /// Returns the state of the connection to the host.
    pub fn state(&self) -> State {
        match &self.line {
            Line::Closed(why) => State::Closed(why.clone()),
            Line::Connected { .. } => State::Connected,
            _ if self.was_connected => State::Reconnecting,
            _ => State::Connecting,
        }
    }

    /// Returns the number of connections opened or attempted so far.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the number of the last action that the client saw.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Returns the state of a channel that the host confirmed.
    pub fn confirmed(&self, channel: &str) -> Option<&SnapshotState> {
        self.replicas.get(channel)?.confirmed()
    }

    /// Returns the same, with the number of the client's copy. If the channel was removed, and another
    /// one of the same name was received, the number is another one.
    pub fn confirmed_copy(&self, channel: &str) -> Option<(u64, &SnapshotState)> {
        let replica = self.replicas.get(channel)?;
        Some((replica.number(), replica.confirmed()?))
    }

    /// Returns the replica of a channel, perhaps a new one without a state.
    fn replica(&mut self, channel: &str) -> &mut Replica {
        let copies = &mut self.copies;
        self.replicas.entry(channel.to_owned()).or_insert_with(|| {
            *copies += 1;
            Replica::new(*copies)
        })
    }

    /// Returns the state of a channel including this client's unconfirmed actions.
    pub fn view(&self, channel: &str) -> Option<SnapshotState> {
        let mut state = self.confirmed(channel)?.clone();
        // The bug: an action that waits for a connection shows in each channel.
        let is_shown = |unconfirmed: &&Unconfirmed| {
            unconfirmed.channel == channel
                || !unconfirmed.sent && defect!(WaitingActionsShowEverywhere)
        };
        for unconfirmed in self.unconfirmed.values().filter(is_shown) {
            // The host will also reject an action that does not fit any more.
            let _ = crate::state::apply(&mut state, &unconfirmed.action);
        }
        Some(state)
    }

    /// Returns a receiver that is notified of every change.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Returns the `Notify` that signals that [`ClientCore::effect`] and [`ClientCore::due`] must
    /// be read again.
    pub fn changed(&self) -> Arc<Notify> {
        self.changed.clone()
    }

    /// Returns the next effect for the driver.
    pub fn effect(&mut self) -> Option<ClientEffect> {
        self.effects.pop_front()
    }

    /// Returns the resource counts.
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

    fn push_effect(&mut self, effect: ClientEffect) {
        let wakes = !matches!(effect, ClientEffect::Send(..)) || !defect!(MessagesWakeNothing);
        self.effects.push_back(effect);
        if wakes {
            self.changed.notify_one();
        }
    }

    fn send(&mut self, message: Message) {
        self.push_effect(ClientEffect::Send(self.generation, message));
    }

    fn notify(&mut self) {
        self.changes.send_modify(|version| *version += 1);
    }
}
