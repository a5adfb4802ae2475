//! Tests of the comparison of two runs.

use crate::history::{Answer, Class};
use crate::property::scripted::{BOUND, ScriptedRun, history};

/// `s1` across a cut, with one item in each generation.
pub(super) fn cut() -> ScriptedRun {
    let scripted = history()
        .opened("s1", 1, 0)
        .produced("s1", 500, "a")
        .delivered("s1", 520, "a")
        .kills(1_000, 1_500);
    scripted
        .produced("s1", 2_000, "b")
        .delivered_in(2, "s1", 2_020, "b")
        .ended("s1", 3_000, "total 2")
}

fn completed() -> ScriptedRun {
    cut().completed("s1", 3_020, "total 2")
}

#[test]
fn the_same_at_other_times_is_fine() {
    completed().control(cut().completed("s1", 3_999, "total 2")).holds("stale_generation_inert");
}

#[test]
fn without_a_control_run_nothing_is_checked() {
    completed().holds("stale_generation_inert");
}

#[test]
fn a_different_ending_is_reported() {
    assert_eq!(
        cut()
            .failed_stream("s1", 3_020, "detached")
            .control(completed())
            .violations("stale_generation_inert"),
        [
            "s1: it failed (detached), but in the control run, which drops packets of older generations, it completed (total 2) (generation 2, at 3.020 s)"
        ]
    );
}

#[test]
fn a_missing_ending_is_reported_if_there_was_time_for_it() {
    assert_eq!(
        cut().end(600_000).control(completed()).violations("stale_generation_inert"),
        [
            "s1: it did not end, but in the control run, which drops packets of older generations, it completed (total 2) (generation 2, at 3.020 s)"
        ]
    );
    cut().horizon(4_000).control(completed().horizon(4_000)).holds("stale_generation_inert");
}

#[test]
fn a_failure_by_chance_is_not_compared() {
    let scripted = || {
        history()
            .opened("s1", 1, 0)
            .produced("s1", 500, "a")
            .delivered("s1", 520, "a")
            .ended("s1", 600, "total 1")
    };
    let scripted = || scripted().kills(700, 20_000).kills(20_500, 45_000);
    let lucky = || scripted().completed("s1", 20_400, "total 1");
    lucky()
        .control(scripted().failed_stream("s1", 30_000, "deadline"))
        .holds("stale_generation_inert");
    scripted()
        .failed_stream("s1", 30_000, "deadline")
        .control(lucky())
        .holds("stale_generation_inert");
}

#[test]
fn a_different_item_is_reported() {
    let scripted =
        history().opened("s1", 1, 0).delivered("s1", 520, "a").delivered_in(2, "s1", 2_020, "x");
    assert_eq!(
        scripted.control(cut()).violations("stale_generation_inert"),
        [
            "s1: delivery 2 differs in the control run, which drops packets of older generations (generation 2, at 2.020 s)"
        ]
    );
}

#[test]
fn fewer_items_of_an_open_stream_and_other_boundaries_are_fine() {
    let scripted = history()
        .opened("s1", 1, 0)
        .produced("s1", 500, "a")
        .produced("s1", 2_000, "b")
        .horizon(4_000);
    scripted
        .clone()
        .delivered("s1", 2_020, "ab")
        .control(scripted.delivered("s1", 520, "a"))
        .holds("stale_generation_inert");
}

#[test]
fn a_stream_that_its_user_gave_up_may_have_ended_later() {
    let scripted = || {
        let scripted = history().opened("s1", 1, 0).kills(1_000, 1_500);
        scripted.ended("s1", 2_000, "total 0").end(600_000)
    };
    let here = || scripted().completed("s1", 2_020, "total 0");
    let gave_up = |ms| scripted().gave_up(2, Some("s1"), ms);
    here().control(gave_up(3_000)).holds("stale_generation_inert");
    here().control(gave_up(2_020 + BOUND)).holds("stale_generation_inert");
    let late = here().control(gave_up(2_021 + BOUND));
    assert_eq!(late.violations("stale_generation_inert").len(), 1, "it would have ended before");
    here().control(scripted().died("client", 3_000)).holds("stale_generation_inert");
}

#[test]
fn the_outcome_of_a_call_is_compared() {
    let scripted = |class| history().kills(1_000, 1_500).asked_as(7, 900, class, "add", "{}");
    let differ = |class| {
        scripted(class).answered(7, 2_000, "5").control(scripted(class).answered(7, 2_000, "6"))
    };
    assert_eq!(
        differ(Class::Durable).violations("stale_generation_inert"),
        [
            "call 7 (add): it was answered (5), but in the control run, which drops packets of older generations, it was answered (6) (at 2.000 s)"
        ]
    );
    differ(Class::InFlight).holds("stale_generation_inert");
    let scripted = scripted(Class::InFlight)
        .answered(7, 2_000, "5")
        .control(scripted(Class::InFlight).failed(7, 2_000, "lost"));
    assert_eq!(scripted.violations("stale_generation_inert").len(), 1);
}

#[test]
fn a_call_that_its_user_gave_up_may_have_been_answered_a_moment_before() {
    let scripted = |result| {
        history()
            .kills(1_000, 1_500)
            .asked_as(7, 900, Class::Durable, "read", "{}")
            .answered(7, 2_000, result)
    };
    scripted(Answer::GivenUp).control(scripted("5".into())).holds("stale_generation_inert");
}

/// Step 1 makes call 1 and step 2 makes call 2; the step `first` comes first.
fn numbered(first: usize) -> ScriptedRun {
    let (one, other) = if first == 1 { (1, 2) } else { (2, 1) };
    let scripted = history().kills(1_000, 1_500).stepped(one, 900).asked_as(
        1,
        900,
        Class::Durable,
        "read",
        "{}",
    );
    scripted.stepped(other, 900).asked_as(2, 900, Class::Durable, "read", "{}")
}

#[test]
fn a_call_is_identified_by_its_step_and_not_by_its_number() {
    let scripted = numbered(1).answered(1, 2_000, "5").answered(2, 2_000, "6");
    scripted
        .clone()
        .control(numbered(2).answered(2, 2_000, "5").answered(1, 2_000, "6"))
        .holds("stale_generation_inert");
    assert_eq!(
        scripted
            .control(numbered(2).answered(1, 2_000, "5").answered(2, 2_000, "6"))
            .violations("stale_generation_inert")
            .len(),
        2
    );
}

#[test]
fn a_stream_that_is_opened_again_is_compared_with_the_one_opened_again() {
    let scripted = |again: &'static str| {
        let scripted =
            history().opened("s1", 1, 0).failed_stream("s1", 1_000, "lost").opened("s1", 1, 2_000);
        scripted.completed("s1", 3_000, again)
    };
    scripted("total 2").control(scripted("total 2")).holds("stale_generation_inert");
    assert_eq!(
        scripted("total 2").control(scripted("total 3")).violations("stale_generation_inert").len(),
        1
    );
}

#[test]
fn runs_with_different_executed_steps_are_not_compared() {
    let scripted =
        cut().failed_stream("s1", 3_020, "detached").stepped(0, 1_000).control(completed());
    scripted.holds("stale_generation_inert");
}
