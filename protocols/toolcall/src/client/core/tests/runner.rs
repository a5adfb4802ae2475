//! The calls that a client runs.

use super::*;
use crate::client::done;

fn key(call: &str) -> runner::Key {
    ("c".to_owned(), "t1".to_owned(), call.to_owned())
}

/// Creates a client that was connected and reconnects to a chat with a turn in progress.
fn back_to(call: &Value) -> Window {
    let mut window = Window::connected();
    window.comes_back();
    let snapshots = json!([session(20, "title"), chat(20, turn_with(call))]);
    window.answer("reconnect", json!({ "type": "snapshot", "snapshots": snapshots }));
    window
}

#[test]
fn a_running_call_is_started_once() {
    let mut window = back_to(&running("call", "window"));
    assert_eq!(window.calls, ["run call {}"]);
    window.happens(21, "s", &title("x"));
    window.comes_back();
    window.answer("reconnect", json!({ "type": "replay", "actions": [], "missing": [] }));
    assert_eq!(window.calls, ["run call {}"]);
}

#[test]
fn a_call_of_another_client_is_not_started() {
    assert!(back_to(&running("call", "other")).calls.is_empty());
}

#[test]
fn no_call_starts_before_the_client_is_up_to_date() {
    let mut window = Window::connected();
    window.comes_back();
    let started = json!({
        "type": "chat/turnStarted", "turnId": "t1", "startedAt": "2026-01-01T00:00:00.000Z",
        "message": { "text": "x", "origin": { "kind": "user" } },
    });
    let begun = json!({
        "type": "chat/toolCallStart", "turnId": "t1", "toolCallId": "call", "toolName": "tool", "displayName": "tool",
        "contributor": { "kind": "client", "clientId": "window" },
    });
    let ready = json!({
        "type": "chat/toolCallReady", "turnId": "t1", "toolCallId": "call", "invocationMessage": "x", "confirmed": "not-needed",
    });
    let missed = [started, begun, ready, over("call")];
    let actions = missed
        .iter()
        .zip(11..)
        .map(|(action, seq)| json!({ "channel": "c", "action": action, "serverSeq": seq }));
    let actions = actions.collect::<Vec<_>>();
    window.answer("reconnect", json!({ "type": "replay", "actions": actions, "missing": [] }));
    assert!(
        window.calls.is_empty(),
        "it ran, and was failed, while nobody was here: {:?}",
        window.calls
    );
}

#[test]
fn a_result_is_sent_once_and_its_call_is_not_restarted() {
    let mut window = back_to(&running("call", "window"));
    window.core.finished(&key("call"), done("x"));
    window.core.finished(&key("call"), done("y"));
    window.carry_out();
    let reported = window.methods().iter().filter(|method| **method == "dispatchAction").count();
    assert_eq!((reported, window.calls.len()), (1, 1));
}

#[test]
fn a_result_without_a_connection_is_sent_later() {
    let mut window = back_to(&running("call", "window"));
    window.lose();
    window.core.finished(&key("call"), done("x"));
    window.wait(40 * S);
    window.open();
    window.answer("reconnect", json!({ "type": "replay", "actions": [], "missing": [] }));
    assert_eq!(window.sent.last().unwrap()["params"]["action"]["type"], "chat/toolCallComplete");
}

#[test]
fn a_call_that_is_over_is_stopped_and_its_result_dropped() {
    let mut window = back_to(&running("call", "window"));
    window.happens(21, "c", &over("call"));
    assert_eq!(window.calls, ["run call {}", "stop call"]);
    window.core.finished(&key("call"), done("x"));
    window.carry_out();
    assert!(!window.methods().contains(&"dispatchAction"));
}

#[test]
fn a_call_that_needs_another_confirmation_is_not_started_again() {
    let mut window = back_to(&running("call", "window"));
    let ready = json!({ "type": "chat/toolCallReady", "turnId": "t1", "toolCallId": "call", "invocationMessage": "sure?" });
    window.happens(21, "c", &ready);
    let confirmed = json!({ "type": "chat/toolCallConfirmed", "turnId": "t1", "toolCallId": "call", "approved": true });
    window.happens(22, "c", &confirmed);
    assert_eq!(window.calls, ["run call {}"]);
}

#[test]
fn calls_over_the_limit_start_when_another_ends() {
    let mut window =
        Window::with(ClientLimits { running_tools: 1, ..ClientLimits::default() }).connecting();
    window.comes_back();
    let mut turn = turn_with(&running("a", "window"));
    turn["responseParts"]
        .as_array_mut()
        .unwrap()
        .push(json!({ "kind": "toolCall", "toolCall": running("b", "window") }));
    let snapshots = json!([session(20, "title"), chat(20, turn)]);
    window.answer("reconnect", json!({ "type": "snapshot", "snapshots": snapshots }));
    assert_eq!(window.calls, ["run a {}"]);
    window.core.finished(&key("a"), done("x"));
    window.carry_out();
    assert_eq!(window.calls, ["run a {}", "run b {}"]);
}

#[test]
fn unsubscribing_from_the_chat_stops_its_calls() {
    let mut window = back_to(&running("call", "window"));
    window.core.unsubscribe("c");
    window.happens(21, "s", &title("x"));
    assert_eq!(window.calls, ["run call {}", "stop call"]);
}

#[test]
fn an_abandoned_call_has_failed_when_the_client_subscribes_again() {
    let mut window = back_to(&running("call", "window"));
    window.core.unsubscribe("c");
    let _answered = window.subscribe("c");
    window.answer(
        "subscribe",
        json!({ "snapshot": chat(22, turn_with(&running("call", "window"))) }),
    );
    assert_eq!(window.calls, ["run call {}", "stop call"], "not again");
    let sent = &window.sent.last().unwrap()["params"]["action"];
    assert_eq!(
        (&sent["type"], &sent["result"]["success"]),
        (&json!("chat/toolCallComplete"), &json!(false))
    );
}

#[test]
fn closing_the_client_stops_everything() {
    let mut window = back_to(&running("call", "window"));
    window.core.close(&Failure::Closed);
    window.carry_out();
    assert_eq!(window.calls, ["run call {}", "stop call"]);
}
