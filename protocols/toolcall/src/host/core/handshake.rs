//! `initialize` and `reconnect`: how a connection is assigned to a client.
//!
//! Both wait until every channel that they name is restored, or known not to exist. Then three
//! things happen in one step: the connection is assigned to the client, its subscriptions become
//! active as of the last action, and the answer reports what the client missed. So no action is
//! sent twice, none is left out, and no snapshot is older than the actions that follow it. A failed
//! handshake has no effect.
//!
//! A client that reconnects receives the actions that it missed if two conditions hold: the log
//! still has them, and the client had received the state of every channel that it names and seen
//! the later actions. Otherwise, or if those actions do not fit into one message, it receives
//! snapshots; the host leaves out the chats that do not fit. A replay also lists the channels that
//! no longer exist; with snapshots, a channel without a snapshot does not exist.
//!
//! The answer to `initialize` contains an epoch: the incarnation of the host, the number of clients
//! that it had forgotten when it created this client's record, and the numbering of the client's
//! actions. A client that was forgotten reconnects with an older epoch and must start over, even if
//! another of its connections was accepted before: the host has neither its tokens nor the outcomes
//! of its actions. The numbering shows which `initialize` a returning client continues: a reloaded
//! window with the same id is not the window before the reload.

use std::collections::BTreeSet;
use std::sync::Arc;

use reknit_seams::net::ConnId;
use reknit_seams::{defect, milestone};
use tokio::time::Instant;

use super::HostCore;
use super::channel::Channel;
use super::client::ClientRecord;
use super::clients::ReleaseReason;
use super::transport::{
    CloseReason, Handshake, HandshakeKind, Stage, Subscription, Transport, UNKNOWN,
};
use crate::wire::ahp::commands::Implementation;
use crate::wire::ahp::errors::UnsupportedProtocolVersionErrorData;
use crate::wire::{
    ActionEnvelope, InitializeParams, InitializeResult, Message, ReconnectParams,
    ReconnectReplayResult, ReconnectResult, ReconnectSnapshotResult, RequestId, Snapshot, ahp,
    code, epoch_of, host_meta, is_name, weight,
};

/// The reason why a handshake is refused.
struct Refusal(i64, String);

impl Refusal {
    fn new(code: i64, why: impl Into<String>) -> Self {
        Self(code, why.into())
    }
}

impl HostCore {
    /// Handles `initialize`: a client identifies itself for the first time.
    pub(super) fn initialize(
        &mut self,
        conn: ConnId,
        id: RequestId,
        params: InitializeParams,
        now: Instant,
    ) {
        let version = match ahp::negotiate_protocol_version(&params.protocol_versions) {
            Ok(Some(version)) => version.to_owned(),
            Ok(None) => {
                let supported_versions = ahp::SUPPORTED_PROTOCOL_VERSIONS
                    .iter()
                    .map(|version| (*version).to_owned())
                    .collect();
                let data = UnsupportedProtocolVersionErrorData { supported_versions };
                return self.send(
                    conn,
                    Message::error_with(
                        id,
                        code::UNSUPPORTED_VERSION,
                        "no supported protocol version",
                        &data,
                    ),
                );
            }
            Err(why) => return self.send(conn, Message::error(id, code::INVALID_PARAMS, why)),
        };
        let channels = params.initial_subscriptions.unwrap_or_default();
        self.begin_handshake(
            conn,
            id,
            params.client_id,
            HandshakeKind::Initialize(version),
            channels,
            now,
        );
    }

