//! Holders, eviction, and restores.

use super::*;

fn holders(host: &Host, channel: &str) -> Vec<String> {
    host.core.holders(channel).into_iter().map(str::to_owned).collect()
}

#[test]
fn a_chat_without_holders_is_evicted_and_restored_unchanged() {
    let (mut host, conn) = Host::with_chat("a", &[]);
    host.starts_turn(conn, 1, "t1");
    host.notify(conn, "unsubscribe", json!({ "channel": "c" }));
    assert!(host.core.state("c").is_some(), "something is under way in it");
    host.core.end_turn("c", "t1", true, host.now);
    host.carry_out();
    assert!(host.core.state("c").is_none());
    let answer = host.ask(conn, "subscribe", json!({ "channel": "c" }));
    assert_eq!(answer["result"]["snapshot"]["state"]["turns"][0]["id"], "t1");
}

#[test]
fn a_client_holds_a_channel_once_over_several_connections() {
    let (mut host, first) = Host::with_chat("a", &[]);
    let (second, _) = host.reconnect("a", host.core.seq(), &["s", "c"]);
    assert_eq!(holders(&host, "c"), ["a"]);
    host.close(first);
    assert_eq!(holders(&host, "c"), ["a"], "the other one holds it");
    host.close(second);
    assert!(holders(&host, "c").is_empty() && host.core.state("c").is_none());
}

/// The older connection closes while the newer one waits for its channels: the newer one keeps the
/// channels that it waits for.
#[test]
fn a_closing_connection_does_not_release_channels_of_a_handshake() {
    let (mut host, older) = Host::with_chat("a", &[]);
    host.restores = Some(Vec::new());
    let newer = host.open();
    let id = host.reconnect_on(newer, "a", host.core.seq(), &["c", "slow"]);
    host.close(older);
    assert!(host.core.state("c").is_some());
    host.restored("slow");
    assert_eq!(host.answer(newer, id).unwrap()["result"]["missing"], json!(["slow"]));
}

#[test]
fn subscribe_unsubscribe_subscribe_during_a_restore_ends_subscribed() {
    let (mut host, conn) = Host::with_chat("a", &[]);
    host.notify(conn, "unsubscribe", json!({ "channel": "c" }));
    host.restores = Some(Vec::new());
    let first = host.request(conn, "subscribe", json!({ "channel": "c" }));
    host.notify(conn, "unsubscribe", json!({ "channel": "c" }));
    let second = host.request(conn, "subscribe", json!({ "channel": "c" }));
    host.restored("c");
    assert_eq!(
        host.answer(conn, first).unwrap()["error"]["code"],
        -32008,
        "every request is answered"
    );
    assert!(host.answer(conn, second).unwrap()["result"]["snapshot"].is_object());
    assert_eq!(holders(&host, "c"), ["a"]);
    host.starts_turn(conn, 1, "t1");
    assert!(host.received(conn).contains(&"chat/turnStarted".to_owned()));
}

#[test]
fn a_pending_subscription_gets_its_snapshot_before_any_action() {
    let (mut host, busy) = Host::with_chat("busy", &[]);
    host.notify(busy, "unsubscribe", json!({ "channel": "c" }));
    host.restores = Some(Vec::new());
    let late = host.initialize("late", &[]);
    let id = host.request(late, "subscribe", json!({ "channel": "c" }));
    host.request(busy, "subscribe", json!({ "channel": "c" }));
    host.restored("c");
    host.starts_turn(busy, 1, "t1");
    let snapshot = host.answer(late, id).unwrap()["result"]["snapshot"].clone();
    assert_eq!(snapshot["state"]["activeTurn"], Value::Null);
    assert_eq!(host.received(late), ["chat/turnStarted"]);
}

#[test]
fn a_connection_closed_while_waiting_leaves_no_state() {
    let (mut host, conn) = Host::with_chat("a", &[]);
    host.restores = Some(Vec::new());
    host.request(conn, "subscribe", json!({ "channel": "gone" }));
    host.close(conn);
    assert!(holders(&host, "gone").is_empty());
    host.restored("gone");
    assert!(!host.core.channels.contains_key("gone"));
}

