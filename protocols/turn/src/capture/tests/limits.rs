//! The behaviour beyond each limit.

use super::*;

fn with(limits: TurnLimits) -> CaptureTest {
    CaptureTest::new(TurnKind::Task, limits)
}

#[test]
fn too_many_notifications_before_the_answer_fail_the_turn() {
    let mut test = with(TurnLimits { buffered: 3, ..TurnLimits::default() });
    for _ in 0..4 {
        test.turn_started("other", "v", "v");
    }
    assert_eq!(test.outcome(), "Failed(TooMuchBuffered) at 0 ms");
    assert_eq!(test.foreign.len(), 4, "they go back to the caller");
    test.answer("u");
    assert_eq!(test.outcome(), "Failed(TooMuchBuffered) at 0 ms, interrupts t u");
}

#[test]
fn too_many_bytes_before_the_answer_fail_the_turn() {
    let mut test = with(TurnLimits { text_bytes: 600, ..TurnLimits::default() });
    test.message(&"x".repeat(600), None);
    assert_eq!(test.outcome(), "Failed(TooMuchBuffered) at 0 ms");
}

#[test]
fn as_many_notifications_and_bytes_as_the_limits_may_wait_for_the_answer() {
    let params = json!({ "threadId": "t" });
    let bytes = "thread/closed".len() + params.to_string().len();
    for (limits, failure) in [
        (TurnLimits { buffered: 3, ..TurnLimits::default() }, "none"),
        (TurnLimits { buffered: 2, ..TurnLimits::default() }, "Failed(TooMuchBuffered) at 0 ms"),
        (TurnLimits { text_bytes: 3 * bytes, ..TurnLimits::default() }, "none"),
        (
            TurnLimits { text_bytes: 3 * bytes - 1, ..TurnLimits::default() },
            "Failed(TooMuchBuffered) at 0 ms",
        ),
    ] {
        let mut test = with(limits);
        for _ in 0..3 {
            test.notify("thread/closed", params.clone());
        }
        assert_eq!(test.outcome(), failure, "{limits:?}");
    }
}

#[test]
fn more_threads_than_the_limit_stop_the_inference() {
    let mut test = with(TurnLimits { threads: 2, ..TurnLimits::default() });
    test.answer("u");
    for thread in ["s", "s2"] {
        test.turn_started(thread, "v", "u");
        test.turn_completed(thread, "v", "u", "completed");
    }
    test.final_answer();
    test.wait(S);
    assert_eq!(test.outcome(), "none");
    test.end();
    assert_eq!(test.outcome(), r#"Failed(Disconnected { why: "gone" }) at 1000 ms"#);
}

#[test]
fn more_open_items_than_the_limit_stop_the_inference() {
    let mut test = with(TurnLimits { open_items: 1, ..TurnLimits::default() });
    test.answer("u");
    for id in ["a", "b"] {
        test.item_started("t", "u", &command(id));
    }
    for id in ["a", "b"] {
        test.item_completed("t", "u", &command(id));
    }
    test.final_answer();
    test.wait(S);
    assert_eq!(test.outcome(), "none");
    test.complete();
    assert_eq!(test.outcome(), "Completed(Reported) at 1000 ms");
}

#[test]
fn too_many_unreadable_lines_fail_the_turn() {
    let mut test = CaptureTest::running();
    for _ in 0..17 {
        assert_eq!(test.outcome(), "none");
        test.handle(Input::Unreadable);
    }
    assert_eq!(test.outcome(), "Failed(Unreadable { lines: 17 }) at 0 ms, interrupts t u");
}

#[test]
fn text_beyond_the_limit_is_cut_and_left_out() {
    let mut test = with(TurnLimits { text_bytes: 6 * 200, ..TurnLimits::default() });
    test.answer("u");
    for path in ["/one", "/two", "/three"] {
        test.item_completed("t", "u", &edit(path));
    }
    test.message(&"ä".repeat(150), Some("final_answer"));
    test.complete();
    let report = test.report();
    assert_eq!((report.files.len(), report.left_out), (2, 1));
    assert_eq!((report.answer.as_deref(), report.is_cut), (Some("ä".repeat(100).as_str()), true));
    let text = report.to_string();
    assert!(text.contains("1 more changes") && text.contains("is cut"), "{text}");
}

#[test]
fn an_id_of_any_length_costs_no_memory() {
    let mut test = CaptureTest::running();
    let long = "x".repeat(513);
    test.item_started("t", "u", &command(&long));
    test.turn_started("s", &long, "u");
    test.item_started("t", "u", &agents("a", "wait", &[&long]));
    let unreadable = test.progress.iter().filter(|news| **news == Progress::Unreadable).count();
    assert_eq!(unreadable, 2);
    assert!(!test.progress.iter().any(|news| matches!(news, Progress::Subagent { .. })));
}
