//! The connection: attempts, pauses, handshakes, losses.

use super::*;

#[test]
fn the_first_attempt_is_made_at_once_and_later_ones_after_pauses_that_grow() {
    let mut test = ClientTest::new();
    let mut pauses = Vec::new();
    for _ in 0..8 {
        test.lose();
        pauses.push(test.core.due().unwrap() - test.now);
        test.wait(40 * S);
    }
    assert_eq!(test.opened, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    let half = |s: u32| s * S / 2; // the other half is drawn, and here it is nothing
    assert_eq!(pauses, [0, 1, 2, 4, 8, 16, 30, 30].map(half));
}

#[test]
fn a_long_connection_resets_the_backoff() {
    let mut test = ClientTest::connected();
    test.lose();
    test.wait(S);
    test.lose();
    test.wait(S);
    test.open();
    test.answer("reconnect", json!({ "type": "replay", "actions": [], "missing": [] }));
    test.wait(30 * S);
    test.lose();
    assert_eq!(test.core.due(), Some(test.now), "at once");
}

#[test]
fn a_short_connection_does_not_reset_the_backoff() {
    let mut test = ClientTest::connected();
    let mut pauses = Vec::new();
    for _ in 0..5 {
        test.lose();
        pauses.push(test.core.due().unwrap() - test.now);
        test.wait(40 * S);
        test.open();
        test.wait(S);
    }
    let half = |s: u32| s * S / 2; // the other half is drawn, and here it is nothing
    assert_eq!(pauses, [0, 1, 2, 4, 8].map(half));
}

#[test]
fn a_silent_host_is_given_up() {
    let mut test = ClientTest::new();
    test.open();
    test.wait(20 * S);
    assert_eq!(test.opened, [1, 2]);
}

#[test]
fn a_known_client_reconnects_with_its_last_action_and_its_channels() {
    let mut test = ClientTest::connected();
    test.deliver_action(11, "s", &title("x"));
    test.reconnects();
    assert_eq!(test.methods(), ["reconnect"]);
    let params = &test.sent[0]["params"];
    assert_eq!(
        (&params["lastSeenServerSeq"], &params["subscriptions"]),
        (&json!(11), &json!(["c", "s"]))
    );
    assert_eq!(params["_meta"]["reknit.epoch"], "epoch-1");
    assert_eq!(test.core.state(), State::Reconnecting);
}

#[test]
fn an_unknown_client_starts_over_with_channels_then_tokens_then_actions() {
    let mut test = ClientTest::connected();
    test.core.remember("https://model", "secret");
    let _done = test.dispatch("s", title("mine"));
    let _asked = {
        test.lose();
        test.request("createChat")
    };
    test.wait(40 * S);
    test.open();
    test.refuse("reconnect", -32008);
    assert_eq!(test.methods(), ["reconnect", "initialize"]);
    assert_eq!(test.sent[1]["params"]["initialSubscriptions"], json!(["c", "s"]));
    test.answer_initialize(3, json!([session(3, "new life"), chat(3, Value::Null)]));
    assert_eq!(test.methods()[2..], ["authenticate"], "and nothing before it is answered");
    test.answer("authenticate", json!({}));
    assert_eq!(test.methods()[3..], ["dispatchAction", "createChat"]);
    assert_eq!((test.core.seen(), test.title()), (3, ("new life".to_owned(), "mine".to_owned())));
}

#[test]
fn tokens_lost_with_their_connection_are_sent_again() {
    let mut test = ClientTest::connected();
    test.core.remember("https://model", "secret");
    test.reconnects();
    test.refuse("reconnect", -32008);
    test.answer_initialize(3, json!([session(3, "new life"), chat(3, Value::Null)]));
    test.reconnects();
    let replay = json!({ "type": "replay", "actions": [], "missing": [] });
    test.answer("reconnect", replay.clone());
    let request_id = test.methods();
    assert_eq!(request_id[request_id.len() - 1], "authenticate");
    test.answer("authenticate", json!({}));
    test.reconnects();
    test.answer("reconnect", replay);
    assert_eq!(test.core.state(), State::Connected, "the host has them");
}

/// The channels are restored, so the host already has this client as a subscriber.
#[test]
fn unsubscribing_while_tokens_are_sent_notifies_the_host() {
    let mut test = ClientTest::connected();
    test.core.remember("https://model", "secret");
    test.reconnects();
    test.refuse("reconnect", -32008);
    test.answer_initialize(3, json!([session(3, "new life"), chat(3, Value::Null)]));
    test.core.unsubscribe("c");
    test.carry_out();
    assert_eq!(test.methods()[2..], ["authenticate", "unsubscribe"]);
}

#[test]
fn a_refused_token_does_not_delay_the_connection() {
    let mut test = ClientTest::new();
    test.core.remember("https://model", "stale");
    test.open();
    test.answer_initialize(0, json!([]));
    test.refuse("authenticate", -32007);
    assert_eq!(test.core.state(), State::Connected);
}

#[test]
fn a_loss_in_the_middle_of_the_handshake_leads_to_the_next_attempt() {
    let mut test = ClientTest::connected();
    for _ in 0..3 {
        test.reconnects();
    }
    test.answer("reconnect", json!({ "type": "replay", "actions": [], "missing": [] }));
    assert_eq!((test.core.state(), test.core.resources().in_flight), (State::Connected, 0));
}

#[test]
fn events_of_an_older_connection_are_ignored() {
    let mut test = ClientTest::connected();
    test.reconnects();
    test.core.lost(1, test.now, 0);
    test.core.opened(1, 1, test.now);
    test.core.on_frame(
        1,
        action_message(&json!({ "channel": "s", "action": title("old"), "serverSeq": 99 }))
            .to_string()
            .as_bytes(),
        test.now,
        0,
    );
    test.carry_out();
    assert_eq!((test.core.seen(), test.opened.len(), test.methods().len()), (10, 2, 1));
}

#[test]
fn a_host_of_another_version_ends_the_client_and_everything_that_waits() {
    let mut test = ClientTest::new();
    let mut request_id = test.request("createSession");
    test.open();
    test.refuse("initialize", -32005);
    assert_eq!(test.core.state(), State::Closed(Failure::Incompatible));
    assert_eq!(request_id.try_recv().unwrap().unwrap_err(), Failure::Incompatible);
    assert_eq!(test.core.due(), None);
    assert_eq!(
        test.request("createSession").try_recv().unwrap().unwrap_err(),
        Failure::Incompatible
    );
}

#[test]
fn any_other_refusal_is_retried() {
    let mut test = ClientTest::new();
    test.open();
    test.refuse("initialize", -32011);
    test.wait(S);
    assert_eq!(test.opened, [1, 2]);
}

#[test]
fn a_malformed_message_closes_the_connection() {
    for nonsense in
        [json!([]), json!({ "jsonrpc": "2.0", "method": "action", "params": { "channel": 1 } })]
    {
        let mut test = ClientTest::connected();
        test.deliver(&nonsense);
        assert_eq!(test.core.state(), State::Reconnecting);
    }
    let mut test = ClientTest::new();
    test.open();
    test.answer("initialize", json!({ "serverSeq": "x" }));
    assert_eq!(test.core.state(), State::Connecting);
}

#[test]
fn a_ping_and_questions_of_the_host_are_answered_over_the_connection_that_asked() {
    let mut test = ClientTest::connected();
    test.deliver(&json!({ "jsonrpc": "2.0", "id": 7, "method": "ping" }));
    assert_eq!(test.sent.last().unwrap(), &json!({ "jsonrpc": "2.0", "id": 7, "result": null }));
    test.deliver(&json!({ "jsonrpc": "2.0", "id": 8, "method": "resourceRead", "params": {} }));
    assert_eq!(test.calls, ["asked resourceRead"]);
    test.reconnects();
    let before = test.sent.len();
    test.core.reply(1, RequestId::Number(8), Err((-32008, "no".into())));
    test.carry_out();
    assert_eq!(test.sent.len(), before, "nobody waits for it any more");
}

fn replayed() -> Value {
    json!({ "type": "replay", "actions": [], "missing": [] })
}

/// The frame may be the answer to any of them.
#[test]
fn a_frame_that_is_too_long_ends_the_requests_in_flight() {
    ends_the_requests_in_flight(|test| {
        test.core.broken(test.generation(), test.now, 0);
        test.carry_out();
    });
}

#[test]
fn a_frame_that_is_no_message_ends_the_requests_in_flight() {
    ends_the_requests_in_flight(|test| test.deliver(&json!([])));
}

fn ends_the_requests_in_flight(breaks: impl Fn(&mut ClientTest)) {
    let mut test = ClientTest::connected();
    let (mut new, mut known) = (test.subscribe("d"), test.subscribe("c"));
    let mut asked = test.request("createChat");
    breaks(&mut test);
    for answer in [new.try_recv(), known.try_recv()] {
        assert!(matches!(answer, Ok(Err(Failure::Malformed(_)))));
    }
    assert!(matches!(asked.try_recv(), Ok(Err(Failure::Malformed(_)))));
    test.wait(40 * S);
    test.open();
    assert_eq!(test.sent[0]["params"]["subscriptions"], json!(["c", "s"]));
    test.answer("reconnect", replayed());
    assert_eq!(test.methods(), ["reconnect"], "nothing is asked again");
}

#[test]
fn an_invalid_answer_to_a_subscription_is_reported_and_the_channel_is_dropped() {
    let mut test = ClientTest::connected();
    let mut answer = test.subscribe("d");
    test.answer("subscribe", json!({ "snapshot": 7 }));
    assert!(matches!(answer.try_recv(), Ok(Err(Failure::Malformed(_)))));
    assert_eq!((test.core.resources().channels, test.core.state()), (2, State::Reconnecting));
}

/// The handshake itself takes no place of the user's requests.
#[test]
fn a_client_accepts_a_request_during_the_handshake() {
    let limits = ClientLimits { held: 1, ..ClientLimits::default() };
    let mut test = ClientTest::with(limits).connecting();
    test.lose();
    test.wait(S);
    test.open();
    let mut first = test.request("createChat");
    assert!(first.try_recv().is_err(), "it waits");
    assert_eq!(test.request("createChat").try_recv().unwrap().unwrap_err(), Failure::Full);
    test.answer("reconnect", replayed());
    test.answer("createChat", Value::Null);
    assert!(first.try_recv().unwrap().is_ok());
}

#[test]
fn a_handshake_may_take_longer_than_a_request() {
    let limits = ClientLimits { request_deadline: S, ..ClientLimits::default() };
    let mut test = ClientTest::with(limits).connecting();
    test.reconnects();
    test.wait(19 * S);
    test.answer("reconnect", replayed());
    assert_eq!(test.core.state(), State::Connected);
}

#[test]
fn a_step_of_the_handshake_goes_on_while_its_answer_arrives() {
    let goes_on = |seconds: u32| {
        let mut test = ClientTest::connected();
        test.reconnects();
        test.wait(19 * S);
        let began = test.now - 19 * S;
        test.now += S;
        test.core.receiving(began + seconds * S, test.now);
        test.wait(10 * S);
        test.opened.len() == 2
    };
    assert!(goes_on(19), "the rest arrives within the timeout");
    assert!(!goes_on(5), "the host sends nothing more");
    let mut test = ClientTest::connected();
    test.reconnects();
    test.wait(19 * S);
    test.now += S;
    test.core.receiving(test.now, test.now);
    test.wait(19 * S);
    test.answer("reconnect", replayed());
    assert_eq!(test.core.state(), State::Connected);
}
