//! Tests of the times from which two runs are not compared.

use super::super::tests::cut;
use crate::history::{Answer, Class, EventKind};
use crate::property::scripted::{ScriptedRun, history};

#[test]
fn streams_are_not_compared_after_a_call_at_a_different_time() {
    let opened = || history().opened("s1", 1, 0);
    let scripted = |asked, item| {
        opened().asked_as(7, asked, Class::Durable, "write", "{}").delivered("s1", 2_020, item)
    };
    scripted(900, "x").control(scripted(1_900, "y")).holds("stale_generation_inert");
    let scripted = |asked, item| {
        opened().delivered("s1", 2_020, item).asked_as(7, asked, Class::Durable, "write", "{}")
    };
    assert_eq!(
        scripted(2_500, "x")
            .control(scripted(2_900, "y"))
            .violations("stale_generation_inert")
            .len(),
        1
    );
}

#[test]
fn a_call_made_at_a_different_time_is_not_compared() {
    let scripted =
        |asked| history().kills(1_000, 1_500).asked_as(7, asked, Class::Durable, "read", "{}");
    let differ = |asked| {
        scripted(900).answered(7, 2_000, "5").control(scripted(asked).answered(7, 2_000, "6"))
    };
    assert_eq!(differ(900).violations("stale_generation_inert").len(), 1);
    differ(1_900).holds("stale_generation_inert");
}

#[test]
fn a_call_may_be_answered_differently_after_the_runs_diverged() {
    let scripted = |asked: u64, then: u64, result: &'static str| {
        let scripted = history()
            .kills(1_000, 1_500)
            .asked_as(7, asked, Class::Durable, "write", "{}")
            .answered(7, 3_000, "done");
        scripted.asked_as(8, 900, Class::Durable, "read", "{}").answered(8, then, result)
    };
    scripted(2_000, 2_500, "5")
        .control(scripted(2_100, 2_500, "6"))
        .holds("stale_generation_inert");
    assert_eq!(
        scripted(2_000, 1_900, "5")
            .control(scripted(2_100, 1_900, "6"))
            .violations("stale_generation_inert")
            .len(),
        1
    );
}

#[test]
fn a_request_in_flight_may_have_taken_effect_in_one_run_only() {
    let scripted = |class, result| {
        let scripted = history()
            .kills(1_000, 1_500)
            .asked_as(7, 900, class, "remove", "{}")
            .failed(7, 2_000, "lost");
        scripted.asked_as(8, 950, Class::Durable, "read", "{}").answered(8, 2_500, result)
    };
    scripted(Class::InFlight, "5")
        .control(scripted(Class::InFlight, "gone"))
        .holds("stale_generation_inert");
    assert_eq!(
        scripted(Class::Durable, "5")
            .control(scripted(Class::Durable, "gone"))
            .violations("stale_generation_inert")
            .len(),
        1
    );
}

#[test]
fn a_request_in_flight_that_its_user_gave_up_may_have_taken_effect_in_one_run_only() {
    let scripted = |class, result| {
        let scripted = history()
            .kills(1_000, 1_500)
            .asked_as(7, 900, class, "remove", "{}")
            .answered(7, 2_000, Answer::GivenUp);
        scripted.asked_as(8, 950, Class::Durable, "read", "{}").answered(8, 2_500, result)
    };
    let violations = |class| {
        let control = scripted(class, "gone");
        scripted(class, "5").control(control).violations("stale_generation_inert").len()
    };
    assert_eq!(violations(Class::InFlight), 0);
    assert_eq!(violations(Class::Durable), 1);
    // A client that was reloaded at that moment does not retransmit the call.
    let reloaded = |opened, result| scripted(Class::Durable, result).conn(1, opened, None);
    let violations = |opened| {
        let control = reloaded(opened, "gone");
        reloaded(opened, "5").control(control).violations("stale_generation_inert").len()
    };
    assert_eq!((violations(1_999), violations(2_000), violations(2_501)), (1, 0, 1));
}

