//! The user's requests, with and without a connection.

use super::*;

#[test]
fn requests_without_a_connection_are_sent_in_order() {
    let mut test = ClientTest::connected();
    test.lose();
    let _first = test.dispatch("s", title("1"));
    let _second = test.request("createChat");
    let _third = test.dispatch("s", title("2"));
    let _fourth = test.subscribe("c2");
    test.wait(40 * S);
    test.open();
    assert_eq!(test.methods(), ["reconnect"], "nothing before the handshake is over");
    test.answer("reconnect", json!({ "type": "replay", "actions": [], "missing": [] }));
    assert_eq!(
        test.methods()[1..],
        ["dispatchAction", "createChat", "dispatchAction", "subscribe"]
    );
}

#[test]
fn a_sent_action_is_retransmitted_before_later_ones() {
    let mut test = ClientTest::connected();
    let _said = [test.dispatch("s", title("1")), test.dispatch("s", title("2"))];
    test.lose();
    let _held = test.dispatch("s", title("3"));
    test.wait(40 * S);
    test.open();
    test.answer("reconnect", json!({ "type": "replay", "actions": [], "missing": [] }));
    let sent = test.sent[1..]
        .iter()
        .map(|sent| sent["params"]["clientSeq"].as_i64().unwrap())
        .collect::<Vec<_>>();
    assert_eq!(sent, [1, 2, 3]);
}

#[test]
fn an_action_with_a_replayed_echo_is_not_retransmitted() {
    let mut test = ClientTest::connected();
    let mut done = test.dispatch("s", title("1"));
    test.reconnects();
    let origin = json!({ "clientId": "window", "clientSeq": 1 });
    let echo = json!({ "channel": "s", "action": title("1"), "serverSeq": 11, "origin": origin });
    test.answer("reconnect", json!({ "type": "replay", "actions": [echo], "missing": [] }));
    assert_eq!((test.methods(), done.try_recv()), (vec!["reconnect"], Ok(Ok(()))));
}

#[test]
fn a_request_in_flight_at_a_loss_fails_and_a_subscription_is_asked_for_again() {
    let mut test = ClientTest::connected();
    let mut request = test.request("createChat");
    let mut subscription = test.subscribe("c2");
    test.lose();
    assert_eq!(request.try_recv().unwrap().unwrap_err(), Failure::Lost);
    assert!(subscription.try_recv().is_err(), "it waits");
    test.wait(40 * S);
    test.open();
    assert_eq!(
        test.sent[0]["params"]["subscriptions"],
        json!(["c", "s"]),
        "of the other there is no state"
    );
    test.answer("reconnect", json!({ "type": "replay", "actions": [], "missing": [] }));
    test.answer("subscribe", json!({ "snapshot": chat(12, Value::Null) }));
    assert_eq!(subscription.try_recv(), Ok(Ok(())));
}

#[test]
fn a_request_waits_no_longer_than_its_deadline_with_or_without_a_connection() {
    let mut test = ClientTest::connected();
    let mut in_flight = test.request("createChat");
    test.wait(60 * S);
    assert_eq!(in_flight.try_recv().unwrap().unwrap_err(), Failure::Late);
    test.lose();
    let mut held = test.request("createChat");
    test.wait(60 * S);
    assert_eq!(held.try_recv().unwrap().unwrap_err(), Failure::Late);
    assert_eq!((test.core.resources().held, test.core.resources().in_flight), (0, 0));
}

#[test]
fn a_late_answer_is_ignored() {
    let mut test = ClientTest::connected();
    let _request = test.request("createChat");
    let id = test.request_id("createChat");
    test.wait(60 * S);
    test.deliver(&json!({ "jsonrpc": "2.0", "id": id, "result": null }));
    assert_eq!(test.core.state(), State::Connected);
}

/// The host may subscribe the client later, so the client unsubscribes. A channel whose state it has
/// stays.
#[test]
fn a_subscription_without_an_answer_in_time_is_cancelled() {
    let mut test = ClientTest::connected();
    let before = test.methods().len();
    let mut new = test.subscribe("c2");
    let mut again = test.subscribe("c");
    test.wait(60 * S);
    assert_eq!(
        [new.try_recv(), again.try_recv()],
        [Ok(Err(Failure::Late)), Ok(Err(Failure::Late))]
    );
    assert_eq!(test.methods()[before..], ["subscribe", "subscribe", "unsubscribe"]);
    assert_eq!(test.core.resources().channels, 2);
}

#[test]
fn unsubscribing_cancels_a_waiting_subscription() {
    let mut test = ClientTest::connected();
    let mut in_flight = test.subscribe("c2");
    test.core.unsubscribe("c2");
    test.carry_out();
    assert_eq!(in_flight.try_recv(), Ok(Err(Failure::Unsubscribed)));
    assert_eq!(test.methods().last(), Some(&"unsubscribe"));
    test.lose();
    let mut held = test.subscribe("c3");
    test.core.unsubscribe("c3");
    assert_eq!(held.try_recv(), Ok(Err(Failure::Unsubscribed)));
    test.core.unsubscribe("s");
    test.wait(40 * S);
    test.open();
    assert_eq!(test.sent[0]["params"]["subscriptions"], json!(["c"]));
}

#[test]
fn subscribing_to_a_missing_channel_fails() {
    let mut test = ClientTest::connected();
    let mut answered = test.subscribe("nowhere");
    test.refuse("subscribe", -32008);
    assert_eq!(answered.try_recv(), Ok(Err(Failure::Gone)));
    assert_eq!(test.core.resources().channels, 2);
}

#[test]
fn the_queue_has_a_limit() {
    let limits =
        ClientLimits { held: 3, unconfirmed: 1, subscriptions: 3, ..ClientLimits::default() };
    let mut test = ClientTest::with(limits).connecting();
    let _first = test.dispatch("s", title("1"));
    assert_eq!(test.dispatch("s", title("2")).try_recv(), Ok(Err(Failure::Full)));
    let _third = test.subscribe(ROOT);
    assert_eq!(test.subscribe("more").try_recv(), Ok(Err(Failure::Full)));
    let _others = [test.request("a"), test.request("b")];
    assert_eq!(test.request("c").try_recv().unwrap().unwrap_err(), Failure::Full);
}

/// One of two joins is refused, before or after the host accepts the other one.
#[test]
fn the_refusal_of_a_join_does_not_undo_another_one() {
    for refused in [1, 2] {
        let mut test = ClientTest::connected();
        for _ in 0..2 {
            let (to, _) = oneshot::channel();
            test.core.join("s", to);
        }
        test.carry_out();
        let joins = test.sent.iter().filter(|sent| sent["method"] == "dispatchAction");
        let joins: Vec<Value> = joins.map(|sent| sent["params"]["action"].clone()).collect();
        for (number, action) in (1..).zip(joins) {
            let origin = json!({ "clientId": "window", "clientSeq": number });
            let mut envelope = json!({ "channel": "s", "action": action, "serverSeq": 10 + number, "origin": origin });
            if number == refused {
                envelope["rejectionReason"] = json!("the session is full");
            }
            test.deliver(&action_message(&envelope));
        }
        test.reconnects();
        let snapshots = json!([session(20, "title"), chat(20, Value::Null)]);
        test.answer("reconnect", json!({ "type": "snapshot", "snapshots": snapshots }));
        let methods = test.methods();
        assert!(methods.contains(&"dispatchAction"), "it joins again: {refused} {methods:?}");
    }
}
