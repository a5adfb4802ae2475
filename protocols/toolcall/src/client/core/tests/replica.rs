//! The confirmed state of a channel, and pending actions.

use super::*;

#[test]
fn an_action_is_visible_at_once_and_confirmed_by_its_echo() {
    let mut test = ClientTest::connected();
    let mut done = test.dispatch("s", title("mine"));
    assert_eq!(test.title(), ("title".to_owned(), "mine".to_owned()));
    let origin = json!({ "clientId": "window", "clientSeq": 1 });
    test.deliver(&action_message(
        &json!({ "channel": "s", "action": title("mine"), "serverSeq": 11, "origin": origin }),
    ));
    assert_eq!((test.title().0.as_str(), done.try_recv()), ("mine", Ok(Ok(()))));
    assert_eq!(test.core.resources().unconfirmed, 0);
}

/// The window was reloaded with its id: the host reports an action of the client before.
#[test]
fn an_action_of_an_earlier_client_with_the_same_number_confirms_nothing() {
    let mut test = ClientTest::connected();
    let mut done = test.dispatch("s", title("mine"));
    let origin = json!({ "clientId": "window", "clientSeq": 1 });
    let echo = |seq: u64, action: Value| {
        action_message(
            &json!({ "channel": "s", "action": action, "serverSeq": seq, "origin": origin }),
        )
    };
    let left = json!({ "type": "session/activeClientRemoved", "clientId": "window" });
    test.deliver(&echo(11, left));
    assert_eq!(test.title(), ("title".to_owned(), "mine".to_owned()));
    test.deliver(&echo(11, json!("no object")));
    assert!(done.try_recv().is_err());
    test.deliver(&echo(12, title("mine")));
    assert_eq!(done.try_recv(), Ok(Ok(())));
}

#[test]
fn pending_actions_are_applied_on_top_of_other_clients_actions() {
    let mut test = ClientTest::connected();
    let _done = test.dispatch("s", title("mine"));
    test.deliver_action(11, "s", &title("theirs"));
    assert_eq!(test.title(), ("theirs".to_owned(), "mine".to_owned()));
}

#[test]
fn a_rejected_action_is_undone() {
    let mut test = ClientTest::connected();
    let mut done = test.dispatch("s", title("mine"));
    let origin = json!({ "clientId": "window", "clientSeq": 1 });
    let refused = json!({
        "channel": "s", "action": title("mine"), "serverSeq": 10, "origin": origin, "rejectionReason": "no",
    });
    test.deliver(&action_message(&refused));
    assert_eq!(test.title(), ("title".to_owned(), "title".to_owned()));
    assert_eq!(done.try_recv(), Ok(Err(Failure::Rejected("no".into()))));
}

#[test]
fn an_action_that_does_not_fit_the_local_state_is_not_sent() {
    let mut test = ClientTest::connected();
    let before = test.sent.len();
    let complete = test.dispatch("c", over("call")).try_recv();
    assert_eq!(complete, Ok(Err(Failure::Rejected("the turn is not in progress".into()))));
    assert_eq!(test.dispatch("elsewhere", title("x")).try_recv(), Ok(Err(Failure::Gone)));
    assert_eq!(test.sent.len(), before);
}

#[test]
fn a_removed_session_is_dropped() {
    let mut test = ClientTest::connected();
    let mut done = test.dispatch("s", title("mine"));
    let removed = |session: &str| json!({ "jsonrpc": "2.0", "method": "root/sessionRemoved", "params": { "channel": ROOT, "session": session } });
    test.deliver(&removed("elsewhere"));
    assert!(test.core.confirmed("s").is_some());
    test.deliver(&removed("s"));
    assert!(test.core.confirmed("s").is_none() && test.core.confirmed("c").is_some());
    assert_eq!(done.try_recv(), Ok(Err(Failure::Gone)));
}