#[test]
fn a_user_that_is_ahead_of_the_other_may_be_answered_differently() {
    let saw = |scripted: ScriptedRun, stream: &str, ms| {
        scripted.user(ms, EventKind::Observed { stream: stream.into(), saw: "known".into() })
    };
    let read = |scripted: ScriptedRun, result: &'static str| {
        scripted.asked_as(7, 2_000, Class::Durable, "read", "{}").answered(7, 2_010, result)
    };
    let early = || read(saw(history().kills(1_000, 1_500), "c1", 1_900), "there is one");
    let late = |scripted: ScriptedRun| {
        saw(read(scripted.kills(1_000, 1_500), "there is none"), "c1", 2_100)
    };
    early().control(late(history())).holds("stale_generation_inert");
    late(history()).control(early()).holds("stale_generation_inert");
    let never = || read(history().kills(1_000, 1_500), "there is none");
    assert_eq!(early().control(never()).violations("stale_generation_inert").len(), 1);
    let astray = || late(saw(history(), "c2", 1_900));
    assert_eq!(early().control(astray()).violations("stale_generation_inert").len(), 1);
    let alone = |scripted: ScriptedRun| {
        scripted.asked_as(7, 2_000, Class::Durable, "read", "{}").answered(
            7,
            2_000,
            "there is none",
        )
    };
    early().control(alone(history().kills(1_000, 1_500))).holds("stale_generation_inert");
    let same = || read(saw(history().kills(1_000, 1_500), "c1", 1_900), "there is none");
    assert_eq!(early().control(same()).violations("stale_generation_inert").len(), 1);
}

/// At 3.02 s, a stream fails in one run and completes in the other, and a call is answered
/// differently. `other` extends both runs, with a time for each. Returns the number of
/// violations.
fn differ(other: impl Fn(ScriptedRun, u64) -> ScriptedRun, here: u64, there: u64) -> usize {
    let scripted = |moment| other(cut(), moment).asked_as(7, 900, Class::Durable, "read", "{}");
    let scripted = scripted(here)
        .failed_stream("s1", 3_020, "gap")
        .answered(7, 3_020, "5")
        .control(scripted(there).completed("s1", 3_020, "total 2").answered(7, 3_020, "6"));
    scripted.violations("stale_generation_inert").len()
}

#[test]
fn events_are_not_compared_after_a_step_at_a_different_time() {
    let stepped = |scripted: ScriptedRun, ms| scripted.stepped(3, ms);
    assert_eq!(differ(stepped, 2_500, 2_900), 0);
    assert_eq!(differ(stepped, 2_900, 2_500), 0);
    assert_eq!(differ(stepped, 2_500, 2_500), 2);
    assert_eq!(differ(stepped, 3_021, 3_500), 2, "it came before both");
}

#[test]
fn events_are_not_compared_after_a_hold_ends_at_a_different_time() {
    let held = |scripted: ScriptedRun, ms| scripted.slows(2_000, ms);
    assert_eq!(differ(held, 2_100, 2_200), 0);
    assert_eq!(differ(held, 2_100, 2_100), 2);
    assert_eq!(differ(held, 3_021, 3_500), 2, "it came before both");
}

#[test]
fn nothing_is_compared_after_a_fault_at_a_different_time() {
    let scripted = |stepped, ms, total: &'static str| {
        history().opened("s1", 1, 0).stepped(0, stepped).completed("s1", ms, total)
    };
    scripted(1_000, 2_000, "1")
        .control(scripted(1_500, 2_000, "2"))
        .holds("stale_generation_inert");
    assert_eq!(
        scripted(1_000, 2_000, "1")
            .control(scripted(1_000, 2_000, "2"))
            .violations("stale_generation_inert")
            .len(),
        1
    );
    assert_eq!(
        scripted(1_000, 999, "1")
            .control(scripted(1_500, 999, "2"))
            .violations("stale_generation_inert")
            .len(),
        1
    );
}

/// At these times, the server learns that the first and the second connection of a window are
/// over. The window is then reloaded, and a stream fails or completes.
fn loaded_again(first: u64, second: u64) -> ScriptedRun {
    let scripted = history().opened("s1", 1, 0).conn_closed(1, 10, first, Some(1_000)).conn_closed(
        2,
        1_000,
        second,
        Some(2_000),
    );
    scripted.conn(1, 2_000, None)
}

