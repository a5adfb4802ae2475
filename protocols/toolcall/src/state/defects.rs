//! The code of seeded bugs that affect a state.

use super::outcome::ActionOutcome;
use crate::wire::SnapshotState;
use crate::wire::ahp::state::{ActiveTurn, ResponsePart, ToolCallState};

/// `RestoredCallsReopen`: the state of a chat in which every ended call streams again.
pub(crate) fn reopened(state: SnapshotState) -> SnapshotState {
    let SnapshotState::Chat(mut chat) = state else { return state };
    for part in chat.turns.iter_mut().flat_map(|turn| &mut turn.response_parts) {
        if let ResponsePart::ToolCall(part) = part {
            part.tool_call = streaming(&part.tool_call);
        }
    }
    SnapshotState::Chat(chat)
}

/// A call that streams, with the fields of another one.
fn streaming(call: &ToolCallState) -> ToolCallState {
    let mut fields = serde_json::to_value(call).unwrap_or_default();
    if let Some(fields) = fields.as_object_mut() {
        fields.remove("invocationMessage");
        fields.insert("status".to_owned(), "streaming".into());
    }
    serde_json::from_value(fields).unwrap_or_else(|_| call.clone())
}

/// `TextJoinsTheLastPart`: adds text to the last text of a turn.
pub(super) fn append_to_the_last(turn: &mut ActiveTurn, content: &str) -> ActionOutcome {
    let text = turn.response_parts.iter_mut().rev().find_map(|part| match part {
        ResponsePart::Markdown(part) => Some(&mut part.content),
        ResponsePart::Reasoning(part) => Some(&mut part.content),
        _ => None,
    });
    let Some(text) = text else { return ActionOutcome::Ignored("no such part") };
    text.push_str(content);
    ActionOutcome::Applied
}
