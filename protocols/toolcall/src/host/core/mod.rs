//! The host without sockets: sessions, chats, clients and their connections. Its inputs are events
//! and the current time.
//!
//! The driver reports connections that open and close, received frames, finished restores, and the
//! agents' actions. It asks for the next message of a connection ([`HostCore::pull`]), for other
//! work ([`HostCore::effect`]), and for the time of the next timeout ([`HostCore::due`]).
//!
//! - `channels`: the channels, and their holders. `clients`: presence of clients, and how long the
//!   host waits for the disconnected ones.
//! - `handshake`: `initialize` and `reconnect`. `requests`: all later requests of clients.
//!   `sessions`: creation and removal of sessions.
//! - `actions`: actions that clients dispatch: permission, effect, and repetitions.
//! - `calls`: the owners of calls, and how a call ends when its owner disconnects. `host_requests`:
//!   requests of the host to clients.
//! - `outbound`: the cursor of each connection.
//! - `channel`, `client`, `transport`, `host_request`, `pending_creation`: the data types of these modules.
//!   `outside`: the effects for the driver. `defects`: what only seeded bugs do; `seeded`: their
//!   state.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use reknit_resume::{Bounds, Retention};
use reknit_seams::defect;
use reknit_seams::env::WallClock;
use reknit_seams::net::ConnId;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::limits::HostLimits;
use crate::state::chat;
use crate::wire::ahp::actions::ChatToolCallConfirmedAction;
use crate::wire::ahp::state::{ToolCallConfirmationReason, ToolCallState};
use crate::wire::{ActionEnvelope, ActionOrigin, ROOT, SnapshotState, StateAction, weight};

mod actions;
mod calls;
mod channel;
mod channels;
mod client;
mod clients;
mod defects;
mod handshake;
mod host_request;
mod host_requests;
mod outbound;
mod outside;
mod pending_creation;
mod requests;
mod seeded;
mod sessions;
#[cfg(test)]
mod tests;
mod transport;

pub use calls::{CallId, Owner};
pub use host_request::{Answer, Unanswered};
pub use outside::{HostEffect, HostIdentity, Stored};
pub use transport::CloseReason;

use super::counts::Counts;
use channel::Channel;
use client::ClientRecord;
use host_request::HostRequest;
use pending_creation::PendingCreation;
use seeded::SeededState;
use transport::Transport;

/// The state machine of the host.
pub struct HostCore {
    limits: HostLimits,
    identity: HostIdentity,
    clock: Arc<dyn WallClock>,
    /// The number of the last action.
    seq: u64,
    log: Retention<Arc<ActionEnvelope>>,
    channels: BTreeMap<String, Channel>,
    clients: BTreeMap<String, ClientRecord>,
    /// The number of clients that the host has forgotten.
    forgotten: u64,
    transports: BTreeMap<ConnId, Transport>,
    /// The clients that each channel depends on: for a session, its active clients; for a chat, the
    /// owners of its pending calls.
    causes: BTreeMap<String, BTreeSet<String>>,
    /// The clients that the host waits for, and the channels, as last reported.
    waits: BTreeSet<(String, String)>,
    /// The turns in progress, with their start times.
    turns: BTreeMap<String, Turn>,
    /// The ends of calls whose chats were removed, until the agents of their turns have stopped.
    left: BTreeMap<CallId, ToolCallState>,
    host_requests: BTreeMap<i64, HostRequest>,
    /// Requests to create sessions that may already exist in the archive.
    pending_creation: Vec<PendingCreation>,
    effects: VecDeque<HostEffect>,
    /// The counter for names that the host generates.
    serial: u64,
    /// Notifies tasks that wait for a call.
    changes: watch::Sender<u64>,
    /// Signals that an effect is available, or that a timeout moved earlier.
    changed: Arc<Notify>,
    seeded: SeededState,
}

/// A turn in progress.
struct Turn {
    id: String,
    began: Instant,
    client: Option<String>,
}

impl HostCore {
    /// Creates a host without sessions.
    pub fn new(limits: HostLimits, identity: HostIdentity, clock: Arc<dyn WallClock>) -> Self {
        let root = Channel::root(&identity);
        let log = Retention::new(Bounds { items: limits.log_actions, weight: limits.log_bytes });
        Self {
            limits,
            identity,
            clock,
            seq: 0,
            log,
            channels: [(ROOT.to_owned(), root)].into_iter().collect(),
            clients: BTreeMap::new(),
            forgotten: 0,
            transports: BTreeMap::new(),
            causes: BTreeMap::new(),
            waits: BTreeSet::new(),
            turns: BTreeMap::new(),
            left: BTreeMap::new(),
            host_requests: BTreeMap::new(),
            pending_creation: Vec::new(),
            effects: VecDeque::new(),
            serial: 0,
            changes: watch::Sender::new(0),
            changed: Arc::default(),
            seeded: SeededState::default(),
        }
    }

