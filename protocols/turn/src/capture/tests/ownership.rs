//! Notifications of other turns, threads and clients.

use super::*;

#[test]
fn an_earlier_turn_of_the_thread_does_not_count() {
    let mut test = CaptureTest::running();
    test.item_completed("t", "old", &message("old answer", Some("final_answer")));
    test.turn_completed("t", "old", "old", "completed");
    test.wait(S);
    assert_eq!(test.outcome(), "none");
    assert_eq!(test.foreign, ["item/completed", "turn/completed"]);
    test.end();
    assert_eq!(test.report().answer, None);
}

#[test]
fn the_end_of_an_earlier_turn_before_the_answer_does_not_count() {
    let mut test = CaptureTest::starting();
    test.turn_completed("t", "old", "old", "failed");
    test.answer("u");
    assert_eq!((test.outcome().as_str(), test.foreign.len()), ("none", 1));
}

#[test]
fn a_subagent_of_an_earlier_turn_does_not_count() {
    let mut test = CaptureTest::running();
    test.notify("thread/started", json!({ "thread": { "id": "s", "agentNickname": "Bo" } }));
    test.turn_started("s", "v", "old");
    test.item_completed("s", "v", &edit("/theirs"));
    test.final_answer();
    test.wait(250 * MS);
    assert_eq!(test.outcome(), "Completed(Silence) at 250 ms");
    assert_eq!(test.foreign, ["thread/started", "turn/started", "item/completed"]);
    assert!(test.report().files.is_empty());
}

/// A subagent can outlive the turn that started it. A later turn can name its thread.
#[test]
fn an_earlier_turn_of_a_subagent_does_not_count_on_its_thread() {
    let mut test = CaptureTest::running();
    test.item_started("t", "u", &agents("w", "wait", &["s"]));
    test.item_completed("s", "v", &edit("/theirs"));
    test.turn_completed("s", "v", "old", "completed");
    test.turn_started("s", "w", "u");
    test.item_completed("s", "w", &edit("/ours"));
    test.complete();
    let report = test.report();
    assert_eq!(report.files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["/ours"]);
}

#[test]
fn notifications_without_a_turn_belong_to_their_thread() {
    let mut test = CaptureTest::running();
    test.notify("thread/name/updated", json!({ "threadId": "t", "threadName": "new" }));
    test.notify("warning", json!({ "threadId": "t", "message": "w" }));
    test.notify("warning", json!({ "threadId": "other", "message": "w" }));
    assert_eq!(test.foreign, ["warning"]);
    let named = Progress::Named { thread: "t".into(), name: "new".into() };
    assert!(test.progress.contains(&named));
}

#[test]
fn late_notifications_of_a_decided_turn_are_inert() {
    let mut test = CaptureTest::running();
    test.turn_started("s", "v", "u");
    test.wait(600 * S);
    assert_eq!(test.outcome(), "Failed(Idle(600s)) at 600000 ms, interrupts t u");
    let progress = test.progress.len();
    test.final_answer();
    test.turn_started("s", "w", "u");
    test.item_completed("s", "w", &edit("/late"));
    test.turn_started("s2", "x", "u");
    test.complete();
    test.notify("turn/completed", json!({ "threadId": "other", "turn": { "id": "o" } }));
    assert_eq!(test.foreign, ["turn/completed"]);
    assert_eq!(test.outcome(), "Failed(Idle(600s)) at 600000 ms, interrupts t u");
    assert_eq!(test.progress.len(), progress);
    let report = test.report();
    assert_eq!((report.answer, report.files.len()), (None, 0));
}
