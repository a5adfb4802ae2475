//! What is said on a connection: answers, and the actions of the channels that it subscribes to, along a cursor into the log.
//!
//! Everything stands in one order, that of what happened: an answer waits until the actions before it were said, so that a snapshot
//! never overtakes what it includes, and nothing that came after it is ahead of it.
//!
//! A connection falls behind when it does not take what it is offered, and so many actions follow that the log lets one of these
//! go: then it is over, its client comes back, and is given snapshots. A connection that took everything it was offered is not
//! behind, however many actions happen before it is asked again: those that leave the log are kept for it. So this adds to the
//! bounds of the log only what happens between two times at which a connection is asked.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use reknit_seams::net::ConnId;
use reknit_seams::{defect, milestone};
use serde::Serialize;
use tokio::sync::Notify;
use tokio::time::Instant;

use reknit_resume::Retention;

use super::Core;
use super::handshake::Handshake;
use crate::wire::{ActionEnvelope, Message, RequestId, method};

/// Why a connection is to be closed from this side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Over {
    /// It said what no client says.
    #[error("the client said {0}")]
    Broke(&'static str),
    /// It took too long to say who it is.
    #[error("no handshake")]
    NoHandshake,
    /// It reads so slowly that what it is owed is not kept any more.
    #[error("the client is too far behind")]
    Behind,
}

/// What a connection subscribes to.
#[derive(Debug)]
pub(super) enum Subscription {
    /// The requests that wait for a restore; none where a handshake waits.
    Pending(Vec<RequestId>),
    /// Actions after this number are said.
    Active(u64),
}

/// How far a connection has come.
pub(super) enum Stage {
    /// It did not say who it is, until when it may.
    Fresh(Instant),
    /// It said, and its channels are being restored.
    Arriving(Handshake),
    /// It is the connection of this client.
    Live(String),
}

/// The number of no action: every one is before it.
const ALL: u64 = u64::MAX;

/// A connection.
pub(super) struct Transport {
    pub(super) stage: Stage,
    /// The number of the last action that was said, or that needs not be.
    pub(super) cursor: u64,
    /// What it is owed after the cursor that the log has let go.
    kept: VecDeque<Arc<ActionEnvelope>>,
    /// Up to which action it is kept what it is owed: the last one when it was asked after it had taken everything; `ALL` as long
    /// as it has.
    keeps_until: u64,
    pub(super) subscriptions: BTreeMap<String, Subscription>,
    /// What is said besides, and behind which action.
    replies: VecDeque<(u64, Message)>,
    /// How many bytes these hold, about.
    reply_bytes: usize,
    pub(super) over: Option<Over>,
    /// How many actions of its client had been heard when that began to count from one here. None of these is repeated here.
    pub(super) counts_after: u64,
    wake: Arc<Notify>,
    /// Subscriptions that were taken back while they waited; only a defect asks.
    pub(super) cancelled: BTreeSet<String>,
}

impl Transport {
    /// The client whose connection it is, or is about to be.
    pub(super) fn client(&self) -> Option<&str> {
        match &self.stage {
            Stage::Fresh(_) => None,
            Stage::Arriving(handshake) => Some(&handshake.client),
            Stage::Live(client) => Some(client),
        }
    }

    /// When the handshake has to be over.
    pub(super) fn handshake_until(&self) -> Option<Instant> {
        match &self.stage {
            _ if self.over.is_some() => None,
            Stage::Fresh(until) => Some(*until),
            Stage::Arriving(handshake) => Some(handshake.until),
            Stage::Live(_) => None,
        }
    }

    /// Whether it holds a channel: subscribes to it, or asks to.
    pub(super) fn holds(&self, channel: &str) -> bool {
        self.subscriptions.contains_key(channel) || matches!(&self.stage, Stage::Arriving(handshake) if handshake.wants(channel))
    }

    /// Whether it is told what happens to a channel.
    pub(super) fn is_active(&self, channel: &str) -> bool {
        matches!(self.stage, Stage::Live(_)) && matches!(self.subscriptions.get(channel), Some(Subscription::Active(_)))
    }

