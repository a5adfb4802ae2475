//! Report, end of the server, silence.

use super::*;

#[test]
fn the_report_of_the_server_decides() {
    let mut test = CaptureTest::running();
    test.final_answer();
    test.complete();
    assert_eq!(test.outcome(), "Completed(Reported) at 0 ms");
    assert!(test.capture.is_over());
    assert_eq!(test.capture.due(), None);
    assert_eq!(test.report().answer.as_deref(), Some("the answer"));
}

#[test]
fn a_failed_turn_carries_the_message_of_the_server() {
    let mut test = CaptureTest::running();
    let turn =
        json!({ "id": "u", "status": "failed", "items": [], "error": { "message": "no quota" } });
    test.notify("turn/completed", json!({ "threadId": "t", "turn": turn }));
    assert_eq!(test.outcome(), r#"Failed(Turn { message: "no quota" }) at 0 ms"#);

    let mut test = CaptureTest::running();
    test.error("the stream broke", false);
    test.turn_completed("t", "u", "u", "failed");
    assert_eq!(test.outcome(), r#"Failed(Turn { message: "the stream broke" }) at 0 ms"#);
}

#[test]
fn an_unknown_status_is_no_success() {
    let mut test = CaptureTest::running();
    test.final_answer();
    test.turn_completed("t", "u", "u", "paused");
    assert_eq!(test.outcome(), r#"Failed(UnknownStatus { status: "paused" }) at 0 ms"#);
}

#[test]
fn an_interruption_by_another_is_no_success() {
    let mut test = CaptureTest::running();
    test.final_answer();
    test.turn_completed("t", "u", "u", "interrupted");
    assert_eq!(test.outcome(), "Interrupted(Other) at 0 ms");
    assert_eq!(test.report().exit_status(), 1);
}

#[test]
fn silence_after_the_final_answer_completes_the_turn() {
    let mut test = CaptureTest::running();
    test.final_answer();
    test.wait(249 * MS);
    assert_eq!(test.outcome(), "none");
    test.wait(MS);
    assert_eq!(test.outcome(), "Completed(Silence) at 250 ms");
}

#[test]
fn each_end_of_work_starts_the_silence_again() {
    let mut test = CaptureTest::running();
    test.item_started("t", "u", &agents("c", "wait", &[]));
    test.final_answer();
    test.wait(200 * MS);
    assert_eq!(test.outcome(), "none");
    test.item_completed("t", "u", &agents("c", "wait", &[]));
    test.wait(200 * MS);
    test.message("again", Some("final_answer"));
    test.wait(249 * MS);
    assert_eq!(test.outcome(), "none");
    test.wait(MS);
    assert_eq!(test.outcome(), "Completed(Silence) at 650 ms");
}

#[test]
fn open_work_of_the_main_thread_stops_the_inference() {
    for item in
        [command("c"), edit("/f"), agents("a", "wait", &[]), json!({ "type": "new", "id": "n" })]
    {
        let mut test = CaptureTest::running();
        test.item_started("t", "u", &item);
        test.final_answer();
        test.wait(10 * S);
        assert_eq!(test.outcome(), "none", "{item}");
        test.item_completed("t", "u", &item);
        test.wait(250 * MS);
        assert_eq!(test.outcome(), "Completed(Silence) at 10250 ms", "{item}");
    }
}

/// The app-server starts a message of the reviewer and never completes it.
#[test]
fn an_open_message_does_not_stop_the_inference() {
    let mut test = CaptureTest::running();
    test.item_started("t", "u", &message("draft", Some("final_answer")));
    test.item_started("t", "u", &json!({ "type": "reasoning", "id": "r" }));
    test.final_answer();
    test.wait(250 * MS);
    assert_eq!(test.outcome(), "Completed(Silence) at 250 ms");
}

/// A model can send a final answer and a command in one response. The turn then goes on.
#[test]
fn work_after_the_final_answer_means_that_the_turn_goes_on() {
    let mut test = CaptureTest::running();
    test.final_answer();
    test.item_started("t", "u", &command("c"));
    test.item_completed("t", "u", &command("c"));
    test.wait(10 * S);
    assert_eq!(test.outcome(), "none");
    test.end();
    assert_eq!(test.outcome(), "Completed(EndOfServer) at 10000 ms");
}

#[test]
fn a_final_answer_before_the_end_of_the_server_is_a_success_at_once() {
    let mut test = CaptureTest::running();
    test.final_answer();
    test.wait(100 * MS);
    test.end();
    assert_eq!(test.outcome(), "Completed(EndOfServer) at 100 ms");
    let report = test.report();
    assert_eq!((report.exit_status(), report.answer.as_deref()), (0, Some("the answer")));
}

#[test]
fn an_end_of_the_server_without_a_final_answer_is_a_failure_that_names_the_disconnect() {
    let mut test = CaptureTest::running();
    test.message("I will look", Some("plan"));
    test.item_started("t", "u", &command("c"));
    test.item_completed("t", "u", &command("c"));
    test.end();
    assert_eq!(test.outcome(), r#"Failed(Disconnected { why: "gone" }) at 0 ms"#);
    let report = test.report();
    assert_eq!((report.exit_status(), report.answer.as_deref()), (1, None));
    let text = report.to_string();
    assert!(text.contains("disconnected") && text.contains("I will look"), "{text}");
}

#[test]
fn an_end_of_the_server_with_open_work_is_a_failure() {
    let mut test = CaptureTest::running();
    test.item_started("t", "u", &command("c"));
    test.final_answer();
    test.end();
    assert_eq!(test.outcome(), r#"Failed(Disconnected { why: "gone" }) at 0 ms"#);
}

#[test]
fn a_message_without_text_or_phase_is_no_final_answer() {
    for (text, phase) in
        [("", Some("final_answer")), ("text", None), ("text", Some("partial_answer"))]
    {
        let mut test = CaptureTest::running();
        test.message(text, phase);
        test.wait(10 * S);
        assert_eq!(test.outcome(), "none");
        test.end();
        assert_eq!(test.outcome(), r#"Failed(Disconnected { why: "gone" }) at 10000 ms"#);
    }
}

#[test]
fn a_message_that_only_started_is_no_final_answer() {
    let mut test = CaptureTest::running();
    test.item_started("t", "u", &message("the answer", Some("final_answer")));
    test.end();
    assert_eq!(test.outcome(), r#"Failed(Disconnected { why: "gone" }) at 0 ms"#);
}

#[test]
fn the_first_verdict_stands() {
    let mut test = CaptureTest::running();
    test.final_answer();
    test.wait(250 * MS);
    test.turn_completed("t", "u", "u", "failed");
    test.end();
    test.handle(Input::Cancel);
    test.wait(3000 * S);
    assert_eq!(test.outcome(), "Completed(Silence) at 250 ms");
    assert_eq!(test.foreign, Vec::<String>::new(), "its own notifications go to nobody else");
}

#[test]
fn an_unreadable_line_does_not_end_the_turn() {
    let mut test = CaptureTest::running();
    test.final_answer();
    test.handle(Input::Unreadable);
    test.wait(10 * S);
    assert_eq!(test.outcome(), "none", "the line may have started work");
    test.complete();
    assert_eq!(test.outcome(), "Completed(Reported) at 10000 ms");
}

#[test]
fn an_unreadable_line_before_the_answer_to_the_start_keeps_its_place() {
    let outcome = |comes_first: bool| {
        let mut test = CaptureTest::starting();
        test.turn_started("t", "u", "u");
        if comes_first {
            test.handle(Input::Unreadable);
        }
        test.final_answer();
        if !comes_first {
            test.handle(Input::Unreadable);
        }
        test.answer("u");
        test.wait(10 * S);
        test.outcome()
    };
    assert_eq!(outcome(true), "Completed(Silence) at 250 ms");
    assert_eq!(outcome(false), "none", "the line may have started work");
}

#[test]
fn a_final_answer_after_an_unreadable_line_counts() {
    let mut test = CaptureTest::running();
    test.handle(Input::Unreadable);
    test.notify("turn/completed", json!({ "threadId": "t", "turn": 7 }));
    test.final_answer();
    test.wait(250 * MS);
    assert_eq!(test.outcome(), "Completed(Silence) at 250 ms");
    assert_eq!(test.progress.iter().filter(|news| **news == Progress::Unreadable).count(), 2);
}