    /// Returns the name of this incarnation of the host.
    pub fn epoch(&self) -> &str {
        &self.identity.epoch
    }

    /// Returns the `Notify` that signals that [`HostCore::effect`] and [`HostCore::due`] must be
    /// read again.
    pub fn changed(&self) -> Arc<Notify> {
        self.changed.clone()
    }

    /// Returns a receiver that is notified of every change of a call.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Returns the resource counts.
    pub(crate) fn counts(&self) -> Counts {
        let count = |n: usize| n as u64;
        let chats = self
            .channels
            .values()
            .filter(|channel| matches!(channel.state, Some(SnapshotState::Chat(_))))
            .count();
        Counts {
            connections: count(self.transports.len()),
            clients: count(self.clients.len()),
            sessions: count(self.sessions()),
            chats: count(chats),
            holds: count(self.channels.keys().map(|channel| self.holders(channel).len()).sum()),
            subscriptions: count(
                self.transports.values().map(|transport| transport.subscriptions.len()).sum(),
            ),
            causes: count(self.causes.len()),
            waits: count(self.waits.len()),
            turns: count(self.turns.len()),
            questions: count(self.host_requests.len()),
            outcomes: count(self.clients.values().map(|client| client.outcomes.len()).sum()),
            restores: count(
                self.channels.values().filter(|channel| channel.restoring.is_some()).count(),
            ),
            left: count(self.left.len()),
            actions: count(self.log.len()),
            owed: count(self.transports.values().map(|transport| transport.kept.len()).sum()),
        }
    }

    /// Generates a name for a part of a turn.
    pub(crate) fn part_name(&mut self) -> String {
        self.name("part")
    }

    /// Returns the number of the last action.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Returns the state of a channel, if it is in memory.
    pub fn state(&self, channel: &str) -> Option<&SnapshotState> {
        self.channels.get(channel)?.state.as_ref()
    }

    /// Returns the next effect for the driver.
    pub fn effect(&mut self) -> Option<HostEffect> {
        self.effects.pop_front()
    }

    /// Handles that the agent of a turn has stopped: no task of it asks for its calls any more.
    pub fn agent_stopped(&mut self, chat: &str, turn: &str) {
        self.left.retain(|call, _| (call.chat.as_str(), call.turn.as_str()) != (chat, turn));
    }

    fn push_effect(&mut self, effect: HostEffect) {
        self.effects.push_back(effect);
        self.changed.notify_one();
    }

    /// Returns the time of the next timeout, if any.
    pub fn due(&self) -> Option<Instant> {
        let leases = self.clients.iter().filter_map(|(name, client)| self.lease_due(name, client));
        let restores = self
            .channels
            .values()
            .filter_map(|channel| channel.restoring.map(|restoring| restoring.until));
        let restores = restores.filter(|_| !defect!(RestoreWithoutDeadline));
        let handshakes = self.transports.values().filter_map(Transport::handshake_until);
        let asked = self.host_requests.values().map(|asked| asked.until);
        leases.chain(restores).chain(handshakes).chain(asked).min()
    }

    /// Handles every timeout that has passed. Each input calls this first, so that a timeout takes
    /// effect at its time, and not when a timer fires.
    pub fn catch_up(&mut self, now: Instant) {
        let now = if defect!(DeadlinesByWallClock) { self.by_wall_clock(now) } else { now };
        self.give_up_restores(now);
        self.give_up_handshakes(now);
        self.expire_host_requests(now);
        self.end_leases(now);
    }

    /// Returns the current time stamp.
    fn stamp(&self) -> String {
        stamp(self.clock.now())
    }

    /// Generates a name that is unique in this incarnation of the host.
    fn name(&mut self, kind: &str) -> String {
        self.serial += 1;
        format!("{kind}-{}", self.serial)
    }