    /// Whether it is told what happens to a channel, and has been told how that was at this number or later.
    pub(super) fn is_active_since(&self, channel: &str, seq: u64) -> bool {
        matches!(self.subscriptions.get(channel), Some(Subscription::Active(from)) if *from >= seq)
    }

    /// Whether it waits for a restore of this channel.
    pub(super) fn waits_for(&self, channel: &str) -> bool {
        matches!(self.subscriptions.get(channel), Some(Subscription::Pending(_)))
            || matches!(&self.stage, Stage::Arriving(handshake) if handshake.waiting.contains(channel))
    }

    /// The channels that its handshake asks for.
    pub(super) fn wanted(&self) -> Vec<String> {
        match &self.stage {
            Stage::Arriving(handshake) => handshake.channels.clone(),
            _ => Vec::new(),
        }
    }

    /// A channel is gone.
    pub(super) fn forget(&mut self, channel: &str) {
        self.subscriptions.remove(channel);
    }

    /// Whether an action is to be said here. What its own client did is, whatever it subscribes to by now: it waits to hear.
    pub(super) fn is_owed(&self, envelope: &ActionEnvelope) -> bool {
        match (&self.stage, &envelope.origin) {
            (Stage::Live(client), Some(origin)) if origin.client_id == *client => return true,
            _ => {}
        }
        match self.subscriptions.get(&envelope.channel) {
            Some(Subscription::Active(from)) => envelope.server_seq > *from,
            _ => false,
        }
    }

    pub(super) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Whether it took everything when it was asked last.
    fn takes_all(&self) -> bool {
        self.keeps_until == ALL
    }

    /// The actions after the cursor, in order: those that the log has let go as far as they are owed, and all others.
    pub(super) fn after_cursor<'a>(
        &'a self,
        log: &'a Retention<Arc<ActionEnvelope>>,
    ) -> impl Iterator<Item = &'a Arc<ActionEnvelope>> {
        self.kept.iter().chain(log.since(self.cursor + 1).map(|(_, envelope)| envelope))
    }

    /// The next answer or notice.
    fn reply(&mut self) -> Option<Message> {
        let (behind, message) = self.replies.pop_front()?;
        self.cursor = self.cursor.max(behind);
        self.reply_bytes -= message.weight();
        Some(message)
    }

    /// The next action to say up to this number, if there is one; the cursor is behind it then.
    fn take(&mut self, log: &Retention<Arc<ActionEnvelope>>, until: u64) -> Option<Arc<ActionEnvelope>> {
        let due = |envelope: &&Arc<ActionEnvelope>| envelope.server_seq <= until;
        let next = self.after_cursor(log).take_while(due).find(|envelope| self.is_owed(envelope)).cloned();
        self.cursor = self.cursor.max(next.as_ref().map_or(until, |envelope| envelope.server_seq));
        while self.kept.front().is_some_and(|envelope| envelope.server_seq <= self.cursor) {
            self.kept.pop_front();
        }
        next
    }

    /// The log lets its actions go up to this number: keeps those that are owed, or says that the connection is behind.
    fn outlives(&mut self, log: &Retention<Arc<ActionEnvelope>>, went: u64) -> bool {
        if went > self.keeps_until {
            return false;
        }
        let goes = log.since(self.cursor + 1).map(|(_, envelope)| envelope).take_while(|envelope| envelope.server_seq <= went);
        let owed = goes.filter(|envelope| self.is_owed(envelope)).cloned().collect::<Vec<_>>();
        self.kept.extend(owed);
        true
    }
}

impl Core {
    /// A connection is open. `wake` is told when there is something to pull.
    pub fn open(&mut self, conn: ConnId, wake: Arc<Notify>, now: Instant) {
        self.catch_up(now);
        let stage = Stage::Fresh(now + self.limits.handshake_deadline);
        let (subscriptions, replies) = (BTreeMap::new(), VecDeque::new());
        let transport = Transport {
            stage,
            cursor: self.seq,
            kept: VecDeque::new(),
            keeps_until: ALL,
            subscriptions,
            replies,
            reply_bytes: 0,
            over: None,
            counts_after: 0,
            wake,
            cancelled: BTreeSet::new(),
        };
        self.transports.insert(conn, transport);
        self.changed.notify_one();
    }

