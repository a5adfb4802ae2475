//! Tests of when a client may count a connection as lost.

use std::time::Duration;

use super::super::generations::{attempts_are_answered, kept_while_healthy, silence_is_noticed};
use super::{milestone, violations};
use crate::history::Class;
use crate::property::scripted::{ScriptedRun, history};

#[test]
fn a_peer_counts_as_silent_only_after_a_fault() {
    let silent = |scripted: ScriptedRun, ms| {
        milestone(scripted, ms, "exec.client.lost", &[("why", "silent")])
    };
    assert_eq!(
        violations(&silent(history(), 16_000), kept_while_healthy),
        [
            "exec.client.lost: a peer was treated as silent, although no fault blocked its data (at 16.000 s)"
        ]
    );
    assert!(
        violations(&silent(history().slows(1_000, 5_000), 22_000), kept_while_healthy).is_empty()
    );
    assert_eq!(
        violations(&silent(history().slows(1_000, 5_000), 22_001), kept_while_healthy).len(),
        1
    );
    assert!(
        violations(
            &milestone(history(), 500, "exec.client.lost", &[("why", "closed by the peer")]),
            kept_while_healthy
        )
        .is_empty()
    );
}

#[test]
fn a_silent_connection_is_given_up_in_time() {
    let found = |run: ScriptedRun| violations(&run.horizon(60_000), silence_is_noticed);
    let heard = |over| history().conn(1, 1_000, over).heard(2_000);
    assert_eq!(found(heard(Some(18_500))), [""; 0]);
    assert_eq!(
        found(heard(Some(18_501))),
        [
            "client#1 was still open at 18.500 s, although its client had received nothing since 2.000 s"
        ]
    );
    assert_eq!(found(heard(None)).len(), 1);
    let held = |until| found(heard(None).slows(1_000, until)).len();
    assert_eq!([held(1_999), held(2_000)], [1, 0]);
    assert_eq!(found(heard(None).died("client", 30_000)), [""; 0]);
    let closed = heard(None).asked_as(1, 17_900, Class::Durable, "close-client", "{}");
    assert_eq!(found(closed), [""; 0], "it says goodbye");
    let wrote = |over| found(heard(Some(over)).unblocked(4_000)).len();
    assert_eq!([wrote(20_500), wrote(20_501)], [0, 1], "its peer reads");
    let patient = heard(Some(25_000)).guarantees(|its| its.attempt = Duration::from_secs(24));
    assert_eq!(found(patient), [""; 0], "it may be an attempt");
    let ends = violations(&heard(None).horizon(18_500), silence_is_noticed);
    assert_eq!(ends, [""; 0], "the run ends before");
}

#[test]
fn an_attempt_is_given_up_only_after_a_fault() {
    let begun = |scripted: ScriptedRun, ms| milestone(scripted, ms, "exec.client.recovering", &[]);
    let given_up = |scripted: ScriptedRun, ms| {
        milestone(scripted, ms, "exec.client.attempt-failed", &[("why", "given up")])
    };
    let wrong =
        ["the client abandoned an attempt, although no fault delayed the response (at 9.000 s)"];
    // The server holds the answer for a while.
    let held = |scripted: ScriptedRun, ends| {
        given_up(begun(scripted, 2_500).by("server").slows(3_000, ends).by("client"), 9_000)
    };
    assert_eq!(
        violations(&held(history().kills(1_000, 2_000), 4_000), attempts_are_answered),
        wrong
    );
    let second = given_up(begun(history(), 1_000).kills(2_000, 3_000), 4_000);
    assert!(
        violations(&second, attempts_are_answered).is_empty(),
        "what it was waiting for may be dead"
    );
    assert_eq!(
        violations(&given_up(second, 9_000), attempts_are_answered),
        wrong,
        "the one after it"
    );
    assert!(violations(&held(history(), 8_900), attempts_are_answered).is_empty(), "just before");
    assert!(violations(&held(history(), 12_000), attempts_are_answered).is_empty(), "in force");
    assert!(
        violations(&held(history().kills(2_000, 3_500), 4_000), attempts_are_answered).is_empty(),
        "when it began"
    );
    let died = given_up(begun(history().kills(1_000, 2_000), 2_500).died("server", 4_000), 9_000);
    assert!(violations(&died, attempts_are_answered).is_empty());
    let refused = begun(history().kills(1_000, 2_000), 2_500);
    let refused =
        milestone(refused, 9_000, "exec.client.attempt-failed", &[("why", "no connection")]);
    assert!(violations(&refused, attempts_are_answered).is_empty());
    let much = begun(history().kills(1_000, 2_000), 2_500).produced(
        "p1/stdout",
        4_000,
        &"x".repeat(40 << 10),
    );
    assert!(
        violations(&given_up(much, 9_000), attempts_are_answered).is_empty(),
        "a catch-up with much output takes longer"
    );
}
