//! Presence of clients, and how long the host waits for the disconnected ones.
//!
//! A channel depends on a client if the client is active in it (a session) or owns unfinished calls
//! in it (a chat). While any connection of the client holds such a channel, nothing is released.
//! Otherwise the channel is released when the client's lease ends. The lease runs from the loss of
//! the client's last connection or, if the client is connected and does not subscribe, from its
//! return. Nothing else moves that deadline, and no lease runs where nothing depends on the client.
//!
//! While a connection is in its handshake, nothing of its client is released. A handshake has its
//! own deadline, and a failed handshake leaves everything unchanged, including the lease.

use std::collections::{BTreeMap, BTreeSet};

use reknit_resume::Left;
use reknit_seams::net::ConnId;
use reknit_seams::{defect, milestone};
use tokio::time::Instant;

use super::HostCore;
use super::client::ClientRecord;
use crate::state::{call, chat};
use crate::wire::SnapshotState;

/// The reason why a client's work is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReleaseReason {
    /// The client was disconnected for too long.
    Away,
    /// The client is connected, but does not hold the channel.
    Released,
}

impl HostCore {
    /// Marks a client as connected over this connection.
    pub(super) fn connected(&mut self, name: &str, conn: ConnId, now: Instant) {
        let (limits, forgotten) = (self.limits, self.forgotten);
        let client = self
            .clients
            .entry(name.to_owned())
            .or_insert_with(|| ClientRecord::new(&limits, forgotten, now));
        client.arriving.remove(&conn);
        if defect!(LeaseSurvivesReturn)
            && let Some(lease) = client.presence.lease()
        {
            self.seeded.keep_lease(name, lease.until(), &self.causes);
        }
        if !client.is_connected() && !defect!(ReturnsAreNotNoted) {
            client.here_since = now;
        }
        client.presence.attach(conn, ());
        if defect!(EveryFrameStamps) {
            self.seeded.heard.insert(name.to_owned(), now);
        }
    }

    /// Handles the end of a connection.
    pub fn close(&mut self, conn: ConnId, now: Instant) {
        self.catch_up(now);
        let Some(transport) = self.transports.remove(&conn) else { return };
        self.fail_host_requests(conn);
        if !defect!(CreationsOutliveTheirConnection) {
            self.drop_creations_of(conn);
        }
        if defect!(CreationsEndWithAnyConnection) {
            self.drop_creations_of_client(transport.client());
        }
        let wanted = transport.wanted().into_iter().filter(|_| !defect!(DeadHandshakesKeepChats));
        let held = transport.subscriptions.keys().cloned().chain(wanted);
        let held = held.collect::<BTreeSet<_>>();
        if let Some(name) = transport.client() {
            self.disconnected(name, conn, now);
        }
        self.update_waits(now);
        held.iter().for_each(|channel| self.evict_if_unused(channel));
        if defect!(CloseReleasesOthers) {
            held.iter().for_each(|channel| self.evict(channel));
        }
        self.changed.notify_one();
    }

    /// Handles a failed handshake: the state of its client does not change.
    pub(super) fn abort_handshake(&mut self, name: &str, conn: ConnId, now: Instant) {
        let limits = self.limits;
        let Some(client) = self.clients.get_mut(name) else { return };
        let was = client.arriving.remove(&conn);
        if was && defect!(RollbackLosesLease) && !client.is_connected() {
            *client = ClientRecord::new(&limits, client.taken_in_after, now);
        }
    }

    fn disconnected(&mut self, name: &str, conn: ConnId, now: Instant) {
        let grace = self.limits.grace;
        self.abort_handshake(name, conn, now);
        if defect!(OnePointer) || defect!(EveryFrameStamps) || defect!(AnyCloseDetaches) {
            return self.empty_pointer(name, conn, now);
        }
        let Some(client) = self.clients.get_mut(name) else { return };
        let left = client.presence.detach(conn, now, grace);
        self.detached(name, conn, &left, now);
        if matches!(left, Left::Last(())) {
            self.lose_with_last_connection(name);
        }
    }

    /// Handles that a connection of a client ended, which may have been its last one.
    pub(super) fn detached(&mut self, name: &str, conn: ConnId, left: &Left<()>, now: Instant) {
        match left {
            Left::Unknown => {}
            Left::Others(()) => {
                milestone!("toolcall.host.transport-lost", client = name, conn = conn.0);
            }
            Left::Last(()) => {
                milestone!("toolcall.host.away", client = name, conn = conn.0);
                if defect!(PlaceGoesAtOnce) {
                    self.deactivate_everywhere(name, now);
                }
            }
        }
    }

    /// Recomputes which clients a channel depends on.
    pub(super) fn count_causes(&mut self, channel: &str) {
        let causes: BTreeSet<String> = match self.state(channel) {
            Some(SnapshotState::Session(session)) => {
                session.active_clients.iter().map(|active| active.client_id.clone()).collect()
            }
            Some(SnapshotState::Chat(state)) => {
                let pending = chat::calls(state).filter(|call| call::is_pending(call));
                pending.filter_map(|call| call::owner(call).map(str::to_owned)).collect()
            }
            _ => BTreeSet::new(),
        };
        if causes.is_empty() {
            self.causes.remove(channel);
        } else {
            self.causes.insert(channel.to_owned(), causes);
        }
    }

