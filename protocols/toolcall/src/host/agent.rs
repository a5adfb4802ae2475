//! Who works in the turns of a host: a trait that says what is done with a turn, and the handle by which it is done.

use std::sync::Arc;

use reknit_seams::defect;
use reknit_seams::net::BoxFuture;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use super::core::{Answer, HostCore, Unanswered};
use super::shared::HostShared;
use super::{CallId, Owner};
use crate::state::call;
use crate::wire::StateAction;
use crate::wire::ahp::StringOrMarkdown;
use crate::wire::ahp::actions::{
    ChatDeltaAction, ChatResponsePartAction, ChatToolCallDeltaAction, ChatToolCallReadyAction,
};
use crate::wire::ahp::state::{
    MarkdownResponsePart, ResponsePart, ToolCallConfirmationReason, ToolCallResult, ToolCallState,
    ToolInput,
};

/// Works in turns.
pub trait Agent: Send + Sync {
    /// Works at a turn. The host calls this in its own task when the turn begins, so it must not block or panic. The turn is
    /// done when the future is. When a client cancels the turn, the host drops the future, perhaps before its first poll.
    fn turn(&self, turn: Turn) -> BoxFuture<'static, ()>;
}

/// A turn that is under way, as its agent sees it.
#[derive(Clone)]
pub struct Turn {
    /// The chat.
    pub chat: String,
    /// What the turn is known by.
    pub id: String,
    /// What the user said.
    pub text: String,
    /// The client that said it.
    pub client: Option<String>,
    pub(super) shared: Arc<HostShared>,
}

/// The turn is over, or there is no room in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub &'static str);

/// How a tool call ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// It has a result, be it that it failed.
    Completed(Box<ToolCallResult>),
    /// The user denied it, or its turn is over.
    Cancelled,
}

/// What became of the question whether a call may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// It may.
    Granted,
    /// It may not, or it is over already: there is nothing to wait for.
    Over,
}

impl Turn {
    fn core<T>(&self, change: impl FnOnce(&mut HostCore, Instant) -> T) -> T {
        change(&mut self.shared.core(), Instant::now())
    }

    fn act(&self, action: StateAction) -> Result<(), Refused> {
        self.core(|core, now| core.act(&self.chat, action, now)).map_err(Refused)
    }

    /// Says something to the user; returns what it can be continued by.
    ///
    /// # Errors
    /// [`Refused`]
    pub fn send(&self, text: &str) -> Result<String, Refused> {
        let id = self.core(|core, _| core.part_name());
        let part = ResponsePart::Markdown(MarkdownResponsePart {
            id: id.clone(),
            content: text.to_owned(),
        });
        self.act(StateAction::ChatResponsePart(ChatResponsePartAction {
            turn_id: self.id.clone(),
            part,
            meta: None,
        }))?;
        Ok(id)
    }

    /// Says more of the same.
    ///
    /// # Errors
    /// [`Refused`]
    pub fn continue_saying(&self, part: &str, text: &str) -> Result<(), Refused> {
        let delta = ChatDeltaAction {
            turn_id: self.id.clone(),
            part_id: part.to_owned(),
            content: text.to_owned(),
            meta: None,
        };
        self.act(StateAction::ChatDelta(delta))
    }

    /// Begins to call a tool: its parameters stream from now on. Where nobody can run it, it has failed already.
    ///
    /// # Errors
    /// [`Refused`]
    pub fn start_call(&self, tool: &str, owner: Owner) -> Result<CallId, Refused> {
        self.core(|core, now| core.start_call(&self.chat, &self.id, tool, owner, now))
            .map_err(Refused)
    }

    /// Some more of a call's parameters.
    ///
    /// # Errors
    /// [`Refused`]
    pub fn stream(&self, id: &CallId, content: &str) -> Result<(), Refused> {
        let delta = ChatToolCallDeltaAction {
            turn_id: id.turn.clone(),
            tool_call_id: id.id.clone(),
            meta: None,
            content: Some(content.to_owned()),
            invocation_message: None,
        };
        self.act(StateAction::ChatToolCallDelta(delta))
    }

    /// The parameters are complete. The call runs, unless it has to be confirmed.
    ///
    /// # Errors
    /// [`Refused`]
    pub fn ready(&self, id: &CallId, input: &Value, confirm: bool) -> Result<(), Refused> {
        let ready = ChatToolCallReadyAction {
            turn_id: id.turn.clone(),
            tool_call_id: id.id.clone(),
            meta: None,
            contributor: None,
            intention: None,
            invocation_message: StringOrMarkdown::default(),
            tool_input: Some(ToolInput::Inline(input.to_string())),
            confirmation_title: None,
            risk_assessment: None,
            edits: None,
            editable: None,
            confirmed: (!confirm).then_some(ToolCallConfirmationReason::NotNeeded),
            options: None,
        };
        self.act(StateAction::ChatToolCallReady(ready))
    }

    /// Calls a tool that some client runs, and waits for what comes of it.
    ///
    /// # Errors
    /// [`Refused`]
    pub async fn call(&self, tool: &str, input: &Value, confirm: bool) -> Result<Ended, Refused> {
        let id = self.start_call(tool, Owner::Any)?;
        if let Err(refused) = self.ready(&id, input, confirm)
            && !self.core(|core, _| core.call(&id).is_some_and(call::is_over))
        {
            return Err(refused);
        }
        Ok(self.ended(&id).await)
    }

    /// Waits until a call may run, or is over. It looks before it waits, so what happened before it is asked counts.
    pub async fn permission(&self, id: &CallId) -> Permission {
        let pending = |state: &ToolCallState| {
            matches!(state, ToolCallState::Streaming(_) | ToolCallState::PendingConfirmation(_))
        };
        let mut changes = self.changes();
        if defect!(PermissionParkedBlindly) {
            changes.mark_unchanged();
            // The host does not go while its turns are under way.
            let _ = changes.changed().await;
        }
        loop {
            match self.core(|core, _| core.call(id).cloned()) {
                Some(state) if pending(&state) => {}
                Some(ToolCallState::Running(_)) => return Permission::Granted,
                _ => return Permission::Over,
            }
            if changes.changed().await.is_err() {
                return Permission::Over;
            }
        }
    }

    /// Waits until a call is over.
    pub async fn ended(&self, id: &CallId) -> Ended {
        let mut changes = self.changes();
        loop {
            match self.core(|core, _| core.call(id).cloned()) {
                Some(ToolCallState::Completed(done)) => {
                    let result = ToolCallResult {
                        success: done.success,
                        past_tense_message: done.past_tense_message,
                        content: done.content,
                        structured_content: done.structured_content,
                        error: done.error,
                    };
                    return Ended::Completed(Box::new(result));
                }
                Some(ToolCallState::Cancelled(_)) | None => return Ended::Cancelled,
                Some(_) => {}
            }
            if changes.changed().await.is_err() {
                return Ended::Cancelled;
            }
        }
    }

    /// Asks a client for something, as for a file of its.
    ///
    /// # Errors
    /// [`Unanswered`]
    pub async fn ask(&self, client: &str, method: &str, params: &impl Serialize) -> Answer {
        let params =
            serde_json::value::to_raw_value(params).map_err(|error| Unanswered::Refused {
                code: crate::wire::code::INVALID_PARAMS,
                message: error.to_string(),
            })?;
        let asked = self.core(|core, now| core.ask(client, method, params, now));
        asked.await.unwrap_or(Err(Unanswered::Lost))
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.core(|core, _| core.changes())
    }
}
