//! Tests the bound of everything that must end, exactly at the bound and just past it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::history::{Class, Nature, Scope};
use crate::schedule::{Conn, Fault, Operation, TrafficCount, faults};

use crate::property::InFlightLimit;
use crate::property::scripted::{BOUND, ScriptedRun, history};

/// A stream that ended at 10 s. Its bound is 10 s plus detection, recovery, an attempt, 1 s and A.
fn ended() -> ScriptedRun {
    history()
        .opened("s1", 1, 0)
        .produced("s1", 500, "a")
        .delivered("s1", 520, "a")
        .ended("s1", 10_000, "total 1")
}

fn late_by(scripted: &ScriptedRun, sound: u64, complaint: &str) {
    scripted.clone().completed("s1", sound, "total 1").holds("bounded_ending");
    assert_eq!(
        scripted.clone().completed("s1", sound + 1, "total 1").violations("bounded_ending"),
        [complaint]
    );
}

#[test]
fn the_bound_is_detection_recovery_attempt_one_second_and_a() {
    // 16 s + 25 s + 5 s + 1 s + (1 s of back-off + 3 round trips at 2 × 20 ms)
    assert_eq!(BOUND, 48_120);
}

#[test]
fn an_ended_stream_ends_for_its_user_until_the_bound_and_not_later() {
    late_by(
        &ended(),
        10_000 + BOUND,
        "s1: after item 1, it ended late: its producer had ended at 10.000 s, so 58.120 s was the bound: 10.000 s + 16s detection + 25s recovery + 5s attempt + 1s + 1120ms catch-up (generation 1, at 58.121 s)",
    );
}

#[test]
fn a_last_byte_after_the_end_counts() {
    let scripted = ended().produced("s1", 12_000, "b").delivered("s1", 12_020, "b");
    late_by(
        &scripted,
        12_000 + BOUND,
        "s1: after item 2, it ended late: its producer had ended at 12.000 s, so 60.120 s was the bound: 12.000 s + 16s detection + 25s recovery + 5s attempt + 1s + 1120ms catch-up (generation 1, at 60.121 s)",
    );
}

#[test]
fn a_stream_opened_after_the_end_counts_from_its_opening() {
    let scripted = history()
        .produced("s1", 500, "a")
        .ended("s1", 1_000, "total 1")
        .opened("s1", 1, 20_000)
        .delivered("s1", 20_100, "a");
    late_by(
        &scripted,
        20_000 + BOUND,
        "s1: after item 1, it ended late: its producer had ended at 1.000 s, so 68.120 s was the bound: 20.000 s + 16s detection + 25s recovery + 5s attempt + 1s + 1120ms catch-up (generation 1, at 68.121 s)",
    );
}

#[test]
fn a_whole_counts_from_the_end_of_its_last_part() {
    let scripted =
        history().opened_with_parts(&["p1", "p1/stdout"], 1, 0).ended("p1", 10_000, "exit 0");
    scripted.holds("bounded_ending");
    let scripted =
        scripted.ended("p1/stdout", 30_000, "closed").completed("p1/stdout", 30_000, "closed");
    scripted.clone().completed("p1", 30_000 + BOUND, "exit 0").holds("bounded_ending");
    assert_eq!(
        scripted.completed("p1", 30_001 + BOUND, "exit 0").violations("bounded_ending").len(),
        1
    );
}

#[test]
fn a_fault_that_kills_counts_from_its_start() {
    late_by(
        &ended().kills(30_000, 31_000),
        30_000 + BOUND,
        "s1: after item 1, it ended late: its producer had ended at 10.000 s, so 78.120 s was the bound: 30.000 s + 16s detection + 25s recovery + 5s attempt + 1s + 1120ms catch-up (generation 1, at 78.121 s)",
    );
}

#[test]
fn a_fault_that_slows_counts_from_its_end() {
    late_by(
        &ended().slows(30_000, 40_000),
        40_000 + BOUND,
        "s1: after item 1, it ended late: its producer had ended at 10.000 s, so 88.120 s was the bound: 40.000 s + 16s detection + 25s recovery + 5s attempt + 1s + 1120ms catch-up (generation 1, at 88.121 s)",
    );
}

