//! Answer, report, progress.

use super::*;

#[test]
fn a_later_message_does_not_replace_the_final_answer() {
    let mut test = CaptureTest::running();
    test.final_answer();
    test.message("bye", Some("commentary"));
    test.message("bye", None);
    test.item_started("t", "u", &message("draft", Some("final_answer")));
    test.complete();
    let report = test.report();
    assert_eq!(report.answer.as_deref(), Some("the answer"));
    assert_eq!(report.last_message.as_deref(), Some("bye"));
}

#[test]
fn the_last_final_answer_is_the_answer() {
    let mut test = CaptureTest::running();
    test.final_answer();
    test.message("better", Some("final_answer"));
    test.message("", Some("final_answer"));
    test.complete();
    assert_eq!(test.report().answer.as_deref(), Some("better"));
}

#[test]
fn without_phases_the_last_message_is_the_answer() {
    let mut test = CaptureTest::running();
    test.message("first", None);
    test.message("second", None);
    test.complete();
    assert_eq!(test.report().answer.as_deref(), Some("second"));
}

#[test]
fn a_comment_is_no_answer_and_a_turn_can_complete_without_one() {
    let mut test = CaptureTest::running();
    test.message("I look", Some("commentary"));
    test.complete();
    let report = test.report();
    assert_eq!((report.answer.as_deref(), report.exit_status()), (None, 0));
    let text = report.to_string();
    let expected =
        "The turn completed without an answer.\nThe last message of the agent:\nI look\n";
    assert_eq!(text, expected);
}

#[test]
fn the_report_of_the_server_can_contain_the_answer() {
    let mut test = CaptureTest::running();
    let items = json!([message("from the report", Some("final_answer"))]);
    let turn = json!({ "id": "u", "status": "completed", "items": items });
    test.notify("turn/completed", json!({ "threadId": "t", "turn": turn }));
    assert_eq!(test.report().answer.as_deref(), Some("from the report"));
}

#[test]
fn a_review_before_the_end_of_the_server_is_a_success() {
    let mut test = CaptureTest::new(TurnKind::Review, TurnLimits::default());
    test.answer("u");
    test.item_completed(
        "t",
        "u",
        &json!({ "type": "exitedReviewMode", "id": "x", "review": "fine" }),
    );
    test.message("the same in other words", None);
    test.end();
    assert_eq!(test.outcome(), "Completed(EndOfServer) at 0 ms");
    assert_eq!(test.report().answer.as_deref(), Some("fine"));
}

#[test]
fn the_report_shows_changes_commands_and_the_failure() {
    let mut test = CaptureTest::running();
    test.item_completed("t", "u", &edit("/w/new"));
    let refused = json!({ "type": "fileChange", "id": "f", "status": "declined", "changes": [{ "path": "/no" }] });
    test.item_completed("t", "u", &refused);
    test.item_completed("t", "u", &command("c"));
    test.error("the stream broke", true);
    test.end();
    let text = "Failed: disconnected before the turn was complete: gone.\n\
                The last error of the app-server: the stream broke\n\
                \n\
                Changed files:\n  /w/new (add)\n\
                \n\
                Commands:\n  make (completed, exit code 0)\n";
    assert_eq!(test.report().to_string(), text);
}

#[test]
fn the_report_shows_an_error_once() {
    let mut test = CaptureTest::running();
    test.error("no quota.", false);
    test.turn_completed("t", "u", "u", "failed");
    assert_eq!(test.report().to_string(), "Failed: the turn failed: no quota.\n");
}

#[test]
fn the_log_follows_the_turn() {
    let mut test = CaptureTest::running();
    test.item_started("t", "u", &command("c"));
    test.item_started("t", "u", &edit("/f"));
    test.final_answer();
    let phases: Vec<_> = test
        .progress
        .iter()
        .filter_map(|news| match news {
            Progress::Phase(phase) => Some(phase.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(phases, ["investigating", "running", "editing", "finalizing"]);
    let started = Progress::Started { thread: "t".into(), turn: "u".into() };
    assert_eq!(test.progress[0], started);
}

#[test]
fn the_summary_of_a_turn_with_an_answer_says_only_that_it_completed() {
    let mut test = CaptureTest::running();
    test.final_answer();
    test.complete();
    assert_eq!(test.report().summary(), "The turn completed.");
}

#[test]
fn each_kind_of_work_begins_its_phase() {
    for (kind, phase) in [
        ("reasoning", "investigating"),
        ("webSearch", "investigating"),
        ("plan", "investigating"),
        ("commandExecution", "running"),
        ("mcpToolCall", "running"),
        ("dynamicToolCall", "running"),
        ("fileChange", "editing"),
        ("collabAgentToolCall", "delegating"),
        ("subAgentActivity", "delegating"),
        ("enteredReviewMode", "reviewing"),
    ] {
        let mut test = CaptureTest::running();
        let before = if kind == "fileChange" { command("c") } else { edit("/f") };
        test.item_started("t", "u", &before);
        test.item_started("t", "u", &json!({ "type": kind, "id": "i" }));
        let phase_of = |news: &Progress| match news {
            Progress::Phase(phase) => Some(phase.as_str()),
            _ => None,
        };
        assert_eq!(test.progress.iter().rev().find_map(phase_of), Some(phase), "{kind}");
        let phases = test.progress.len();
        test.item_started("t", "u", &message("hi", None));
        let later = &test.progress[phases..];
        assert_eq!(later.iter().find_map(phase_of), None, "a message begins no phase");
    }
}
