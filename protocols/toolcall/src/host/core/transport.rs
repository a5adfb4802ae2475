//! A connection: its stage, its subscriptions, and its queued messages.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use reknit_resume::Retention;
use reknit_seams::defect;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::wire::{ActionEnvelope, Message, RequestId, weight};

/// The reason why the host closes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// The client sent an invalid message.
    #[error("the client sent {0}")]
    Broke(&'static str),
    /// The handshake was not complete before the deadline.
    #[error("no handshake")]
    NoHandshake,
    /// The client reads so slowly that the messages for it are not kept any more.
    #[error("the client is too far behind")]
    Behind,
}

/// The state of a subscription.
#[derive(Debug)]
pub(super) enum Subscription {
    /// The requests that wait for a restore; empty if a handshake waits.
    Pending(Vec<RequestId>),
    /// Actions after this number are sent.
    Active(u64),
}

/// The stage of a connection.
pub(super) enum Stage {
    /// The client has not identified itself yet; the deadline.
    Fresh(Instant),
    /// The client has identified itself, and its channels are being restored.
    Arriving(Handshake),
    /// The connection is assigned to this client.
    Live(String),
}

/// A bound above the number of every action.
pub(super) const ALL: u64 = u64::MAX;

/// The numbering of a client that reconnects without an epoch. It may be any of the client's.
pub(super) const UNKNOWN: u64 = 0;

/// A connection.
pub(super) struct Transport {
    pub(super) stage: Stage,
    /// The number of the last action that was sent or did not need to be sent.
    pub(super) cursor: u64,
    /// Actions after the cursor that the log has dropped but this connection still needs, with
    /// their sizes in bytes.
    pub(super) kept: VecDeque<(usize, Arc<ActionEnvelope>)>,
    /// The last action that is kept for this connection after the log drops it. `ALL` while the
    /// connection has read everything; otherwise the last action at the first pull after that.
    pub(super) keeps_until: u64,
    pub(super) subscriptions: BTreeMap<String, Subscription>,
    /// Queued answers and notices, each with the number of the action that must be sent first.
    pub(super) replies: VecDeque<(u64, Message)>,
    /// The approximate size of these in bytes.
    pub(super) reply_bytes: usize,
    pub(super) over: Option<CloseReason>,
    /// The numbering of its client's actions: the one that the `initialize` of this connection began,
    /// or the one that the client names when it reconnects.
    pub(super) numbering: u64,
    pub(super) wake: Arc<Notify>,
}

impl Transport {
    /// Returns the client of the connection, also during its handshake.
    pub(super) fn client(&self) -> Option<&str> {
        match &self.stage {
            Stage::Fresh(_) => None,
            Stage::Arriving(handshake) => Some(&handshake.client),
            Stage::Live(client) => Some(client),
        }
    }

    /// Returns the deadline of the handshake.
    pub(super) fn handshake_until(&self) -> Option<Instant> {
        match &self.stage {
            _ if self.over.is_some() => None,
            Stage::Fresh(until) => Some(*until),
            Stage::Arriving(handshake) => Some(handshake.until),
            Stage::Live(_) => None,
        }
    }

    /// Whether it holds a channel: it subscribes to the channel, or has asked to.
    pub(super) fn holds(&self, channel: &str) -> bool {
        self.subscriptions.contains_key(channel)
            || matches!(&self.stage, Stage::Arriving(handshake) if handshake.wants(channel))
    }

    /// Whether it receives the actions of a channel.
    pub(super) fn is_active(&self, channel: &str) -> bool {
        matches!(self.stage, Stage::Live(_))
            && matches!(self.subscriptions.get(channel), Some(Subscription::Active(_)))
    }

    /// Whether it receives the actions of a channel, and received the channel's state as of `seq`
    /// or later.
    pub(super) fn is_active_since(&self, channel: &str, seq: u64) -> bool {
        matches!(self.subscriptions.get(channel), Some(Subscription::Active(from)) if *from >= seq)
    }

    /// Whether it waits for a restore of this channel.
    pub(super) fn waits_for(&self, channel: &str) -> bool {
        matches!(self.subscriptions.get(channel), Some(Subscription::Pending(_)))
            || matches!(&self.stage, Stage::Arriving(handshake) if handshake.waiting.contains(channel))
    }

    /// Returns the channels of its handshake.
    pub(super) fn wanted(&self) -> Vec<String> {
        match &self.stage {
            Stage::Arriving(handshake) => handshake.channels.clone(),
            _ => Vec::new(),
        }
    }

    /// Removes a channel that no longer exists.
    pub(super) fn forget(&mut self, channel: &str) {
        self.subscriptions.remove(channel);
    }

