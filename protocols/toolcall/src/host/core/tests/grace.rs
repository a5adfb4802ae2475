//! When a call's owner counts as gone, and when it does not.

use super::*;

#[test]
fn a_call_is_failed_when_its_owner_was_away_for_thirty_seconds_and_not_before() {
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
    let reported = host.heard(watcher);
    assert_eq!(
        reported.iter().filter(|reported| *reported == "chat/toolCallComplete").count(),
        1,
        "once: {reported:?}"
    );
}

/// Nobody may begin with what is about to be failed.
#[test]
fn a_streaming_call_that_is_failed_never_runs() {
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
fn a_running_call_and_one_that_waits_for_a_confirmation_are_failed_too() {
    for confirmed in [true, false] {
        let (mut host, conn, id) = with_call();
        host.ready(&id, confirmed);
        host.close(conn);
        host.wait(30 * S);
        assert_eq!(host.call(&id), "failed", "confirmed: {confirmed}");
    }
}

/// The incident: the newer of two connections closes, the older one lives for long, and a call begins.
#[test]
fn a_client_with_an_older_connection_is_not_gone() {
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
fn the_late_end_of_an_older_connection_harms_nobody() {
    let (mut host, older, id) = with_call();
    let (_, answer) = host.reconnect("window", host.core.seq(), &["s", "c"]);
    assert_eq!(answer["result"]["type"], "replay");
    host.wait(10 * S);
    host.close(older);
    host.wait(300 * S);
    assert_eq!(host.call(&id), "streaming");
}

#[test]
fn a_client_that_only_watches_is_not_gone_however_long_it_is_silent() {
    let (mut host, _, id) = with_call();
    host.wait(3600 * S);
    assert_eq!(host.call(&id), "streaming");
}

#[test]
fn who_returns_in_time_and_names_the_channels_keeps_its_calls_and_its_place() {
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

/// The end of a lease and a return in the same instant: the lease is over at its end.
#[test]
fn who_returns_at_the_very_end_is_too_late_whether_or_not_a_timer_fired() {
    let (mut host, conn, id) = with_call();
    host.close(conn);
    let end = host.now + 30 * S;
    host.now = end; // no timer was looked at
    let (_, answer) = host.reconnect("window", host.core.seq(), &["s", "c"]);
    assert!(answer["result"].is_object());
    assert_eq!(host.call(&id), "failed");
}

#[test]
fn a_call_that_begins_while_its_owner_is_away_does_not_prolong_the_wait() {
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
fn a_call_that_begins_for_nobody_fails_at_once() {
    let (mut host, conn) = Host::with_chat("window", &["tool"]);
    let user = host.second("user", &[]);
    host.close(conn);
    host.wait(30 * S);
    host.starts_turn(user, 1, "t1");
    let id = host.calls("tool");
    assert_eq!((host.call(&id), host.owner(&id)), ("failed", None));
}

#[test]
fn nothing_is_armed_where_nothing_depends_on_the_client() {
    let (mut host, conn) = Host::with_chat("window", &[]);
    host.close(conn);
    assert_eq!(host.core.due(), Some(host.now + 300 * S), "only that it will be forgotten");
    host.wait(300 * S);
    assert!(host.core.clients.is_empty());
    assert_eq!(host.core.due(), None);
}

#[test]
fn an_owner_of_whom_the_host_knows_nothing_is_left_alone() {
    let (mut host, conn) = Host::with_chat("window", &[]);
    host.starts_turn(conn, 1, "t1");
    let owner = Owner::Client("elsewhere".into());
    let id = host.core.start_call("c", "t1", "tool", owner, host.now).unwrap();
    host.wait(300 * S);
    assert_eq!(host.call(&id), "streaming");
}

#[test]
fn who_returns_without_naming_the_session_loses_its_calls_at_once() {
    let (mut host, conn, id) = with_call();
    host.close(conn);
    host.wait(S);
    host.reconnect("window", host.core.seq(), &[ROOT]);
    assert_eq!((host.call(&id), host.active().is_empty()), ("failed", true));
}

#[test]
fn what_another_connection_holds_is_not_released_by_a_reconnect_that_does_not_name_it() {
    let (mut host, _older, id) = with_call();
    host.reconnect("window", host.core.seq(), &[ROOT]);
    assert_eq!((host.call(&id), host.active().len()), ("streaming", 1));
}

#[test]
fn what_only_the_closed_connection_held_is_waited_for() {
    let (mut host, older, id) = with_call();
    host.reconnect("window", host.core.seq(), &[ROOT]);
    host.close(older);
    host.wait(30 * S - MS);
    assert_eq!(host.call(&id), "streaming");
    host.wait(MS);
    assert_eq!(host.call(&id), "failed", "it is here, and does not want it");
}

#[test]
fn who_returns_from_nothing_has_time_to_subscribe() {
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
fn who_returns_from_nothing_and_does_not_subscribe_is_not_waited_for_for_ever() {
    let (mut host, conn, id) = with_call();
    host.close(conn);
    host.wait(29 * S);
    host.initialize("window", &[]);
    host.wait(30 * S);
    assert_eq!(host.call(&id), "failed");
}

#[test]
fn an_unsubscription_releases_at_once() {
    let (mut host, conn, id) = with_call();
    host.notify(conn, "unsubscribe", json!({ "channel": "s" }));
    assert_eq!((host.call(&id), host.active().is_empty()), ("failed", true));
}

#[test]
fn letting_go_of_one_chat_gives_up_the_calls_in_it_and_not_the_place_in_the_session() {
    let (mut host, conn, id) = with_call();
    host.notify(conn, "unsubscribe", json!({ "channel": "c" }));
    assert_eq!((host.call(&id), host.active().len()), ("failed", 1));
}

#[test]
fn a_call_in_a_second_chat_is_failed_too() {
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
fn a_handshake_that_fails_leaves_the_lease_as_it_was() {
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
fn a_handshake_that_takes_too_long_leaves_the_lease_as_it_was_too() {
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
fn the_lease_of_one_chat_says_nothing_of_another_client() {
    let (mut host, gone) = Host::with_chat("gone", &["tool"]);
    let user = host.second("user", &["other"]);
    host.starts_turn(user, 1, "t1");
    let (theirs, ours) = (host.calls("tool"), host.calls("other"));
    host.close(gone);
    host.wait(30 * S);
    assert_eq!((host.call(&theirs), host.call(&ours)), ("failed", "streaming"));
    assert_eq!(host.active(), ["user"]);
}
