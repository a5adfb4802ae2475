//! When the owner of a call counts as disconnected, and when it does not.

use super::*;

#[test]
fn a_call_fails_after_its_owner_was_disconnected_for_30_s() {
    let (mut host, conn, id) = with_call();
    let watcher = host.second("watcher", &[]);
    host.close(conn);
    host.wait(30 * S - MS);
    assert_eq!(
        (host.call(&id), host.active().as_slice()),
        ("streaming", &["window".to_owned()][..])
    );
    host.wait(MS);
    assert_eq!((host.call(&id), host.active().is_empty()), ("failed", true));
    let reported = host.received(watcher);
    assert_eq!(
        reported.iter().filter(|reported| *reported == "chat/toolCallComplete").count(),
        1,
        "once: {reported:?}"
    );
}

/// No client may start a call that is about to fail.
#[test]
fn a_failed_streaming_call_never_runs() {
    let (mut host, conn, _) = with_call();
    let watcher = host.second("watcher", &[]);
    host.close(conn);
    host.wait(30 * S);
    let ready = host
        .actions(watcher)
        .into_iter()
        .find(|action| action["action"]["type"] == "chat/toolCallReady")
        .unwrap();
    assert_eq!(ready["action"]["confirmed"], Value::Null);
}

#[test]
fn running_and_unconfirmed_calls_fail_too() {
    for confirmed in [true, false] {
        let (mut host, conn, id) = with_call();
        host.ready(&id, confirmed);
        host.close(conn);
        host.wait(30 * S);
        assert_eq!(host.call(&id), "failed", "confirmed: {confirmed}");
    }
}

/// A real incident: the newer of two connections closes, the older one stays open for long, and a
/// call begins.
#[test]
fn a_client_with_an_older_connection_is_still_connected() {
    let (mut host, older) = Host::with_chat("window", &["tool"]);
    let (newer, _) = host.reconnect("window", host.core.seq(), &["s", "c"]);
    host.close(newer);
    host.wait(31 * S);
    host.starts_turn(older, 1, "t1");
    let id = host.calls("tool");
    host.wait(300 * S);
    assert_eq!((host.call(&id), host.owner(&id).as_deref()), ("streaming", Some("window")));
    host.close(older);
    host.wait(30 * S);
    assert_eq!(host.call(&id), "failed", "now it is");
}

#[test]
fn the_late_end_of_an_older_connection_fails_no_call() {
    let (mut host, older, id) = with_call();
    let (_, answer) = host.reconnect("window", host.core.seq(), &["s", "c"]);
    assert_eq!(answer["result"]["type"], "replay");
    host.wait(10 * S);
    host.close(older);
    host.wait(300 * S);
    assert_eq!(host.call(&id), "streaming");
}

#[test]
fn a_silent_client_with_a_connection_keeps_its_calls() {
    let (mut host, _, id) = with_call();
    host.wait(3600 * S);
    assert_eq!(host.call(&id), "streaming");
}

#[test]
fn a_client_that_reconnects_in_time_keeps_its_calls_and_its_place() {
    let (mut host, conn, id) = with_call();
    host.ready(&id, true);
    host.close(conn);
    host.wait(30 * S - MS);
    let (conn, _) = host.reconnect("window", host.core.seq(), &["s", "c"]);
    host.wait(300 * S);
    assert_eq!((host.call(&id), host.active().len()), ("running", 1));
    host.dispatch(conn, 7, "c", completed(&id));
    assert_eq!(host.call(&id), "completed");
}

/// The lease ends at the instant of the reconnect: at its end, the lease is over.
#[test]
fn a_reconnect_at_the_end_of_the_lease_is_too_late() {
    let (mut host, conn, id) = with_call();
    host.close(conn);
    let end = host.now + 30 * S;
    host.now = end; // no timer was looked at
    let (_, answer) = host.reconnect("window", host.core.seq(), &["s", "c"]);
    assert!(answer["result"].is_object());
    assert_eq!(host.call(&id), "failed");
}

#[test]
fn a_new_call_does_not_prolong_the_lease() {
    let (mut host, conn) = Host::with_chat("window", &["tool"]);
    let user = host.second("user", &[]);
    host.close(conn);
    host.wait(20 * S);
    host.starts_turn(user, 1, "t1");
    let first = host.calls("tool");
    assert_eq!(host.owner(&first).as_deref(), Some("window"), "it may come back");
    host.wait(9 * S);
    let second = host.calls("tool");
    host.wait(S);
    assert_eq!((host.call(&first), host.call(&second)), ("failed", "failed"));
}

#[test]
fn a_call_without_a_possible_owner_fails_at_once() {
    let (mut host, conn) = Host::with_chat("window", &["tool"]);
    let user = host.second("user", &[]);
    host.close(conn);
    host.wait(30 * S);
    host.starts_turn(user, 1, "t1");
    let id = host.calls("tool");
    assert_eq!((host.call(&id), host.owner(&id)), ("failed", None));
}

#[test]
fn no_lease_runs_if_nothing_depends_on_the_client() {
    let (mut host, conn) = Host::with_chat("window", &[]);
    host.close(conn);
    assert_eq!(host.core.due(), Some(host.now + 300 * S), "only that it will be forgotten");
    host.wait(300 * S);
    assert!(host.core.clients.is_empty());
    assert_eq!(host.core.due(), None);
}

