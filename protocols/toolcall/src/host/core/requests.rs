//! Requests of clients: every received frame, and its handling.
//!
//! Before the handshake, the host accepts only `ping`, `initialize` and `reconnect`. After the
//! first successful handshake, further ones are refused. A frame that is not a valid message gets
//! an error answer and has no other effect. An answer to an unknown request is ignored, because the
//! host may have given up its own request in the meantime.

use reknit_seams::net::ConnId;
use reknit_seams::{defect, milestone};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::HostCore;
use super::clients::ReleaseReason;
use super::transport::{CloseReason, Stage, Subscription, Transport};
use crate::state::{chat, session};
use crate::wire::ahp::actions::{
    SessionChatAddedAction, SessionChatRemovedAction, SessionDefaultChatChangedAction,
};
use crate::wire::ahp::state::{SessionActiveClient, SessionState};
use crate::wire::{
    ActionEnvelope, AuthenticateParams, CreateChatParams, DispatchActionParams, DisposeChatParams,
    Message, ROOT, RequestId, SnapshotState, StateAction, SubscribeParams, SubscribeResult,
    UnsubscribeParams, code, is_name, method, params, weight,
};

/// The maximum length of a request id that is a string.
const LONGEST_ID: usize = 256;

/// The content of an answer.
pub(super) type Answered = Result<Box<RawValue>, (i64, String)>;

pub(super) fn refused(code: i64, why: impl Into<String>) -> Answered {
    Err((code, why.into()))
}

pub(super) fn answered(result: &impl Serialize) -> Answered {
    Ok(serde_json::value::to_raw_value(result).expect("what is answered is plain data"))
}

/// Parses parameters, or refuses them.
fn parse_params<T: DeserializeOwned>(given: Option<&RawValue>) -> Result<T, (i64, String)> {
    params(given).map_err(|error| (code::INVALID_PARAMS, error))
}

impl HostCore {
    /// Handles a received frame.
    pub fn on_frame(&mut self, conn: ConnId, frame: &[u8], now: Instant) {
        self.catch_up(now);
        if self.over(conn).is_some() {
            return;
        }
        if defect!(EveryFrameStamps) {
            self.record_activity(conn, now);
        }
        match Message::parse(frame) {
            Ok(Message::Request { id: RequestId::Text(id), .. }) if id.len() > LONGEST_ID => {
                self.malformed(conn, code::INVALID_REQUEST, "an id that is too long");
            }
            Ok(Message::Request { id, method, params }) => {
                self.request(conn, id, &method, params.as_deref(), now)
            }
            Ok(Message::Notification { method, params }) => {
                self.on_notification(conn, &method, params.as_deref(), now)
            }
            Ok(Message::Response { id, result }) => self.on_client_answer(conn, &id, Ok(result)),
            Ok(Message::Error { id, error }) => self.on_client_answer(conn, &id, Err(error)),
            Err(malformed) => self.malformed(conn, code::PARSE, &malformed.to_string()),
        }
    }

    fn malformed(&mut self, conn: ConnId, code: i64, why: &str) {
        milestone!("toolcall.host.malformed", conn = conn.0);
        self.send(conn, Message::error(RequestId::Number(-1), code, why));
    }

    /// Returns the client of a connection after its handshake.
    fn client_of(&self, conn: ConnId) -> Option<String> {
        match &self.transports.get(&conn)?.stage {
            Stage::Live(client) => Some(client.clone()),
            _ => None,
        }
    }

    fn request(
        &mut self,
        conn: ConnId,
        id: RequestId,
        method: &str,
        given: Option<&RawValue>,
        now: Instant,
    ) {
        let fresh = self.transports.get(&conn).is_some_and(|transport| match transport.stage {
            Stage::Fresh(_) => true,
            Stage::Arriving(_) => defect!(HandshakesBeginTwice),
            Stage::Live(_) => false,
        });
        let answer = match (method, self.client_of(conn)) {
            (method::PING, _) => answered(&()),
            (method::INITIALIZE, _) if fresh => match parse_params(given) {
                Ok(params) => return self.initialize(conn, id, params, now),
                Err(refusal) => Err(refusal),
            },
            (method::RECONNECT, _) if fresh => match parse_params(given) {
                Ok(params) => return self.reconnect(conn, id, params, now),
                Err(refusal) => Err(refusal),
            },
            (method::INITIALIZE | method::RECONNECT, _) => {
                refused(code::INVALID_REQUEST, "the connection is already initialized")
            }
            (_, None) => refused(code::UNKNOWN_METHOD, "not allowed before the handshake"),
            (method::SUBSCRIBE, Some(_)) => match parse_params(given) {
                Ok(params) => return self.subscribe(conn, id, &params, now),
                Err(refusal) => Err(refusal),
            },
            (method::CREATE_SESSION, Some(client)) => match parse_params(given) {
                Ok(params) => return self.create_session(conn, id, client, params, now),
                Err(refusal) => Err(refusal),
            },
            (method, Some(client)) => self.asked(conn, &client, method, given, now),
        };
        self.answer(conn, id, answer);
    }