    /// Applies an action of the host itself to a channel.
    ///
    /// # Errors
    /// The reason why the action does not fit the current state.
    pub fn act(
        &mut self,
        channel: &str,
        action: StateAction,
        now: Instant,
    ) -> Result<(), &'static str> {
        self.catch_up(now);
        if defect!(SlowStreamFails) {
            self.fail_slow_stream(channel, &action, now);
        }
        self.apply(channel, action, None, now).map(drop)
    }

    /// Applies an action, and publishes it to all subscribers of the channel. Returns its number.
    fn apply(
        &mut self,
        channel: &str,
        action: StateAction,
        origin: Option<ActionOrigin>,
        now: Instant,
    ) -> Result<u64, &'static str> {
        let weight = weight(&action);
        self.fits(channel, &action, weight)?;
        let known = self.channels.get_mut(channel).ok_or("no such channel")?;
        let state = known.state.as_mut().ok_or("no such channel")?;
        if let Some(why) = crate::state::apply(state, &action).ignored() {
            return Err(why);
        }
        let chat = matches!(state, SnapshotState::Chat(_));
        known.weight += weight;
        self.seq += 1;
        let number = self.seq;
        let envelope = ActionEnvelope {
            channel: channel.to_owned(),
            action,
            server_seq: number,
            origin,
            rejection_reason: None,
        };
        self.publish(Arc::new(envelope), weight);
        self.count_causes(channel);
        if chat {
            self.summarize(channel, now);
        }
        self.update_waits(now);
        self.changes.send_modify(|version| *version += 1);
        // The entry of the chat in its session may have changed since.
        Ok(if defect!(EntryCountsAsTheAction) { self.seq } else { number })
    }

    /// Whether the channel has room for an action. An action that ends something always fits.
    pub(super) fn fits(
        &mut self,
        channel: &str,
        action: &StateAction,
        weight: usize,
    ) -> Result<(), &'static str> {
        let most = self.limits.channel_bytes;
        let known = self.channels.get_mut(channel).ok_or("no such channel")?;
        if !ends(action) && !known.has_room(weight, most) {
            return Err(FULL);
        }
        let Some(SnapshotState::Chat(state)) = self.state(channel) else { return Ok(()) };
        let full = match action {
            StateAction::ChatResponsePart(_) | StateAction::ChatToolCallStart(_) => state
                .active_turn
                .as_ref()
                .is_some_and(|turn| turn.response_parts.len() >= self.limits.parts),
            StateAction::ChatTurnStarted(started) => {
                if chat::knows_turn(state, &started.turn_id) && !defect!(TurnStartedTwice) {
                    return Err("a turn with that id already exists");
                }
                state.turns.len() >= self.limits.turns
            }
            _ => false,
        };
        if full { Err(FULL) } else { Ok(()) }
    }

    /// Copies the chat's summary into its session, and stops the agent of a turn that is over.
    fn summarize(&mut self, chat: &str, now: Instant) {
        let Some(SnapshotState::Chat(state)) = self.state(chat) else { return };
        let active = state.active_turn.as_ref().map(|turn| turn.id.clone());
        let (status, modified_at) = (state.status, state.modified_at.clone());
        let over = self
            .turns
            .get(chat)
            .filter(|turn| Some(&turn.id) != active.as_ref())
            .map(|turn| turn.id.clone());
        let is_over = over.is_some();
        if let Some(turn) = over {
            self.turns.remove(chat);
            self.push_effect(HostEffect::Stop { chat: chat.to_owned(), turn });
            if !defect!(SavesOnlyAtTheEviction) {
                self.save(chat);
            }
        }
        self.update_chat_entry(chat, status, modified_at, now);
        let session = self.channels.get(chat).and_then(|chat| chat.session.clone());
        if let Some(session) = session.filter(|_| is_over) {
            self.save(&session);
        }
    }

    /// Returns the duration of a turn.
    fn duration(&self, chat: &str, now: Instant) -> Duration {
        self.turns.get(chat).map_or(Duration::ZERO, |turn| now - turn.began)
    }
}

/// The reason why an action that adds data is refused.
pub(super) const FULL: &str = "the channel is full";

/// Whether an action ends something, and is short. A user's decision about a call ends the wait for
/// it: in a full chat, the user could neither approve nor deny the call otherwise.
fn ends(action: &StateAction) -> bool {
    match action {
        StateAction::ChatToolCallComplete(complete) => {
            !complete.result.success && complete.result.content.is_none()
        }
        StateAction::ChatToolCallReady(ready) => ready.tool_input.is_none(),
        StateAction::ChatToolCallConfirmed(confirmed) => is_plain(confirmed),
        StateAction::ChatToolCallResultConfirmed(confirmed) => confirmed.meta.is_none(),
        StateAction::ChatTurnComplete(_) | StateAction::ChatTurnCancelled(_) => true,
        StateAction::SessionActiveClientRemoved(_) | StateAction::SessionChatRemoved(_) => true,
        StateAction::SessionChatUpdated(_) | StateAction::RootActiveSessionsChanged(_) => true,
        _ => false,
    }
}

/// Whether a user's decision about a call contains nothing but the decision.
fn is_plain(confirmed: &ChatToolCallConfirmedAction) -> bool {
    confirmed.meta.is_none()
        && confirmed.edited_tool_input.is_none()
        && confirmed.user_suggestion.is_none()
        && confirmed.reason_message.is_none()
        && confirmed.selected_option_id.is_none()
        && !matches!(confirmed.confirmed, Some(ToolCallConfirmationReason::Unknown(_)))
}

/// Formats a time for a record.
pub(crate) fn stamp(at: SystemTime) -> String {
    // If the wall clock shows a year of five digits, it is wrong; the result is the last moment of
    // year 9999.
    let last = SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_799);
    humantime::format_rfc3339_millis(at.clamp(SystemTime::UNIX_EPOCH, last)).to_string()
}
