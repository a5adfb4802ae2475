//! Tests each case of `justified_failure` exactly at its limit and just past it.

use std::time::Duration;

use crate::history::{Answer, Class};

use super::super::scripted::{A, ScriptedRun, history};
use super::inconclusive;

mod connection;
mod crashes;
mod exempt;
mod lifetime;
mod retention;
mod scope;
mod waits;
mod window;

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

#[test]
fn a_refusal_is_not_a_failure() {
    judged(
        &history().asked(7, 0).answered(7, 20, Answer::refused("no such counter")),
        Is::Justified,
    );
}
