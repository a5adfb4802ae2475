//! A returning client receives everything that it missed, once, or snapshots.

use super::*;

fn seqs(actions: &Value) -> Vec<u64> {
    actions.as_array().unwrap().iter().map(|action| action["serverSeq"].as_u64().unwrap()).collect()
}

/// A watcher that has seen everything so far and disconnected, and a client that dispatches
/// actions.
fn away() -> (Host, ConnId, u64) {
    away_with(HostLimits::default())
}

fn away_with(limits: HostLimits) -> (Host, ConnId, u64) {
    let (mut host, busy) = Host::with(limits).having_chat("busy", &[]);
    let watcher = host.second("watcher", &[]);
    host.pull(watcher);
    host.close(watcher);
    let seen = host.core.seq();
    (host, busy, seen)
}

#[test]
fn exactly_the_missed_actions_are_replayed_in_order() {
    let (mut host, busy, seen) = away();
    for n in 0..3 {
        host.dispatch(busy, n, "s", title(&n.to_string()));
    }
    let (conn, answer) = host.reconnect("watcher", seen, &["s", "c", "gone"]);
    assert_eq!(answer["result"]["type"], "replay");
    assert_eq!(seqs(&answer["result"]["actions"]), [seen + 1, seen + 2, seen + 3]);
    assert_eq!(answer["result"]["missing"], json!(["gone"]));
    assert_eq!(host.received(conn), Vec::<String>::new());
    host.dispatch(busy, 9, "s", title("live"));
    assert_eq!(host.actions(conn)[0]["serverSeq"], seen + 4);
}

/// A state that is too large for a snapshot prevents no replay. A replay must fit, too.
#[test]
fn a_large_channel_is_kept_if_the_missed_actions_are_few() {
    let wire = crate::limits::WireLimits { message_bytes: 8_192, ..crate::limits::wire() };
    let limits = HostLimits { wire, ..HostLimits::default() };
    let (mut host, busy) = Host::with(limits).having_chat("busy", &[]);
    let watcher = host.second("watcher", &[]);
    let long = title(&"x".repeat(2_000));
    for n in 0..3 {
        host.dispatch(busy, n, "s", long.clone());
    }
    host.pull(watcher);
    host.close(watcher);
    let seen = host.core.seq();
    host.dispatch(busy, 3, "s", title("short"));
    let (conn, answer) = host.reconnect("watcher", seen, &["s", "c"]);
    assert_eq!(
        (&answer["result"]["type"], &answer["result"]["missing"]),
        (&json!("replay"), &json!([]))
    );
    host.close(conn);
    let seen = host.core.seq();
    for n in 4..7 {
        host.dispatch(busy, n, "s", long.clone());
    }
    let (_, answer) = host.reconnect("watcher", seen, &["s", "c"]);
    assert_eq!(answer["result"]["type"], "snapshot");
}

/// The chats are large and have small names; the session still fits beside them, and so do small chats.
#[test]
fn a_chat_without_room_leaves_out_no_other_channel() {
    let wire = crate::limits::WireLimits { message_bytes: 16_384, ..crate::limits::wire() };
    let limits = HostLimits { wire, log_actions: 2, ..HostLimits::default() };
    let (mut host, busy, _) = away_with(limits);
    let watcher = host.initialize("other", &["s", "c"]);
    for chat in ["a", "b", "d"] {
        host.ask(busy, "createChat", json!({ "channel": "s", "chat": chat }));
        host.ask(watcher, "subscribe", json!({ "channel": chat }));
    }
    let seen = host.core.seq();
    for (n, (chat, letters)) in (1..).zip([("a", 2_000), ("b", 7_000), ("d", 100)]) {
        let mut started = turn_started("t1");
        started["message"]["text"] = "x".repeat(letters).into();
        host.dispatch(busy, n, chat, started);
    }
    host.pull(watcher);
    host.close(watcher);
    let (conn, answer) = host.reconnect("other", seen, &["a", "b", "c", "d", "s"]);
    let snapshots = answer["result"]["snapshots"].as_array().unwrap();
    let sent: Vec<_> = snapshots.iter().map(|it| it["resource"].as_str().unwrap()).collect();
    assert_eq!(sent, ["a", "c", "d", "s"]);
    host.dispatch(busy, 9, "s", title("live"));
    assert_eq!(host.received(conn), ["session/titleChanged"]);
}

