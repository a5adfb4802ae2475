//! The code of seeded bugs that affect a host.

use std::collections::BTreeSet;

use reknit_resume::{Left, Presence};
use reknit_seams::defect;
use reknit_seams::net::ConnId;
use tokio::time::Instant;

use super::HostCore;
use super::calls::CallId;
use super::client::ClientRecord;
use super::clients::ReleaseReason;
use super::transport::{Handshake, Stage, Subscription, UNKNOWN};
use crate::wire::{RequestId, Snapshot, StateAction};

impl HostCore {
    /// `DeadlinesByWallClock`: returns the time that the wall clock shows.
    pub(super) fn by_wall_clock(&mut self, now: Instant) -> Instant {
        let wall = self.clock.now();
        let (began, then) = *self.seeded.began.get_or_insert((now, wall));
        began + wall.duration_since(then).unwrap_or_default()
    }

    /// `NewChatsHaveSubscribers`: subscribes each connection that is subscribed to a session to a new chat of it.
    pub(super) fn subscribe_watchers(&mut self, session: &str, chat: &str) {
        let from = self.seq;
        for transport in self.transports.values_mut() {
            if transport.is_active(session) {
                transport.subscriptions.insert(chat.to_owned(), Subscription::Active(from));
            }
        }
    }

    /// `QuestionIdsAreUsedAgain`: returns the first id that no open request has.
    pub(super) fn unused_request_id(&self) -> i64 {
        (1..).find(|id| !self.host_requests.contains_key(id)).unwrap_or(i64::MAX)
    }

    /// `EveryFrameStamps`: records the time of a frame from a client.
    pub(super) fn record_activity(&mut self, conn: ConnId, now: Instant) {
        let client = self.transports.get(&conn).and_then(|transport| transport.client());
        if let Some(client) = client.filter(|client| self.clients.contains_key(*client)) {
            self.seeded.heard.insert(client.to_owned(), now);
        }
    }

    /// `OnePointer`, `EveryFrameStamps`, `AnyCloseDetaches`: the single field for a connection is
    /// empty when a connection ends, so a reader believes that the client has no connection.
    pub(super) fn empty_pointer(&mut self, name: &str, conn: ConnId, now: Instant) {
        let grace = self.limits.grace;
        let Some(client) = self.clients.get_mut(name) else { return };
        let is_emptied = client.presence.newest() == Some(conn) || defect!(AnyCloseDetaches);
        self.seeded.heard.entry(name.to_owned()).and_modify(|heard| *heard = now);
        let left = client.presence.detach(conn, now, grace);
        if matches!(left, Left::Others(())) && is_emptied {
            let others = client.presence.connections().collect::<Vec<_>>();
            others.into_iter().for_each(|other| _ = client.presence.detach(other, now, grace));
        }
        self.detached(name, conn, &left, now);
    }

    /// `PlacesHaveTwoGraces`: returns whether an absent client has places in sessions, and no calls.
    pub(super) fn has_only_places(&self, client: &ClientRecord) -> bool {
        let is_session = |channel: &String| {
            self.channels.get(channel).is_some_and(|known| known.session.is_none())
        };
        !client.is_connected() && !client.unheld.is_empty() && client.unheld.keys().all(is_session)
    }

    /// `AbsentAreKeptForTheOthers`: returns whether nothing depends on an absent client, while another
    /// client is connected.
    pub(super) fn is_idle_beside_others(&self, client: &ClientRecord) -> bool {
        !client.is_connected()
            && client.unheld.is_empty()
            && self.clients.values().any(ClientRecord::is_connected)
    }

    /// `IdleClientsGoAtOnce`, `TurnsGoWithTheirClient`: the last connection of a client ended, and the
    /// host forgets the client if nothing depends on it, or the turns that it started.
    pub(super) fn lose_with_last_connection(&mut self, name: &str) {
        let is_idle = || !self.causes.values().any(|clients| clients.contains(name));
        if defect!(IdleClientsGoAtOnce) && is_idle() {
            self.clients.remove(name);
            self.forgotten += 1;
        }
        if defect!(TurnsGoWithTheirClient) {
            self.turns.retain(|_, turn| turn.client.as_deref() != Some(name));
        }
    }

    /// `PlaceGoesAtOnce`: a client loses its place in each session.
    pub(super) fn deactivate_everywhere(&mut self, name: &str, now: Instant) {
        let active = self.causes.iter().filter(|(_, clients)| clients.contains(name));
        let active = active.map(|(channel, _)| channel.clone()).collect::<Vec<_>>();
        active.iter().for_each(|session| self.deactivate(name, session, now));
    }

    /// `RearmFromNow`: restarts the wait for a client.
    pub(super) fn rearm(&mut self, client: &str, now: Instant) {
        let grace = self.limits.grace;
        if let Some(client) = self.clients.get_mut(client).filter(|client| !client.is_connected()) {
            client.presence = Presence::away(now, grace);
        }
    }

    /// `UnknownOwnerIsGone`: an unknown client counts as one that has just disconnected.
    pub(super) fn presume_gone(&mut self, client: &str, now: Instant) {
        let (limits, forgotten) = (self.limits, self.forgotten);
        self.clients
            .entry(client.to_owned())
            .or_insert_with(|| ClientRecord::new(&limits, forgotten, now));
    }

