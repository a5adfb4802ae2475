//! The state that only seeded bugs of a host use.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use reknit_seams::net::ConnId;
use tokio::time::Instant;

use super::client::ClientRecord;
use crate::limits::HostLimits;
use crate::wire::{RequestId, Snapshot};

/// State that only seeded bugs use.
#[derive(Default)]
pub(super) struct SeededState {
    /// `DeadlinesByWallClock`: both clocks, when the host began to compare them.
    pub(super) began: Option<(Instant, SystemTime)>,
    /// `EveryFrameStamps`: the time of the last frame of each client.
    pub(super) heard: BTreeMap<String, Instant>,
    /// `LeaseSurvivesReturn`: the leases that a reconnect did not end, with their channels.
    pub(super) stale: BTreeMap<String, (Instant, Vec<String>)>,
    /// `CancelledCleansNewer`: the subscriptions that were cancelled while they waited.
    pub(super) cancelled: BTreeSet<(ConnId, String)>,
    /// `SnapshotReadEarly`: the snapshots of each handshake, by its client and its id.
    pub(super) early: Vec<(String, RequestId, Vec<Snapshot>)>,
}

impl SeededState {
    /// `LeaseSurvivesReturn`: keeps the lease of a client that returns.
    pub(super) fn keep_lease(
        &mut self,
        name: &str,
        until: Instant,
        causes: &BTreeMap<String, BTreeSet<String>>,
    ) {
        let depends = causes.iter().filter(|(_, clients)| clients.contains(name));
        let channels = depends.map(|(channel, _)| channel.clone()).collect::<Vec<_>>();
        self.stale.remove(name);
        if !channels.is_empty() {
            self.stale.insert(name.to_owned(), (until, channels));
        }
    }

    /// The time of the next timeout of a client, if a bug determines it.
    pub(super) fn due(
        &self,
        name: &str,
        client: &ClientRecord,
        limits: &HostLimits,
    ) -> Option<Instant> {
        if !client.arriving.is_empty() {
            return None;
        }
        if let Some((until, _)) = self.stale.get(name) {
            return Some(*until);
        }
        let heard = self.heard.get(name).filter(|_| !client.is_connected());
        heard.filter(|_| !client.unheld.is_empty()).map(|heard| *heard + limits.grace)
    }

    /// The channels to release at `now`, if a bug determines them.
    pub(super) fn overdue(
        &self,
        name: &str,
        client: &ClientRecord,
        now: Instant,
    ) -> Option<Vec<String>> {
        let (until, channels) = self.stale.get(name).filter(|_| client.arriving.is_empty())?;
        Some(if *until <= now { channels.clone() } else { Vec::new() })
    }

    /// The channels in which the host waits for a client, if a bug determines them.
    pub(super) fn awaited<'s>(
        &'s self,
        name: &str,
        client: &ClientRecord,
    ) -> Option<Vec<&'s String>> {
        let (_, channels) = self.stale.get(name).filter(|_| client.arriving.is_empty())?;
        Some(channels.iter().collect())
    }
}