#[test]
fn only_actions_of_named_channels_are_replayed() {
    let (mut host, busy, seen) = away();
    host.dispatch(busy, 1, "s", title("x"));
    host.starts_turn(busy, 2, "t1");
    let (_, answer) = host.reconnect("watcher", seen, &["c"]);
    let actions = answer["result"]["actions"].as_array().unwrap();
    assert!(actions.iter().all(|action| action["channel"] == "c") && !actions.is_empty());
}

/// A chat that was created after the client disconnected is in the archive. It is restored because
/// the client names it, and then reported as missing.
#[test]
fn a_chat_missing_for_a_returning_client_leaves_memory() {
    let (mut host, busy, seen) = away();
    host.ask(busy, "createChat", json!({ "channel": "s", "chat": "d" }));
    assert!(
        !host.core.channels.contains_key("d") || host.core.state("d").is_none(),
        "nobody looks at it"
    );
    let chats = host.core.counts().chats;
    let (_, answer) = host.reconnect("watcher", seen, &["d", "nowhere"]);
    assert_eq!(answer["result"]["missing"], json!(["d", "nowhere"]));
    assert_eq!(host.core.counts().chats, chats);
}

/// A connected client learned that the session was removed; a returning client learns the same.
#[test]
fn a_recreated_channel_is_missing_for_a_returning_client() {
    let (mut host, busy, seen) = away();
    host.ask(busy, "disposeChat", json!({ "channel": "c" }));
    host.ask(busy, "createChat", json!({ "channel": "s", "chat": "c" }));
    let (conn, answer) = host.reconnect("watcher", seen, &["s", "c"]);
    assert_eq!(
        (&answer["result"]["type"], &answer["result"]["missing"]),
        (&json!("replay"), &json!(["c"]))
    );
    let seen = host.core.seq();
    host.close(conn);
    host.ask(busy, "disposeSession", json!({ "channel": "s" }));
    host.ask(busy, "createSession", json!({ "channel": "s" }));
    let (conn, answer) = host.reconnect("watcher", seen, &["s"]);
    assert_eq!(
        (&answer["result"]["type"], &answer["result"]["missing"]),
        (&json!("replay"), &json!(["s"]))
    );
    host.ask(conn, "subscribe", json!({ "channel": "s" }));
    host.close(conn);
    let (_, answer) = host.reconnect("watcher", host.core.seq(), &["s"]);
    assert_eq!(
        (&answer["result"]["type"], &answer["result"]["missing"]),
        (&json!("replay"), &json!([]))
    );
}

#[test]
fn a_client_that_is_up_to_date_gets_an_empty_replay() {
    let (mut host, _, seen) = away();
    let (_, answer) = host.reconnect("watcher", seen, &["s", "c"]);
    assert_eq!(
        (&answer["result"]["type"], &answer["result"]["actions"]),
        (&json!("replay"), &json!([]))
    );
}

/// The second answer is lost, and the actions before it too: the first answer counts.
#[test]
fn a_client_that_subscribed_twice_is_replayed_from_the_first_answer() {
    let (mut host, busy) = Host::with_chat("busy", &[]);
    let watcher = host.second("watcher", &[]);
    host.pull(watcher);
    let seen = host.core.seq();
    host.dispatch(busy, 1, "s", title("missed"));
    host.request(watcher, "subscribe", json!({ "channel": "s" }));
    host.pull(watcher);
    host.close(watcher);
    let (_, answer) = host.reconnect("watcher", seen, &["s"]);
    assert_eq!(
        (&answer["result"]["type"], seqs(&answer["result"]["actions"])),
        (&json!("replay"), vec![seen + 1])
    );
}

/// The host remembers only so many states of a client. Those of removed chats go first.
#[test]
fn the_states_of_removed_chats_displace_no_state_that_the_client_has() {
    let limits = HostLimits { subscriptions: 2, ..HostLimits::default() };
    let (mut host, busy) = Host::with(limits).having_chat("busy", &[]);
    let conn = host.initialize("watcher", &["s"]);
    for chat in ["d", "e", "f", "g"] {
        host.ask(busy, "createChat", json!({ "channel": "s", "chat": chat }));
        host.ask(conn, "subscribe", json!({ "channel": chat }));
        host.ask(busy, "disposeChat", json!({ "channel": chat }));
    }
    host.close(conn);
    let (_, answer) = host.reconnect("watcher", host.core.seq(), &["s"]);
    assert_eq!(answer["result"]["type"], "replay");
}

