//! Actions that clients dispatch: permission, effect, and the answer to a repetition.
//!
//! Each client numbers its actions. An action that took effect is sent to every subscriber, its
//! sender included. An action that did not is reported to its sender only, with the reason, so that
//! the sender undoes it locally. Either outcome occurs once: a client that received no answer
//! retransmits the action and receives the first outcome again. The same number with a different
//! action is not a repetition, because some clients count from one again on each connection. Each
//! `initialize` begins a new numbering, for its connection and for those that return with its epoch.
//! So an action of a reloaded window is no repetition of one before the reload, and one that arrives
//! late does not hide that of the reloaded window. On its other connections, the client may continue
//! an old numbering.

use std::hash::{DefaultHasher, Hash, Hasher};

use reknit_seams::net::ConnId;
use reknit_seams::{defect, milestone};
use tokio::time::Instant;

use super::calls::CallId;
use super::client::{AnsweredAction, Done};
use super::clients::ReleaseReason;
use super::outside::HostEffect;
use super::transport::UNKNOWN;
use super::{FULL, HostCore, Turn};
use crate::state::{call, chat, session};
use crate::wire::ahp::actions::ChatTurnStartedAction;
use crate::wire::ahp::state::MessageKind;
use crate::wire::{
    ActionEnvelope, ActionOrigin, DispatchActionParams, Message, SnapshotState, StateAction,
    is_name, method,
};

/// The reason why an action is refused that only the host may dispatch.
const NOT_FOR_CLIENTS: &str = "only the host may do that";

/// A hash that distinguishes actions with the same number.
fn digest(params: &DispatchActionParams) -> u64 {
    let mut hasher = DefaultHasher::new();
    serde_json::to_string(params).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}

impl HostCore {
    /// Handles an action that a client dispatched.
    pub(super) fn dispatched(
        &mut self,
        conn: ConnId,
        client: &str,
        params: DispatchActionParams,
        now: Instant,
    ) {
        let origin = ActionOrigin { client_id: client.to_owned(), client_seq: params.client_seq };
        let digest = digest(&params);
        let numbering = self.numbering(conn, client);
        let known = self.clients.get(client);
        let repeated =
            known.and_then(|known| known.answered(numbering, params.client_seq, digest)).cloned();
        // The bug: the host judges a repeated reply as a new one.
        let is_anew = matches!(params.action, StateAction::ChatToolCallConfirmed(_))
            && defect!(RepeatedRepliesAreRefused);
        if let Some(AnsweredAction { done, .. }) =
            repeated.filter(|_| !is_anew && !defect!(RepetitionTakesEffect))
        {
            milestone!("toolcall.host.repeated", client, seq = params.client_seq);
            return self.notify_again(conn, params, origin, done);
        }
        let (seq, copy) = (params.client_seq, params.clone());
        let done = match self.perform(conn, client, params, origin.clone(), now) {
            Ok(number) => Done::Applied(number),
            Err(why) => {
                milestone!(
                    "toolcall.host.rejected",
                    client,
                    channel = copy.channel.as_str(),
                    seq,
                    why = why.as_str()
                );
                if !defect!(LateCompletionEchoed)
                    || !matches!(copy.action, StateAction::ChatToolCallComplete(_))
                {
                    self.notify_rejected(conn, copy, origin, &why);
                } else {
                    self.notify(conn, copy, origin, self.seq, None);
                }
                Done::Rejected(why)
            }
        };
        let is_kept = matches!(done, Done::Applied(_)) || !defect!(RefusalsAreForgotten);
        if let Some(client) = self.clients.get_mut(client).filter(|_| is_kept) {
            let number = (numbering, seq);
            if !defect!(OlderOutcomeIsKept) {
                client.outcomes.forget(&number);
            }
            client.outcomes.keep(number, AnsweredAction { digest, done });
        }
    }

    /// Returns the numbering of a client's actions on a connection.
    fn numbering(&self, conn: ConnId, client: &str) -> u64 {
        if defect!(CountsAnewOnAllConnections) {
            return self.newest_numbering(client);
        }
        if defect!(RepetitionAcrossAReload) || defect!(OlderOutcomeIsKept) {
            return UNKNOWN;
        }
        self.begun(conn)
    }

    /// Returns the numbering that a connection began or continues.
    fn begun(&self, conn: ConnId) -> u64 {
        self.transports.get(&conn).map_or(UNKNOWN, |transport| transport.numbering)
    }

