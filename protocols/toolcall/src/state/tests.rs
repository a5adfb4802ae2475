//! Tests of the reducers for sessions and chats.

use serde_json::{Value, json};

use super::*;
use crate::wire::ahp::state::{ChatState, ToolCallState};

/// Creates a chat with one turn, and one call in this state. The call reaches the state by the
/// usual actions.
fn chat_with(status: &str) -> ChatState {
    let mut chat = chat::new("c", "c", "2026-01-01T00:00:00.000Z".into());
    let way: &[&str] = match status {
        "streaming" => &[],
        "pending confirmation" => &["ready"],
        "running" => &["ready", "confirm"],
        "pending result" => &["ready", "confirm", "complete and ask"],
        "completed" => &["ready", "confirm", "complete"],
        "cancelled" => &["ready", "deny"],
        _ => panic!("no such state"),
    };
    for name in ["start turn", "start"].iter().chain(way) {
        assert_eq!(chat::apply(&mut chat, &action(name)), ActionOutcome::Applied, "{name}");
    }
    assert_eq!(of(&chat), status);
    chat
}

fn action(name: &str) -> StateAction {
    let about = |kind: &str, more: Value| {
        let mut action = json!({ "type": kind, "turnId": "t", "toolCallId": "call" });
        action.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        action
    };
    let result = json!({ "success": true, "pastTenseMessage": "ran" });
    let message = json!({ "text": "do it", "origin": { "kind": "user" } });
    serde_json::from_value(match name {
        "start turn" => {
            json!({ "type": "chat/turnStarted", "turnId": "t", "startedAt": "2026-01-01T00:00:00.000Z", "message": message })
        }
        "end turn" => json!({ "type": "chat/turnComplete", "turnId": "t", "duration": 1500 }),
        "start" => about("chat/toolCallStart", json!({ "toolName": "tool", "displayName": "tool" })),
        "delta" => about("chat/toolCallDelta", json!({ "content": "{" })),
        "ready" => about("chat/toolCallReady", json!({ "invocationMessage": "x", "toolInput": "{}" })),
        "ready, confirmed" => about("chat/toolCallReady", json!({ "invocationMessage": "x", "confirmed": "not-needed" })),
        "confirm" => about("chat/toolCallConfirmed", json!({ "approved": true })),
        "deny" => about("chat/toolCallConfirmed", json!({ "approved": false })),
        "content" => about("chat/toolCallContentChanged", json!({ "content": [] })),
        "complete" => about("chat/toolCallComplete", json!({ "result": result })),
        "complete and ask" => about("chat/toolCallComplete", json!({ "result": result, "requiresResultConfirmation": true })),
        "approve result" => about("chat/toolCallResultConfirmed", json!({ "approved": true })),
        "deny result" => about("chat/toolCallResultConfirmed", json!({ "approved": false })),
        _ => panic!("no such action"),
    })
    .unwrap()
}

fn of(chat: &ChatState) -> &'static str {
    match chat::find_call(chat, "t", "call").unwrap() {
        ToolCallState::Streaming(_) => "streaming",
        ToolCallState::PendingConfirmation(_) => "pending confirmation",
        ToolCallState::Running(_) => "running",
        ToolCallState::PendingResultConfirmation(_) => "pending result",
        ToolCallState::Completed(_) => "completed",
        ToolCallState::Cancelled(_) => "cancelled",
        _ => "?",
    }
}

