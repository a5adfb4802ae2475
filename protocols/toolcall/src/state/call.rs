//! The lifecycle of one tool call.
//!
//! ```text
//! streaming ── ready ──► pending confirmation ── confirmed ──► running ── complete ──► completed
//!     └──── ready, confirmed ────────────────────────────────►┘   │         └► pending result confirmation ── approved ──► completed
//!                                 └─ denied ──► cancelled ◄───────┴─────────────────────── denied ──┘
//! ```
//! Completed and cancelled are final states: later actions on the call are ignored. The end of a
//! turn cancels all of its calls that are not in a final state. A call that waits for a
//! confirmation may be completed too. So if the owner of a call has disconnected, the host can fail
//! the call without a confirmation. A streaming call cannot be completed; it has to become ready
//! first.

use reknit_seams::defect;

use crate::state::outcome::ActionOutcome;
use crate::wire::StateAction;
use crate::wire::ahp::StringOrMarkdown;
use crate::wire::ahp::actions::{
    ChatToolCallCompleteAction, ChatToolCallConfirmedAction, ChatToolCallDeltaAction,
    ChatToolCallReadyAction, ChatToolCallStartAction,
};
use crate::wire::ahp::common::JsonObject;
use crate::wire::ahp::state::{
    ConfirmationOption, ToolCallCancellationReason, ToolCallCancelledState, ToolCallCompletedState,
    ToolCallConfirmationReason, ToolCallContributor, ToolCallPendingConfirmationState,
    ToolCallPendingResultConfirmationState, ToolCallResult, ToolCallRunningState, ToolCallState,
    ToolCallStreamingState, ToolInput,
};

/// The fields that a call has in every state.
#[derive(Clone, Default)]
struct Common {
    id: String,
    name: String,
    display_name: String,
    intention: Option<String>,
    contributor: Option<ToolCallContributor>,
    meta: Option<JsonObject>,
    message: StringOrMarkdown,
    input: Option<ToolInput>,
}

macro_rules! common {
    ($state:expr, $message:expr, $input:expr) => {
        Common {
            id: $state.tool_call_id.clone(),
            name: $state.tool_name.clone(),
            display_name: $state.display_name.clone(),
            intention: $state.intention.clone(),
            contributor: $state.contributor.clone(),
            meta: $state.meta.clone(),
            message: $message,
            input: $input,
        }
    };
}

impl Common {
    fn of(state: &ToolCallState) -> Self {
        match state {
            ToolCallState::Streaming(s) => {
                common!(s, s.invocation_message.clone().unwrap_or_default(), None)
            }
            ToolCallState::PendingConfirmation(s) => {
                common!(s, s.invocation_message.clone(), s.tool_input.clone())
            }
            ToolCallState::Running(s) => {
                common!(s, s.invocation_message.clone(), s.tool_input.clone())
            }
            ToolCallState::AuthRequired(s) => {
                common!(s, s.invocation_message.clone(), s.tool_input.clone())
            }
            ToolCallState::PendingResultConfirmation(s) => {
                common!(s, s.invocation_message.clone(), s.tool_input.clone())
            }
            ToolCallState::Completed(s) => {
                common!(s, s.invocation_message.clone(), s.tool_input.clone())
            }
            ToolCallState::Cancelled(s) => {
                common!(s, s.invocation_message.clone(), s.tool_input.clone())
            }
            ToolCallState::Unknown(_) => Self::default(),
        }
    }

    fn running(
        self,
        confirmed: ToolCallConfirmationReason,
        selected_option: Option<ConfirmationOption>,
    ) -> ToolCallState {
        ToolCallState::Running(ToolCallRunningState {
            tool_call_id: self.id,
            tool_name: self.name,
            display_name: self.display_name,
            intention: self.intention,
            contributor: self.contributor,
            meta: self.meta,
            invocation_message: self.message,
            tool_input: self.input,
            confirmed,
            selected_option,
            content: None,
        })
    }

    fn cancelled(self, reason: ToolCallCancellationReason) -> ToolCallCancelledState {
        ToolCallCancelledState {
            tool_call_id: self.id,
            tool_name: self.name,
            display_name: self.display_name,
            intention: self.intention,
            contributor: self.contributor,
            meta: self.meta,
            invocation_message: self.message,
            tool_input: self.input,
            reason,
            reason_message: None,
            user_suggestion: None,
            selected_option: None,
        }
    }

