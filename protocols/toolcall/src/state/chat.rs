//! A chat: its active turn with the response parts, and the ended turns.

use std::time::Duration;

use reknit_seams::defect;

use super::outcome::ActionOutcome;
use super::{call, defects};
use crate::wire::StateAction;
use crate::wire::ahp::actions::{ChatTurnStartedAction, ChatUsageAction};
use crate::wire::ahp::state::{
    ActiveTurn, ChatState, ResponsePart, SessionStatus, ToolCallResponsePart, ToolCallState, Turn,
    TurnState,
};

/// The status bits that describe the activity; the other bits are flags that the user sets.
const ACTIVITY: u32 = (1 << 5) - 1;

/// Creates an empty chat.
pub fn new(resource: &str, title: &str, modified_at: String) -> ChatState {
    ChatState {
        resource: resource.to_owned(),
        title: title.to_owned(),
        status: SessionStatus::Idle.bits(),
        activity: None,
        modified_at,
        changes: None,
        origin: None,
        movable: None,
        interactivity: None,
        working_directories: None,
        changesets: None,
        background_work: None,
        canvases: None,
        turns: Vec::new(),
        turns_next_cursor: None,
        active_turn: None,
        steering_message: None,
        queued_messages: None,
        draft: None,
        meta: None,
    }
}

/// Returns the tool calls of the active turn.
pub fn calls(chat: &ChatState) -> impl Iterator<Item = &ToolCallState> {
    chat.active_turn.iter().flat_map(|turn| &turn.response_parts).filter_map(|part| match part {
        ResponsePart::ToolCall(part) => Some(&part.tool_call),
        _ => None,
    })
}

/// Returns a tool call of any turn. Searches the newest turn first.
pub fn find_call<'c>(chat: &'c ChatState, turn: &str, id: &str) -> Option<&'c ToolCallState> {
    let active = chat.active_turn.iter().map(|turn| (&turn.id, &turn.response_parts));
    let over = chat.turns.iter().rev().map(|turn| (&turn.id, &turn.response_parts));
    let parts = active.chain(over).find(|(id, _)| *id == turn).map(|(_, parts)| parts)?;
    parts.iter().find_map(|part| match part {
        ResponsePart::ToolCall(part) if call::id(&part.tool_call) == id => Some(&part.tool_call),
        _ => None,
    })
}

/// Whether the chat has an active or ended turn with this id.
pub fn knows_turn(chat: &ChatState, id: &str) -> bool {
    chat.active_turn.as_ref().is_some_and(|turn| turn.id == id)
        || chat.turns.iter().any(|turn| turn.id == id)
}

/// Applies an action to a chat.
pub fn apply(chat: &mut ChatState, action: &StateAction) -> ActionOutcome {
    let outcome = change(chat, action);
    if outcome == ActionOutcome::Applied {
        refresh(chat);
    }
    outcome
}

fn change(chat: &mut ChatState, action: &StateAction) -> ActionOutcome {
    match action {
        StateAction::ChatTurnStarted(started) => start(chat, started),
        StateAction::ChatTurnComplete(over) => {
            end(chat, &over.turn_id, over.duration, TurnState::Complete)
        }
        StateAction::ChatTurnCancelled(over) => {
            end(chat, &over.turn_id, over.duration, TurnState::Cancelled)
        }
        StateAction::ChatResponsePart(added) => match (turn(chat, &added.turn_id), &added.part) {
            (Err(outcome), _) => outcome,
            (
                Ok(_),
                ResponsePart::Error(_) | ResponsePart::ToolCall(_) | ResponsePart::Unknown(_),
            ) => ActionOutcome::Ignored("the part has a different kind"),
            (Ok(turn), part) => {
                turn.response_parts.push(part.clone());
                ActionOutcome::Applied
            }
        },
        StateAction::ChatDelta(delta) => {
            append(chat, &delta.turn_id, &delta.part_id, &delta.content)
        }
        StateAction::ChatReasoning(delta) => {
            append(chat, &delta.turn_id, &delta.part_id, &delta.content)
        }
        StateAction::ChatUsage(usage) => count(chat, usage),
        StateAction::ChatToolCallStart(started) => match turn(chat, &started.turn_id) {
            Err(outcome) => outcome,
            Ok(turn) => {
                if call_in(turn, &started.tool_call_id).is_some() {
                    return ActionOutcome::Ignored("the call already exists");
                }
                let tool_call = call::begin(started);
                turn.response_parts
                    .push(ResponsePart::ToolCall(Box::new(ToolCallResponsePart { tool_call })));
                ActionOutcome::Applied
            }
        },
        action => match call::addressed(action) {
            Some((turn_id, id)) => change_call(chat, turn_id, id, action),
            None => ActionOutcome::Ignored("not supported here"),
        },
    }
}

