//! Messages of the host on a connection: answers, and the actions of the subscribed channels, read
//! through a cursor into the log.
//!
//! All messages are sent in the order of their events. An answer waits until the actions before it
//! were sent, so a snapshot never overtakes an action that it contains, and no later action
//! overtakes the snapshot.
//!
//! A connection falls behind when it does not read the messages offered to it, and the log drops
//! one of the actions that it still needs. The host then closes it; its client reconnects, and
//! receives snapshots. A connection that read everything offered to it is not behind, no matter how
//! many actions occur before the next offer. Actions that leave the log are kept for it, up to as
//! many bytes as the log may hold. Above that limit, it is behind too.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use reknit_seams::net::ConnId;
use reknit_seams::{defect, milestone};
use serde::Serialize;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::HostCore;
use super::transport::{ALL, CloseReason, Stage, Transport, UNKNOWN};
use crate::wire::{ActionEnvelope, Message, method};

impl HostCore {
    /// Adds an open connection. `wake` is notified when there is something to pull.
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
            numbering: UNKNOWN,
            wake,
        };
        self.transports.insert(conn, transport);
        self.changed.notify_one();
    }

    /// Returns the reason why a connection must be closed, if it must.
    pub fn over(&self, conn: ConnId) -> Option<CloseReason> {
        self.transports.get(&conn).and_then(|transport| transport.over)
    }

    /// Marks a connection for closing, after the messages already sent on it.
    pub(super) fn end(&mut self, conn: ConnId, over: CloseReason) {
        if let Some(transport) = self.transports.get_mut(&conn) {
            transport.over.get_or_insert(over);
            if !defect!(CloseWakesNothing) {
                transport.wake();
            }
        }
    }

    /// Stores an action for all its recipients.
    pub(super) fn publish(&mut self, envelope: Arc<ActionEnvelope>, weight: usize) {
        if defect!(NewestTransportOnly) {
            self.skip_older_connections(envelope.server_seq);
        }
        for transport in self.transports.values_mut() {
            if transport.must_receive(&envelope) {
                transport.wake();
            } else if transport.cursor + 1 == envelope.server_seq {
                transport.cursor = envelope.server_seq;
            }
        }
        if let Some(goes) = self.log.would_evict(weight) {
            self.close_slow_connections(goes);
        }
        self.log.push(envelope.server_seq, weight, envelope);
    }

    /// Closes the connections that needed the dropped actions and did not read them when they
    /// could.
    fn close_slow_connections(&mut self, goes: u64) {
        let live = |transport: &Transport| {
            matches!(transport.stage, Stage::Live(_)) && transport.over != Some(CloseReason::Behind)
        };
        for (conn, transport) in &mut self.transports {
            let is_behind = |transport: &mut Transport| {
                transport.cursor < goes
                    && !transport.retain_pending(&self.log, goes, self.limits.log_bytes)
            };
            // The bug: a connection that has read everything is behind, too.
            if live(transport) && (is_behind(transport) || defect!(ReadersAreBehind)) {
                milestone!("toolcall.host.behind", conn = conn.0);
                transport.over = Some(CloseReason::Behind);
                transport.kept.clear();
                transport.wake();
            }
        }
    }

    /// Returns the next message for a connection.
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
        // The driver asks again at once while the connection has room.
        transport.keeps_until =
            if next.is_some() { transport.keeps_until.min(self.seq) } else { ALL };
        next
    }

    /// Queues a message on a connection, after everything that has happened.
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

    /// Sends a notification on every connection that has finished its handshake.
    pub(super) fn broadcast(&mut self, method: &str, params: &impl Serialize) {
        let live = self.transports.iter().filter(|(_, transport)| {
            matches!(transport.stage, Stage::Live(_)) || defect!(NoticesBeforeTheHandshake)
        });
        // The bug: only the oldest connection gets it.
        let most = if defect!(OnlyTheOldestIsNotified) { 1 } else { usize::MAX };
        for conn in live.map(|(conn, _)| *conn).take(most).collect::<Vec<_>>() {
            self.send(conn, Message::notification(method, params));
        }
    }
}
