//! The part of `states_are_true` about chats: turns and calls.

use super::facts::CallStory;
use super::states::{differs, wrong};
use super::story::Story;
use crate::history::{Call, Time};
use crate::property::Phrase;
use crate::subjects::records;
use crate::subjects::toolcall::agent::{PIECES, input};
use crate::subjects::toolcall::contents::ended_at;
use crate::subjects::toolcall::notes::CallEnd;
use crate::subjects::toolcall::setup::{self, AT_FIRST, ToolEnds, ToolSetup};
use crate::subjects::toolcall::tools;
use reknit_toolcall::client::done;
use reknit_toolcall::state::{call, chat};
use reknit_toolcall::wire::ahp::state::{
    ChatState, Message, MessageKind, ResponsePart, SessionStatus, ToolCallCancellationReason,
    ToolCallCompletedState, ToolCallConfirmationReason, ToolCallState, ToolInput,
    ToolResultContent, TurnState,
};

/// The first field of a chat that is not what the outside world says.
pub(super) fn untrue_chat(
    story: &Story<'_>,
    name: &str,
    chat: &ChatState,
    at: Time,
) -> Option<Phrase> {
    let plain = ChatState {
        status: chat.status,
        turns: chat.turns.clone(),
        active_turn: chat.active_turn.clone(),
        ..chat::new(name, name, chat.modified_at.clone())
    };
    if *chat != plain {
        return Some(wrong("a field that no action changes", "changed"));
    }
    let modified = last_change(story, chat, at);
    let shown = |status: SessionStatus| status.bits().to_string();
    differs("the status", &chat.status.to_string(), &shown(status(chat)))
        .or_else(|| differs("the time of the last change", &chat.modified_at, &modified?))
        .or_else(|| {
            let over = chat.turns.iter().map(|turn| (turn.id.as_str(), &turn.message));
            let active = chat.active_turn.iter().map(|turn| (turn.id.as_str(), &turn.message));
            let mut all = over.chain(active);
            all.find_map(|(id, message)| untrue_message(story, id, message))
        })
        .or_else(|| {
            chat.turns.iter().find_map(|turn| untrue_end(story, name, &turn.id, turn.state, at))
        })
        .or_else(|| {
            let over = chat.turns.iter().map(|turn| (turn.id.as_str(), &turn.response_parts));
            let active =
                chat.active_turn.iter().map(|turn| (turn.id.as_str(), &turn.response_parts));
            over.chain(active).find_map(|(turn, parts)| untrue_parts(story, turn, parts, at))
        })
        .or_else(|| open_call(chat).map(|call| wrong("a call of a turn that is over", call)))
}

/// A call that has not ended, although its turn has.
fn open_call(chat: &ChatState) -> Option<&str> {
    let parts = chat.turns.iter().flat_map(|turn| &turn.response_parts);
    let mut open = parts.filter_map(|part| match part {
        ResponsePart::ToolCall(part) if !call::is_over(&part.tool_call) => Some(&part.tool_call),
        _ => None,
    });
    open.next().map(call::id)
}

/// The status that follows from the turn in progress and its calls.
fn status(chat: &ChatState) -> SessionStatus {
    let waits = |part: &ResponsePart| matches!(part, ResponsePart::ToolCall(part) if matches!(part.tool_call, ToolCallState::PendingConfirmation(_) | ToolCallState::PendingResultConfirmation(_)));
    match &chat.active_turn {
        Some(turn) if turn.response_parts.iter().any(waits) => SessionStatus::InputNeeded,
        Some(_) => SessionStatus::InProgress,
        None => SessionStatus::Idle,
    }
}

/// The time of the last change: the start of the turn in progress, or the end of the last one.
fn last_change(story: &Story<'_>, chat: &ChatState, at: Time) -> Option<String> {
    match (&chat.active_turn, chat.turns.last()) {
        (Some(turn), _) => Some(turn.started_at.clone()),
        (None, Some(turn)) => ended_at(turn.started_at.as_deref(), turn.duration),
        (None, None) => {
            let is_old = story.existence.throughout(&chat.resource, Time::ZERO, at);
            is_old.filter(|since| *since == Time::ZERO).map(|_| AT_FIRST.to_owned())
        }
    }
}