    pub(super) fn answer(&mut self, conn: ConnId, id: RequestId, answer: Answered) {
        self.send(
            conn,
            match answer {
                Ok(result) => Message::Response { id, result },
                Err((code, why)) => Message::error(id, code, why),
            },
        );
    }

    fn asked(
        &mut self,
        conn: ConnId,
        client: &str,
        method: &str,
        given: Option<&RawValue>,
        now: Instant,
    ) -> Answered {
        match method {
            method::DISPOSE_SESSION => self.dispose_session(parse_params(given)?, now),
            method::CREATE_CHAT => self.create_chat(parse_params(given)?, now),
            method::DISPOSE_CHAT => self.dispose_chat(parse_params(given)?, now),
            method::AUTHENTICATE => self.authenticate(conn, client, parse_params(given)?),
            _ => refused(code::UNKNOWN_METHOD, "unknown method"),
        }
    }

    fn on_notification(
        &mut self,
        conn: ConnId,
        method: &str,
        given: Option<&RawValue>,
        now: Instant,
    ) {
        let Some(client) = self.client_of(conn) else {
            return self.end(conn, CloseReason::Broke("a notification before the handshake"));
        };
        match method {
            method::DISPATCH => match params::<DispatchActionParams>(given) {
                Ok(params) => self.dispatched(conn, &client, params, now),
                Err(_) => self.end(conn, CloseReason::Broke("an invalid action")),
            },
            method::UNSUBSCRIBE => match params::<UnsubscribeParams>(given) {
                Ok(params) => self.unsubscribe(conn, &client, &params.channel, now),
                Err(_) => self.end(conn, CloseReason::Broke("an invalid unsubscribe notification")),
            },
            _ => {} // a later version may say more
        }
    }

    fn subscribe(&mut self, conn: ConnId, id: RequestId, params: &SubscribeParams, now: Instant) {
        let channel = &params.channel;
        let most = self.limits.subscriptions;
        let Some(transport) = self.transports.get_mut(&conn) else { return };
        let is_known =
            transport.subscriptions.contains_key(channel) && !defect!(RepeatedSubscriptionsCount);
        let full = transport.subscriptions.len() >= most && !is_known;
        if full || !is_name(channel) {
            return self.send(
                conn,
                Message::error(
                    id,
                    code::INVALID_PARAMS,
                    "too many subscriptions, or an invalid name",
                ),
            );
        }
        let ids = match transport.subscriptions.get_mut(channel) {
            Some(Subscription::Pending(ids)) => ids,
            Some(Subscription::Active(_)) => {
                return self.answer_subscribe(conn, id, channel, true, now);
            }
            None => match transport
                .subscriptions
                .entry(channel.clone())
                .or_insert(Subscription::Pending(Vec::new()))
            {
                Subscription::Pending(ids) => ids,
                Subscription::Active(_) => unreachable!("it was pending a moment ago"),
            },
        };
        if ids.len() >= most {
            return self.send(
                conn,
                Message::error(
                    id,
                    code::INVALID_REQUEST,
                    "too many pending requests for this channel",
                ),
            );
        }
        ids.push(id);
        let ready = self.load(channel, now);
        self.update_waits(now);
        if ready {
            let Some(Subscription::Pending(ids)) = self
                .transports
                .get_mut(&conn)
                .and_then(|transport| transport.subscriptions.get_mut(channel))
            else {
                return;
            };
            for id in std::mem::take(ids) {
                self.answer_subscribe(conn, id, channel, true, now);
            }
        }
    }