    /// Reports the outcome of an earlier dispatch to the client, unless the action itself is still
    /// queued for the connection.
    fn notify_again(
        &mut self,
        conn: ConnId,
        params: DispatchActionParams,
        origin: ActionOrigin,
        done: Done,
    ) {
        match done {
            Done::Rejected(why) => self.notify_rejected(conn, params, origin, &why),
            Done::Applied(number) => {
                let from = if defect!(NewestOutcomeIsAwaited) { number + 1 } else { number };
                let is_past =
                    self.transports.get(&conn).is_none_or(|transport| transport.cursor >= from);
                if is_past {
                    self.notify(conn, params, origin, number, None);
                }
            }
        }
    }

    fn notify_rejected(
        &mut self,
        conn: ConnId,
        params: DispatchActionParams,
        origin: ActionOrigin,
        why: &str,
    ) {
        self.notify(conn, params, origin, self.seq, Some(why.to_owned()));
    }

    /// Sends an action of a client to one of its connections.
    fn notify(
        &mut self,
        conn: ConnId,
        params: DispatchActionParams,
        origin: ActionOrigin,
        seq: u64,
        why: Option<String>,
    ) {
        let envelope = ActionEnvelope {
            channel: params.channel,
            action: params.action,
            server_seq: seq,
            origin: Some(origin),
            rejection_reason: why,
        };
        self.send(conn, Message::notification(method::ACTION, &envelope));
    }

    fn perform(
        &mut self,
        conn: ConnId,
        client: &str,
        params: DispatchActionParams,
        origin: ActionOrigin,
        now: Instant,
    ) -> Result<u64, String> {
        let DispatchActionParams { channel, action, .. } = params;
        self.check_permission(conn, client, &channel, &action)?;
        let started = match &action {
            StateAction::ChatTurnStarted(started) => Some(started.clone()),
            _ => None,
        };
        let renames = matches!(action, StateAction::SessionTitleChanged(_));
        let leaves = matches!(action, StateAction::SessionActiveClientRemoved(_));
        let is_of_place = leaves || matches!(action, StateAction::SessionActiveClientSet(_));
        let ends = matches!(action, StateAction::ChatTurnCancelled(_));
        let result_of = match &action {
            StateAction::ChatToolCallComplete(complete) => {
                Some((complete.turn_id.clone(), complete.tool_call_id.clone()))
            }
            StateAction::ChatToolCallContentChanged(changed) if defect!(LongContentEndsTheCall) => {
                Some((changed.turn_id.clone(), changed.tool_call_id.clone()))
            }
            _ => None,
        };
        let number = match self.apply(&channel, action, Some(origin), now) {
            Err(FULL) => {
                // The result is too large to store, so the call fails instead of waiting for
                // another result.
                if let Some((turn, id)) = result_of.filter(|_| !defect!(LargeResultIsAwaited)) {
                    self.fail(&CallId { chat: channel, turn, id }, "the result is too long", now);
                }
                return Err(FULL.to_owned());
            }
            applied => applied?,
        };
        if is_of_place {
            self.note_place(conn, client);
        }
        if renames && !defect!(TitleIsNotSaved) {
            self.save(&channel);
        }
        if ends && !defect!(CancelledChatsStayLoaded) {
            // The client may no longer hold the chat.
            self.evict_if_unused(&channel);
        }
        if leaves {
            // The bug: the session has one chat.
            let most = if defect!(LeavesOneChat) { 1 } else { usize::MAX };
            for chat in self.chats_of(&channel).into_iter().take(most) {
                self.fail_calls(client, &chat, ReleaseReason::Released, now);
            }
            // The bug: the client goes on watching the session, and is not subscribed to it.
            if defect!(LeavingUnsubscribes)
                && let Some(transport) = self.transports.get_mut(&conn)
            {
                transport.forget(&channel);
            }
        }
        if let Some(started) = started {
            self.on_turn_started(&channel, client, started, now);
        }
        Ok(number)
    }

    fn on_turn_started(
        &mut self,
        chat: &str,
        client: &str,
        started: ChatTurnStartedAction,
        now: Instant,
    ) {
        milestone!("toolcall.host.turn-started", chat, turn = started.turn_id.as_str());
        let client = Some(client.to_owned());
        self.turns.insert(
            chat.to_owned(),
            Turn { id: started.turn_id.clone(), began: now, client: client.clone() },
        );
        let (chat, turn) = (chat.to_owned(), started.turn_id);
        self.push_effect(HostEffect::Begin { chat, turn, text: started.message.text, client });
    }

