//! Tests of `cancels_reach_all`, `ended_job_stops` and `record_is_true`.

use std::time::Duration;

use super::*;
use crate::history::{Call, Data, ProcessOutcome};
use crate::schedule::{Action, Operation, Step, When};
use crate::subjects::turn::jobs::notes::{
    JobCancelled, Looks, ProcessNote, Saw, SeenJob, Signalled, WorkerBegan,
};
use crate::subjects::turn::jobs::properties::{cancels_reach_all, ended_job_stops};
use crate::subjects::turn::jobs::records::record_is_true;
use reknit_turn::jobs::StateName;

/// A run in which a user starts a job of the turn `t1` and the session `s1` at 1 s, and knows of it at 1.1 s.
fn job() -> ScriptedRun {
    let fields =
        json!({ "turn": "t1", "route": "direct", "background": true, "session": "s1" }).to_string();
    let mut run = history().asked_as(1, 1_000, Class::InFlight, "task", &fields);
    let fields = serde_json::from_str(&fields).unwrap();
    let operation = Operation { verb: "task".into(), client: "client".into(), fields };
    let (when, action) = (When::At(Duration::from_secs(1)), Action::Operation(operation));
    run.plan.steps.push(Step { when, action });
    run.answered(1, 1_100, Answer::queued("in the background"))
}

/// The same run, and a user looks at the job.
fn sees(run: ScriptedRun, ms: u64, state: StateName, shown: Value) -> ScriptedRun {
    let (turn, id, log) = ("t1".into(), "task-1".into(), Vec::new());
    let seen = SeenJob { call: Call(1), turn, id, state, shown, log };
    let saw = Saw { all: true, jobs: vec![seen], broken: Vec::new(), not_found: Vec::new() };
    let observed = |saw: Data| EventKind::Observed { stream: "jobs".into(), saw };
    run.user(ms, observed(Looks.into())).user(ms, observed(saw.into()))
}

#[test]
fn the_end_of_a_session_reaches_each_of_its_jobs() {
    let ended = |verb: &str, fields: Value, asked: u64, answer: &'static str, looks: u64| {
        let run = job().asked_as(2, asked, Class::InFlight, verb, &fields.to_string());
        sees(run.answered(2, 2_500, answer), looks, StateName::Queued, Value::Null)
    };
    let session = |name: &str| json!({ "session": name });
    let done = "cancelled jobs: 1";
    let active = "saw the job queued";
    let one = ended("end-session", session("s1"), 2_000, done, 2_501);
    breaks(&one, cancels_reach_all, active);
    holds(&ended("end-session", session("s1"), 2_000, done, 2_500), cancels_reach_all);
    holds(&ended("end-session", session("s2"), 2_000, done, 2_501), cancels_reach_all);
    holds(&ended("end-session", session("s1"), 1_100, done, 2_501), cancels_reach_all);
    let failed = "cancelled jobs: 0, not ended: 1";
    holds(&ended("end-session", session("s1"), 2_000, failed, 2_501), cancels_reach_all);
    let cancel = ended("cancel", json!({ "turn": "t1" }), 2_000, done, 2_501);
    breaks(&cancel, cancels_reach_all, active);
}