    fn completed(self, result: Resulting) -> ToolCallCompletedState {
        let Resulting { result, confirmed, selected_option } = result;
        ToolCallCompletedState {
            tool_call_id: self.id,
            tool_name: self.name,
            display_name: self.display_name,
            intention: self.intention,
            contributor: self.contributor,
            meta: self.meta,
            invocation_message: self.message,
            tool_input: self.input,
            success: result.success,
            past_tense_message: result.past_tense_message,
            content: result.content,
            structured_content: result.structured_content,
            error: result.error,
            confirmed,
            selected_option,
        }
    }

    fn pending_result(self, result: Resulting) -> ToolCallPendingResultConfirmationState {
        let completed = self.completed(result);
        ToolCallPendingResultConfirmationState {
            tool_call_id: completed.tool_call_id,
            tool_name: completed.tool_name,
            display_name: completed.display_name,
            intention: completed.intention,
            contributor: completed.contributor,
            meta: completed.meta,
            invocation_message: completed.invocation_message,
            tool_input: completed.tool_input,
            success: completed.success,
            past_tense_message: completed.past_tense_message,
            content: completed.content,
            structured_content: completed.structured_content,
            error: completed.error,
            confirmed: completed.confirmed,
            selected_option: completed.selected_option,
        }
    }
}

/// A result, and how its call was confirmed.
struct Resulting {
    result: ToolCallResult,
    confirmed: ToolCallConfirmationReason,
    selected_option: Option<ConfirmationOption>,
}

/// Returns the id of a call.
pub fn id(state: &ToolCallState) -> &str {
    match state {
        ToolCallState::Streaming(s) => &s.tool_call_id,
        ToolCallState::PendingConfirmation(s) => &s.tool_call_id,
        ToolCallState::Running(s) => &s.tool_call_id,
        ToolCallState::AuthRequired(s) => &s.tool_call_id,
        ToolCallState::PendingResultConfirmation(s) => &s.tool_call_id,
        ToolCallState::Completed(s) => &s.tool_call_id,
        ToolCallState::Cancelled(s) => &s.tool_call_id,
        ToolCallState::Unknown(_) => "",
    }
}

/// Returns the client that runs the call, if a client does.
pub fn owner(state: &ToolCallState) -> Option<&str> {
    let contributor = match state {
        ToolCallState::Streaming(s) => &s.contributor,
        ToolCallState::PendingConfirmation(s) => &s.contributor,
        ToolCallState::Running(s) => &s.contributor,
        ToolCallState::AuthRequired(s) => &s.contributor,
        ToolCallState::PendingResultConfirmation(s) => &s.contributor,
        ToolCallState::Completed(s) => &s.contributor,
        ToolCallState::Cancelled(s) => &s.contributor,
        ToolCallState::Unknown(_) => &None,
    };
    match contributor {
        Some(ToolCallContributor::Client(client)) => Some(&client.client_id),
        _ => None,
    }
}

/// Whether the call waits for its owner: it is streaming, pending confirmation or running.
pub fn is_pending(state: &ToolCallState) -> bool {
    matches!(
        state,
        ToolCallState::Streaming(_)
            | ToolCallState::PendingConfirmation(_)
            | ToolCallState::Running(_)
    )
}

/// Whether the call is in a final state.
pub fn is_over(state: &ToolCallState) -> bool {
    matches!(state, ToolCallState::Completed(_) | ToolCallState::Cancelled(_))
}

/// Whether the call waits for the user.
pub fn awaits_user(state: &ToolCallState) -> bool {
    matches!(
        state,
        ToolCallState::PendingConfirmation(_)
            | ToolCallState::PendingResultConfirmation(_)
            | ToolCallState::AuthRequired(_)
    )
}

/// Returns the turn and the call of an action, if the action is about an existing call.
pub fn addressed(action: &StateAction) -> Option<(&str, &str)> {
    match action {
        StateAction::ChatToolCallDelta(a) => Some((&a.turn_id, &a.tool_call_id)),
        StateAction::ChatToolCallReady(a) => Some((&a.turn_id, &a.tool_call_id)),
        StateAction::ChatToolCallConfirmed(a) => Some((&a.turn_id, &a.tool_call_id)),
        StateAction::ChatToolCallComplete(a) => Some((&a.turn_id, &a.tool_call_id)),
        StateAction::ChatToolCallContentChanged(a) => Some((&a.turn_id, &a.tool_call_id)),
        StateAction::ChatToolCallResultConfirmed(a) => Some((&a.turn_id, &a.tool_call_id)),
        _ => None,
    }
}