    /// Answers a subscription with the current state, after which every action is sent, or with an
    /// error if there is no such channel.
    pub(super) fn answer_subscribe(
        &mut self,
        conn: ConnId,
        id: RequestId,
        channel: &str,
        there: bool,
        now: Instant,
    ) {
        let seq = self.seq;
        let client = self.client_of(conn).unwrap_or_default();
        let Some(transport) = self.transports.get_mut(&conn) else { return };
        if !there {
            transport.subscriptions.remove(channel);
            self.update_waits(now);
            return self
                .send(conn, Message::error(id, code::NOT_FOUND, "there is no such channel"));
        }
        // If a client subscribes twice, it receives every action since the first answer, whether or
        // not the second answer arrives.
        let is_new = !transport.is_active(channel);
        // The bug: the actions that are queued for the first subscription are not sent.
        if is_new || defect!(RepeatedSubscriptionsStartOver) {
            transport.subscriptions.insert(channel.to_owned(), Subscription::Active(seq));
        }
        if let Some(known) = self.clients.get_mut(&client).filter(|_| is_new) {
            known.baselines.insert(channel.to_owned(), seq);
            self.prune_baselines(&client);
        }
        milestone!("toolcall.host.subscribed", conn = conn.0, channel);
        let result = SubscribeResult { snapshot: self.snapshot(channel) };
        self.send(conn, Message::response(id, &result));
    }

    /// Unsubscribes a client from a channel. Everything in the channel that depends on the client
    /// is given up at once, unless another of its connections holds the channel.
    fn unsubscribe(&mut self, conn: ConnId, client: &str, channel: &str, now: Instant) {
        self.notify_removals(conn, channel);
        let Some(transport) = self.transports.get_mut(&conn) else { return };
        if let Some(Subscription::Pending(ids)) = transport.subscriptions.remove(channel) {
            if defect!(CancelledCleansNewer) {
                self.seeded.cancelled.insert((conn, channel.to_owned()));
            }
            for id in ids {
                self.send(conn, Message::error(id, code::NOT_FOUND, "unsubscribed"));
            }
        }
        if defect!(BaselineGoesWithOneSubscription)
            && let Some(known) = self.clients.get_mut(client)
        {
            known.baselines.remove(channel);
        }
        if !self.holds(client, channel) || defect!(UnsubscribeEndsOtherConnections) {
            if let Some(known) = self.clients.get_mut(client) {
                known.baselines.remove(channel);
            }
            let depends = self.causes.get(channel).is_some_and(|clients| clients.contains(client));
            if depends && !defect!(ReleaseWaits) {
                self.release(client, &[channel.to_owned()], ReleaseReason::Released, now);
            }
            if defect!(ChatReleasesSession) {
                self.release_session_of(channel, client, now);
            }
        }
        self.update_waits(now);
        self.evict_if_unused(channel);
    }

    fn create_chat(&mut self, params: CreateChatParams, now: Instant) -> Answered {
        let (name, session) = (params.chat, params.channel);
        if !is_name(&name) || name == ROOT {
            return refused(code::INVALID_PARAMS, "invalid chat name");
        }
        if params.initial_message.is_some() || params.source.is_some() {
            return refused(code::INVALID_PARAMS, "a new chat must be empty");
        }
        let Some(SnapshotState::Session(state)) = self.state(&session) else {
            return refused(code::SESSION_NOT_FOUND, "there is no such session");
        };
        if let Some(known) = self.channels.get(&name) {
            if known.state.is_some() || known.session.is_some() {
                return refused(code::EXISTS, "a channel with that name already exists");
            }
            // A client has asked for a channel of that name, and the archive has not answered yet.
            let why = "it is unknown whether a channel with that name exists";
            return refused(code::CONFLICT, why);
        }
        if state.chats.len() >= self.limits.chats {
            return refused(code::CONFLICT, "there are too many chats");
        }
        let first = state.chats.is_empty();
        let chat = chat::new(&name, &name, self.stamp());
        let summary = session::summary(&chat);
        let added = StateAction::SessionChatAdded(SessionChatAddedAction { summary });
        let default = SessionDefaultChatChangedAction { default_chat: Some(name.clone()) };
        let default = first.then_some(StateAction::SessionDefaultChatChanged(default));
        let room = weight(&added) + default.as_ref().map_or(0, weight);
        if !defect!(RefusedChatsStay) {
            self.fits(&session, &added, room).map_err(|why| (code::CONFLICT, why.to_owned()))?;
        }
        self.add_chat(chat, &session);
        for action in [added].into_iter().chain(default) {
            self.apply(&session, action, None, now)
                .map_err(|why| (code::CONFLICT, why.to_owned()))?;
        }
        self.save(&session);
        // No client holds the new chat yet.
        self.evict_if_unused(&name);
        answered(&())
    }

