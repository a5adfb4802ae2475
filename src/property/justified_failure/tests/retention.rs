//! More was produced than is retained, or the stream is forgotten.

use super::*;
use crate::property::{Retention, SlowUsers};

/// Returns a run without faults and flow control: a stream of 3 items ends at 1 s, its user reads it
/// with pauses, and it fails at `ms`. The client holds 1 item ready for its user, and the server
/// forgets the stream 10 s after its end.
fn slow_user_without_flow_control(fields: &str, second_read: u64, ms: u64) -> ScriptedRun {
    let ahead = Retention { items: Some(1), ..Retention::ALL };
    let scripted = history().guarantees(|guarantees| {
        guarantees.slow_users =
            Some(SlowUsers { ahead, closed_retention: Duration::from_secs(10) });
    });
    let opened = scripted.asked_as(1, 0, Class::Durable, "watch", fields).opens("s1", 1, 0);
    let produced =
        opened.produced("s1", 100, "a").produced("s1", 200, "b").produced("s1", 300, "c");
    let delivered = produced.ended("s1", 1_000, "total 3").delivered("s1", 1_100, "a");
    fails(delivered.delivered("s1", second_read, "b"), ms)
}

#[test]
fn a_slow_user_without_flow_control_loses_a_forgotten_stream() {
    let reads =
        |second_read, ms| slow_user_without_flow_control(r#"{"pause":"4s"}"#, second_read, ms);
    let forgotten = 11_000;
    judged(&reads(forgotten - A + 1, forgotten), Is::Justified);
    judged(&reads(forgotten - A + 1, forgotten - 1), Is::Unjustified);
    // The client held the last item ready.
    judged(&reads(forgotten - A, forgotten), Is::Unjustified);
    // A user that reads without pauses loses nothing.
    judged(&slow_user_without_flow_control("{}", forgotten - 1, forgotten), Is::Unjustified);
}

#[test]
fn what_exceeds_the_retention_is_lost_if_more_comes_than_the_client_takes_at_once() {
    // A round trip takes 40 ms.
    let failed = |takes, last| {
        let items = |items| Retention { items: Some(items), ..Retention::ALL };
        let run = history().guarantees(|guarantees| {
            (guarantees.retention, guarantees.at_once) = (items(1), items(takes));
        });
        let run = run.opened("s1", 1, 0).produced("s1", 100, "a").delivered("s1", 120, "a");
        let run = run.produced("s1", 200, "b").produced("s1", 220, "c").produced("s1", last, "d");
        fails(run, 300)
    };
    judged(&failed(2, 240), Is::Justified);
    judged(&failed(3, 240), Is::Unjustified);
    judged(&failed(2, 241), Is::Unjustified);

    // The burst reached its user, and the loss came later.
    let items = |items| Retention { items: Some(items), ..Retention::ALL };
    let run = history().guarantees(|guarantees| {
        (guarantees.retention, guarantees.at_once) = (items(1), items(2));
    });
    let burst = run.opened("s1", 1, 0).produced("s1", 100, "abc").produced("s1", 110, "d");
    let burst = burst.produced("s1", 120, "e").delivered("s1", 140, "abcde");
    judged(
        &fails(burst.produced("s1", 5_000, "f").produced("s1", 5_010, "g"), 5_100),
        Is::Unjustified,
    );
}

/// A short outage in which `items` items of `size` bytes are produced beyond the first, and a
/// failure after it.
fn away(items: u64, size: usize) -> ScriptedRun {
    let scripted = open().kills(5_000, 7_000);
    let scripted = (0..items)
        .fold(scripted, |scripted, n| scripted.produced("s1", 5_100 + n, &"x".repeat(size)));
    fails(scripted, 12_000)
}

#[test]
fn more_items_than_are_retained_justify() {
    judged(&away(10, 1), Is::Unjustified);
    judged(&away(11, 1), Is::Justified);
}

#[test]
fn more_bytes_than_are_retained_justify() {
    judged(&away(4, 25), Is::Unjustified);
    judged(&away(1, 101), Is::Justified);
}

#[test]
fn an_item_of_many_bytes_may_be_kept_as_many_pieces() {
    let kept = |piece: u64| {
        away(1, 100).guarantees(|guarantees| (guarantees.retention.piece) = Some(piece))
    };
    judged(&kept(10), Is::Justified);
    judged(&kept(11), Is::Unjustified);
}

#[test]
fn the_parts_of_a_whole_share_retention_and_fail_together() {
    let parts = ["p1", "p1/stdout", "p1/stderr"];
    let away = |out: usize, err: usize| {
        let scripted = history()
            .opened_with_parts(&parts, 1, 0)
            .answered(9, 10, "")
            .asked(9, 1)
            .kills(5_000, 7_000);
        let scripted = scripted.produced("p1/stdout", 5_100, &"x".repeat(out)).produced(
            "p1/stderr",
            5_200,
            &"y".repeat(err),
        );
        parts.iter().fold(scripted, |scripted, part| scripted.failed_stream(part, 12_000, "gap"))
    };
    judged(&away(50, 50), Is::Unjustified);
    judged(&away(51, 50), Is::Justified);
    // Another whole has separate retention.
    let scripted = away(60, 60).opened("p2", 2, 0).failed_stream("p2", 12_000, "gap");
    judged(&scripted, Is::Unjustified);
}

#[test]
fn delivered_items_do_not_count_against_retention() {
    let scripted = (0..11).fold(open(), |scripted, n| scripted.produced("s1", 4_000 + n, "x"));
    let scripted = scripted.delivered("s1", 4_500, "x").kills(5_000, 7_000);
    judged(&fails(scripted, 12_000), Is::Unjustified);
}

#[test]
fn items_produced_after_the_failure_do_not_count_against_retention() {
    let scripted = (0..20)
        .fold(open().kills(5_000, 7_000), |scripted, n| scripted.produced("s1", 12_001 + n, "x"));
    judged(&fails(scripted, 12_000), Is::Unjustified);
}

#[test]
fn unlimited_retention_is_never_exceeded() {
    let scripted = away(1_000, 100).guarantees(|guarantees| {
        (guarantees.retention.items, guarantees.retention.bytes) = (None, None)
    });
    judged(&scripted, Is::Unjustified);
}

#[test]
fn a_burst_without_a_fault_is_no_reason_to_fail() {
    let scripted = (0..50).fold(open(), |scripted, n| scripted.produced("s1", 5_100 + n, "x"));
    judged(&fails(scripted, 12_000), Is::Unjustified);
}

#[test]
fn a_late_opening_may_fail_if_the_beginning_was_dropped() {
    let scripted = |items: u64| {
        let scripted =
            (0..items).fold(history(), |scripted, n| scripted.produced("s1", 100 + n, "x"));
        scripted.opened("s1", 1, 5_000).failed_stream("s1", 5_050, "gap")
    };
    judged(&scripted(10), Is::Unjustified);
    judged(&scripted(11), Is::Justified);
}

/// A stream that ended at 10 s and is forgotten at 40 s. The path is faulty from 9 s until `calm`,
/// and calm after that.
fn forgotten(calm: u64, at: u64) -> ScriptedRun {
    fails(open().ended("s1", 10_000, "total 1").kills(9_000, calm), at)
}

#[test]
fn an_ended_stream_forgotten_without_a_recovery_window_may_fail() {
    let session = |scripted: ScriptedRun| {
        scripted.guarantees(|guarantees| guarantees.session = Duration::from_secs(3_600))
    };
    judged(&session(forgotten(40_000 - A + 1, 70_000)), Is::Justified);
    judged(&session(forgotten(40_000 - A, 70_000)), Is::Inconclusive);
}

#[test]
fn an_ended_stream_not_yet_forgotten_may_not_fail() {
    // The recovery deadline is long, so that only retention can justify the failure.
    let scripted = |calm: u64, at: u64| {
        let scripted = forgotten(calm, at).delivered("s1", 41_000, "");
        scripted.guarantees(|guarantees| {
            (guarantees.recovery, guarantees.session) =
                (Duration::from_secs(500), Duration::from_secs(3_600))
        })
    };
    judged(&scripted(40_000 - A + 1, 42_000), Is::Justified);
    judged(&scripted(40_000 - A, 42_000), Is::Inconclusive);
    judged(&scripted(40_000 - 2 * A, 42_000), Is::Inconclusive);
    judged(&scripted(40_000 - 2 * A - 1, 42_000), Is::Unjustified);
    judged(&scripted(39_999, 39_999), Is::Unjustified);
    judged(&scripted(39_999, 40_000), Is::Justified);
}

#[test]
fn a_whole_is_forgotten_only_after_its_last_part_has_ended() {
    let scripted = |printed_until: u64| {
        let scripted =
            history().opened_with_parts(&["p1", "p1/stdout"], 1, 0).answered(9, 10, "").asked(9, 1);
        let scripted = scripted.ended("p1", 1_000, "exit 0").kills(9_000, 60_000).ended(
            "p1/stdout",
            printed_until,
            "closed",
        );
        let scripted = scripted.guarantees(|guarantees| {
            (guarantees.recovery, guarantees.session) =
                (Duration::from_secs(500), Duration::from_secs(3_600))
        });
        scripted.failed_stream("p1", 45_000, "no such process").failed_stream(
            "p1/stdout",
            45_000,
            "no such process",
        )
    };
    judged(&scripted(10_000), Is::Justified);
    judged(&scripted(1_000), Is::Unjustified);
    judged(&scripted(16_000), Is::Unjustified);
}

#[test]
fn opening_a_forgotten_stream_may_fail() {
    let scripted = |opened: u64| {
        history().ended("s1", 10_000, "total 0").opened("s1", 1, opened).failed_stream(
            "s1",
            45_000,
            "no such stream",
        )
    };
    judged(&scripted(40_000), Is::Justified);
    judged(&scripted(39_999), Is::Unjustified);
}
