//! Operations that a window's user performs without the observer: reads of states, other sessions,
//! and reports about the calls that the window runs.

use super::{Did, WindowUser};
use crate::history::{Answer, Call};
use crate::subjects::toolcall::answers::{NO_SUCH_CALL, Reading};
use reknit_toolcall::client::{Client, State, done};
use reknit_toolcall::state::{call, chat};
use reknit_toolcall::wire::ahp::actions::{
    ChatToolCallCompleteAction, ChatToolCallContentChangedAction,
};
use reknit_toolcall::wire::ahp::state::{ToolCallState, ToolResultContent, ToolResultTextContent};
use reknit_toolcall::wire::{DisposeSessionParams, SnapshotState, StateAction, method};

/// A call of a window, and its turn.
struct OwnCall {
    turn: String,
    call: String,
}

/// The first call of the chat's active turn that the client owns and that is in this state.
fn own_call(client: &Client, chat: &str, is_it: fn(&ToolCallState) -> bool) -> Option<OwnCall> {
    let Some(SnapshotState::Chat(state)) = client.confirmed(chat) else { return None };
    let turn = state.active_turn.as_ref()?.id.clone();
    let mut own =
        chat::calls(&state).filter(|state| call::owner(state) == Some(client.id().as_str()));
    let call = call::id(own.find(|state| is_it(state))?).to_owned();
    Some(OwnCall { turn, call })
}

fn runs(state: &ToolCallState) -> bool {
    matches!(state, ToolCallState::Running(_))
}

fn asks(state: &ToolCallState) -> bool {
    matches!(state, ToolCallState::PendingResultConfirmation(_))
}

impl WindowUser {
    pub(super) fn read_state(&self, call: Call, channel: &str, unconfirmed: bool) {
        let client = &self.window.client;
        let state = match unconfirmed {
            true => client.view(channel),
            false => client.confirmed(channel),
        };
        match state {
            Some(state) => {
                let answer = Answer::Done(Did::Reads(Reading::of(&state)).into());
                self.host.record.answered(call, answer);
            }
            None => self.host.record.refused(call, "the window does not have its state"),
        }
    }

    pub(super) fn read_connection(&self, call: Call) {
        let client = &self.window.client;
        let state = match client.state() {
            State::Connecting => "connecting".to_owned(),
            State::Connected => "connected".to_owned(),
            State::Reconnecting => "reconnecting".to_owned(),
            State::Closed(why) => format!("closed: {why}"),
        };
        self.host.record.answered(call, format!("{state}, attempt {}", client.generation()));
    }

    pub(super) fn create_session(&mut self, call: Call, name: String) {
        let client = self.window.client.clone();
        self.wait(call, async move {
            client.create_session(&name).await.map(|()| format!("created {name}").into())
        });
    }

    pub(super) fn end_session(&mut self, call: Call, name: String) {
        let client = self.window.client.clone();
        let params = DisposeSessionParams { channel: name, meta: None };
        self.wait(call, async move {
            client.request(method::DISPOSE_SESSION, &params).await.map(|_| "disposed of".into())
        });
    }

    pub(super) fn report_content(&mut self, call: Call, chat: String) {
        let client = self.window.client.clone();
        let Some(own) = own_call(&client, &chat, runs) else { return self.has_no_call(call) };
        let text = ToolResultTextContent { text: format!("report {}", call.0) };
        let changed = StateAction::ChatToolCallContentChanged(ChatToolCallContentChangedAction {
            turn_id: own.turn,
            tool_call_id: own.call,
            meta: None,
            content: vec![ToolResultContent::Text(text)],
        });
        self.wait(call, async move {
            client.dispatch(&chat, changed).await.map(|()| "reported".into())
        });
    }

    pub(super) fn report_result(&mut self, call: Call, chat: String) {
        let client = self.window.client.clone();
        let Some(own) = own_call(&client, &chat, runs) else { return self.has_no_call(call) };
        let complete = StateAction::ChatToolCallComplete(ChatToolCallCompleteAction {
            turn_id: own.turn,
            tool_call_id: own.call,
            meta: None,
            result: done("done"),
            requires_result_confirmation: Some(true),
        });
        self.wait(call, async move {
            client.dispatch(&chat, complete).await.map(|()| "reported".into())
        });
    }

    pub(super) fn judge_result(&mut self, call: Call, chat: String, approves: bool) {
        let client = self.window.client.clone();
        let Some(own) = own_call(&client, &chat, asks) else { return self.has_no_call(call) };
        self.wait(call, async move {
            let judged = client.confirm_result(&chat, &own.turn, &own.call, approves).await;
            judged.map(|()| "judged".into())
        });
    }

    fn has_no_call(&self, call: Call) {
        self.host.record.refused(call, NO_SUCH_CALL);
    }
}