/// The client subscribed again before it learned that the older session with that name was removed.
#[test]
fn a_recreated_session_is_known_after_its_snapshot() {
    let mut test = ClientTest::connected();
    let (to, mut answered) = oneshot::channel();
    test.core.subscribe("s", to, test.now);
    test.carry_out();
    test.deliver(&json!({ "jsonrpc": "2.0", "method": "root/sessionRemoved", "params": { "channel": ROOT, "session": "s" } }));
    test.answer("subscribe", json!({ "snapshot": session(12, "anew") }));
    assert_eq!((answered.try_recv(), test.title().0.as_str()), (Ok(Ok(())), "anew"));
}

/// The session was removed, the client subscribed again, and then unsubscribed.
#[test]
fn unsubscribing_from_a_session_before_its_recreation_drops_it() {
    let mut test = ClientTest::connected();
    let mut answered = test.subscribe("s");
    let request_id = test.request_id("subscribe");
    test.deliver(&json!({ "jsonrpc": "2.0", "method": "root/sessionRemoved", "params": { "channel": ROOT, "session": "s" } }));
    test.core.unsubscribe("s");
    test.carry_out();
    assert_eq!(
        (answered.try_recv(), test.methods().last()),
        (Ok(Err(Failure::Unsubscribed)), Some(&"unsubscribe"))
    );
    test.deliver(
        &json!({ "jsonrpc": "2.0", "id": request_id, "result": { "snapshot": session(12, "anew") } }),
    );
    assert!(test.core.confirmed("s").is_none());
}

/// The session was removed, and the client subscribed again without getting an answer: the host may
/// have subscribed it.
#[test]
fn a_subscription_that_times_out_is_unsubscribed() {
    let mut test = ClientTest::connected();
    let mut answered = test.subscribe("s");
    test.deliver(&json!({ "jsonrpc": "2.0", "method": "root/sessionRemoved", "params": { "channel": ROOT, "session": "s" } }));
    for _ in 0..60 {
        test.wait(S);
        test.deliver(&json!({ "jsonrpc": "2.0", "method": "nothing" }));
    }
    assert_eq!(answered.try_recv(), Ok(Err(Failure::Late)));
    assert!(test.methods().contains(&"unsubscribe"));
}

/// A second request for the chat is in flight as the chat is removed. It brings a newer one.
#[test]
fn a_removed_channel_keeps_its_place_while_it_is_requested() {
    let limits = ClientLimits { subscriptions: 2, ..ClientLimits::default() };
    let mut test = ClientTest::with(limits).connecting();
    let mut again = test.subscribe("c");
    test.deliver_action(11, "s", &json!({ "type": "session/chatRemoved", "chat": "c" }));
    assert!(test.core.confirmed("c").is_none());
    assert_eq!(test.subscribe("d").try_recv(), Ok(Err(Failure::Full)));
    test.answer("subscribe", json!({ "snapshot": chat(12, Value::Null) }));
    assert_eq!((again.try_recv(), test.core.resources().channels), (Ok(Ok(())), 2));
    assert!(test.core.confirmed("c").is_some());
}

/// Both may happen before a reader looks. The two chats are equal.
#[test]
fn a_channel_that_is_removed_and_received_again_is_another_copy() {
    let mut test = ClientTest::connected();
    let number = |test: &ClientTest| test.core.confirmed_copy("c").map(|(number, _)| number);
    let before = number(&test);
    let mut again = test.subscribe("c");
    test.deliver_action(11, "s", &json!({ "type": "session/chatRemoved", "chat": "c" }));
    test.answer("subscribe", json!({ "snapshot": chat(12, Value::Null) }));
    assert_eq!(again.try_recv(), Ok(Ok(())));
    assert!(before.is_some() && number(&test).is_some() && number(&test) != before);
    let after = number(&test);
    let mut third = test.subscribe("c");
    test.answer("subscribe", json!({ "snapshot": chat(13, Value::Null) }));
    assert_eq!((third.try_recv(), number(&test)), (Ok(Ok(())), after));
}

/// A client that never subscribed to the session is notified about its subscribed chat.
#[test]
fn a_chat_removed_by_its_session_is_dropped_without_a_session_subscription() {
    let mut test = ClientTest::connected();
    test.core.unsubscribe("s");
    test.deliver_action(11, "s", &json!({ "type": "session/chatRemoved", "chat": "c" }));
    assert!(test.core.confirmed("c").is_none());
    assert_eq!(test.core.seen(), 11);
}

