//! What a client that comes back is told: everything that it missed, once, or how things are.

use super::*;

fn seqs(actions: &Value) -> Vec<u64> {
    actions.as_array().unwrap().iter().map(|action| action["serverSeq"].as_u64().unwrap()).collect()
}

/// A watcher who has seen everything until now, and has gone; and who makes things happen.
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
fn what_was_missed_is_replayed_in_order_and_only_that() {
    let (mut host, busy, seen) = away();
    for n in 0..3 {
        host.dispatch(busy, n, "s", title(&n.to_string()));
    }
    let (conn, answer) = host.reconnect("watcher", seen, &["s", "c", "gone"]);
    assert_eq!(answer["result"]["type"], "replay");
    assert_eq!(seqs(&answer["result"]["actions"]), [seen + 1, seen + 2, seen + 3]);
    assert_eq!(answer["result"]["missing"], json!(["gone"]));
    assert_eq!(host.heard(conn), Vec::<String>::new());
    host.dispatch(busy, 9, "s", title("live"));
    assert_eq!(host.actions(conn)[0]["serverSeq"], seen + 4);
}

#[test]
fn only_what_is_named_is_replayed() {
    let (mut host, busy, seen) = away();
    host.dispatch(busy, 1, "s", title("x"));
    host.starts_turn(busy, 2, "t1");
    let (_, answer) = host.reconnect("watcher", seen, &["c"]);
    let actions = answer["result"]["actions"].as_array().unwrap();
    assert!(actions.iter().all(|action| action["channel"] == "c") && !actions.is_empty());
}

/// One that was made since it was here, and is in the archive, is restored for whoever names it, and is missing for them.
#[test]
fn a_chat_that_is_missing_for_whoever_returns_does_not_stay_in_memory() {
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

/// Whoever was here was told that the session is gone; whoever was away hears the same.
#[test]
fn a_session_or_a_chat_that_was_made_anew_is_not_the_one_that_was_known() {
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
fn who_has_seen_everything_is_told_nothing() {
    let (mut host, _, seen) = away();
    let (_, answer) = host.reconnect("watcher", seen, &["s", "c"]);
    assert_eq!(
        (&answer["result"]["type"], &answer["result"]["actions"]),
        (&json!("replay"), &json!([]))
    );
}

/// The second answer is lost, and what happened before it, too: the first one counts.
#[test]
fn who_asked_twice_for_a_channel_is_told_everything_since_the_first_answer() {
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

#[test]
fn the_oldest_action_that_is_kept_is_the_last_that_may_have_been_missed() {
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
fn a_snapshot_is_how_things_are_and_what_comes_after_follows() {
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
    assert_eq!(host.heard(conn), ["session/titleChanged"]);
}

#[test]
fn who_claims_to_have_seen_what_did_not_happen_is_shown_how_things_are() {
    let (mut host, _, seen) = away();
    let (_, answer) = host.reconnect("watcher", seen + 1, &["s"]);
    assert_eq!(answer["result"]["type"], "snapshot");
}

/// Actions upon a state that the client was never given would come to nothing.
#[test]
fn a_channel_whose_state_was_not_given_is_not_replayed_and_one_that_is_missing_poisons_nothing() {
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
fn what_happens_during_a_slow_reconnect_is_told_once() {
    let (mut host, busy, seen) = away();
    host.notify(busy, "unsubscribe", json!({ "channel": "c" }));
    host.restores = Some(Vec::new());
    let conn = host.open();
    let id = host.reconnect_on(conn, "watcher", seen, &["s", "c"]);
    host.dispatch(busy, 1, "s", title("meanwhile"));
    assert_eq!(host.heard(conn), Vec::<String>::new());
    host.restored("c");
    let answer = host.answer(conn, id).unwrap();
    assert_eq!(seqs(&answer["result"]["actions"]), [seen + 1]);
    assert_eq!(host.heard(conn), Vec::<String>::new());
}

#[test]
fn a_restore_that_never_ends_is_missing_at_its_deadline() {
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

/// Overlapping connections: each is a stream without holes.
#[test]
fn each_connection_of_a_client_is_told_everything() {
    let (mut host, busy) = Host::with_chat("busy", &[]);
    let older = host.second("watcher", &[]);
    let (newer, _) = host.reconnect("watcher", host.core.seq(), &["s", "c"]);
    host.dispatch(busy, 1, "s", title("1"));
    host.dispatch(busy, 2, "s", title("2"));
    assert_eq!(host.heard(newer).len(), 2);
    host.close(newer);
    host.dispatch(busy, 3, "s", title("3"));
    let reported: Vec<_> =
        host.actions(older).iter().map(|action| action["action"]["title"].clone()).collect();
    assert_eq!(reported, ["1", "2", "3"], "nothing was lost with the newer one");
}

/// A host that keeps three actions, a busy client, and a slow one that takes one action and has no room for the next.
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
fn who_reads_too_slowly_is_cut_and_comes_back_to_a_snapshot() {
    let (mut host, busy, slow) = slow();
    let seen = host.core.seq();
    titles(&mut host, busy, 5..8);
    assert_eq!(host.core.over(slow), None);
    titles(&mut host, busy, 8..9);
    assert_eq!(host.core.over(slow), Some(CloseReason::Behind));
    assert_eq!(host.heard(slow), Vec::<String>::new(), "and is not told half of it");
    host.close(slow);
    let (_, answer) = host.reconnect("slow", seen, &["s"]);
    assert_eq!(answer["result"]["type"], "snapshot");
}

/// However many actions come at once: it had no chance to take them yet.
#[test]
fn who_took_everything_is_told_more_than_is_kept() {
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

/// What is kept for it is bounded: as many bytes as the log may hold.
#[test]
fn who_is_owed_too_many_bytes_is_cut() {
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

/// Room comes and goes: what is owed is said in order, and once.
#[test]
fn who_takes_some_of_what_left_the_log_is_told_the_rest_later() {
    let (mut host, busy, slow) = slow();
    titles(&mut host, busy, 5..7);
    assert!(host.core.pull(slow).is_some());
    titles(&mut host, busy, 7..8);
    let seqs: Vec<_> =
        host.actions(slow).iter().map(|action| action["serverSeq"].as_u64().unwrap()).collect();
    let seen = host.core.seq();
    assert_eq!((seqs, host.core.over(slow)), ((seen - 5..=seen).collect(), None));
}

/// The end of a chat is told to whoever lets go of its session first, also if the log has let it go.
#[test]
fn a_removal_that_left_the_log_is_told_before_its_session_is_let_go() {
    let (mut host, busy) =
        Host::with(HostLimits { log_actions: 3, ..HostLimits::default() }).having_chat("busy", &[]);
    let watcher = host.second("watcher", &[]);
    host.ask(busy, "disposeChat", json!({ "channel": "c" }));
    titles(&mut host, busy, 0..5);
    host.notify(watcher, "unsubscribe", json!({ "channel": "s" }));
    assert_eq!(host.heard(watcher), ["session/chatRemoved"]);
}

#[test]
fn an_answer_stands_behind_what_happened_before_it() {
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