    fn dispose_chat(&mut self, params: DisposeChatParams, now: Instant) -> Answered {
        let chat = params.channel;
        let known = self
            .channels
            .get(&chat)
            .filter(|known| known.state.is_some() || !defect!(UnloadedNotDisposed));
        let Some(session) = known.and_then(|known| known.session.clone()) else {
            let code = if defect!(UnknownChatsAreInvalid) {
                code::INVALID_PARAMS
            } else {
                code::NOT_FOUND
            };
            return refused(code, "there is no such chat");
        };
        let lists =
            |session: &SessionState| session.chats.iter().any(|known| known.resource == chat);
        if !matches!(self.state(&session), Some(SnapshotState::Session(state)) if lists(state)) {
            return refused(code::SESSION_NOT_FOUND, "the session of the chat does not exist");
        }
        self.remove_chat(&chat, &session, now);
        if !defect!(DisposedStaysListed) {
            self.save(&session);
        }
        answered(&())
    }

    /// Returns the connections that match a predicate.
    pub(super) fn connections_matching(&self, is_one: impl Fn(&Transport) -> bool) -> Vec<ConnId> {
        self.transports
            .iter()
            .filter(|(_, transport)| is_one(transport))
            .map(|(conn, _)| *conn)
            .collect()
    }

    /// Removes a chat. Subscribers of its session learn it from the session's action. Subscribers
    /// of the chat alone receive the same action.
    pub(super) fn remove_chat(&mut self, chat: &str, session: &str, now: Instant) {
        let lookers = self.connections_matching(|transport| {
            transport.is_active(chat) && !transport.is_active(session)
        });
        self.remove_channel(chat, now);
        let removed =
            StateAction::SessionChatRemoved(SessionChatRemovedAction { chat: chat.to_owned() });
        if self.apply(session, removed.clone(), None, now).is_err() {
            return; // its session never knew it
        }
        let envelope = ActionEnvelope {
            channel: session.to_owned(),
            action: removed,
            server_seq: self.seq,
            origin: None,
            rejection_reason: None,
        };
        for conn in lookers {
            self.notify_removal(conn, chat, &envelope);
        }
    }

    fn notify_removal(&mut self, conn: ConnId, chat: &str, envelope: &ActionEnvelope) {
        milestone!("toolcall.host.removal-reported", conn = conn.0, chat);
        self.send(conn, Message::notification(method::ACTION, envelope));
    }

    /// Sends the removals of chats that a connection has not received yet, because it is about to
    /// lose its subscription to their session. The client may subscribe to such a chat. If it
    /// already subscribes to a newer chat with the same name, it knows that the older one was
    /// removed.
    pub(super) fn notify_removals(&mut self, conn: ConnId, session: &str) {
        let Some(transport) =
            self.transports.get(&conn).filter(|_| !defect!(ChatRemovalsUnreported))
        else {
            return;
        };
        // The bug: the removals that the log has dropped are left out.
        let left_out = if defect!(DroppedRemovalsUnreported) { transport.kept.len() } else { 0 };
        let untold = transport
            .after_cursor(&self.log)
            .skip(left_out)
            .filter(|envelope| envelope.channel == session && transport.must_receive(envelope));
        let removals = untold.filter_map(|envelope| match &envelope.action {
            StateAction::SessionChatRemoved(removed) => {
                Some((removed.chat.clone(), envelope.clone()))
            }
            _ => None,
        });
        let removals = removals
            .filter(|(chat, envelope)| !transport.is_active_since(chat, envelope.server_seq));
        for (chat, envelope) in removals.collect::<Vec<_>>() {
            self.notify_removal(conn, &chat, &envelope);
        }
    }

    /// Stores whether a token is valid. A token that arrives late over an older connection does not
    /// replace a newer one.
    fn authenticate(&mut self, conn: ConnId, client: &str, params: AuthenticateParams) -> Answered {
        let Some(good) = self.identity.tokens.get(&params.resource) else {
            return refused(
                code::INVALID_PARAMS,
                "the host did not ask for a token for that resource",
            );
        };
        let is_good = *good == params.token;
        let known = self
            .clients
            .get_mut(client)
            .ok_or((code::INTERNAL, "the client is gone".to_owned()))?;
        if known.token_from.is_some_and(|newest| newest > conn) && !defect!(OlderTokenCounts) {
            return refused(code::INVALID_REQUEST, "a newer connection has sent a token");
        }
        known.token_from = Some(conn);
        if !is_good && !defect!(BadTokenKeepsTheOld) {
            known.authenticated.remove(&params.resource);
        }
        if is_good {
            known.authenticated.insert(params.resource);
        } else if !params.token.is_empty() {
            return refused(code::AUTH_REQUIRED, "the token is invalid");
        }
        answered(&serde_json::json!({}))
    }

    /// Whether an active client's entry is small enough to store.
    pub(super) fn is_small(&self, active: &SessionActiveClient) -> bool {
        active.tools.len() <= self.limits.tools
            && active.tools.iter().all(|tool| is_name(&tool.name))
    }
}
