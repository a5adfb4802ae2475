//! Tests of connections, of questions, and of restores.

use std::collections::BTreeMap;

use super::super::line::{client_comes_back, healthy_is_kept, no_room, requests_settle};
use super::*;
use crate::history::{ConnIndex, Nature, Scope, Time};
use crate::schedule::{Conn, Fault, LimitValue, TrafficCount, Which, faults};

#[test]
fn a_client_reconnects() {
    let connected = |scripted, ms| {
        milestone(scripted, ms, "client", "toolcall.client.connected", &[("generation", "2")])
    };
    let lost = |ms| {
        milestone(
            history().kills(1_000, 9_000),
            ms,
            "client",
            "toolcall.client.lost",
            &[("generation", "1")],
        )
    };
    holds(&connected(lost(1_000).horizon(90_000), 9_000 + BACK), client_comes_back);
    assert_eq!(
        violations(&lost(1_000).horizon(90_000), client_comes_back),
        ["client: it had not reconnected by 55.620 s, and was disconnected since 1.000 s"]
    );
    holds(&lost(1_000).horizon(9_000 + BACK), client_comes_back);
    let scripted = |scripted: ScriptedRun| {
        scripted.asked_as(1, 100, Class::Durable, "start-turn", "{}").answered(
            1,
            200,
            rejected("a token is required"),
        )
    };
    assert_eq!(violations(&scripted(looks(history(), 50, "client")), client_comes_back).len(), 1);
    holds(&scripted(history()), client_comes_back); // it was asked before it had moved in
}

/// Each window is reloaded, and the host forgets its earlier client after the retention of 300 s.
#[test]
fn a_host_that_remembers_enough_other_clients_has_no_room() {
    let run = |most| {
        let mut scripted = history().conn(1, 10, Some(1_000)).conn(1, 1_010, Some(2_000));
        for (n, ms) in [(1, 20), (2, 1_020)] {
            let (conn, client) = (n.to_string(), format!("client.{n}"));
            let fields = [("conn", conn.as_str()), ("client", client.as_str())];
            scripted = milestone(scripted, ms, "server", "toolcall.host.initialized", &fields);
            scripted = milestone(scripted, ms - 10, "client", "toolcall.client.opened", &fields);
        }
        let fields = [("client", "client.3")];
        scripted = milestone(scripted, 2_010, "client", "toolcall.client.opened", &fields);
        scripted.plan.limits.set("host.clients", LimitValue::Count(most));
        scripted.with_limits(LIMITS, |cx| no_room(cx, "client"))
    };
    assert!(run(3).is_empty());
    assert_eq!(run(2), [(Time(2_010), Time(1_000 + 300_000 + MOMENT))]);
}

#[test]
fn a_healthy_connection_is_kept() {
    let connected =
        milestone(history(), 100, "client", "toolcall.client.connected", &[("generation", "1")]);
    let lost = |scripted| {
        milestone(scripted, 50_000, "client", "toolcall.client.lost", &[("generation", "1")])
    };
    assert_eq!(
        violations(&lost(connected.clone()), healthy_is_kept),
        ["client: it lost its connection, although no fault touched the connection (at 50.000 s)"]
    );
    holds(&lost(connected.kills(49_000, 51_000)), healthy_is_kept);
}

