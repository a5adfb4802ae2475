//! Actions that clients dispatch.

use super::*;

#[test]
fn every_subscriber_receives_an_action_with_its_origin() {
    let (mut host, conn) = Host::with_chat("a", &[]);
    let (watcher, stranger) = (host.second("b", &[]), host.initialize("c", &[ROOT]));
    host.dispatch(conn, 7, "s", title("x"));
    for conn in [conn, watcher] {
        let reported = host.actions(conn);
        assert_eq!(
            (reported.len(), &reported[0]["origin"]),
            (1, &json!({ "clientId": "a", "clientSeq": 7 }))
        );
    }
    assert_eq!(host.received(stranger), Vec::<String>::new());
}

#[test]
fn a_sender_receives_its_action_after_unsubscribing() {
    let (mut host, conn) = Host::with_chat("a", &[]);
    host.dispatch(conn, 7, "s", title("x"));
    host.notify(conn, "unsubscribe", json!({ "channel": "s" }));
    assert_eq!(host.received(conn), ["session/titleChanged"]);
}

#[test]
fn a_forged_host_action_is_refused_and_reported_to_its_sender_only() {
    let (mut host, conn, id) = with_call();
    let watcher = host.second("watcher", &[]);
    let active = json!({ "clientId": "watcher", "tools": [] });
    let contributor = json!({ "kind": "client", "clientId": "watcher" });
    let forged = [
        (
            "c",
            json!({ "type": "chat/toolCallStart", "turnId": "t1", "toolCallId": "x", "toolName": "rm", "displayName": "rm", "contributor": contributor }),
        ),
        (
            "c",
            json!({ "type": "chat/toolCallReady", "turnId": "t1", "toolCallId": id.id, "invocationMessage": "x", "confirmed": "not-needed" }),
        ),
        ("c", json!({ "type": "chat/turnComplete", "turnId": "t1", "duration": 1 })),
        ("s", json!({ "type": "session/activeClientSet", "activeClient": active })),
        ("s", json!({ "type": "session/activeClientRemoved", "clientId": "watcher" })),
        ("s", json!({ "type": "session/somethingNew", "x": 1 })),
        ("nowhere", title("x")),
    ];
    let before = host.core.seq();
    host.actions(conn);
    host.actions(watcher);
    for (n, (channel, action)) in forged.into_iter().enumerate() {
        host.dispatch(conn, 100 + i64::try_from(n).unwrap(), channel, action.clone());
        let reported = host.actions(conn);
        assert!(reported.len() == 1 && reported[0]["rejectionReason"].is_string(), "{action}");
    }
    assert_eq!((host.core.seq(), host.received(watcher)), (before, Vec::new()));
}

#[test]
fn a_place_follows_the_newest_window_that_took_or_gave_it_up() {
    let (mut host, older) = Host::with_chat("a", &["tool"]);
    let newer = host.second("a", &["tool"]);
    let leaves = || json!({ "type": "session/activeClientRemoved", "clientId": "a" });
    host.dispatch(older, 2, "s", leaves());
    let why = "the client has begun anew since";
    assert_eq!(host.actions(older).last().unwrap()["rejectionReason"], why);
    host.dispatch(newer, 2, "s", leaves());
    assert_eq!(host.received(newer), ["session/activeClientRemoved"]);
    host.offers(older, "a", &["tool"]);
    assert_eq!(host.actions(older).last().unwrap()["rejectionReason"], why);
}

#[test]
fn a_place_that_came_with_its_session_follows_the_newest_window_too() {
    let mut host = Host::new();
    let (older, newer) = (host.initialize("a", &[]), host.initialize("a", &[]));
    let active = json!({ "clientId": "a", "tools": [{ "name": "tool" }] });
    host.ask(newer, "createSession", json!({ "channel": "s", "activeClient": active }));
    let leaves = json!({ "type": "session/activeClientRemoved", "clientId": "a" });
    host.dispatch(older, 1, "s", leaves);
    let why = "the client has begun anew since";
    assert_eq!(host.actions(older).last().unwrap()["rejectionReason"], why);
    assert_eq!(host.active(), ["a"]);
}

#[test]
fn only_the_owner_reports_the_result_of_a_call() {
    let (mut host, conn, id) = with_call();
    host.ready(&id, true);
    let other = host.second("other", &["tool"]);
    host.dispatch(other, 1, "c", completed(&id));
    assert_eq!(host.actions(other)[0]["rejectionReason"], "the call belongs to another client");
    assert_eq!(host.call(&id), "running");
    host.dispatch(conn, 2, "c", completed(&id));
    assert_eq!(host.call(&id), "completed");
}

#[test]
fn a_repetition_takes_no_effect_and_gets_the_first_outcome() {
    let (mut host, conn) = Host::with_chat("a", &[]);
    host.dispatch(conn, 1, "s", title("once"));
    host.dispatch(conn, 2, "nowhere", title("never"));
    let (first, refused) = (host.actions(conn), host.core.seq());
    host.dispatch(conn, 1, "s", title("once"));
    host.dispatch(conn, 2, "nowhere", title("never"));
    assert_eq!(host.actions(conn), first, "word by word");
    assert_eq!(host.core.seq(), refused);
}

