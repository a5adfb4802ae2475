//! Tests of `ends_as_it_wants`: which signals its rule excuses.

use serde_json::json;

use super::super::wanted_ending::ends_as_it_wants;
use super::{nothing, read, start, started, violations};
use crate::history::{Answer, Class, Data, ProcessOutcome};
use crate::property::scripted::ScriptedRun;
use crate::subjects::exec::answers::ExecFailure;
use reknit_exec::client::Failure;

fn gap() -> ExecFailure {
    ExecFailure(Failure::Gap { next: 1, last: 7 })
}

#[test]
fn a_process_is_killed_by_its_user_only() {
    let started = || super::started().conn(1, 0, None);
    assert!(
        violations(&started().ended("p1", 3_000, ProcessOutcome::Exit(0)), ends_as_it_wants)
            .is_empty()
    );
    let killed = |scripted: ScriptedRun| scripted.ended("p1", 3_000, ProcessOutcome::Signal(9));
    assert_eq!(
        violations(&killed(started()), ends_as_it_wants),
        ["p1: it ended with signal 9, but no user terminated it (at 3.000 s)"]
    );
    let terminated =
        started().asked_as(2, 2_000, Class::InFlight, "terminate", r#"{"process":"p1"}"#);
    assert!(violations(&killed(terminated), ends_as_it_wants).is_empty());
    assert!(violations(&killed(started().failed(1, 2_000, "lost")), ends_as_it_wants).is_empty());
    assert!(
        violations(&killed(started().failed_stream("p1", 2_000, gap())), ends_as_it_wants)
            .is_empty()
    );
    assert!(violations(&killed(started().died("server", 2_000)), ends_as_it_wants).is_empty());
    let written = |verb, answered| {
        let write = started().asked_as(2, 1_500, Class::InFlight, "write", r#"{"process":"p1"}"#);
        let then = write.asked_as(3, 1_600, Class::InFlight, verb, r#"{"process":"p1"}"#);
        let answered = then.answered(2, answered, Answer::queued("accepted"));
        violations(&killed(answered), ends_as_it_wants).len()
    };
    assert_eq!([written("drop-handle", 2_870), written("drop-handle", 2_869)], [0, 1]);
    assert_eq!(written("read", 2_870), 1);
    let refused =
        |why: Data| killed(read(started(), 1_500, 0).answered(2, 2_000, Answer::Refused(why)));
    assert!(violations(&refused(gap().into()), ends_as_it_wants).is_empty());
    assert_eq!(violations(&refused("p1 is unknown".into()), ends_as_it_wants).len(), 1);
    let reported_later = killed(started()).failed_stream("p1", 5_000, gap());
    assert!(violations(&reported_later, ends_as_it_wants).is_empty());
    let started_again =
        started().asked_as(2, 2_000, Class::InFlight, "start", r#"{"process":"p1"}"#);
    assert!(
        violations(&killed(started_again.clone().failed(2, 2_500, "lost")), ends_as_it_wants)
            .is_empty()
    );
    assert_eq!(violations(&killed(started_again), ends_as_it_wants).len(), 1);
}

#[test]
fn a_held_user_learns_later_that_its_start_failed() {
    let killed = |hold_ends| {
        let waits = start(1, 1_000);
        let started = waits.effect(1, 1_010, "p1").conn(1, 0, None).slows(1_500, hold_ends);
        started.ended("p1", 3_000, ProcessOutcome::Signal(9))
    };
    assert!(violations(&killed(3_001), ends_as_it_wants).is_empty());
    assert_eq!(violations(&killed(2_999), ends_as_it_wants).len(), 1);
    let was_answered = killed(4_000).answered(1, 1_200, nothing(1));
    assert_eq!(violations(&was_answered, ends_as_it_wants).len(), 1);
}

#[test]
fn a_process_ends_with_its_session() {
    let killed = |over| {
        let connected = super::started().conn(1, 0, Some(over));
        connected.ended("p1", 100_000, ProcessOutcome::Signal(9))
    };
    assert!(violations(&killed(20_000), ends_as_it_wants).is_empty());
    assert_eq!(violations(&killed(20_001), ends_as_it_wants).len(), 1);
}

#[test]
fn a_process_may_kill_itself() {
    let mut scripted = started().ended("p1", 3_000, ProcessOutcome::Signal(9));
    scripted.plan.setup.insert("process".into(), json!({ "p1": { "exit": "signal" } }));
    assert!(violations(&scripted, ends_as_it_wants).is_empty());
}