#[test]
fn a_call_of_an_unknown_owner_does_not_fail() {
    let (mut host, conn) = Host::with_chat("window", &[]);
    host.starts_turn(conn, 1, "t1");
    let owner = Owner::Client("elsewhere".into());
    let id = host.core.start_call("c", "t1", "tool", owner, host.now).unwrap();
    host.wait(300 * S);
    assert_eq!(host.call(&id), "streaming");
}

#[test]
fn a_reconnect_without_the_session_fails_the_calls_at_once() {
    let (mut host, conn, id) = with_call();
    host.close(conn);
    host.wait(S);
    host.reconnect("window", host.core.seq(), &[ROOT]);
    assert_eq!((host.call(&id), host.active().is_empty()), ("failed", true));
}

#[test]
fn a_reconnect_does_not_release_channels_of_another_connection() {
    let (mut host, _older, id) = with_call();
    host.reconnect("window", host.core.seq(), &[ROOT]);
    assert_eq!((host.call(&id), host.active().len()), ("streaming", 1));
}

#[test]
fn the_channels_of_a_closed_connection_get_a_lease() {
    let (mut host, older, id) = with_call();
    host.reconnect("window", host.core.seq(), &[ROOT]);
    host.close(older);
    host.wait(30 * S - MS);
    assert_eq!(host.call(&id), "streaming");
    host.wait(MS);
    assert_eq!(host.call(&id), "failed", "it is here, and does not want it");
}

#[test]
fn after_initialize_a_client_has_time_to_subscribe() {
    let (mut host, conn, id) = with_call();
    host.close(conn);
    host.wait(29 * S);
    let conn = host.initialize("window", &[]);
    host.wait(29 * S);
    assert_eq!(host.call(&id), "streaming", "it is here");
    for channel in ["s", "c"] {
        host.ask(conn, "subscribe", json!({ "channel": channel }));
    }
    host.wait(300 * S);
    assert_eq!((host.call(&id), host.active().len()), ("streaming", 1));
}

#[test]
fn after_initialize_the_wait_for_a_subscription_ends() {
    let (mut host, conn, id) = with_call();
    host.close(conn);
    host.wait(29 * S);
    host.initialize("window", &[]);
    host.wait(30 * S);
    assert_eq!(host.call(&id), "failed");
}

#[test]
fn unsubscribing_releases_at_once() {
    let (mut host, conn, id) = with_call();
    host.notify(conn, "unsubscribe", json!({ "channel": "s" }));
    assert_eq!((host.call(&id), host.active().is_empty()), ("failed", true));
}

#[test]
fn unsubscribing_from_a_chat_fails_its_calls_but_keeps_the_session() {
    let (mut host, conn, id) = with_call();
    host.notify(conn, "unsubscribe", json!({ "channel": "c" }));
    assert_eq!((host.call(&id), host.active().len()), ("failed", 1));
}

#[test]
fn a_call_in_a_second_chat_fails_too() {
    let (mut host, conn) = Host::with_chat("window", &["tool"]);
    host.ask(conn, "createChat", json!({ "channel": "s", "chat": "peer" }));
    host.ask(conn, "subscribe", json!({ "channel": "peer" }));
    host.dispatch(conn, 1, "peer", turn_started("t1"));
    let id = host.core.start_call("peer", "t1", "tool", Owner::Any, host.now).unwrap();
    assert_eq!(host.owner(&id).as_deref(), Some("window"));
    host.close(conn);
    host.wait(30 * S);
    assert_eq!(host.call(&id), "failed");
}

#[test]
fn a_failed_handshake_does_not_change_the_lease() {
    let (mut host, conn, id) = with_call();
    host.close(conn);
    host.wait(25 * S);
    host.restores = Some(Vec::new());
    let conn = host.open();
    host.reconnect_on(conn, "window", host.core.seq(), &["s", "c", "slow"]);
    host.wait(6 * S);
    assert_eq!(host.call(&id), "streaming", "it is on its way");
    host.close(conn);
    assert_eq!(
        host.core.due(),
        Some(host.now - S),
        "the lease that it had: it is over since a second"
    );
    host.wait(Duration::ZERO);
    assert_eq!(host.call(&id), "failed");
}

#[test]
fn a_handshake_timeout_does_not_change_the_lease() {
    let limits = HostLimits { restore_deadline: 60 * S, ..HostLimits::default() };
    let (mut host, conn) = Host::with(limits).having_chat("window", &["tool"]);
    host.starts_turn(conn, 1, "t1");
    let id = host.calls("tool");
    host.close(conn);
    host.wait(20 * S);
    host.restores = Some(Vec::new());
    let late = host.open();
    host.reconnect_on(late, "window", host.core.seq(), &["s", "c", "slow"]);
    host.wait(15 * S - MS);
    assert_eq!((host.call(&id), host.core.over(late)), ("streaming", None));
    host.wait(MS);
    assert_eq!((host.call(&id), host.core.over(late)), ("failed", Some(CloseReason::NoHandshake)));
}

#[test]
fn the_lease_of_one_client_does_not_affect_another() {
    let (mut host, gone) = Host::with_chat("gone", &["tool"]);
    let user = host.second("user", &["other"]);
    host.starts_turn(user, 1, "t1");
    let (theirs, ours) = (host.calls("tool"), host.calls("other"));
    host.close(gone);
    host.wait(30 * S);
    assert_eq!((host.call(&theirs), host.call(&ours)), ("failed", "streaming"));
    assert_eq!(host.active(), ["user"]);
}
