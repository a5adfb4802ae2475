//! Deadlines, and the errors of the server.

use super::*;

#[test]
fn a_silent_turn_fails_and_is_interrupted() {
    let mut test = CaptureTest::running();
    test.wait(599 * S);
    test.notify("item/commandExecution/outputDelta", json!({ "threadId": "t", "turnId": "u" }));
    test.wait(599 * S);
    assert_eq!(test.outcome(), "none");
    test.wait(S);
    assert_eq!(test.outcome(), "Failed(Idle(600s)) at 1199000 ms, interrupts t u");
}

#[test]
fn a_server_that_sends_an_unreadable_line_is_not_silent() {
    let mut test = CaptureTest::running();
    test.wait(599 * S);
    test.handle(Input::Unreadable);
    test.wait(599 * S);
    assert_eq!(test.outcome(), "none");
    test.wait(S);
    assert_eq!(test.outcome(), "Failed(Idle(600s)) at 1199000 ms, interrupts t u");
}

#[test]
fn notifications_of_others_do_not_keep_a_turn_alive() {
    let mut test = CaptureTest::running();
    for _ in 0..700 {
        test.notify("account/rateLimits/updated", json!({}));
        test.notify("warning", json!({ "threadId": "other" }));
        test.wait(S);
    }
    assert_eq!(test.outcome(), "Failed(Idle(600s)) at 600000 ms, interrupts t u");
}

#[test]
fn an_endless_turn_fails_and_is_interrupted() {
    let mut test = CaptureTest::running();
    for _ in 0..1900 {
        test.message("still here", Some("commentary"));
        test.wait(S);
    }
    assert_eq!(test.outcome(), "Failed(TooLong(1800s)) at 1800000 ms, interrupts t u");
}

#[test]
fn a_late_wake_gives_the_verdict_of_the_first_deadline() {
    let mut test = CaptureTest::running();
    test.final_answer();
    test.now += 5000 * S;
    test.capture.wake(test.now);
    test.collect();
    assert_eq!(test.outcome(), "Completed(Silence) at 5000000 ms");
}

#[test]
fn what_is_handed_in_late_still_counts() {
    let mut test = CaptureTest::running();
    test.now += 5000 * S;
    test.complete();
    assert_eq!(test.outcome(), "Completed(Reported) at 5000000 ms");
}

#[test]
fn inputs_cannot_hide_a_deadline() {
    let mut test = CaptureTest::running();
    test.now += 1801 * S;
    test.message("still here", Some("commentary"));
    assert_eq!(test.outcome(), "Failed(TooLong(1800s)) at 1801000 ms, interrupts t u");
}

#[test]
fn a_start_without_an_answer_fails_at_the_idle_deadline() {
    let mut test = CaptureTest::starting();
    test.turn_started("t", "u", "u");
    test.wait(590 * S);
    test.final_answer();
    test.wait(20 * S);
    assert_eq!(test.outcome(), "Failed(Idle(600s)) at 600000 ms, interrupts t u");
}

#[test]
fn an_error_without_an_end_of_the_turn_fails_soon() {
    let mut test = CaptureTest::running();
    test.wait(S);
    test.error("no quota", false);
    test.wait(5 * S);
    test.thread_status("t", "systemError");
    test.error("no quota at all", false);
    test.wait(5 * S);
    let failed = r#"Failed(Error { message: "no quota at all" }) at 11000 ms, interrupts t u"#;
    assert_eq!(test.outcome(), failed);
}

#[test]
fn an_error_that_the_server_retries_changes_nothing() {
    let mut test = CaptureTest::running();
    test.error("reconnecting", true);
    test.wait(500 * S);
    assert_eq!(test.outcome(), "none");
    test.final_answer();
    test.complete();
    assert_eq!(test.outcome(), "Completed(Reported) at 500000 ms");
}

#[test]
fn a_turn_that_goes_on_after_an_error_does_not_fail() {
    let mut test = CaptureTest::running();
    test.error("a tool is gone", false);
    test.wait(5 * S);
    test.item_started("t", "u", &command("c"));
    test.wait(500 * S);
    assert_eq!(test.outcome(), "none");
}

#[test]
fn an_error_of_a_subagent_is_not_the_turns() {
    let mut test = CaptureTest::running();
    test.turn_started("s", "v", "u");
    let error = json!({ "message": "sub" });
    test.notify(
        "error",
        json!({ "error": error, "willRetry": false, "threadId": "s", "turnId": "v" }),
    );
    test.wait(500 * S);
    assert_eq!(test.outcome(), "none");
}

#[test]
fn a_final_answer_and_a_deadline_at_one_instant_are_a_success() {
    let limits = TurnLimits { absolute: 250 * MS, idle: 250 * MS, ..TurnLimits::default() };
    let mut test = CaptureTest::new(TurnKind::Task, limits);
    test.answer("u");
    test.final_answer();
    test.wait(S);
    assert_eq!(test.outcome(), "Completed(Silence) at 250 ms");
}
