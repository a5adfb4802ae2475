//! How a connection is assigned to a client.

use super::*;

#[test]
fn the_highest_common_version_is_chosen() {
    let mut host = Host::new();
    let conn = host.open();
    let params = json!({ "channel": ROOT, "protocolVersions": ["0.9.0", "1.0.0", "7.0.0"], "clientId": "a" });
    let answer = host.ask(conn, "initialize", params);
    assert_eq!(
        (&answer["result"]["protocolVersion"], &answer["result"]["serverSeq"]),
        (&json!("1.0.0"), &json!(0))
    );
    assert_eq!(answer["result"]["_meta"]["reknit.epoch"], "epoch-1/0/1");
}

#[test]
fn a_version_mismatch_lists_the_supported_versions_and_allows_a_retry() {
    let mut host = Host::new();
    let conn = host.open();
    let answer = host.ask(
        conn,
        "initialize",
        json!({ "channel": ROOT, "protocolVersions": ["7.0.0"], "clientId": "a" }),
    );
    assert_eq!(answer["error"]["code"], -32005);
    assert!(
        answer["error"]["data"]["supportedVersions"].as_array().unwrap().contains(&json!("1.0.0"))
    );
    assert!(host.core.clients.is_empty(), "nothing is left of it");
    let id = host.initialize_on(conn, "a", &[]);
    assert!(host.answer(conn, id).unwrap()["result"].is_object());
}

#[test]
fn before_the_handshake_only_a_ping_is_answered() {
    let mut host = Host::new();
    let conn = host.open();
    assert_eq!(host.ask(conn, "ping", json!({}))["result"], Value::Null);
    assert_eq!(host.ask(conn, "subscribe", json!({ "channel": ROOT }))["error"]["code"], -32601);
    host.initialize_on(conn, "a", &[]);
    assert_eq!(host.ask(conn, "ping", json!({}))["result"], Value::Null);
    assert_eq!(host.ask(conn, "listSessions", json!({ "channel": ROOT }))["error"]["code"], -32601);
}

#[test]
fn only_the_first_handshake_of_a_connection_counts() {
    let mut host = Host::new();
    let conn = host.initialize("a", &[]);
    let id = host.initialize_on(conn, "b", &[]);
    assert_eq!(host.answer(conn, id).unwrap()["error"]["code"], -32600);
    assert!(!host.core.clients.contains_key("b"));
}

#[test]
fn an_unknown_client_starts_over() {
    let mut host = Host::new();
    let (conn, answer) = host.reconnect("a", 0, &[]);
    assert_eq!(answer["error"]["code"], -32008);
    let id = host.initialize_on(conn, "a", &[ROOT]);
    assert_eq!(host.answer(conn, id).unwrap()["result"]["snapshots"][0]["resource"], ROOT);
}

#[test]
fn a_client_of_another_incarnation_of_the_host_starts_over() {
    let (mut host, conn) = Host::with_chat("a", &[]);
    host.close(conn);
    let conn = host.open();
    let params = json!({
        "channel": ROOT, "clientId": "a", "lastSeenServerSeq": 1, "subscriptions": [], "_meta": { "reknit.epoch": "epoch-0" },
    });
    assert_eq!(host.ask(conn, "reconnect", params)["error"]["code"], -32008);
}

#[test]
fn a_forgotten_client_starts_over_on_each_of_its_connections() {
    let (mut host, conn) = Host::with_chat("a", &[]);
    host.close(conn);
    host.wait(HostLimits::default().client_retention);
    assert!(host.core.clients.is_empty());
    let second = host.initialize("a", &[]);
    let (conn, answer) = host.reconnect("a", 1, &[]);
    assert_eq!(answer["error"]["code"], -32008);
    let id = host.initialize_on(conn, "a", &[]);
    assert_eq!(host.answer(conn, id).unwrap()["result"]["_meta"]["reknit.epoch"], "epoch-1/1/2");
    host.close(second);
    let back = host.open();
    let params = json!({
        "channel": ROOT, "clientId": "a", "lastSeenServerSeq": 1, "subscriptions": [], "_meta": { "reknit.epoch": "epoch-1/1/2" },
    });
    assert!(host.ask(back, "reconnect", params)["result"].is_object());
}