    /// Handles `reconnect`: a returning client reports the last action that it has seen.
    pub(super) fn reconnect(
        &mut self,
        conn: ConnId,
        id: RequestId,
        params: ReconnectParams,
        now: Instant,
    ) {
        let known = self
            .clients
            .get(&params.client_id)
            .filter(|client| !client.is_connected() || !defect!(ConnectedIsUnknown));
        let epoch = known.map(|client| self.epoch_of(client));
        let claimed = epoch_of(params.meta.as_ref()).map(record_and_numbering);
        let is_another = claimed.is_some_and(|(record, _)| Some(record) != epoch.as_deref());
        if epoch.is_none() || is_another && !defect!(EpochIgnored) {
            milestone!(
                "toolcall.host.unknown-client",
                conn = conn.0,
                client = params.client_id.as_str()
            );
            return self.send(
                conn,
                Message::error(id, code::NOT_FOUND, "unknown client: send `initialize`"),
            );
        }
        let Ok(seen) = u64::try_from(params.last_seen_server_seq) else {
            return self.send(
                conn,
                Message::error(id, code::INVALID_PARAMS, "a number of an action is not negative"),
            );
        };
        self.begin_handshake(
            conn,
            id,
            params.client_id,
            HandshakeKind::Reconnect { seen, numbering: claimed.map_or(UNKNOWN, |(_, it)| it) },
            params.subscriptions,
            now,
        );
    }

    /// Returns the epoch that the client received from `initialize`, without its numbering.
    fn epoch_of(&self, client: &ClientRecord) -> String {
        format!("{}/{}", self.identity.epoch, client.taken_in_after)
    }

    fn begin_handshake(
        &mut self,
        conn: ConnId,
        id: RequestId,
        client: String,
        kind: HandshakeKind,
        mut channels: Vec<String>,
        now: Instant,
    ) {
        let early = defect!(RepeatedNamesCount).then(|| self.check_capacity(&client, &channels));
        if !defect!(NamesAreNotSorted) {
            channels.sort();
            channels.dedup();
        }
        let checked = early.unwrap_or_else(|| self.check_capacity(&client, &channels));
        if let Err(Refusal(code, why)) = checked {
            return self.send(conn, Message::error(id, code, why));
        }
        if let Some(known) = self.clients.get_mut(&client) {
            known.arriving.insert(conn);
        }
        let until = match self.transports.get(&conn).and_then(Transport::handshake_until) {
            Some(until) if defect!(HandshakesCountFromTheirOpening) => until,
            _ => now + self.limits.handshake_deadline,
        };
        let missing = if defect!(UnloadedIsMissing) && kind.seen().is_some() {
            self.unloaded(&channels)
        } else {
            BTreeSet::new()
        };
        let waiting = channels
            .iter()
            .filter(|channel| !missing.contains(*channel) && !self.load(channel, now))
            .cloned()
            .collect::<BTreeSet<_>>();
        let handshake = Handshake { id, client, kind, channels, waiting, missing, until };
        if defect!(SnapshotReadEarly) {
            self.read_early(&handshake);
        }
        milestone!("toolcall.host.arriving", conn = conn.0, client = handshake.client.as_str());
        let done = handshake.waiting.is_empty();
        let Some(transport) = self.transports.get_mut(&conn) else { return };
        transport.stage = Stage::Arriving(handshake);
        if defect!(ActivatedOneByOne) {
            self.activate_early(conn);
        }
        self.update_waits(now);
        if done {
            self.complete_handshake(conn, now);
        }
    }

    fn check_capacity(&self, client: &str, channels: &[String]) -> Result<(), Refusal> {
        if !is_name(client) {
            return Err(Refusal::new(code::INVALID_PARAMS, "the client id is empty or too long"));
        }
        if channels.len() > self.limits.subscriptions
            || channels.iter().any(|channel| !is_name(channel))
        {
            return Err(Refusal::new(
                code::INVALID_PARAMS,
                "too many subscriptions, or an invalid channel name",
            ));
        }
        self.check_clients(client)
    }

    /// Whether there is room for a client. Others may come while its channels are restored.
    fn check_clients(&self, client: &str) -> Result<(), Refusal> {
        let full = self.clients.len() >= self.limits.clients && !self.clients.contains_key(client);
        if full { Err(Refusal::new(code::CONFLICT, "there are too many clients")) } else { Ok(()) }
    }

