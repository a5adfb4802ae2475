//! Tests of `report_counts`, `reports_are_whole`, `failure_is_true` and `status_is_the_verdict`.

use super::super::interrupts::report_counts;
use super::super::reports::reports_are_whole;
use super::super::verdicts::{failure_is_true, status_is_the_verdict};
use super::*;
use crate::subjects::turn::notes::{Shown, Work};

#[test]
fn too_much_text_excuses_only_a_later_report() {
    let failed = || {
        let outcome = CommandOutcome {
            verdict: SeenVerdict::Failed("too much".into()),
            answer: None,
            commands: Vec::new(),
            files: Vec::new(),
            left_out: 0,
            error: None,
            status: 1,
        };
        let reported = notes(started(), 5_000, TurnNote::Reported(Reported::Completed));
        reported.answered(1, 6_000, Answer::queued(outcome))
    };
    breaks(&failed(), report_counts, "reported at 5.000 s that the turn completed");
    breaks(&notes(failed(), 5_001, TurnNote::TooMuch), report_counts, "completed");
    holds(&notes(failed(), 4_000, TurnNote::TooMuch), report_counts);
}

#[test]
fn work_that_is_over_takes_no_answer_back() {
    let exits = |between: &[TurnNote]| {
        let run = notes(started(), 3_000, TurnNote::Answered { is_final: true });
        let run = between.iter().fold(run, |run, note| notes(run, 3_500, note.clone()));
        let mut run = notes(run, 4_000, TurnNote::Gone).answered(1, 4_100, failed(0));
        let setup = json!({ "t1": { "end": "exits", "late-work": true, "noise": "work" } });
        run.plan.setup.insert(TABLE.into(), setup);
        run
    };
    let answered = "had given its final answer";
    breaks(&exits(&[]), failure_is_true, answered);
    breaks(&exits(&[TurnNote::Works, TurnNote::Rests]), failure_is_true, answered);
    holds(&exits(&[TurnNote::Works]), failure_is_true);
    holds(&exits(&[TurnNote::TooMuch]), failure_is_true);
}

/// Two commands of two letters.
#[test]
fn a_report_leaves_out_only_what_it_has_no_room_for() {
    let left_out = |bytes: u64| {
        let did = || TurnNote::Did(Work::Command("ls".into()));
        let run = notes(notes(started(), 3_000, did()), 4_000, did());
        let mut run = run.answered(1, 6_000, failed(1));
        run.plan.limits.set("client.text-bytes", LimitValue::Bytes(bytes));
        run
    };
    holds(&left_out(6 * 1_028 - 1), reports_are_whole);
    breaks(&left_out(6 * 1_028), reports_are_whole, "leaves out 1 pieces of work");
}

#[test]
fn a_command_that_another_client_interrupts_is_not_cancelled() {
    let ended = |status: i32| {
        Answer::queued(CommandOutcome {
            verdict: SeenVerdict::Interrupted,
            answer: None,
            commands: Vec::new(),
            files: Vec::new(),
            left_out: 0,
            error: None,
            status,
        })
    };
    let cancelled = |run: ScriptedRun| {
        let turn = json!({ "turn": "t1" }).to_string();
        run.asked_as(9, 3_000, Class::InFlight, "cancel", &turn)
    };
    let reported = |ms, status| {
        let run = notes(cancelled(started()), ms, TurnNote::Reported(Reported::Interrupted));
        run.answered(1, 4_000, ended(status))
    };
    holds(&started().answered(1, 4_000, ended(1)), status_is_the_verdict);
    let unasked = started().answered(1, 4_000, ended(130));
    breaks(&unasked, status_is_the_verdict, "its user had not cancelled it");
    holds(&reported(3_000, 1), status_is_the_verdict);
    breaks(&reported(3_001, 1), status_is_the_verdict, "exited with 1");
    holds(&reported(3_001, 130), status_is_the_verdict);
    let refused = |status: u64| {
        let saw = Shown(format!("exit status {status}")).into();
        let run = cancelled(asked("direct"));
        let run = run.user(3_500, EventKind::Observed { stream: "shown-1".into(), saw });
        let why = ClientError::Cancelled { left_behind: None };
        run.answered(1, 3_500, Answer::refused(SeenRefusal(why)))
    };
    holds(&refused(130), status_is_the_verdict);
    breaks(&refused(1), status_is_the_verdict, "did not start (cancelled");
}