/// The user's message: the number of the operation that started the turn.
fn untrue_message(story: &Story<'_>, turn: &str, message: &Message) -> Option<Phrase> {
    if message.origin.kind != MessageKind::User {
        return Some(wrong("the author of a message", turn));
    }
    let declared = records::declared(turn);
    let is_it = match message.text.parse() {
        Ok(call) => story.asked.get(&Call(call)).is_some_and(|asked| {
            asked.verb() == "start-turn" && asked.field("turn") == Some(declared)
        }),
        Err(_) => setup::first_turn(story.cx.plan).is_some_and(|(first, _)| first == declared),
    };
    (!is_it).then(|| wrong("the message of a turn", &message.text))
}

/// A turn is complete if its agent played the whole script, and cancelled only if a user cancelled
/// it, or its agent panicked.
fn untrue_end(
    story: &Story<'_>,
    chat: &str,
    turn: &str,
    state: TurnState,
    at: Time,
) -> Option<Phrase> {
    let existence = &story.existence;
    let is_cancelled = || {
        let mut cancels = story.asked.values().filter(|asked| asked.verb() == "cancel-turn");
        cancels.any(|asked| {
            let is_of_it = asked.field("chat") == Some(chat) && existence.is_open(turn, asked.at);
            is_of_it && asked.at <= at
        })
    };
    let is_true = match state {
        TurnState::Complete => existence.is_played(chat, turn, at),
        TurnState::Cancelled => existence.is_broken(chat, turn, at) || is_cancelled(),
        _ => false,
    };
    (!is_true).then(|| wrong("the end of a turn", &format!("{state:?}")))
}

fn untrue_parts(story: &Story<'_>, turn: &str, parts: &[ResponsePart], at: Time) -> Option<Phrase> {
    parts.iter().find_map(|part| match part {
        ResponsePart::Markdown(_) => None,
        ResponsePart::ToolCall(part) => {
            let id = call::id(&part.tool_call);
            // A restarted host names its calls from 1 again.
            let mut earlier = story.calls.iter().rev().filter(|call| call.began <= at);
            let known = earlier.find(|call| &*call.turn.0 == turn && call.id == id);
            match known {
                Some(known) => untrue_call(story, known, &part.tool_call, at),
                // The agent may note its call only after it has started it.
                None => None,
            }
        }
        _ => Some(wrong("a part of a turn", "of another kind")),
    })
}

fn untrue_call(
    story: &Story<'_>,
    known: &CallStory<'_>,
    state: &ToolCallState,
    at: Time,
) -> Option<Phrase> {
    let reports_result = || story.reports_result(known, at);
    let tool = known.tool.unwrap_or_default();
    let owner = call::owner(state).unwrap_or_default();
    differs("the owner of a call", owner, known.owner)
        .or_else(|| untrue_names(state, tool))
        .or_else(|| match state {
            ToolCallState::Streaming(streaming) => {
                untrue_pieces(streaming.partial_input.as_deref().unwrap_or_default())
            }
            ToolCallState::PendingConfirmation(pending) => untrue_input(&pending.tool_input),
            ToolCallState::Running(running) => untrue_input(&running.tool_input)
                .or_else(|| untrue_confirmation(known, &running.confirmed, at))
                .or_else(|| {
                    running.content.as_ref().and_then(|it| untrue_content(story, known, it, at))
                }),
            // Only a user's own report asks for consent to a result.
            ToolCallState::PendingResultConfirmation(_) if reports_result() => None,
            _ if call::is_over(state) && reports_result() => None,
            ToolCallState::Completed(completed) => untrue_result(story, known, completed, at),
            ToolCallState::Cancelled(cancelled) => {
                let is_true = match cancelled.reason {
                    ToolCallCancellationReason::Denied => known.has_decision(false, at),
                    ToolCallCancellationReason::Skipped => true,
                    ToolCallCancellationReason::ResultDenied => false,
                };
                (!is_true).then(|| {
                    wrong("the reason of a cancelled call", &format!("{:?}", cancelled.reason))
                })
            }
            _ => Some(wrong("the state of a call", "of another kind")),
        })
}