#[test]
fn a_fault_after_the_bound_is_no_excuse() {
    let at = 10_000 + BOUND;
    assert_eq!(
        ended()
            .kills(at + 1, at + 2)
            .completed("s1", at + 10, "total 1")
            .violations("bounded_ending")
            .len(),
        1
    );
    ended().kills(at, at + 2).completed("s1", at + 10, "total 1").holds("bounded_ending");
}

#[test]
fn a_fault_on_another_path_is_no_excuse() {
    let scripted = ended().by("client2").kills(30_000, 31_000).by("client");
    assert_eq!(
        scripted.completed("s1", 10_001 + BOUND, "total 1").violations("bounded_ending").len(),
        1
    );
}

#[test]
fn permanent_latency_extends_the_bound_but_does_not_remove_it() {
    // 3 additional round trips at 2 × 100 ms.
    late_by(
        &ended().delayed(5_000, None, 100),
        10_000 + BOUND + 600,
        "s1: after item 1, it ended late: its producer had ended at 10.000 s, so 58.720 s was the bound: 10.000 s + 16s detection + 25s recovery + 5s attempt + 1s + 1720ms catch-up (generation 1, at 58.721 s)",
    );
}

#[test]
fn a_path_held_forever_has_no_bound() {
    ended().holds_for_ever(5_000).end(500_000).holds("bounded_ending");
}

#[test]
fn an_open_stream_is_late_only_if_its_bound_lies_before_the_horizon() {
    ended().horizon(10_000 + BOUND).holds("bounded_ending");
    assert_eq!(
        ended().horizon(10_001 + BOUND).violations("bounded_ending"),
        [
            "s1: after item 1, it never ended: its producer had ended at 10.000 s, so 58.120 s was the bound: 10.000 s + 16s detection + 25s recovery + 5s attempt + 1s + 1120ms catch-up (generation 1, at 58.120 s)"
        ]
    );
}

#[test]
fn an_ending_at_the_close_of_the_clients_does_not_count() {
    let scripted = ended().horizon(100_000).failed_stream("s1", 100_001, "closed");
    assert!(
        scripted.violations("bounded_ending")[0].starts_with("s1: after item 1, it never ended")
    );
}

#[test]
fn a_stream_with_a_live_producer_may_stay_open() {
    history()
        .opened("s1", 1, 0)
        .produced("s1", 500, "a")
        .delivered("s1", 510, "a")
        .end(600_000)
        .holds("bounded_ending");
}

#[test]
fn a_stream_that_delivers_nothing_more_is_hung() {
    let scripted = history()
        .opened("s1", 1, 0)
        .produced("s1", 500, "a")
        .delivered("s1", 510, "a")
        .produced("s1", 2_000, "b");
    assert_eq!(
        scripted.clone().end(600_000).violations("bounded_ending"),
        [
            "s1: after item 1, it never ended: its next item had been produced at 2.000 s, so 50.120 s was the bound: 2.000 s + 16s detection + 25s recovery + 5s attempt + 1s + 1120ms catch-up (generation 1, at 50.120 s)"
        ]
    );
    scripted.clone().horizon(2_000 + BOUND).holds("bounded_ending");
    scripted.clone().delivered("s1", 90_000, "b").end(600_000).holds("bounded_ending");
    scripted.failed_stream("s1", 20_000, "gap").end(600_000).holds("bounded_ending");
}

#[test]
fn more_data_extends_the_bound() {
    // 1 MiB: 32 windows, each 2 × 20 ms.
    let scripted = history()
        .opened("s1", 1, 0)
        .produced("s1", 9_000, &"x".repeat(1 << 20))
        .delivered("s1", 9_500, &"x".repeat(1 << 20));
    late_by(
        &scripted.ended("s1", 10_000, "total 1"),
        10_000 + BOUND + 32 * 40,
        "s1: after item 1, it ended late: its producer had ended at 10.000 s, so 59.400 s was the bound: 10.000 s + 16s detection + 25s recovery + 5s attempt + 1s + 2400ms catch-up (generation 1, at 59.401 s)",
    );
}