/// Every action on every state; `-` if the action is ignored.
#[test]
fn every_action_changes_every_call_state_as_in_the_table() {
    const ACTIONS: [&str; 10] = [
        "delta",
        "ready",
        "ready, confirmed",
        "confirm",
        "deny",
        "content",
        "complete",
        "complete and ask",
        "approve result",
        "deny result",
    ];
    #[rustfmt::skip]
    const LIFE: [(&str, [&str; 10]); 6] = [
        ("streaming", ["streaming", "pending confirmation", "running", "-", "-", "-", "-", "-", "-", "-"]),
        ("pending confirmation", ["-", "pending confirmation", "running", "running", "cancelled", "-", "completed", "pending result", "-", "-"]),
        ("running", ["-", "pending confirmation", "running", "-", "-", "running", "completed", "pending result", "-", "-"]),
        ("pending result", ["-", "-", "-", "-", "-", "-", "-", "-", "completed", "cancelled"]),
        ("completed", ["-"; 10]),
        ("cancelled", ["-"; 10]),
    ];
    for (before, after) in LIFE {
        for (name, after) in ACTIONS.iter().zip(after) {
            let mut chat = chat_with(before);
            let was = chat.clone();
            match chat::apply(&mut chat, &action(name)) {
                ActionOutcome::Applied => assert_eq!(of(&chat), after, "{name} upon {before}"),
                ActionOutcome::Ignored(_) => {
                    assert_eq!("-", after, "{name} upon {before}");
                    assert_eq!(chat, was, "what is ignored changes nothing");
                }
            }
        }
    }
}

#[test]
fn the_end_of_a_turn_cancels_only_unfinished_calls() {
    for status in
        ["streaming", "pending confirmation", "running", "pending result", "completed", "cancelled"]
    {
        let mut chat = chat_with(status);
        chat::apply(&mut chat, &action("end turn"));
        assert_eq!(of(&chat), if status == "completed" { "completed" } else { "cancelled" });
        assert_eq!((chat.active_turn.as_ref(), chat.status), (None, 1));
        assert_eq!(chat.modified_at, "2026-01-01T00:00:01.500Z");
        assert_eq!(
            chat::apply(&mut chat, &action("end turn")),
            ActionOutcome::Ignored("the turn is not in progress")
        );
    }
}

#[test]
fn the_status_of_a_chat_shows_whether_it_waits_for_the_user() {
    let status = |state: &str| chat_with(state).status;
    assert_eq!(
        (status("running"), status("pending confirmation"), status("pending result")),
        (8, 24, 24)
    );
}

#[test]
fn the_client_that_runs_a_call_never_changes() {
    let mut chat = chat::new("c", "c", String::new());
    chat::apply(&mut chat, &action("start turn"));
    let start = json!({
        "type": "chat/toolCallStart", "turnId": "t", "toolCallId": "call", "toolName": "x", "displayName": "x",
        "contributor": { "kind": "client", "clientId": "a" },
    });
    chat::apply(&mut chat, &serde_json::from_value(start).unwrap());
    let ready = json!({
        "type": "chat/toolCallReady", "turnId": "t", "toolCallId": "call", "invocationMessage": "x",
        "contributor": { "kind": "client", "clientId": "b" },
    });
    chat::apply(&mut chat, &serde_json::from_value(ready).unwrap());
    assert_eq!(call::owner(chat::find_call(&chat, "t", "call").unwrap()), Some("a"));
}

#[test]
fn text_is_appended_to_its_part() {
    let mut chat = chat::new("c", "c", String::new());
    chat::apply(&mut chat, &action("start turn"));
    let part = json!({ "type": "chat/responsePart", "turnId": "t", "part": { "kind": "markdown", "id": "p", "content": "a" } });
    let delta =
        |part: &str| json!({ "type": "chat/delta", "turnId": "t", "partId": part, "content": "b" });
    assert_eq!(
        chat::apply(&mut chat, &serde_json::from_value(part).unwrap()),
        ActionOutcome::Applied
    );
    assert_eq!(
        chat::apply(&mut chat, &serde_json::from_value(delta("p")).unwrap()),
        ActionOutcome::Applied
    );
    assert_eq!(
        chat::apply(&mut chat, &serde_json::from_value(delta("q")).unwrap()),
        ActionOutcome::Ignored("no such part")
    );
    let value = serde_json::to_value(&chat).unwrap();
    assert_eq!(value["activeTurn"]["responseParts"][0]["content"], "ab");
}

#[test]
fn a_turn_with_an_invalid_end_time_keeps_modified_at() {
    let mut chat = chat_with("running");
    let over = json!({ "type": "chat/turnComplete", "turnId": "t", "duration": i64::MAX });
    assert_eq!(
        chat::apply(&mut chat, &serde_json::from_value(over).unwrap()),
        ActionOutcome::Applied
    );
    assert_eq!(chat.modified_at, "2026-01-01T00:00:00.000Z");
}
