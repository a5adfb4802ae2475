//! The user's requests and actions.
//!
//! Requests and actions are sent in the order in which the user issued them, even if there was no
//! connection for some time: they wait in one queue. A request that was in flight when its
//! connection was lost fails, because the client cannot know whether the host executed it. A
//! subscription is requested again. An action is applied locally at once, and retransmitted over
//! each new connection until the host answers it, always before everything issued later. The host
//! recognizes the number of the action, so it takes effect once.

use std::collections::VecDeque;

use reknit_seams::{defect, milestone};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::ClientCore;
use super::phase::Line;
use super::request::{Answer, Held, PendingRequest, Purpose, Unconfirmed, answer};
use crate::client::{Failure, failed};
use crate::state::{apply, call, session};
use crate::wire::ahp::actions::SessionActiveClientSetAction;
use crate::wire::ahp::state::SessionActiveClient;
use crate::wire::{
    DispatchActionParams, Message, RequestId, SnapshotState, StateAction, SubscribeParams,
    UnsubscribeParams, is_name, method,
};

/// More bytes than a message adds to its parameters.
const ENVELOPE: usize = 64;

impl ClientCore {
    pub(super) fn is_connected(&self) -> bool {
        matches!(self.line, Line::Connected { .. })
    }

    /// Returns the reason why the client accepts no more requests, if any.
    fn refusal(&self) -> Option<Failure> {
        match &self.line {
            Line::Closed(why) => Some(why.clone()),
            _ if defect!(HeldWithoutLimit) => None,
            _ if self.held.len() + self.asked() >= self.limits.held => Some(Failure::Full),
            _ => None,
        }
    }

    /// Returns the number of the user's requests in flight. Requests of a handshake take no place.
    fn asked(&self) -> usize {
        let takes_a_place =
            |request: &&PendingRequest| request.is_of_user() || defect!(HandshakesTakePlaces);
        self.in_flight.values().filter(takes_a_place).count()
    }

    /// Sends a request to the host.
    pub fn request(
        &mut self,
        name: &str,
        params: Box<RawValue>,
        to: Answer<Box<RawValue>>,
        now: Instant,
    ) {
        let purpose = Purpose::User { answer: Some(to) };
        self.send_request(PendingRequest {
            purpose,
            method: name.to_owned(),
            params: Some(params),
            until: now + self.limits.request_deadline,
        });
    }

    /// Subscribes to a channel; the first message is its state.
    pub fn subscribe(&mut self, channel: &str, to: Answer<()>, now: Instant) {
        let full = self.replicas.len() >= self.limits.subscriptions
            && (!self.replicas.contains_key(channel) || defect!(KnownChannelsCountAgain));
        if full || !is_name(channel) {
            return answer(Some(to), Err(Failure::Full));
        }
        let params = serde_json::value::to_raw_value(&SubscribeParams::new(channel))
            .expect("parameters are plain data");
        let purpose = Purpose::Subscribe { channel: channel.to_owned(), answer: Some(to) };
        let until = now + self.limits.request_deadline;
        if self.send_request(PendingRequest {
            purpose,
            method: method::SUBSCRIBE.to_owned(),
            params: Some(params),
            until,
        }) {
            self.replica(channel);
        }
    }

    fn send_request(&mut self, request: PendingRequest) -> bool {
        if let Some(why) = self.refusal() {
            request.fail(why);
            return false;
        }
        self.changed.notify_one(); // it has a deadline
        if self.is_connected() && self.held.is_empty() {
            self.emit(request);
        } else {
            self.held.push_back(Held::Request(request));
        }
        true
    }

    fn emit(&mut self, request: PendingRequest) {
        self.requests += 1;
        let id = self.requests;
        let (name, params) = (request.method.clone(), request.params.clone());
        self.send(Message::Request { id: RequestId::Number(id), method: name, params });
        self.in_flight.insert(id, request);
    }

    /// Unsubscribes from a channel.
    pub fn unsubscribe(&mut self, channel: &str) {
        self.cancel_subscription(channel, false);
    }