#[test]
fn a_request_for_a_chat_that_is_removed_gets_an_error() {
    let (mut host, conn) = Host::with_chat("a", &[]);
    host.notify(conn, "unsubscribe", json!({ "channel": "c" }));
    host.restores = Some(Vec::new());
    let waits = host.request(conn, "subscribe", json!({ "channel": "c" }));
    let late = host.open();
    let arrives = host.initialize_on(late, "b", &["s", "c"]);
    assert_eq!((host.answer(conn, waits), host.answer(late, arrives)), (None, None));
    host.ask(conn, "disposeChat", json!({ "channel": "c" }));
    assert_eq!(host.answer(conn, waits).unwrap()["error"]["code"], -32008);
    let snapshots = host.answer(late, arrives).unwrap()["result"]["snapshots"].clone();
    assert_eq!(snapshots.as_array().map(Vec::len), Some(1), "it is here, with the session alone");
    host.restored("c");
    assert!(!host.core.channels.contains_key("c"));
}

/// In the protocol, the session announces the removal of a chat. A subscriber of the chat alone
/// also receives that action, once.
#[test]
fn a_subscriber_of_a_chat_alone_receives_its_removal() {
    let (mut host, both) = Host::with_chat("both", &[]);
    let (chat, session) = (host.initialize("chat", &["c"]), host.initialize("session", &["s"]));
    host.dispatch(both, 1, "s", title("before"));
    host.ask(both, "disposeChat", json!({ "channel": "c" }));
    let removal = |action: &&Value| action["action"]["type"] == "session/chatRemoved";
    for conn in [both, session] {
        assert_eq!(host.actions(conn).iter().filter(removal).count(), 1);
    }
    let reported = host.actions(chat);
    assert_eq!(
        reported.iter().filter(removal).count(),
        reported.len(),
        "nothing else of the session"
    );
    assert_eq!((reported.len(), &reported[0]["serverSeq"]), (1, &json!(host.core.seq())));
}

#[test]
fn a_chat_disposed_during_its_restore_stays_removed() {
    let (mut host, conn) = Host::with_chat("a", &[]);
    host.notify(conn, "unsubscribe", json!({ "channel": "c" }));
    host.restores = Some(Vec::new());
    host.request(conn, "subscribe", json!({ "channel": "c" }));
    let (number, stored) = (host.numbers["c"], host.archive.get("c").cloned());
    host.ask(conn, "disposeChat", json!({ "channel": "c" }));
    let again = host.request(conn, "subscribe", json!({ "channel": "c" }));
    host.core.restored("c", number, stored, host.now);
    assert_eq!(host.answer(conn, again), None, "what was read before says nothing");
    assert_eq!(host.core.state("c"), None);
    host.restored("c");
    assert_eq!(host.answer(conn, again).unwrap()["error"]["code"], -32008);
}

#[test]
fn a_chat_is_not_disposed_without_its_session_in_memory() {
    let (mut host, conn) = Host::with_chat("a", &[]);
    host.core.channels.get_mut("s").unwrap().state = None;
    assert_eq!(host.ask(conn, "disposeChat", json!({ "channel": "c" }))["error"]["code"], -32001);
    assert!(host.core.state("c").is_some());
}

#[test]
fn subscribing_again_returns_the_state_and_keeps_the_subscription() {
    let (mut host, conn) = Host::with_chat("a", &[]);
    host.dispatch(conn, 1, "s", title("x"));
    let answer = host.ask(conn, "subscribe", json!({ "channel": "s" }));
    assert_eq!(answer["result"]["snapshot"]["state"]["title"], "x");
    assert_eq!(
        host.actions(conn).last().unwrap()["action"]["title"],
        "x",
        "what the state has was said before it"
    );
    host.dispatch(conn, 2, "s", title("y"));
    assert_eq!(host.actions(conn).last().unwrap()["action"]["title"], "y");
}

#[test]
fn subscribing_to_a_missing_channel_fails() {
    let (mut host, conn) = Host::with_chat("a", &[]);
    assert_eq!(host.ask(conn, "subscribe", json!({ "channel": "gone" }))["error"]["code"], -32008);
    assert!(holders(&host, "gone").is_empty());
}

#[test]
fn a_restarted_host_restores_sessions_without_active_clients() {
    let (mut host, conn) = Host::with_chat("a", &["tool"]);
    host.dispatch(conn, 1, "s", title("kept"));
    host.close(conn);
    host.core.save("s");
    host.carry_out();
    let mut next = Host::of(HostLimits::default(), "epoch-2", BTreeMap::new());
    next.archive = host.archive;
    let conn = next.open();
    let id = next.initialize_on(conn, "a", &["s", "c"]);
    let answer = next.answer(conn, id).unwrap();
    let snapshots = answer["result"]["snapshots"].as_array().unwrap();
    assert_eq!((snapshots.len(), &snapshots[1]["state"]["activeClients"]), (2, &json!([])));
    assert_eq!(snapshots[1]["state"]["chats"][0]["resource"], "c");
}

