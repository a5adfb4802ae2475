//! Handles the messages of the host.

use reknit_seams::{defect, milestone};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::phase::Line;
use super::request::{PendingRequest, Purpose, answer};
use super::{ClientCore, ClientEffect};
use crate::client::Failure;
use crate::wire::ahp::notifications::SessionRemovedParams;
use crate::wire::{
    ActionEnvelope, ErrorBody, Message, ROOT, RequestId, Snapshot, StateAction, SubscribeResult,
    code, method, read,
};

/// The description of an answer that the client cannot use.
const INVALID: &str = "a message that is invalid or too long";

impl ClientCore {
    /// Handles a frame that arrived over a connection.
    pub fn on_frame(&mut self, generation: u64, frame: &[u8], now: Instant, random: u64) {
        if generation != self.generation {
            return;
        }
        let understood = match Message::parse(frame) {
            Ok(Message::Response { id: RequestId::Number(id), result }) => {
                self.answered(id, Ok(result), now, random)
            }
            Ok(Message::Error { id: RequestId::Number(id), error }) => {
                self.answered(id, Err(error), now, random)
            }
            Ok(Message::Notification { method, params }) => {
                self.on_notification(&method, params.as_deref())
            }
            Ok(Message::Request { id, method, params }) => {
                self.on_host_request(id, method, params);
                Ok(())
            }
            Ok(_) | Err(_) => {
                milestone!("toolcall.client.malformed", generation);
                return self.broken(generation, now, random);
            }
        };
        if understood.is_err() {
            milestone!("toolcall.client.malformed", generation);
            self.lost(generation, now, random);
        }
    }

    fn on_host_request(&mut self, id: RequestId, name: String, params: Option<Box<RawValue>>) {
        if name == method::PING {
            return self.send(Message::response(id, &()));
        }
        self.push_effect(ClientEffect::AnswerRequest {
            generation: self.generation,
            id,
            method: name,
            params,
        });
    }

    /// Sends the user's answer to a request of the host.
    pub fn reply(
        &mut self,
        generation: u64,
        id: RequestId,
        reply: Result<Box<RawValue>, (i64, String)>,
    ) {
        if generation != self.generation {
            return; // the host does not wait for it any more
        }
        if reply.is_err() && defect!(RefusedRequestsHang) {
            return;
        }
        self.send(match reply {
            Ok(result) => Message::Response { id, result },
            Err((code, why)) => Message::error(id, code, why),
        });
    }

    fn on_notification(&mut self, name: &str, params: Option<&RawValue>) -> Result<(), ()> {
        // The host answers the handshake first. The answer brings what the client missed, and this comes
        // after that.
        let is_early = matches!(self.line, Line::Shaking { .. });
        let is_about_channels = name == method::ACTION || name == method::SESSION_REMOVED;
        if is_early && is_about_channels && !defect!(EarlyActionsAreApplied) {
            return Err(());
        }
        if name == method::ACTION {
            let envelope: ActionEnvelope = read(params).map_err(drop)?;
            self.on_action(envelope);
            self.look_for_calls();
            self.notify();
        }
        if name == method::SESSION_REMOVED {
            let removed: SessionRemovedParams = read(params).map_err(drop)?;
            if self.replicas.contains_key(&removed.session) {
                self.remove_channel(&removed.session);
                self.look_for_calls();
            }
        }
        Ok(())
    }

