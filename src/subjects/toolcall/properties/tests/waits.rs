//! Tests of G8.

use super::super::waits::waits_have_causes;
use super::*;

/// The host waits for the client in a channel.
fn waits(scripted: ScriptedRun, channel: &str, from: u64, to: u64) -> ScriptedRun {
    let fields = [("client", "client"), ("channel", channel)];
    milestone(
        milestone(scripted, from, "server", "toolcall.host.waits", &fields),
        to,
        "server",
        "toolcall.host.waits-no-more",
        &fields,
    )
}

#[test]
fn the_host_does_not_wait_for_a_connected_client_that_watches() {
    let back = || calls(here_until(Some(5_000)).conn(2, 9_000, None), 1_000, "call-1", "client");
    let scripted = |to| waits(accepted(back(), 10_000, "2"), "c1", 5_000, to).horizon(60_000);
    holds(&scripted(10_000 + MOMENT), waits_have_causes);
    assert_eq!(
        violations(&scripted(10_001 + MOMENT), waits_have_causes),
        [
            "client: the host waited for it in c1 from 5.000 s on, although it was connected and subscribed to the channel (at 10.620 s)"
        ]
    );
    let older = || {
        calls(
            accepted(here_until(None).conn(2, 40, Some(5_000)), 50, "2"),
            1_000,
            "call-1",
            "client",
        )
    };
    assert_eq!(
        violations(&waits(older(), "c1", 5_000, 9_000), waits_have_causes).len(),
        1,
        "an older connection is one"
    );
    assert_eq!(
        violations(&waits(remade(older(), 4_000), "c1", 5_000, 9_000), waits_have_causes).len(),
        0,
        "its user watches the chat that was removed"
    );
    let let_go = saw(accepted(back(), 10_000, "2"), 10_100, "client", "c1", "unsubscribed");
    holds(&waits(let_go, "c1", 5_000, 30_000), waits_have_causes);
}

#[test]
fn the_host_does_not_wait_if_nothing_depends_on_the_client() {
    let scripted = |to| {
        let scripted =
            over(calls(here_until(Some(5_000)), 1_000, "call-1", "client"), 9_000, "cancelled");
        waits(scripted, "c1", 5_000, to).horizon(60_000)
    };
    holds(&scripted(9_000 + MOMENT), waits_have_causes);
    assert_eq!(
        violations(&scripted(9_001 + MOMENT), waits_have_causes),
        [
            "client: the host waited for it in c1 from 5.000 s on, although it had no open call in the channel since 9.000 s (at 9.620 s)"
        ]
    );
    assert_eq!(
        violations(&waits(here_until(Some(5_000)), "c1", 5_000, 9_000), waits_have_causes).len(),
        1,
        "there never was one"
    );
    let placed = |to| {
        let fields = [("session", "s1"), ("client", "client")];
        waits(
            milestone(
                here_until(Some(5_000)),
                35_000,
                "server",
                "toolcall.host.deactivated",
                &fields,
            ),
            "s1",
            5_000,
            to,
        )
    };
    holds(&placed(35_000).horizon(60_000), waits_have_causes);
    assert_eq!(
        violations(&placed(40_000).horizon(60_000), waits_have_causes),
        [
            "client: the host waited for it in s1 from 5.000 s on, although it had no place in the channel since 35.000 s (at 35.620 s)"
        ]
    );
}

#[test]
fn a_removed_session_has_no_places() {
    let gone = || {
        milestone(
            here_until(Some(5_000)),
            9_000,
            "server",
            "toolcall.host.removed",
            &[("channel", "s1")],
        )
    };
    holds(&waits(gone(), "s1", 5_000, 9_000).horizon(60_000), waits_have_causes);
    assert_eq!(
        violations(&waits(gone(), "s1", 5_000, 20_000).horizon(60_000), waits_have_causes),
        [
            "client: the host waited for it in s1 from 5.000 s on, although it had no place in the channel since 9.000 s (at 9.620 s)"
        ]
    );
    let anew = saw(
        milestone(here_until(None), 2_000, "server", "toolcall.host.removed", &[("channel", "s1")]),
        4_000,
        "client",
        "s1",
        "state received",
    );
    holds(
        &waits(saw(anew, 4_500, "client", "s1", "unsubscribed"), "s1", 5_000, 20_000)
            .horizon(60_000),
        waits_have_causes,
    );
}

