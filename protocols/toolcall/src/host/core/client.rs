//! A client: whether it is here, what depends on it, and what became of its actions.

use std::collections::{BTreeMap, BTreeSet};

use reknit_resume::{Presence, Seen};
use reknit_seams::defect;
use reknit_seams::net::ConnId;
use tokio::time::Instant;

use crate::limits::HostLimits;

/// A client, as it is known over all its connections.
pub(super) struct ClientRecord {
    /// How many clients had been forgotten when it was taken in anew: what tells it from one of its name that was forgotten.
    pub(super) taken_in_after: u64,
    pub(super) presence: Presence<ConnId, ()>,
    /// Its connections that are in their handshake.
    pub(super) arriving: BTreeSet<ConnId>,
    /// Since when it has been here, or would be.
    pub(super) here_since: Instant,
    /// What depends on it and is not held, and since when.
    pub(super) unheld: BTreeMap<String, Instant>,
    /// What became of its actions, by their numbers.
    pub(super) outcomes: Seen<i64, AnsweredAction>,
    /// How many of its actions were heard.
    pub(super) heard_of: u64,
    /// The channels whose state it was given, and as of which action.
    pub(super) baselines: BTreeMap<String, u64>,
    /// The resources for which it handed over a good token.
    pub(super) authenticated: BTreeSet<String>,
    /// When anything was last heard of it; only a defect asks.
    pub(super) heard: Instant,
    /// A lease that a return did not end, and what it was for; only a defect has one.
    pub(super) stale: Option<(Instant, Vec<String>)>,
}

/// An action that was heard of.
#[derive(Clone, Debug)]
pub(super) struct AnsweredAction {
    /// What tells it from another one of the same number.
    pub(super) digest: u64,
    /// How many of its client's had been heard before.
    pub(super) after: u64,
    pub(super) done: Done,
}

/// What became of an action.
#[derive(Clone, Debug)]
pub(super) enum Done {
    /// It has this number.
    Applied(u64),
    /// It was refused.
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
            outcomes: Seen::new(limits.outcomes),
            heard_of: 0,
            baselines: BTreeMap::new(),
            authenticated: BTreeSet::new(),
            heard: now,
            stale: None,
        }
    }

    /// Whether nothing is to be failed for its absence.
    pub(super) fn is_here(&self) -> bool {
        self.presence.is_here()
    }

    /// The channels in which it is waited for: what depends on it there is given up when it does not come back.
    pub(super) fn waited_for(&self) -> Vec<&String> {
        match &self.stale {
            _ if !self.arriving.is_empty() || defect!(LeaseNeverEnds) => Vec::new(),
            Some((_, channels)) => channels.iter().collect(),
            None => self.unheld.keys().collect(),
        }
    }

    /// When something is to be done about it.
    pub(super) fn due(&self, limits: &HostLimits) -> Option<Instant> {
        if !self.arriving.is_empty() || defect!(LeaseNeverEnds) {
            return None;
        }
        if let Some((until, _)) = self.stale {
            return Some(until);
        }
        if defect!(EveryFrameStamps) && !self.unheld.is_empty() {
            return Some(self.heard + limits.grace);
        }
        match self.presence.lease() {
            Some(lease) if self.unheld.is_empty() => Some(lease.since() + limits.client_retention),
            Some(lease) => Some(lease.until()),
            None => {
                self.unheld.values().min().map(|since| (*since).max(self.here_since) + limits.grace)
            }
        }
    }

    /// What is to be released at `now`.
    pub(super) fn overdue(&self, limits: &HostLimits, now: Instant) -> Vec<String> {
        if self.due(limits).is_none_or(|due| due > now) {
            return Vec::new();
        }
        if let Some((_, channels)) = &self.stale {
            return channels.clone();
        }
        let away = !self.is_here() || defect!(EveryFrameStamps);
        let over = |since: Instant| away || since.max(self.here_since) + limits.grace <= now;
        self.unheld
            .iter()
            .filter(|(_, since)| over(**since))
            .map(|(channel, _)| channel.clone())
            .collect()
    }
}