    /// Applies an action to its channel. If it confirms or rejects one of this client's own
    /// actions, that action is no longer pending.
    pub(super) fn on_action(&mut self, envelope: ActionEnvelope) {
        let ignored = defect!(RejectionIgnored) && envelope.rejection_reason.is_some();
        let own = envelope
            .origin
            .as_ref()
            .filter(|origin| origin.client_id == self.identity.client && !ignored);
        let mut is_confirmed = false;
        let own = own.map(|origin| origin.client_seq).filter(|seq| {
            let unconfirmed = self.unconfirmed.get(seq);
            let is_it = unconfirmed
                .is_some_and(|unconfirmed| unconfirmed.is_in(&envelope) || defect!(NumberIsEnough));
            // The bug: no caller waits for the answer to the result of a call.
            let stays = defect!(ResultsStayUnconfirmed)
                && unconfirmed.is_some_and(|unconfirmed| {
                    matches!(unconfirmed.action, StateAction::ChatToolCallComplete(_))
                });
            is_it && !stays
        });
        if let Some((seq, unconfirmed)) = own.and_then(|seq| self.unconfirmed.remove_entry(&seq)) {
            let outcome = match &envelope.rejection_reason {
                Some(why) => Err(Failure::Rejected(why.clone())),
                None => Ok(()),
            };
            if let Err(Failure::Rejected(why)) = &outcome {
                milestone!(
                    "toolcall.client.rejected",
                    channel = envelope.channel.as_str(),
                    seq,
                    why = why.as_str()
                );
                if unconfirmed.is_join()
                    && !self.may_be_member(&unconfirmed.channel)
                    && !defect!(RefusedJoinsStay)
                {
                    self.joined.remove(&unconfirmed.channel);
                }
            }
            is_confirmed = outcome.is_ok();
            answer(unconfirmed.answer, outcome);
        }
        if envelope.rejection_reason.is_none() {
            let most = self.limits.channel_bytes;
            if !self.replicas.contains_key(&envelope.channel) && envelope.channel != ROOT {
                milestone!("toolcall.client.unwanted", channel = envelope.channel.as_str());
            }
            self.note_overtaken(&envelope);
            let full = self.replicas.get_mut(&envelope.channel).is_some_and(|replica| {
                replica.apply(&envelope);
                replica.is_over(most)
            });
            if full {
                self.drop_channel(&envelope.channel);
            }
            if let StateAction::SessionChatRemoved(removed) = &envelope.action {
                self.remove_channel(&removed.chat);
            }
            let seen = if defect!(SeenGoesBack) { 0 } else { self.seen };
            self.seen = seen.max(envelope.server_seq);
        }
        // The action may have taken effect before it was retransmitted, and may have been undone
        // since.
        // The bug: the client takes a late confirmation of its join for the present state.
        if is_confirmed
            && self.is_connected()
            && self.joined.contains(&envelope.channel)
            && !defect!(ConfirmedJoinsAreBelieved)
        {
            self.join_again();
        }
        if defect!(RunsBeforeCaughtUp) {
            self.look_for_calls();
        }
    }

    /// Whether another join of the user made it a member of a session, or has no outcome yet.
    fn may_be_member(&self, session: &str) -> bool {
        let mut joins = self.unconfirmed.values().filter(|unconfirmed| unconfirmed.is_join());
        let is_listed = self.confirmed(session).and_then(|state| self.is_listed(state));
        is_listed == Some(true) || joins.any(|join| join.channel == session)
    }

    fn answered(
        &mut self,
        id: i64,
        result: Result<Box<RawValue>, ErrorBody>,
        now: Instant,
        random: u64,
    ) -> Result<(), ()> {
        let Some(asked) = self.in_flight.remove(&id) else { return Ok(()) }; // it took too long, and was given up
        let PendingRequest { purpose, .. } = asked;
        match (purpose, result) {
            (Purpose::Initialize { asked }, Ok(result)) => {
                self.initialized(parsed(&result)?, &asked, now)
            }
            (Purpose::Reconnect { asked }, Ok(result)) => {
                self.reconnected(parsed(&result)?, &asked, now)
            }
            (was @ (Purpose::Initialize { .. } | Purpose::Reconnect { .. }), Err(error)) => {
                self.refused(&was, error.code, now, random);
            }
            (Purpose::Token, outcome) => {
                if let Err(error) = outcome {
                    milestone!("toolcall.client.token-refused", code = error.code);
                }
                self.settled(Some(id), now);
            }
            (Purpose::Subscribe { channel, answer: to }, Ok(result)) => {
                let Ok(result) = parsed(&result) else {
                    if !defect!(InvalidAnswersAreDropped) {
                        self.fail_invalid(Purpose::Subscribe { channel, answer: to });
                    }
                    return Err(());
                };
                self.subscribed(&channel, result);
                answer(to, Ok(()));
                self.look_for_calls();
                self.notify();
            }
            (Purpose::Subscribe { channel, answer: to }, Err(error)) => {
                // Another request may still bring its state. Until then the channel keeps its place.
                let is_last = !self.asks_for(&channel) && !defect!(RefusedChannelsStay);
                if is_last || defect!(RefusedMakesRoom) {
                    self.remove_channel(&channel);
                    self.look_for_calls(); // a stopped tool makes room for a call that waits
                }
                answer(to, Err(refusal(error)));
            }
            (Purpose::User { answer: to }, outcome) => answer(to, outcome.map_err(refusal)),
        }
        Ok(())
    }