#[test]
fn a_replay_needs_every_missed_action_in_the_log() {
    for (more, kind) in [(0, "replay"), (1, "snapshot")] {
        let (mut host, busy, seen) =
            away_with(HostLimits { log_actions: 4, ..HostLimits::default() });
        for n in 0..4 + more {
            host.dispatch(busy, n, "s", title(&n.to_string()));
        }
        host.pull(busy);
        let (_, answer) = host.reconnect("watcher", seen, &["s"]);
        assert_eq!(answer["result"]["type"], kind, "{more} more than are kept");
    }
}

#[test]
fn a_snapshot_is_followed_by_later_actions() {
    let (mut host, busy, seen) = away_with(HostLimits { log_actions: 2, ..HostLimits::default() });
    for n in 0..9 {
        host.dispatch(busy, n, "s", title(&n.to_string()));
        host.pull(busy);
    }
    let (conn, answer) = host.reconnect("watcher", seen, &["s", "gone"]);
    let snapshots = answer["result"]["snapshots"].as_array().unwrap();
    assert_eq!(snapshots.len(), 1, "what is missing has no snapshot");
    assert_eq!(
        (&snapshots[0]["state"]["title"], &snapshots[0]["fromSeq"]),
        (&json!("8"), &json!(host.core.seq()))
    );
    host.dispatch(busy, 20, "s", title("live"));
    assert_eq!(host.received(conn), ["session/titleChanged"]);
}

#[test]
fn a_client_that_reports_a_future_action_gets_snapshots() {
    let (mut host, _, seen) = away();
    let (_, answer) = host.reconnect("watcher", seen + 1, &["s"]);
    assert_eq!(answer["result"]["type"], "snapshot");
}

/// The client could not apply actions to a state that it never received.
#[test]
fn a_channel_without_a_known_state_prevents_a_replay_but_a_missing_one_does_not() {
    let (mut host, _, seen) = away();
    let (conn, answer) = host.reconnect("watcher", seen, &["s", ROOT]);
    assert_eq!(answer["result"]["type"], "snapshot");
    host.close(conn);
    let (conn, answer) = host.reconnect("watcher", seen, &["s", ROOT, "gone"]);
    assert_eq!(answer["result"]["type"], "replay", "it was given now");
    host.close(conn);
    let (_, answer) = host.reconnect("watcher", seen, &["s", "gone"]);
    assert_eq!(answer["result"]["type"], "replay");
}

#[test]
fn actions_during_a_slow_reconnect_are_sent_once() {
    let (mut host, busy, seen) = away();
    host.notify(busy, "unsubscribe", json!({ "channel": "c" }));
    host.restores = Some(Vec::new());
    let conn = host.open();
    let id = host.reconnect_on(conn, "watcher", seen, &["s", "c"]);
    host.dispatch(busy, 1, "s", title("meanwhile"));
    assert_eq!(host.received(conn), Vec::<String>::new());
    host.restored("c");
    let answer = host.answer(conn, id).unwrap();
    assert_eq!(seqs(&answer["result"]["actions"]), [seen + 1]);
    assert_eq!(host.received(conn), Vec::<String>::new());
}

#[test]
fn a_restore_past_its_deadline_counts_as_missing() {
    let (mut host, busy, seen) = away();
    host.notify(busy, "unsubscribe", json!({ "channel": "c" }));
    host.restores = Some(Vec::new());
    let conn = host.open();
    let id = host.reconnect_on(conn, "watcher", seen, &["s", "c"]);
    host.wait(10 * S - MS);
    assert_eq!(host.answer(conn, id), None);
    host.wait(MS);
    assert_eq!(host.answer(conn, id).unwrap()["result"]["missing"], json!(["c"]));
    host.restored("c");
    assert!(host.core.state("c").is_none(), "it came too late");
}

/// Overlapping connections: each is a complete stream.
#[test]
fn each_connection_of_a_client_receives_everything() {
    let (mut host, busy) = Host::with_chat("busy", &[]);
    let older = host.second("watcher", &[]);
    let (newer, _) = host.reconnect("watcher", host.core.seq(), &["s", "c"]);
    host.dispatch(busy, 1, "s", title("1"));
    host.dispatch(busy, 2, "s", title("2"));
    assert_eq!(host.received(newer).len(), 2);
    host.close(newer);
    host.dispatch(busy, 3, "s", title("3"));
    let reported: Vec<_> =
        host.actions(older).iter().map(|action| action["action"]["title"].clone()).collect();
    assert_eq!(reported, ["1", "2", "3"], "nothing was lost with the newer one");
}

