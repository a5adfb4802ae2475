//! Tests of the share of each host, and of writes to a closed process.

use super::super::shares::{sessions_are_shared, writes_have_a_reader};
use super::{started, violations};
use crate::history::{Answer, Class, EventKind};
use crate::property::scripted::{ScriptedRun, history};
use crate::schedule::MilestoneValue;
use crate::subjects::exec::answers::ExecObservation;

#[test]
fn a_write_after_the_exit_that_its_user_received_is_not_accepted() {
    let write = |scripted: ScriptedRun, ms| {
        scripted.asked_as(2, ms, Class::Durable, "write", r#"{"process":"p1"}"#).answered(
            2,
            2_500,
            Answer::queued("accepted"),
        )
    };
    let exited = |scripted: ScriptedRun| {
        let saw = ExecObservation::ExitAt(2).into();
        scripted.user(2_000, EventKind::Observed { stream: "p1".into(), saw })
    };
    assert_eq!(
        violations(&write(exited(started()), 2_001), writes_have_a_reader),
        [
            "call 2: the write was accepted, although its user had already received the exit of the process (at 2.500 s)"
        ]
    );
    let in_flight = started().asked_as(2, 1_999, Class::Durable, "write", r#"{"process":"p1"}"#);
    let crossed = exited(in_flight).answered(2, 2_500, Answer::queued("accepted"));
    assert!(violations(&crossed, writes_have_a_reader).is_empty(), "they may cross");
    let again = write(
        exited(started()).asked_as(3, 2_001, Class::InFlight, "start", r#"{"process":"p1"}"#),
        2_400,
    );
    assert!(violations(&again, writes_have_a_reader).is_empty(), "another process");
}

#[test]
fn a_host_gets_its_share_of_the_sessions() {
    let refused = || {
        let fields = [("conn", MilestoneValue::Number(1))].into();
        let what = EventKind::Milestone { name: "exec.server.refused-full", fields };
        history().conn(1, 0, None).entry(40, None, what)
    };
    assert_eq!(
        violations(&refused(), sessions_are_shared),
        [
            "client: the server refused a session for lack of room, although the host had opened only 0 (at 0.040 s)"
        ]
    );
    assert!(violations(&refused().puppet("server"), sessions_are_shared).is_empty());
}
