//! The confirmed state of a channel, and pending actions.

use super::*;

#[test]
fn an_action_is_visible_at_once_and_confirmed_by_its_echo() {
    let mut window = Window::connected();
    let mut done = window.dispatch("s", title("mine"));
    assert_eq!(window.title(), ("title".to_owned(), "mine".to_owned()));
    let origin = json!({ "clientId": "window", "clientSeq": 1 });
    window.hear(&action_message(
        &json!({ "channel": "s", "action": title("mine"), "serverSeq": 11, "origin": origin }),
    ));
    assert_eq!((window.title().0.as_str(), done.try_recv()), ("mine", Ok(Ok(()))));
    assert_eq!(window.core.resources().unconfirmed, 0);
}

#[test]
fn pending_actions_are_applied_on_top_of_other_clients_actions() {
    let mut window = Window::connected();
    let _done = window.dispatch("s", title("mine"));
    window.happens(11, "s", &title("theirs"));
    assert_eq!(window.title(), ("theirs".to_owned(), "mine".to_owned()));
}

#[test]
fn a_rejected_action_is_undone() {
    let mut window = Window::connected();
    let mut done = window.dispatch("s", title("mine"));
    let origin = json!({ "clientId": "window", "clientSeq": 1 });
    let refused = json!({
        "channel": "s", "action": title("mine"), "serverSeq": 10, "origin": origin, "rejectionReason": "no",
    });
    window.hear(&action_message(&refused));
    assert_eq!(window.title(), ("title".to_owned(), "title".to_owned()));
    assert_eq!(done.try_recv(), Ok(Err(Failure::Rejected("no".into()))));
}

#[test]
fn an_action_that_does_not_fit_the_local_state_is_not_sent() {
    let mut window = Window::connected();
    let before = window.sent.len();
    let complete = window.dispatch("c", over("call")).try_recv();
    assert_eq!(complete, Ok(Err(Failure::Rejected("the turn is not in progress".into()))));
    assert_eq!(window.dispatch("elsewhere", title("x")).try_recv(), Ok(Err(Failure::Gone)));
    assert_eq!(window.sent.len(), before);
}

#[test]
fn a_removed_session_is_dropped() {
    let mut window = Window::connected();
    let mut done = window.dispatch("s", title("mine"));
    let removed = |session: &str| json!({ "jsonrpc": "2.0", "method": "root/sessionRemoved", "params": { "channel": ROOT, "session": session } });
    window.hear(&removed("elsewhere"));
    assert!(window.core.confirmed("s").is_some());
    window.hear(&removed("s"));
    assert!(window.core.confirmed("s").is_none() && window.core.confirmed("c").is_some());
    assert_eq!(done.try_recv(), Ok(Err(Failure::Gone)));
}

/// The client subscribed again before it learned that the older session with that name was removed.
#[test]
fn a_recreated_session_is_known_after_its_snapshot() {
    let mut window = Window::connected();
    let (to, mut answered) = oneshot::channel();
    window.core.subscribe("s", to, window.now);
    window.carry_out();
    window.hear(&json!({ "jsonrpc": "2.0", "method": "root/sessionRemoved", "params": { "channel": ROOT, "session": "s" } }));
    window.answer("subscribe", json!({ "snapshot": session(12, "anew") }));
    assert_eq!((answered.try_recv(), window.title().0.as_str()), (Ok(Ok(())), "anew"));
}

/// The session was removed, the client subscribed again, and then unsubscribed.
#[test]
fn unsubscribing_from_a_session_before_its_recreation_drops_it() {
    let mut window = Window::connected();
    let mut answered = window.subscribe("s");
    let asked = window.asked("subscribe");
    window.hear(&json!({ "jsonrpc": "2.0", "method": "root/sessionRemoved", "params": { "channel": ROOT, "session": "s" } }));
    window.core.unsubscribe("s");
    window.carry_out();
    assert_eq!(
        (answered.try_recv(), window.methods().last()),
        (Ok(Err(Failure::Unsubscribed)), Some(&"unsubscribe"))
    );
    window.hear(
        &json!({ "jsonrpc": "2.0", "id": asked, "result": { "snapshot": session(12, "anew") } }),
    );
    assert!(window.core.confirmed("s").is_none());
}

/// The session was removed, and the client subscribed again without getting an answer: the host may
/// have subscribed it.
#[test]
fn a_subscription_that_times_out_is_unsubscribed() {
    let mut window = Window::connected();
    let mut answered = window.subscribe("s");
    window.hear(&json!({ "jsonrpc": "2.0", "method": "root/sessionRemoved", "params": { "channel": ROOT, "session": "s" } }));
    for _ in 0..60 {
        window.wait(S);
        window.hear(&json!({ "jsonrpc": "2.0", "method": "nothing" }));
    }
    assert_eq!(answered.try_recv(), Ok(Err(Failure::Late)));
    assert!(window.methods().contains(&"unsubscribe"));
}

/// A client that never subscribed to the session is notified about its subscribed chat.
#[test]
fn a_chat_removed_by_its_session_is_dropped_without_a_session_subscription() {
    let mut window = Window::connected();
    window.core.unsubscribe("s");
    window.happens(11, "s", &json!({ "type": "session/chatRemoved", "chat": "c" }));
    assert!(window.core.confirmed("c").is_none());
    assert_eq!(window.core.seen(), 11);
}