    /// `SlowStreamFails`: fails a call that becomes ready late in its turn.
    pub(super) fn fail_slow_stream(&mut self, chat: &str, action: &StateAction, now: Instant) {
        let StateAction::ChatToolCallReady(ready) = action else { return };
        if self.duration(chat, now) > self.limits.grace {
            let (turn, id) = (ready.turn_id.clone(), ready.tool_call_id.clone());
            let call = CallId { chat: chat.to_owned(), turn, id };
            self.fail(&call, "the call took too long", now);
        }
    }

    /// `ReplyOnlyOverNewest`: whether a connection is the newest one of its client.
    pub(super) fn is_newest(&self, conn: ConnId, client: &str) -> bool {
        self.clients.get(client).and_then(|client| client.presence.newest()) == Some(conn)
    }

    /// `CountsAnewOnAllConnections`: the newest numbering of a client on any of its connections.
    pub(super) fn newest_numbering(&self, client: &str) -> u64 {
        let own = self.transports.values().filter(|known| known.client() == Some(client));
        own.map(|transport| transport.numbering).max().unwrap_or(UNKNOWN)
    }

    /// `ReturnReleasesWhatAnotherConnectionHolds`: releases what this connection does not hold.
    pub(super) fn release_what_others_hold(&mut self, conn: ConnId, client: &str, now: Instant) {
        let Some(transport) = self.transports.get(&conn) else { return };
        let depends = self.causes.iter().filter(|(_, clients)| clients.contains(client));
        let unnamed = depends.map(|(channel, _)| channel.clone());
        let unnamed = unnamed.filter(|channel| !transport.holds(channel)).collect::<Vec<_>>();
        self.release(client, &unnamed, ReleaseReason::Released, now);
    }

    /// `CreationsEndWithAnyConnection`: drops the requests of a client to create sessions.
    pub(super) fn drop_creations_of_client(&mut self, client: Option<&str>) {
        self.pending_creation.retain(|pending| Some(pending.client.as_str()) != client);
    }

    /// `NewestTransportOnly`: moves all connections but the newest of each client past an action.
    pub(super) fn skip_older_connections(&mut self, seq: u64) {
        let newest = self.clients.values().filter_map(|client| client.presence.newest());
        let newest = newest.collect::<BTreeSet<_>>();
        let older = self.transports.iter_mut().filter(|(conn, _)| !newest.contains(conn));
        older.for_each(|(_, transport)| transport.cursor = seq);
    }

    /// `CancelledCleansNewer`: removes a subscription of which an earlier one was cancelled.
    pub(super) fn clean_cancelled(&mut self, conn: ConnId, channel: &str) {
        if self.seeded.cancelled.remove(&(conn, channel.to_owned()))
            && let Some(transport) = self.transports.get_mut(&conn)
        {
            transport.forget(channel);
        }
    }

    /// `ChatReleasesSession`: a client that leaves a chat leaves its session, too.
    pub(super) fn release_session_of(&mut self, chat: &str, client: &str, now: Instant) {
        if let Some(session) = self.channels.get(chat).and_then(|known| known.session.clone()) {
            self.release(client, &[session], ReleaseReason::Released, now);
        }
    }

    /// `UnloadedIsMissing`: the channels that are not in memory.
    pub(super) fn unloaded(&self, channels: &[String]) -> BTreeSet<String> {
        channels.iter().filter(|channel| self.state(channel).is_none()).cloned().collect()
    }

    /// `ActivatedOneByOne`: subscribes to the channels in memory before the handshake is complete.
    pub(super) fn activate_early(&mut self, conn: ConnId) {
        let seq = self.seq;
        let Some(transport) = self.transports.get_mut(&conn) else { return };
        let Stage::Arriving(handshake) = &transport.stage else { return };
        let ready = handshake
            .channels
            .iter()
            .filter(|channel| !handshake.waiting.contains(*channel))
            .cloned();
        transport.subscriptions.extend(ready.map(|channel| (channel, Subscription::Active(seq))));
    }

    /// `SnapshotReadEarly`: reads the snapshots for a handshake at its begin.
    pub(super) fn read_early(&mut self, handshake: &Handshake) {
        let snapshots = self.snapshots(&handshake.channels);
        self.seeded.early.push((handshake.client.clone(), handshake.id.clone(), snapshots));
    }

    /// `SnapshotReadEarly`: replaces snapshots by those that were read at the begin.
    pub(super) fn replace_by_early(&mut self, handshake: &Handshake, snapshots: &mut [Snapshot]) {
        let is_it = |(client, id, _): &(String, RequestId, Vec<Snapshot>)| {
            *client == handshake.client && *id == handshake.id
        };
        let Some(found) = self.seeded.early.iter().rposition(is_it) else { return };
        let (_, _, early) = self.seeded.early.remove(found);
        for early in early {
            let late = snapshots.iter_mut().filter(|late| late.resource == early.resource);
            late.for_each(|late| late.state = early.state.clone());
        }
    }
}
