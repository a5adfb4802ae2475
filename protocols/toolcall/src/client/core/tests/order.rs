//! The user's requests, with and without a connection.

use super::*;

#[test]
fn requests_without_a_connection_are_sent_in_order() {
    let mut window = Window::connected();
    window.lose();
    let _first = window.dispatch("s", title("1"));
    let _second = window.request("createChat");
    let _third = window.dispatch("s", title("2"));
    let _fourth = window.subscribe("c2");
    window.wait(40 * S);
    window.open();
    assert_eq!(window.methods(), ["reconnect"], "nothing before the handshake is over");
    window.answer("reconnect", json!({ "type": "replay", "actions": [], "missing": [] }));
    assert_eq!(
        window.methods()[1..],
        ["dispatchAction", "createChat", "dispatchAction", "subscribe"]
    );
}

#[test]
fn a_sent_action_is_retransmitted_before_later_ones() {
    let mut window = Window::connected();
    let _said = [window.dispatch("s", title("1")), window.dispatch("s", title("2"))];
    window.lose();
    let _held = window.dispatch("s", title("3"));
    window.wait(40 * S);
    window.open();
    window.answer("reconnect", json!({ "type": "replay", "actions": [], "missing": [] }));
    let sent = window.sent[1..]
        .iter()
        .map(|sent| sent["params"]["clientSeq"].as_i64().unwrap())
        .collect::<Vec<_>>();
    assert_eq!(sent, [1, 2, 3]);
}

#[test]
fn an_action_with_a_replayed_echo_is_not_retransmitted() {
    let mut window = Window::connected();
    let mut done = window.dispatch("s", title("1"));
    window.comes_back();
    let origin = json!({ "clientId": "window", "clientSeq": 1 });
    let echo = json!({ "channel": "s", "action": title("1"), "serverSeq": 11, "origin": origin });
    window.answer("reconnect", json!({ "type": "replay", "actions": [echo], "missing": [] }));
    assert_eq!((window.methods(), done.try_recv()), (vec!["reconnect"], Ok(Ok(()))));
}

#[test]
fn a_request_in_flight_at_a_loss_fails_and_a_subscription_is_asked_for_again() {
    let mut window = Window::connected();
    let mut request = window.request("createChat");
    let mut subscription = window.subscribe("c2");
    window.lose();
    assert_eq!(request.try_recv().unwrap().unwrap_err(), Failure::Lost);
    assert!(subscription.try_recv().is_err(), "it waits");
    window.wait(40 * S);
    window.open();
    assert_eq!(
        window.sent[0]["params"]["subscriptions"],
        json!(["c", "s"]),
        "of the other there is no state"
    );
    window.answer("reconnect", json!({ "type": "replay", "actions": [], "missing": [] }));
    window.answer("subscribe", json!({ "snapshot": chat(12, Value::Null) }));
    assert_eq!(subscription.try_recv(), Ok(Ok(())));
}

#[test]
fn a_request_waits_no_longer_than_its_deadline_with_or_without_a_connection() {
    let mut window = Window::connected();
    let mut in_flight = window.request("createChat");
    window.wait(60 * S);
    assert_eq!(in_flight.try_recv().unwrap().unwrap_err(), Failure::Late);
    window.lose();
    let mut held = window.request("createChat");
    window.wait(60 * S);
    assert_eq!(held.try_recv().unwrap().unwrap_err(), Failure::Late);
    assert_eq!((window.core.resources().held, window.core.resources().in_flight), (0, 0));
}

#[test]
fn a_late_answer_is_ignored() {
    let mut window = Window::connected();
    let _request = window.request("createChat");
    let id = window.asked("createChat");
    window.wait(60 * S);
    window.hear(&json!({ "jsonrpc": "2.0", "id": id, "result": null }));
    assert_eq!(window.core.state(), State::Connected);
}

#[test]
fn unsubscribing_cancels_a_waiting_subscription() {
    let mut window = Window::connected();
    let mut in_flight = window.subscribe("c2");
    window.core.unsubscribe("c2");
    window.carry_out();
    assert_eq!(in_flight.try_recv(), Ok(Err(Failure::Unsubscribed)));
    assert_eq!(window.methods().last(), Some(&"unsubscribe"));
    window.lose();
    let mut held = window.subscribe("c3");
    window.core.unsubscribe("c3");
    assert_eq!(held.try_recv(), Ok(Err(Failure::Unsubscribed)));
    window.core.unsubscribe("s");
    window.wait(40 * S);
    window.open();
    assert_eq!(window.sent[0]["params"]["subscriptions"], json!(["c"]));
}

#[test]
fn subscribing_to_a_missing_channel_fails() {
    let mut window = Window::connected();
    let mut answered = window.subscribe("nowhere");
    window.refuse("subscribe", -32008);
    assert_eq!(answered.try_recv(), Ok(Err(Failure::Gone)));
    assert_eq!(window.core.resources().channels, 2);
}

#[test]
fn the_queue_has_a_limit() {
    let limits =
        ClientLimits { held: 3, unconfirmed: 1, subscriptions: 3, ..ClientLimits::default() };
    let mut window = Window::with(limits).connecting();
    let _first = window.dispatch("s", title("1"));
    assert_eq!(window.dispatch("s", title("2")).try_recv(), Ok(Err(Failure::Full)));
    let _third = window.subscribe(ROOT);
    assert_eq!(window.subscribe("more").try_recv(), Ok(Err(Failure::Full)));
    let _others = [window.request("a"), window.request("b")];
    assert_eq!(window.request("c").try_recv().unwrap().unwrap_err(), Failure::Full);
}
