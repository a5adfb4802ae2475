//! The owners of calls, and how a call ends when its owner disconnects.
//!
//! A call is assigned to a client that can run it: the client is active in the session, offers the
//! tool, is connected, and subscribes to the chat. The client that started the turn has priority.
//! If there is no such client, the call goes to one that is disconnected and may reconnect. Without
//! such a client, the call fails at once. Only the current state counts, not earlier states.
//!
//! A call is failed by the action that completes it, so it fails only once: after that it is over,
//! and a later result of its owner is refused. A call that was still streaming first becomes ready,
//! but never running, so that no client starts a call that is about to fail.

use reknit_seams::{defect, milestone};
use tokio::time::Instant;

use super::HostCore;
use super::clients::ReleaseReason;
use crate::state::{call, chat, session};
use crate::wire::ahp::StringOrMarkdown;
use crate::wire::ahp::actions::{
    ChatToolCallCompleteAction, ChatToolCallReadyAction, ChatToolCallStartAction,
    SessionActiveClientRemovedAction,
};
use crate::wire::ahp::state::{
    ChatState, ToolCallClientContributor, ToolCallConfirmationReason, ToolCallContributor,
    ToolCallResult, ToolCallState,
};
use crate::wire::{SnapshotState, StateAction};

/// Identifies a call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallId {
    /// The chat.
    pub chat: String,
    /// The turn in the chat.
    pub turn: String,
    /// The call in the turn.
    pub id: String,
}

/// The party that runs a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Any client that can run it.
    Any,
    /// This client, connected or not. If the host does not know the client, it does not know either
    /// how long the client has been disconnected.
    Client(String),
    /// The host itself.
    Host,
}