#[test]
fn a_worker_ends_before_the_command_that_ends_its_job() {
    let observed = |stream: &str, saw: Data| EventKind::Observed { stream: stream.into(), saw };
    let process = || ProcessNote { pid: 7, started: "1".into() };
    let begun = || {
        let (job_id, name) = ("task-1".to_owned(), "turn-worker".to_owned());
        let began = WorkerBegan { job: job_id, name, process: process() };
        job().user(1_200, observed("t1-1", began.into()))
    };
    let ends = |run: ScriptedRun, verb: &str, stream: Option<&str>| {
        let fields = json!({ "turn": "t1", "session": "s1" }).to_string();
        let run = run.asked_as(2, 2_000, Class::InFlight, verb, &fields);
        let signalled = |stream| {
            let signalled = Signalled { to: process(), number: 15 };
            observed(stream, signalled.into())
        };
        let run = match stream {
            Some(stream) => run.user(2_500, signalled(stream)),
            None => run,
        };
        if verb == "end-session" {
            return run.answered(2, 3_000, "cancelled jobs: 1");
        }
        let cancelled = JobCancelled { had_thread: true, interrupts: true, killed: true };
        run.user(3_000, observed("t1-1", cancelled.into()))
    };
    let dies = |run: ScriptedRun, ms: u64| {
        let (stream, outcome) = ("turn-worker".into(), ProcessOutcome::Signal(9).into());
        run.user(ms, EventKind::Ended { stream, outcome })
    };
    let lived = "its worker lived on";
    let cancelled = || ends(begun(), "cancel", Some("t1-1"));
    breaks(&cancelled(), ended_job_stops, lived);
    breaks(&dies(cancelled(), 3_101), ended_job_stops, lived);
    holds(&dies(cancelled(), 3_100), ended_job_stops);
    // A cancel signals a worker that has not ended yet.
    let works = || notes(begun(), 1_500, TurnNote::Thread("thread-1".into()));
    let unsignalled = dies(ends(works(), "cancel", None), 3_050);
    breaks(&unsignalled, ended_job_stops, "sent its worker no signal");
    holds(&ends(dies(works(), 2_400), "cancel", None), ended_job_stops);
    // A worker that got no signal and has not worked does not know of the cancel.
    holds(&ends(begun(), "cancel", None), ended_job_stops);
    let worked = notes(begun(), 1_500, TurnNote::Thread("thread-1".into()));
    breaks(&ends(worked, "cancel", None), ended_job_stops, lived);
    breaks(&ends(begun(), "end-session", Some("jobs-2")), ended_job_stops, lived);
    holds(&ends(begun(), "end-session", Some("jobs-3")), ended_job_stops);
}

/// The job completes between 3.9 s after it was recorded and 5 s after its user had asked for it.
#[test]
fn a_record_names_its_turn_and_its_times() {
    let completed = |name: &str, value: Value| {
        let run = notes(job(), 2_000, begins("turn-1"));
        let run = notes(run, 5_000, TurnNote::Reported(Reported::Completed));
        let mut shown = json!({
            "exitStatus": 0, "turn": "turn-1", "thread": "thread-1",
            "created": 50_000, "started": 50_500, "ended": 54_000,
        });
        shown[name] = value;
        sees(run, 6_000, StateName::Completed, shown)
    };
    holds(&completed("ended", json!(53_900)), record_is_true);
    breaks(&completed("ended", json!(53_899)), record_is_true, "the times in its record");
    holds(&completed("ended", json!(55_000)), record_is_true);
    breaks(&completed("ended", json!(55_001)), record_is_true, "the times in its record");
    holds(&completed("started", json!(51_000)), record_is_true);
    breaks(&completed("started", json!(51_001)), record_is_true, "the times in its record");
    breaks(&completed("started", Value::Null), record_is_true, "the times in its record");
    breaks(&completed("turn", json!("turn-2")), record_is_true, "no such turn");
    breaks(&completed("thread", json!("thread-2")), record_is_true, "no such turn");
    breaks(&completed("exitStatus", json!(1)), record_is_true, "the exit status 1");
}

#[test]
fn the_record_of_a_completed_job_names_its_turn() {
    let completed = |thread: Value, lasts: u64| {
        let run = notes(job(), 2_000, begins("turn-1"));
        let lock = json!({ "lasts": "1s" }).to_string();
        let run = run.asked_as(2, 3_000, Class::InFlight, "hold-jobs", &lock);
        let run = run.answered(2, 3_000 + lasts, "held");
        let run = notes(run, 5_000, TurnNote::Reported(Reported::Completed));
        let (stream, process) = ("t1-1".into(), ProcessNote { pid: 7, started: "1".into() });
        let (id, name) = ("task-1".to_owned(), "turn-worker".to_owned());
        let saw = WorkerBegan { job: id, name, process }.into();
        let run = run.user(1_200, EventKind::Observed { stream, saw });
        let (stream, outcome) = ("turn-worker".into(), ProcessOutcome::Exit(0).into());
        let run = run.user(5_100, EventKind::Ended { stream, outcome });
        let shown = json!({
            "exitStatus": 0, "turn": "turn-1", "thread": thread,
            "created": 50_000, "started": 50_500, "ended": 54_000,
        });
        sees(run, 6_000, StateName::Completed, shown)
    };
    holds(&completed(json!("thread-1"), 1_000), record_is_true);
    breaks(&completed(Value::Null, 1_000), record_is_true, "its turn was turn-1 on thread-1");
    holds(&completed(Value::Null, 2_000), record_is_true);
}
