//! Tests of `logs_are_true`.

use super::super::logs::logs_are_true;
use super::*;
use crate::subjects::sse::notes::SeenLogs;

fn logs() -> SeenLogs {
    SeenLogs { output: "a\n".to_owned(), gaps: Vec::new(), next: 1, has_run: true, whole: true }
}

/// The fields of a question for the logs of `p1`.
const LOGS: &str = r#"{"process":"p1","wait":"1s"}"#;

/// A run in which `p1` runs in the background.
fn background() -> ScriptedRun {
    history()
        .asked_as(1, 100, Class::Durable, "run", r#"{"process":"p1","background":true}"#)
        .effect(1, 110, "p1")
        .produced("p1/stdout", 1_000, "a\n")
        .ended("p1", 1_500, ProcessOutcome::Exit(0))
}

fn seen(scripted: ScriptedRun, logs: SeenLogs) -> ScriptedRun {
    let asked = scripted.asked_as(2, 2_000, Class::InFlight, "logs", LOGS);
    asked.answered(2, 2_100, Answer::Done(logs.into()))
}

#[test]
fn the_logs_of_a_command_are_what_it_printed() {
    let read = |scripted: ScriptedRun, output: &str| {
        seen(scripted, SeenLogs { output: output.to_owned(), ..logs() })
    };
    let of_no_run = SeenLogs { has_run: false, ..logs() };
    let of_no_run =
        asks(background(), 2_000, "status").answered(2, 2_100, Answer::Done(of_no_run.into()));
    breaks(&of_no_run, logs_are_true, "names no run");
    breaks(&read(background(), "b\n"), logs_are_true, "not what the process printed");
    breaks(&read(background(), ""), logs_are_true, "end after 0 bytes");
    breaks(&read(exited(), "a\n"), logs_are_true, "in the foreground");
    holds(&read(background(), "a\n"), logs_are_true);
}

/// A user that crashes as it asks for a run asks for the logs of the run before.
#[test]
fn a_run_that_its_user_lost_has_no_logs() {
    let lost = |started: ScriptedRun, fields: &str| {
        started.asked_as(3, 1_800, Class::Durable, "run", fields).died("client", 1_800)
    };
    let foreground = || lost(background(), r#"{"process":"p1"}"#);
    holds(&seen(foreground(), logs()), logs_are_true);
    let launched = foreground().effect(3, 1_810, "p1.2");
    breaks(&seen(launched, logs()), logs_are_true, "in the foreground");
    let refused = |run: ScriptedRun| {
        let refused = SeenRefusal { status: 400, code: "INVALID_REQUEST_BODY".to_owned() };
        let asked = run.asked_as(2, 2_000, Class::InFlight, "logs", LOGS);
        asked.answered(2, 2_100, Answer::Refused(refused.into()))
    };
    let background = || lost(exited(), r#"{"process":"p1","background":true}"#);
    holds(&refused(background()), refusals::refusals_are_true);
    let launched = background().effect(3, 1_810, "p1.2");
    breaks(&refused(launched), refusals::refusals_are_true, "but it runs in the background");
}

#[test]
fn a_process_that_is_killed_may_leave_a_part_of_a_character() {
    let produced = |scripted: ScriptedRun, bytes: &'static [u8]| {
        let what = EventKind::Produced { stream: "p1/stdout".into(), bytes: bytes.into() };
        scripted.entry(1_100, Some("server"), what)
    };
    let part = || produced(background(), b"b\xe2\x82");
    let read = |output: &str| seen(part(), SeenLogs { output: output.to_owned(), ..logs() });
    holds(&read("a\nb\u{fffd}"), logs_are_true);
    breaks(&read("a\nb"), logs_are_true, "end after 3 bytes, but the process printed 6");
    breaks(&read("a\nb\u{fffd}\u{fffd}"), logs_are_true, "not what the process printed");
}

#[test]
fn logs_with_a_gap_contain_all_other_lines() {
    // The log of three lines and of the ending keeps two events.
    let three = || {
        let lines = background().produced("p1/stdout", 1_100, "b\n");
        let mut lines = lines.produced("p1/stdout", 1_200, "c\n");
        lines.plan.limits.set("server.retained-events", LimitValue::Count(2));
        lines
    };
    let read = |scripted: ScriptedRun, last, output: &str, whole| {
        let gaps = vec![Gap { first: 1, last }];
        seen(scripted, SeenLogs { output: output.to_owned(), gaps, whole, ..logs() })
    };
    holds(&read(three(), 2, "c\n", true), logs_are_true);
    holds(&read(three(), 2, "", false), logs_are_true);
    let short = "end after 0 bytes, but the process printed 2";
    breaks(&read(three(), 2, "", true), logs_are_true, short);
    let other = "not what the process printed";
    breaks(&read(three(), 2, "b\nc\n", true), logs_are_true, other);
    breaks(&read(three(), 1, "c\n", true), logs_are_true, other);
    breaks(&read(three(), 3, "", true), logs_are_true, "still had to have that event");
    breaks(&read(three(), 9, "", true), logs_are_true, "there were only 4 events");
    // The positions of two pipes are not known.
    let of_two = three().produced("p1/stderr", 1_300, "d\n");
    holds(&read(of_two, 2, "b\n", true), logs_are_true);
}

#[test]
fn the_lines_of_each_pipe_are_in_order() {
    let both = || {
        let lines = background().produced("p1/stderr", 1_100, "b\n");
        lines.produced("p1/stdout", 1_200, "c\n").produced("p1/stderr", 1_300, "a\n")
    };
    let read = |output: &str| seen(both(), SeenLogs { output: output.to_owned(), ..logs() });
    for output in ["a\nb\nc\na\n", "a\nc\nb\na\n", "b\na\na\nc\n"] {
        holds(&read(output), logs_are_true);
    }
    for output in ["c\na\nb\na\n", "a\na\nb\nc\n", "a\nb\nc\nd\n"] {
        breaks(&read(output), logs_are_true, "not what the process printed");
    }
    // A line that has no end may be more than one event.
    let open = seen(both().produced("p1/stdout", 1_400, "d"), logs());
    breaks(&open, logs_are_true, "end after 2 bytes");
}

#[test]
fn the_logs_of_a_command_that_runs_have_what_it_printed() {
    // The user asked from 2 s on, and stopped when an answer brought nothing new.
    let at = |ms, output: &str, runs: bool| {
        let run = history()
            .asked_as(1, 100, Class::Durable, "run", r#"{"process":"p1","background":true}"#)
            .effect(1, 110, "p1")
            .produced("p1/stdout", 1_000, "a\n");
        let run = if runs { run } else { run.ended("p1", 1_500, ProcessOutcome::Exit(0)) };
        let fields = r#"{"process":"p1","wait":"1s"}"#;
        let asked = run.asked_as(2, 2_000, Class::InFlight, "logs", fields);
        let seen = SeenLogs { output: output.to_owned(), whole: false, ..logs() };
        asked.answered(2, ms, Answer::Done(seen.into()))
    };
    breaks(&at(4_000, "", true), logs_are_true, "end after 0 bytes, but the process had printed 2");
    holds(&at(4_000, "a\n", true), logs_are_true);
    // The server may still have to read the line.
    holds(&at(2_000, "", true), logs_are_true);
    // The user may have had too many pages to read.
    holds(&at(8_000, "", true), logs_are_true);
    holds(&at(4_000, "", false), logs_are_true);
    holds(&at(4_000, "", true).kills(3_000, 3_500), logs_are_true);
    let mut waits = at(4_000, "", true);
    waits.plan.limits.set("server.hold", LimitValue::Duration(Duration::from_secs(1)));
    holds(&waits, logs_are_true);
}