#[test]
fn disposing_a_session_removes_its_chats_and_turns() {
    let (mut host, conn) = Host::with_chat("a", &[]);
    let watcher = host.initialize("b", &["c"]);
    host.starts_turn(conn, 1, "t1");
    assert_eq!(host.ask(conn, "disposeSession", json!({ "channel": "s" }))["result"], Value::Null);
    assert_eq!(host.effects, ["begin c t1", "stop c t1"]);
    assert_eq!(host.core.channels.keys().collect::<Vec<_>>(), [ROOT]);
    assert!(host.inbox[&conn].iter().any(|sent| sent["method"] == "root/sessionRemoved"));
    assert_eq!(host.received(watcher), ["session/chatRemoved"], "it looks at the chat alone");
    let reported = host.received(conn);
    assert_eq!(
        reported.iter().filter(|action| *action == "session/chatRemoved").count(),
        1,
        "it looks at both: {reported:?}"
    );
    assert_eq!(
        host.ask(conn, "disposeSession", json!({ "channel": "s" }))["error"]["code"],
        -32001
    );
}

/// The chat is removed. Then its session is removed, or the client unsubscribes from the session,
/// before the client receives anything.
#[test]
fn a_removal_of_a_chat_is_sent_before_the_session_subscription_ends() {
    let (mut host, conn) = Host::with_chat("a", &[]);
    let (there, away) =
        (host.initialize("there", &["s", "c"]), host.initialize("away", &["s", "c"]));
    host.ask(conn, "disposeChat", json!({ "channel": "c" }));
    host.notify(away, "unsubscribe", json!({ "channel": "s" }));
    host.ask(conn, "disposeSession", json!({ "channel": "s" }));
    assert_eq!(host.received(there), ["session/chatRemoved"]);
    assert_eq!(host.received(away), ["session/chatRemoved"]);
}

/// The client subscribes to the newer chat before it unsubscribes from the session, and has not
/// received the removal of the older one.
#[test]
fn a_subscriber_of_a_recreated_chat_does_not_get_the_old_removal() {
    let (mut host, conn) = Host::with_chat("a", &[]);
    let away = host.initialize("away", &["s", "c"]);
    host.ask(conn, "disposeChat", json!({ "channel": "c" }));
    host.ask(conn, "createChat", json!({ "channel": "s", "chat": "c" }));
    let looks = host.request(away, "subscribe", json!({ "channel": "c" }));
    host.notify(away, "unsubscribe", json!({ "channel": "s" }));
    assert!(host.answer(away, looks).unwrap()["result"]["snapshot"].is_object());
    host.ask(conn, "disposeChat", json!({ "channel": "c" }));
    assert_eq!(host.received(away), ["session/chatRemoved"], "of the newer one alone");
}

/// A host whose archive has a session with a chat from an earlier incarnation. The test completes
/// its restores.
fn restarted() -> (Host, ConnId) {
    let (host, _) = Host::with_chat("a", &[]);
    let mut next = Host::of(HostLimits::default(), "epoch-2", BTreeMap::new());
    next.archive = host.archive;
    next.restores = Some(Vec::new());
    let conn = next.initialize("b", &[]);
    (next, conn)
}

/// The name requested for a session belongs to a chat that is then removed.
#[test]
fn no_session_is_created_with_the_name_of_a_chat_being_removed() {
    let (mut next, conn) = restarted();
    let made = next.request(conn, "createSession", json!({ "channel": "c" }));
    let early = next.request(conn, "disposeSession", json!({ "channel": "c" }));
    assert_eq!(next.answer(conn, early).unwrap()["error"]["code"], -32011);
    let looks = next.request(conn, "subscribe", json!({ "channel": "c" }));
    next.request(conn, "subscribe", json!({ "channel": "s" }));
    next.restored("s");
    next.ask(conn, "disposeSession", json!({ "channel": "s" }));
    assert_eq!(next.answer(conn, made).unwrap()["error"]["code"], -32011);
    assert_eq!(next.answer(conn, looks).unwrap()["error"]["code"], -32008);
    assert_eq!(next.core.counts().sessions, 0);
}