    /// Records that a channel of the handshake is restored or missing. This may complete the
    /// handshake.
    pub(super) fn settle_handshake(
        &mut self,
        conn: ConnId,
        channel: &str,
        there: bool,
        now: Instant,
    ) {
        let Some(transport) = self.transports.get_mut(&conn) else { return };
        let Stage::Arriving(handshake) = &mut transport.stage else { return };
        if !handshake.waiting.remove(channel) {
            return;
        }
        if !there {
            handshake.missing.insert(channel.to_owned());
        }
        if handshake.waiting.is_empty() {
            self.complete_handshake(conn, now);
        }
    }

    /// Completes the handshake in one step, after all its channels are settled.
    fn complete_handshake(&mut self, conn: ConnId, now: Instant) {
        let Some(transport) = self.transports.get(&conn) else { return };
        let Stage::Arriving(handshake) = &transport.stage else { return };
        let checked = self.check_clients(&handshake.client);
        if let Err(Refusal(code, why)) = checked
            && !defect!(ClientsCountAtTheirArrival)
        {
            let (id, until) = (handshake.id.clone(), handshake.until);
            self.roll_back(conn, until, now);
            return self.send(conn, Message::error(id, code, why));
        }
        let Some(transport) = self.transports.get_mut(&conn) else { return };
        let stage = std::mem::replace(&mut transport.stage, Stage::Fresh(now));
        let Stage::Arriving(mut handshake) = stage else { return };
        // A channel may have been removed since the handshake began. A channel that the client knew
        // may also have been removed and created again.
        let channels = &self.channels;
        let seen = handshake.kind.seen();
        let there = |channel: &String| {
            channels.get(channel).is_some_and(|known| known.state.is_some() && known.is_known(seen))
        };
        handshake
            .missing
            .extend(handshake.channels.iter().filter(|channel| !there(channel)).cloned());
        handshake.channels.retain(|channel| !handshake.missing.contains(channel));
        let replayed = seen.is_some_and(|seen| self.can_replay(&handshake, seen));
        if !replayed || defect!(ReplaysLeaveOutLargeChats) {
            self.fit_into_one_answer(&mut handshake);
        }
        let seq = self.seq;
        let Some(transport) = self.transports.get_mut(&conn) else { return };
        transport.stage = Stage::Live(handshake.client.clone());
        transport.cursor = seq;
        if let HandshakeKind::Reconnect { numbering, .. } = handshake.kind {
            transport.numbering = numbering;
        }
        transport.subscriptions = handshake
            .channels
            .iter()
            .map(|channel| (channel.clone(), Subscription::Active(seq)))
            .collect();
        let missing = handshake.missing.clone();
        self.connected(&handshake.client, conn, now);
        match handshake.kind.clone() {
            HandshakeKind::Initialize(version) => self.answer_initialize(conn, handshake, version),
            HandshakeKind::Reconnect { seen, .. } => {
                let replay = Some(seen).filter(|_| replayed);
                self.answer_reconnect(conn, handshake, replay, now);
            }
        }
        self.update_waits(now);
        // No client holds those that were restored only for this handshake.
        missing.iter().for_each(|channel| self.evict_if_unused(channel));
        self.changed.notify_one();
    }

    /// Leaves out the chats whose snapshots do not fit into one answer. If the estimates of the sizes
    /// are too large, the states are measured.
    fn fit_into_one_answer(&mut self, handshake: &mut Handshake) {
        let most = self.limits.wire.message_bytes / 2;
        let estimates = handshake.channels.iter().map(|channel| self.channels[channel].weight);
        if estimates.sum::<usize>() <= most {
            return;
        }
        let named = handshake.channels.iter();
        named.for_each(|channel| {
            self.channels.get_mut(channel).into_iter().for_each(Channel::measure)
        });
        handshake.drop_oversized(most, |channel| self.channels[channel].size());
    }

