//! Tests of how long closed processes can be read, and of process ids.

use super::super::served::{closed_are_kept, ids_are_own};
use super::{start, started, violations};
use crate::history::{Answer, Class, EventKind};
use crate::property::scripted::{ScriptedRun, history};
use crate::schedule::MilestoneValue;
use crate::subjects::exec::answers::ExecFailure;
use reknit_exec::client::Failure;

#[test]
fn a_closed_process_is_forgotten_only_after_its_user_was_attached_long_enough() {
    let attached = |scripted: ScriptedRun, ms, conn| {
        let fields = [("conn", MilestoneValue::Number(conn))].into();
        scripted.entry(
            ms,
            None,
            EventKind::Point { name: "exec.server.attach.unlocked", fields, held: false },
        )
    };
    let forgotten = |scripted: ScriptedRun, ms, conn| {
        let fields = [
            ("process", MilestoneValue::Text("p1".into())),
            ("conn", MilestoneValue::Number(conn)),
        ]
        .into();
        scripted.entry(ms, None, EventKind::Milestone { name: "exec.process.forgotten", fields })
    };
    assert!(
        violations(&forgotten(attached(history(), 1_000, 1), 81_000, 1), closed_are_kept)
            .is_empty()
    );
    assert_eq!(
        violations(&forgotten(attached(history(), 1_000, 1), 80_999, 1), closed_are_kept),
        [
            "p1: the server forgot the closed process too early: its client was attached only since 1.000 s (at 80.999 s)"
        ]
    );
    assert_eq!(
        violations(&forgotten(attached(history(), 1_000, 1), 50_000, 0), closed_are_kept),
        [
            "p1: the server forgot the closed process too early: no client was attached (at 50.000 s)"
        ]
    );
}

#[test]
fn a_refused_attempt_begins_the_retention_anew() {
    let named = |name, conn| EventKind::Milestone {
        name,
        fields: [
            ("process", MilestoneValue::Text("p1".into())),
            ("conn", MilestoneValue::Number(conn)),
        ]
        .into(),
    };
    // Connection 1 is attached at 1 s, and connection 2 refused at 50 s.
    let run = |ms| {
        let run = history().conn(1, 900, None).conn(2, 49_900, Some(50_100));
        let attached = EventKind::Point {
            name: "exec.server.attach.unlocked",
            fields: [("conn", MilestoneValue::Number(1))].into(),
            held: false,
        };
        let run = run.entry(1_000, None, attached);
        let run = run.entry(50_000, None, named("exec.server.refused-still-attached", 2));
        run.entry(ms, None, named("exec.process.forgotten", 1))
    };
    assert!(violations(&run(130_000), closed_are_kept).is_empty());
    assert_eq!(
        violations(&run(129_999), closed_are_kept),
        [
            "p1: the server forgot the closed process too early: the server refused its client at 50.000 s, which may have missed events (at 129.999 s)"
        ]
    );
    assert!(violations(&run(129_999).died("client", 20_000), closed_are_kept).is_empty());
    let other = history().by("client2").conn(1, 900, None).by("client");
    let run = other.entry(50_000, None, named("exec.server.refused-still-attached", 1));
    let run = run.conn(1, 900, None);
    let attached = EventKind::Point {
        name: "exec.server.attach.unlocked",
        fields: [("conn", MilestoneValue::Number(2))].into(),
        held: false,
    };
    let run = run.entry(1_000, None, attached);
    let run = run.entry(100_000, None, named("exec.process.forgotten", 2));
    assert!(violations(&run, closed_are_kept).is_empty(), "another client");
}

#[test]
fn an_id_is_taken_only_for_a_user_that_started_it() {
    let failure = Failure::Refused { code: -32600, message: "process id p1 is taken".into() };
    let refused = || Answer::refused(ExecFailure(failure.clone()));
    let why = "refused: the server refused: process id p1 is taken (-32600)";
    assert_eq!(
        violations(&start(1, 0).answered(1, 20, refused()), ids_are_own),
        [format!(
            "call 1: it was refused, but its user had no process with this id ({why}; at 0.020 s)"
        )]
    );
    let again = |scripted: ScriptedRun| {
        scripted.asked_as(2, 2_000, Class::InFlight, "start", r#"{"process":"p1"}"#).answered(
            2,
            2_020,
            refused(),
        )
    };
    assert!(violations(&again(started()), ids_are_own).is_empty());
    assert_eq!(violations(&again(started().by("client2")), ids_are_own).len(), 1);
}
