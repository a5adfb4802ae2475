//! Tests of the share of each host, and of writes to a closed process.

use super::super::shares::{sessions_are_shared, writes_have_a_reader};
use super::{started, violations};
use crate::history::{Answer, Class, ConnIndex, EventKind, Side};
use crate::property::scripted::{ScriptedRun, history};
use crate::schedule::{LimitValue, MilestoneValue};
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

/// Adds a milestone of the server about a connection.
fn of_server(run: ScriptedRun, ms: u64, name: &'static str, conn: u64) -> ScriptedRun {
    let number = MilestoneValue::Number;
    let fields = [("conn", number(conn)), ("resumed", number(0))].into();
    run.entry(ms, Some("server"), EventKind::Milestone { name, fields })
}

/// A client opens a session, which is detached when the client asks for another one. A host may have one.
fn opened() -> ScriptedRun {
    let mut run = history().conn(1, 0, None).conn(2, 3_000, None);
    run.plan.limits.set("server.peer-sessions", LimitValue::Count(1));
    let up = |run: ScriptedRun, ms, conn| {
        let conn = ConnIndex(conn);
        run.entry(ms, Some("server"), EventKind::ConnUp { conn, side: Side::Server })
    };
    of_server(up(up(run, 10, 0), 3_010, 1), 50, "exec.server.attached", 1)
}

#[test]
fn an_idle_session_of_a_host_makes_room_for_its_next_one() {
    let found = |run: &ScriptedRun| violations(run, sessions_are_shared);
    let refused = |run| of_server(run, 3_050, "exec.server.refused-full", 2);
    let detached = |run| of_server(run, 1_000, "exec.server.detached", 1);
    assert_eq!(
        found(&refused(detached(opened()))),
        [
            "client: the server refused a session for lack of room, although the host had sessions: 1. None had a process, and at least one had no connection (at 3.050 s)"
        ]
    );
    assert!(found(&refused(opened())).is_empty(), "the session is attached");
    let p1 = r#"{"process":"p1"}"#;
    let runs = opened().asked_as(1, 500, Class::InFlight, "start", p1);
    assert!(found(&refused(detached(runs))).is_empty(), "a process may run");
    assert!(found(&refused(detached(opened()).puppet("client"))).is_empty());
    let expired = of_server(detached(opened()), 2_000, "exec.server.expired", 1);
    assert_eq!(found(&of_server(expired, 3_050, "exec.server.attached", 2)), [""; 0]);
    let beyond = of_server(detached(opened()), 3_050, "exec.server.attached", 2);
    assert_eq!(
        found(&beyond),
        [
            "client: the server opened a session for a host that then had 2, more than 1 (at 3.050 s)"
        ]
    );
}

/// A death of another host changes nothing, and a start may take effect after the death of the server.
#[test]
fn only_the_death_of_the_server_ends_its_sessions() {
    let found = |run: &ScriptedRun| violations(run, sessions_are_shared).len();
    let refused = |run| of_server(run, 3_050, "exec.server.refused-full", 2);
    let detached = |run| of_server(run, 1_000, "exec.server.detached", 1);
    assert_eq!(found(&refused(detached(opened()).died("web", 2_000))), 1);
    assert_eq!(found(&refused(detached(opened()).died("server", 2_000))), 0);
    let p1 = r#"{"process":"p1"}"#;
    let started = history().asked_as(1, 0, Class::InFlight, "start", p1).died("server", 5);
    let mut run = started.conn(1, 20, None).conn(2, 3_000, None);
    run.plan.limits.set("server.peer-sessions", LimitValue::Count(1));
    let attached = of_server(run, 50, "exec.server.attached", 1);
    assert_eq!(found(&refused(detached(attached))), 0);
}
