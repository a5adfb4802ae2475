//! Tests each case of `justified_failure` exactly at its limit and just past it.

use std::time::Duration;

use crate::history::{Answer, Class, Nature, Scope, Stream, Time};
use crate::property::{ReadingHost, Retention, SlowUsers};
use crate::schedule::{Conn, Fault, Learns, Operation, Plan, TrafficCount, faults};

use super::super::scripted::{A, ScriptedRun, history};
use super::inconclusive;

/// How a failure is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Is {
    Justified,
    Inconclusive,
    Unjustified,
}

/// Checks how the failures of a run are judged.
#[track_caller]
fn judged(scripted: &ScriptedRun, expected: Is) {
    let broken = scripted.violations("justified_failure");
    let found = match (broken.is_empty(), scripted.with(inconclusive)) {
        (false, _) => Is::Unjustified,
        (true, true) => Is::Inconclusive,
        (true, false) => Is::Justified,
    };
    assert_eq!(found, expected, "{broken:?}");
}

/// An open stream `s1` whose client received an item.
fn open() -> ScriptedRun {
    history().opened("s1", 1, 0).produced("s1", 400, "a").delivered("s1", 410, "a")
}

fn fails(scripted: ScriptedRun, at: u64) -> ScriptedRun {
    scripted.failed_stream("s1", at, "lost")
}

/// The recovery deadline of the guarantees in tests, in milliseconds.
const RECOVERY: u64 = 25_000;
/// The session lifetime of the guarantees in tests, in milliseconds.
const SESSION: u64 = 30_000;

#[test]
fn without_a_fault_nothing_durable_may_fail() {
    assert_eq!(
        fails(open(), 12_300).violations("justified_failure"),
        [
            "s1: it failed (lost) after item 1, unjustified: no fault had touched its path (generation 1, at 12.300 s)"
        ]
    );
    assert_eq!(
        history().asked(7, 0).failed(7, 2_000, "lost").violations("justified_failure"),
        ["call 7 (add): it failed (lost), unjustified: no fault had touched its path (at 2.000 s)"]
    );
    // Not even if the recovery deadline is shorter than A.
    let hasty = open().guarantees(|guarantees| guarantees.recovery = Duration::from_millis(100));
    judged(&fails(hasty, 12_300), Is::Unjustified);
}

#[test]
fn a_completed_stream_needs_no_justification() {
    judged(&open().ended("s1", 500, "total 1").completed("s1", 520, "total 1"), Is::Justified);
}

// -- (a) no recovery window -----------------------------------------------------------------

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
fn a_fault_of_another_client_justifies_nothing() {
    judged(&fails(open().by("client2").kills(2_000, 90_000).by("client"), 40_000), Is::Unjustified);
}

#[test]
fn faults_count_by_host_and_by_connection_too() {
    let cut =
        || Fault::Cut(faults::Cut { conn: Conn::number("client", 1), learns: Default::default() });
    let with = |scope| {
        fails(open().conn(1, 0, None).fault_in(2_000, None, Nature::Kills, cut(), scope), 40_000)
    };
    let hosts = |host: &str| Scope { hosts: vec![host.into()], ..Scope::default() };
    judged(&with(hosts("server")), Is::Justified);
    judged(&with(hosts("client")), Is::Justified);
    judged(&with(hosts("client2")), Is::Unjustified);
    judged(
        &with(Scope { conns: vec![crate::history::ConnIndex(0)], ..Scope::default() }),
        Is::Justified,
    );
    // A connection that was not open yet is identified by its name.
    judged(&with(Scope::default()), Is::Justified);
}

#[test]
fn a_fault_on_another_clients_connection_justifies_nothing() {
    let cut =
        Fault::Cut(faults::Cut { conn: Conn::number("client2", 1), learns: Default::default() });
    let scripted = open().fault_in(2_000, None, Nature::Kills, cut, Scope::default());
    judged(&fails(scripted, 40_000), Is::Unjustified);
}

/// A fault on `client#1`, in force from 2 s on, with a failure at 40 s.
fn on_first_conn(
    scripted: ScriptedRun,
    fault: Fault,
    nature: Nature,
    ended: Option<u64>,
) -> ScriptedRun {
    fails(scripted.fault_in(2_000, ended, nature, fault, Scope::default()), 40_000)
}

