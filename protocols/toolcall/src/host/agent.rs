//! The agent of a host: a trait that handles turns, and the handle with which it acts on a turn.

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

/// An agent, which handles turns.
pub trait Agent: Send + Sync {
    /// Handles a turn. The host calls this in its own task when the turn begins, so it must not
    /// block or panic. The turn ends when the future completes. When a client cancels the turn, the
    /// host drops the future, perhaps before its first poll.
    fn turn(&self, turn: Turn) -> BoxFuture<'static, ()>;
}

/// A turn in progress, as its agent sees it.
#[derive(Clone)]
pub struct Turn {
    /// The chat.
    pub chat: String,
    /// The id of the turn.
    pub id: String,
    /// The user's message.
    pub text: String,
    /// The client that sent it.
    pub client: Option<String>,
    pub(super) shared: Arc<HostShared>,
}

/// The turn is over, or the chat is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub &'static str);

/// How a tool call ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// It has a result, which may be a failure.
    Completed(Box<ToolCallResult>),
    /// The user denied it, or its turn is over.
    Cancelled,
}

/// The user's decision whether a call may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// The call may run.
    Granted,
    /// The call may not run, or is already over.
    Over,
}

impl Turn {
    fn core<T>(&self, change: impl FnOnce(&mut HostCore, Instant) -> T) -> T {
        change(&mut self.shared.core(), Instant::now())
    }

    fn act(&self, action: StateAction) -> Result<(), Refused> {
        self.core(|core, now| core.act(&self.chat, action, now)).map_err(Refused)
    }

    /// Sends a text to the user. Returns the id of the part, with which the text can be continued.
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

    /// Appends text to a part.
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

    /// Starts a tool call; its parameters stream from now on. If no client can run it, the call has
    /// already failed.
    ///
    /// # Errors
    /// [`Refused`]
    pub fn start_call(&self, tool: &str, owner: Owner) -> Result<CallId, Refused> {
        self.core(|core, now| core.start_call(&self.chat, &self.id, tool, owner, now))
            .map_err(Refused)
    }

    /// Sends more of a call's parameters.
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

    /// Completes the parameters. The call runs, unless it needs a confirmation.
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

    /// Calls a tool on any client that offers it, and waits for the result.
    ///
    /// # Errors
    /// [`Refused`]
    pub async fn call(&self, tool: &str, input: &Value, confirm: bool) -> Result<Ended, Refused> {
        let id = self.start_call(tool, Owner::Any)?;
        if let Err(refused) = self.ready(&id, input, confirm)
            && (!self.core(|core, _| core.call(&id).is_some_and(call::is_over))
                || defect!(SimpleCallIsRefused))
        {
            return Err(refused);
        }
        Ok(self.ended(&id).await)
    }

    /// Waits until a call may run, or is over. Checks before it waits, so earlier events count. A change
    /// between the look and the wait counts, too: the receiver is older than the look.
    pub async fn permission(&self, id: &CallId) -> Permission {
        let pending = |state: &ToolCallState| {
            matches!(state, ToolCallState::Streaming(_) | ToolCallState::PendingConfirmation(_))
        };
        let mut changes = self.changes();
        if defect!(PermissionParkedBlindly) {
            changes.mark_unchanged();
            // The host lives longer than its turns.
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

    /// Sends a request to a client, for example to read one of its files.
    ///
    /// # Errors
    /// [`Unanswered`]
    pub async fn ask(&self, client: &str, method: &str, params: &impl Serialize) -> Answer {
        let params =
            serde_json::value::to_raw_value(params).map_err(|error| Unanswered::Refused {
                code: crate::wire::code::INVALID_PARAMS,
                message: error.to_string(),
            })?;
        let asked = self.core(|core, now| core.send_host_request(client, method, params, now));
        asked.await.unwrap_or(Err(Unanswered::Lost))
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.core(|core, _| core.changes())
    }
}