    /// Unsubscribes from a channel. `unanswered`: the subscription request timed out without an
    /// answer.
    fn cancel_subscription(&mut self, channel: &str, unanswered: bool) {
        let was_known = self.replicas.remove(channel).is_some();
        if !defect!(UnsubscribedStaysJoined) {
            self.joined.remove(channel);
        }
        if !defect!(UnwatchedToolsGoOn) {
            self.stop_calls(|(chat, _, _)| chat == channel);
        }
        if defect!(UnsubscribedActionsAreDropped) {
            self.unconfirmed.retain(|_, unconfirmed| unconfirmed.channel != channel);
        }
        let (mut kept, mut taken) = (VecDeque::new(), Vec::new());
        for held in std::mem::take(&mut self.held) {
            match held {
                Held::Request(request) if request.subscribes_to(channel) => taken.push(request),
                held => kept.push_back(held),
            }
        }
        self.held = kept;
        let in_flight = self
            .in_flight
            .iter()
            .filter(|(_, request)| request.subscribes_to(channel))
            .map(|(id, _)| *id)
            .collect::<Vec<_>>();
        taken.extend(in_flight.into_iter().filter_map(|id| self.in_flight.remove(&id)));
        // The user may have subscribed again to a channel that was removed.
        if !was_known && taken.is_empty() && !unanswered {
            return;
        }
        taken.into_iter().for_each(|request| request.fail(Failure::Unsubscribed));
        if matches!(self.line, Line::Shaking { .. }) && !defect!(ResubscriptionHidesTheLeave) {
            self.dropped.insert(channel.to_owned());
        }
        let is_known = match &self.line {
            Line::Settling { .. } => !defect!(UnsubscribedBeforeTheTokensIsKept),
            Line::Connected { .. } => true,
            _ => false,
        };
        if is_known {
            self.send(Message::notification(
                method::UNSUBSCRIBE,
                &UnsubscribeParams { channel: channel.to_owned() },
            ));
        }
        if !defect!(StoppedToolsMakeNoRoom) {
            self.look_for_calls(); // a stopped tool makes room for a call that waits
        }
        self.notify();
    }

    /// Dispatches an action to a channel: applied locally at once, and at the host when the action
    /// arrives. `to` gets the result.
    pub fn dispatch(&mut self, channel: &str, action: StateAction, to: Option<Answer<()>>) {
        if let Some(why) = self.refusal() {
            return answer(to, Err(why));
        }
        if self.unconfirmed.len() >= self.limits.unconfirmed {
            return answer(to, Err(Failure::Full));
        }
        let leaves = matches!(&action, StateAction::SessionActiveClientRemoved(removed) if removed.client_id == self.identity.client);
        if leaves && !defect!(LeaverJoinsAgain) {
            // The user leaves, and the client must not join again, even if it is no member at this moment.
            self.joined.remove(channel);
        }
        if let Some(why) = self.check_action(channel, &action) {
            return answer(to, Err(why));
        }
        self.dispatch_unchecked(channel, action, to);
    }

    /// Dispatches without checking the state or the limits: an action of the client itself must not
    /// be lost.
    pub(super) fn dispatch_unchecked(
        &mut self,
        channel: &str,
        action: StateAction,
        to: Option<Answer<()>>,
    ) {
        self.actions += 1;
        let seq = self.actions;
        self.unconfirmed.insert(
            seq,
            Unconfirmed { channel: channel.to_owned(), action, sent: false, answer: to },
        );
        if self.is_connected() && self.held.is_empty() {
            self.send_action(seq);
        } else {
            self.held.push_back(Held::Action(seq));
        }
        self.notify();
    }

    /// Returns the reason why an action is not sent, if it does not fit the local state.
    fn check_action(&self, channel: &str, action: &StateAction) -> Option<Failure> {
        let Some(mut state) = self.view(channel) else { return Some(Failure::Gone) };
        apply(&mut state, action).ignored().map(|why| Failure::Rejected(why.to_owned()))
    }