/// Creates a call.
pub(super) fn begin(started: &ChatToolCallStartAction) -> ToolCallState {
    ToolCallState::Streaming(ToolCallStreamingState {
        tool_call_id: started.tool_call_id.clone(),
        tool_name: started.tool_name.clone(),
        display_name: started.display_name.clone(),
        intention: started.intention.clone(),
        contributor: started.contributor.clone(),
        meta: started.meta.clone(),
        partial_input: None,
        invocation_message: None,
    })
}

/// Cancels the call at the end of its turn, unless it is in a final state.
pub(super) fn skip(state: &mut ToolCallState) {
    let goes_on = defect!(UnjudgedResultsOutliveTheirTurn)
        && matches!(state, ToolCallState::PendingResultConfirmation(_));
    if !is_over(state) && !goes_on {
        *state = ToolCallState::Cancelled(
            Common::of(state).cancelled(ToolCallCancellationReason::Skipped),
        );
    }
}

/// Applies an action to its call.
pub(super) fn apply(state: &mut ToolCallState, action: &StateAction) -> ActionOutcome {
    if is_over(state) && !defect!(OverIsNotTheEnd) {
        return ActionOutcome::Ignored("the call has ended");
    }
    match action {
        StateAction::ChatToolCallDelta(delta) => stream(state, delta),
        StateAction::ChatToolCallReady(ready) => make_ready(state, ready),
        StateAction::ChatToolCallConfirmed(confirmed) => confirm(state, confirmed),
        StateAction::ChatToolCallComplete(complete) => finish(state, complete),
        StateAction::ChatToolCallContentChanged(changed) => match state {
            ToolCallState::Running(running) => {
                running.content = Some(changed.content.clone());
                running.meta = changed.meta.clone().or(running.meta.take());
                ActionOutcome::Applied
            }
            _ => ActionOutcome::Ignored("the call is not running"),
        },
        StateAction::ChatToolCallResultConfirmed(confirmed) => {
            confirm_result(state, confirmed.approved)
        }
        _ => ActionOutcome::Ignored("not supported here"),
    }
}

fn stream(state: &mut ToolCallState, delta: &ChatToolCallDeltaAction) -> ActionOutcome {
    let ToolCallState::Streaming(streaming) = state else {
        return ActionOutcome::Ignored("the call is already ready");
    };
    if let Some(content) = &delta.content {
        let input = streaming.partial_input.get_or_insert_default();
        if defect!(PiecesReplace) {
            input.clear();
        }
        input.push_str(content);
    }
    streaming.meta = delta.meta.clone().or(streaming.meta.take());
    streaming.invocation_message =
        delta.invocation_message.clone().or(streaming.invocation_message.take());
    ActionOutcome::Applied
}

/// Merges a new contributor into the current one. The client that runs a call never changes; other
/// fields may.
fn refined(
    current: Option<ToolCallContributor>,
    next: Option<ToolCallContributor>,
) -> Option<ToolCallContributor> {
    match (current, next) {
        (current, None) => current,
        (Some(ToolCallContributor::Client(current)), Some(ToolCallContributor::Client(next)))
            if current.client_id == next.client_id =>
        {
            Some(ToolCallContributor::Client(next))
        }
        (current @ Some(ToolCallContributor::Client(_)), _)
        | (current, Some(ToolCallContributor::Client(_))) => current,
        (_, next) => next,
    }
}

