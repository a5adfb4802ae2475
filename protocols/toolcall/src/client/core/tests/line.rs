//! The connection: attempts, pauses, handshakes, losses.

use super::*;

#[test]
fn the_first_attempt_is_made_at_once_and_later_ones_after_pauses_that_grow() {
    let mut window = Window::new();
    let mut pauses = Vec::new();
    for _ in 0..8 {
        window.lose();
        pauses.push(window.core.due().unwrap() - window.now);
        window.wait(40 * S);
    }
    assert_eq!(window.opened, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    let half = |s: u32| s * S / 2; // the other half is drawn, and here it is nothing
    assert_eq!(pauses, [0, 1, 2, 4, 8, 16, 30, 30].map(half));
}

#[test]
fn a_long_connection_resets_the_backoff() {
    let mut window = Window::connected();
    window.lose();
    window.wait(S);
    window.lose();
    window.wait(S);
    window.open();
    window.answer("reconnect", json!({ "type": "replay", "actions": [], "missing": [] }));
    window.wait(30 * S);
    window.lose();
    assert_eq!(window.core.due(), Some(window.now), "at once");
}

#[test]
fn a_silent_host_is_given_up() {
    let mut window = Window::new();
    window.open();
    window.wait(20 * S);
    assert_eq!(window.opened, [1, 2]);
}

#[test]
fn a_known_client_reconnects_with_its_last_action_and_its_channels() {
    let mut window = Window::connected();
    window.happens(11, "s", &title("x"));
    window.comes_back();
    assert_eq!(window.methods(), ["reconnect"]);
    let params = &window.sent[0]["params"];
    assert_eq!(
        (&params["lastSeenServerSeq"], &params["subscriptions"]),
        (&json!(11), &json!(["c", "s"]))
    );
    assert_eq!(params["_meta"]["reknit.epoch"], "epoch-1");
    assert_eq!(window.core.state(), State::Reconnecting);
}

#[test]
fn an_unknown_client_starts_over_with_channels_then_tokens_then_actions() {
    let mut window = Window::connected();
    window.core.remember("https://model", "secret");
    let _done = window.dispatch("s", title("mine"));
    let _asked = {
        window.lose();
        window.request("createChat")
    };
    window.wait(40 * S);
    window.open();
    window.refuse("reconnect", -32008);
    assert_eq!(window.methods(), ["reconnect", "initialize"]);
    assert_eq!(window.sent[1]["params"]["initialSubscriptions"], json!(["c", "s"]));
    window.welcome(3, json!([session(3, "new life"), chat(3, Value::Null)]));
    assert_eq!(window.methods()[2..], ["authenticate"], "and nothing before it is answered");
    window.answer("authenticate", json!({}));
    assert_eq!(window.methods()[3..], ["dispatchAction", "createChat"]);
    assert_eq!(
        (window.core.seen(), window.title()),
        (3, ("new life".to_owned(), "mine".to_owned()))
    );
}

#[test]
fn tokens_lost_with_their_connection_are_sent_again() {
    let mut window = Window::connected();
    window.core.remember("https://model", "secret");
    window.comes_back();
    window.refuse("reconnect", -32008);
    window.welcome(3, json!([session(3, "new life"), chat(3, Value::Null)]));
    window.comes_back();
    let replay = json!({ "type": "replay", "actions": [], "missing": [] });
    window.answer("reconnect", replay.clone());
    let asked = window.methods();
    assert_eq!(asked[asked.len() - 1], "authenticate");
    window.answer("authenticate", json!({}));
    window.comes_back();
    window.answer("reconnect", replay);
    assert_eq!(window.core.state(), State::Connected, "the host has them");
}

/// The channels are restored, so the host already has this client as a subscriber.
#[test]
fn unsubscribing_while_tokens_are_sent_notifies_the_host() {
    let mut window = Window::connected();
    window.core.remember("https://model", "secret");
    window.comes_back();
    window.refuse("reconnect", -32008);
    window.welcome(3, json!([session(3, "new life"), chat(3, Value::Null)]));
    window.core.unsubscribe("c");
    window.carry_out();
    assert_eq!(window.methods()[2..], ["authenticate", "unsubscribe"]);
}

#[test]
fn a_refused_token_does_not_delay_the_connection() {
    let mut window = Window::new();
    window.core.remember("https://model", "stale");
    window.open();
    window.welcome(0, json!([]));
    window.refuse("authenticate", -32007);
    assert_eq!(window.core.state(), State::Connected);
}

#[test]
fn a_loss_in_the_middle_of_the_handshake_leads_to_the_next_attempt() {
    let mut window = Window::connected();
    for _ in 0..3 {
        window.comes_back();
    }
    window.answer("reconnect", json!({ "type": "replay", "actions": [], "missing": [] }));
    assert_eq!((window.core.state(), window.core.resources().in_flight), (State::Connected, 0));
}

#[test]
fn events_of_an_older_connection_are_ignored() {
    let mut window = Window::connected();
    window.comes_back();
    window.core.lost(1, window.now, 0);
    window.core.opened(1, 1, window.now);
    window.core.hear(
        1,
        action_message(&json!({ "channel": "s", "action": title("old"), "serverSeq": 99 }))
            .to_string()
            .as_bytes(),
        window.now,
        0,
    );
    window.carry_out();
    assert_eq!((window.core.seen(), window.opened.len(), window.methods().len()), (10, 2, 1));
}

#[test]
fn a_host_of_another_version_ends_the_client_and_everything_that_waits() {
    let mut window = Window::new();
    let mut asked = window.request("createSession");
    window.open();
    window.refuse("initialize", -32005);
    assert_eq!(window.core.state(), State::Closed(Failure::Incompatible));
    assert_eq!(asked.try_recv().unwrap().unwrap_err(), Failure::Incompatible);
    assert_eq!(window.core.due(), None);
    assert_eq!(
        window.request("createSession").try_recv().unwrap().unwrap_err(),
        Failure::Incompatible
    );
}

#[test]
fn any_other_refusal_is_retried() {
    let mut window = Window::new();
    window.open();
    window.refuse("initialize", -32011);
    window.wait(S);
    assert_eq!(window.opened, [1, 2]);
}

#[test]
fn a_malformed_message_closes_the_connection() {
    for nonsense in
        [json!([]), json!({ "jsonrpc": "2.0", "method": "action", "params": { "channel": 1 } })]
    {
        let mut window = Window::connected();
        window.hear(&nonsense);
        assert_eq!(window.core.state(), State::Reconnecting);
    }
    let mut window = Window::new();
    window.open();
    window.answer("initialize", json!({ "serverSeq": "x" }));
    assert_eq!(window.core.state(), State::Connecting);
}

#[test]
fn a_ping_and_questions_of_the_host_are_answered_over_the_connection_that_asked() {
    let mut window = Window::connected();
    window.hear(&json!({ "jsonrpc": "2.0", "id": 7, "method": "ping" }));
    assert_eq!(window.sent.last().unwrap(), &json!({ "jsonrpc": "2.0", "id": 7, "result": null }));
    window.hear(&json!({ "jsonrpc": "2.0", "id": 8, "method": "resourceRead", "params": {} }));
    assert_eq!(window.calls, ["asked resourceRead"]);
    window.comes_back();
    let before = window.sent.len();
    window.core.reply(1, RequestId::Number(8), Err((-32008, "no".into())));
    window.carry_out();
    assert_eq!(window.sent.len(), before, "nobody waits for it any more");
}
