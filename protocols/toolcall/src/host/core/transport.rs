//! A connection: how far it has come, what it subscribes to, and what is still to be said on it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use reknit_resume::Retention;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::wire::{ActionEnvelope, Message, RequestId, Snapshot, weight};

/// Why a connection is to be closed from this side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
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
pub(super) const ALL: u64 = u64::MAX;

/// A connection.
pub(super) struct Transport {
    pub(super) stage: Stage,
    /// The number of the last action that was said, or that needs not be.
    pub(super) cursor: u64,
    /// The actions after the cursor that it is owed and the log has dropped, with the size of each in bytes.
    pub(super) kept: VecDeque<(usize, Arc<ActionEnvelope>)>,
    /// Up to which action it is kept what it is owed: the last one when it was asked after it had taken everything; `ALL` as long
    /// as it has.
    pub(super) keeps_until: u64,
    pub(super) subscriptions: BTreeMap<String, Subscription>,
    /// What is said besides, and behind which action.
    pub(super) replies: VecDeque<(u64, Message)>,
    /// How many bytes these hold, about.
    pub(super) reply_bytes: usize,
    pub(super) over: Option<CloseReason>,
    /// How many actions of its client had been heard when that began to count from one here. None of these is repeated here.
    pub(super) counts_after: u64,
    pub(super) wake: Arc<Notify>,
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
        self.subscriptions.contains_key(channel)
            || matches!(&self.stage, Stage::Arriving(handshake) if handshake.wants(channel))
    }

    /// Whether it is told what happens to a channel.
    pub(super) fn is_active(&self, channel: &str) -> bool {
        matches!(self.stage, Stage::Live(_))
            && matches!(self.subscriptions.get(channel), Some(Subscription::Active(_)))
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
    pub(super) fn takes_all(&self) -> bool {
        self.keeps_until == ALL
    }

    /// The actions after the cursor, in order: those that the log has let go as far as they are owed, and all others.
    pub(super) fn after_cursor<'a>(
        &'a self,
        log: &'a Retention<Arc<ActionEnvelope>>,
    ) -> impl Iterator<Item = &'a Arc<ActionEnvelope>> {
        self.kept
            .iter()
            .map(|(_, envelope)| envelope)
            .chain(log.since(self.cursor + 1).map(|(_, envelope)| envelope))
    }

    /// The next answer or notice.
    pub(super) fn reply(&mut self) -> Option<Message> {
        let (behind, message) = self.replies.pop_front()?;
        self.cursor = self.cursor.max(behind);
        self.reply_bytes -= message.weight();
        Some(message)
    }

    /// The next action to say up to this number, if there is one; the cursor is behind it then.
    pub(super) fn take(
        &mut self,
        log: &Retention<Arc<ActionEnvelope>>,
        until: u64,
    ) -> Option<Arc<ActionEnvelope>> {
        let due = |envelope: &&Arc<ActionEnvelope>| envelope.server_seq <= until;
        let next =
            self.after_cursor(log).take_while(due).find(|envelope| self.is_owed(envelope)).cloned();
        self.cursor = self.cursor.max(next.as_ref().map_or(until, |envelope| envelope.server_seq));
        while self.kept.front().is_some_and(|(_, envelope)| envelope.server_seq <= self.cursor) {
            self.kept.pop_front();
        }
        next
    }

    /// The log drops its actions up to this number: keeps those that are owed. `false` if the connection is behind: it did not take
    /// them when it was asked, or more than `most` bytes are owed.
    pub(super) fn outlives(
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
            .filter(|envelope| self.is_owed(envelope))
            .map(|owed| (weight(&owed.action), owed.clone()))
            .collect::<Vec<_>>();
        self.kept.extend(owed);
        self.kept.iter().map(|(weight, _)| weight).sum::<usize>() <= most
    }
}

/// A handshake that waits for its channels.
pub(super) struct Handshake {
    pub(super) id: RequestId,
    pub(super) client: String,
    pub(super) kind: HandshakeKind,
    /// What it asks for.
    pub(super) channels: Vec<String>,
    /// What of that is being restored.
    pub(super) waiting: BTreeSet<String>,
    pub(super) missing: BTreeSet<String>,
    pub(super) until: Instant,
    /// What a defect read too early.
    pub(super) early: Vec<Snapshot>,
}

/// What kind of handshake it is.
#[derive(Clone)]
pub(super) enum HandshakeKind {
    /// In this version.
    Initialize(String),
    /// It has seen everything up to this action.
    Reconnect(u64),
}

impl HandshakeKind {
    /// Up to which action its client knows the channels that it names, if it says so.
    pub(super) fn seen(&self) -> Option<u64> {
        match self {
            Self::Initialize(_) => None,
            Self::Reconnect(seen) => Some(*seen),
        }
    }
}

impl Handshake {
    /// Whether it asks for a channel that is not known to be missing.
    pub(super) fn wants(&self, channel: &str) -> bool {
        self.channels.iter().any(|wanted| wanted == channel) && !self.missing.contains(channel)
    }

    /// Channels that would make the answer too long count as missing; each can be subscribed to by itself.
    pub(super) fn leave_out(&mut self, most: usize, weight: impl Fn(&str) -> usize) {
        let mut total = 0;
        let (fit, over) = std::mem::take(&mut self.channels).into_iter().partition(|channel| {
            total += weight(channel);
            total <= most
        });
        self.channels = fit;
        self.missing.extend::<Vec<_>>(over);
    }
}