    fn answer_initialize(&mut self, conn: ConnId, handshake: Handshake, version: String) {
        milestone!("toolcall.host.initialized", conn = conn.0, client = handshake.client.as_str());
        if let (Some(client), Some(transport)) =
            (self.clients.get_mut(&handshake.client), self.transports.get_mut(&conn))
        {
            client.numberings += 1;
            transport.numbering = client.numberings;
        }
        let known = self.clients.get(&handshake.client);
        let epoch = known.map(|client| format!("{}/{}", self.epoch_of(client), client.numberings));
        let snapshots = self.take_snapshots(&handshake);
        let result = InitializeResult {
            protocol_version: version,
            server_seq: i64::try_from(self.seq).unwrap_or(i64::MAX),
            server_info: Some(Implementation {
                name: env!("CARGO_PKG_NAME").to_owned(),
                version: None,
                title: None,
            }),
            meta: epoch.map(|epoch| host_meta(&epoch, self.limits.wire.message_bytes)),
            snapshots,
            default_directory: None,
            completion_trigger_characters: None,
            terminal_command_prefix: None,
            telemetry: None,
            automations: None,
        };
        self.send(conn, Message::response(handshake.id, &result));
    }

    /// Answers with everything after the action `replay`, or with snapshots.
    fn answer_reconnect(
        &mut self,
        conn: ConnId,
        handshake: Handshake,
        replay: Option<u64>,
        now: Instant,
    ) {
        let result = if let Some(seen) = replay {
            let actions =
                self.missed_actions(&handshake, seen).map(|envelope| (**envelope).clone());
            let actions = actions.collect::<Vec<_>>();
            let (client, missed_actions) = (handshake.client.as_str(), actions.len() as u64);
            milestone!("toolcall.host.replayed", conn = conn.0, client, actions = missed_actions);
            let missing = handshake.missing.iter().cloned().collect();
            ReconnectResult::Replay(ReconnectReplayResult { actions, missing })
        } else {
            milestone!("toolcall.host.reseated", conn = conn.0, client = handshake.client.as_str());
            ReconnectResult::Snapshot(ReconnectSnapshotResult {
                snapshots: self.take_snapshots(&handshake),
            })
        };
        let client = handshake.client.clone();
        self.send(conn, Message::response(handshake.id, &result));
        if defect!(ReturnReleasesWhatAnotherConnectionHolds) {
            self.release_what_others_hold(conn, &client, now);
        }
        self.release_unnamed(&client, now);
    }

    /// Releases the channels that depend on a returning client but that it did not name.
    fn release_unnamed(&mut self, client: &str, now: Instant) {
        let depends = self.causes.iter().filter(|(_, clients)| clients.contains(client));
        let unnamed = depends
            .filter(|(channel, _)| !self.holds(client, channel) || defect!(ReturnReleases))
            .map(|(channel, _)| channel.clone());
        let unnamed = unnamed.collect::<Vec<_>>();
        if !unnamed.is_empty() && !defect!(ReleaseWaits) {
            self.release(client, &unnamed, ReleaseReason::Released, now);
        }
    }

    /// Returns the snapshots for a handshake, and records that the client has these states.
    fn take_snapshots(&mut self, handshake: &Handshake) -> Vec<Snapshot> {
        let mut snapshots = self.snapshots(&handshake.channels);
        if defect!(SnapshotReadEarly) {
            self.replace_by_early(handshake, &mut snapshots);
        }
        let seq = self.seq;
        if let Some(client) = self.clients.get_mut(&handshake.client) {
            client
                .baselines
                .extend(handshake.channels.iter().map(|channel| (channel.clone(), seq)));
        }
        self.prune_baselines(&handshake.client);
        snapshots
    }

    pub(super) fn snapshots(&self, channels: &[String]) -> Vec<Snapshot> {
        channels.iter().filter_map(|channel| self.snapshot(channel)).collect()
    }

    /// Whether everything after `seen` can be replayed action by action.
    fn can_replay(&self, handshake: &Handshake, seen: u64) -> bool {
        let first = if defect!(ReplayOffByOne) { seen + 2 } else { seen + 1 };
        let kept = self.log.oldest().map_or(self.seq < first, |oldest| oldest <= first);
        let future = seen > self.seq && !defect!(FutureCursorReplayed);
        let poisoned = defect!(DebtNeverPaid) && !handshake.missing.is_empty();
        kept && !future
            && !poisoned
            && (self.has_states(handshake, seen) || defect!(BaselineNotAsked))
            && self.replay_fits(handshake, seen)
    }

