//! Tests of `counts_are_true`: the bounds of the counts, and what widens them.

use std::time::Duration;

use super::super::counts::counts_are_true;
use super::{milestone, started, violations};
use crate::history::{Answer, Call, Class, ConnIndex, EventKind, ProcessOutcome, Side};
use crate::property::scripted::ScriptedRun;
use crate::schedule::LimitValue;
use serde_json::json;

/// A run in which a client is connected from 50 ms on, and follows `p1`, with true counts. It ends at
/// 10 s.
fn connected() -> ScriptedRun {
    let conn = ConnIndex(0);
    let run = started().attempt(1, 40);
    let run = run.entry(45, Some("server"), EventKind::ConnUp { conn, side: Side::Server });
    milestone(run, 50, "exec.client.connected", &[("conn", "1")])
        .gauge("server", 50, "connections", 1)
        .gauge("server", 50, "sessions", 1)
        .gauge("server", 110, "known-processes", 1)
        .gauge("client", 120, "followed-processes", 1)
        .end(10_000)
}

/// `p1` exits at 5 s, and its user receives this.
fn exited() -> ScriptedRun {
    let outcome = ProcessOutcome::Exit(0);
    let run = connected().ended("p1", 5_000, outcome).completed("p1", 5_100, outcome);
    run.gauge("client", 5_100, "followed-processes", 0)
}

fn found(run: &ScriptedRun) -> Vec<String> {
    violations(run, counts_are_true)
}

/// The run breaks the property once, with a sentence that begins like this.
fn breaks(run: &ScriptedRun, begin: &str) {
    let found = found(run);
    assert!(found.len() == 1 && found[0].starts_with(begin), "{begin}: {found:?}");
}

#[test]
fn true_counts_hold() {
    assert_eq!(found(&connected()), [""; 0]);
    assert_eq!(found(&exited()), [""; 0]);
}

#[test]
fn a_client_has_one_session() {
    let many = |run: ScriptedRun, many| run.gauge("server", 5_000, "sessions", many);
    breaks(&many(connected(), 2), "server: `sessions` is 2, but at most 1 can be open");
    breaks(&many(connected(), 0), "server: `sessions` is 0, but at least 1 must be open");
}

#[test]
fn an_installed_connection_is_counted() {
    let none = connected().gauge("server", 5_000, "connections", 0);
    breaks(&none, "server: `connections` is 0, but at least 1 must be open");
    let just_opened = connected().gauge("server", 50, "connections", 0);
    let just_opened = just_opened.gauge("server", 1_040, "connections", 1);
    assert_eq!(found(&just_opened), [""; 0], "within a moment after it was installed");
}

#[test]
fn a_client_follows_a_process_until_its_user_has_the_end() {
    let dropped = connected().gauge("client", 5_000, "followed-processes", 0);
    breaks(&dropped, "client: `followed-processes` is 0, but at least 1 must be open");
    let kept = exited().gauge("client", 5_200, "followed-processes", 1);
    breaks(&kept, "client: `followed-processes` is 1, but at most 0 can be open");
    let late = exited().gauge("client", 5_200, "followed-processes", 1);
    let late = late.gauge("client", 6_000, "followed-processes", 0);
    assert_eq!(found(&late), [""; 0], "a moment later");
}

#[test]
fn a_closed_process_is_known_for_its_retention() {
    let gone = |run: ScriptedRun, ms| run.gauge("server", ms, "known-processes", 0).end(ms + 500);
    let early = "server: `known-processes` is 0, but at least 1 must be open";
    breaks(&gone(exited(), 34_000), early);
    assert_eq!(found(&gone(exited(), 86_000)), [""; 0]);
    let kept = exited().end(200_000);
    breaks(&kept, "server: `known-processes` is 1, but at most 0 can be open");
}

#[test]
fn the_process_of_a_dead_client_may_be_forgotten() {
    let run = exited().died("client", 6_000).gauge("server", 7_000, "known-processes", 0);
    assert_eq!(found(&run), [""; 0]);
}

#[test]
fn counts_are_not_compared_during_a_fault_or_after_the_death_of_the_server() {
    let wrong = |run: ScriptedRun| run.gauge("server", 5_000, "sessions", 2);
    let right = |run: ScriptedRun, ms| run.gauge("server", ms, "sessions", 1);
    let faulty = || wrong(connected()).partition(4_000, Some(7_000));
    assert_eq!(found(&right(faulty(), 6_900)), [""; 0]);
    assert_eq!(found(&right(faulty(), 9_000)).len(), 1, "the fault is over");
    assert_eq!(found(&wrong(connected().died("server", 4_500))), [""; 0]);
}

