//! The start request, its answer, and what comes before it.

use reknit_jsonrpc::ErrorBody;
use serde_json::value::RawValue;

use super::*;
use crate::upstream::RequestFailure;

#[test]
fn what_comes_before_the_answer_waits_for_it() {
    let mut test = CaptureTest::starting();
    test.turn_started("t", "u", "u");
    test.final_answer();
    test.complete();
    assert_eq!(test.outcome(), "none");
    test.answer("u");
    assert_eq!(test.outcome(), "Completed(Reported) at 0 ms");
    assert_eq!(test.report().answer.as_deref(), Some("the answer"));
}

#[test]
fn notifications_of_the_server_do_not_wait() {
    let mut test = CaptureTest::starting();
    test.notify("account/rateLimits/updated", json!({}));
    test.turn_started("other", "v", "v");
    assert_eq!(test.foreign, ["account/rateLimits/updated"]);
    test.answer("u");
    assert_eq!(test.foreign, ["account/rateLimits/updated", "turn/started"]);
}

#[test]
fn an_answer_that_says_that_the_turn_is_over_decides() {
    let mut test = CaptureTest::starting();
    let items =
        json!([{ "type": "agentMessage", "id": "m", "text": "done", "phase": "final_answer" }]);
    test.answer_with(json!({ "turn": { "id": "u", "status": "completed", "items": items } }));
    assert_eq!(test.outcome(), "Completed(Reported) at 0 ms");
    assert_eq!(test.report().answer.as_deref(), Some("done"));
    let mut test = CaptureTest::starting();
    test.answer_with(json!({ "turn": { "status": "failed" } }));
    assert_eq!(test.outcome(), r#"Failed(Turn { message: "no reason given" }) at 0 ms"#);
}

#[test]
fn a_refusal_is_a_failure_without_an_interrupt() {
    let mut test = CaptureTest::starting();
    test.handle(Input::Refused { code: -32001, message: "busy".into() });
    test.wait(S);
    let refused = r#"Failed(Refused { code: -32001, message: "busy" }) at 0 ms"#;
    assert_eq!(test.outcome(), refused);
    assert!(test.capture.is_over());
}

#[test]
fn a_turn_that_was_reported_before_its_refusal_has_started() {
    let mut test = CaptureTest::starting();
    test.turn_started("t", "u", "u");
    test.handle(Input::Refused { code: -32000, message: "the app-server ended".into() });
    assert_eq!(test.outcome(), "none");
    test.complete();
    assert_eq!(test.outcome(), "Completed(Reported) at 0 ms");
}

#[test]
fn a_second_answer_without_an_end_changes_nothing() {
    let mut test = CaptureTest::running();
    test.answer("v");
    test.answer_with(json!({ "turn": { "id": "u", "status": "inProgress" } }));
    test.handle(Input::Refused { code: -32600, message: "late".into() });
    test.handle(Input::NoAnswer);
    assert_eq!((test.outcome().as_str(), test.capture.turn()), ("none", Some("u")));
}

#[test]
fn an_answer_without_a_turn_id_takes_the_id_from_the_start_of_the_turn() {
    let mut test = CaptureTest::starting();
    test.answer_with(json!({ "turn": {} }));
    test.turn_started("other", "v", "v");
    test.wait(S);
    test.turn_started("t", "u", "u");
    test.final_answer();
    test.wait(20 * S);
    assert_eq!(test.outcome(), "Completed(Silence) at 1250 ms");
    assert_eq!(test.capture.turn(), Some("u"));
    assert_eq!(test.foreign, ["turn/started"]);
}

#[test]
fn an_answer_without_a_turn_id_takes_the_id_from_what_came_before() {
    let mut test = CaptureTest::starting();
    test.turn_started("t", "u", "");
    test.complete();
    test.answer_with(json!({}));
    assert_eq!(test.outcome(), "Completed(Reported) at 0 ms");
}

#[test]
fn a_turn_that_never_gets_an_id_fails_soon_and_is_interrupted() {
    let mut test = CaptureTest::starting();
    test.answer_with(json!({ "turn": { "status": "inProgress" } }));
    test.wait(10 * S);
    assert_eq!(test.outcome(), "Failed(NoTurnId) at 10000 ms");
    assert!(!test.capture.is_over(), "it waits for the id");
    test.wait(10 * S);
    assert_eq!(test.outcome(), "Failed(NoTurnId) at 10000 ms, interrupts t ?");
    assert!(test.capture.is_over());
}

#[test]
fn without_an_answer_the_reported_turn_counts() {
    let mut test = CaptureTest::starting();
    test.turn_started("t", "u", "u");
    test.handle(Input::NoAnswer);
    assert_eq!((test.outcome().as_str(), test.capture.turn()), ("none", Some("u")));
    test.complete();
    assert_eq!(test.outcome(), "Completed(Reported) at 0 ms");
}

#[test]
fn a_late_answer_that_says_that_the_turn_is_over_is_its_report() {
    let mut test = CaptureTest::starting();
    test.turn_started("t", "u", "u");
    test.handle(Input::NoAnswer);
    test.answer_with(json!({ "turn": { "id": "u", "status": "inProgress" } }));
    assert_eq!(test.outcome(), "none");
    test.answer_with(json!({ "turn": { "id": "u", "status": "completed" } }));
    assert_eq!(test.outcome(), "Completed(Reported) at 0 ms");
}

#[test]
fn without_an_answer_and_a_turn_the_start_failed_and_a_late_turn_is_interrupted() {
    let mut test = CaptureTest::starting();
    test.handle(Input::NoAnswer);
    assert_eq!(test.outcome(), "Failed(NoAnswer) at 0 ms");
    test.wait(S);
    test.answer("u");
    assert_eq!(test.outcome(), "Failed(NoAnswer) at 0 ms, interrupts t u");
    test.final_answer();
    test.wait(100 * S);
    assert_eq!(test.outcome(), "Failed(NoAnswer) at 0 ms, interrupts t u");
}

#[test]
fn what_the_server_sent_before_it_ended_counts_without_an_answer() {
    let mut test = CaptureTest::starting();
    test.turn_started("t", "u", "u");
    test.final_answer();
    test.end();
    assert_eq!(test.outcome(), "Completed(EndOfServer) at 0 ms");
    let mut test = CaptureTest::starting();
    test.end();
    assert_eq!(test.outcome(), r#"Failed(Disconnected { why: "gone" }) at 0 ms"#);
    assert!(test.capture.is_over(), "there is nobody to interrupt");
}

/// In a review, the server reports the start of a turn with another id.
#[test]
fn the_turn_inside_of_a_review_is_the_review() {
    let mut test = CaptureTest::new(TurnKind::Review, TurnLimits::default());
    test.turn_started("t", "inner", "u");
    test.answer_with(json!({ "turn": { "id": "u", "rootTurnId": null, "status": "inProgress" }, "reviewThreadId": "t" }));
    let entered = json!({ "type": "enteredReviewMode", "id": "e", "review": "current changes" });
    test.item_completed("t", "u", &entered);
    test.item_started("t", "u", &message("{}", Some("final_answer")));
    test.item_completed("t", "inner", &command("c"));
    test.turn_completed("t", "inner", "u", "completed");
    assert_eq!(test.outcome(), "none", "only the review itself has an end");
    test.item_completed(
        "t",
        "u",
        &json!({ "type": "exitedReviewMode", "id": "x", "review": "fine" }),
    );
    test.complete();
    assert_eq!(test.outcome(), "Completed(Reported) at 0 ms");
    let report = test.report();
    assert_eq!((report.answer.as_deref(), report.commands.len()), (Some("fine"), 1));
}

#[test]
fn a_review_without_a_turn_id_takes_the_root_of_the_turn_inside() {
    let mut test = CaptureTest::new(TurnKind::Review, TurnLimits::default());
    test.answer_with(json!({}));
    test.turn_started("t", "inner", "u");
    assert_eq!(test.capture.turn(), Some("u"));
}

#[test]
fn a_detached_review_runs_on_the_thread_of_the_answer() {
    let mut test = CaptureTest::new(TurnKind::Review, TurnLimits::default());
    test.turn_started("r", "u", "");
    test.answer_with(json!({ "turn": { "id": "u" }, "reviewThreadId": "r" }));
    test.turn_completed("t", "u", "", "failed");
    assert_eq!((test.outcome().as_str(), test.capture.thread()), ("none", "r"));
    test.turn_completed("r", "u", "", "completed");
    assert_eq!(test.outcome(), "Completed(Reported) at 0 ms");
}

#[test]
fn the_outcome_of_the_start_request_is_an_input() {
    let raw = |text: &str| serde_json::from_str::<Box<RawValue>>(text).unwrap();
    let input = |outcome| Input::from_outcome(outcome);
    let answer = input(Ok(raw(r#"{"turn":{"id":"u"}}"#)));
    assert!(matches!(answer, Some(Input::Answer(answer)) if answer.turn.id() == Some("u")));
    assert!(matches!(input(Ok(raw("7"))), Some(Input::NoAnswer)));
    let error = ErrorBody { code: -32001, message: "busy".into(), data: None };
    let refused = input(Err(RequestFailure::Refused(error)));
    assert!(matches!(refused, Some(Input::Refused { code: -32001, .. })));
    assert!(matches!(input(Err(RequestFailure::Deadline)), Some(Input::NoAnswer)));
}