    /// Whether the missed actions fit into one answer.
    fn replay_fits(&self, handshake: &Handshake, seen: u64) -> bool {
        let missed = self.missed_actions(handshake, seen);
        missed.map(|envelope| weight(&envelope.action)).sum::<usize>()
            <= self.limits.wire.message_bytes / 2
            || defect!(ReplaysHaveNoLimit)
    }

    /// Whether a client that has seen action `seen` received the state of each channel that it
    /// names.
    fn has_states(&self, handshake: &Handshake, seen: u64) -> bool {
        let Some(client) = self.clients.get(&handshake.client) else { return false };
        handshake
            .channels
            .iter()
            .all(|channel| client.baselines.get(channel).is_some_and(|given| *given <= seen))
    }

    /// Returns the actions after `seen` in the named channels, and the client's own.
    fn missed_actions<'s>(
        &'s self,
        handshake: &'s Handshake,
        seen: u64,
    ) -> impl Iterator<Item = &'s Arc<ActionEnvelope>> {
        let own = |envelope: &ActionEnvelope| {
            envelope.origin.as_ref().is_some_and(|origin| origin.client_id == handshake.client)
                && !defect!(ReplayLacksOwnActions)
        };
        let named = move |envelope: &ActionEnvelope| {
            handshake.channels.binary_search(&envelope.channel).is_ok() || own(envelope)
        };
        let after = self.log.since(seen + 1).map(|(_, envelope)| envelope);
        after.filter(move |envelope| named(envelope))
    }

    /// Removes the entries above the limit: first those of channels that the client does not hold, such
    /// as removed ones, and the oldest first.
    pub(super) fn prune_baselines(&mut self, client: &str) {
        let most = self.limits.subscriptions.max(1) * 2;
        let Some(known) = self.clients.get(client).filter(|known| known.baselines.len() > most)
        else {
            return;
        };
        let mut in_turn = known
            .baselines
            .iter()
            .map(|(channel, given)| (self.holds(client, channel), *given, channel.clone()))
            .collect::<Vec<_>>();
        in_turn.sort();
        if defect!(NewestBaselinesGo) {
            in_turn.reverse();
        }
        let goes = in_turn.len() - most;
        let Some(known) = self.clients.get_mut(client) else { return };
        for (_, _, channel) in in_turn.into_iter().take(goes) {
            known.baselines.remove(&channel);
        }
    }

    /// Closes connections whose handshake, or the restore of its channels, is past the deadline.
    pub(super) fn give_up_handshakes(&mut self, now: Instant) {
        let late = self
            .transports
            .iter()
            .filter(|(_, transport)| transport.handshake_until().is_some_and(|until| until <= now));
        for conn in late.map(|(conn, _)| *conn).collect::<Vec<_>>() {
            milestone!("toolcall.host.no-handshake", conn = conn.0);
            self.roll_back(conn, now, now);
            self.end(conn, CloseReason::NoHandshake);
        }
    }

    /// Undoes the reservations of a handshake. The next one must be complete by `until`.
    fn roll_back(&mut self, conn: ConnId, until: Instant, now: Instant) {
        let Some(transport) = self.transports.get_mut(&conn) else { return };
        let fresh = Stage::Fresh(until);
        let Stage::Arriving(handshake) = std::mem::replace(&mut transport.stage, fresh) else {
            return;
        };
        transport.subscriptions.clear();
        self.abort_handshake(&handshake.client, conn, now);
        self.update_waits(now);
        if !defect!(GivenUpHandshakesKeepChats) {
            handshake.channels.iter().for_each(|channel| self.evict_if_unused(channel));
        }
    }
}

/// Splits an epoch into the part of the client's record, and the numbering of the client's actions.
fn record_and_numbering(epoch: &str) -> (&str, u64) {
    let parts = epoch.rsplit_once('/');
    let parts = parts.and_then(|(record, numbering)| Some((record, numbering.parse().ok()?)));
    parts.unwrap_or((epoch, UNKNOWN))
}