/// A restarted host does not know the session of a chat before that session is restored.
#[test]
fn a_chat_requested_before_its_session_is_removed_with_it() {
    let (mut next, conn) = restarted();
    let chat = next.request(conn, "subscribe", json!({ "channel": "c" }));
    next.request(conn, "subscribe", json!({ "channel": "s" }));
    next.restored("s");
    assert_eq!(next.ask(conn, "disposeSession", json!({ "channel": "s" }))["result"], Value::Null);
    assert_eq!(next.answer(conn, chat).unwrap()["error"]["code"], -32008);
    next.restored("c");
    assert_eq!(next.core.channels.keys().collect::<Vec<_>>(), [ROOT]);
    assert!(next.archive.is_empty());
}

/// The session is in the archive, and has no subscribers since the restart of the host.
#[test]
fn a_session_in_the_archive_is_not_created_again() {
    let (mut next, conn) = restarted();
    let [kept, new, first] = ["s", "new", "new"]
        .map(|name| next.request(conn, "createSession", json!({ "channel": name })));
    let looks = next.request(conn, "subscribe", json!({ "channel": "new" }));
    assert_eq!(next.answer(conn, kept), None, "it is not known yet");
    next.restored("s");
    next.restored("new");
    assert_eq!(next.answer(conn, kept).unwrap()["error"]["code"], -32003);
    assert_eq!(
        (&next.answer(conn, new).unwrap()["result"], next.core.chats_of("s")),
        (&Value::Null, vec!["c".to_owned()])
    );
    assert_eq!(
        next.answer(conn, first).unwrap()["error"]["code"],
        -32003,
        "the first of two makes it"
    );
    assert_eq!(next.answer(conn, looks).unwrap()["result"]["snapshot"]["state"]["title"], "new");
    let late = next.request(conn, "createSession", json!({ "channel": "late" }));
    next.wait(HostLimits::default().restore_deadline);
    assert_eq!(next.answer(conn, late).unwrap()["error"]["code"], -32011, "there may be one");
    let gone = next.open();
    next.initialize_on(gone, "gone", &[]);
    next.request(gone, "createSession", json!({ "channel": "nobody's" }));
    next.close(gone);
    next.restored("nobody's");
    assert_eq!(next.core.counts().sessions, 2);
}

#[test]
fn a_session_and_a_chat_are_created_once() {
    let (mut host, conn) = Host::with_chat("a", &[]);
    assert_eq!(host.ask(conn, "createSession", json!({ "channel": "s" }))["error"]["code"], -32003);
    assert_eq!(
        host.ask(conn, "createChat", json!({ "channel": "s", "chat": "c" }))["error"]["code"],
        -32010
    );
    assert_eq!(
        host.ask(conn, "createChat", json!({ "channel": "x", "chat": "d" }))["error"]["code"],
        -32001
    );
    assert_eq!(host.ask(conn, "disposeChat", json!({ "channel": "c" }))["result"], Value::Null);
    assert_eq!(
        host.ask(conn, "createChat", json!({ "channel": "s", "chat": "c" }))["result"],
        Value::Null
    );
}

/// A client subscribes to it, and the archive has not answered yet.
#[test]
fn a_chat_that_may_exist_is_not_created() {
    let (mut host, conn) = Host::with_chat("a", &[]);
    host.restores = Some(Vec::new());
    let looks = host.request(conn, "subscribe", json!({ "channel": "d" }));
    let chat = json!({ "channel": "s", "chat": "d" });
    assert_eq!(host.ask(conn, "createChat", chat.clone())["error"]["code"], -32011);
    host.restored("d");
    assert_eq!(host.answer(conn, looks).unwrap()["error"]["code"], -32008);
    assert!(host.ask(conn, "createChat", chat)["error"].is_null());
}

#[test]
fn a_new_chat_without_a_subscriber_is_not_in_memory() {
    let (mut host, conn) = Host::with_chat("a", &[]);
    assert_eq!(
        host.ask(conn, "createChat", json!({ "channel": "s", "chat": "d" }))["result"],
        Value::Null
    );
    assert!(host.core.state("d").is_none());
    assert!(
        host.ask(conn, "subscribe", json!({ "channel": "d" }))["result"]["snapshot"].is_object()
    );
    assert!(host.core.state("d").is_some());
}
