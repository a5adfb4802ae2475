//! Tests of `reads_wait`: when a read must be answered, and what excuses a late answer.

use super::super::served::reads_wait;
use super::{milestone, nothing, read, start, started, violations};
use crate::history::{Answer, Call, Class, EventKind, ProcessOutcome};
use crate::property::scripted::ScriptedRun;
use crate::subjects::exec::answers::Read;

/// Twice the detection time, the recovery window, an attempt and 1 s, under the guarantees of these
/// runs.
const ALLOWANCE: u64 = 2 * 16_000 + 25_000 + 5_000 + 1_000;

/// An answer with these chunks, and nothing after them.
fn chunks(first: u64, last: u64) -> Read {
    Read { chunks: Some((first, last)), next: last + 1, ..Read::default() }
}

/// The answer to a read after an event that its user received.
fn after(event: u64, read: Read) -> Read {
    Read { after: Some(event), ..read }
}

#[test]
fn a_poll_records_the_event_after_which_it_asked() {
    let polls = || history_of_a_poll().delivered("p1/stdout", 1_010, "a");
    assert!(violations(&polls().answered(2, 1_040, after(0, chunks(1, 1))), reads_wait).is_empty());
    assert_eq!(
        violations(&polls().answered(2, 1_400, after(0, chunks(1, 1))), reads_wait),
        [
            "call 2: the read was answered only at 1.400 s, although its user received the event at 1.010 s"
        ]
    );
    assert_eq!(violations(&polls().answered(2, 1_040, after(1, nothing(2))), reads_wait).len(), 1);
}

#[test]
fn a_read_that_its_user_gives_up_has_no_answer() {
    let poll = || {
        let fields = r#"{"process":"p1","after":"last-received","wait":"2m","patience":"10s"}"#;
        let connected = milestone(started(), 300, "exec.client.connected", &[]);
        let received = connected.delivered("p1/stdout", 1_010, "a");
        received.asked_as(2, 1_020, Class::Durable, "read", fields)
    };
    assert_eq!(violations(&poll().answered(2, 11_020, Answer::GivenUp), reads_wait), [""; 0]);
}