#[test]
fn an_action_that_is_known_already_is_not_applied_again() {
    let mut window = Window::connected();
    window.happens(11, "s", &title("eleven"));
    window.happens(10, "s", &title("in the snapshot"));
    window.happens(11, "s", &title("again"));
    assert_eq!((window.title().0.as_str(), window.core.seen()), ("eleven", 11));
}

#[test]
fn a_replay_and_a_snapshot_give_the_same_state() {
    let replay = json!({
        "type": "replay", "missing": [],
        "actions": [{ "channel": "s", "action": title("a"), "serverSeq": 11 }, { "channel": "s", "action": title("b"), "serverSeq": 14 }],
    });
    let snapshot =
        json!({ "type": "snapshot", "snapshots": [session(14, "b"), chat(14, Value::Null)] });
    for answer in [replay, snapshot] {
        let mut window = Window::connected();
        window.comes_back();
        window.answer("reconnect", answer);
        assert_eq!(
            (window.title().0.as_str(), window.core.seen(), window.core.state()),
            ("b", 14, State::Connected)
        );
    }
}

#[test]
fn a_snapshot_with_a_lower_number_is_applied() {
    let mut window = Window::connected();
    window.comes_back();
    window.answer(
        "reconnect",
        json!({ "type": "snapshot", "snapshots": [session(2, "lower"), chat(2, Value::Null)] }),
    );
    window.happens(3, "s", &title("three"));
    assert_eq!((window.title().0.as_str(), window.core.seen()), ("three", 3));
}

#[test]
fn a_missing_channel_is_dropped_with_its_pending_actions() {
    let missing = [
        json!({ "type": "replay", "actions": [], "missing": ["s"] }),
        json!({ "type": "snapshot", "snapshots": [chat(12, Value::Null)] }),
    ];
    for answer in missing {
        let mut window = Window::connected();
        let mut done = window.dispatch("s", title("mine"));
        window.comes_back();
        window.answer("reconnect", answer);
        assert_eq!(window.core.view("s"), None);
        assert_eq!(done.try_recv(), Ok(Err(Failure::Gone)));
        assert!(window.core.view("c").is_some());
    }
}

#[test]
fn a_channel_over_the_size_limit_is_dropped() {
    let mut window =
        Window::with(ClientLimits { channel_bytes: 2000, ..ClientLimits::default() }).connecting();
    for seq in 11..40 {
        window.happens(seq, "s", &title(&"x".repeat(100)));
    }
    assert!(window.core.view("s").is_some(), "each took the place of the one before");
    window.happens(40, "s", &title(&"x".repeat(2000)));
    assert_eq!((window.core.view("s"), window.methods().last()), (None, Some(&"unsubscribe")));
    assert_eq!(window.core.state(), State::Connected);
}

#[test]
fn a_client_removed_from_its_session_joins_again() {
    let mut window = Window::connected();
    let (to, _done) = oneshot::channel();
    window.core.join("s", to);
    window.carry_out();
    let active = window.sent.last().unwrap()["params"]["action"].clone();
    let origin = json!({ "clientId": "window", "clientSeq": 1 });
    window.hear(&action_message(
        &json!({ "channel": "s", "action": active, "serverSeq": 11, "origin": origin }),
    ));
    window.comes_back();
    window.answer(
        "reconnect",
        json!({ "type": "snapshot", "snapshots": [session(30, "title"), chat(30, Value::Null)] }),
    );
    assert_eq!(window.sent.last().unwrap()["params"]["action"]["type"], "session/activeClientSet");
    window.comes_back();
    window.answer("reconnect", json!({ "type": "replay", "actions": [], "missing": [] }));
    let joins = window.methods().iter().filter(|method| **method == "dispatchAction").count();
    assert_eq!(joins, 1, "it is said again, and not twice");
}

/// The join took effect, and the grace period passed before the client reconnected. The host
/// answers the retransmission with success, although the join is undone by then.
#[test]
fn a_client_removed_before_its_join_was_confirmed_joins_again() {
    let mut window = Window::connected();
    let (to, _done) = oneshot::channel();
    window.core.join("s", to);
    window.carry_out();
    let active = window.sent.last().unwrap()["params"]["action"].clone();
    window.comes_back();
    window.answer(
        "reconnect",
        json!({ "type": "snapshot", "snapshots": [session(30, "title"), chat(30, Value::Null)] }),
    );
    let origin = json!({ "clientId": "window", "clientSeq": 1 });
    window.hear(&action_message(
        &json!({ "channel": "s", "action": active, "serverSeq": 11, "origin": origin }),
    ));
    let last = &window.sent.last().unwrap()["params"];
    assert_eq!(
        (&last["clientSeq"], &last["action"]["type"]),
        (&json!(2), &json!("session/activeClientSet"))
    );
}

#[test]
fn unsubscribing_during_the_handshake_is_sent_after_it() {
    for answer in [
        json!({ "type": "replay", "actions": [], "missing": [] }),
        json!({ "type": "snapshot", "snapshots": [session(10, "title"), chat(10, Value::Null)] }),
    ] {
        let mut window = Window::connected();
        window.comes_back();
        window.core.unsubscribe("c");
        window.carry_out();
        window.answer("reconnect", answer);
        let last = window.sent.last().unwrap();
        assert_eq!(
            (&last["method"], &last["params"]["channel"]),
            (&json!("unsubscribe"), &json!("c"))
        );
        assert_eq!(window.core.view("c"), None);
    }
}