fn turn<'c>(chat: &'c mut ChatState, id: &str) -> Result<&'c mut ActiveTurn, ActionOutcome> {
    chat.active_turn
        .as_mut()
        .filter(|turn| turn.id == id)
        .ok_or(ActionOutcome::Ignored("the turn is not in progress"))
}

fn call_in<'t>(turn: &'t mut ActiveTurn, id: &str) -> Option<&'t mut ToolCallState> {
    turn.response_parts.iter_mut().find_map(|part| match part {
        ResponsePart::ToolCall(part) if call::id(&part.tool_call) == id => {
            Some(&mut part.tool_call)
        }
        _ => None,
    })
}

fn change_call(
    chat: &mut ChatState,
    turn_id: &str,
    id: &str,
    action: &StateAction,
) -> ActionOutcome {
    let turn = match turn(chat, turn_id) {
        Ok(turn) => turn,
        Err(outcome) => return outcome,
    };
    match call_in(turn, id) {
        Some(state) => call::apply(state, action),
        None => ActionOutcome::Ignored("no such call"),
    }
}

fn start(chat: &mut ChatState, started: &ChatTurnStartedAction) -> ActionOutcome {
    if chat.active_turn.is_some() && !defect!(TurnStartedTwice) {
        return ActionOutcome::Ignored("another turn is in progress");
    }
    chat.active_turn = Some(ActiveTurn {
        id: started.turn_id.clone(),
        started_at: started.started_at.clone(),
        message: started.message.clone(),
        response_parts: Vec::new(),
        usage: None,
    });
    chat.modified_at.clone_from(&started.started_at);
    chat.status &= !SessionStatus::IsRead.bits();
    ActionOutcome::Applied
}

/// Ends a turn, and cancels all of its calls that are not in a final state.
fn end(chat: &mut ChatState, id: &str, duration: i64, state: TurnState) -> ActionOutcome {
    let Some(mut turn) = chat.active_turn.take_if(|turn| turn.id == id) else {
        return ActionOutcome::Ignored("the turn is not in progress");
    };
    for part in &mut turn.response_parts {
        if let ResponsePart::ToolCall(part) = part {
            call::skip(&mut part.tool_call);
        }
    }
    let duration = duration.max(0);
    if let Some(modified_at) = later(&turn.started_at, duration) {
        chat.modified_at = modified_at;
    }
    let ActiveTurn { id, started_at, message, response_parts, usage } = turn;
    let (started_at, duration) = (Some(started_at), Some(duration));
    chat.turns.push(Turn { id, started_at, duration, message, response_parts, usage, state });
    ActionOutcome::Applied
}

/// Returns a timestamp that is `millis` milliseconds later.
fn later(stamp: &str, millis: i64) -> Option<String> {
    let at = humantime::parse_rfc3339(stamp).ok()?;
    let later = at.checked_add(Duration::from_millis(u64::try_from(millis).ok()?))?;
    // A later time has no valid representation.
    (later < humantime::parse_rfc3339("9999-12-31T23:59:59Z").ok()?)
        .then(|| humantime::format_rfc3339_millis(later).to_string())
}

fn append(chat: &mut ChatState, turn_id: &str, part_id: &str, content: &str) -> ActionOutcome {
    let turn = match turn(chat, turn_id) {
        Ok(turn) => turn,
        Err(outcome) => return outcome,
    };
    if defect!(TextJoinsTheLastPart) {
        return defects::append_to_the_last(turn, content);
    }
    for part in &mut turn.response_parts {
        match part {
            ResponsePart::Markdown(part) if part.id == part_id => part.content.push_str(content),
            ResponsePart::Reasoning(part) if part.id == part_id => part.content.push_str(content),
            _ => continue,
        }
        return ActionOutcome::Applied;
    }
    ActionOutcome::Ignored("no such part")
}

fn count(chat: &mut ChatState, usage: &ChatUsageAction) -> ActionOutcome {
    match turn(chat, &usage.turn_id) {
        Ok(turn) => {
            turn.usage = Some(usage.usage.clone());
            ActionOutcome::Applied
        }
        Err(outcome) => outcome,
    }
}

/// Returns the status of a chat without a turn in progress.
pub fn at_rest(status: u32) -> u32 {
    status & !ACTIVITY | SessionStatus::Idle.bits()
}

/// Derives the status from the turns and calls.
fn refresh(chat: &mut ChatState) {
    let blocked = calls(chat).any(call::awaits_user);
    let activity = match &chat.active_turn {
        Some(_) if blocked => SessionStatus::InputNeeded,
        Some(_) => SessionStatus::InProgress,
        None => SessionStatus::Idle,
    };
    chat.status = chat.status & !ACTIVITY | activity.bits();
}
