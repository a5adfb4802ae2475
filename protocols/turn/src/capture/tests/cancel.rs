//! The user cancels the turn.

use super::*;

#[test]
fn a_cancelled_turn_is_interrupted_once_and_the_report_confirms_it() {
    let mut test = CaptureTest::running();
    test.final_answer();
    test.handle(Input::Cancel);
    test.handle(Input::Cancel);
    test.wait(S);
    assert_eq!(test.outcome(), "none", "after a cancel, silence is no success");
    test.turn_completed("t", "u", "u", "interrupted");
    assert_eq!(test.outcome(), "Interrupted(Cancelled) at 1000 ms, interrupts t u");
    assert_eq!(test.report().exit_status(), 130);
}

#[test]
fn a_turn_that_ends_by_itself_before_the_interrupt_counts() {
    let mut test = CaptureTest::running();
    test.final_answer();
    test.handle(Input::Cancel);
    test.complete();
    assert_eq!(test.outcome(), "Completed(Reported) at 0 ms, interrupts t u");
}

#[test]
fn a_cancel_without_an_end_of_the_turn_is_over_soon() {
    let mut test = CaptureTest::running();
    test.handle(Input::Cancel);
    for _ in 0..20 {
        test.message("still here", Some("commentary"));
        test.wait(S);
    }
    assert_eq!(test.outcome(), "Interrupted(CancelledUnconfirmed) at 10000 ms, interrupts t u");
}

#[test]
fn a_cancelled_turn_stays_cancelled_when_the_server_ends() {
    let mut test = CaptureTest::running();
    test.final_answer();
    test.handle(Input::Cancel);
    test.end();
    assert_eq!(test.outcome(), "Interrupted(CancelledUnconfirmed) at 0 ms, interrupts t u");
}

#[test]
fn a_cancel_before_the_answer_interrupts_the_turn_once_its_id_is_known() {
    let mut test = CaptureTest::starting();
    test.handle(Input::Cancel);
    test.wait(S);
    assert_eq!(test.interrupts.len(), 0);
    test.answer("u");
    test.turn_completed("t", "u", "u", "interrupted");
    assert_eq!(test.outcome(), "Interrupted(Cancelled) at 1000 ms, interrupts t u");
}

#[test]
fn a_cancel_before_the_answer_interrupts_the_turn_that_the_server_reports() {
    for cancel_first in [true, false] {
        let mut test = CaptureTest::starting();
        if cancel_first {
            test.handle(Input::Cancel);
        }
        test.turn_started("t", "u", "u");
        if !cancel_first {
            test.handle(Input::Cancel);
        }
        assert_eq!(test.interrupts.len(), 1);
        test.answer("u");
        test.turn_completed("t", "u", "u", "interrupted");
        assert_eq!(test.outcome(), "Interrupted(Cancelled) at 0 ms, interrupts t u");
    }
}

#[test]
fn a_cancel_before_a_refusal_is_confirmed_by_it() {
    let mut test = CaptureTest::starting();
    test.handle(Input::Cancel);
    test.handle(Input::Refused { code: -32001, message: "busy".into() });
    assert_eq!(test.outcome(), "Interrupted(Cancelled) at 0 ms");
    assert!(test.capture.is_over());
}

#[test]
fn a_cancel_without_any_answer_interrupts_the_thread() {
    let mut test = CaptureTest::starting();
    test.handle(Input::Cancel);
    test.wait(10 * S);
    assert_eq!(test.outcome(), "Interrupted(CancelledUnconfirmed) at 10000 ms, interrupts t ?");
    assert!(test.capture.is_over());
    test.answer("u");
    assert_eq!(test.interrupts.len(), 1);
}

#[test]
fn a_cancel_without_a_turn_id_interrupts_the_turn_that_starts() {
    let mut test = CaptureTest::starting();
    test.answer_with(json!({}));
    test.handle(Input::Cancel);
    test.turn_started("t", "u", "u");
    test.turn_completed("t", "u", "u", "interrupted");
    assert_eq!(test.outcome(), "Interrupted(Cancelled) at 0 ms, interrupts t u");
}

#[test]
fn a_second_cancel_does_not_start_the_wait_again() {
    let mut test = CaptureTest::running();
    test.handle(Input::Cancel);
    test.wait(9 * S);
    test.handle(Input::Cancel);
    test.wait(S);
    assert_eq!(test.outcome(), "Interrupted(CancelledUnconfirmed) at 10000 ms, interrupts t u");
}

#[test]
fn a_cancel_after_the_verdict_changes_nothing() {
    let mut test = CaptureTest::running();
    test.complete();
    test.handle(Input::Cancel);
    assert_eq!(test.outcome(), "Completed(Reported) at 0 ms");
    assert!(!test.progress.contains(&Progress::Cancelling));
}
