//! The host without sockets: sessions, chats, clients and their connections, driven by what comes in and what time it is.
//!
//! Whoever drives it tells it of connections that open and close, of the frames that they say, of restores that are over, and of
//! what its agents do; and asks what to say next on a connection ([`HostCore::pull`]), what else to do ([`HostCore::effect`]), and when to
//! come back though nothing happens ([`HostCore::due`]).
//!
//! - `channels`: what there is to subscribe to, and who holds what. `clients`: who is here, and until when the others are waited for.
//! - `handshake`: `initialize` and `reconnect`. `requests`: everything that clients ask for after it. `sessions`: how these come and go.
//! - `actions`: what clients dispatch: who may, what becomes of it, and of its repetition.
//! - `calls`: who runs a call, and what becomes of one whose owner is gone. `reverse`: what the host asks of clients.
//! - `outbound`: the cursor of each connection.
//! - `channel`, `client`, `transport`, `question`, `making`: what these are about, as data. `outside`: what is asked of the outside.

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
use crate::wire::ahp::state::ToolCallState;
use crate::wire::{ActionEnvelope, ActionOrigin, ROOT, SnapshotState, StateAction, weight};

mod actions;
mod calls;
mod channel;
mod channels;
mod client;
mod clients;
mod handshake;
mod making;
mod outbound;
mod outside;
mod question;
mod requests;
mod reverse;
mod sessions;
#[cfg(test)]
mod tests;
mod transport;

pub use calls::{CallId, Owner};
pub use outside::{HostEffect, HostIdentity, Stored};
pub use question::{Answer, Unanswered};
pub use transport::CloseReason;

use super::counts::Counts;
use channel::Channel;
use client::ClientRecord;
use making::Making;
use question::Reverse;
use transport::Transport;

/// The host.
pub struct HostCore {
    limits: HostLimits,
    identity: HostIdentity,
    clock: Arc<dyn WallClock>,
    /// The number of the last action.
    seq: u64,
    log: Retention<Arc<ActionEnvelope>>,
    channels: BTreeMap<String, Channel>,
    clients: BTreeMap<String, ClientRecord>,
    /// How many clients it has forgotten.
    forgotten: u64,
    transports: BTreeMap<ConnId, Transport>,
    /// What depends on a client: of a session, who is active in it; of a chat, who owns its pending calls.
    causes: BTreeMap<String, BTreeSet<String>>,
    /// Who is waited for, and in which channels, as was said last.
    waits: BTreeSet<(String, String)>,
    /// When each turn that is under way began.
    turns: BTreeMap<String, Turn>,
    /// How calls ended whose chats are gone, until the agents of their turns are stopped.
    left: BTreeMap<CallId, ToolCallState>,
    reverse: BTreeMap<i64, Reverse>,
    /// The sessions that are wanted, and may be there.
    making: Vec<Making>,
    effects: VecDeque<HostEffect>,
    /// For names that are given here.
    serial: u64,
    /// Says that something changed, to whoever waits for a call.
    changes: watch::Sender<u64>,
    /// Says that an effect stands ready, or that something is due earlier than was thought.
    changed: Arc<Notify>,
}

/// A turn that is under way.
struct Turn {
    id: String,
    began: Instant,
    client: Option<String>,
}