/// A host that keeps three actions, a busy client, and a slow one that reads one action and has no
/// room for the next.
fn slow() -> (Host, ConnId, ConnId) {
    let (mut host, busy) =
        Host::with(HostLimits { log_actions: 3, ..HostLimits::default() }).having_chat("busy", &[]);
    let slow = host.second("slow", &[]);
    titles(&mut host, busy, 0..5);
    assert!(host.core.pull(slow).is_some());
    (host, busy, slow)
}

fn titles(host: &mut Host, busy: ConnId, which: std::ops::Range<i64>) {
    for n in which {
        host.dispatch(busy, n, "s", title(&n.to_string()));
        host.pull(busy);
    }
}

#[test]
fn a_slow_reader_is_closed_and_gets_a_snapshot() {
    let (mut host, busy, slow) = slow();
    let seen = host.core.seq();
    titles(&mut host, busy, 5..8);
    assert_eq!(host.core.over(slow), None);
    titles(&mut host, busy, 8..9);
    assert_eq!(host.core.over(slow), Some(CloseReason::Behind));
    assert_eq!(host.received(slow), Vec::<String>::new(), "and is not told half of it");
    host.close(slow);
    let (_, answer) = host.reconnect("slow", seen, &["s"]);
    assert_eq!(answer["result"]["type"], "snapshot");
}

/// The number of actions does not matter, because the connection had no chance to read them yet.
#[test]
fn a_reader_without_a_backlog_receives_more_than_the_log_keeps() {
    let (mut host, busy, slow) = slow();
    let reported = |host: &mut Host| {
        host.actions(slow)
            .iter()
            .map(|action| action["serverSeq"].as_u64().unwrap())
            .collect::<Vec<_>>()
    };
    let seen = host.core.seq();
    assert_eq!(reported(&mut host), (seen - 3..=seen).collect::<Vec<_>>());
    titles(&mut host, busy, 5..15);
    assert_eq!(host.core.over(slow), None);
    assert_eq!(reported(&mut host), (seen + 1..=seen + 10).collect::<Vec<_>>());
}

/// The log keeps at most as many bytes for a connection as it may hold itself.
#[test]
fn a_connection_over_the_byte_limit_is_closed() {
    let limits = HostLimits { log_actions: 3, log_bytes: 2_000, ..HostLimits::default() };
    let (mut host, busy) = Host::with(limits).having_chat("busy", &[]);
    let idle = host.second("idle", &[]);
    host.pull(idle);
    titles(&mut host, busy, 0..5);
    assert_eq!(host.core.over(idle), None);
    assert!(host.core.counts().owed > 0);
    titles(&mut host, busy, 5..200);
    assert_eq!(host.core.over(idle), Some(CloseReason::Behind));
    assert_eq!(host.core.counts().owed, 0);
}

/// The connection has room only at times: the kept actions are sent in order, each once.
#[test]
fn a_partial_read_continues_after_actions_left_the_log() {
    let (mut host, busy, slow) = slow();
    titles(&mut host, busy, 5..7);
    assert!(host.core.pull(slow).is_some());
    titles(&mut host, busy, 7..8);
    let seqs: Vec<_> =
        host.actions(slow).iter().map(|action| action["serverSeq"].as_u64().unwrap()).collect();
    let seen = host.core.seq();
    assert_eq!((seqs, host.core.over(slow)), ((seen - 5..=seen).collect(), None));
}

/// A client that unsubscribes from a session first receives the removal of its chats, even if that
/// action has left the log.
#[test]
fn a_removal_that_left_the_log_is_sent_before_the_unsubscription() {
    let (mut host, busy) =
        Host::with(HostLimits { log_actions: 3, ..HostLimits::default() }).having_chat("busy", &[]);
    let watcher = host.second("watcher", &[]);
    host.ask(busy, "disposeChat", json!({ "channel": "c" }));
    titles(&mut host, busy, 0..5);
    host.notify(watcher, "unsubscribe", json!({ "channel": "s" }));
    assert_eq!(host.received(watcher), ["session/chatRemoved"]);
}

#[test]
fn an_answer_is_sent_after_all_earlier_actions() {
    let (mut host, busy) = Host::with_chat("busy", &[]);
    let watcher = host.second("watcher", &[]);
    host.dispatch(busy, 1, "s", title("before"));
    host.request(watcher, "subscribe", json!({ "channel": ROOT }));
    host.dispatch(busy, 2, "s", title("after"));
    host.pull(watcher);
    let order: Vec<_> =
        host.inbox[&watcher].iter().map(|sent| sent["params"]["action"]["title"].clone()).collect();
    assert_eq!(order, [json!("before"), Value::Null, json!("after")]);
}