/// What the host says of a connection counts for that one only, and only if its link may have had no room.
#[test]
fn a_connection_is_behind_only_if_its_link_may_have_been_full() {
    let run = |conn: &str, kib: usize, ms: u64| {
        let scripted = history().conn(1, 10, None).by("client2").conn(1, 10, None).by("client");
        let fields = [("conn", "1"), ("client", "client")];
        let scripted = milestone(scripted, 20, "client", "toolcall.client.opened", &fields);
        let fields = [("generation", "1")];
        let scripted = milestone(scripted, 100, "client", "toolcall.client.connected", &fields);
        let scripted = scripted.produced("t1", ms, &"x".repeat(kib << 10));
        let fields = [("conn", conn), ("why", "the client is too far behind")];
        let scripted = milestone(scripted, 50_000, "server", "toolcall.host.cut", &fields);
        let fields = [("generation", "1")];
        milestone(scripted, 50_010, "client", "toolcall.client.lost", &fields)
    };
    let losses = |scripted: &ScriptedRun| violations(scripted, healthy_is_kept).len();
    holds(&run("1", 20, 49_900), healthy_is_kept);
    holds(&run("1", 20, 50_000 - MOMENT), healthy_is_kept);
    assert_eq!(losses(&run("1", 20, 49_999 - MOMENT)), 1);
    assert_eq!(losses(&run("1", 0, 49_900)), 1);
    assert_eq!(losses(&run("2", 20, 49_900)), 1);
    // A state with all these words may be the answer to an operation.
    let asks = |ms| run("1", 20, 1_000).asked_as(1, ms, Class::InFlight, "watch", "{}");
    holds(&asks(50_000 - MOMENT), healthy_is_kept);
    assert_eq!(losses(&asks(49_999 - MOMENT)), 1);
    // A host that keeps little closes a connection if more occurs at once.
    let mut scripted = run("1", 3, 49_900);
    assert_eq!(losses(&scripted), 1);
    scripted.plan.limits.set("host.log-bytes", LimitValue::Bytes(4 << 10));
    holds(&scripted, healthy_is_kept);
}

#[test]
fn a_fault_of_a_generation_may_affect_a_later_connection_with_the_same_number() {
    let lost = |conn: Conn| {
        let what = Fault::CutAfter(faults::CutAfter {
            conn,
            toward: "client".into(),
            count: TrafficCount::Messages(12),
            learns: BTreeMap::new(),
        });
        let scope = Scope { conns: vec![ConnIndex(0)], ..Scope::default() };
        let scripted = history().conn(1, 10, Some(5_000)).fault_in(
            1_000,
            Some(90_000),
            Nature::Kills,
            what,
            scope,
        );
        let scripted = scripted.conn(1, 6_000, Some(90_000));
        let scripted = milestone(
            scripted,
            6_100,
            "client",
            "toolcall.client.connected",
            &[("generation", "1")],
        );
        milestone(scripted, 90_000, "client", "toolcall.client.lost", &[("generation", "1")])
            .horizon(99_000)
    };
    let named = |which| Conn { host: "client".into(), label: None, which };
    holds(&lost(named(Which::Generation(1))), healthy_is_kept);
    assert_eq!(violations(&lost(named(Which::Last)), healthy_is_kept).len(), 1);
}

#[test]
fn a_question_ends_with_its_connection() {
    let asked =
        |over| saw(here_until(over), 1_000, "server", "t1", "agent: question-1 asks client");
    let heard = |scripted, ms| {
        saw(scripted, ms, "server", "t1", "agent: question-1 receives no answer: lost")
    };
    holds(&heard(asked(Some(5_000)), 5_000 + MOMENT), requests_settle);
    assert_eq!(
        violations(&heard(asked(Some(5_000)), 5_001 + MOMENT), requests_settle),
        ["t1: the request that the host sent to client at 1.000 s had not ended by 5.620 s"]
    );
    holds(&heard(asked(None), 31_000 + MOMENT), requests_settle);
    assert_eq!(violations(&heard(asked(None), 31_001 + MOMENT), requests_settle).len(), 1);
}

#[test]
fn a_restore_ends_in_time_unless_its_channel_is_removed() {
    let wording =
        |scripted, ms, name| milestone(scripted, ms, "server", name, &[("channel", "c2")]);
    let mut scripted = history();
    scripted.plan.setup.insert(
        "channel".to_owned(),
        serde_json::json!({ "c2": { "restores": "20s", "restores-again": "0ms" } }),
    );
    let begun = wording(scripted, 1_000, "toolcall.host.restoring");
    assert_eq!(
        violations(&begun, requests_settle),
        ["c2: its restore began at 1.000 s, and had not ended by 11.620 s"]
    );
    let gone = wording(begun.clone(), 2_000, "toolcall.host.removed");
    holds(&gone, requests_settle);
    holds(&wording(gone, 3_000, "toolcall.host.restoring"), requests_settle); // it finds nothing at once, and says nothing
    holds(&wording(begun, 11_000, "toolcall.host.restore-late"), requests_settle);
}