#[test]
fn an_action_that_is_known_already_is_not_applied_again() {
    let mut test = ClientTest::connected();
    test.deliver_action(11, "s", &title("eleven"));
    test.deliver_action(10, "s", &title("in the snapshot"));
    test.deliver_action(11, "s", &title("again"));
    assert_eq!((test.title().0.as_str(), test.core.seen()), ("eleven", 11));
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
        let mut test = ClientTest::connected();
        test.reconnects();
        test.answer("reconnect", answer);
        assert_eq!(
            (test.title().0.as_str(), test.core.seen(), test.core.state()),
            ("b", 14, State::Connected)
        );
    }
}

#[test]
fn a_snapshot_with_a_lower_number_is_applied() {
    let mut test = ClientTest::connected();
    test.reconnects();
    test.answer(
        "reconnect",
        json!({ "type": "snapshot", "snapshots": [session(2, "lower"), chat(2, Value::Null)] }),
    );
    test.deliver_action(3, "s", &title("three"));
    assert_eq!((test.title().0.as_str(), test.core.seen()), ("three", 3));
}

#[test]
fn a_missing_channel_is_dropped_with_its_pending_actions() {
    let missing = [
        json!({ "type": "replay", "actions": [], "missing": ["s"] }),
        json!({ "type": "snapshot", "snapshots": [chat(12, Value::Null)] }),
    ];
    for answer in missing {
        let mut test = ClientTest::connected();
        let mut done = test.dispatch("s", title("mine"));
        test.reconnects();
        test.answer("reconnect", answer);
        assert_eq!(test.core.view("s"), None);
        assert_eq!(done.try_recv(), Ok(Err(Failure::Gone)));
        assert!(test.core.view("c").is_some());
    }
}

#[test]
fn a_channel_over_the_size_limit_is_dropped() {
    let mut test =
        ClientTest::with(ClientLimits { channel_bytes: 2000, ..ClientLimits::default() })
            .connecting();
    for seq in 11..40 {
        test.deliver_action(seq, "s", &title(&"x".repeat(100)));
    }
    assert!(test.core.view("s").is_some(), "each took the place of the one before");
    test.deliver_action(40, "s", &title(&"x".repeat(2000)));
    assert_eq!((test.core.view("s"), test.methods().last()), (None, Some(&"unsubscribe")));
    assert_eq!(test.core.state(), State::Connected);
}

/// The user leaves the session, and goes on watching it.
#[test]
fn a_client_that_leaves_its_session_does_not_join_again() {
    let mut test = ClientTest::connected();
    let (to, _done) = oneshot::channel();
    test.core.join("s", to);
    test.carry_out();
    let confirms = |test: &mut ClientTest, seq: u64| {
        let action = test.sent.last().unwrap()["params"]["action"].clone();
        let origin = json!({ "clientId": "window", "clientSeq": seq - 10 });
        test.deliver(&action_message(
            &json!({ "channel": "s", "action": action, "serverSeq": seq, "origin": origin }),
        ));
    };
    confirms(&mut test, 11);
    let mut left =
        test.dispatch("s", json!({ "type": "session/activeClientRemoved", "clientId": "window" }));
    confirms(&mut test, 12);
    assert_eq!(left.try_recv(), Ok(Ok(())));
    assert_eq!(test.methods().iter().filter(|sent| **sent == "dispatchAction").count(), 2);
    test.reconnects();
    test.answer("reconnect", json!({ "type": "replay", "actions": [], "missing": [] }));
    assert_eq!(test.methods(), ["reconnect"]);
}

