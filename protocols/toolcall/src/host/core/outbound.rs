//! What is said on a connection: answers, and the actions of the channels that it subscribes to, along a cursor into the log.
//!
//! Everything stands in one order, that of what happened: an answer waits until the actions before it were said, so that a snapshot
//! never overtakes what it includes, and nothing that came after it is ahead of it.
//!
//! A connection falls behind when it does not take what it is offered, and so many actions follow that the log lets one of these
//! go: then it is over, its client comes back, and is given snapshots. A connection that took everything it was offered is not
//! behind, however many actions happen before it is asked again: those that leave the log are kept for it, as many bytes as the log
//! may hold. Beyond that it is behind, too.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use reknit_seams::net::ConnId;
use reknit_seams::{defect, milestone};
use serde::Serialize;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::HostCore;
use super::transport::{ALL, CloseReason, Stage, Transport};
use crate::wire::{ActionEnvelope, Message, method};

impl HostCore {
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
    pub fn over(&self, conn: ConnId) -> Option<CloseReason> {
        self.transports.get(&conn).and_then(|transport| transport.over)
    }

    /// The connection is to be closed, after what was said until now.
    pub(super) fn end(&mut self, conn: ConnId, over: CloseReason) {
        if let Some(transport) = self.transports.get_mut(&conn) {
            transport.over.get_or_insert(over);
            transport.wake();
        }
    }

    /// Keeps an action for everybody to whom it is to be said.
    pub(super) fn publish(&mut self, envelope: Arc<ActionEnvelope>, weight: usize) {
        let newest =
            if defect!(NewestTransportOnly) { Some(self.newest_transports()) } else { None };
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
        let live = |transport: &Transport| {
            matches!(transport.stage, Stage::Live(_)) && transport.over != Some(CloseReason::Behind)
        };
        for (conn, transport) in &mut self.transports {
            if transport.cursor < goes
                && live(transport)
                && !transport.outlives(&self.log, goes, self.limits.log_bytes)
            {
                milestone!("toolcall.host.behind", conn = conn.0);
                transport.over = Some(CloseReason::Behind);
                transport.kept.clear();
                transport.wake();
            }
        }
    }

    /// What is to be said next on a connection.
    pub fn pull(&mut self, conn: ConnId) -> Option<Message> {
        let transport = self.transports.get_mut(&conn)?;
        let until = transport.replies.front().map_or(self.seq, |(behind, _)| *behind);
        let action = if transport.over == Some(CloseReason::Behind) {
            None
        } else {
            transport.take(&self.log, until)
        };
        let next = action
            .map(|envelope| Message::notification(method::ACTION, &*envelope))
            .or_else(|| transport.reply());
        // Whoever drives it asks again at once, as long as there is room for more.
        transport.keeps_until =
            if next.is_some() { transport.keeps_until.min(self.seq) } else { ALL };
        next
    }

    /// Says something on a connection, behind everything that has happened.
    pub(super) fn send(&mut self, conn: ConnId, message: Message) {
        let (seq, limits) = (self.seq, self.limits);
        let Some(transport) = self.transports.get_mut(&conn) else { return };
        let many = transport.replies.len() >= limits.replies && !transport.takes_all();
        if many || transport.reply_bytes >= limits.wire.outbox_bytes {
            return self.end(conn, CloseReason::Behind);
        }
        transport.reply_bytes += message.weight();
        let behind = if defect!(AnswersOvertake) { 0 } else { seq };
        transport.replies.push_back((behind, message));
        transport.wake();
    }

    /// Says something to everybody.
    pub(super) fn broadcast(&mut self, method: &str, params: &impl Serialize) {
        let live = self
            .transports
            .iter()
            .filter(|(_, transport)| matches!(transport.stage, Stage::Live(_)));
        for conn in live.map(|(conn, _)| *conn).collect::<Vec<_>>() {
            self.send(conn, Message::notification(method, params));
        }
    }
}
