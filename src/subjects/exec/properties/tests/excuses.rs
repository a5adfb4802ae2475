//! Tests of excuses: what they excuse, and what they do not.

use serde_json::json;

use super::super::accepted::terminates_tell_truth;
use super::super::refusals::refusals_are_true;
use super::super::repair::processes_fail_truly;
use super::super::unfollowed::unfollowed_run_on;
use super::super::waits::waits_are_whole;
use super::super::wanted_ending::ends_as_it_wants;
use super::{milestone, started, violations};
use crate::history::{Answer, Call, Class, ConnIndex, EventKind, ProcessOutcome};
use crate::property::scripted::{ScriptedRun, history};
use crate::schedule::LimitValue;
use crate::subjects::exec::answers::{ExecFailure, WasRunning};
use reknit_exec::client::Failure;

const P1: &str = r#"{"process":"p1"}"#;

fn asked(run: ScriptedRun, call: u64, ms: u64, verb: &str, fields: &str) -> ScriptedRun {
    run.asked_as(call, ms, Class::InFlight, verb, fields)
}

fn limited(mut run: ScriptedRun, limit: &'static str, value: LimitValue) -> ScriptedRun {
    run.plan.limits.set(limit, value);
    run
}

/// Call 2 is refused with this message. Returns the number of violations.
fn refused(run: ScriptedRun, message: &str) -> usize {
    let code = if message.starts_with("too many ") { -32603 } else { -32600 };
    let why = Failure::Refused { code, message: message.to_owned() };
    let run = run.answered(2, 2_100, Answer::refused(ExecFailure(why)));
    violations(&run, refusals_are_true).len()
}

#[test]
fn a_host_with_a_fault_may_say_late_that_a_process_ended() {
    let found = |began, ended| {
        let run = started().by("server").slows(began, ended).by("client");
        let run = run.ended("p1", 3_000, ProcessOutcome::Exit(0));
        let run = asked(run, 2, 5_000, "terminate", P1).answered(2, 5_100, WasRunning(true));
        violations(&run, terminates_tell_truth).len()
    };
    assert_eq!(found(2_000, 3_000), 0);
    assert_eq!(found(5_100, 6_000), 0);
    assert_eq!(found(2_000, 2_999), 1);
    assert_eq!(found(5_101, 6_000), 1);
}

#[test]
fn a_session_is_detached_when_the_server_begins_to_close_its_connection() {
    let killed = |run: ScriptedRun, ms| {
        violations(&run.ended("p1", ms, ProcessOutcome::Signal(9)), ends_as_it_wants).len()
    };
    // The client closed it first.
    let both = || started().conn(1, 0, Some(20_000));
    assert_eq!((killed(both(), 100_000), killed(both(), 99_999)), (0, 1));
    // The server waited for the client.
    let server = || started().conn_closed(1, 0, 20_000, Some(30_000));
    assert_eq!((killed(server(), 99_000), killed(server(), 98_999)), (0, 1));
}