/// The user knows that the client does not take part.
#[test]
fn a_client_whose_join_failed_does_not_join_later() {
    let refused = |test: &mut ClientTest| {
        let (to, mut done) = oneshot::channel();
        test.core.join("s", to);
        test.carry_out();
        let action = test.sent.last().unwrap()["params"]["action"].clone();
        let origin = json!({ "clientId": "window", "clientSeq": 1 });
        test.deliver(&action_message(&json!({
            "channel": "s", "action": action, "serverSeq": 10, "origin": origin, "rejectionReason": "full",
        })));
        assert_eq!(done.try_recv(), Ok(Err(Failure::Rejected("full".into()))));
    };
    let not_sent = |test: &mut ClientTest| {
        test.core.unsubscribe("s");
        let (to, mut done) = oneshot::channel();
        test.core.join("s", to);
        assert_eq!(done.try_recv(), Ok(Err(Failure::Gone)));
        let _again = test.subscribe("s");
        test.answer("subscribe", json!({ "snapshot": session(12, "title") }));
    };
    for fails in [&refused as &dyn Fn(&mut ClientTest), &not_sent] {
        let mut test = ClientTest::connected();
        fails(&mut test);
        test.reconnects();
        test.answer("reconnect", json!({ "type": "replay", "actions": [], "missing": [] }));
        assert_eq!(test.methods(), ["reconnect"]);
    }
}

#[test]
fn a_client_removed_from_its_session_joins_again() {
    let mut test = ClientTest::connected();
    let (to, _done) = oneshot::channel();
    test.core.join("s", to);
    test.carry_out();
    let active = test.sent.last().unwrap()["params"]["action"].clone();
    let origin = json!({ "clientId": "window", "clientSeq": 1 });
    test.deliver(&action_message(
        &json!({ "channel": "s", "action": active, "serverSeq": 11, "origin": origin }),
    ));
    test.reconnects();
    test.answer(
        "reconnect",
        json!({ "type": "snapshot", "snapshots": [session(30, "title"), chat(30, Value::Null)] }),
    );
    assert_eq!(test.sent.last().unwrap()["params"]["action"]["type"], "session/activeClientSet");
    test.reconnects();
    test.answer("reconnect", json!({ "type": "replay", "actions": [], "missing": [] }));
    let joins = test.methods().iter().filter(|method| **method == "dispatchAction").count();
    assert_eq!(joins, 1, "it is said again, and not twice");
}

/// The join took effect, and the grace period passed before the client reconnected. The host
/// answers the retransmission with success, although the join is undone by then.
#[test]
fn a_client_removed_before_its_join_was_confirmed_joins_again() {
    let mut test = ClientTest::connected();
    let (to, _done) = oneshot::channel();
    test.core.join("s", to);
    test.carry_out();
    let active = test.sent.last().unwrap()["params"]["action"].clone();
    test.reconnects();
    test.answer(
        "reconnect",
        json!({ "type": "snapshot", "snapshots": [session(30, "title"), chat(30, Value::Null)] }),
    );
    let origin = json!({ "clientId": "window", "clientSeq": 1 });
    test.deliver(&action_message(
        &json!({ "channel": "s", "action": active, "serverSeq": 11, "origin": origin }),
    ));
    let last = &test.sent.last().unwrap()["params"];
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
        let mut test = ClientTest::connected();
        test.reconnects();
        test.core.unsubscribe("c");
        test.carry_out();
        test.answer("reconnect", answer);
        let last = test.sent.last().unwrap();
        assert_eq!(
            (&last["method"], &last["params"]["channel"]),
            (&json!("unsubscribe"), &json!("c"))
        );
        assert_eq!(test.core.view("c"), None);
    }
}

/// Otherwise the host keeps what depends on the earlier subscription: calls, and the place in a
/// session.
#[test]
fn unsubscribing_during_the_handshake_is_sent_before_a_later_subscription() {
    for answer in [
        json!({ "type": "replay", "actions": [], "missing": [] }),
        json!({ "type": "snapshot", "snapshots": [session(10, "title"), chat(10, Value::Null)] }),
    ] {
        let mut test = ClientTest::connected();
        test.reconnects();
        test.core.unsubscribe("c");
        let _answered = test.subscribe("c");
        test.answer("reconnect", answer);
        assert_eq!(test.methods(), ["reconnect", "unsubscribe", "subscribe"]);
        assert_eq!(test.core.view("c"), None, "the state follows with the answer");
        test.answer("subscribe", json!({ "snapshot": chat(12, Value::Null) }));
        assert!(test.core.view("c").is_some());
    }
}