impl HostCore {
    /// Starts a call; its parameters stream from now on. Returns its id. If no client can run it,
    /// the call has already failed.
    ///
    /// # Errors
    /// The reason: there is no such turn, or the chat is full.
    pub fn start_call(
        &mut self,
        chat: &str,
        turn: &str,
        tool: &str,
        owner: Owner,
        now: Instant,
    ) -> Result<CallId, &'static str> {
        self.catch_up(now);
        let chosen = match &owner {
            Owner::Any => self.choose_client(chat, tool),
            Owner::Client(client) => Some(client.clone()),
            Owner::Host => None,
        };
        if let Some(client) = &chosen {
            if defect!(RearmFromNow) {
                self.rearm(client, now);
            }
            if defect!(UnknownOwnerIsGone) {
                self.presume_gone(client, now);
            }
        }
        let id = CallId { chat: chat.to_owned(), turn: turn.to_owned(), id: self.name("call") };
        let contributor = chosen
            .clone()
            .map(|client_id| ToolCallContributor::Client(ToolCallClientContributor { client_id }));
        let started = ChatToolCallStartAction {
            turn_id: turn.to_owned(),
            tool_call_id: id.id.clone(),
            meta: None,
            tool_name: tool.to_owned(),
            display_name: tool.to_owned(),
            intention: None,
            contributor,
        };
        self.apply(chat, StateAction::ChatToolCallStart(started), None, now)?;
        milestone!(
            "toolcall.host.call",
            chat,
            call = id.id.as_str(),
            owner = chosen.as_deref().unwrap_or("")
        );
        if chosen.is_none() && owner == Owner::Any && !defect!(OwnerlessCallWaits) {
            self.fail(&id, "no client offers this tool", now);
        }
        Ok(id)
    }

    /// Returns the state of a call; `None` if it does not exist, or no longer exists.
    pub fn call(&self, id: &CallId) -> Option<&ToolCallState> {
        match self.state(&id.chat) {
            Some(SnapshotState::Chat(state)) => chat::find_call(state, &id.turn, &id.id),
            _ => None,
        }
        .or_else(|| self.left.get(id))
    }

    /// Keeps the outcomes of the calls of a chat that is removed during a turn. Its clients may have
    /// seen the end of a call before the agent asked for it.
    pub(super) fn keep_call_outcomes(&mut self, chat: &str, turn: &str, state: &ChatState) {
        let id = |state| CallId {
            chat: chat.to_owned(),
            turn: turn.to_owned(),
            id: call::id(state).to_owned(),
        };
        let over = chat::calls(state).filter(|state| call::is_over(state));
        self.left.extend(over.map(|state| (id(state), state.clone())));
    }

    /// Chooses a client that can run a tool among the active clients of the chat's session.
    fn choose_client(&self, chat: &str, tool: &str) -> Option<String> {
        let session = self.channels.get(chat)?.session.as_ref()?;
        let Some(SnapshotState::Session(state)) = self.state(session) else { return None };
        let starter = self.turns.get(chat).and_then(|turn| turn.client.as_deref());
        if defect!(OwnerOfTurnBlindly) {
            return starter.map(str::to_owned);
        }
        let offering = state
            .active_clients
            .iter()
            .filter(|active| active.tools.iter().any(|offered| offered.name == tool));
        let offering = offering.map(|active| active.client_id.as_str()).collect::<Vec<_>>();
        if defect!(FirstThatOffered) {
            return offering.first().map(|client| (*client).to_owned());
        }
        let ready = |client: &&&str| self.is_ready(client, chat);
        let best = offering.iter().find(|client| {
            starter == Some(**client) && self.is_ready(client, chat) && !defect!(StarterIsOneOfAll)
        });
        let away = |client: &&&str| {
            let known = self.clients.get(**client);
            known.is_some_and(|known| !known.is_connected() || defect!(UnwatchedCallsWait))
        };
        let chosen =
            best.or_else(|| offering.iter().find(ready)).or_else(|| offering.iter().find(away));
        chosen.map(|client| (*client).to_owned())
    }

    /// Whether a client is connected and subscribes to a chat.
    fn is_ready(&self, client: &str, chat: &str) -> bool {
        self.clients.get(client).is_some_and(|known| known.is_connected())
            && self.holds(client, chat)
    }

    /// Whether another client could run the same tool now.
    fn replacement(&self, gone: &str, chat: &str, tool: &str) -> bool {
        let session = self.channels.get(chat).and_then(|known| known.session.as_deref());
        let Some(SnapshotState::Session(state)) = session.and_then(|session| self.state(session))
        else {
            return false;
        };
        let others = state.active_clients.iter().filter(|active| active.client_id != gone);
        let mut offering =
            others.filter(|active| active.tools.iter().any(|offered| offered.name == tool));
        offering.any(|active| self.is_ready(&active.client_id, chat) || defect!(HintsAtTheAbsent))
    }

    /// Fails the unfinished calls of a client in a chat.
    pub(super) fn fail_calls(
        &mut self,
        client: &str,
        chat: &str,
        gone: ReleaseReason,
        now: Instant,
    ) {
        let Some(SnapshotState::Chat(state)) = self.state(chat) else { return };
        let Some(turn) = state.active_turn.as_ref().map(|turn| turn.id.clone()) else { return };
        let owned = chat::calls(state)
            .filter(|state| call::owner(state) == Some(client) && call::is_pending(state));
        let owned = owned
            .map(|state| (call::id(state).to_owned(), tool_of(state).to_owned()))
            .collect::<Vec<_>>();
        for (id, tool) in owned {
            let told = match gone {
                ReleaseReason::Away if defect!(GoneOwnersAreSaidToLeave) => ReleaseReason::Released,
                gone => gone,
            };
            let why = match (told, self.replacement(client, chat, &tool)) {
                (ReleaseReason::Away, false) => "the client that ran this tool is disconnected",
                (ReleaseReason::Away, true) => {
                    "the client that ran this tool is disconnected; another client offers it: try again"
                }
                (ReleaseReason::Released, false) => {
                    "the client that ran this tool no longer takes part"
                }
                (ReleaseReason::Released, true) => {
                    "the client that ran this tool no longer takes part; another client offers it: try again"
                }
            };
            let id = CallId { chat: chat.to_owned(), turn: turn.clone(), id };
            let away = gone == ReleaseReason::Away;
            milestone!(
                "toolcall.host.call-failed",
                chat,
                call = id.id.as_str(),
                owner = client,
                away
            );
            self.fail(&id, why, now);
        }
    }

    /// Fails a call. Does nothing if the call is over.
    pub(super) fn fail(&mut self, id: &CallId, why: &str, now: Instant) {
        let message = StringOrMarkdown::from(why);
        if let Some(ToolCallState::Streaming(_)) = self.call(id) {
            let confirmed =
                defect!(FailedCallRuns).then_some(ToolCallConfirmationReason::NotNeeded);
            let ready = ChatToolCallReadyAction {
                turn_id: id.turn.clone(),
                tool_call_id: id.id.clone(),
                meta: None,
                contributor: None,
                intention: None,
                invocation_message: message.clone(),
                tool_input: None,
                confirmation_title: None,
                risk_assessment: None,
                edits: None,
                editable: None,
                confirmed,
                options: None,
            };
            if let Err(why) = self.apply(&id.chat, StateAction::ChatToolCallReady(ready), None, now)
            {
                tracing::debug!(why, call = id.id.as_str(), "not ready");
            }
        }
        let result = ToolCallResult {
            success: false,
            past_tense_message: message,
            content: None,
            structured_content: None,
            error: Some(serde_json::json!({ "message": why })),
        };
        let complete = ChatToolCallCompleteAction {
            turn_id: id.turn.clone(),
            tool_call_id: id.id.clone(),
            meta: None,
            result,
            requires_result_confirmation: None,
        };
        if let Err(why) =
            self.apply(&id.chat, StateAction::ChatToolCallComplete(complete), None, now)
        {
            tracing::debug!(why, call = id.id.as_str(), "not failed");
        }
    }

    /// Removes a client from the active clients of a session.
    pub(super) fn deactivate(&mut self, client: &str, session: &str, now: Instant) {
        let Some(SnapshotState::Session(state)) = self.state(session) else { return };
        if session::active(state, client).is_none() {
            return;
        }
        milestone!("toolcall.host.deactivated", session, client);
        let removed = SessionActiveClientRemovedAction { client_id: client.to_owned() };
        self.apply(session, StateAction::SessionActiveClientRemoved(removed), None, now)
            .expect("the client was active");
    }

    /// Ends a turn after its agent has finished. Computes the duration of the turn.
    pub fn end_turn(&mut self, chat: &str, turn: &str, completed: bool, now: Instant) {
        use crate::wire::ahp::actions::{ChatTurnCancelledAction, ChatTurnCompleteAction};
        self.catch_up(now);
        let duration = i64::try_from(self.duration(chat, now).as_millis()).unwrap_or(i64::MAX);
        let turn_id = turn.to_owned();
        let over = if completed {
            StateAction::ChatTurnComplete(ChatTurnCompleteAction { turn_id, duration, meta: None })
        } else {
            StateAction::ChatTurnCancelled(ChatTurnCancelledAction {
                turn_id,
                duration,
                meta: None,
            })
        };
        if self.apply(chat, over, None, now).is_ok() {
            milestone!("toolcall.host.turn-over", chat, turn);
            self.evict_if_unused(chat);
        }
    }
}

fn tool_of(state: &ToolCallState) -> &str {
    match state {
        ToolCallState::Streaming(s) => &s.tool_name,
        ToolCallState::PendingConfirmation(s) => &s.tool_name,
        ToolCallState::Running(s) => &s.tool_name,
        _ => "",
    }
}