#[test]
fn a_server_may_treat_a_client_with_only_an_older_connection_as_connected() {
    let scripted =
        |first, second, ms| loaded_again(first, second).failed_stream("s1", ms, "nobody is there");
    let completed = |first, second, ms| loaded_again(first, second).completed("s1", ms, "total 2");
    scripted(2_500, 2_010, 3_000)
        .control(completed(6_000, 2_010, 3_000))
        .holds("stale_generation_inert");
    completed(6_000, 2_010, 3_000)
        .control(scripted(2_500, 2_010, 3_000))
        .holds("stale_generation_inert");
    let violations = |here: ScriptedRun, there: ScriptedRun| {
        assert_eq!(here.control(there).violations("stale_generation_inert").len(), 1)
    };
    // Both servers have learned of it at the same time, or neither has; or the newer connection
    // is still open, or outlives both.
    violations(scripted(2_500, 2_010, 3_000), completed(2_500, 2_010, 3_000));
    violations(scripted(2_500, 2_010, 2_499), completed(6_000, 2_010, 2_499));
    violations(scripted(1_500, 4_000, 3_000), completed(6_000, 4_000, 3_000));
    violations(scripted(1_500, 7_000, 8_000), completed(6_000, 7_000, 8_000));
    // The newer connection is over earlier in one run, because an older packet ended it.
    violations(scripted(2_500, 2_010, 3_000), completed(6_000, 2_500, 3_000));
}

#[test]
fn a_server_may_have_only_an_older_connection_between_two_newer_ones() {
    let scripted = |heard, next| {
        let scripted = history().opened("s1", 1, 0).conn_closed(1, 10, heard, Some(1_000)).conn(
            2,
            1_000,
            Some(50_000),
        );
        scripted.conn(3, next, None).completed("s1", 51_000, if heard < 50_000 { "1" } else { "2" })
    };
    scripted(1_500, 50_500).control(scripted(60_000, 50_500)).holds("stale_generation_inert");
    let overlaps = scripted(1_500, 10_000).control(scripted(60_000, 10_000));
    assert_eq!(overlaps.violations("stale_generation_inert").len(), 1);
}

#[test]
fn a_server_may_still_serve_a_given_up_stream_on_an_older_connection() {
    let scripted = |heard, gave_up, ms| {
        let scripted = history()
            .opened("s1", 1, 0)
            .opened("s2", 2, 0)
            .conn_closed(1, 10, heard, Some(1_000))
            .conn(2, 1_000, None);
        scripted.gave_up(7, Some("s2"), gave_up).completed(
            "s1",
            ms,
            if heard < 2_000 { "1" } else { "2" },
        )
    };
    let differ = |gave_up, ms| scripted(1_500, gave_up, ms).control(scripted(6_000, gave_up, ms));
    differ(2_000, 3_000).holds("stale_generation_inert");
    assert_eq!(
        differ(2_000, 1_999).violations("stale_generation_inert").len(),
        1,
        "it was not given up yet"
    );
    assert_eq!(
        differ(1_200, 1_499).violations("stale_generation_inert").len(),
        1,
        "neither server has heard"
    );
    assert_eq!(
        differ(6_000, 7_000).violations("stale_generation_inert").len(),
        1,
        "both servers have heard"
    );
    assert_eq!(
        differ(500, 3_000).violations("stale_generation_inert").len(),
        1,
        "it was given up over the older one"
    );
}

#[test]
fn a_fault_may_hold_the_message_that_gives_a_stream_up() {
    let scripted = |fault: fn(ScriptedRun) -> ScriptedRun, heard| {
        let scripted = fault(history().opened("s1", 1, 0).opened("s2", 2, 0));
        let scripted = scripted.conn_closed(1, 10, heard, Some(1_000)).conn(2, 1_000, None);
        let total = if heard < 2_000 { "1" } else { "2" };
        scripted.gave_up(7, Some("s2"), 500).completed("s1", 3_000, total)
    };
    let broken = |fault: fn(ScriptedRun) -> ScriptedRun| {
        let control = scripted(fault, 6_000);
        scripted(fault, 1_500).control(control).violations("stale_generation_inert").len()
    };
    assert_eq!(broken(|run| run.partition(450, Some(1_500))), 0);
    assert_eq!(broken(|run| run.kills(450, 1_500)), 0, "it blocks packets to the server");
    assert_eq!(broken(|run| run.delayed(450, Some(1_500), 500)), 0);
    assert_eq!(broken(|run| run), 1, "nothing held the message");
    assert_eq!(broken(|run| run.partition(450, Some(999))), 1, "it ended before the loss");
    assert_eq!(broken(|run| run.partition(600, Some(1_500))), 1, "the message had arrived");
    assert_eq!(broken(|run| run.delayed(450, Some(1_500), 300)), 1, "the delay was shorter");
    assert_eq!(broken(|run| run.slows(450, 1_500)), 1, "the network held nothing");
    let other_link = |run: ScriptedRun| run.by("client2").partition(450, Some(1_500)).by("client");
    assert_eq!(broken(other_link), 1, "it was on the link of another client");
}