/// The content of a running call: a report of its user, named after the operation.
fn untrue_content(
    story: &Story<'_>,
    known: &CallStory<'_>,
    content: &[ToolResultContent],
    at: Time,
) -> Option<Phrase> {
    let [ToolResultContent::Text(report)] = content else {
        return Some(wrong("the content of a running call", &format!("{} parts", content.len())));
    };
    let number = report.text.strip_prefix("report ").and_then(|number| number.parse().ok());
    let asked = number.and_then(|number| story.asked.get(&Call(number)));
    let is_true = asked.is_some_and(|asked| {
        asked.verb() == "report-content"
            && asked.field("chat") == Some(known.chat)
            && (known.began..=at).contains(&asked.at)
    });
    (!is_true).then(|| wrong("the content of a running call", &report.text))
}

/// The name of the tool, twice.
fn untrue_names(state: &ToolCallState, tool: &str) -> Option<Phrase> {
    let (name, display_name) = match state {
        ToolCallState::Streaming(s) => (&s.tool_name, &s.display_name),
        ToolCallState::PendingConfirmation(s) => (&s.tool_name, &s.display_name),
        ToolCallState::Running(s) => (&s.tool_name, &s.display_name),
        ToolCallState::Completed(s) => (&s.tool_name, &s.display_name),
        ToolCallState::Cancelled(s) => (&s.tool_name, &s.display_name),
        _ => return None,
    };
    differs("the tool of a call", name, tool)
        .or_else(|| differs("the shown name of a call", display_name, tool))
}

/// The parameters of a call while they stream: the first pieces, in order.
fn untrue_pieces(partial: &str) -> Option<Phrase> {
    let is_true =
        (0..=PIECES.len()).any(|n| PIECES.iter().take(n).copied().collect::<String>() == partial);
    (!is_true).then(|| wrong("the parameters of a streaming call", partial))
}

/// The complete parameters of a call.
fn untrue_input(given: &Option<ToolInput>) -> Option<Phrase> {
    let given = match given {
        Some(ToolInput::Inline(input)) => input.as_str(),
        _ => "missing",
    };
    differs("the input of a call", given, &input().to_string())
}

/// A call runs because its agent needs no consent, or because a user approved it.
fn untrue_confirmation(
    known: &CallStory<'_>,
    confirmed: &ToolCallConfirmationReason,
    at: Time,
) -> Option<Phrase> {
    let is_true = match confirmed {
        ToolCallConfirmationReason::NotNeeded => known.ready.is_some() && !known.asks,
        ToolCallConfirmationReason::UserAction => known.asks && known.has_decision(true, at),
        _ => false,
    };
    (!is_true).then(|| wrong("the confirmation of a call", &format!("{confirmed:?}")))
}

/// The result of a call, as its agent received it.
fn untrue_result(
    story: &Story<'_>,
    known: &CallStory<'_>,
    completed: &ToolCallCompletedState,
    at: Time,
) -> Option<Phrase> {
    let success = completed.success.to_string();
    let end = known.over.map(|(_, end)| end);
    let said = completed.past_tense_message.as_text();
    match end {
        Some(CallEnd::Completed) if completed.success => {
            let tool: ToolSetup = story
                .cx
                .plan
                .entry(setup::TOOL, known.tool.unwrap_or_default())
                .unwrap_or_default();
            let result = done(&tools::result(tool.letters));
            let is_it = completed.content == result.content
                && completed.structured_content.is_none()
                && completed.error.is_none()
                && tool.ends == ToolEnds::Works;
            (!is_it)
                .then(|| wrong("the result of a call", said))
                .or_else(|| untrue_input(&completed.tool_input))
                .or_else(|| untrue_confirmation(known, &completed.confirmed, at))
        }
        Some(CallEnd::Failed(why)) if !completed.success => {
            let error = serde_json::json!({ "message": why });
            differs("the failure of a call", said, why).or_else(|| {
                (completed.error != Some(error) || completed.content.is_some())
                    .then(|| wrong("the error of a call", said))
            })
        }
        Some(end) => differs("the success of a call", &success, &end.status().to_string()),
        None => None,
    }
}
