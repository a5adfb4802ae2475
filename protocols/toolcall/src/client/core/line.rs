//! The connection: attempts, the pauses between them, the handshake, and loss.
//!
//! There is one connection at a time, identified by its number; events of any other connection are
//! ignored. A loss at any time, even during the handshake, leads to the next attempt. Only a host
//! that speaks another version, or the user, ends the client. Pauses grow while connections fail
//! early, and there is no last attempt.
//!
//! A client that the host knows reports the last action that it has seen. If the host does not know
//! the client, or is another incarnation, the client starts over: first channels, then tokens, and
//! only then the actions and requests of the meantime.

use std::collections::{BTreeMap, BTreeSet};

use reknit_seams::{defect, milestone};
use tokio::time::Instant;

use super::phase::Line;
use super::request::{Held, PendingRequest, Purpose, answer};
use super::{ClientCore, ClientEffect};
use crate::client::Failure;
use crate::wire::ahp::commands::Implementation;
use crate::wire::{
    AuthenticateParams, InitializeParams, InitializeResult, Message, ROOT, ReconnectParams,
    ReconnectResult, Snapshot, UnsubscribeParams, ahp, code, epoch_of, longest_of, meta_with,
    method,
};

impl ClientCore {
    /// Returns the time of the next timeout, if any.
    pub fn due(&self) -> Option<Instant> {
        let line = match &self.line {
            Line::Waiting { until } | Line::Shaking { until } | Line::Settling { until, .. } => {
                Some(*until)
            }
            Line::Opening | Line::Connected { .. } | Line::Closed(_) => None,
        };
        // The bug: the timer of the next attempt hides them.
        let is_counted = |_: &Instant| line.is_none() || !defect!(AttemptsHideDeadlines);
        line.into_iter().chain(self.deadlines().filter(is_counted)).min()
    }

    /// Handles every timeout that has passed. `random` is any number; it randomizes the pauses.
    pub fn wake(&mut self, now: Instant, random: u64) {
        match &self.line {
            Line::Waiting { until } if *until <= now => {
                self.generation += 1;
                self.line = Line::Opening;
                self.push_effect(ClientEffect::Open(self.generation));
            }
            Line::Shaking { until } | Line::Settling { until, .. } if *until <= now => {
                self.lost(self.generation, now, random)
            }
            _ => {}
        }
        // The requests of a handshake that took too long are over with its connection.
        self.give_up_requests(now);
    }

    /// Handles that a part of a message arrived at `last`, and no whole message since. Call it before
    /// [`ClientCore::wake`]. The message may be the answer to a step of the handshake. A large state
    /// takes its time on a slow link, and would take as long over the next connection, so the timeout
    /// of the step counts from the last data.
    pub fn receiving(&mut self, last: Instant, now: Instant) {
        if defect!(SlowAnswersTimeOut) {
            return;
        }
        let until = last + self.limits.handshake_timeout;
        match &mut self.line {
            Line::Shaking { until: at } | Line::Settling { until: at, .. } if *at <= now => {
                *at = until.max(*at);
            }
            _ => return,
        }
        for request in self.in_flight.values_mut().filter(|request| !request.is_of_user()) {
            request.until = until.max(request.until);
        }
    }

    /// Starts the handshake on an open connection.
    pub fn opened(&mut self, generation: u64, conn: u64, now: Instant) {
        if generation != self.generation || !matches!(self.line, Line::Opening) {
            return;
        }
        milestone!(
            "toolcall.client.opened",
            generation,
            conn,
            client = self.identity.client.as_str()
        );
        // The bug: each connection counts as one of use, however short it is.
        if defect!(EachConnectionResetsPauses) {
            self.back_off.restart();
        }
        self.line = Line::Shaking { until: now + self.limits.handshake_timeout };
        self.dropped.clear();
        self.included = 0;
        match self.epoch.clone() {
            Some(epoch) => self.send_reconnect(&epoch, now),
            None => self.send_initialize(now),
        }
    }