#[test]
fn a_fault_on_a_connection_counts_only_while_it_is_open() {
    let stall = Fault::Stall(faults::Stall {
        conn: Conn::number("client", 1),
        toward: "client".into(),
        lasts: None,
    });
    let judge = |scripted: ScriptedRun, expected| {
        judged(&on_first_conn(scripted, stall.clone(), Nature::Kills, None), expected)
    };
    judge(open(), Is::Unjustified);
    judge(open().conn(1, 0, None), Is::Justified);
    judge(open().conn(1, 0, Some(1_000)), Is::Unjustified);
    judge(open().conn(1, 0, Some(10_000)), Is::Unjustified);
    judge(open().conn(1, 38_000, None), Is::Unjustified);
}

/// A fault may name a connection that is not open yet, by its number among all connections of its
/// host, whatever their label.
#[test]
fn a_labelled_connection_is_numbered_among_all_of_its_host() {
    let judge = |n, expected| {
        let stall = Fault::Stall(faults::Stall {
            conn: Conn::number("client", n),
            toward: "client".into(),
            lasts: None,
        });
        let scripted = open().conn(1, 0, Some(1_000)).conn_labelled("http", 1, 3_000, None);
        judged(&on_first_conn(scripted, stall, Nature::Kills, None), expected);
    };
    judge(1, Is::Unjustified); // it was over
    judge(2, Is::Justified);
    judge(3, Is::Unjustified); // it never came
}

#[test]
fn a_cut_after_counts_only_if_it_struck() {
    let learns = [("client".into(), Learns::After(Duration::from_secs(30)))].into();
    let cut = Fault::CutAfter(faults::CutAfter {
        conn: Conn::number("client", 1),
        toward: "client".into(),
        count: TrafficCount::Bytes(9),
        learns,
    });
    let judge = |scripted: ScriptedRun, ended, expected| {
        judged(&on_first_conn(scripted, cut.clone(), Nature::Kills, ended), expected)
    };
    // The fault struck, and the client learned of it 30 s later, at 40 s.
    judge(open().conn(1, 0, Some(40_000)), Some(40_000), Is::Justified);
    // The connection ended for another reason, or is still open.
    judge(open().conn(1, 0, Some(14_000)), None, Is::Unjustified);
    judge(open().conn(1, 0, None), None, Is::Unjustified);
}

#[test]
fn a_cut_after_counts_even_if_one_end_had_already_closed() {
    let learns = [("client".into(), Learns::After(Duration::from_secs(30)))].into();
    let cut = Fault::CutAfter(faults::CutAfter {
        conn: Conn::number("client", 1),
        toward: "client".into(),
        count: TrafficCount::Bytes(0),
        learns,
    });
    let judge = |scripted: ScriptedRun, ended, expected| {
        judged(&on_first_conn(scripted, cut.clone(), Nature::Kills, ended), expected)
    };
    // The fault struck data that the server had left in flight, at 2 s or later, and the client
    // learned of it at 40 s.
    judge(open().conn_closed(1, 0, 1_000, Some(40_000)), Some(40_000), Is::Justified);
    // The fault never struck: the client read all data in flight, until 20 s.
    judge(open().conn_closed(1, 0, 1_000, Some(20_000)), None, Is::Unjustified);
    // The fault never struck either if both ends were over before it.
    judge(open().conn_closed(1, 0, 1_000, Some(1_900)), None, Is::Unjustified);
    // The fault struck, but long before the failure.
    let learned_at_once = Fault::CutAfter(faults::CutAfter {
        conn: Conn::number("client", 1),
        toward: "client".into(),
        count: TrafficCount::Bytes(0),
        learns: Default::default(),
    });
    let early = open().conn_closed(1, 0, 1_000, Some(9_000));
    judged(&on_first_conn(early, learned_at_once, Nature::Kills, Some(9_000)), Is::Unjustified);
}