    /// Notes an action that comes after an answer that includes it. Two kinds of actions may be late: the
    /// outcome of a repeated action of this client, with the number of its first effect, and the removal
    /// of a chat, which the host reports again to a client that loses its subscription to the session.
    fn note_overtaken(&self, envelope: &ActionEnvelope) {
        let (number, included) = (envelope.server_seq, self.included);
        let origin = envelope.origin.as_ref();
        let may_be_late = origin.is_some_and(|origin| origin.client_id == self.identity.client)
            || matches!(envelope.action, StateAction::SessionChatRemoved(_));
        if number <= included && !may_be_late {
            let channel = envelope.channel.as_str();
            milestone!("toolcall.client.overtaken", channel, number, included);
        }
    }

    /// Records that an answer brought the state of a channel: it includes all actions up to its number.
    pub(super) fn note_included(&mut self, snapshot: &Snapshot) {
        let number = u64::try_from(snapshot.from_seq).unwrap_or(0);
        self.seen = self.seen.max(number);
        self.included = self.included.max(number);
    }

    /// Replaces the local copy of a channel by the host's snapshot.
    fn subscribed(&mut self, channel: &str, result: SubscribeResult) {
        let Some(snapshot) = result.snapshot else { return };
        self.note_included(&snapshot);
        // If the user had unsubscribed, the request would not be in flight any more.
        self.replica(channel).reset_to(snapshot);
        if self.joined.contains(channel) {
            self.join_again();
        }
    }

    /// Fails a request because its answer is invalid. A channel without a state is dropped.
    pub(super) fn fail_invalid(&mut self, purpose: Purpose) {
        let why = || Failure::Malformed(INVALID.to_owned());
        match purpose {
            Purpose::Subscribe { channel, answer: to } => {
                if self.confirmed(&channel).is_none() && !self.asks_for(&channel) {
                    self.remove_channel(&channel);
                }
                answer(to, Err(why()));
            }
            Purpose::User { answer: to } => answer(to, Err(why())),
            Purpose::Initialize { .. } | Purpose::Reconnect { .. } | Purpose::Token => {}
        }
    }

    /// Drops a channel whose state is larger than the limit.
    fn drop_channel(&mut self, channel: &str) {
        self.unsubscribe(channel);
        self.remove_channel(channel);
    }

    /// Removes a channel that does not exist any more. A request in progress may bring a newer one of
    /// the same name. Until then the channel keeps its place.
    pub(super) fn remove_channel(&mut self, channel: &str) {
        milestone!("toolcall.client.gone", channel);
        self.replicas.remove(channel);
        if self.asks_for(channel) && !defect!(RefusedMakesRoom) {
            self.replica(channel);
        }
        if !defect!(RemovedStaysJoined) {
            self.joined.remove(channel);
        }
        self.stop_calls(|(chat, _, _)| chat == channel);
        let lost =
            self.unconfirmed.iter().filter(|(_, unconfirmed)| unconfirmed.channel == channel);
        for seq in lost.map(|(seq, _)| *seq).collect::<Vec<_>>() {
            if let Some(unconfirmed) = self.unconfirmed.remove(&seq) {
                answer(unconfirmed.answer, Err(Failure::Gone));
            }
        }
        self.notify();
    }
}

fn parsed<T: DeserializeOwned>(result: &RawValue) -> Result<T, ()> {
    read(Some(result)).map_err(drop)
}

fn refusal(error: ErrorBody) -> Failure {
    match error.code {
        code::NOT_FOUND | code::SESSION_NOT_FOUND => Failure::Gone,
        code => Failure::Refused { code, message: error.message },
    }
}