#[test]
fn a_client_that_is_back_takes_part_again() {
    let run = |opened: u64, back: Option<u64>| {
        let run = accepted(here_until(Some(2_000)).conn(2, opened, None), 4_000, "2");
        let fields = [("generation", "2")];
        let run = milestone(run, 4_010, "client", "toolcall.client.replayed", &fields);
        let run = milestone(run, 4_010, "client", "toolcall.client.connected", &fields);
        let run = saw(run, 4_010, "client", "s1", "left");
        back.into_iter().fold(run, |run, ms| saw(run, ms, "client", "s1", "joined"))
    };
    let bound = 4_010 + 2 * MOMENT;
    holds(&run(3_900, Some(bound)), client_comes_back);
    assert_eq!(
        violations(&run(3_900, Some(bound + 1)), client_comes_back),
        [
            "client: it did not take part in the session by 5.250 s, although it was connected again since 4.010 s"
        ]
    );
    assert_eq!(violations(&run(3_900, None), client_comes_back).len(), 1);
    let late = |run: ScriptedRun| violations(&run, client_comes_back).len();
    assert_eq!(late(run(3_900, None).kills(4_500, 4_600)), 0);
    assert_eq!(late(run(3_900, None).kills(2_000, 3_800)), 1, "the new connection had no fault");
    let unwatched = saw(run(3_900, None), 5_000, "client", "s1", "unsubscribed");
    assert_eq!(late(unwatched), 0);
    let asks = |verb, fields: &str| {
        let run = run(3_900, None);
        late(run.asked_as(2, 1_000, Class::Durable, verb, fields))
    };
    assert_eq!(asks("leave", "{}"), 0);
    assert_eq!(asks("reload", r#"{"keeps-id":true}"#), 0);
    assert_eq!(asks("watch", r#"{"chat":"s1","looks-only":true}"#), 0);
    assert_eq!(asks("watch", r#"{"chat":"s1"}"#), 1);
    let mut small = run(3_900, None);
    small.plan.limits.set("host.active-clients", LimitValue::Count(1));
    assert_eq!(late(small), 0);
}

/// The connection of a client ends after its join, before its user sees that it takes part. The host removes
/// it, and confirms the join when the client is back.
#[test]
fn a_client_that_joined_in_vain_joins_again() {
    let run = |joined: Option<u64>| {
        let run = accepted(history().conn(1, 10, Some(2_000)), 20, "1");
        let run = saw(run, 30, "client", "s1", "state received");
        let fields = [("session", "s1"), ("client", "client")];
        let run = milestone(run, 3_000, "server", "toolcall.host.deactivated", &fields);
        let run = accepted(run.conn(2, 3_900, None), 4_000, "2");
        joined.into_iter().fold(run, |run, ms| saw(run, ms, "client", "s1", "joined"))
    };
    let bound = 4_000 + 3 * MOMENT;
    holds(&run(Some(bound)), client_comes_back);
    assert_eq!(
        violations(&run(Some(bound + 1)), client_comes_back),
        [
            "client: it did not take part in the session by 5.860 s, although it was connected again since 4.000 s"
        ]
    );
    let late = |run: ScriptedRun| violations(&run, client_comes_back).len();
    assert_eq!(late(run(None)), 1);
    assert_eq!(late(run(None).kills(4_500, 4_600)), 0);
    assert_eq!(late(run(None).kills(2_000, 3_800)), 1, "the new connection had no fault");
    assert_eq!(late(saw(run(None), 5_000, "client", "s1", "unsubscribed")), 0);
    let asks =
        |verb, fields: &str| late(run(None).asked_as(2, 1_000, Class::Durable, verb, fields));
    assert_eq!(asks("leave", "{}"), 0);
    assert_eq!(asks("watch", r#"{"chat":"s1"}"#), 0);
    assert_eq!(asks("watch", r#"{"chat":"c2"}"#), 1);
    assert_eq!(asks("unwatch", r#"{"channel":"s1"}"#), 0);
    assert_eq!(asks("unwatch", r#"{"channel":"c1"}"#), 1);
}