#[test]
fn a_user_that_follows_no_more_reads_of_no_gap() {
    let killed = |run: ScriptedRun| run.ended("p1", 3_000, ProcessOutcome::Signal(9));
    let found = |run: &ScriptedRun| violations(run, ends_as_it_wants).len();
    // More than is retained.
    let connected = || started().produced("p1/stdout", 1_100, &"x".repeat(101)).conn(1, 0, None);
    assert_eq!(found(&killed(asked(connected(), 2, 2_000, "unfollow", P1))), 0);
    let retained = started().conn(1, 0, None);
    assert_eq!(found(&killed(asked(retained, 2, 2_000, "unfollow", P1))), 1);
    let other = asked(connected(), 2, 2_000, "unfollow", r#"{"process":"p2"}"#);
    assert_eq!(found(&killed(other)), 1);
    let read = killed(asked(connected(), 2, 2_000, "unfollow", P1));
    assert_eq!(found(&read.completed("p1", 3_100, ProcessOutcome::Signal(9))), 1, "it read on");
}

#[test]
fn a_process_with_another_reader_may_be_held() {
    let stopped = |looks: u64, more: Option<&str>| {
        let start = json!({ "process": "p1", "looks-after": format!("{looks}ms") }).to_string();
        let mut run =
            asked(history(), 1, 100, "start", &start).effect(1, 110, "p1").conn(1, 0, None);
        let lines = json!({ "lines": 30, "every": "100ms" });
        run.plan.setup.insert("process".into(), json!({ "p1": { "print": lines } }));
        let opened = EventKind::Opened { stream: "p1".into(), call: Call(1) };
        let run = run.user(120, opened).user(0, EventKind::ConnOpened { conn: ConnIndex(0) });
        let run = milestone(run, 50, "exec.client.connected", &[("conn", "1")]);
        let run = more.into_iter().fold(run, |run, verb| asked(run, 3, 1_500, verb, P1));
        let run = asked(run, 2, 2_000, "unfollow", P1).gave_up(2, Some("p1"), 2_000);
        violations(&run.end(60_000), unfollowed_run_on).len()
    };
    assert_eq!(stopped(0, None), 1);
    for verb in ["read-events", "read-stream", "write-stream"] {
        assert_eq!(stopped(0, Some(verb)), 0, "{verb}");
    }
    assert_eq!(stopped(0, Some("read")), 1);
    assert_eq!(stopped(1_879, None), 1);
    assert_eq!(stopped(1_880, None), 0, "the client keeps all for the first look");
}

#[test]
fn a_subscription_fails_with_its_process() {
    let given_up = |verb: &str| {
        let run = asked(history(), 1, 100, verb, P1);
        let run = run.failed(1, 1_000, ExecFailure(Failure::Unanswered)).end(200_000);
        violations(&run, waits_are_whole).len()
    };
    assert_eq!((given_up("read-events"), given_up("read-stream")), (0, 0));
    assert_eq!((given_up("read"), given_up("write")), (1, 1));
}

#[test]
fn a_user_that_gave_its_process_up_may_find_no_first_event() {
    let not_kept = |gave_up: Option<u64>| {
        let run = gave_up.into_iter().fold(started(), |run, ms| run.gave_up(2, Some("p1"), ms));
        let run = run.failed_stream("p1", 2_000, ExecFailure(Failure::NotKept));
        violations(&run, processes_fail_truly).len()
    };
    assert_eq!((not_kept(None), not_kept(Some(1_500)), not_kept(Some(2_001))), (1, 0, 1));
}

#[test]
fn a_file_or_a_directory_is_too_large_only_beyond_its_limit() {
    let uses = || asked(started(), 2, 2_000, "use-files", "{}");
    let small = |limit, value| limited(uses(), limit, value);
    let long = "file is too large to read in one response";
    assert_eq!(refused(uses(), long), 1);
    assert_eq!(refused(small("server.file-bytes", LimitValue::Bytes(63)), long), 0);
    assert_eq!(refused(small("server.file-bytes", LimitValue::Bytes(64)), long), 1);
    let many = "the directory has more than 1 entries";
    assert_eq!(refused(uses(), many), 1);
    assert_eq!(refused(small("server.directory-entries", LimitValue::Count(1)), many), 0);
    assert_eq!(refused(small("server.directory-entries", LimitValue::Count(2)), many), 1);
}

#[test]
fn a_user_has_too_many_handles_or_processes_only_with_enough_calls() {
    let full = "1 file handles may be open per connection";
    let handles = |other: Option<&str>| {
        let run = other.into_iter().fold(started(), |run, verb| asked(run, 3, 1_500, verb, "{}"));
        let run = asked(run, 2, 2_000, "use-files", "{}");
        refused(limited(run, "server.file-handles", LimitValue::Count(1)), full)
    };
    assert_eq!((handles(None), handles(Some("use-files")), handles(Some("read-file"))), (1, 0, 1));
    let processes = |most| {
        let mut run = asked(started(), 2, 2_000, "start", r#"{"process":"p2"}"#);
        run.plan.setup.insert("process".into(), json!({ "p2": {} }));
        refused(limited(run, "server.processes", LimitValue::Count(most)), "too many processes")
    };
    assert_eq!((processes(1), processes(2)), (0, 1));
}

#[test]
fn a_start_that_can_be_refused_is_confined_or_unknown() {
    let start = |fields: &str| {
        let mut run = asked(started(), 2, 2_000, "start", fields);
        run.plan.setup.insert("process".into(), json!({ "p2": {} }));
        refused(run, "no")
    };
    assert_eq!(start(r#"{"process":"p2"}"#), 1);
    assert_eq!(start(r#"{"process":"p2","command":{"sandbox":"read-only"}}"#), 0);
    assert_eq!(start(r#"{"process":"p3"}"#), 0, "no such process");
}

#[test]
fn a_client_keeps_no_more_than_its_log() {
    let begins = |most| {
        let run = asked(started(), 2, 2_000, "read-events", P1);
        let run = run.answered(2, 2_100, Answer::refused(ExecFailure(Failure::NotKept)));
        violations(&limited(run, "client.log-events", LimitValue::Count(most)), refusals_are_true)
            .len()
    };
    assert_eq!((begins(1), begins(2)), (0, 1));
}
