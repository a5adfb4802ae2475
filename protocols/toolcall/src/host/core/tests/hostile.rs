//! Clients that send arbitrary data in arbitrary amounts.

use super::*;

#[test]
fn an_invalid_message_gets_an_error_and_no_effect() {
    let mut host = Host::new();
    let conn = host.initialize("a", &[]);
    for frame in ["", "{", "[]", "\u{0}", r#"{"id":1.5,"method":"ping"}"#, r#"{"jsonrpc":"2.0"}"#] {
        host.core.on_frame(conn, frame.as_bytes(), host.now);
        assert_eq!(host.core.over(conn), None);
    }
    host.pull(conn);
    assert_eq!(host.inbox[&conn].iter().filter(|sent| sent["error"]["code"] == -32700).count(), 6);
    assert_eq!(host.ask(conn, "ping", json!({}))["result"], Value::Null);
}

#[test]
fn invalid_parameters_are_refused() {
    let mut host = Host::new();
    let conn = host.initialize("a", &[]);
    for method in [
        "subscribe",
        "createSession",
        "createChat",
        "disposeChat",
        "disposeSession",
        "authenticate",
    ] {
        for params in [json!(null), json!([]), json!({ "channel": 7 })] {
            assert_eq!(host.ask(conn, method, params)["error"]["code"], -32602, "{method}");
        }
    }
}

#[test]
fn an_invalid_action_closes_the_connection() {
    let mut host = Host::new();
    let conn = host.initialize("a", &[]);
    host.notify(conn, "dispatchAction", json!({ "channel": "s" }));
    assert_eq!(host.core.over(conn), Some(CloseReason::Broke("an invalid action")));
}

#[test]
fn answers_to_unknown_requests_are_ignored() {
    let mut host = Host::new();
    let conn = host.initialize("a", &[]);
    host.send(conn, &json!({ "jsonrpc": "2.0", "id": 1, "result": 1 }));
    host.send(conn, &json!({ "jsonrpc": "2.0", "id": "x", "error": { "code": 1, "message": "" } }));
    assert_eq!(host.core.over(conn), None);
}

#[test]
fn names_and_counts_have_limits() {
    let limits = HostLimits {
        sessions: 1,
        chats: 1,
        subscriptions: 2,
        clients: 2,
        active_clients: 1,
        tools: 1,
        ..HostLimits::default()
    };
    let (mut host, conn) = Host::with(limits).having_chat("a", &["tool"]);
    assert_eq!(
        host.ask(conn, "createSession", json!({ "channel": "s2" }))["error"]["code"],
        -32011
    );
    assert_eq!(
        host.ask(conn, "createChat", json!({ "channel": "s", "chat": "c2" }))["error"]["code"],
        -32011
    );
    assert_eq!(host.ask(conn, "subscribe", json!({ "channel": ROOT }))["error"]["code"], -32602);
    assert_eq!(
        host.ask(conn, "createSession", json!({ "channel": "x".repeat(513) }))["error"]["code"],
        -32602
    );
    let second = host.second("b", &["tool"]);
    host.offers(second, "b", &["tool"]);
    assert_eq!(host.active(), ["a"]);
    host.offers(conn, "a", &["tool", "more"]);
    assert_eq!(host.actions(conn).last().unwrap()["rejectionReason"], "too many tools");
    let third = host.open();
    let id = host.initialize_on(third, "c", &[]);
    assert_eq!(host.answer(third, id).unwrap()["error"]["code"], -32011);
}

#[test]
fn a_chat_has_a_limit_of_parts_and_turns() {
    let (mut host, conn) = Host::with(HostLimits { parts: 1, turns: 1, ..HostLimits::default() })
        .having_chat("a", &["tool"]);
    host.starts_turn(conn, 1, "t1");
    host.calls("tool");
    assert_eq!(
        host.core.start_call("c", "t1", "tool", Owner::Any, host.now),
        Err("the channel is full")
    );
    host.core.end_turn("c", "t1", true, host.now);
    host.starts_turn(conn, 2, "t2");
    assert_eq!(host.actions(conn).last().unwrap()["rejectionReason"], "the channel is full");
}

#[test]
fn a_full_channel_still_accepts_the_end_of_its_work() {
    let limits = HostLimits { channel_bytes: 4000, ..HostLimits::default() };
    let (mut host, conn) = Host::with(limits).having_chat("a", &["tool"]);
    host.starts_turn(conn, 1, "t1");
    let id = host.calls("tool");
    host.ready(&id, true);
    let mut long = completed(&id);
    long["result"]["content"] = json!([{ "type": "text", "text": "x".repeat(4000) }]);
    host.dispatch(conn, 2, "c", long);
    assert_eq!(host.actions(conn).last().unwrap()["rejectionReason"], "the channel is full");
    assert_eq!(host.call(&id), "failed", "nobody waits for a shorter one");
    for n in 10..20 {
        host.dispatch(conn, n, "s", title(&"x".repeat(1000)));
        assert_eq!(
            host.actions(conn).last().unwrap()["rejectionReason"],
            Value::Null,
            "each takes the place of the one before"
        );
    }
    host.dispatch(conn, 3, "s", title(&"x".repeat(4000)));
    assert_eq!(host.actions(conn).last().unwrap()["rejectionReason"], "the channel is full");
    host.core.end_turn("c", "t1", true, host.now);
    host.carry_out();
    assert_eq!(host.effects, ["begin c t1", "stop c t1"]);
}

