//! A client: its presence, the work that depends on it, and the outcomes of its actions.

use std::collections::{BTreeMap, BTreeSet};

use reknit_resume::{Presence, SeenIds};
use reknit_seams::defect;
use reknit_seams::net::ConnId;
use tokio::time::Instant;

use super::transport::UNKNOWN;
use crate::limits::HostLimits;

/// The record of a client, for all its connections.
pub(super) struct ClientRecord {
    /// The number of clients that the host had forgotten when this record was created. It
    /// distinguishes the client from a forgotten one with the same name.
    pub(super) taken_in_after: u64,
    pub(super) presence: Presence<ConnId, ()>,
    /// Its connections that are in their handshake.
    pub(super) arriving: BTreeSet<ConnId>,
    /// The time since which it is connected; while it is disconnected, the time of its last
    /// arrival.
    pub(super) here_since: Instant,
    /// The channels that depend on it but that it does not hold, each with the time since when.
    pub(super) unheld: BTreeMap<String, Instant>,
    /// The outcomes of its actions, by numbering and number.
    pub(super) outcomes: SeenIds<(u64, i64), AnsweredAction>,
    /// The number of its numberings: each `initialize` begins one.
    pub(super) numberings: u64,
    /// The channels whose state it received, each with the number of the last action in that state.
    pub(super) baselines: BTreeMap<String, u64>,
    /// The resources for which it sent a valid token.
    pub(super) authenticated: BTreeSet<String>,
    /// The newest connection over which it sent a token.
    pub(super) token_from: Option<ConnId>,
    /// The newest numbering in which it took or gave up a place among the active clients.
    pub(super) place_from: u64,
}

/// An action that was received and answered.
#[derive(Clone, Debug)]
pub(super) struct AnsweredAction {
    /// Distinguishes it from another action with the same number.
    pub(super) digest: u64,
    pub(super) done: Done,
}

/// The outcome of an action.
#[derive(Clone, Debug)]
pub(super) enum Done {
    /// It took effect and has this number.
    Applied(u64),
    /// It was rejected.
    Rejected(String),
}

impl ClientRecord {
    pub(super) fn new(limits: &HostLimits, taken_in_after: u64, now: Instant) -> Self {
        Self {
            taken_in_after,
            presence: Presence::away(now, limits.grace),
            arriving: BTreeSet::new(),
            here_since: now,
            unheld: BTreeMap::new(),
            outcomes: SeenIds::new(if defect!(OutcomesWithoutLimit) {
                usize::MAX
            } else {
                limits.outcomes
            }),
            numberings: 0,
            baselines: BTreeMap::new(),
            authenticated: BTreeSet::new(),
            token_from: None,
            place_from: UNKNOWN,
        }
    }

    /// Returns the outcome of an action, if the client repeats it. If its numbering is unknown, it
    /// may repeat an action of any numbering.
    pub(super) fn answered(
        &self,
        numbering: u64,
        seq: i64,
        digest: u64,
    ) -> Option<&AnsweredAction> {
        if numbering == UNKNOWN {
            let mut all = self.outcomes.newest_first();
            let known = all.find(|((_, of), known)| *of == seq && known.digest == digest);
            return known.map(|(_, known)| known);
        }
        self.outcomes.get(&(numbering, seq)).filter(|known| known.digest == digest)
    }

    /// Whether the client is connected, so that nothing fails for its absence.
    pub(super) fn is_connected(&self) -> bool {
        self.presence.is_connected()
    }

    /// The channels in which the host waits for it. If it does not reconnect in time, its work
    /// there is given up.
    pub(super) fn awaited_channels(&self) -> Vec<&String> {
        if !self.arriving.is_empty() || defect!(LeaseNeverEnds) {
            return Vec::new();
        }
        self.unheld.keys().collect()
    }

    /// Returns the time of its next timeout.
    pub(super) fn due(&self, limits: &HostLimits) -> Option<Instant> {
        if !self.arriving.is_empty() || defect!(LeaseNeverEnds) {
            return None;
        }
        match self.presence.lease() {
            Some(lease) if self.unheld.is_empty() => {
                let since = if defect!(RetentionSinceReturn) {
                    self.here_since
                } else if defect!(RetentionAfterGrace) {
                    lease.until()
                } else {
                    lease.since()
                };
                Some(since + limits.client_retention)
            }
            Some(lease) => Some(lease.until()),
            None if defect!(ConnectedClientsAreAwaited) => None,
            None => {
                self.unheld.values().min().map(|since| (*since).max(self.here_since) + limits.grace)
            }
        }
    }

    /// Returns the channels to release at `now`.
    pub(super) fn overdue(&self, limits: &HostLimits, now: Instant) -> Vec<String> {
        if self.due(limits).is_none_or(|due| due > now) {
            return Vec::new();
        }
        let away = !self.is_connected();
        let over = |since: Instant| away || since.max(self.here_since) + limits.grace <= now;
        self.unheld
            .iter()
            .filter(|(_, since)| over(**since))
            .map(|(channel, _)| channel.clone())
            .collect()
    }
}
