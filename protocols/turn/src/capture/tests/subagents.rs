//! Subagents: which work is open.

use super::*;

#[test]
fn a_working_subagent_stops_the_inference() {
    let mut test = CaptureTest::running();
    test.turn_started("s", "v", "u");
    test.final_answer();
    test.wait(10 * S);
    assert_eq!(test.outcome(), "none");
    test.turn_completed("s", "v", "u", "completed");
    test.wait(250 * MS);
    assert_eq!(test.outcome(), "Completed(Silence) at 10250 ms");
}

#[test]
fn the_report_does_not_wait_for_subagents() {
    let mut test = CaptureTest::running();
    test.turn_started("s", "v", "u");
    test.final_answer();
    test.complete();
    assert_eq!(test.outcome(), "Completed(Reported) at 0 ms");
}

#[test]
fn an_end_of_the_server_under_a_working_subagent_is_a_failure() {
    let mut test = CaptureTest::running();
    test.turn_started("s", "v", "u");
    test.final_answer();
    test.end();
    assert_eq!(test.outcome(), r#"Failed(Disconnected { why: "gone" }) at 0 ms"#);
}

#[test]
fn a_subagent_that_is_announced_before_the_answer_counts() {
    let mut test = CaptureTest::starting();
    test.notify("thread/started", json!({ "thread": { "id": "s", "parentThreadId": "t" } }));
    test.answer("u");
    test.turn_started("s", "v", "");
    test.final_answer();
    test.wait(10 * S);
    assert_eq!(test.outcome(), "none");
}

#[test]
fn a_second_turn_of_a_subagent_counts() {
    let mut test = CaptureTest::running();
    for turn in ["v", "w"] {
        test.turn_started("s", turn, "u");
        test.item_completed("s", turn, &edit(turn));
        test.final_answer();
        test.wait(S);
        assert_eq!(test.outcome(), "none", "{turn} works");
        test.turn_completed("s", turn, "u", "completed");
    }
    test.wait(250 * MS);
    assert_eq!(test.outcome(), "Completed(Silence) at 2250 ms");
    assert_eq!(test.report().files.len(), 2);
}

#[test]
fn the_end_of_a_subagents_turn_can_come_before_its_start() {
    let mut test = CaptureTest::running();
    test.turn_completed("s", "v", "u", "completed");
    test.turn_started("s", "v", "u");
    test.final_answer();
    test.end();
    assert_eq!(test.outcome(), "Completed(EndOfServer) at 0 ms");
}

#[test]
fn the_ends_of_the_last_eight_turns_of_a_subagent_can_come_before_their_starts() {
    for (ends, outcome) in [
        (2, "Completed(EndOfServer) at 0 ms"),
        (8, "Completed(EndOfServer) at 0 ms"),
        (9, r#"Failed(Disconnected { why: "gone" }) at 0 ms"#),
    ] {
        let mut test = CaptureTest::running();
        for n in 0..ends {
            test.turn_completed("s", &format!("v{n}"), "u", "completed");
        }
        test.turn_started("s", "v0", "u");
        test.final_answer();
        test.end();
        assert_eq!(test.outcome(), outcome, "{ends} turns ended");
    }
}

#[test]
fn an_idle_or_closed_thread_has_no_working_subagent() {
    for method in ["idle", "notLoaded", "systemError", "closed"] {
        let mut test = CaptureTest::running();
        test.turn_started("s", "v", "u");
        test.final_answer();
        match method {
            "closed" => test.notify("thread/closed", json!({ "threadId": "s" })),
            status => test.thread_status("s", status),
        }
        test.wait(250 * MS);
        assert_eq!(test.outcome(), "Completed(Silence) at 250 ms", "{method}");
    }
    let mut test = CaptureTest::running();
    test.turn_started("s", "v", "u");
    test.thread_status("s", "active");
    test.final_answer();
    test.wait(S);
    assert_eq!(test.outcome(), "none");
}

/// An item names the thread only after its turn, which has no root, is over.
#[test]
fn a_thread_that_rests_before_it_is_named_has_no_working_subagent() {
    for method in ["idle", "notLoaded", "systemError", "closed"] {
        let mut test = CaptureTest::running();
        test.turn_started("s", "v", "");
        match method {
            "closed" => test.notify("thread/closed", json!({ "threadId": "s" })),
            status => test.thread_status("s", status),
        }
        test.item_completed("t", "u", &agents("c", "spawnAgent", &["s"]));
        test.final_answer();
        test.wait(250 * MS);
        assert_eq!(test.outcome(), "Completed(Silence) at 250 ms", "{method}");
    }
}

#[test]
fn the_next_turn_of_a_thread_ends_the_one_before() {
    let mut test = CaptureTest::running();
    test.turn_started("s", "v", "u");
    test.turn_started("s", "w", "u");
    test.turn_completed("s", "w", "u", "completed");
    test.final_answer();
    test.end();
    assert_eq!(test.outcome(), "Completed(EndOfServer) at 0 ms");
}

/// A server before 0.169 names the threads of subagents only in items, and after their turns began.
#[test]
fn an_item_can_name_the_thread_of_a_turn_that_already_runs() {
    let mut test = CaptureTest::running();
    test.item_started("t", "u", &agents("c", "spawnAgent", &[]));
    test.turn_started("s", "v", "");
    test.item_completed("t", "u", &agents("c", "spawnAgent", &["s"]));
    test.final_answer();
    test.wait(10 * S);
    assert_eq!(test.outcome(), "none");
    test.item_completed("s", "v", &edit("/f"));
    test.turn_completed("s", "v", "", "completed");
    test.wait(250 * MS);
    assert_eq!(test.outcome(), "Completed(Silence) at 10250 ms");
    assert_eq!(test.report().files.len(), 1);
}

#[test]
fn a_subagent_of_a_subagent_counts() {
    let mut test = CaptureTest::running();
    test.item_started("t", "u", &agents("c", "spawnAgent", &["s"]));
    test.item_completed("t", "u", &agents("c", "spawnAgent", &["s"]));
    test.turn_started("s", "v", "");
    let activity =
        json!({ "type": "subAgentActivity", "id": "a", "kind": "started", "agentThreadId": "s2" });
    test.item_started("s", "v", &activity);
    test.turn_started("s2", "w", "");
    test.turn_completed("s", "v", "", "completed");
    test.final_answer();
    test.wait(S);
    assert_eq!(test.outcome(), "none");
    test.turn_completed("s2", "w", "", "completed");
    test.wait(250 * MS);
    assert_eq!(test.outcome(), "Completed(Silence) at 1250 ms");
}

#[test]
fn the_answer_and_the_review_of_a_subagent_are_not_those_of_the_turn() {
    let mut test = CaptureTest::running();
    test.turn_started("s", "v", "u");
    test.item_completed("s", "v", &message("sub", Some("final_answer")));
    test.item_completed(
        "s",
        "v",
        &json!({ "type": "exitedReviewMode", "id": "x", "review": "sub" }),
    );
    test.turn_completed("s", "v", "u", "failed");
    test.end();
    assert_eq!(test.outcome(), r#"Failed(Disconnected { why: "gone" }) at 0 ms"#);
    let report = test.report();
    assert_eq!((report.answer, report.last_message), (None, None));
}

#[test]
fn a_subagent_of_a_subagent_may_come_before_its_parent() {
    let mut test = CaptureTest::running();
    for (thread, parent) in [("s3", "s2"), ("s2", "s1"), ("x2", "x1")] {
        let thread = json!({ "id": thread, "parentThreadId": parent });
        test.notify("thread/started", json!({ "thread": thread }));
    }
    test.turn_started("s3", "v", "");
    test.turn_started("x2", "w", "");
    test.notify("thread/started", json!({ "thread": { "id": "s1", "parentThreadId": "t" } }));
    test.final_answer();
    test.wait(10 * S);
    assert_eq!(test.outcome(), "none");
    test.turn_completed("s3", "v", "", "completed");
    test.wait(250 * MS);
    assert_eq!(test.outcome(), "Completed(Silence) at 10250 ms");
}