#[test]
fn a_user_decides_about_a_call_in_a_full_chat() {
    for (approved, became) in [(true, "running"), (false, "cancelled")] {
        let limits = HostLimits { channel_bytes: 4000, ..HostLimits::default() };
        let (mut host, conn) = Host::with(limits).having_chat("a", &["tool"]);
        host.starts_turn(conn, 1, "t1");
        let id = host.calls("tool");
        host.ready(&id, false);
        let part = json!({ "kind": "markdown", "id": "p", "content": "x" });
        let part = json!({ "type": "chat/responsePart", "turnId": "t1", "part": part });
        host.core.act("c", serde_json::from_value(part).unwrap(), host.now).unwrap();
        for letters in [500, 1] {
            let text = "x".repeat(letters);
            let more =
                json!({ "type": "chat/delta", "turnId": "t1", "partId": "p", "content": text });
            let more: StateAction = serde_json::from_value(more).unwrap();
            while host.core.act("c", more.clone(), host.now).is_ok() {}
        }
        let decision = json!({ "type": "chat/toolCallConfirmed", "turnId": id.turn, "toolCallId": id.id, "approved": approved });
        let mut long = decision.clone();
        long["reasonMessage"] = "x".repeat(500).into();
        host.dispatch(conn, 2, "c", long);
        assert_eq!(host.actions(conn).last().unwrap()["rejectionReason"], "the channel is full");
        host.dispatch(conn, 3, "c", decision);
        assert_eq!(host.call(&id), became);
    }
}

#[test]
fn a_channel_too_large_for_the_answer_is_subscribed_separately() {
    let mut limits = HostLimits { channel_bytes: 4000, ..HostLimits::default() };
    limits.wire.message_bytes = 8000;
    let (mut host, conn) = Host::with(limits).having_chat("a", &[]);
    for n in 0..3 {
        let session = format!("s{n}");
        host.ask(conn, "createSession", json!({ "channel": session }));
        host.dispatch(conn, n, &session, title(&"x".repeat(2000)));
    }
    let late = host.open();
    let id = host.initialize_on(late, "b", &["s0", "s1", "s2"]);
    assert_eq!(host.answer(late, id).unwrap()["result"]["snapshots"].as_array().unwrap().len(), 1);
    assert!(
        host.ask(late, "subscribe", json!({ "channel": "s2" }))["result"]["snapshot"].is_object()
    );
}

#[test]
fn a_client_that_does_not_read_notices_is_closed() {
    let (mut host, conn) =
        Host::with(HostLimits { replies: 4, ..HostLimits::default() }).having_chat("a", &[]);
    let deaf = host.initialize("deaf", &[]);
    for n in 0..6 {
        host.ask(conn, "createSession", json!({ "channel": format!("more-{n}") }));
    }
    assert_eq!(host.core.over(deaf), None, "it was not asked to take any");
    assert!(host.core.pull(deaf).is_some());
    host.ask(conn, "createSession", json!({ "channel": "one-more" }));
    assert_eq!(host.core.over(deaf), Some(CloseReason::Behind));
}

#[test]
fn nothing_is_left_of_a_chat_for_which_its_session_has_no_room() {
    let limits = HostLimits { channel_bytes: 2_000, ..HostLimits::default() };
    let (mut host, conn) = Host::with(limits).having_chat("a", &[]);
    let create = |n: usize| json!({ "channel": "s", "chat": format!("{n}{}", "x".repeat(400)) });
    let created = (0..5).map(|n| host.ask(conn, "createChat", create(n)));
    let codes = created.map(|answer| answer["error"]["code"].clone()).collect::<Vec<_>>();
    let refused = codes.iter().position(|code| *code == json!(-32011)).expect("it is full");
    let dispose = json!({ "channel": create(refused)["chat"] });
    assert_eq!(host.ask(conn, "disposeChat", dispose)["error"]["code"], -32008);
    assert!(host.archive.keys().all(|name| !name.starts_with(&refused.to_string())));
    assert!(
        host.ask(conn, "disposeChat", json!({ "channel": create(0)["chat"] }))["error"].is_null()
    );
    assert!(host.ask(conn, "createChat", create(refused))["error"].is_null());
}

#[test]
fn a_new_session_has_no_more_tools_than_a_client_may_offer() {
    let limits = HostLimits { tools: 1, channel_bytes: 2_000, ..HostLimits::default() };
    let mut host = Host::with(limits);
    let conn = host.initialize("a", &[]);
    let mut create = |tools: Value| {
        let active = json!({ "clientId": "a", "tools": tools });
        host.ask(conn, "createSession", json!({ "channel": "s", "activeClient": active }))
    };
    for tools in [json!([{ "name": "x" }, { "name": "y" }]), json!([{ "name": "" }])] {
        assert_eq!(create(tools)["error"]["message"], "too many tools");
    }
    let long = json!([{ "name": "x", "description": "y".repeat(2_000) }]);
    assert_eq!(create(long)["error"]["code"], -32011);
    assert!(create(json!([{ "name": "x" }]))["error"].is_null());
    assert_eq!(host.active(), ["a"]);
}