    /// Whether this connection must receive an action. A client always receives its own actions,
    /// whatever it subscribes to by now, because it waits for their outcome.
    pub(super) fn must_receive(&self, envelope: &ActionEnvelope) -> bool {
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

    /// Whether it had read everything at the last pull.
    pub(super) fn takes_all(&self) -> bool {
        self.keeps_until == ALL
    }

    /// Returns the actions after the cursor in order: the kept ones that the log has dropped, then
    /// those in the log.
    pub(super) fn after_cursor<'a>(
        &'a self,
        log: &'a Retention<Arc<ActionEnvelope>>,
    ) -> impl Iterator<Item = &'a Arc<ActionEnvelope>> {
        self.kept
            .iter()
            .map(|(_, envelope)| envelope)
            .chain(log.since(self.cursor + 1).map(|(_, envelope)| envelope))
    }

    /// Returns the next answer or notice.
    pub(super) fn reply(&mut self) -> Option<Message> {
        let (behind, message) = self.replies.pop_front()?;
        self.cursor = self.cursor.max(behind);
        if !defect!(SentRepliesCount) {
            self.reply_bytes -= message.weight();
        }
        Some(message)
    }

    /// Returns the next action up to this number, if there is one, and moves the cursor past it.
    pub(super) fn take(
        &mut self,
        log: &Retention<Arc<ActionEnvelope>>,
        until: u64,
    ) -> Option<Arc<ActionEnvelope>> {
        let due = |envelope: &&Arc<ActionEnvelope>| envelope.server_seq <= until;
        let next = self
            .after_cursor(log)
            .take_while(due)
            .find(|envelope| self.must_receive(envelope))
            .cloned();
        self.cursor = self.cursor.max(next.as_ref().map_or(until, |envelope| envelope.server_seq));
        while self.kept.front().is_some_and(|(_, envelope)| envelope.server_seq <= self.cursor) {
            self.kept.pop_front();
        }
        next
    }

    /// Keeps the actions that this connection still needs before the log drops everything up to
    /// this number. Returns `false` if the connection is behind: it did not read them when they
    /// were offered, or more than `most` bytes are kept.
    pub(super) fn retain_pending(
        &mut self,
        log: &Retention<Arc<ActionEnvelope>>,
        went: u64,
        most: usize,
    ) -> bool {
        if went > self.keeps_until {
            return false;
        }
        let goes = log
            .since(self.cursor + 1)
            .map(|(_, envelope)| envelope)
            .take_while(|envelope| envelope.server_seq <= went);
        let owed = goes
            .filter(|envelope| self.must_receive(envelope))
            .map(|owed| (weight(&owed.action), owed.clone()))
            .collect::<Vec<_>>();
        self.kept.extend(owed);
        self.kept.iter().map(|(weight, _)| weight).sum::<usize>() <= most
    }
}

/// The room that a channel needs in an answer. The lowest size comes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Size {
    pub(super) is_chat: bool,
    /// An upper estimate in bytes.
    pub(super) weight: usize,
}

/// A handshake that waits for its channels.
pub(super) struct Handshake {
    pub(super) id: RequestId,
    pub(super) client: String,
    pub(super) kind: HandshakeKind,
    /// The requested channels.
    pub(super) channels: Vec<String>,
    /// The requested channels that are being restored.
    pub(super) waiting: BTreeSet<String>,
    pub(super) missing: BTreeSet<String>,
    pub(super) until: Instant,
}

/// The kind of a handshake.
#[derive(Clone)]
pub(super) enum HandshakeKind {
    /// `initialize`, in this version.
    Initialize(String),
    /// `reconnect`.
    Reconnect {
        /// The client has seen everything up to this action.
        seen: u64,
        /// The numbering of its actions.
        numbering: u64,
    },
}

impl HandshakeKind {
    /// Returns the last action that the client reports to have seen, if any.
    pub(super) fn seen(&self) -> Option<u64> {
        match self {
            Self::Initialize(_) => None,
            Self::Reconnect { seen, .. } => Some(*seen),
        }
    }
}

impl Handshake {
    /// Whether it asks for a channel that is not known to be missing.
    pub(super) fn wants(&self, channel: &str) -> bool {
        self.channels.iter().any(|wanted| wanted == channel) && !self.missing.contains(channel)
    }

    /// Treats the channels that would make the answer too long as missing; the client can subscribe
    /// to each of them separately. The sessions come first, because a client without its session
    /// loses its place there; then the chats, the smallest first. A channel that does not fit uses
    /// no room.
    pub(super) fn drop_oversized(&mut self, most: usize, size: impl Fn(&str) -> Size) {
        let mut in_turn = self.channels.clone();
        if !defect!(LargeChatsTakeTheRoom) {
            in_turn.sort_by_key(|channel| size(channel)); // stable: those of one size by name
        }
        let mut used = 0;
        for channel in in_turn {
            let total = used + size(&channel).weight;
            if total > most {
                self.missing.insert(channel);
            }
            if total <= most || defect!(LargeChatsTakeTheRoom) {
                used = total;
            }
        }
        self.channels.retain(|channel| !self.missing.contains(channel));
    }
}