    fn send_reconnect(&mut self, epoch: &str, now: Instant) {
        let params = ReconnectParams {
            channel: ROOT.to_owned(),
            meta: Some(meta_with(epoch)),
            client_id: self.identity.client.clone(),
            last_seen_server_seq: i64::try_from(self.seen).unwrap_or(i64::MAX),
            subscriptions: self.known_channels(),
        };
        let asked = params.subscriptions.clone();
        self.request_now(method::RECONNECT, &params, Purpose::Reconnect { asked }, now);
    }

    fn send_initialize(&mut self, now: Instant) {
        let params = InitializeParams {
            channel: ROOT.to_owned(),
            meta: None,
            protocol_versions: ahp::SUPPORTED_PROTOCOL_VERSIONS
                .iter()
                .map(|version| (*version).to_owned())
                .collect(),
            client_id: self.identity.client.clone(),
            client_info: Some(Implementation {
                name: env!("CARGO_PKG_NAME").to_owned(),
                version: None,
                title: None,
            }),
            initial_subscriptions: Some(self.known_channels()),
            locale: None,
            capabilities: None,
        };
        let asked = params.initial_subscriptions.clone().unwrap_or_default();
        self.request_now(method::INITIALIZE, &params, Purpose::Initialize { asked }, now);
    }

    /// Returns the channels that have a state. Each other channel gets its state from the answer to
    /// its own subscription.
    fn known_channels(&self) -> Vec<String> {
        let known = self
            .replicas
            .iter()
            .filter(|(_, replica)| replica.confirmed().is_some() || defect!(NamesWhatItLacks));
        known.map(|(channel, _)| channel.clone()).collect()
    }

    /// Handles the answer to `initialize`.
    pub(super) fn initialized(&mut self, result: InitializeResult, asked: &[String], now: Instant) {
        milestone!("toolcall.client.initialized", generation = self.generation);
        let epoch = epoch_of(result.meta.as_ref()).unwrap_or_default().to_owned();
        self.epoch = Some(epoch);
        // Another host may have the same limits as the client.
        let own = self.limits.wire.message_bytes;
        let own = if defect!(LongestOfTheEarlierHost) { self.longest } else { own };
        self.longest = longest_of(result.meta.as_ref()).unwrap_or(own);
        // The host names its calls anew, perhaps like earlier ones.
        self.forget_calls();
        if !defect!(DeadCallsAreAnswered) {
            self.withdraw_actions_of_calls();
        }
        if result.snapshots.is_empty() || !defect!(SnapshotsKeepTheCursor) {
            self.seen = u64::try_from(result.server_seq).unwrap_or(0);
        }
        self.reset_to_snapshots(result.snapshots, asked);
        self.tokens_are_owed = true;
        self.resend_tokens(asked, now);
    }

    /// Sends all tokens if the host may not have them. Everything else follows after the answers to
    /// them.
    fn resend_tokens(&mut self, asked: &[String], now: Instant) {
        let until = match &self.line {
            Line::Shaking { until } if defect!(TokensShareTheTimeOfTheHandshake) => *until,
            _ => now + self.limits.handshake_timeout,
        };
        let owed = self.tokens_are_owed && !defect!(TokensForgotten);
        let mut waiting = BTreeSet::new();
        for (resource, token) in if owed { self.tokens.clone() } else { BTreeMap::new() } {
            let params = AuthenticateParams {
                channel: ROOT.to_owned(),
                meta: None,
                resource,
                token,
                expires_in: None,
                scopes: None,
            };
            waiting.insert(self.request_now(method::AUTHENTICATE, &params, Purpose::Token, now));
        }
        self.line = Line::Settling { waiting, until };
        if !defect!(DroppedInTheHandshakeIsKept) {
            self.unsubscribe_dropped(asked);
        }
        self.settled(None, now);
    }

