//! Tests of the states that clients have.

use super::super::replicas::{replay_is_used, replicas_converge};
use super::*;
use crate::schedule::LimitValue;

#[test]
fn stable_states_are_equal() {
    let scripted = |known: &str| {
        let scripted = saw(
            saw(here_until(None), 1_000, "server", "c1", "state changed"),
            1_200,
            "server",
            "c1",
            "state stable: aa",
        );
        saw(scripted, 1_210, "client", "c1", &format!("state stable: {known}")).horizon(20_000)
    };
    holds(&scripted("aa"), replicas_converge);
    assert_eq!(
        violations(&scripted("bb"), replicas_converge),
        [
            "c1: the state that the window of client has had since 1.210 s differs from the state that the host has had since 1.200 s (at 20.000 s)"
        ]
    );
    holds(&scripted("bb").kills(1_300, 19_500), replicas_converge);
    // Data sent during a delay can arrive after its end.
    let delayed = |until| scripted("bb").delayed(until - 100, Some(until), 2_000);
    holds(&delayed(18_000), replicas_converge);
    assert_eq!(violations(&delayed(14_000), replicas_converge).len(), 1);
    let gone = saw(
        saw(scripted("aa"), 5_000, "server", "c1", "state changed"),
        5_200,
        "server",
        "c1",
        "removed",
    );
    assert_eq!(violations(&gone, replicas_converge).len(), 1);
    holds(&saw(gone, 5_100, "client", "c1", "removed"), replicas_converge);
    assert_eq!(
        violations(
            &saw(scripted("bb"), 10_000, "client", "c1", "state stable: aa"),
            replicas_converge
        )
        .len(),
        1
    );
}

#[test]
fn a_change_arrives_behind_the_states_that_its_window_asked_for() {
    let scripted = |times| {
        let run = here_until(None).produced("t1", 500, &"x".repeat(1_000_000));
        let run = asks_for_states(run, 1_000, times);
        let run = saw(run, 1_000, "server", "c1", "state changed");
        let run = saw(run, 1_200, "server", "c1", "state stable: aa");
        saw(run, 1_210, "client", "c1", "state stable: bb").horizon(20_000)
    };
    assert_eq!(violations(&scripted(1), replicas_converge).len(), 1);
    holds(&scripted(30), replicas_converge);
}

#[test]
fn a_dead_client_loses_its_state() {
    let scripted = || {
        let scripted = saw(
            saw(here_until(None), 1_000, "server", "c1", "state changed"),
            1_200,
            "server",
            "c1",
            "state stable: aa",
        );
        saw(scripted, 1_210, "client", "c1", "state stable: aa").horizon(20_000)
    };
    let truth = |scripted, digest: &str| {
        saw(
            saw(scripted, 3_000, "server", "c1", "state changed"),
            3_200,
            "server",
            "c1",
            &format!("state stable: {digest}"),
        )
    };
    assert_eq!(violations(&truth(scripted(), "bb"), replicas_converge).len(), 1);
    holds(
        &truth(scripted().died("client", 2_000).started("client", 2_500), "bb"),
        replicas_converge,
    );
    let known = |scripted| saw(scripted, 4_000, "client", "c1", "state stable: bb");
    assert_eq!(violations(&known(scripted()), replicas_converge).len(), 1);
    holds(&known(scripted().died("server", 2_000).started("server", 2_500)), replicas_converge);
}

#[test]
fn a_client_that_missed_little_gets_a_replay() {
    let connected = || {
        let fields = [("generation", "1")];
        milestone(here_until(Some(5_000)), 40, "client", "toolcall.client.connected", &fields)
    };
    let back = |opened: u64| {
        let fields = [("conn", "2"), ("client", "client")];
        let name = "toolcall.host.arriving";
        let arrives = milestone(connected().conn(2, opened, None), 6_005, "server", name, &fields);
        milestone(arrives, 6_010, "server", "toolcall.host.reseated", &fields)
    };
    assert_eq!(
        violations(&back(6_000), replay_is_used),
        [
            "client: it received snapshots, although the host still keeps all actions that it missed (at 6.010 s)"
        ]
    );
    holds(&back(15), replay_is_used); // it belongs to the window before a reload with the same id
    let unheard = milestone(
        here_until(Some(5_000)).conn(2, 6_000, None),
        6_010,
        "server",
        "toolcall.host.reseated",
        &[("conn", "2"), ("client", "client")],
    );
    holds(&unheard, replay_is_used);
}