    /// Whether any connection of a client holds a channel, or waits for it.
    pub(super) fn holds(&self, client: &str, channel: &str) -> bool {
        let Some(client) = self.clients.get(client) else { return false };
        let mut own = client.presence.connections().chain(client.arriving.iter().copied());
        own.any(|conn| self.transports.get(&conn).is_some_and(|transport| transport.holds(channel)))
    }

    /// Whether a client is connected or in its handshake, and holds a channel.
    fn is_served(&self, name: &str, channel: &str) -> bool {
        let Some(client) = self.clients.get(name) else { return true }; // it is somebody else's: nothing is known of it
        let here = client.is_connected() || !client.arriving.is_empty();
        here && self.holds(name, channel)
    }

    /// Records the channels that are no longer held, and drops those that are held again or on
    /// which nothing depends any more.
    pub(super) fn update_waits(&mut self, now: Instant) {
        let mut unheld: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (channel, clients) in &self.causes {
            for client in clients.iter().filter(|client| !self.is_served(client, channel)) {
                unheld.entry(client.clone()).or_default().insert(channel.clone());
            }
        }
        let mut armed = false;
        for (name, client) in &mut self.clients {
            let now_unheld = unheld.remove(name).unwrap_or_default();
            client.unheld.retain(|channel, _| {
                let depends =
                    || self.causes.get(channel).is_some_and(|clients| clients.contains(name));
                now_unheld.contains(channel) || defect!(WaitOutlivesCause) && !depends()
            });
            for channel in now_unheld {
                armed |= !client.unheld.contains_key(&channel);
                let since = client.unheld.entry(channel).or_insert(now);
                if defect!(EachActionRenewsTheWait) {
                    *since = now;
                }
            }
        }
        if armed {
            self.changed.notify_one();
        }
        self.notify_waits();
    }

    /// Reports, as milestones, for which clients the host starts or stops to wait.
    fn notify_waits(&mut self) {
        let mut waits = BTreeSet::new();
        for (name, client) in &self.clients {
            let awaited = self.seeded.awaited(name, client).unwrap_or(client.awaited_channels());
            waits.extend(awaited.into_iter().map(|channel| (name.as_str(), channel.as_str())));
        }
        let previous: BTreeSet<_> = self
            .waits
            .iter()
            .map(|(client, channel)| (client.as_str(), channel.as_str()))
            .collect();
        // This runs for every action, and usually nothing has changed.
        if waits == previous {
            return;
        }
        for (client, channel) in previous.difference(&waits) {
            milestone!("toolcall.host.waits-no-more", client = *client, channel = *channel);
        }
        for (client, channel) in waits.difference(&previous) {
            milestone!("toolcall.host.waits", client = *client, channel = *channel);
        }
        self.waits = waits
            .into_iter()
            .map(|(client, channel)| (client.to_owned(), channel.to_owned()))
            .collect();
    }

    /// Returns the time of the next timeout of a client.
    pub(super) fn lease_due(&self, name: &str, client: &ClientRecord) -> Option<Instant> {
        if defect!(AbsentAreKeptForTheOthers) && self.is_idle_beside_others(client) {
            return None;
        }
        let due = self.seeded.due(name, client, &self.limits).or_else(|| client.due(&self.limits));
        if defect!(PlacesHaveTwoGraces) && self.has_only_places(client) {
            return due.map(|due| due + self.limits.grace);
        }
        due
    }

    /// Gives up the work of clients whose lease has ended, and forgets clients on which nothing
    /// depends.
    pub(super) fn end_leases(&mut self, now: Instant) {
        let late = self
            .clients
            .iter()
            .filter(|(name, client)| self.lease_due(name, client).is_some_and(|due| due <= now));
        for name in late.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            let Some(client) = self.clients.get(&name) else { continue };
            let gone =
                if client.is_connected() { ReleaseReason::Released } else { ReleaseReason::Away };
            let overdue = self
                .seeded
                .overdue(&name, client, now)
                .unwrap_or_else(|| client.overdue(&self.limits, now));
            if overdue.is_empty() {
                milestone!("toolcall.host.forgotten", client = name.as_str());
                self.clients.remove(&name);
                self.forgotten += 1;
                continue;
            }
            self.seeded.stale.remove(&name);
            if defect!(WaitOutlivesCause)
                && let Some(client) = self.clients.get_mut(&name)
            {
                client.unheld.retain(|channel, _| !overdue.contains(channel));
            }
            self.release(&name, &overdue, gone, now);
        }
    }

    /// Releases channels at once: gives up everything in them that depends on the client.
    pub(super) fn release(
        &mut self,
        client: &str,
        channels: &[String],
        gone: ReleaseReason,
        now: Instant,
    ) {
        let sessions = channels.iter().filter(|channel| {
            self.channels.get(*channel).is_some_and(|known| known.session.is_none())
        });
        let sessions = sessions.cloned().collect::<Vec<_>>();
        let mut chats = channels
            .iter()
            .filter(|channel| !sessions.contains(channel))
            .cloned()
            .collect::<BTreeSet<_>>();
        for session in &sessions {
            chats.extend(self.chats_of(session));
        }
        for chat in chats {
            self.fail_calls(client, &chat, gone, now);
        }
        for session in sessions {
            self.deactivate(client, &session, now);
        }
        self.update_waits(now);
        channels.iter().for_each(|channel| self.evict_if_unused(channel));
    }
}