    fn send_action(&mut self, seq: i64) {
        let Some(unconfirmed) = self.unconfirmed.get_mut(&seq) else { return };
        let params = DispatchActionParams {
            channel: unconfirmed.channel.clone(),
            client_seq: seq,
            action: unconfirmed.action.clone(),
        };
        let message = Message::notification(method::DISPATCH, &params);
        if message.weight() + ENVELOPE > self.longest && !defect!(LongMessagesAreSent) {
            return self.withdraw_long_action(seq);
        }
        unconfirmed.sent = true;
        self.send(message);
    }

    /// Withdraws an action that is longer than the host accepts: over each connection, it would end
    /// the connection. If it is the result of a call, the call has failed.
    fn withdraw_long_action(&mut self, seq: i64) {
        let Some(mut long) = self.unconfirmed.remove(&seq) else { return };
        milestone!("toolcall.client.withdrawn", channel = long.channel.as_str(), seq);
        let result = failed("the result is too long");
        match &mut long.action {
            StateAction::ChatToolCallComplete(complete) if complete.result != result => {
                complete.result = result;
                self.unconfirmed.insert(seq, long);
                self.send_action(seq);
            }
            _ => {
                if long.is_join() {
                    self.joined.remove(&long.channel);
                }
                answer(long.answer, Err(Failure::Rejected("the action is too long".to_owned())));
            }
        }
        self.notify();
    }

    /// Withdraws the actions that concern calls. They were meant for calls of an earlier host, or of
    /// the same host before it forgot this client. The host may have given the name of such a call to
    /// another one, about which the user has not decided. The earlier host may have executed those that
    /// were sent.
    pub(super) fn withdraw_actions_of_calls(&mut self) {
        let is_of_call = |action: &StateAction| call::addressed(action).is_some();
        let of_calls = self.unconfirmed.iter().filter(|(_, known)| is_of_call(&known.action));
        for seq in of_calls.map(|(seq, _)| *seq).collect::<Vec<_>>() {
            let Some(known) = self.unconfirmed.remove(&seq) else { continue };
            milestone!("toolcall.client.withdrawn", channel = known.channel.as_str(), seq);
            let why = match known.sent {
                true => Failure::Lost,
                false => Failure::Rejected("no such call".to_owned()),
            };
            answer(known.answer, Err(why));
        }
    }

    /// Retransmits, in order and before anything else, the actions that the host may not have
    /// received.
    pub(super) fn send_again(&mut self) {
        let sent = self
            .unconfirmed
            .iter()
            .filter(|(_, unconfirmed)| unconfirmed.sent || defect!(HeldActionsAreSentTwice))
            .map(|(seq, _)| *seq);
        let mut sent = sent.collect::<Vec<_>>();
        if defect!(RepeatsBackwards) {
            sent.reverse();
        }
        for seq in sent {
            milestone!("toolcall.client.repeated", seq);
            self.send_action(seq);
        }
    }

    /// Sends everything that waited for a connection, in the order of issue.
    pub(super) fn send_held(&mut self, now: Instant) {
        self.give_up_requests(now);
        let mut held = std::mem::take(&mut self.held);
        if defect!(TwoQueues) {
            let (requests, actions): (Vec<_>, Vec<_>) =
                held.into_iter().partition(|held| matches!(held, Held::Request(_)));
            held = requests.into_iter().chain(actions).collect();
        }
        while let Some(next) = held.pop_front() {
            match next {
                Held::Request(request) => self.emit(request),
                // The bug: what waits behind an action that is gone is not sent.
                Held::Action(seq)
                    if defect!(GoneActionStopsTheQueue) && !self.unconfirmed.contains_key(&seq) =>
                {
                    self.held = held;
                    return;
                }
                Held::Action(seq) => self.send_action(seq),
            }
        }
    }

    /// Puts a subscription that was in flight on the lost connection at the head of the queue.
    pub(super) fn hold_again(&mut self, request: PendingRequest) {
        self.held.push_front(Held::Request(request));
    }

    /// Drops the queue; every request in it fails.
    pub(super) fn drop_held(&mut self, why: &Failure) {
        for held in std::mem::take(&mut self.held) {
            if let Held::Request(request) = held {
                request.fail(why.clone());
            }
        }
    }