/// A client whose user stops watching a channel at 4 s. The unsubscription arrives over its first connection,
/// until this moment.
fn unwatched(channel: &str, received: u64) -> ScriptedRun {
    let run = history().conn_closed(1, 10, 7_000, Some(5_000)).received(received);
    let run = looks(accepted(run, 20, "1"), 30, "client");
    let asked = format!(r#"{{"channel":"{channel}"}}"#);
    run.asked_as(2, 4_000, Class::Durable, "unwatch", &asked)
}

/// A connection of this number brings the chat again at 5.300 s. Over the next one, at 6.700 s, the client
/// receives snapshots. Returns the number of violations.
fn returns_again(run: ScriptedRun, newer: u32) -> usize {
    let generation = newer.to_string();
    let fields = [("generation", generation.as_str())];
    let run = milestone(run, 5_250, "client", "toolcall.client.connected", &fields);
    let run = saw(run, 5_300, "client", "c1", "state received");
    let next = newer + 1;
    let conn = next.to_string();
    let fields = [("conn", conn.as_str()), ("client", "client")];
    let run = run.conn(next, 6_600, None);
    let run = milestone(run, 6_700, "server", "toolcall.host.arriving", &fields);
    let back = milestone(run, 6_800, "server", "toolcall.host.reseated", &fields);
    violations(&back, replay_is_used).len()
}

/// The unsubscription is sent over the first connection. The second one brings the chat again.
#[test]
fn a_late_unsubscription_may_end_a_newer_state() {
    let found = |received: u64, left: &str| {
        let run = unwatched(left, received);
        let run = accepted(run.conn(2, 5_100, Some(6_500)), 5_200, "2");
        returns_again(run, 2)
    };
    assert_eq!(found(6_000, "c1"), 0);
    assert_eq!(found(5_199, "c1"), 1, "it arrived before the newer connection");
    assert_eq!(found(5_250, "c1"), 1, "the chat was received after it");
    assert_eq!(found(6_000, "s2"), 1, "of another channel");
}

/// A user that stops watching the session stops watching all chats.
#[test]
fn a_late_unsubscription_from_the_session_may_end_a_newer_chat() {
    let found = |channel: &str, left: u64| {
        let run = unwatched(channel, 6_000);
        let run = saw(run, left, "client", "c1", "unsubscribed");
        let run = accepted(run.conn(2, 5_100, Some(6_500)), 5_200, "2");
        returns_again(run, 2)
    };
    assert_eq!(found("s1", 4_000), 0);
    assert_eq!(found("s1", 3_900), 1, "its user did not watch the chat any more");
    assert_eq!(found("s2", 4_000), 1, "another session");
}

/// A client sends what its user asked for during a handshake over that connection, after the answer.
#[test]
fn an_unsubscription_during_a_handshake_may_be_late() {
    let found = |asked: u64, is_newer: bool| {
        let run = looks(accepted(history().conn(1, 10, Some(3_000)), 20, "1"), 30, "client");
        let run = run.conn_closed(2, 4_000, 7_000, Some(5_000)).received(6_000);
        let own = r#"{"channel":"c1"}"#;
        let run = run.asked_as(2, asked, Class::Durable, "unwatch", own);
        let run = accepted(run, 4_200, "2").conn(3, 5_100, Some(6_500));
        let run = if is_newer { accepted(run, 5_200, "3") } else { run };
        returns_again(run, 3)
    };
    assert_eq!(found(4_100, true), 0);
    assert_eq!(found(3_999, true), 1, "the next handshake does not name the chat");
    assert_eq!(found(4_100, false), 1, "the host knows no newer connection");
}

#[test]
fn a_client_that_missed_more_than_one_answer_holds_gets_snapshots() {
    let since = |heard: u64, bytes: usize| {
        let mut run = here_until(Some(5_000)).heard(heard).conn(2, 6_000, None);
        run.plan.limits.set("host.message-bytes", LimitValue::Bytes(1 << 20));
        let connected = "toolcall.client.connected";
        let run = milestone(run, 40, "client", connected, &[("generation", "1")]);
        let run = run.produced("t1", 5_500, &"x".repeat(bytes));
        let fields = [("conn", "2"), ("client", "client")];
        milestone(run, 6_010, "server", "toolcall.host.reseated", &fields)
    };
    assert_eq!(violations(&since(4_000, 500_000), replay_is_used).len(), 1);
    holds(&since(4_000, 600_000), replay_is_used);
}

/// The numbers of the host begin again with each incarnation.
#[test]
fn a_client_has_seen_no_action_that_its_host_has_not_performed() {
    let noted = |scripted: ScriptedRun, ms, host: &str, number| {
        let (digest, contents, number) = ("0f".to_owned(), None, Some(number));
        let saw = Data::of(OfChannel::Stable { second: false, digest, contents, number });
        scripted.entry(ms, Some(host), EventKind::Observed { stream: "c1".into(), saw })
    };
    let begins = |scripted, ms, conn| {
        let fields = [("generation", "1"), ("conn", conn), ("client", "client")];
        let opened = milestone(scripted, ms, "client", "toolcall.client.opened", &fields);
        let accepted = accepted(opened, ms + 10, conn);
        milestone(accepted, ms + 20, "client", "toolcall.client.initialized", &fields)
    };
    let first = || begins(history().conn(1, 10, Some(3_000)), 20, "1");
    let run =
        |performed, seen| noted(noted(first(), 1_000, "server", performed), 1_010, "client", seen);
    holds(&run(7, 7), replay_is_used);
    assert_eq!(
        violations(&run(7, 8), replay_is_used),
        ["client: it counts action 8 as seen, although the host had performed only 7 (at 1.010 s)"]
    );
    // The host performs more actions before it is noted again.
    let busy = saw(noted(first(), 1_000, "server", 7), 1_005, "server", "c1", "state changed");
    let busy = noted(busy, 1_010, "client", 8);
    holds(&busy, replay_is_used);
    holds(&noted(busy.clone(), 1_300, "server", 9), replay_is_used);
    assert_eq!(violations(&noted(busy, 1_300, "server", 7), replay_is_used).len(), 1);
    let restarted = || run(7, 7).died("server", 3_000).started("server", 3_500);
    let late = |scripted| noted(noted(scripted, 5_000, "server", 2), 5_010, "client", 7);
    holds(&late(restarted()), replay_is_used); // the window has no answer of the new host yet
    let back = begins(restarted().conn(2, 4_000, None), 4_010, "2");
    assert_eq!(violations(&late(back), replay_is_used).len(), 1);
}