impl HostCore {
    /// A host without sessions.
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
            reverse: BTreeMap::new(),
            making: Vec::new(),
            effects: VecDeque::new(),
            serial: 0,
            changes: watch::Sender::new(0),
            changed: Arc::default(),
        }
    }

    /// The name of this life of the host.
    pub fn epoch(&self) -> &str {
        &self.identity.epoch
    }

    /// Wakes whoever has to look at [`HostCore::effect`] and [`HostCore::due`] again.
    pub fn changed(&self) -> Arc<Notify> {
        self.changed.clone()
    }

    /// Hears of every change of a call.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// How much of everything there is.
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
            causes: count(self.causes.len()),
            waits: count(self.waits.len()),
            turns: count(self.turns.len()),
            questions: count(self.reverse.len()),
            actions: count(self.log.len()),
            owed: count(self.transports.values().map(|transport| transport.kept.len()).sum()),
        }
    }

    /// A new name for a part of a turn.
    pub(crate) fn part_name(&mut self) -> String {
        self.name("part")
    }

    /// The number of the last action.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// The state of a channel, if it is in memory.
    pub fn state(&self, channel: &str) -> Option<&SnapshotState> {
        self.channels.get(channel)?.state.as_ref()
    }

    /// What is to be done outside.
    pub fn effect(&mut self) -> Option<HostEffect> {
        let effect = self.effects.pop_front();
        if let Some(HostEffect::Stop { chat, turn }) = &effect {
            self.left.retain(|call, _| (&call.chat, &call.turn) != (chat, turn));
        }
        effect
    }

    fn ask_outside(&mut self, effect: HostEffect) {
        self.effects.push_back(effect);
        self.changed.notify_one();
    }

    /// When something is due though nothing comes.
    pub fn due(&self) -> Option<Instant> {
        let leases = self.clients.values().filter_map(|client| client.due(&self.limits));
        let restores = self
            .channels
            .values()
            .filter_map(|channel| channel.restoring.map(|restoring| restoring.until));
        let restores = restores.filter(|_| !defect!(RestoreWithoutDeadline));
        let handshakes = self.transports.values().filter_map(Transport::handshake_until);
        let asked = self.reverse.values().map(|asked| asked.until);
        leases.chain(restores).chain(handshakes).chain(asked).min()
    }

    /// Does what is due. Everything that comes in does it first: what is over is over at its time, not when it is noticed.
    pub fn catch_up(&mut self, now: Instant) {
        self.give_up_restores(now);
        self.give_up_handshakes(now);
        self.give_up_asking(now);
        self.end_leases(now);
    }

    /// A time stamp.
    fn stamp(&self) -> String {
        stamp(self.clock.now())
    }

    /// A name that was not given before in this life of the host.
    fn name(&mut self, kind: &str) -> String {
        self.serial += 1;
        format!("{kind}-{}", self.serial)
    }

    /// Something happens to a channel, by the host's own will: returns why not, if it does not.
    ///
    /// # Errors
    /// Why it does not fit what is there.
    pub fn act(
        &mut self,
        channel: &str,
        action: StateAction,
        now: Instant,
    ) -> Result<(), &'static str> {
        self.catch_up(now);
        self.apply(channel, action, None, now).map(drop)
    }

    /// Applies an action, and tells everybody who subscribes to the channel.
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
        let envelope = ActionEnvelope {
            channel: channel.to_owned(),
            action,
            server_seq: self.seq,
            origin,
            rejection_reason: None,
        };
        self.publish(Arc::new(envelope), weight);
        self.count_causes(channel);
        if chat {
            self.summarize(channel, now);
        }
        self.review_all(now);
        self.changes.send_modify(|version| *version += 1);
        Ok(self.seq)
    }

    /// Whether there is room for what an action adds. What ends something always has.
    fn fits(
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
                    return Err("there was a turn of that id");
                }
                state.turns.len() >= self.limits.turns
            }
            _ => false,
        };
        if full { Err(FULL) } else { Ok(()) }
    }

    /// The session says of its chat what the chat says of itself, and whoever works at a turn that is over stops.
    fn summarize(&mut self, chat: &str, now: Instant) {
        let Some(SnapshotState::Chat(state)) = self.state(chat) else { return };
        let active = state.active_turn.as_ref().map(|turn| turn.id.clone());
        let (status, modified_at) = (state.status, state.modified_at.clone());
        let over = self
            .turns
            .get(chat)
            .filter(|turn| Some(&turn.id) != active.as_ref())
            .map(|turn| turn.id.clone());
        if let Some(turn) = over {
            self.turns.remove(chat);
            self.ask_outside(HostEffect::Stop { chat: chat.to_owned(), turn });
            self.save(chat);
        }
        self.mention(chat, status, modified_at, now);
    }

    /// How long a turn has taken.
    fn duration(&self, chat: &str, now: Instant) -> Duration {
        self.turns.get(chat).map_or(Duration::ZERO, |turn| now - turn.began)
    }
}

/// Why an action is refused that adds something.
const FULL: &str = "the channel is full";

/// Whether an action ends something, with a few words.
fn ends(action: &StateAction) -> bool {
    match action {
        StateAction::ChatToolCallComplete(complete) => {
            !complete.result.success && complete.result.content.is_none()
        }
        StateAction::ChatToolCallReady(ready) => ready.tool_input.is_none(),
        StateAction::ChatTurnComplete(_) | StateAction::ChatTurnCancelled(_) => true,
        StateAction::SessionActiveClientRemoved(_) | StateAction::SessionChatRemoved(_) => true,
        StateAction::SessionChatUpdated(_) | StateAction::RootActiveSessionsChanged(_) => true,
        _ => false,
    }
}

/// How a moment stands in a record.
pub(crate) fn stamp(at: SystemTime) -> String {
    // A wall clock that shows a year of five digits is wrong, and says the last moment of four.
    let last = SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_799);
    humantime::format_rfc3339_millis(at.clamp(SystemTime::UNIX_EPOCH, last)).to_string()
}