#[test]
fn the_patience_of_a_user_is_not_the_wait_of_its_read() {
    let asked = |fields| {
        started().asked_as(2, 2_000, Class::Durable, "read", fields).answered(2, 2_120, nothing(2))
    };
    let found = |fields| violations(&asked(fields), reads_wait).len();
    assert_eq!(found(r#"{"process":"p1","after":1,"wait":"100ms","patience":"10s"}"#), 0);
    assert_eq!(found(r#"{"process":"p1","after":1,"wait":"10s","patience":"100ms"}"#), 1);
}

/// A run with a read of `p1` after the last event that its user received, over a live connection.
fn history_of_a_poll() -> ScriptedRun {
    let scripted = milestone(started(), 300, "exec.client.connected", &[]);
    scripted.asked_as(
        2,
        500,
        Class::Durable,
        "read",
        r#"{"process":"p1","after":"last-received","wait":"2m"}"#,
    )
}

#[test]
fn a_read_is_answered_when_there_is_something_new() {
    let scripted = read(started(), 500, 0);
    assert!(violations(&scripted.clone().answered(2, 1_040, chunks(1, 1)), reads_wait).is_empty());
    assert!(
        violations(&scripted.clone().answered(2, 1_000 + ALLOWANCE, chunks(1, 1)), reads_wait)
            .is_empty()
    );
    assert_eq!(
        violations(&scripted.answered(2, 1_001 + ALLOWANCE, chunks(1, 1)), reads_wait),
        [
            "call 2: the read was answered only at 64.001 s, although a new event existed since 1.000 s"
        ]
    );
}

#[test]
fn a_read_after_an_event_must_be_answered_after_the_close() {
    let scripted = read(started(), 2_000, 1);
    assert!(
        violations(&scripted.clone().answered(2, 110_000, chunks(2, 2)), reads_wait).is_empty(),
        "who knows since when"
    );
    let scripted = scripted.ended("p1", 3_000, ProcessOutcome::Exit(0)).ended(
        "p1/stdout",
        4_000,
        ProcessOutcome::Closed,
    );
    assert_eq!(
        violations(
            &scripted.answered(2, 110_000, Read { exit: Some(0), closed: true, ..nothing(4) }),
            reads_wait
        )
        .len(),
        1
    );
}

#[test]
fn a_network_fault_excuses_a_late_answer() {
    let scripted = read(started(), 500, 0).kills(30_000, 31_000);
    assert!(
        violations(&scripted.clone().answered(2, 31_000 + ALLOWANCE, chunks(1, 1)), reads_wait)
            .is_empty()
    );
    assert_eq!(
        violations(&scripted.answered(2, 31_001 + ALLOWANCE, chunks(1, 1)), reads_wait).len(),
        1
    );
}

#[test]
fn a_read_over_a_live_connection_is_answered_soon() {
    let connected = || milestone(read(started(), 500, 0), 600, "exec.client.connected", &[]);
    let soon = 1_000 + 4 * 20 + 1_000;
    assert!(violations(&connected().answered(2, soon, chunks(1, 1)), reads_wait).is_empty());
    assert_eq!(violations(&connected().answered(2, soon + 1, chunks(1, 1)), reads_wait).len(), 1);
    let lost = milestone(connected(), 900, "exec.client.lost", &[]);
    assert!(violations(&lost.answered(2, soon + 1, chunks(1, 1)), reads_wait).is_empty());
    let much = connected().produced("p1/stdout", 1_100, &"x".repeat(40 << 10));
    assert!(violations(&much.answered(2, soon + 1, chunks(1, 1)), reads_wait).is_empty());
}

#[test]
fn a_read_is_answered_together_with_the_event_that_it_waits_for() {
    let scripted = milestone(read(started(), 500, 1), 600, "exec.client.connected", &[]);
    let scripted = scripted
        .delivered("p1/stdout", 1_020, "a")
        .produced("p1/stdout", 2_000, "b")
        .delivered("p1/stdout", 2_020, "b");
    let soon = 2_020 + 4 * 20 + 50;
    assert!(violations(&scripted.clone().answered(2, soon, chunks(2, 2)), reads_wait).is_empty());
    assert_eq!(
        violations(&scripted.clone().answered(2, soon + 1, chunks(2, 2)), reads_wait),
        [
            "call 2: the read was answered only at 2.151 s, although its user received the event at 2.020 s"
        ]
    );
    assert!(
        violations(
            &scripted.clone().slows(1_900, 2_100).answered(2, soon + 80, chunks(2, 2)),
            reads_wait
        )
        .is_empty()
    );
    let late = |ms| {
        violations(
            &scripted.clone().delayed(1_900, Some(2_100), 700).answered(2, ms, chunks(2, 2)),
            reads_wait,
        )
        .len()
    };
    assert_eq!((late(soon + 780), late(soon + 781)), (0, 1), "the answer left under the delay");
    let behind = |ms| {
        let narrowed = scripted.clone().narrowed(600, 2_020).answered(2, ms, chunks(2, 2));
        violations(&narrowed, reads_wait).len()
    };
    assert_eq!(
        (behind(soon + 40), behind(soon + 41)),
        (0, 1),
        "the window opens a round trip later"
    );
}

#[test]
fn a_read_without_news_is_answered_when_its_wait_is_over() {
    // The wait is two minutes.
    let polls = || {
        let connected = milestone(started(), 300, "exec.client.connected", &[]);
        read(connected, 2_000, 1)
    };
    let crosses = 4 * 20 + 1_000;
    let late = |run: ScriptedRun, ms| violations(&run.answered(2, ms, nothing(2)), reads_wait);
    assert!(late(polls(), 122_000 + crosses).is_empty());
    assert_eq!(
        late(polls(), 122_001 + crosses),
        [
            "call 2: the read was answered only at 123.081 s, although its wait was over at 122.000 s"
        ]
    );
    let away = || {
        let lost = milestone(polls(), 121_000, "exec.client.lost", &[]);
        milestone(lost, 125_000, "exec.client.connected", &[])
    };
    assert!(late(away(), 125_000 + crosses).is_empty(), "it was asked again");
    assert_eq!(late(away(), 125_001 + crosses).len(), 1);
    // The fault may delay the request, and the wait with it.
    let faulty = || polls().kills(2_000, 3_000);
    assert!(late(faulty(), 123_000 + crosses).is_empty());
    assert_eq!(late(faulty(), 123_001 + crosses).len(), 1);
    let refused = polls().answered(2, 124_000, Answer::Refused("not started".into()));
    assert!(violations(&refused, reads_wait).is_empty(), "the client may refuse it at any time");
}

#[test]
fn a_read_waits_for_the_outcome_of_a_start_that_came_before_it() {
    let own = r#"{"process":"p1"}"#;
    let dropped = || {
        let connected = milestone(started(), 300, "exec.client.connected", &[]);
        let received = connected.delivered("p1/stdout", 1_020, "a");
        let drops = received.asked_as(3, 2_000, Class::Durable, "drop-handle", own);
        drops.answered(3, 2_000, "dropped")
    };
    let asks = |run: ScriptedRun, call, ms| {
        let fields = r#"{"process":"p1","after":"last-received","wait":"5s"}"#;
        run.asked_as(call, ms, Class::Durable, "read", fields)
    };
    let starts = |run: ScriptedRun| run.asked_as(5, 3_000, Class::InFlight, "start", own);
    let refused = |run: ScriptedRun, call, ms| {
        let given_up = run.answered(5, 4_000, Answer::GivenUp);
        let refused = given_up.answered(call, ms, Answer::Refused("not started".into()));
        violations(&refused, reads_wait).len()
    };
    let behind = |ms| refused(asks(starts(dropped()), 6, 3_100), 6, ms);
    assert_eq!([behind(4_000), behind(4_130), behind(4_131)], [0, 0, 1]);
    assert_eq!(refused(starts(asks(dropped(), 4, 2_900)), 4, 4_000), 1, "it came before the start");
}

#[test]
fn a_read_may_wait_for_long_answers_to_other_reads() {
    let output = "x".repeat(15 << 10);
    let scripted = || {
        let scripted =
            start(1, 100).user(120, EventKind::Opened { stream: "p1".into(), call: Call(1) });
        let scripted = milestone(scripted, 600, "exec.client.connected", &[]);
        let scripted =
            scripted.produced("p1/stdout", 1_000, &output).delivered("p1/stdout", 1_020, &output);
        scripted.asked_as(3, 1_100, Class::Durable, "read", r#"{"process":"p1"}"#)
    };
    let chunks = chunks(1, 1);
    let late = |scripted: ScriptedRun| read(scripted, 1_200, 0).answered(2, 1_400, chunks);
    let wrong = [
        "call 2: the read was answered only at 1.400 s, although its user received the event at 1.200 s",
    ];
    assert_eq!(violations(&late(scripted()), reads_wait), wrong, "both together are little");
    let third = |scripted: ScriptedRun| {
        scripted.asked_as(4, 1_100, Class::Durable, "read-all", r#"{"process":"p1"}"#)
    };
    assert!(violations(&late(third(scripted())), reads_wait).is_empty(), "all three are not");
    assert_eq!(
        violations(&late(third(scripted()).answered(4, 1_199, chunks)), reads_wait),
        wrong,
        "one was over before"
    );
    assert!(
        violations(&late(third(scripted()).answered(4, 1_300, chunks)), reads_wait).is_empty(),
        "one was over since"
    );
    let pieces =
        (0..150).fold(scripted(), |scripted, _| scripted.produced("p1/stderr", 1_010, "x"));
    assert!(
        violations(&late(pieces), reads_wait).is_empty(),
        "what stands around small pieces is on its way, too"
    );
    let another = scripted()
        .by("client2")
        .asked_as(4, 1_100, Class::Durable, "read", r#"{"process":"p1"}"#)
        .by("client");
    assert_eq!(
        violations(&late(another), reads_wait),
        wrong,
        "what others are answered comes over their connections"
    );
}

#[test]
fn a_read_is_not_answered_with_nothing_before_its_wait_is_over() {
    let scripted = read(started(), 2_000, 1);
    assert!(violations(&scripted.clone().answered(2, 122_000, nothing(2)), reads_wait).is_empty());
    assert!(
        violations(
            &scripted.clone().answered(2, 2_020, Read { exit: Some(0), ..nothing(3) }),
            reads_wait
        )
        .is_empty(),
        "the exit is news"
    );
    assert_eq!(
        violations(&scripted.answered(2, 2_020, nothing(2)), reads_wait),
        [
            "call 2: the read was answered before its wait ended, with no new event (nothing, next 2; at 2.020 s)"
        ]
    );
}
