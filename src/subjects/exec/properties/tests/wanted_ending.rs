//! Tests of `ends_as_it_wants`: which signals its rule excuses.

use std::time::Duration;

use serde_json::json;

use super::super::wanted_ending::ends_as_it_wants;
use super::{milestone, nothing, read, start, started, violations};
use crate::history::{Answer, Call, Class, Data, EventKind, ProcessOutcome};
use crate::property::scripted::{ScriptedRun, history};
use crate::schedule::LimitValue;
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

/// More output than is retained.
fn printed_much(scripted: ScriptedRun) -> ScriptedRun {
    scripted.produced("p1/stdout", 1_100, &"x".repeat(101))
}

/// A run in which a write waits while its user drops the handle, or makes another call.
fn written(printed: fn(ScriptedRun) -> ScriptedRun, verb: &str, answered: u64) -> ScriptedRun {
    let started = printed(started()).conn(1, 0, None);
    let write = started.asked_as(2, 1_500, Class::InFlight, "write", r#"{"process":"p1"}"#);
    let then = write.asked_as(3, 1_600, Class::InFlight, verb, r#"{"process":"p1"}"#);
    let both = then.answered(3, 1_600, "done").answered(2, answered, Answer::queued("accepted"));
    both.ended("p1", 3_000, ProcessOutcome::Signal(9))
}

#[test]
fn the_client_ends_a_dropped_process_that_fails_during_a_call() {
    let is_killed = |run: ScriptedRun| violations(&run, ends_as_it_wants).len();
    assert_eq!(is_killed(written(printed_much, "drop-handle", 2_870)), 0);
    assert_eq!(is_killed(written(printed_much, "drop-handle", 2_869)), 1);
    assert_eq!(is_killed(written(printed_much, "read", 2_870)), 1, "it was not dropped");
    let little = |scripted: ScriptedRun| scripted;
    assert_eq!(is_killed(written(little, "drop-handle", 2_870)), 1, "it cannot have failed");
    let is_late = |wait: u64| {
        let mut run = written(little, "drop-handle", 2_870);
        run.plan.limits.set("client.call-wait", LimitValue::Duration(Duration::from_millis(wait)));
        is_killed(run)
    };
    assert_eq!([is_late(2_900), is_late(2_901)], [0, 1], "a read may have had no answer");
    let during_a_fault = written(printed_much, "drop-handle", 1_700).kills(1_700, 2_500);
    assert_eq!(is_killed(during_a_fault), 0, "the client ends it over a later connection");
}

/// The handle is dropped as the client learns of the failure: no other call is open.
#[test]
fn the_call_that_drops_a_handle_is_the_last_use_of_it() {
    let killed = |ms| {
        let started = printed_much(started()).conn(1, 0, None);
        let dropped =
            started.asked_as(2, 2_000, Class::Durable, "drop-handle", r#"{"process":"p1"}"#);
        dropped.answered(2, 2_000, "dropped").ended("p1", ms, ProcessOutcome::Signal(9))
    };
    assert!(violations(&killed(2_130), ends_as_it_wants).is_empty());
    assert_eq!(violations(&killed(2_131), ends_as_it_wants).len(), 1);
}

/// The client sends the terminate behind what its user wrote.
#[test]
fn the_terminate_of_a_failed_process_may_be_behind_long_lines() {
    let killed = |by: &str, ms| {
        let started = printed_much(started()).conn(1, 0, None);
        let line = r#"{"process":"p2","bytes":"100000B"}"#;
        let written = started.by(by).asked_as(2, 1_900, Class::InFlight, "write", line);
        let own = r#"{"process":"p1"}"#;
        let dropped = written.by("client").asked_as(3, 2_000, Class::Durable, "drop-handle", own);
        let run = dropped.answered(3, 2_000, "dropped");
        violations(&run.ended("p1", ms, ProcessOutcome::Signal(9)), ends_as_it_wants).len()
    };
    // Three windows of 32 KiB take three round trips of 40 ms.
    assert_eq!([killed("client", 2_250), killed("client", 2_251)], [0, 1]);
    assert_eq!(killed("client2", 2_250), 1, "another client has a link of its own");
}

/// The answers to reads of its user may fill the link before the answer to the terminate.
#[test]
fn the_terminate_of_a_failed_process_may_be_behind_answers() {
    let killed = |answered: Option<u64>, ms| {
        let started = printed_much(started()).conn(1, 0, None);
        let started = started.produced("p2", 1_000, &"x".repeat(100_000));
        let own = r#"{"process":"p1"}"#;
        let reads = started.asked_as(2, 1_900, Class::Durable, "read-all", r#"{"process":"p2"}"#);
        let reads = match answered {
            Some(at) => reads.answered(2, at, "read"),
            None => reads,
        };
        let dropped = reads.asked_as(3, 2_000, Class::Durable, "drop-handle", own);
        let run = dropped.answered(3, 2_000, "dropped");
        violations(&run.ended("p1", ms, ProcessOutcome::Signal(9)), ends_as_it_wants).len()
    };
    // The answer to the terminate may wait for three windows, and for twice as many behind the read.
    assert_eq!([killed(Some(1_950), 2_250), killed(Some(1_950), 2_251)], [0, 1]);
    assert_eq!(killed(None, 2_370), 0);
    assert_eq!(killed(None, 2_500), 1);
}

#[test]
fn only_a_process_that_can_have_failed_ends_before_its_slow_user_knows() {
    let killed = |printed: fn(ScriptedRun) -> ScriptedRun| {
        let fields = r#"{"process":"p1","reads":{"pause":"2s","every":"1B"}}"#;
        let opened = EventKind::Opened { stream: "p1".into(), call: Call(1) };
        let started = history().asked_as(1, 100, Class::InFlight, "start", fields);
        let started = started.effect(1, 110, "p1").user(120, opened).conn(1, 0, None);
        let run = printed(started).ended("p1", 3_000, ProcessOutcome::Signal(9));
        violations(&run, ends_as_it_wants).len()
    };
    assert_eq!([killed(printed_much), killed(|scripted| scripted)], [0, 1]);
}

/// A call about an earlier process of the same name excuses nothing.
#[test]
fn a_terminate_ends_only_the_process_that_its_user_had() {
    let again = |asked: u64| {
        let opened = EventKind::Opened { stream: "p1.2".into(), call: Call(3) };
        started()
            .conn(1, 0, None)
            .asked_as(2, asked, Class::InFlight, "terminate", r#"{"process":"p1"}"#)
            .ended("p1", 2_500, ProcessOutcome::Exit(0))
            .asked_as(3, 3_000, Class::InFlight, "start", r#"{"process":"p1"}"#)
            .effect(3, 3_010, "p1.2")
            .user(3_020, opened)
            .ended("p1.2", 5_000, ProcessOutcome::Signal(9))
    };
    assert_eq!(
        violations(&again(2_000), ends_as_it_wants),
        ["p1.2: it ended with signal 9, but no user terminated it (at 5.000 s)"]
    );
    assert!(violations(&again(4_000), ends_as_it_wants).is_empty());
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

/// The client's end is over during the goodbye of the server, which had detached the session before.
fn cut_during_the_goodbye(conn: &str, detached: u64, killed: u64) -> ScriptedRun {
    let run = started().conn(1, 0, Some(20_000));
    let run = milestone(run, detached, "exec.server.detached", &[("conn", conn)]);
    run.ended("p1", killed, ProcessOutcome::Signal(9))
}

#[test]
fn a_session_is_over_sooner_if_the_server_said_goodbye_first() {
    let found = |run: &ScriptedRun| violations(run, ends_as_it_wants).len();
    // The server keeps a session for 80 s.
    assert_eq!(found(&cut_during_the_goodbye("1", 19_000, 99_000)), 0);
    assert_eq!(found(&cut_during_the_goodbye("1", 19_001, 99_000)), 1);
    assert_eq!(found(&cut_during_the_goodbye("2", 19_000, 99_000)), 1, "another connection");
}

#[test]
fn a_milestone_moves_the_end_of_a_session_no_further_than_a_goodbye() {
    let found = |run: &ScriptedRun| violations(run, ends_as_it_wants).len();
    assert_eq!(found(&cut_during_the_goodbye("1", 5_000, 98_999)), 1, "it came too early");
    assert_eq!(found(&cut_during_the_goodbye("1", 30_000, 100_000)), 0, "it came too late");
}

#[test]
fn a_process_may_kill_itself() {
    let mut scripted = started().ended("p1", 3_000, ProcessOutcome::Signal(9));
    scripted.plan.setup.insert("process".into(), json!({ "p1": { "exit": "signal" } }));
    assert!(violations(&scripted, ends_as_it_wants).is_empty());
}

/// The history has the calls of one moment before the effects of the first of them.
#[test]
fn a_terminate_in_the_moment_of_a_drop_is_about_the_next_process() {
    let own = r#"{"process":"p1"}"#;
    let killed = |verb: &str| {
        let opened = EventKind::Opened { stream: "p1.2".into(), call: Call(3) };
        started()
            .conn(1, 0, None)
            .asked_as(2, 2_000, Class::Durable, verb, own)
            .asked_as(3, 2_000, Class::InFlight, "start", own)
            .asked_as(4, 2_000, Class::InFlight, "terminate", own)
            .gave_up(2, Some("p1"), 2_000)
            .answered(2, 2_000, "done")
            .effect(3, 2_110, "p1.2")
            .user(2_120, opened)
            .ended("p1.2", 3_000, ProcessOutcome::Signal(9))
    };
    assert!(violations(&killed("drop-handle"), ends_as_it_wants).is_empty());
    assert_eq!(violations(&killed("unfollow"), ends_as_it_wants).len(), 1);
}

#[test]
fn a_terminate_over_an_older_handle_excuses_the_end_of_the_older_process_only() {
    let own = r#"{"process":"p1"}"#;
    let older = r#"{"process":"p1","older":true}"#;
    let found = |fields: &str, process: &str| {
        let opened = EventKind::Opened { stream: "p1.2".into(), call: Call(2) };
        let run = started()
            .conn(1, 0, None)
            .asked_as(2, 2_000, Class::InFlight, "start", own)
            .effect(2, 2_010, "p1.2")
            .user(2_020, opened)
            .asked_as(3, 2_500, Class::InFlight, "terminate", fields)
            .ended(process, 3_000, ProcessOutcome::Signal(9));
        violations(&run, ends_as_it_wants).len()
    };
    assert_eq!([found(older, "p1"), found(older, "p1.2")], [0, 1]);
    assert_eq!([found(own, "p1"), found(own, "p1.2")], [1, 0]);
    // Without an older process, the call is refused.
    let alone = started().conn(1, 0, None);
    let alone = alone.asked_as(2, 2_000, Class::InFlight, "terminate", older);
    let alone = alone.ended("p1", 3_000, ProcessOutcome::Signal(9));
    assert_eq!(violations(&alone, ends_as_it_wants).len(), 1);
}

/// A command exits at 2 s, and a signal ends what it left in the background. The server keeps the closed
/// command for 10 s.
fn left_behind(over: Option<u64>, killed: u64) -> ScriptedRun {
    let exited = started().conn(1, 0, over).ended("p1", 2_000, ProcessOutcome::Exit(0));
    let mut run = exited.ended("p1/background", killed, ProcessOutcome::Signal(9));
    run.plan.limits.set("server.closed-retention", LimitValue::Duration(Duration::from_secs(10)));
    run
}

#[test]
fn what_a_command_left_lives_on_while_the_server_keeps_the_command() {
    let found = |run: &ScriptedRun| violations(run, ends_as_it_wants);
    assert_eq!(
        found(&left_behind(None, 2_000)),
        [
            "p1/background: it ended with signal 9, although the server keeps its command until 12.000 s (at 2.000 s)"
        ]
    );
    assert_eq!(found(&left_behind(None, 11_999)).len(), 1);
    assert!(found(&left_behind(None, 12_000)).is_empty());
}

#[test]
fn what_a_command_left_may_end_with_its_session_or_for_its_user() {
    let found = |run: &ScriptedRun| violations(run, ends_as_it_wants).len();
    assert_eq!(found(&left_behind(Some(3_000), 5_000)), 0, "the session may be over");
    let resumed = left_behind(Some(3_000), 5_000).conn(2, 7_000, None);
    assert_eq!(found(&resumed), 1, "the session was not over");
    let own = r#"{"process":"p1"}"#;
    let asked = |verb| left_behind(None, 2_000).asked_as(2, 1_900, Class::InFlight, verb, own);
    assert_eq!([found(&asked("terminate")), found(&asked("read"))], [0, 1]);
}