#[test]
fn a_call_without_an_answer_is_open() {
    let reads =
        |ms| connected().asked_as(2, ms, Class::Durable, "read", r#"{"process":"p1","wait":"1m"}"#);
    breaks(&reads(2_000), "client: `calls` is 0, but at least 1 must be open");
    assert_eq!(found(&reads(2_000).gauge("client", 2_000, "calls", 1)), [""; 0]);
    assert_eq!(found(&reads(9_001)), [""; 0], "for less than a moment");
    assert_eq!(found(&reads(2_000).answered(2, 2_999, "done")), [""; 0]);
    // The user makes it when the second start is over.
    let start = r#"{"process":"p1"}"#;
    let waits = connected().asked_as(2, 1_500, Class::InFlight, "start", start);
    let waits = waits.asked_as(3, 2_000, Class::Durable, "read", start);
    assert_eq!(found(&waits), [""; 0]);
}

#[test]
fn a_given_up_start_is_ended_after_the_fault_that_delays_it() {
    let counted = |until| {
        let start = r#"{"process":"p2"}"#;
        let run = connected().partition(1_900, Some(4_000));
        let run = run.asked_as(2, 2_000, Class::InFlight, "start", start).answered(
            2,
            2_000,
            Answer::GivenUp,
        );
        let run = run.gauge("client", 4_600, "endings", 1).gauge("client", until, "endings", 0);
        let mut run = run.end(10_000);
        run.plan.setup.insert("process".into(), json!({ "p2": { "launch-takes": "1s" } }));
        run
    };
    assert_eq!(found(&counted(5_900)), [""; 0]);
    breaks(&counted(8_000), "client: `endings` is 1, but at most 0 can be open");
}

#[test]
fn a_given_up_start_is_ended_behind_the_data_before_it() {
    let behind = |bytes: &str| {
        let write = format!(r#"{{"process":"p1","bytes":"{bytes}"}}"#);
        let run = connected().asked_as(2, 1_900, Class::InFlight, "write", &write);
        let run = run.asked_as(3, 2_000, Class::InFlight, "start", r#"{"process":"p2"}"#);
        let run = run.answered(3, 2_010, Answer::GivenUp);
        let run = run.gauge("client", 2_500, "endings", 1).gauge("client", 5_000, "endings", 0);
        let mut run = run.end(10_000);
        run.plan.latency.1 = Duration::from_millis(200);
        run
    };
    breaks(&behind("100B"), "client: `endings` is 1, but at most 0 can be open");
    assert_eq!(found(&behind("200000B")), [""; 0], "it takes 2.4 s");
}

#[test]
fn a_body_on_its_way_is_open() {
    let counted = |client, server| {
        let opened = EventKind::Opened { stream: "h2".into(), call: Call(2) };
        let run = connected().asked_as(2, 2_000, Class::Bound, "http-stream", r#"{"body":"b1"}"#);
        let run = run.user(2_100, opened).gauge("client", 2_100, "bodies", client);
        run.gauge("server", 2_100, "http-requests", server)
    };
    assert_eq!(found(&counted(1, 1)), [""; 0]);
    breaks(&counted(0, 1), "client: `bodies` is 0, but at least 1 must be open");
    breaks(&counted(1, 0), "server: `http-requests` is 0, but at least 1 must be open");
    let over = counted(0, 0).ended("h2", 3_000, "complete").completed("h2", 3_010, "complete");
    assert_eq!(found(&over), [""; 0]);
}

#[test]
fn a_write_to_a_disk_that_hangs_is_in_progress() {
    let writes = |hangs: &str, earlier: Option<&str>| {
        let mut run = connected();
        run.plan.setup.insert("file".into(), json!({ "f1": { "hangs": hangs } }));
        let file = r#"{"file":"f1"}"#;
        let run = earlier.into_iter().fold(run, |run, verb| {
            let run = run.asked_as(3, 1_500, Class::InFlight, verb, file);
            run.answered(3, 1_600, "done")
        });
        let run = run.asked_as(2, 2_000, Class::InFlight, "write-file", file);
        run.gauge("client", 2_000, "calls", 1)
    };
    let fewer = "server: `file-requests` is 0, but at least 1 must be open";
    breaks(&writes("9s", None), fewer);
    assert_eq!(found(&writes("8s", None)), [""; 0], "it may be over");
    assert_eq!(found(&writes("9s", Some("read-file"))), [""; 0], "another one may hold it up");
}

#[test]
fn a_write_to_a_disk_that_hangs_may_be_behind_other_requests() {
    let behind = |verb: &str, fields: &str, calls: u64, gives_up: bool| {
        let mut run = connected();
        run.plan.setup.insert("file".into(), json!({ "f1": { "hangs": "9s" } }));
        run.plan.limits.set("client.calls", LimitValue::Count(calls));
        let mut run = run.asked_as(2, 1_900, Class::InFlight, verb, fields);
        if gives_up {
            run = run.answered(2, 1_990, Answer::GivenUp);
        }
        let run = run.asked_as(3, 2_000, Class::InFlight, "write-file", r#"{"file":"f1"}"#);
        run.gauge("client", 2_000, "calls", 2)
    };
    let fewer = "server: `file-requests` is 0, but at least 1 must be open";
    let write = |bytes: &str| format!(r#"{{"process":"p1","bytes":"{bytes}"}}"#);
    breaks(&behind("write", &write("100B"), 16, false), fewer);
    let long = write("100000B");
    assert_eq!(found(&behind("write", &long, 16, false)), [""; 0], "a long line is before it");
    assert_eq!(found(&behind("write", &long, 16, true)), [""; 0], "it is still on its way");
    let own = r#"{"process":"p1"}"#;
    breaks(&behind("terminate", own, 2, false), fewer);
    assert_eq!(found(&behind("terminate", own, 1, false)), [""; 0], "it may wait for its turn");
}

#[test]
fn the_ids_of_a_few_writes_are_kept() {
    let wrote = |ids| {
        let run = connected().asked_as(2, 2_000, Class::InFlight, "write", r#"{"process":"p1"}"#);
        run.answered(2, 2_100, "accepted").gauge("server", 2_100, "write-ids", ids)
    };
    assert_eq!(found(&wrote(1)), [""; 0]);
    breaks(&wrote(0), "server: `write-ids` is 0, but at least 1 must be open");
    breaks(&wrote(2), "server: `write-ids` is 2, but at most 1 can be open");
    let exits = wrote(0).ended("p1", 2_500, ProcessOutcome::Exit(0));
    let exits = exits.completed("p1", 2_510, ProcessOutcome::Exit(0));
    let exits = exits.gauge("client", 2_510, "followed-processes", 0);
    assert_eq!(found(&exits), [""; 0]);
}