/// The action was applied, and the connection was lost before the echo. The client received a
/// snapshot, and cannot know whether the action took effect.
#[test]
fn an_action_retransmitted_after_a_snapshot_takes_effect_once() {
    let (mut host, conn) =
        Host::with(HostLimits { log_actions: 2, ..HostLimits::default() }).having_chat("a", &[]);
    let busy = host.second("busy", &[]);
    let seen = host.core.seq();
    host.starts_turn(conn, 1, "t1");
    host.close(conn);
    for n in 0..9 {
        host.dispatch(busy, n, "s", title(&n.to_string()));
        host.pull(busy);
    }
    let (conn, answer) = host.reconnect("a", seen, &["s", "c"]);
    assert_eq!(answer["result"]["type"], "snapshot");
    host.starts_turn(conn, 1, "t1");
    assert_eq!(host.effects, ["begin c t1"]);
    let reported = host.actions(conn);
    assert_eq!(
        (reported.len(), &reported[0]["rejectionReason"]),
        (1, &Value::Null),
        "and its client hears that it did"
    );
}

#[test]
fn a_repetition_before_the_echo_gets_a_single_answer() {
    let (mut host, conn) = Host::with_chat("a", &[]);
    host.dispatch(conn, 1, "s", title("once"));
    host.dispatch(conn, 1, "s", title("once"));
    assert_eq!(host.received(conn).len(), 1);
}

#[test]
fn a_turn_starts_once_and_never_in_parallel() {
    let (mut host, conn) = Host::with_chat("a", &[]);
    host.starts_turn(conn, 1, "t1");
    host.starts_turn(conn, 2, "t2");
    host.core.end_turn("c", "t1", true, host.now);
    host.starts_turn(conn, 3, "t1");
    let reasons: Vec<_> = host
        .actions(conn)
        .into_iter()
        .map(|reported| reported["rejectionReason"].clone())
        .collect();
    assert!(
        reasons.contains(&json!("another turn is in progress"))
            && reasons.contains(&json!("a turn with that id already exists"))
    );
    assert_eq!(host.effects, ["begin c t1", "stop c t1"]);
}

#[test]
fn cancelling_a_turn_stops_its_agent() {
    let (mut host, conn) = Host::with_chat("a", &[]);
    host.starts_turn(conn, 1, "t1");
    host.dispatch(
        conn,
        2,
        "c",
        json!({ "type": "chat/turnCancelled", "turnId": "t1", "duration": 5 }),
    );
    assert_eq!(host.effects, ["begin c t1", "stop c t1"]);
}

#[test]
fn a_client_may_count_from_one_again_on_a_new_connection() {
    let (mut host, conn) = Host::with_chat("a", &[]);
    host.dispatch(conn, 1, "s", title("first"));
    host.close(conn);
    let (conn, _) = host.reconnect("a", host.core.seq(), &["s"]);
    host.dispatch(conn, 1, "s", title("second"));
    host.dispatch(conn, 1, "s", title("second"));
    let reported: Vec<_> =
        host.actions(conn).iter().map(|reported| reported["action"]["title"].clone()).collect();
    assert_eq!(reported, ["second"], "and the repetition of that is one");
}

#[test]
fn after_initialize_an_old_number_is_a_new_action() {
    let (mut host, conn) = Host::with_chat("a", &[]);
    let other = host.second("b", &[]);
    host.dispatch(conn, 1, "s", title("one"));
    host.close(conn);
    host.dispatch(other, 9, "s", title("other"));
    let conn = host.initialize("a", &["s"]);
    host.dispatch(conn, 1, "s", title("one"));
    assert_eq!(host.title(), "one");
}

#[test]
fn another_connection_of_the_client_continues_its_numbering() {
    let (mut host, conn) = Host::with_chat("a", &[]);
    let other = host.second("b", &[]);
    host.dispatch(conn, 1, "s", title("one"));
    host.close(conn);
    host.initialize("a", &["s"]);
    host.dispatch(other, 9, "s", title("other"));
    let (conn, _) = host.reconnect("a", host.core.seq(), &["s"]);
    host.dispatch(conn, 1, "s", title("one"));
    assert_eq!(host.title(), "other", "it had taken effect");
}

#[test]
fn the_session_lists_the_status_of_its_chat() {
    let (mut host, conn) = Host::with_chat("a", &[]);
    host.starts_turn(conn, 1, "t1");
    let reported = host.actions(conn);
    let updated = reported
        .iter()
        .find(|reported| reported["action"]["type"] == "session/chatUpdated")
        .unwrap();
    assert_eq!(updated["action"]["changes"]["status"], 8, "a turn is under way");
}

/// The entry of the chat in its session changes after the action, and has the next number.
#[test]
fn a_repeated_action_gets_the_number_that_it_had() {
    let (mut host, conn) = Host::with_chat("window", &[]);
    let mut numbers = || {
        host.starts_turn(conn, 1, "t1");
        let own = host.actions(conn).into_iter().filter(|action| action["channel"] == "c");
        own.map(|action| action["serverSeq"].clone()).collect::<Vec<_>>()
    };
    let first = numbers();
    assert_eq!(first.len(), 1);
    assert_eq!(numbers(), first);
}