    /// Returns the deadlines of all requests.
    pub(super) fn deadlines(&self) -> impl Iterator<Item = Instant> + '_ {
        let held = self.held.iter().filter_map(|held| match held {
            Held::Request(request) => Some(request.until),
            Held::Action(_) => None,
        });
        held.chain(self.in_flight.values().map(|request| request.until))
    }

    /// Fails the requests whose deadline has passed.
    pub(super) fn give_up_requests(&mut self, now: Instant) {
        let late = self
            .in_flight
            .iter()
            .filter(|(_, request)| request.until <= now)
            .map(|(id, _)| *id)
            .collect::<Vec<_>>();
        let mut given_up =
            late.into_iter().filter_map(|id| self.in_flight.remove(&id)).collect::<Vec<_>>();
        for held in std::mem::take(&mut self.held) {
            match held {
                Held::Request(request) if request.until <= now => given_up.push(request),
                held => self.held.push_back(held),
            }
        }
        for request in given_up {
            milestone!("toolcall.client.unanswered", method = request.method.as_str());
            let unknown = match &request.purpose {
                _ if defect!(LateSubscriptionIsKept) => None,
                Purpose::Subscribe { channel, .. } => Some(channel.clone()),
                _ => None,
            };
            request.fail(Failure::Late);
            let is_wanted = |channel: &String| {
                self.confirmed(channel).is_some()
                    || self.asks_for(channel) && !defect!(LateSubscriptionsTakeOthersAlong)
            };
            if let Some(channel) = unknown.filter(|channel| !is_wanted(channel)) {
                self.cancel_subscription(&channel, true); // the answer may come yet
            }
        }
    }

    /// Whether a request to subscribe to a channel has no answer yet.
    pub(super) fn asks_for(&self, channel: &str) -> bool {
        let held = self.held.iter().filter_map(|held| match held {
            Held::Request(request) => Some(request),
            Held::Action(_) => None,
        });
        held.chain(self.in_flight.values()).any(|request| request.subscribes_to(channel))
    }

    /// Joins a session with all tools. Joins again if the session removed the client while it was
    /// disconnected.
    pub fn join(&mut self, session: &str, to: Answer<()>) {
        let (is_new, before) = (self.joined.insert(session.to_owned()), self.actions);
        self.dispatch(session, self.entry(), Some(to));
        // The user knows that the join was not sent, so the client must not join later.
        if is_new && self.actions == before {
            self.joined.remove(session);
        }
    }

    fn entry(&self) -> StateAction {
        let active_client = SessionActiveClient {
            client_id: self.identity.client.clone(),
            display_name: None,
            tools: self.identity.tools.clone(),
            customizations: None,
        };
        StateAction::SessionActiveClientSet(SessionActiveClientSetAction { active_client })
    }

    /// Whether a session lists this client; `None` if the state is not one of a session.
    pub(super) fn is_listed(&self, state: &SnapshotState) -> Option<bool> {
        match state {
            SnapshotState::Session(state) => {
                Some(session::active(state, &self.identity.client).is_some())
            }
            _ => None,
        }
    }

    /// Joins again every session that has removed this client.
    pub(super) fn join_again(&mut self) {
        let state = |name: &str| match defect!(JoinsTwice) {
            true => self.confirmed(name).cloned(),
            false => self.view(name),
        };
        let forgot =
            |name: &&String| state(name).and_then(|state| self.is_listed(&state)) == Some(false);
        for session in self.joined.iter().filter(forgot).cloned().collect::<Vec<_>>() {
            milestone!("toolcall.client.joins-again", session = session.as_str());
            self.dispatch_unchecked(&session, self.entry(), None);
        }
    }

    /// Stores a token, to send it again to a host that does not know it.
    pub fn remember(&mut self, resource: &str, token: &str) {
        if token.is_empty() {
            if !defect!(LoggedOutTokensReturn) {
                self.tokens.remove(resource);
            }
        } else {
            self.tokens.insert(resource.to_owned(), token.to_owned());
        }
    }
}