    /// Handles the answer to `reconnect`: the host knows the client, and reports what it missed.
    pub(super) fn reconnected(&mut self, result: ReconnectResult, asked: &[String], now: Instant) {
        match result {
            ReconnectResult::Replay(replay) => {
                let (generation, actions) = (self.generation, replay.actions.len() as u64);
                milestone!("toolcall.client.replayed", generation, actions);
                if defect!(MissingBeforeTheReplay) {
                    replay.missing.iter().for_each(|channel| self.remove_channel(channel));
                }
                for envelope in replay.actions {
                    if defect!(ReplayNotApplied) {
                        self.seen = self.seen.max(envelope.server_seq);
                    } else {
                        self.on_action(envelope);
                    }
                }
                replay.missing.iter().for_each(|channel| self.remove_channel(channel));
            }
            ReconnectResult::Snapshot(snapshot) => {
                milestone!("toolcall.client.reseated", generation = self.generation);
                // If the host's action numbers have started again, the old number means nothing.
                self.seen = 0;
                self.reset_to_snapshots(snapshot.snapshots, asked);
            }
        }
        // The connection that carried the `initialize` may have been lost before the host received
        // the tokens.
        self.tokens_are_owed &= !defect!(TokensHandedOverOnce);
        self.resend_tokens(asked, now);
    }

    /// Unsubscribes from the channels that the handshake requested but the user has unsubscribed
    /// from since. A later subscription to such a channel is still in the queue.
    fn unsubscribe_dropped(&mut self, asked: &[String]) {
        let dropped = std::mem::take(&mut self.dropped);
        let is_unwanted =
            |channel: &&String| !self.replicas.contains_key(*channel) || dropped.contains(*channel);
        for channel in asked.iter().filter(is_unwanted).cloned().collect::<Vec<_>>() {
            self.send(Message::notification(method::UNSUBSCRIBE, &UnsubscribeParams { channel }));
        }
    }

    /// Replaces the local state by the host's snapshots. A requested channel without a snapshot
    /// does not exist.
    fn reset_to_snapshots(&mut self, snapshots: Vec<Snapshot>, asked: &[String]) {
        let given =
            snapshots.iter().map(|snapshot| snapshot.resource.clone()).collect::<BTreeSet<_>>();
        for snapshot in snapshots {
            self.note_included(&snapshot);
            // The snapshot belongs to a subscription that the user has ended.
            let skipped = self.dropped.contains(&snapshot.resource)
                || defect!(OnlyTheRootIsReseated) && snapshot.resource != ROOT;
            if let Some(replica) = self.replicas.get_mut(&snapshot.resource).filter(|_| !skipped) {
                replica.reset_to(snapshot);
            }
        }
        if !defect!(MissingIsKept) {
            asked
                .iter()
                .filter(|channel| !given.contains(*channel))
                .for_each(|channel| self.remove_channel(channel));
        }
    }

    /// Records the answer to a token. After the last one, the client is connected.
    pub(super) fn settled(&mut self, request: Option<i64>, now: Instant) {
        let Line::Settling { waiting, .. } = &mut self.line else { return };
        if let Some(request) = request {
            waiting.remove(&request);
        }
        if waiting.is_empty() {
            self.tokens_are_owed = false;
            self.connected(now);
        }
    }

    fn connected(&mut self, now: Instant) {
        milestone!("toolcall.client.connected", generation = self.generation);
        self.line = Line::Connected { since: now };
        self.was_connected = true;
        self.send_again();
        if !defect!(ReturningClientsLookOn) {
            self.join_again();
        }
        self.send_held(now);
        if !defect!(MissedCallsWait) {
            self.look_for_calls();
        }
        self.notify();
    }

    /// Handles a refused handshake.
    pub(super) fn refused(&mut self, was: &Purpose, error_code: i64, now: Instant, random: u64) {
        milestone!("toolcall.client.refused", generation = self.generation, code = error_code);
        match was {
            Purpose::Reconnect { .. } if error_code == code::NOT_FOUND => {
                self.epoch = None;
                let until = match &self.line {
                    Line::Shaking { until } if defect!(StartingOverHasNoTime) => *until,
                    _ => now + self.limits.handshake_timeout,
                };
                self.line = Line::Shaking { until };
                self.send_initialize(now);
            }
            _ if error_code == code::UNSUPPORTED_VERSION => self.close(&Failure::Incompatible),
            _ => self.lost(self.generation, now, random),
        }
    }