#[test]
fn a_delayed_close_counts_only_after_a_close() {
    let late = Fault::DelayClose(faults::DelayClose {
        conn: Conn::number("client", 1),
        toward: "server".into(),
        by: Duration::from_secs(30),
    });
    let judge = |scripted: ScriptedRun, expected| {
        judged(&on_first_conn(scripted, late.clone(), Nature::Slows, None), expected)
    };
    judge(open().conn(1, 0, None), Is::Unjustified);
    judge(open().conn_half_over(1, 0, 10_000), Is::Justified);
    judge(open().conn_half_over(1, 0, 30_000), Is::Unjustified);
    // A close from before the fault may still be delayed by it, but not if the other end has
    // already learned of the close.
    judge(open().conn_half_over(1, 0, 1_000), Is::Justified);
    judge(open().conn_closed(1, 0, 1_000, Some(1_900)), Is::Unjustified);
}

#[test]
fn a_jump_of_the_wall_clock_justifies_nothing() {
    let jump = Fault::ClockJump(faults::ClockJump { host: "client".into(), by_ms: 60_000 });
    judged(&fails(open().fault(2_000, None, Nature::Harmless, jump), 40_000), Is::Unjustified);
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

#[test]
fn a_refusal_is_not_a_failure() {
    judged(
        &history().asked(7, 0).answered(7, 20, Answer::refused("no such counter")),
        Is::Justified,
    );
}

// -- (b) retention --------------------------------------------------------------------------

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

// -- (c) the session's lifetime -------------------------------------------------------------

/// An outage of this length, with a recovery deadline that is much longer.
fn outage(lasts: u64) -> ScriptedRun {
    let scripted = open()
        .kills(5_000, 5_000 + lasts)
        .guarantees(|guarantees| guarantees.recovery = Duration::from_secs(500));
    fails(scripted, 5_000 + lasts + 3_000)
}

#[test]
fn an_outage_of_the_sessions_lifetime_justifies() {
    judged(&outage(SESSION), Is::Justified);
    judged(&outage(SESSION - 1), Is::Inconclusive);
    judged(&outage(SESSION - 2 * A), Is::Inconclusive);
    judged(&outage(SESSION - 2 * A - 1), Is::Unjustified);
}

#[test]
fn outages_with_less_than_a_between_them_are_one() {
    let scripted = |calm: u64| {
        let scripted = open().kills(5_000, 20_000).kills(20_000 + calm, 20_000 + calm + 15_000);
        fails(
            scripted.guarantees(|guarantees| guarantees.recovery = Duration::from_secs(500)),
            45_000,
        )
    };
    judged(&scripted(A - 1), Is::Justified);
    judged(&scripted(A), Is::Unjustified);
}

#[test]
fn an_outage_before_the_opening_justifies_only_without_a_later_sign_of_life() {
    let scripted = open()
        .kills(2_000, 2_000 + SESSION)
        .guarantees(|guarantees| guarantees.recovery = Duration::from_secs(500));
    judged(
        &scripted.clone().opened("s2", 2, 50_000).failed_stream("s2", 50_010, "session lost"),
        Is::Justified,
    );
    let incarnations = scripted.asked(6, 45_000).answered(6, 45_020, "1");
    judged(
        &incarnations.opened("s2", 2, 50_000).failed_stream("s2", 50_010, "session lost"),
        Is::Unjustified,
    );
}

// -- (d) the server died --------------------------------------------------------------------

#[test]
fn a_server_that_died_since_the_session_began_justifies() {
    let scripted = open().died("server", 5_000).started("server", 5_100);
    judged(&fails(scripted.clone(), 60_000), Is::Justified);
    judged(&fails(open().died("client2", 5_000), 60_000), Is::Unjustified);
    // A death after the failure does not justify it.
    judged(&fails(scripted, 4_999), Is::Unjustified);
}

/// An item that was in flight when its server died arrives after the death, and is no sign of life.
#[test]
fn an_item_in_flight_at_the_servers_death_is_no_sign_of_life() {
    let scripted = open()
        .produced("s1", 4_990, "last")
        .died("server", 5_000)
        .delivered("s1", 5_010, "last")
        .started("server", 5_100);
    judged(
        &fails(scripted.clone().opened("s2", 2, 5_050).failed_stream("s2", 5_200, "lost"), 60_000),
        Is::Justified,
    );
    let after = scripted.produced("s1", 6_000, "new").delivered("s1", 6_010, "new");
    judged(&after.opened("s2", 2, 6_050).failed_stream("s2", 6_200, "lost"), Is::Unjustified);
}

/// The same applies to an answer: it shows only that the server was alive at the time of the call,
/// or of its effect.
#[test]
fn an_answer_in_flight_at_the_servers_death_is_no_sign_of_life() {
    let scripted = open()
        .asked(6, 4_980)
        .effect(6, 4_990, "c1")
        .died("server", 5_000)
        .answered(6, 5_010, "1")
        .started("server", 5_100);
    judged(&scripted.opened("s2", 2, 5_002).failed_stream("s2", 5_200, "lost"), Is::Justified);
    let after = open()
        .died("server", 5_000)
        .started("server", 5_100)
        .asked(6, 5_110)
        .answered(6, 5_130, "1");
    judged(&after.opened("s2", 2, 5_150).failed_stream("s2", 5_200, "lost"), Is::Unjustified);
}

/// A call that its user gave up proves nothing: its request may never have left.
#[test]
fn a_given_up_call_is_no_sign_of_life() {
    let asked = || open().died("server", 5_000).started("server", 5_100).asked(6, 5_110);
    let failed =
        |scripted: ScriptedRun| scripted.opened("s2", 2, 5_150).failed_stream("s2", 5_200, "lost");
    judged(&failed(asked().answered(6, 5_130, Answer::GivenUp)), Is::Justified);
    judged(&failed(asked().answered(6, 5_130, Answer::queued("accepted"))), Is::Unjustified);
}

/// A client that answers on its own, at the time of the call, proves nothing about its server.
#[test]
fn an_answer_of_the_client_itself_is_no_sign_of_life() {
    let asked = |answered| {
        open()
            .died("server", 5_000)
            .started("server", 5_100)
            .asked(6, 5_110)
            .answered(6, answered, "1")
    };
    let failed =
        |scripted: ScriptedRun| scripted.opened("s2", 2, 5_150).failed_stream("s2", 5_200, "lost");
    judged(&failed(asked(5_110)), Is::Justified);
    judged(&failed(asked(5_111)), Is::Unjustified);
    let local = asked(5_111).guarantees(|guarantees| guarantees.is_local = |_| true);
    judged(&failed(local), Is::Justified);
}

#[test]
fn a_server_that_died_before_the_session_began_does_not_justify() {
    let scripted = open()
        .died("server", 5_000)
        .started("server", 5_100)
        .asked(6, 10_000)
        .answered(6, 10_020, "1");
    judged(&scripted.opened("s2", 2, 50_000).failed_stream("s2", 50_010, "lost"), Is::Unjustified);
}

// -- (e) given up ---------------------------------------------------------------------------

#[test]
fn a_stream_that_the_user_closed_may_fail() {
    judged(&fails(open().gave_up(2, Some("s1"), 5_000), 5_000), Is::Justified);
    judged(&fails(open().gave_up(2, None, 5_000), 5_000), Is::Justified);
    judged(&fails(open().gave_up(2, Some("s1"), 5_001), 5_000), Is::Unjustified);
    judged(&fails(open().gave_up(2, Some("s2"), 5_000), 5_000), Is::Unjustified);
    judged(
        &fails(open().by("client2").gave_up(2, None, 5_000).by("client"), 5_000),
        Is::Unjustified,
    );
}

#[test]
fn calls_end_with_the_client_that_the_user_closed() {
    let scripted = open().asked(7, 4_000).gave_up(2, None, 5_000);
    judged(&scripted.clone().failed(7, 5_000, "closed"), Is::Justified);
    judged(&scripted.clone().asked(8, 6_000).failed(8, 6_000, "closed"), Is::Justified);
    judged(
        &open().asked(7, 4_000).gave_up(2, Some("s1"), 5_000).failed(7, 5_000, "closed"),
        Is::Unjustified,
    );
}

#[test]
fn the_world_closes_the_clients_at_the_horizon() {
    let scripted = open().horizon(60_000);
    judged(&fails(scripted.clone(), 60_000), Is::Justified);
    judged(&fails(scripted, 59_999), Is::Unjustified);
}

// -- (f) puppets ----------------------------------------------------------------------------

#[test]
fn a_puppet_as_peer_justifies_and_a_puppet_elsewhere_does_not() {
    judged(&fails(open().puppet("server"), 5_000), Is::Justified);
    judged(&fails(open().puppet("client2"), 5_000), Is::Unjustified);
}

// -- (g) the outside world ------------------------------------------------------------------

#[test]
fn a_call_that_the_outside_world_does_not_answer_may_fail_only_after_the_call_wait() {
    let failed = |ms: u64| open().asked(7, 4_000).failed(7, 4_000 + ms, "no answer in time");
    let outside = |scripted: ScriptedRun| {
        scripted.guarantees(|guarantees| {
            (guarantees.outside, guarantees.call_wait) = (&["server"], Duration::from_secs(20))
        })
    };
    judged(&outside(failed(20_000)), Is::Justified);
    judged(&outside(failed(19_999)), Is::Unjustified);
    judged(&failed(20_000), Is::Unjustified);
}

#[test]
fn a_call_may_fail_after_the_call_wait_if_its_answer_may_need_that_long() {
    // A round trip takes 40 ms, and transfers 32 KiB.
    let failed = |bytes: fn(&Plan, &Operation) -> u64, ms: u64| {
        let run = history().asked(7, 4_000).failed(7, 4_000 + ms, "no answer in time");
        run.guarantees(|guarantees| {
            (guarantees.answer_bytes, guarantees.call_wait) = (bytes, Duration::from_secs(1))
        })
    };
    judged(&failed(|_, _| 25 * (32 << 10), 1_000), Is::Justified);
    judged(&failed(|_, _| 25 * (32 << 10), 999), Is::Unjustified);
    judged(&failed(|_, _| 24 * (32 << 10), 1_000), Is::Unjustified);
}

// -- calls that may fail with their connection ----------------------------------------------

#[test]
fn a_call_in_flight_may_fail_with_its_connection() {
    for class in [Class::InFlight, Class::Bound] {
        let scripted = || history().asked(6, 0).answered(6, 20, "1").kills(40_000, 40_000);
        let fails = |asked, at| {
            scripted().asked_as(7, asked, class, "peek", "{}").failed(7, at, "connection lost")
        };
        judged(&fails(39_000, 40_000), Is::Justified);
        judged(&fails(39_000, 39_999), Is::Unjustified);
        // The call is made on a connection that is already dead, within detection and A.
        judged(&fails(40_000 + 16_000 + A, 60_000), Is::Justified);
        judged(&fails(40_001 + 16_000 + A, 60_000), Is::Unjustified);
    }
    judged(
        &history().kills(40_000, 40_000).asked(7, 39_000).failed(7, 40_000, "connection lost"),
        Is::Unjustified,
    );
}

#[test]
fn the_stream_of_a_bound_call_may_fail_with_its_connection() {
    let scripted = |at| {
        history()
            .asked(6, 0)
            .answered(6, 20, "1")
            .kills(40_000, 40_000)
            .opened_bound("h1", 7, 39_000)
            .failed_stream("h1", at, "lost")
    };
    judged(&scripted(40_000), Is::Justified);
    judged(&scripted(39_999), Is::Unjustified);
}

#[test]
fn another_reader_leaves_less_time_where_readers_exclude_each_other() {
    // Another client reads until 20 s, then comes a fault until the recovery deadline.
    let run = |takeover| {
        let run = history().guarantees(|guarantees| guarantees.takeover = takeover);
        let run = run.by("client2").opened("s1", 2, 0).produced("s1", 400, "a");
        let run = run.delivered("s1", 410, "a").completed("s1", 20_000, "exit 0");
        let run = run.by("client").opened("s1", 1, 5_000).kills(21_000, 31_000);
        fails(run, 31_000)
    };
    judged(&run(Duration::from_secs(30)), Is::Justified);
    judged(&run(Duration::ZERO), Is::Unjustified);
    // A wait behind another reader ends after the takeover: then the time up to the fault is calm.
    judged(&run(Duration::from_millis(16_000 - A + 1)), Is::Justified);
    judged(&run(Duration::from_millis(16_000 - A)), Is::Inconclusive);
    judged(&run(Duration::from_millis(16_000 - 2 * A - 1)), Is::Unjustified);
    // Each fault may make it wait again, and so does the loss of a stream that it had.
    let again = |takeover, began, read| {
        let run = history().guarantees(|guarantees| guarantees.takeover = takeover);
        let run = run.by("client2").opened("s1", 2, 0).completed("s1", 53_500, "exit 0");
        let run = run.by("client").opened("s1", 1, 1_000).produced("s1", read, "a");
        let run = run.delivered("s1", read + 10, "a").kills(began, began).kills(54_000, 55_000);
        fails(run, 55_000)
    };
    let takeover = Duration::from_secs(22);
    judged(&again(takeover, 31_000, 30_000), Is::Justified);
    judged(&again(takeover, 29_000, 20_000), Is::Unjustified);
    judged(&again(takeover, 29_000, 31_000), Is::Justified);
    // An answer to another call of the same user ends no wait of a call.
    let other = |waits_for: fn(&str, &[&Operation], &Operation) -> Option<Stream>| {
        let run = history().guarantees(|guarantees| {
            guarantees.takeover = Duration::from_secs(30);
            guarantees.reads = waits_for;
        });
        let run = run.by("client2").opened("s1", 2, 0).completed("s1", 20_000, "exit 0");
        let run = run.by("client").asked(7, 5_000).asked(6, 19_000).answered(6, 19_500, "1");
        run.kills(20_500, 30_000).failed(7, 30_000, "lost")
    };
    judged(&other(|_, _, _| Some("s1".into())), Is::Justified);
    judged(&other(|_, _, _| None), Is::Unjustified);
    // The other user gave the stream up, but its client reads on, until its host dies.
    let on = |reads_on, died| {
        let run = history().guarantees(|guarantees| {
            guarantees.takeover = Duration::from_secs(30);
            if reads_on {
                guarantees.also_reads = |_, stream| {
                    assert_eq!(stream.to_string(), "s1");
                    let (from, to) = (Time::ZERO, Time::from(Duration::from_secs(20)));
                    vec![ReadingHost { host: "client2".to_owned(), from, to }]
                };
            }
        });
        let run = run.by("client2").opened("s1", 2, 0).gave_up(2, Some("s1"), 100);
        let run = run.died("client2", died);
        fails(run.by("client").opened("s1", 1, 5_000).kills(21_000, 31_000), 31_000)
    };
    judged(&on(true, 20_000), Is::Justified);
    judged(&on(true, 10_000), Is::Unjustified);
    judged(&on(false, 20_000), Is::Unjustified);
    // A call that opened nothing reads the stream that its operation names.
    let call = |stream: fn(&str, &[&Operation], &Operation) -> Option<Stream>| {
        let run = run(Duration::from_secs(30)).guarantees(|guarantees| guarantees.reads = stream);
        run.asked(6, 4_000).asked(7, 5_000).failed(7, 31_000, "lost")
    };
    judged(&call(|_, _, _| Some("s1".into())), Is::Justified);
    judged(&call(|_, _, _| None), Is::Unjustified);
    judged(&call(|_, earlier, _| (earlier.len() == 2).then(|| "s1".into())), Is::Justified);
    // Without a fault, the other reader excuses nothing.
    let calm = history().guarantees(|guarantees| guarantees.takeover = Duration::from_secs(30));
    let calm = calm.by("client2").opened("s1", 2, 0).by("client").opened("s1", 1, 5_000);
    judged(&fails(calm, 31_000), Is::Unjustified);
}

#[test]
fn a_host_that_died_as_it_was_asked_may_not_remember_the_call() {
    // A call reads the stream with the number of the calls before it. Another client reads `s1`.
    let run = |asked| {
        let run = history().guarantees(|guarantees| {
            guarantees.takeover = Duration::from_secs(30);
            guarantees.reads = |_, earlier, _| Some(format!("s{}", earlier.len()).as_str().into());
        });
        let run = run.by("client2").opened("s1", 2, 0).completed("s1", 20_000, "exit 0");
        let run = run.by("client").asked(3, 1_000).asked(5, asked);
        let run = run.died("client", 4_000).started("client", 4_010);
        run.asked(7, 5_000).kills(21_000, 31_000).failed(7, 31_000, "lost")
    };
    judged(&run(4_000), Is::Justified);
    judged(&run(3_999), Is::Unjustified);
    // With an effect, it was asked for before the death.
    judged(&run(4_000).effect(5, 4_000, "s2"), Is::Unjustified);
}
