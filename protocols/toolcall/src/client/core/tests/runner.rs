//! The calls that a client runs.

use super::*;
use crate::client::done;
use crate::limits::{WireLimits, wire};

fn key(call: &str) -> runner::Key {
    ("c".to_owned(), "t1".to_owned(), call.to_owned())
}

/// Creates a client that was connected and reconnects to a chat with a turn in progress.
fn back_to(call: &Value) -> ClientTest {
    let mut test = ClientTest::connected();
    test.reconnects();
    let snapshots = json!([session(20, "title"), chat(20, turn_with(call))]);
    test.answer("reconnect", json!({ "type": "snapshot", "snapshots": snapshots }));
    test
}

#[test]
fn a_running_call_is_started_once() {
    let mut test = back_to(&running("call", "window"));
    assert_eq!(test.calls, ["run call {}"]);
    test.deliver_action(21, "s", &title("x"));
    test.reconnects();
    test.answer("reconnect", json!({ "type": "replay", "actions": [], "missing": [] }));
    assert_eq!(test.calls, ["run call {}"]);
}

#[test]
fn a_call_of_another_client_is_not_started() {
    assert!(back_to(&running("call", "other")).calls.is_empty());
}

#[test]
fn no_call_starts_before_the_client_is_up_to_date() {
    let mut test = ClientTest::connected();
    test.reconnects();
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
    test.answer("reconnect", json!({ "type": "replay", "actions": actions, "missing": [] }));
    assert!(
        test.calls.is_empty(),
        "it ran, and was failed, while nobody was here: {:?}",
        test.calls
    );
}

#[test]
fn a_result_is_sent_once_and_its_call_is_not_restarted() {
    let mut test = back_to(&running("call", "window"));
    test.core.finished(&key("call"), done("x"));
    test.core.finished(&key("call"), done("y"));
    test.carry_out();
    let reported = test.methods().iter().filter(|method| **method == "dispatchAction").count();
    assert_eq!((reported, test.calls.len()), (1, 1));
}

#[test]
fn a_result_without_a_connection_is_sent_later() {
    let mut test = back_to(&running("call", "window"));
    test.lose();
    test.core.finished(&key("call"), done("x"));
    test.wait(40 * S);
    test.open();
    test.answer("reconnect", json!({ "type": "replay", "actions": [], "missing": [] }));
    assert_eq!(test.sent.last().unwrap()["params"]["action"]["type"], "chat/toolCallComplete");
}

#[test]
fn a_call_that_is_over_is_stopped_and_its_result_dropped() {
    let mut test = back_to(&running("call", "window"));
    test.deliver_action(21, "c", &over("call"));
    assert_eq!(test.calls, ["run call {}", "stop call"]);
    test.core.finished(&key("call"), done("x"));
    test.carry_out();
    assert!(!test.methods().contains(&"dispatchAction"));
}

#[test]
fn a_call_that_needs_another_confirmation_is_not_started_again() {
    let mut test = back_to(&running("call", "window"));
    let ready = json!({ "type": "chat/toolCallReady", "turnId": "t1", "toolCallId": "call", "invocationMessage": "sure?" });
    test.deliver_action(21, "c", &ready);
    let confirmed = json!({ "type": "chat/toolCallConfirmed", "turnId": "t1", "toolCallId": "call", "approved": true });
    test.deliver_action(22, "c", &confirmed);
    assert_eq!(test.calls, ["run call {}"]);
}

#[test]
fn calls_over_the_limit_start_when_another_ends() {
    let mut test =
        ClientTest::with(ClientLimits { running_tools: 1, ..ClientLimits::default() }).connecting();
    test.reconnects();
    let mut turn = turn_with(&running("a", "window"));
    turn["responseParts"]
        .as_array_mut()
        .unwrap()
        .push(json!({ "kind": "toolCall", "toolCall": running("b", "window") }));
    let snapshots = json!([session(20, "title"), chat(20, turn)]);
    test.answer("reconnect", json!({ "type": "snapshot", "snapshots": snapshots }));
    assert_eq!(test.calls, ["run a {}"]);
    test.core.finished(&key("a"), done("x"));
    test.carry_out();
    assert_eq!(test.calls, ["run a {}", "run b {}"]);
}

#[test]
fn unsubscribing_from_the_chat_stops_its_calls() {
    let mut test = back_to(&running("call", "window"));
    test.core.unsubscribe("c");
    test.deliver_action(21, "s", &title("x"));
    assert_eq!(test.calls, ["run call {}", "stop call"]);
}

#[test]
fn a_call_over_the_limit_starts_when_the_running_one_is_abandoned() {
    let mut test =
        ClientTest::with(ClientLimits { running_tools: 1, ..ClientLimits::default() }).connecting();
    for (name, call) in [("d", "a"), ("e", "b")] {
        let mut chat = chat(11, turn_with(&running(call, "window")));
        chat["resource"] = name.into();
        let _answered = test.subscribe(name);
        test.answer("subscribe", json!({ "snapshot": chat }));
    }
    assert_eq!(test.calls, ["run a {}"]);
    test.core.unsubscribe("d");
    test.carry_out();
    assert_eq!(test.calls, ["run a {}", "stop a", "run b {}"]);
}

