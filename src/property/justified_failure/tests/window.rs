//! There was no recovery window: no interval without a fault was long enough.

use super::*;

#[test]
fn a_fault_over_the_whole_recovery_deadline_justifies() {
    judged(&fails(open().kills(2_000, 90_000), 2_000 + RECOVERY), Is::Justified);
}

#[test]
fn a_user_with_pauses_sees_a_justified_failure_long_after_the_outage() {
    let scripted = |fields: &str| {
        let opened = history().asked_as(1, 0, Class::Durable, "watch", fields).opens("s1", 1, 0);
        let delivered = opened.produced("s1", 400, "a").delivered("s1", 410, "a");
        fails(delivered.kills(2_000, 2_000 + RECOVERY), 60_000)
    };
    judged(&scripted(r#"{"pause":"10s"}"#), Is::Justified);
    judged(&scripted("{}"), Is::Unjustified);
}

#[test]
fn giving_up_before_the_deadline_is_not_justified() {
    let scripted = |early: u64| fails(open().kills(5_000, 90_000), 5_000 + RECOVERY - early);
    judged(&scripted(A - 1), Is::Justified);
    judged(&scripted(A), Is::Inconclusive);
    judged(&scripted(2 * A), Is::Inconclusive);
    judged(&scripted(2 * A + 1), Is::Unjustified);
}

#[test]
fn a_fault_free_interval_justifies_below_a_and_is_inconclusive_up_to_2a() {
    let scripted =
        |calm: u64| fails(open().kills(2_000, 10_000).kills(10_000 + calm, 90_000), 30_000);
    judged(&scripted(A - 1), Is::Justified);
    judged(&scripted(A), Is::Inconclusive);
    judged(&scripted(2 * A), Is::Inconclusive);
    judged(&scripted(2 * A + 1), Is::Unjustified);
    assert_eq!(
        scripted(2 * A + 1).violations("justified_failure"),
        [
            "s1: it failed (lost) after item 1, unjustified: no fault touched its path from 10.000 s to 12.241 s; 1.120 s without a fault are enough to recover (generation 1, at 30.000 s)"
        ]
    );
}

#[test]
fn more_data_needs_a_longer_recovery_window() {
    // 1 MiB: 32 windows, each 2 × 20 ms.
    let much = || {
        open().produced("s1", 500, &"x".repeat(1 << 20)).delivered("s1", 900, &"x".repeat(1 << 20))
    };
    let scripted =
        |calm: u64| fails(much().kills(2_000, 10_000).kills(10_000 + calm, 90_000), 30_000);
    let enough = A + 32 * 40;
    judged(&scripted(enough - 1), Is::Justified);
    judged(&scripted(enough), Is::Inconclusive);
    judged(&scripted(2 * enough), Is::Inconclusive);
    judged(&scripted(2 * enough + 1), Is::Unjustified);
}

#[test]
fn a_fault_free_interval_just_before_the_failure_counts() {
    let scripted = |calm: u64| {
        fails(open().kills(2_000, 30_000), 30_000 + calm)
            .guarantees(|guarantees| guarantees.session = Duration::MAX)
    };
    judged(&scripted(A - 1), Is::Justified);
    judged(&scripted(A), Is::Inconclusive);
    judged(&scripted(2 * A), Is::Inconclusive);
    judged(&scripted(2 * A + 1), Is::Unjustified);
}

#[test]
fn resets_so_frequent_that_no_interval_is_long_enough_justify() {
    let resets = |every: u64| {
        (0..40).map(|n| 1_000 + n * every).fold(open(), |scripted, at| scripted.kills(at, at))
    };
    judged(&fails(resets(A - 1), 1_000 + 25 * (A - 1)), Is::Justified);
    judged(&fails(resets(2 * A + 1), 1_000 + 25 * (2 * A + 1)), Is::Unjustified);
}

#[test]
fn giving_up_at_the_first_reset_is_not_justified() {
    judged(&fails(open().kills(5_000, 5_000), 5_010), Is::Unjustified);
    // The same holds at the very start of the run: the time before it counts as fault-free.
    judged(&fails(open().kills(500, 500), 510), Is::Unjustified);
}

#[test]
fn a_client_that_never_saw_a_sign_of_life_may_give_up_its_first_attempt() {
    let scripted = history().opened("s1", 1, 0).kills(0, 60_000);
    judged(&fails(scripted.clone(), 5_000), Is::Justified);
    judged(&fails(scripted.answered(1, 1, ""), 5_000), Is::Unjustified);
}

#[test]
fn the_worst_latency_in_force_extends_a() {
    // 3 round trips at 2 × (20 + 100) ms, after 1 s.
    let a = 1_720;
    let scripted = |calm: u64| {
        fails(
            open()
                .delayed(9_000, Some(9_500), 100)
                .kills(2_000, 10_000)
                .kills(10_000 + calm, 90_000),
            30_000,
        )
    };
    judged(&scripted(a - 1), Is::Justified);
    judged(&scripted(2 * a), Is::Inconclusive);
    judged(&scripted(2 * a + 1), Is::Unjustified);
}

#[test]
fn two_delays_at_once_add_up() {
    let a = 1_120 + 2 * 600;
    let scripted = |calm: u64| {
        let scripted = open().delayed(8_000, Some(9_500), 100).delayed(9_000, Some(9_500), 100);
        fails(scripted.kills(2_000, 10_000).kills(10_000 + calm, 90_000), 30_000)
    };
    judged(&scripted(a - 1), Is::Justified);
    judged(&scripted(a), Is::Inconclusive);
}

#[test]
fn a_permanently_failed_client_may_fail_later_calls() {
    let failed = || open().kills(2_000, 40_000);
    judged(&failed().asked(7, 70_000).failed(7, 70_000, "client failed"), Is::Justified);
    // A refusal may come from the client itself, so it is no sign of life.
    let refuses = failed().asked(6, 60_000).answered(6, 60_020, Answer::refused("failed"));
    judged(&refuses.asked(7, 70_000).failed(7, 70_000, "client failed"), Is::Justified);
    // An answer is a sign of life, so the later failure is not justified.
    let incarnations = failed().asked(6, 60_000).answered(6, 60_020, "1");
    judged(&incarnations.asked(7, 70_000).failed(7, 70_000, "client failed"), Is::Unjustified);
    // A fault that was too short for a permanent failure is no excuse.
    judged(
        &open().kills(2_000, 10_000).asked(7, 70_000).failed(7, 70_000, "client failed"),
        Is::Unjustified,
    );
}