    /// Handles a connection that was lost or could not be opened.
    pub fn lost(&mut self, generation: u64, now: Instant, random: u64) {
        if generation != self.generation
            || matches!(self.line, Line::Closed(_) | Line::Waiting { .. })
        {
            return;
        }
        if defect!(SecondLossUnnoticed) && matches!(self.line, Line::Shaking { .. }) {
            self.line = Line::Opening; // whoever waits for the handshake waits forever
            return;
        }
        if let Line::Connected { since } = self.line {
            if !defect!(BackOffNeverEnds) {
                self.back_off.connection_lasted(now - since);
            }
            self.seeded.attempts = 0;
        }
        let pause =
            if defect!(NoBackOff) { std::time::Duration::ZERO } else { self.back_off.next(random) };
        milestone!("toolcall.client.lost", generation, pause = pause.as_millis() as u64);
        let pause = if defect!(AttemptsRunOut) { self.seeded.last_pause(pause) } else { pause };
        self.line = Line::Waiting { until: now + pause };
        if defect!(ToolsRestart) {
            self.forget_calls();
        }
        if defect!(WorkingToolsAreForgotten) {
            self.running.clear();
        }
        if defect!(HeldActionsForgotten) {
            self.held.retain(|held| matches!(held, Held::Request(_)));
        }
        self.push_effect(ClientEffect::Close(generation));
        self.fail_pending_requests(now);
        self.notify();
    }

    /// Handles the end of a connection over which the host sent a frame that is no message, or too
    /// long. The frame may be the answer to any request, so none of them is repeated.
    pub fn broken(&mut self, generation: u64, now: Instant, random: u64) {
        if generation == self.generation && !defect!(LongAnswersAreAskedForAgain) {
            for (_, asked) in std::mem::take(&mut self.in_flight) {
                self.fail_invalid(asked.purpose);
            }
        }
        self.lost(generation, now, random);
    }

    /// Ends the client for good. Everything that waits ends with this reason.
    pub fn close(&mut self, why: &Failure) {
        if matches!(self.line, Line::Closed(_)) {
            return;
        }
        milestone!("toolcall.client.closed", generation = self.generation, why = %why);
        self.line = Line::Closed(why.clone());
        self.push_effect(ClientEffect::Close(self.generation));
        for (_, asked) in std::mem::take(&mut self.in_flight) {
            asked.fail(why.clone());
        }
        self.drop_held(why);
        for (_, unconfirmed) in std::mem::take(&mut self.unconfirmed) {
            answer(unconfirmed.answer, Err(why.clone()));
        }
        self.stop_calls(|_| true);
        self.notify();
    }

    /// Handles the requests without an answer on the lost connection: subscriptions are requested
    /// again, all others fail, and their callers decide.
    fn fail_pending_requests(&mut self, now: Instant) {
        let mut pending = std::mem::take(&mut self.in_flight).into_values().collect::<Vec<_>>();
        if !defect!(SubscriptionsAreRepeatedBackwards) {
            pending.reverse(); // each of them goes to the head of the queue
        }
        for mut asked in pending {
            if defect!(RepetitionsGetMoreTime) {
                asked.until = now + self.limits.request_deadline;
            }
            match asked.purpose {
                Purpose::Subscribe { .. } if !defect!(SubscriptionsAreLost) => {
                    self.hold_again(asked)
                }
                Purpose::User { .. }
                    if asked.method == method::AUTHENTICATE && defect!(TokensAreSentAgain) =>
                {
                    self.hold_again(asked)
                }
                _ if defect!(InFlightForgotten) => std::mem::forget(asked),
                _ => asked.fail(Failure::Lost),
            }
        }
    }

    /// Sends a request of the handshake over this connection at once, ahead of everything that
    /// waits. Its deadline is that of a step of the handshake.
    fn request_now(
        &mut self,
        name: &'static str,
        params: &impl serde::Serialize,
        purpose: Purpose,
        now: Instant,
    ) -> i64 {
        self.requests += 1;
        let id = self.requests;
        self.send(Message::request(id, name, params));
        let time = if defect!(HandshakesHaveTheTimeOfARequest) {
            self.limits.request_deadline
        } else {
            self.limits.handshake_timeout
        };
        let until = now + time;
        self.in_flight
            .insert(id, PendingRequest { purpose, method: name.to_owned(), params: None, until });
        id
    }
}