    /// Whether a client may dispatch this action.
    fn check_permission(
        &self,
        conn: ConnId,
        client: &str,
        channel: &str,
        action: &StateAction,
    ) -> Result<(), &'static str> {
        if defect!(ForgedActionTaken) {
            return Ok(());
        }
        match action {
            StateAction::ChatTurnStarted(started) => self.may_start(client, started),
            StateAction::ChatTurnCancelled(_) | StateAction::SessionTitleChanged(_) => Ok(()),
            StateAction::ChatToolCallConfirmed(_)
                if defect!(ReplyOnlyOverNewest) && !self.is_newest(conn, client) =>
            {
                Err("the reply came over an older connection")
            }
            StateAction::ChatToolCallConfirmed(_) | StateAction::ChatToolCallResultConfirmed(_) => {
                Ok(())
            }
            StateAction::ChatToolCallComplete(_) | StateAction::ChatToolCallContentChanged(_) => {
                self.check_owner(client, channel, action)
            }
            StateAction::SessionActiveClientSet(set) if set.active_client.client_id != client => {
                Err("a client can activate only itself")
            }
            StateAction::SessionActiveClientSet(set) if !self.is_small(&set.active_client) => {
                Err("too many tools")
            }
            StateAction::SessionActiveClientRemoved(removed) if removed.client_id != client => {
                Err(NOT_FOR_CLIENTS)
            }
            StateAction::SessionActiveClientSet(_) | StateAction::SessionActiveClientRemoved(_)
                if self.has_newer_place(conn, client) =>
            {
                Err("the client has begun anew since")
            }
            StateAction::SessionActiveClientSet(_) => self.may_be_active(conn, client, channel),
            StateAction::SessionActiveClientRemoved(_) => Ok(()),
            StateAction::Unknown(_) => Err("not supported here"),
            _ => Err(NOT_FOR_CLIENTS),
        }
    }

    fn may_start(&self, client: &str, started: &ChatTurnStartedAction) -> Result<(), &'static str> {
        if started.message.origin.kind != MessageKind::User {
            return Err("a client may send messages only for its user");
        }
        if !is_name(&started.turn_id) || humantime::parse_rfc3339(&started.started_at).is_err() {
            return Err("invalid turn id or start time");
        }
        let given = self.clients.get(client).map(|client| &client.authenticated);
        let all = self
            .identity
            .tokens
            .keys()
            .all(|resource| given.is_some_and(|given| given.contains(resource)));
        if all { Ok(()) } else { Err("a token is required") }
    }

    /// Only the owner of a call may report its result.
    fn check_owner(
        &self,
        client: &str,
        channel: &str,
        action: &StateAction,
    ) -> Result<(), &'static str> {
        let Some(SnapshotState::Chat(state)) = self.state(channel) else {
            return Err("no such chat");
        };
        let addressed =
            call::addressed(action).and_then(|(turn, id)| chat::find_call(state, turn, id));
        match addressed.and_then(call::owner) {
            Some(owner) if owner == client => Ok(()),
            Some(_) => Err("the call belongs to another client"),
            None => Err("the call does not belong to a client"),
        }
    }

    /// Returns whether a client took or gave up a place among the active clients after a later
    /// `initialize` than that of this connection. What arrives here is late then: a window may have sent it
    /// before its reload.
    fn has_newer_place(&self, conn: ConnId, client: &str) -> bool {
        let begun = self.begun(conn);
        let newest = self.clients.get(client).map_or(UNKNOWN, |known| known.place_from);
        begun != UNKNOWN && begun < newest && !defect!(OlderPlaceCounts)
    }

    /// Records that a client took or gave up a place among the active clients.
    pub(super) fn note_place(&mut self, conn: ConnId, client: &str) {
        let begun = self.begun(conn);
        if let Some(known) = self.clients.get_mut(client) {
            known.place_from = known.place_from.max(begun);
        }
    }

    /// An active client must subscribe to the session: if it unsubscribes, the host ends its
    /// activity there.
    fn may_be_active(&self, conn: ConnId, client: &str, channel: &str) -> Result<(), &'static str> {
        let Some(SnapshotState::Session(state)) = self.state(channel) else {
            return Err("no such session");
        };
        if !self.transports.get(&conn).is_some_and(|transport| transport.holds(channel)) {
            return Err("a client must subscribe to a session before it can be active there");
        }
        let full = state.active_clients.len() >= self.limits.active_clients
            && (session::active(state, client).is_none() || defect!(ActiveClientsCountTwice));
        if full { Err("there are too many active clients") } else { Ok(()) }
    }
}
