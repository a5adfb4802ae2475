//! Tests of `refusals_are_true`.

use std::time::Duration;

use super::super::tests::{started, violations};
use super::*;
use crate::history::{Class, Nature, ProcessOutcome};
use crate::property::scripted::ScriptedRun;
use crate::schedule::LimitValue;

fn refused(scripted: ScriptedRun, ms: u64, why: Failure) -> ScriptedRun {
    scripted.answered(2, ms, Answer::refused(ExecFailure(why)))
}

fn says(message: &str) -> Failure {
    let code = demanded(message).unwrap_or(code::INVALID_REQUEST);
    Failure::Refused { code, message: message.to_owned() }
}

#[test]
fn a_refusal_has_the_code_of_its_message() {
    let found = |code, message: &str| {
        let read = call("read", r#"{"process":"p1"}"#).ended("p1", 2_050, ProcessOutcome::Exit(0));
        let why = Failure::Refused { code, message: message.to_owned() };
        violations(&refused(read, 300_000, why), refusals_are_true)
    };
    assert_eq!(found(-32600, "unknown process id p1"), [""; 0]);
    assert_eq!(
        found(-32603, "unknown process id p1"),
        [
            "call 2: it was refused with the code -32603 (refused: the server refused: unknown process id p1 (-32603)), but this refusal has the code -32600 (at 300.000 s)"
        ]
    );
    assert_eq!(found(-32603, "the request failed: lost"), [""; 0]);
    assert_eq!(found(-32600, "the request failed: lost").len(), 1);
    assert_eq!(found(-32000, "another message"), [""; 0]);
}

fn call(verb: &str, fields: &str) -> ScriptedRun {
    started().asked_as(2, 2_000, Class::InFlight, verb, fields)
}

#[test]
fn a_call_on_a_live_process_is_not_refused() {
    let write = || call("write", r#"{"process":"p1"}"#);
    let why = || Failure::NotWritten(WriteStatus::StdinClosed);
    assert_eq!(
        violations(&refused(write(), 2_100, why()), refusals_are_true),
        [
            "call 2: it was refused (refused: not written: StdinClosed), although p1 was still running (at 2.100 s)"
        ]
    );
    let exited = write().ended("p1", 2_050, ProcessOutcome::Exit(0));
    assert!(violations(&refused(exited, 2_100, why()), refusals_are_true).is_empty());
    let failed = refused(write(), 2_100, why()).failed_stream("p1", 9_000, "gap");
    assert!(violations(&failed, refusals_are_true).is_empty());
    let again = write().asked_as(3, 2_010, Class::InFlight, "start", r#"{"process":"p1"}"#);
    assert!(violations(&refused(again, 2_100, why()), refusals_are_true).is_empty());
}

#[test]
fn a_closed_process_is_read_for_its_retention() {
    let unknown = || says("unknown process id p1");
    let found = |verb: &str, ms, why: Failure| {
        let mut run = call(verb, r#"{"process":"p1"}"#);
        run.plan
            .limits
            .set("server.closed-retention", LimitValue::Duration(Duration::from_secs(5)));
        let run = run.ended("p1", 2_050, ProcessOutcome::Exit(0));
        violations(&refused(run, ms, why), refusals_are_true)
    };
    assert_eq!(
        found("read", 7_049, unknown()),
        [
            "call 2: the read was refused (refused: the server refused: unknown process id p1 (-32600)), although p1 ended only at 2.050 s and is kept for longer (at 7.049 s)"
        ]
    );
    assert_eq!(found("read", 7_050, unknown()), [""; 0]);
    assert_eq!(found("write", 2_100, unknown()), [""; 0], "the process has ended");
    assert_eq!(found("read", 2_100, says("no")), [""; 0], "for another reason");
}

#[test]
fn a_death_excuses_refusals_of_its_own_host() {
    let why = || Failure::NotWritten(WriteStatus::StdinClosed);
    let found = |died: &str, ms| {
        let run = started().died(died, ms);
        let run = run.asked_as(2, 2_000, Class::InFlight, "write", r#"{"process":"p1"}"#);
        violations(&refused(run, 2_100, why()), refusals_are_true).len()
    };
    assert_eq!((found("server", 1_500), found("client", 1_500)), (0, 0));
    assert_eq!((found("client2", 1_500), found("web", 1_500)), (1, 1));
    let unknown = || says("unknown method");
    let file = |died| {
        let run = started().died(died, 1_500);
        let run = run.asked_as(2, 2_000, Class::InFlight, "remove-file", r#"{"file":"f1"}"#);
        violations(&refused(run, 2_100, unknown()), refusals_are_true).len()
    };
    assert_eq!((file("server"), file("client")), (0, 1), "files outlive their client");
}

#[test]
fn a_write_needs_an_input_that_its_process_has() {
    let closed = || Failure::NotWritten(WriteStatus::StdinClosed);
    let start = |run: ScriptedRun, call, ms, host: &str, fields: &str| {
        let run = run.by(host).asked_as(call, ms, Class::InFlight, "start", fields);
        let stream = if host == "client" { "p2" } else { "client2/p2" }.into();
        run.user(ms + 50, EventKind::Opened { stream, call: Call(call) }).by("client")
    };
    let (with, without) =
        (r#"{"process":"p2"}"#, r#"{"process":"p2","command":{"without-input":true}}"#);
    let found = |run: ScriptedRun, why| {
        let write = run.asked_as(5, 2_000, Class::InFlight, "write", r#"{"process":"p2"}"#);
        let refused = write.answered(5, 2_100, Answer::refused(ExecFailure(why)));
        violations(&refused, refusals_are_true).len()
    };
    assert_eq!(found(start(started(), 3, 1_000, "client", without), closed()), 0);
    assert_eq!(found(start(started(), 3, 1_000, "client", with), closed()), 1);
    let other = Failure::NotWritten(WriteStatus::Starting);
    assert_eq!(found(start(started(), 3, 1_000, "client", without), other), 1);
    let both = start(started(), 3, 1_000, "client", with);
    let both = start(both, 4, 1_100, "client2", without);
    assert_eq!(found(both, closed()), 1, "another user's process has none");
    // A fault closes the inputs of the processes that run.
    let close = |run: ScriptedRun, ms| {
        let fault =
            Fault::ClosePipe(faults::ClosePipe { host: "server".into(), pipe: Pipe::Stdin });
        run.fault(ms, None, Nature::Harmless, fault)
    };
    assert_eq!(found(close(start(started(), 3, 1_000, "client", with), 1_500), closed()), 0);
    assert_eq!(found(start(close(started(), 900), 3, 1_000, "client", with), closed()), 1);
}

#[test]
fn a_refused_write_has_no_effect() {
    let write = || call("write", r#"{"process":"p1"}"#).ended("p1", 2_050, ProcessOutcome::Exit(0));
    let why = || Failure::NotWritten(WriteStatus::StdinClosed);
    let read = || write().effect(2, 2_020, "p1/stdin");
    assert_eq!(violations(&refused(read(), 2_100, why()), refusals_are_true).len(), 1);
    let gap = refused(read(), 2_100, Failure::Gap { next: 1, last: 6 });
    assert!(violations(&gap, refusals_are_true).is_empty());
    assert!(violations(&refused(write(), 2_100, why()), refusals_are_true).is_empty());
}

#[test]
fn a_subscription_is_refused_only_for_more_than_the_client_keeps() {
    let begins = call("read-events", r#"{"process":"p1"}"#);
    let found = violations(&refused(begins, 2_100, Failure::NotKept), refusals_are_true);
    assert_eq!(found.len(), 1, "it printed one line");
}

#[test]
fn a_file_that_was_written_is_found() {
    let written = |target: &str| {
        let write = started().asked_as(3, 1_100, Class::InFlight, "write-file", r#"{"file":"f1"}"#);
        let write = write.effect(3, 1_200, target);
        write.asked_as(2, 2_000, Class::Durable, "read-file", r#"{"file":"f1"}"#)
    };
    let why = || says("no such file");
    for why in [why(), Failure::AnswerTooLong] {
        let found = violations(&refused(written("file /f1"), 2_100, why), refusals_are_true);
        assert_eq!(found.len(), 1);
    }
    let other = refused(written("file /f2"), 2_100, why());
    assert!(violations(&other, refusals_are_true).is_empty());
    let removed =
        written("file /f1").asked_as(4, 1_900, Class::InFlight, "remove-file", r#"{"file":"f1"}"#);
    assert!(violations(&refused(removed, 2_100, why()), refusals_are_true).is_empty());
}

#[test]
fn the_blocks_of_a_file_need_the_connection_on_which_it_was_opened() {
    let lost = || says("unknown file handle `file-1`");
    let read = |over| {
        let write = started().asked_as(3, 1_100, Class::InFlight, "write-file", r#"{"file":"f1"}"#);
        let write = write.effect(3, 1_200, "file /f1").conn(2, 1_000, over);
        let read = write.asked_as(2, 2_000, Class::Bound, "read-blocks", r#"{"file":"f1"}"#);
        violations(&refused(read, 2_100, lost()), refusals_are_true).len()
    };
    assert_eq!((read(None), read(Some(2_050))), (1, 0));
}

#[test]
fn a_change_of_a_file_is_refused_only_because_of_a_limit() {
    let remove = || call("remove-file", r#"{"file":"f1"}"#);
    let unknown = refused(remove(), 2_100, says("unknown method"));
    assert_eq!(violations(&unknown, refusals_are_true).len(), 1);
    let many = remove().asked_as(3, 2_010, Class::InFlight, "read-blocks", r#"{"file":"f2"}"#);
    let full = refused(many, 2_100, says("too many requests that wait"));
    assert_eq!(violations(&full, refusals_are_true).len(), 1, "the limit is higher");
}

#[test]
fn a_limit_is_reached_only_by_as_many() {
    let full = || says("too many requests that wait");
    for (verb, fields) in [("read", r#"{"process":"p1"}"#), ("http", r#"{"body":"b1"}"#)] {
        let refused = refused(call(verb, fields), 2_100, full());
        assert_eq!(violations(&refused, refusals_are_true).len(), 1, "{verb}");
    }
}

#[test]
fn a_request_waits_until_it_is_answered() {
    let found = |verb: &str, answered: u64, answer: Answer| {
        let read = call("read", r#"{"process":"p1"}"#);
        let fields = r#"{"process":"p1","body":"b1"}"#;
        let mut run = read.asked_as(3, 1_500, Class::InFlight, verb, fields);
        run.plan.limits.set("server.waiting-requests", LimitValue::Count(1));
        let run = run.answered(3, answered, answer);
        let run = refused(run, 2_100, says("too many requests that wait"));
        violations(&run, refusals_are_true).len()
    };
    let done = || Answer::from("done");
    assert_eq!([found("http", 1_999, done()), found("http", 2_000, done())], [1, 0]);
    let failed = Answer::refused(ExecFailure(says("the request failed: no answer")));
    assert_eq!(found("http", 1_999, failed), 1);
    assert_eq!(found("write", 1_999, Answer::GivenUp), 0, "it may still wait");
    assert_eq!(found("read-blocks", 1_999, done()), 0, "it sends several requests");
}

#[test]
fn a_write_that_has_room_is_not_refused() {
    let found = |stdin_bytes, verb: &str| {
        let write = call("write", r#"{"process":"p1","bytes":"100B"}"#);
        let fields = r#"{"process":"p1"}"#;
        let mut run = write.asked_as(3, 1_500, Class::InFlight, verb, fields);
        let limits = &mut run.plan.limits;
        limits.set("server.waiting-requests", LimitValue::Count(1));
        limits.set("server.stdin-bytes", LimitValue::Bytes(stdin_bytes));
        let run = refused(run, 2_100, says("too many requests that wait"));
        violations(&run, refusals_are_true).len()
    };
    assert_eq!([found(140, "read"), found(139, "read")], [1, 0]);
    // The other write may wait.
    assert_eq!([found(180, "write"), found(179, "write")], [1, 0]);
    assert_eq!(found(300_000, "write-stream"), 0);
}