#[test]
fn new_connections_pass_before_a_partitions_held_packets_arrive() {
    let scripted = history().opened("s1", 1, 0).end(600_000);
    let what = |lasts| {
        Fault::Partition(faults::Partition {
            hosts: ("client".into(), "server".into()),
            toward: None,
            lasts,
        })
    };
    let short = Some(Duration::from_millis(BOUND - 1));
    scripted.clone().fault(2_000, Some(90_000), Nature::Kills, what(short)).holds("bounded_ending");
    assert_eq!(
        scripted
            .clone()
            .fault(2_000, Some(90_000), Nature::Kills, what(None))
            .violations("bounded_ending")
            .len(),
        1
    );
    // The start of the healed tail also ends it.
    let healed = scripted.healed(550_001 - BOUND + 2_000 - 1, 600_000);
    healed
        .horizon(600_000)
        .fault(2_000 + 550_000 - BOUND, None, Nature::Kills, what(None))
        .holds("bounded_ending");
}

#[test]
fn a_cut_after_counts_from_when_an_end_learned_of_it() {
    let cut = Fault::CutAfter(faults::CutAfter {
        conn: Conn::number("client", 1),
        toward: "client".into(),
        count: TrafficCount::Bytes(9),
        learns: BTreeMap::new(),
    });
    // The fault was armed at 1 s and struck at 30 s.
    let scripted = ended().conn(1, 0, Some(30_000)).fault_in(
        1_000,
        Some(30_000),
        Nature::Kills,
        cut,
        Scope::default(),
    );
    late_by(
        &scripted,
        30_000 + BOUND,
        "s1: after item 1, it ended late: its producer had ended at 10.000 s, so 78.120 s was the bound: 30.000 s + 16s detection + 25s recovery + 5s attempt + 1s + 1120ms catch-up (generation 1, at 78.121 s)",
    );
}

#[test]
fn a_stream_whose_producer_died_with_its_host_must_fail() {
    let scripted = history()
        .opened("s1", 1, 0)
        .produced("s1", 500, "a")
        .delivered("s1", 510, "a")
        .died("server", 2_000)
        .started("server", 3_000);
    scripted.clone().failed_stream("s1", 2_000 + BOUND, "lost").holds("bounded_ending");
    assert_eq!(
        scripted.clone().end(600_000).violations("bounded_ending"),
        [
            "s1: after item 1, it never ended: its producer had died with its host at 2.000 s, so 50.120 s was the bound: 2.000 s + 16s detection + 25s recovery + 5s attempt + 1s + 1120ms catch-up (generation 1, at 50.120 s)"
        ]
    );
    scripted
        .produced("s1", 9_000, "b")
        .delivered("s1", 9_010, "b")
        .end(600_000)
        .holds("bounded_ending");
}

#[test]
fn a_producer_that_restarted_has_not_ended() {
    let scripted =
        ended().completed("s1", 10_050, "total 1").died("server", 20_000).started("server", 21_000);
    scripted
        .opened("s1", 3, 30_000)
        .produced("s1", 31_000, "a")
        .delivered("s1", 31_010, "a")
        .end(600_000)
        .holds("bounded_ending");
}

#[test]
fn a_stream_on_a_severed_path_must_fail_despite_a_live_producer() {
    let scripted = history()
        .opened("s1", 1, 0)
        .produced("s1", 500, "a")
        .delivered("s1", 510, "a")
        .partition(2_000, Some(90_000));
    let scripted = scripted.produced("s1", 60_000, "b").end(600_000);
    assert_eq!(
        scripted.clone().violations("bounded_ending"),
        [
            "s1: after item 1, it never ended: no more data could arrive, so 50.120 s was the bound: 2.000 s + 16s detection + 25s recovery + 5s attempt + 1s + 1120ms catch-up (generation 1, at 50.120 s)"
        ]
    );
    scripted.failed_stream("s1", 2_000 + BOUND, "deadline").holds("bounded_ending");
}

#[test]
fn a_path_that_heals_before_the_bound_requires_no_ending() {
    let scripted = history()
        .opened("s1", 1, 0)
        .produced("s1", 500, "a")
        .delivered("s1", 510, "a")
        .end(600_000);
    scripted.clone().partition(2_000, Some(2_000 + BOUND - 1)).holds("bounded_ending");
    assert_eq!(
        scripted.partition(2_000, Some(2_000 + BOUND)).violations("bounded_ending").len(),
        1
    );
}

#[test]
fn nothing_is_due_to_a_user_that_gave_up() {
    ended().gave_up(2, Some("s1"), 20_000).end(500_000).holds("bounded_ending");
    ended().gave_up(2, None, 20_000).end(500_000).holds("bounded_ending");
    assert_eq!(
        ended().gave_up(2, Some("s2"), 20_000).end(500_000).violations("bounded_ending").len(),
        1
    );
}