fn make_ready(state: &mut ToolCallState, ready: &ChatToolCallReadyAction) -> ActionOutcome {
    let before = match state {
        ToolCallState::PendingConfirmation(pending) => Some(pending.clone()),
        ToolCallState::Streaming(_) | ToolCallState::Running(_) => None,
        _ if defect!(OverIsNotTheEnd) => None,
        _ => return ActionOutcome::Ignored("the call is past that state"),
    };
    let mut common = Common::of(state);
    common.intention = ready.intention.clone().or(common.intention);
    common.input = ready.tool_input.clone().or(common.input);
    common.contributor = refined(common.contributor, ready.contributor.clone());
    common.meta = ready.meta.clone().or(common.meta);
    common.message = ready.invocation_message.clone();
    *state = match &ready.confirmed {
        Some(confirmed) => common.running(confirmed.clone(), None),
        None => ToolCallState::PendingConfirmation(ToolCallPendingConfirmationState {
            tool_call_id: common.id,
            tool_name: common.name,
            display_name: common.display_name,
            intention: common.intention,
            contributor: common.contributor,
            meta: common.meta,
            invocation_message: common.message,
            tool_input: common.input,
            confirmation_title: ready
                .confirmation_title
                .clone()
                .or(before.as_ref().and_then(|b| b.confirmation_title.clone())),
            risk_assessment: ready
                .risk_assessment
                .clone()
                .or(before.as_ref().and_then(|b| b.risk_assessment.clone())),
            edits: ready.edits.clone().or(before.as_ref().and_then(|b| b.edits.clone())),
            editable: ready.editable.or(before.as_ref().and_then(|b| b.editable)),
            options: ready.options.clone().or(before.and_then(|b| b.options)),
        }),
    };
    ActionOutcome::Applied
}

fn confirm(state: &mut ToolCallState, action: &ChatToolCallConfirmedAction) -> ActionOutcome {
    let ToolCallState::PendingConfirmation(pending) = state else {
        return ActionOutcome::Ignored("the call does not wait for a confirmation");
    };
    let options = pending.options.iter().flatten();
    let selected = action
        .selected_option_id
        .as_ref()
        .and_then(|id| options.into_iter().find(|option| option.id == *id).cloned());
    let mut common = Common::of(state);
    common.meta = action.meta.clone().or(common.meta);
    *state = if action.approved {
        if let (Some(edited), Some(ToolInput::Inline(input))) =
            (&action.edited_tool_input, &mut common.input)
        {
            input.clone_from(edited);
        }
        common.running(
            action.confirmed.clone().unwrap_or(ToolCallConfirmationReason::NotNeeded),
            selected,
        )
    } else {
        let mut cancelled =
            common.cancelled(action.reason.unwrap_or(ToolCallCancellationReason::Denied));
        cancelled.reason_message = action.reason_message.clone();
        cancelled.user_suggestion = action.user_suggestion.clone();
        cancelled.selected_option = selected;
        ToolCallState::Cancelled(cancelled)
    };
    ActionOutcome::Applied
}

fn finish(state: &mut ToolCallState, complete: &ChatToolCallCompleteAction) -> ActionOutcome {
    let (confirmed, selected_option) = match state {
        ToolCallState::Running(running) => {
            (running.confirmed.clone(), running.selected_option.clone())
        }
        ToolCallState::PendingConfirmation(_) => (ToolCallConfirmationReason::NotNeeded, None),
        ToolCallState::Streaming(_) => return ActionOutcome::Ignored("the call is not ready"),
        _ if defect!(OverIsNotTheEnd) => (ToolCallConfirmationReason::NotNeeded, None),
        _ => return ActionOutcome::Ignored("the call already has a result"),
    };
    let mut common = Common::of(state);
    common.meta = complete.meta.clone().or(common.meta);
    let result = Resulting { result: complete.result.clone(), confirmed, selected_option };
    *state = if complete.requires_result_confirmation == Some(true) {
        ToolCallState::PendingResultConfirmation(common.pending_result(result))
    } else {
        ToolCallState::Completed(common.completed(result))
    };
    ActionOutcome::Applied
}

fn confirm_result(state: &mut ToolCallState, approved: bool) -> ActionOutcome {
    let ToolCallState::PendingResultConfirmation(pending) = state else {
        return ActionOutcome::Ignored("the call does not wait for a confirmation of its result");
    };
    let selected_option = pending.selected_option.clone();
    let result = ToolCallResult {
        success: pending.success,
        past_tense_message: pending.past_tense_message.clone(),
        content: pending.content.clone(),
        structured_content: pending.structured_content.clone(),
        error: pending.error.clone(),
    };
    let confirmed = pending.confirmed.clone();
    let common = Common::of(state);
    *state = if approved {
        ToolCallState::Completed(common.completed(Resulting { result, confirmed, selected_option }))
    } else {
        let mut cancelled = common.cancelled(ToolCallCancellationReason::ResultDenied);
        cancelled.selected_option = selected_option;
        ToolCallState::Cancelled(cancelled)
    };
    ActionOutcome::Applied
}