#[test]
fn a_dead_host_waits_for_no_client() {
    let over =
        || over(calls(here_until(Some(5_000)), 1_000, "call-1", "client"), 5_000, "cancelled");
    let scripted = |incarnations: fn(ScriptedRun) -> ScriptedRun| {
        waits(incarnations(over()), "c1", 5_000, 50_000).horizon(60_000)
    };
    holds(&scripted(|scripted| scripted.died("server", 5_000)), waits_have_causes);
    assert_eq!(
        violations(
            &scripted(|scripted| scripted.died("server", 4_000).started("server", 4_500)),
            waits_have_causes
        )
        .len(),
        1
    );
}

/// The user asked for the session, stopped watching, and did not see it again, but the client still
/// joined.
#[test]
fn a_client_that_was_asked_to_join_may_have_a_place() {
    let lost = |scripted| {
        milestone(
            scripted,
            4_000,
            "server",
            "toolcall.host.deactivated",
            &[("session", "s1"), ("client", "client")],
        )
    };
    let scripted = |verb, answered| {
        let scripted =
            here_until(Some(5_000)).asked_as(7, 3_990, Class::InFlight, verb, r#"{"chat": "s1"}"#);
        waits(lost(scripted).answered(7, answered, "sees s1"), "s1", 5_000, 20_000).horizon(60_000)
    };
    holds(&scripted("watch", 4_020), waits_have_causes);
    assert_eq!(
        violations(&scripted("watch", 3_999), waits_have_causes).len(),
        1,
        "it joined before it lost its place"
    );
    assert_eq!(violations(&scripted("rename", 4_020), waits_have_causes).len(), 1);
    let asked =
        here_until(Some(5_000)).asked_as(7, 3_990, Class::InFlight, "watch", r#"{"chat": "s1"}"#);
    let refused = waits(
        lost(asked).answered(7, 4_020, Answer::refused("no such session")),
        "s1",
        5_000,
        20_000,
    )
    .horizon(60_000);
    assert_eq!(violations(&refused, waits_have_causes).len(), 1, "it was refused");
}

/// A host with a held task accepts a connection that the client has already lost.
#[test]
fn a_client_accepted_too_late_is_not_present() {
    let scripted = |over| {
        let scripted = calls(
            here_until(Some(1_000)).conn_closed(2, 1_050, over, None),
            900,
            "call-1",
            "client",
        );
        let scripted = milestone(
            scripted,
            1_100,
            "server",
            "toolcall.host.arriving",
            &[("conn", "2"), ("client", "client")],
        );
        waits(accepted(scripted, 2_000, "2"), "c1", 2_200, 20_000).horizon(60_000)
    };
    holds(&scripted(1_200), waits_have_causes);
    assert_eq!(violations(&scripted(30_000), waits_have_causes).len(), 1);
}

/// An agent does not learn the id of a call that it makes in one step.
#[test]
fn the_host_waits_for_the_owner_of_a_call_in_one_step_until_its_turn_ends() {
    let scripted = |owner: &str, chat: &str, to| {
        let began = Data::of(OfChannel::TurnBegan("t1".into()));
        let began = EventKind::Observed { stream: chat.into(), saw: began };
        let run = here_until(Some(5_000)).entry(900, Some("server"), began);
        let fields = [("chat", chat), ("call", "call-9"), ("owner", owner)];
        let run = milestone(run, 1_000, "server", "toolcall.host.call", &fields);
        waits(run.ended("t1", 9_000, "over"), "c1", 5_000, to).horizon(60_000)
    };
    holds(&scripted("client", "c1", 9_000 + MOMENT), waits_have_causes);
    for (owner, chat, to) in
        [("client", "c1", 9_001 + MOMENT), ("client2", "c1", 9_000), ("client", "c2", 9_000)]
    {
        assert_eq!(violations(&scripted(owner, chat, to), waits_have_causes).len(), 1);
    }
}