#[test]
fn nothing_is_due_to_a_user_whose_host_died() {
    ended().died("client", 20_000).end(500_000).holds("bounded_ending");
}

#[test]
fn no_call_waits_forever() {
    for class in [Class::Durable, Class::InFlight] {
        let scripted = history().asked_as(7, 1_000, class, "add", "{}");
        scripted.clone().answered(7, 1_000 + BOUND, "5").holds("bounded_ending");
        assert_eq!(
            scripted.clone().failed(7, 1_001 + BOUND, "lost").violations("bounded_ending"),
            [
                "call 7 (add): it ended late: it had been asked for at 1.000 s, so 49.120 s was the bound: 1.000 s + 16s detection + 25s recovery + 5s attempt + 1s + 1120ms catch-up (at 49.121 s)"
            ]
        );
        assert_eq!(
            scripted.end(600_000).violations("bounded_ending"),
            [
                "call 7 (add): it never ended: it had been asked for at 1.000 s, so 49.120 s was the bound: 1.000 s + 16s detection + 25s recovery + 5s attempt + 1s + 1120ms catch-up (at 49.120 s)"
            ]
        );
    }
}

#[test]
fn a_call_may_set_its_own_wait() {
    for (wait, ms) in [(r#"{"wait":"30s"}"#, 30_000), (r#"{"wait":700}"#, 700)] {
        let scripted = history().asked_as(7, 1_000, Class::Durable, "read", wait);
        scripted.clone().answered(7, 1_000 + BOUND + ms, "").holds("bounded_ending");
        assert_eq!(
            scripted.answered(7, 1_001 + BOUND + ms, "").violations("bounded_ending").len(),
            1
        );
    }
}

/// A user who pauses for 10 s after each item reads a stream that ended at 10 s.
fn pausing(delivered: &[u64]) -> ScriptedRun {
    let scripted =
        history().asked_as(1, 0, Class::Durable, "watch", r#"{"pause":"10s"}"#).opens("s1", 1, 0);
    let scripted = scripted.produced("s1", 500, "ab").ended("s1", 10_000, "total 1");
    delivered
        .iter()
        .zip(["a", "b"])
        .fold(scripted, |scripted, (at, bytes)| scripted.delivered("s1", *at, bytes))
}

#[test]
fn the_pauses_of_a_user_since_a_stream_was_due_do_not_count() {
    // The first pause began before the stream was due, and lasted until 10.52 s. One produced item
    // may be delivered as two.
    let paused = 520 + 10_000;
    let scripted = pausing(&[520, 10_520]);
    scripted.clone().completed("s1", 10_000 + BOUND + paused, "total 1").holds("bounded_ending");
    assert_eq!(
        scripted
            .completed("s1", 10_001 + BOUND + paused, "total 1")
            .violations("bounded_ending")
            .len(),
        1
    );
    // A second item does not shorten the pause after the first.
    let scripted = pausing(&[520, 520]);
    scripted.clone().completed("s1", 10_000 + BOUND + 520, "total 1").holds("bounded_ending");
    assert_eq!(
        scripted
            .completed("s1", 10_001 + BOUND + 520, "total 1")
            .violations("bounded_ending")
            .len(),
        1
    );
}

#[test]
fn pauses_that_ended_before_the_stream_was_due_do_not_extend_the_bound() {
    let early = || pausing(&[500]).ended("s1", 11_000, "total 1");
    early().completed("s1", 11_000 + BOUND, "total 1").holds("bounded_ending");
    assert_eq!(
        early().completed("s1", 11_001 + BOUND, "total 1").violations("bounded_ending").len(),
        1
    );
}

#[test]
fn nothing_is_due_before_the_user_looks() {
    let looks = |after: &str| {
        let scripted = history().asked_as(
            1,
            0,
            Class::Durable,
            "watch",
            &format!(r#"{{"looks-after":"{after}"}}"#),
        );
        scripted.opens("s1", 1, 1_000).ended("s1", 10_000, "total 0")
    };
    looks("60s").completed("s1", 61_000 + BOUND, "total 0").holds("bounded_ending");
    assert_eq!(
        looks("60s").completed("s1", 61_001 + BOUND, "total 0").violations("bounded_ending").len(),
        1
    );
    assert_eq!(
        looks("5s").completed("s1", 10_001 + BOUND, "total 0").violations("bounded_ending").len(),
        1
    );
}

#[test]
fn a_call_that_opened_a_stream_has_its_ending() {
    history().opened("s1", 1, 0).end(600_000).holds("bounded_ending");
}

#[test]
fn a_call_to_the_outside_world_may_wait_as_long_as_calls_may() {
    let outside = |scripted: ScriptedRun| {
        scripted.guarantees(|guarantees| {
            (guarantees.outside, guarantees.call_wait) = (&["server"], Duration::from_mins(10))
        })
    };
    let late = || history().asked(7, 1_000).answered(7, 600_000, "1");
    assert_eq!(late().violations("bounded_ending").len(), 1);
    outside(late()).holds("bounded_ending");
    assert_eq!(
        outside(history())
            .asked(7, 1_000)
            .answered(7, 700_000, "1")
            .violations("bounded_ending")
            .len(),
        1
    );
    let puppet = late()
        .guarantees(|guarantees| guarantees.call_wait = Duration::from_mins(10))
        .puppet("server");
    puppet.holds("bounded_ending");
}

/// A call that waits until a slow user reads on may wait for as long as calls may, and then fail.
#[test]
fn a_call_that_a_slow_user_holds_may_wait() {
    let held = |scripted: ScriptedRun| {
        scripted.guarantees(|guarantees| {
            guarantees.call_wait = Duration::from_mins(10);
            guarantees.held =
                |_, all, own| own.verb == "add" && all.iter().any(|other| other.verb == "looks");
        })
    };
    let looks =
        || held(history()).asked_as(6, 500, Class::Durable, "looks", "{}").answered(6, 600, "1");
    let late = |scripted: ScriptedRun| scripted.asked(7, 1_000).answered(7, 600_000, "1");
    late(looks()).holds("bounded_ending");
    assert_eq!(late(held(history())).violations("bounded_ending").len(), 1);
    let failed = |ms| looks().asked(7, 1_000).failed(7, ms, "no answer");
    failed(601_000).holds("justified_failure");
    assert_eq!(failed(600_999).violations("justified_failure").len(), 1);
}

/// A call that waits for earlier ones is not yet bound to a connection.
#[test]
fn a_bound_call_behind_a_full_pipeline_outlives_a_connection() {
    let lease_after = |requests: &str, answered: u64| {
        let scripted = history()
            .guarantees(|guarantees| {
                let of = |operation: &Operation| operation.fields["n"].as_u64().unwrap_or(1);
                let later = |_: &[&Operation], _: &Operation| false;
                guarantees.in_flight = Some(InFlightLimit { requests: 20, of, later });
            })
            .conn(1, 0, Some(9_000))
            .conn(2, 9_100, None)
            .asked_as(6, 900, Class::InFlight, "reads", requests)
            .answered(6, answered, "1")
            .asked_as(7, 1_000, Class::Bound, "lease", r#"{"n": 1}"#);
        scripted.failed(7, 10_001, "lost").violations("bounded_ending").len()
    };
    assert_eq!(lease_after(r#"{"n": 20}"#, 1_000), 0);
    assert_eq!(lease_after(r#"{"n": 19}"#, 1_000), 1);
    assert_eq!(lease_after(r#"{"n": 20}"#, 999), 1);
}

/// A call that sends one request after the other waits for later calls, too.
#[test]
fn a_call_with_several_requests_waits_for_later_calls() {
    let last = |verb: &str, requests: &str| {
        let answered =
            |ms| {
                let scripted = history().guarantees(|guarantees| {
                    let of = |operation: &Operation| operation.fields["n"].as_u64().unwrap_or(1);
                    let later = |_: &[&Operation], own: &Operation| own.verb == "copy";
                    guarantees.in_flight = Some(InFlightLimit { requests: 20, of, later });
                });
                let asked = scripted
                    .asked_as(6, 1_000, Class::InFlight, verb, r#"{"n": 1}"#)
                    .asked_as(7, 1_010, Class::InFlight, "reads", requests);
                let both = asked.answered(7, 20_000, "1").answered(6, ms, "1");
                both.violations("bounded_ending").len()
            };
        (20_000..100_000).rfind(|ms| answered(*ms) == 0).unwrap()
    };
    let (few, many) = (r#"{"n": 19}"#, r#"{"n": 20}"#);
    let alone = last("copy", few);
    assert_eq!(last("copy", many), alone + 19_000);
    assert_eq!(last("add", many), alone);
}

/// Later calls hold a call only while enough of them are in flight at once.
#[test]
fn later_calls_that_follow_each_other_do_not_fill_the_limit_together() {
    let late =
        |first_answered: u64| {
            let scripted = history().guarantees(|guarantees| {
                let of = |operation: &Operation| operation.fields["n"].as_u64().unwrap_or(1);
                let later = |_: &[&Operation], own: &Operation| own.verb == "copy";
                guarantees.in_flight = Some(InFlightLimit { requests: 20, of, later });
            });
            let half = r#"{"n": 10}"#;
            let asked = scripted
                .asked_as(6, 1_000, Class::InFlight, "copy", r#"{"n": 1}"#)
                .asked_as(7, 1_010, Class::InFlight, "reads", half);
            let second =
                |run: ScriptedRun| run.asked_as(8, 140_000, Class::InFlight, "reads", half);
            let both = match first_answered {
                ..140_000 => second(asked.answered(7, first_answered, "1")),
                _ => second(asked).answered(7, first_answered, "1"),
            };
            let all = both.answered(8, 140_500, "1").answered(6, 141_000, "1");
            all.violations("bounded_ending").len()
        };
    let of_the_first = 1;
    assert_eq!(late(140_001), of_the_first);
    assert_eq!(late(139_999), of_the_first + 1);
}

/// Requests that wait keep their places, so the requests behind them share the others.
#[test]
fn requests_behind_long_polls_share_fewer_places() {
    let late = |fields: &str, ms: u64| {
        let scripted = history().guarantees(|guarantees| {
            let of = |operation: &Operation| operation.fields["n"].as_u64().unwrap_or(1);
            let later = |_: &[&Operation], _: &Operation| false;
            guarantees.in_flight = Some(InFlightLimit { requests: 10, of, later });
        });
        let nine = (10..19).fold(scripted, |run, call| {
            run.asked_as(call, 1_000, Class::Durable, "read", fields).answered(call, 2_100, "1")
        });
        let asked = nine.asked_as(20, 2_000, Class::Durable, "reads", r#"{"n": 300}"#);
        asked.answered(20, ms, "1").violations("bounded_ending").len()
    };
    // A round trip takes 2 × 20 ms.
    let (short, long) = (2_000 + BOUND + 30 * 40, 2_000 + BOUND + 300 * 40);
    let (polls, others) = (r#"{"n": 1, "wait": "70s"}"#, r#"{"n": 1}"#);
    assert_eq!([late(others, short), late(others, short + 1)], [0, 1]);
    assert_eq!([late(polls, long), late(polls, long + 1)], [0, 1]);
}

/// Long answers take longer to arrive, also those to the calls before.
#[test]
fn the_bound_of_a_call_includes_the_transfer_of_the_answers() {
    let answered = |earlier: &str, own: &str, ms: u64| {
        let scripted = history()
            .guarantees(|guarantees| {
                guarantees.answer_bytes =
                    |_, operation| operation.fields["n"].as_u64().unwrap_or(0);
            })
            .asked_as(6, 900, Class::Durable, "reads", earlier)
            .asked_as(7, 1_000, Class::Durable, "reads", own)
            .answered(6, 1_100, "1")
            .answered(7, ms, "1");
        scripted.violations("bounded_ending").len()
    };
    let (none, mib) = (r#"{"n": 0}"#, r#"{"n": 1048576}"#);
    let last = |earlier, own| (40_000..60_000).rfind(|ms| answered(earlier, own, *ms) == 0);
    let [short, long, behind, both] =
        [(none, none), (none, mib), (mib, none), (mib, mib)].map(|(e, own)| last(e, own).unwrap());
    // 32 round trips of 2 × 20 ms for each.
    let trips = 32 * 2 * 20;
    assert_eq!([long, behind, both], [short + trips, short + trips, short + 2 * trips]);
}

/// The answers to the calls of a user arrive over the same link as its streams.
#[test]
fn the_bound_of_a_stream_includes_the_transfer_of_the_answers_beside_it() {
    let bytes = |n: u64| format!(r#"{{"n": {n}}}"#);
    let ends = |asked, answered, n| {
        let scripted = ended().guarantees(|guarantees| {
            guarantees.answer_bytes = |_, operation| {
                operation.fields.get("n").map_or(0, |bytes| bytes.as_u64().unwrap_or(0))
            };
        });
        let scripted = scripted.asked_as(7, asked, Class::Durable, "reads", &bytes(n));
        let scripted = scripted.answered(7, answered, "1");
        let late =
            |ms| scripted.clone().completed("s1", ms, "total 1").violations("bounded_ending");
        (50_000..70_000).rfind(|ms| late(*ms).is_empty()).unwrap()
    };
    let (bound, mib) = (10_000 + BOUND, 1 << 20);
    // 32 round trips of 2 × 20 ms.
    let trips = 32 * 2 * 20;
    assert_eq!(ends(9_000, 10_000, 0), bound);
    assert_eq!(ends(9_000, 9_999, mib), bound, "the answer had arrived");
    assert_eq!(ends(9_000, 10_000, mib), bound + trips);
    assert_eq!(ends(bound, bound + 1, mib), bound + trips, "asked for within the bound");
    assert_eq!(ends(bound + 1, bound + 2, mib), bound, "asked for later");
}

#[test]
fn a_bound_call_dies_at_once_with_its_connection() {
    let lease = |scripted: ScriptedRun| scripted.asked_as(7, 1_000, Class::Bound, "lease", "{}");
    let scripted = lease(history().conn(1, 0, Some(9_000)).conn(2, 9_100, None));
    scripted.clone().failed(7, 10_000, "lost").holds("bounded_ending");
    assert_eq!(
        scripted.failed(7, 10_001, "lost").violations("bounded_ending"),
        [
            "call 7 (lease): it ended late: its connection was over at 9.000 s, so 10.000 s was the bound: 1s after that, or after the last hold of its host (at 10.001 s)"
        ]
    );
    // The client's task is held when the connection ends, so the client notices nothing until the
    // hold ends.
    let held = lease(history().conn(1, 0, Some(9_000)).conn(2, 12_000, None)).slows(9_000, 10_500);
    held.clone().failed(7, 11_500, "lost").holds("bounded_ending");
    assert_eq!(held.failed(7, 11_501, "lost").violations("bounded_ending").len(), 1);
    lease(history().conn(1, 0, None)).end(600_000).holds("bounded_ending");
    assert_eq!(lease(history()).end(600_000).violations("bounded_ending").len(), 1);
}

#[test]
fn a_bound_call_made_without_a_connection_belongs_to_a_later_connection() {
    let ask = |scripted: ScriptedRun| scripted.asked_as(7, 1_000, Class::Bound, "lease", "{}");
    let scripted =
        ask(history().conn(1, 0, Some(900)).conn(2, 5_000, Some(80_000)).conn(3, 81_000, None));
    scripted.answered(7, 99_000, "over").holds("bounded_ending");
    // A connection that is over at the time of the call does not count. One that came up after the
    // call counts as a later connection.
    assert_eq!(
        ask(history().conn(1, 0, Some(1_000))).end(600_000).violations("bounded_ending").len(),
        1
    );
    ask(history().conn(1, 1_001, Some(2_000)).conn(2, 2_500, None))
        .end(600_000)
        .holds("bounded_ending");
}

#[test]
fn the_stream_of_a_bound_call_dies_at_once_with_its_connection() {
    let scripted = history()
        .conn(1, 0, Some(9_000))
        .conn(2, 9_100, None)
        .opened_bound("h1", 7, 1_000)
        .produced("h1", 1_100, "a");
    scripted.clone().failed_stream("h1", 10_000, "lost").holds("bounded_ending");
    assert_eq!(
        scripted.failed_stream("h1", 10_001, "lost").violations("bounded_ending"),
        [
            "h1: after item 0, it ended late: its connection was over at 9.000 s, so 10.000 s was the bound: 1s after that, or after the last hold of its host (at 10.001 s)"
        ]
    );
    // While the connection lives, the stream may be open.
    history().conn(1, 0, None).opened_bound("h1", 7, 1_000).end(600_000).holds("bounded_ending");
}

#[test]
fn a_jump_of_the_wall_clock_moves_no_bound() {
    let jump = Fault::ClockJump(faults::ClockJump { host: "client".into(), by_ms: -5_000 });
    let scripted = ended().fault(30_000, Some(31_000), Nature::Harmless, jump);
    assert_eq!(
        scripted.completed("s1", 10_001 + BOUND, "total 1").violations("bounded_ending").len(),
        1
    );
}

/// The server plays the outside world. The user waits for its data for one minute.
fn outside(scripted: ScriptedRun) -> ScriptedRun {
    scripted.guarantees(|guarantees| {
        guarantees.outside = &["server"];
        guarantees.outside_wait = |_, _| Duration::from_mins(1);
        // The wait of a call does not apply to streams.
        guarantees.call_wait = Duration::from_mins(10);
    })
}

/// `s1`, opened at 1 s by a call.
fn opened() -> ScriptedRun {
    history().asked_as(1, 0, Class::Durable, "watch", "{}").opens("s1", 1, 1_000)
}

#[test]
fn a_stream_of_a_dead_outside_host_is_due_when_the_wait_is_over() {
    let dead = || {
        let scripted = opened().produced("s1", 1_500, "a").delivered("s1", 1_510, "a");
        scripted.died("server", 5_000).started("server", 5_100)
    };
    assert_eq!(dead().end(300_000).violations("bounded_ending").len(), 1);
    outside(dead()).failed_stream("s1", 61_000 + BOUND, "too late").holds("bounded_ending");
    let late = outside(dead()).failed_stream("s1", 61_001 + BOUND, "too late");
    assert_eq!(late.violations("bounded_ending").len(), 1);
    assert_eq!(outside(dead()).end(300_000).violations("bounded_ending").len(), 1);
}

#[test]
fn an_end_of_the_outside_world_behind_a_fault_is_due_when_the_wait_is_over() {
    let ended = |at| opened().ended("s1", at, "total 0");
    let faulty = |at| outside(ended(at)).by("server").slows(1_000, 1_100).by("client");
    let late = outside(ended(10_000)).completed("s1", 10_001 + BOUND, "total 0");
    assert_eq!(late.violations("bounded_ending").len(), 1, "there was no fault on the way");
    faulty(10_000).completed("s1", 61_000 + BOUND, "total 0").holds("bounded_ending");
    assert_eq!(
        faulty(10_000)
            .completed("s1", 61_001 + BOUND, "total 0")
            .violations("bounded_ending")
            .len(),
        1
    );
    // An end after the wait was over is due from that end on.
    faulty(70_000).completed("s1", 70_000 + BOUND, "total 0").holds("bounded_ending");
    assert_eq!(
        faulty(70_000)
            .completed("s1", 70_001 + BOUND, "total 0")
            .violations("bounded_ending")
            .len(),
        1
    );
}

#[test]
fn an_item_of_the_outside_world_behind_a_fault_is_due_when_the_wait_is_over() {
    let owed = |until| opened().produced("s1", 1_500, "a").end(until);
    let faulty = |until| outside(owed(until).horizon(until)).by("server").slows(1_000, 1_100);
    assert_eq!(outside(owed(1_501 + BOUND)).violations("bounded_ending").len(), 1);
    faulty(61_000 + BOUND).holds("bounded_ending");
    assert_eq!(faulty(61_001 + BOUND).violations("bounded_ending").len(), 1);
}

/// A client may never learn of the end that a fault took away. It learns of later ends.
#[test]
fn only_a_stream_that_was_open_when_a_message_changed_may_stay_open() {
    let ended = |tampered| history().conn(1, 0, None).tampered(tampered).opened("s1", 1, 2_000);
    let ended = |tampered| ended(tampered).ended("s1", 10_000, "total 1");
    ended(2_000).end(600_000).holds("bounded_ending");
    assert_eq!(ended(1_999).end(600_000).violations("bounded_ending").len(), 1);
}

/// A call has no bound then if the protocol gives it none.
#[test]
fn a_call_whose_answer_changed_may_wait_as_long_as_calls_may() {
    let asked = |tampered| history().conn(1, 0, None).tampered(tampered).asked(7, 2_000);
    let asked = |tampered| asked(tampered).end(600_000);
    asked(2_000).holds("bounded_ending");
    assert_eq!(asked(1_999).violations("bounded_ending").len(), 1);
    let waits = |scripted: ScriptedRun| {
        let wait = Duration::from_secs(5);
        scripted.guarantees(|guarantees| guarantees.call_wait = wait)
    };
    assert_eq!(waits(asked(2_000)).violations("bounded_ending").len(), 1);
}