    /// Why a connection is to be closed, if it is.
    pub fn over(&self, conn: ConnId) -> Option<Over> {
        self.transports.get(&conn).and_then(|transport| transport.over)
    }

    /// The connection is to be closed, after what was said until now.
    pub(super) fn end(&mut self, conn: ConnId, over: Over) {
        if let Some(transport) = self.transports.get_mut(&conn) {
            transport.over.get_or_insert(over);
            transport.wake();
        }
    }

    /// Keeps an action for everybody to whom it is to be said.
    pub(super) fn publish(&mut self, envelope: Arc<ActionEnvelope>, weight: usize) {
        let newest = if defect!(NewestTransportOnly) { Some(self.newest_transports()) } else { None };
        for (conn, transport) in &mut self.transports {
            if newest.as_ref().is_some_and(|newest| !newest.contains(conn)) {
                transport.cursor = envelope.server_seq; // it is not told, and will not be
            } else if transport.is_owed(&envelope) {
                transport.wake();
            } else if transport.cursor + 1 == envelope.server_seq {
                transport.cursor = envelope.server_seq;
            }
        }
        if let Some(goes) = self.log.would_go(weight) {
            self.cut_behind(goes);
        }
        self.log.push(envelope.server_seq, weight, envelope);
    }

    /// The newest connection of each client, for a defect.
    fn newest_transports(&self) -> Vec<ConnId> {
        self.clients.values().filter_map(|client| client.presence.newest()).collect()
    }

    /// The log lets actions go: connections that did not take these when they could are over.
    fn cut_behind(&mut self, goes: u64) {
        let live = |transport: &Transport| matches!(transport.stage, Stage::Live(_)) && transport.over != Some(Over::Behind);
        for (conn, transport) in &mut self.transports {
            if transport.cursor < goes && live(transport) && !transport.outlives(&self.log, goes) {
                milestone!("toolcall.host.behind", conn = conn.0);
                transport.over = Some(Over::Behind);
                transport.kept.clear();
                transport.wake();
            }
        }
    }

    /// What is to be said next on a connection.
    pub fn pull(&mut self, conn: ConnId) -> Option<Message> {
        let transport = self.transports.get_mut(&conn)?;
        let until = transport.replies.front().map_or(self.seq, |(behind, _)| *behind);
        let action = if transport.over == Some(Over::Behind) { None } else { transport.take(&self.log, until) };
        let next = action.map(|envelope| Message::notification(method::ACTION, &*envelope)).or_else(|| transport.reply());
        // Whoever drives it asks again at once, as long as there is room for more.
        transport.keeps_until = if next.is_some() { transport.keeps_until.min(self.seq) } else { ALL };
        next
    }

    /// Says something on a connection, behind everything that has happened.
    pub(super) fn say(&mut self, conn: ConnId, message: Message) {
        let (seq, limits) = (self.seq, self.limits);
        let Some(transport) = self.transports.get_mut(&conn) else { return };
        let many = transport.replies.len() >= limits.replies && !transport.takes_all();
        if many || transport.reply_bytes >= limits.wire.outbox_bytes {
            return self.end(conn, Over::Behind);
        }
        transport.reply_bytes += message.weight();
        let behind = if defect!(AnswersOvertake) { 0 } else { seq };
        transport.replies.push_back((behind, message));
        transport.wake();
    }

    /// Says something to everybody.
    pub(super) fn say_to_all(&mut self, method: &str, params: &impl Serialize) {
        let live = self.transports.iter().filter(|(_, transport)| matches!(transport.stage, Stage::Live(_)));
        for conn in live.map(|(conn, _)| *conn).collect::<Vec<_>>() {
            self.say(conn, Message::notification(method, params));
        }
    }
}