#[test]
fn initial_subscriptions_are_answered_together_with_current_snapshots() {
    let (mut host, conn) = Host::with_chat("a", &[]);
    host.notify(conn, "unsubscribe", json!({ "channel": "c" }));
    assert!(host.core.state("c").is_none(), "nobody holds it: it is evicted");
    host.restores = Some(Vec::new());

    let late = host.open();
    let id = host.initialize_on(late, "b", &["s", "c", "gone"]);
    assert_eq!(host.restores, Some(vec!["c".to_owned(), "gone".to_owned()]));
    host.restored("gone");
    assert_eq!(host.answer(late, id), None);
    host.dispatch(conn, 5, "s", title("newer"));
    assert_eq!(host.received(late), Vec::<String>::new(), "nothing is said before the answer");
    host.restored("c");

    let answer = host.answer(late, id).unwrap();
    let snapshots = answer["result"]["snapshots"].as_array().unwrap();
    let channels: Vec<_> =
        snapshots.iter().map(|snapshot| snapshot["resource"].as_str().unwrap()).collect();
    assert_eq!(channels, ["c", "s"], "what does not exist is not subscribed to");
    assert_eq!(snapshots[1]["state"]["title"], "newer", "and none is as old as the question");
    assert_eq!(
        host.received(late),
        Vec::<String>::new(),
        "what a snapshot includes is not said again"
    );
    host.dispatch(conn, 6, "s", title("newest"));
    assert_eq!(host.received(late), ["session/titleChanged"]);
}

#[test]
fn a_connection_without_a_handshake_is_closed_at_its_deadline() {
    let mut host = Host::new();
    let conn = host.open();
    host.wait(15 * S - MS);
    assert_eq!(host.core.over(conn), None);
    host.wait(MS);
    assert_eq!(host.core.over(conn), Some(CloseReason::NoHandshake));
}

#[test]
fn a_connection_closed_during_its_handshake_leaves_no_state() {
    let mut host = Host::new();
    host.restores = Some(Vec::new());
    let conn = host.open();
    host.initialize_on(conn, "a", &["c"]);
    host.close(conn);
    host.restored("c");
    assert!(host.core.clients.is_empty() && host.core.transports.is_empty());
    assert_eq!(host.core.channels.keys().collect::<Vec<_>>(), [ROOT]);
    assert_eq!(host.core.due(), None);
}

#[test]
fn a_turn_requires_the_configured_token() {
    let tokens = [("https://model".to_owned(), "secret".to_owned())].into_iter().collect();
    let (mut host, conn) = Host::of(HostLimits::default(), "epoch-1", tokens).having_chat("a", &[]);
    host.starts_turn(conn, 1, "t1");
    assert_eq!(host.actions(conn)[0]["rejectionReason"], "a token is required");
    let token =
        |token: &str| json!({ "channel": ROOT, "resource": "https://model", "token": token });
    assert_eq!(host.ask(conn, "authenticate", token("wrong"))["error"]["code"], -32007);
    assert_eq!(host.ask(conn, "authenticate", token("secret"))["result"], json!({}));
    host.starts_turn(conn, 2, "t1");
    assert_eq!(host.effects, ["begin c t1"]);
    // The token belongs to the client, not to the connection.
    host.close(conn);
    let (conn, _) = host.reconnect("a", host.core.seq(), &["s", "c"]);
    host.core.end_turn("c", "t1", true, host.now);
    host.starts_turn(conn, 3, "t2");
    assert!(host.effects.contains(&"begin c t2".to_owned()));
    assert_eq!(
        host.ask(conn, "authenticate", token(""))["result"],
        json!({}),
        "and can be taken back"
    );
    host.core.end_turn("c", "t2", true, host.now);
    host.starts_turn(conn, 4, "t3");
    assert!(!host.effects.contains(&"begin c t3".to_owned()));
    // A token that arrives late over the older connection does not replace that of a newer one.
    let (newer, _) = host.reconnect("a", host.core.seq(), &["s", "c"]);
    assert_eq!(host.ask(newer, "authenticate", token("wrong"))["error"]["code"], -32007);
    assert_eq!(host.ask(conn, "authenticate", token("secret"))["error"]["code"], -32600);
    host.starts_turn(newer, 5, "t4");
    assert!(!host.effects.contains(&"begin c t4".to_owned()));
}
