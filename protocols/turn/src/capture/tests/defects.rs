//! Each seeded bug changes the outcome of one schedule.

use super::*;

/// The bug, a schedule, and its outcome without the bug.
type Row = (&'static str, fn() -> CaptureTest, &'static str);

const ROWS: [Row; 33] = [
    ("IgnoresTheEndOfTheServer", plan_then_end, r#"Failed(Disconnected { why: "gone" }) at 0 ms"#),
    ("FailsAtEveryEndOfTheServer", answer_then_end, "Completed(EndOfServer) at 0 ms"),
    ("InfersFromAnyMessage", plan_then_end, r#"Failed(Disconnected { why: "gone" }) at 0 ms"#),
    ("CountsAnEmptyAnswer", empty_answer, "none"),
    ("InfersWhileItemsAreOpen", command_after_the_answer, "none"),
    ("NeverTestsAgain", command_after_the_answer, "none"),
    ("LaterEndReplacesTheVerdict", late_failure, "Completed(Silence) at 250 ms"),
    ("EndsAtAnUnreadableLine", unreadable_line, "Completed(Reported) at 0 ms"),
    ("GarbledLinesAreNoWork", unreadable_line_after_the_answer, "none"),
    (
        "GarbledLinesTakeTheAnswerBack",
        unreadable_line_before_the_end,
        "Completed(EndOfServer) at 0 ms",
    ),
    ("UnreadableLinesAreSilence", unreadable_line_in_a_silence, "none"),
    (
        "AnswersHideTheCancel",
        cancel_after_the_answer,
        "Interrupted(CancelledUnconfirmed) at 0 ms, interrupts t u",
    ),
    (
        "WaitsAfterAnError",
        error_alone,
        r#"Failed(Error { message: "e" }) at 10000 ms, interrupts t u"#,
    ),
    ("GivesUpOnARetriedError", retried_error, "none"),
    ("WaitsForEverForATurnId", no_id_in_the_answer, "Completed(Reported) at 0 ms"),
    ("AdoptsTheInnerTurn", review_without_an_id, "Completed(Reported) at 0 ms"),
    ("EarlyReportsNameTheTurn", review_around_another_turn, "Completed(Reported) at 0 ms"),
    ("AbandonsWithoutAnInterrupt", silent_turn, "Failed(Idle(600s)) at 600000 ms, interrupts t u"),
    ("InterruptsOnlyKnownTurns", early_cancel, "Interrupted(Cancelled) at 0 ms, interrupts t u"),
    ("RegistersEveryThread", subagent_of_another, "Completed(Silence) at 250 ms"),
    ("AcceptsEveryTurnOfItsThread", end_of_an_earlier_turn, "none"),
    ("DropsThreadsAnnouncedEarly", early_subagent, "none"),
    ("KeepsTheFirstTurnOfASubagent", second_turn_of_a_subagent, "none"),
    ("ForgetsEndedTurns", end_before_start, "Completed(EndOfServer) at 0 ms"),
    ("EndsBeforeTheNameAreLost", end_before_the_name, "Completed(EndOfServer) at 0 ms"),
    ("ReportsTheLastMessage", comment_after_the_answer, "Completed(Reported) at 0 ms: the answer"),
    ("RefusalHidesTheTurn", refusal_after_the_report, "Completed(Reported) at 0 ms"),
    ("LateEndsAreLost", late_end, "Completed(Reported) at 0 ms"),
    ("EarlyGarbledLinesAreForgotten", unreadable_line_before_the_id, "none"),
    ("FirstAnswersStand", two_answers, "Completed(Reported) at 0 ms: the answer"),
    ("CommentsDelayTheEnd", comment_soon_after_the_answer, "Completed(Silence) at 250 ms"),
    (
        "EachErrorWaitsAnew",
        two_errors,
        r#"Failed(Error { message: "e" }) at 10000 ms, interrupts t u"#,
    ),
    ("CommentsHideTheAnswer", answer_in_the_report, "Completed(Reported) at 0 ms: the answer"),
];

#[test]
fn each_defect_changes_the_outcome_of_its_schedule() {
    for (defect, schedule, expected) in ROWS {
        assert_eq!(outcome(schedule()), expected, "without {defect}");
        let outcome = with_defect(defect, || outcome(schedule()));
        assert_ne!(outcome, expected, "with {defect}");
    }
}

/// The outcome, and the answer of a turn that the server reported as completed with one.
fn outcome(test: CaptureTest) -> String {
    let outcome = test.outcome();
    let answer = test.capture.into_report().and_then(|report| report.answer);
    match answer {
        Some(answer) if outcome.contains("Reported") => format!("{outcome}: {answer}"),
        _ => outcome,
    }
}

fn running(schedule: impl FnOnce(&mut CaptureTest)) -> CaptureTest {
    let mut test = CaptureTest::running();
    schedule(&mut test);
    test
}

fn starting(schedule: impl FnOnce(&mut CaptureTest)) -> CaptureTest {
    let mut test = CaptureTest::starting();
    schedule(&mut test);
    test
}

fn late_end() -> CaptureTest {
    starting(|test| {
        test.turn_started("t", "u", "u");
        test.handle(Input::NoAnswer);
        test.answer_with(json!({ "turn": { "id": "u", "status": "completed" } }));
    })
}

fn unreadable_line_before_the_id() -> CaptureTest {
    starting(|test| {
        test.turn_started("t", "u", "u");
        test.final_answer();
        test.handle(Input::Unreadable);
        test.handle(Input::NoAnswer);
        test.wait(S);
    })
}

fn two_answers() -> CaptureTest {
    running(|test| {
        test.message("a draft", Some("final_answer"));
        test.final_answer();
        test.complete();
    })
}

fn comment_soon_after_the_answer() -> CaptureTest {
    running(|test| {
        test.final_answer();
        test.wait(100 * MS);
        test.message("more", Some("commentary"));
        test.wait(S);
    })
}

fn two_errors() -> CaptureTest {
    running(|test| {
        test.error("e", false);
        test.wait(5 * S);
        test.error("e", false);
        test.wait(10 * S);
    })
}

fn plan_then_end() -> CaptureTest {
    running(|test| {
        test.message("I will look", Some("plan"));
        test.end();
    })
}

fn answer_then_end() -> CaptureTest {
    running(|test| {
        test.final_answer();
        test.end();
    })
}

fn unreadable_line_after_the_answer() -> CaptureTest {
    running(|test| {
        test.final_answer();
        test.handle(Input::Unreadable);
        test.wait(S);
    })
}

fn unreadable_line_before_the_end() -> CaptureTest {
    running(|test| {
        test.final_answer();
        test.handle(Input::Unreadable);
        test.end();
    })
}

fn unreadable_line_in_a_silence() -> CaptureTest {
    running(|test| {
        test.wait(599 * S);
        test.handle(Input::Unreadable);
        test.wait(S);
    })
}

fn cancel_after_the_answer() -> CaptureTest {
    running(|test| {
        test.final_answer();
        test.handle(Input::Cancel);
        test.end();
    })
}

fn empty_answer() -> CaptureTest {
    running(|test| {
        test.message("", Some("final_answer"));
        test.wait(S);
    })
}

fn command_after_the_answer() -> CaptureTest {
    running(|test| {
        test.final_answer();
        test.wait(100 * MS);
        test.item_started("t", "u", &command("c"));
        test.wait(S);
    })
}

fn late_failure() -> CaptureTest {
    running(|test| {
        test.final_answer();
        test.wait(250 * MS);
        test.turn_completed("t", "u", "u", "failed");
    })
}

fn unreadable_line() -> CaptureTest {
    running(|test| {
        test.handle(Input::Unreadable);
        test.complete();
    })
}

fn error_alone() -> CaptureTest {
    running(|test| {
        test.error("e", false);
        test.wait(60 * S);
    })
}

fn retried_error() -> CaptureTest {
    running(|test| {
        test.error("e", true);
        test.wait(60 * S);
    })
}

fn no_id_in_the_answer() -> CaptureTest {
    starting(|test| {
        test.answer_with(json!({ "turn": {} }));
        test.turn_started("t", "u", "u");
        test.complete();
    })
}

fn review_without_an_id() -> CaptureTest {
    starting(|test| {
        test.answer_with(json!({ "turn": {} }));
        test.turn_started("t", "inner", "u");
        test.complete();
    })
}

fn review_around_another_turn() -> CaptureTest {
    starting(|test| {
        test.turn_started("t", "inner", "");
        test.answer("u");
        test.complete();
    })
}

fn silent_turn() -> CaptureTest {
    running(|test| test.wait(700 * S))
}

fn early_cancel() -> CaptureTest {
    starting(|test| {
        test.handle(Input::Cancel);
        test.answer("u");
        test.turn_completed("t", "u", "u", "interrupted");
    })
}

fn subagent_of_another() -> CaptureTest {
    running(|test| {
        test.notify("thread/started", json!({ "thread": { "id": "s" } }));
        test.turn_started("s", "v", "");
        test.final_answer();
        test.wait(S);
    })
}

fn end_of_an_earlier_turn() -> CaptureTest {
    running(|test| test.turn_completed("t", "old", "old", "completed"))
}

fn early_subagent() -> CaptureTest {
    starting(|test| {
        test.notify("thread/started", json!({ "thread": { "id": "s", "parentThreadId": "t" } }));
        test.answer("u");
        test.turn_started("s", "v", "");
        test.final_answer();
        test.wait(S);
    })
}

fn second_turn_of_a_subagent() -> CaptureTest {
    running(|test| {
        test.turn_started("s", "v", "u");
        test.turn_completed("s", "v", "u", "completed");
        test.turn_started("s", "w", "u");
        test.final_answer();
        test.wait(S);
    })
}

fn end_before_start() -> CaptureTest {
    running(|test| {
        test.turn_completed("s", "v", "u", "completed");
        test.turn_started("s", "v", "u");
        test.final_answer();
        test.end();
    })
}

fn end_before_the_name() -> CaptureTest {
    running(|test| {
        test.turn_started("s", "v", "");
        test.turn_completed("s", "v", "", "completed");
        test.item_completed("t", "u", &agents("c", "spawnAgent", &["s"]));
        test.final_answer();
        test.end();
    })
}

fn comment_after_the_answer() -> CaptureTest {
    running(|test| {
        test.final_answer();
        test.message("bye", Some("commentary"));
        test.complete();
    })
}

fn answer_in_the_report() -> CaptureTest {
    running(|test| {
        test.message("I will look", Some("commentary"));
        let mut report = turn_params("t", "u", "u", "completed");
        report["turn"]["items"] = json!([message("the answer", Some("final_answer"))]);
        test.notify("turn/completed", report);
    })
}

fn refusal_after_the_report() -> CaptureTest {
    starting(|test| {
        test.turn_started("t", "u", "u");
        test.complete();
        test.handle(Input::Refused { code: -32000, message: "the app-server ended".into() });
    })
}