#[test]
fn an_abandoned_call_has_failed_when_the_client_subscribes_again() {
    let mut test = back_to(&running("call", "window"));
    test.core.unsubscribe("c");
    let _answered = test.subscribe("c");
    test.answer(
        "subscribe",
        json!({ "snapshot": chat(22, turn_with(&running("call", "window"))) }),
    );
    assert_eq!(test.calls, ["run call {}", "stop call"], "not again");
    let sent = &test.sent.last().unwrap()["params"]["action"];
    assert_eq!(
        (&sent["type"], &sent["result"]["success"]),
        (&json!("chat/toolCallComplete"), &json!(false))
    );
}

#[test]
fn closing_the_client_stops_everything() {
    let mut test = back_to(&running("call", "window"));
    test.core.close(&Failure::Closed);
    test.carry_out();
    assert_eq!(test.calls, ["run call {}", "stop call"]);
}

#[test]
fn a_restarted_host_may_give_a_call_the_name_of_an_earlier_one() {
    let mut test = back_to(&running("call", "window"));
    test.reconnects();
    test.refuse("reconnect", -32008);
    let again = chat(3, turn_with(&running("call", "window")));
    test.answer_initialize(3, json!([session(3, "new life"), again]));
    assert_eq!(test.calls, ["run call {}", "stop call", "run call {}"]);
}

#[test]
fn a_result_of_an_earlier_host_is_not_sent_to_a_restarted_one() {
    let mut test = back_to(&running("call", "window"));
    test.core.finished(&key("call"), done("done"));
    test.carry_out();
    test.reconnects();
    test.refuse("reconnect", -32008);
    let again = chat(3, turn_with(&running("call", "window")));
    test.answer_initialize(3, json!([session(3, "new life"), again]));
    assert!(test.sent.iter().all(|sent| sent["method"] != "dispatchAction"));
}

/// Without the limit of the host, the client uses its own.
#[test]
fn a_result_that_is_longer_than_the_host_accepts_is_a_failure() {
    let limits = |own| ClientLimits {
        wire: WireLimits { message_bytes: own, ..wire() },
        ..ClientLimits::default()
    };
    let result_of = |own: usize, of_the_host: Value, letters: usize| {
        let mut test = ClientTest::with(limits(own));
        test.open();
        let meta = json!({ "reknit.epoch": "e", "reknit.message-bytes": of_the_host });
        let answer =
            json!({ "protocolVersion": "1.0.0", "serverSeq": 10, "snapshots": [], "_meta": meta });
        test.answer("initialize", answer);
        let _answered = test.subscribe("c");
        test.answer(
            "subscribe",
            json!({ "snapshot": chat(10, turn_with(&running("call", "window"))) }),
        );
        test.core.finished(&key("call"), done(&"x".repeat(letters)));
        test.carry_out();
        let sent = test.sent.iter().filter(|sent| sent["method"] == "dispatchAction");
        let sent = sent.map(|sent| sent["params"]["action"]["result"].clone()).collect::<Vec<_>>();
        assert_eq!(sent.len(), 1);
        sent[0].clone()
    };
    assert_eq!(result_of(1_000, json!(5_000), 3_000)["success"], true);
    let failure = result_of(1_000_000, json!(5_000), 5_000);
    assert_eq!((&failure["success"], &failure["content"]), (&json!(false), &Value::Null));
    assert_eq!(failure["pastTenseMessage"], "the result is too long");
    assert_eq!(result_of(5_000, Value::Null, 5_000)["success"], false);
    assert_eq!(result_of(5_000, Value::Null, 3_000)["success"], true);
}

#[test]
fn an_action_that_is_longer_than_the_host_accepts_is_refused() {
    let wire = WireLimits { message_bytes: 5_000, ..wire() };
    let mut test = ClientTest::with(ClientLimits { wire, ..ClientLimits::default() }).connecting();
    let (to, mut answered) = oneshot::channel();
    let long = serde_json::from_value(title(&"x".repeat(5_000))).unwrap();
    test.core.dispatch("s", long, Some(to));
    test.carry_out();
    assert_eq!(answered.try_recv(), Ok(Err(Failure::Rejected("the action is too long".into()))));
    assert!(!test.methods().contains(&"dispatchAction"));
    assert_eq!(test.title(), ("title".into(), "title".into()));
}

#[test]
fn an_action_of_a_call_that_an_earlier_host_may_have_executed_is_lost() {
    let outcome = |is_sent: bool| {
        let mut test = back_to(&running("call", "other"));
        if !is_sent {
            test.lose();
        }
        let mut done = test.dispatch("c", over("call"));
        test.reconnects();
        test.refuse("reconnect", -32008);
        let again = chat(3, turn_with(&running("call", "other")));
        test.answer_initialize(3, json!([session(3, "new life"), again]));
        done.try_recv()
    };
    assert_eq!(outcome(true), Ok(Err(Failure::Lost)));
    assert_eq!(outcome(false), Ok(Err(Failure::Rejected("no such call".into()))));
}
