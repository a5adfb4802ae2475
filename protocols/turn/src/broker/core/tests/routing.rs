//! Which client receives which notification.

use super::*;

fn thread_started(bench: &mut Bench, thread: &str, parent: Option<&str>) {
    let thread = json!({ "id": thread, "parentThreadId": parent });
    bench.notify("thread/started", json!({ "thread": thread }));
}

#[test]
fn the_notifications_of_an_abandoned_turn_go_to_no_one() {
    let mut bench = Bench::new();
    bench.start_turn(A, "t", "u");
    bench.close(A);
    bench.start_turn(B, "t2", "u2");
    bench.item("t", "u", "late");
    bench.turn_completed("t", "u");
    bench.notify("thread/status/changed", json!({ "threadId": "t", "status": { "type": "idle" } }));
    bench.item("t2", "u2", "mine");
    assert_eq!(bench.seen(B), ["mine"]);
}

#[test]
fn the_subagents_of_an_abandoned_turn_go_to_no_one() {
    let mut bench = Bench::new();
    bench.start_turn(A, "t", "u");
    thread_started(&mut bench, "s1", Some("t"));
    bench.close(A);
    bench.start_turn(B, "t2", "u2");
    thread_started(&mut bench, "s2", Some("s1"));
    bench.item("s1", "x", "late");
    let root = json!({ "id": "y", "rootTurnId": "u", "status": "inProgress" });
    bench.notify("turn/started", json!({ "threadId": "s3", "turn": root }));
    bench.item("s3", "y", "late");
    thread_started(&mut bench, "s4", None);
    assert_eq!(bench.seen(B), [""; 0]);
    thread_started(&mut bench, "s5", Some("t2"));
    bench.item("s5", "z", "mine");
    assert_eq!(bench.seen(B), ["thread/started", "mine"]);
}

/// A subagent of a subagent starts before an item names its parent.
pub(super) fn child_before_parent(bench: &mut Bench, thread: &str, turn: &str) {
    thread_started(bench, "s2", Some("s1"));
    bench.item("s2", "x", "early");
    let item = json!({ "type": "collabAgentToolCall", "id": "c", "receiverThreadIds": ["s1"] });
    let item = json!({ "threadId": thread, "turnId": turn, "item": item });
    bench.notify("item/started", item);
    bench.item("s2", "x", "late");
}

#[test]
fn a_subagent_may_come_before_its_parent() {
    let mut bench = Bench::new();
    bench.start_turn(A, "t", "u");
    child_before_parent(&mut bench, "t", "u");
    assert_eq!(bench.seen(A), ["thread/started", "early", "item/started", "late"]);
    let mut bench = Bench::new();
    bench.start_turn(A, "t", "u");
    bench.close(A);
    bench.start_turn(B, "t2", "u2");
    child_before_parent(&mut bench, "t2", "u2");
    assert_eq!(bench.seen(B), ["item/started", "thread/started", "early", "late"]);
}

#[test]
fn the_threads_of_subagents_are_named_by_items_too() {
    let mut bench = Bench::new();
    bench.start_turn(A, "t", "u");
    let item = json!({ "type": "collabAgentToolCall", "id": "c", "receiverThreadIds": ["s"] });
    bench.notify("item/started", json!({ "threadId": "t", "turnId": "u", "item": item }));
    bench.item("s", "x", "of the subagent");
    assert_eq!(bench.seen(A), ["item/started", "of the subagent"]);
    bench.turn_completed("t", "u");
    bench.start_turn(B, "t2", "u2");
    bench.item("s", "x", "after the end");
    assert_eq!(bench.seen(A), ["turn/completed", "after the end"]);
    assert_eq!(bench.seen(B), [""; 0]);
}

#[test]
fn an_unknown_thread_belongs_to_the_only_live_turn() {
    let mut bench = Bench::new();
    bench.start_turn(A, "t", "u");
    thread_started(&mut bench, "s", None);
    bench.item("s", "x", "of the subagent");
    assert_eq!(bench.seen(A), ["thread/started", "of the subagent"]);
}

#[test]
fn an_unknown_thread_belongs_to_the_only_live_turn_while_its_own_start_has_no_answer() {
    let mut bench = Bench::new();
    bench.ask(A, "turn/start", json!({ "threadId": "t" }));
    bench.turn_started("t", "u");
    bench.item("s", "x", "before");
    let ticket = bench.refuse("turn/start", true);
    bench.item("s", "x", "after");
    assert_eq!(bench.seen(A), ["turn/started", "before", "answer", "after"]);
    bench.late(ticket, started("u"));
    bench.item("s", "x", "at last");
    assert_eq!(bench.seen(A), ["at last"]);
}

#[test]
fn an_unknown_thread_may_belong_to_an_earlier_start_without_an_answer() {
    let mut bench = Bench::new();
    bench.ask(A, "review/start", json!({ "threadId": "t", "delivery": "detached" }));
    bench.refuse("review/start", true);
    bench.close(A);
    bench.start_turn(B, "t2", "v");
    bench.item("s", "x", "of the review");
    assert_eq!(bench.seen(B), [""; 0]);
}

#[test]
fn a_thread_is_reported_to_the_client_that_starts_it() {
    let mut bench = Bench::new();
    bench.ask(A, "thread/start", json!({}));
    thread_started(&mut bench, "t", None);
    bench.answer("thread/start", json!({ "thread": { "id": "t" } }));
    bench.notify("thread/name/updated", json!({ "threadId": "t", "threadName": "n" }));
    assert_eq!(bench.seen(A), ["thread/started", "answer", "thread/name/updated"]);
    bench.close(A);
    bench.start_turn(B, "t2", "u2");
    bench.notify("thread/name/updated", json!({ "threadId": "t", "threadName": "n" }));
    assert_eq!(bench.seen(B), [""; 0]);
}

#[test]
fn a_notification_about_the_server_goes_to_the_client_that_works() {
    let mut bench = Bench::new();
    bench.notify("account/updated", json!({}));
    bench.start_turn(B, "t", "u");
    bench.notify("account/updated", json!({}));
    assert_eq!((bench.seen(A), bench.seen(B)), (vec![], vec!["account/updated".to_owned()]));
}

#[test]
fn an_unknown_method_and_its_content_pass_unchanged() {
    let mut bench = Bench::new();
    bench.start_turn(A, "t", "u");
    let params = json!({ "threadId": "t", "turnId": "u", "news": [1, { "a": 2.5 }] });
    bench.notify("news/arrived", params.clone());
    assert_eq!(*bench.pull(A), [json!({ "method": "news/arrived", "params": params })]);
}

#[test]
fn a_late_notification_of_an_earlier_turn_does_not_become_the_new_one() {
    let mut bench = Bench::new();
    bench.start_turn(A, "t", "old");
    bench.turn_completed("t", "old");
    bench.ask(A, "turn/start", json!({ "threadId": "t" }));
    bench.item("t", "old", "late");
    bench.turn_completed("t", "unknown");
    bench.answer("turn/start", started("new"));
    assert!(!bench.admits(B), "the new turn is live");
    bench.turn_completed("t", "new");
    assert!(bench.admits(B));
}

#[test]
fn two_starts_that_share_one_turn_end_with_it() {
    let mut bench = Bench::new();
    bench.start_turn(A, "t", "u");
    bench.start_turn(A, "t", "u");
    bench.turn_completed("t", "u");
    assert!(bench.admits(B));
}

#[test]
fn a_detached_review_runs_on_its_own_thread() {
    let mut bench = Bench::new();
    bench.ask(A, "review/start", json!({ "threadId": "t", "delivery": "detached" }));
    let answer = json!({ "turn": { "id": "u", "status": "inProgress" }, "reviewThreadId": "r" });
    bench.answer("review/start", answer);
    bench.item("r", "u", "hi");
    bench.turn_completed("t", "other");
    assert!(!bench.admits(B));
    bench.turn_completed("r", "u");
    assert!(bench.admits(B));
    assert_eq!(bench.seen(A), ["answer", "hi", "turn/completed"]);
}

#[test]
fn a_detached_review_may_end_before_its_answer() {
    let mut bench = Bench::new();
    bench.ask(A, "review/start", json!({ "threadId": "t", "delivery": "detached" }));
    bench.turn_started("r", "u");
    bench.turn_completed("r", "u");
    let answer = json!({ "turn": { "id": "u", "status": "inProgress" }, "reviewThreadId": "r" });
    bench.answer("review/start", answer);
    assert!(bench.admits(B));
}

#[test]
fn the_turn_inside_of_a_review_belongs_to_it() {
    let mut bench = Bench::new();
    bench.ask(A, "review/start", json!({ "threadId": "t" }));
    bench.answer("review/start", started("u"));
    let inner = json!({ "id": "inner", "rootTurnId": "u", "status": "inProgress" });
    bench.notify("turn/started", json!({ "threadId": "t", "turn": inner }));
    bench.item("t", "inner", "hi");
    assert_eq!(bench.seen(A), ["answer", "turn/started", "hi"]);
    bench.close(A);
    assert_eq!(bench.interrupted(), ["u"]);
    bench.turn_completed("t", "u");
    bench.wait(600 * S);
    assert_eq!(bench.interrupted(), [""; 0]);
}

#[test]
fn the_number_of_remembered_threads_is_bounded() {
    let mut threads = Threads::new(2);
    let owner = threads::ThreadOwner::Client(A);
    for name in ["a", "b", "a", "c"] {
        threads.set(name, owner);
    }
    let known = ["a", "b", "c"].map(|name| threads.owner(name).is_some());
    assert_eq!(known, [true, false, true]);
}

#[test]
fn a_notification_that_cannot_be_read_still_finds_its_client() {
    let mut bench = Bench::new();
    bench.start_turn(A, "t", "u");
    bench.notify("item/completed", json!({ "threadId": "t", "turnId": "u", "item": 7 }));
    bench.notify("item/completed", json!({ "threadId": 7 }));
    assert_eq!(bench.seen(A), ["item/completed", "item/completed"]);
}

#[test]
fn an_unreadable_line_is_reported_to_the_client_with_live_work() {
    let mut bench = Bench::new();
    bench.core.on_unreadable("oops", bench.now);
    assert!(bench.pull(A).is_empty() && bench.pull(B).is_empty());
    bench.start_turn(A, "t", "u");
    bench.core.on_unreadable("oops", bench.now);
    let notice = bench.pull(A).remove(0);
    assert_eq!((&notice["id"], &notice["error"]["code"]), (&Value::Null, &json!(-32700)));
    assert_eq!(notice["error"]["message"], "the app-server sent an unreadable line: oops");
    assert!(bench.pull(B).is_empty());
}

#[test]
fn the_long_id_of_a_subagents_thread_costs_no_memory() {
    let mut bench = Bench::new();
    bench.start_turn(A, "t", "u");
    let item = |thread: &str| {
        let item = json!({
            "type": "collabAgentToolCall", "id": "i", "receiverThreadIds": [thread],
        });
        json!({ "threadId": "t", "turnId": "u", "item": item })
    };
    bench.notify("item/started", item(&"x".repeat(513)));
    assert_eq!(bench.core.counts().threads, 1, "the thread of the turn");
    bench.notify("item/started", item(&"x".repeat(512)));
    assert_eq!(bench.core.counts().threads, 2);
}

#[test]
fn a_detached_review_beside_an_abandoned_turn_gets_what_came_before_its_answer() {
    let mut bench = Bench::new();
    bench.start_turn(A, "t", "u");
    bench.close(A);
    bench.ask(B, "review/start", json!({ "threadId": "t2", "delivery": "detached" }));
    bench.turn_started("r", "v");
    thread_started(&mut bench, "s", Some("r"));
    bench.turn_started("s", "x");
    bench.item("foreign", "y", "of another turn");
    bench.turn_completed("t", "u");
    bench.item("r", "v", "hi");
    assert_eq!(bench.seen(B), [""; 0], "the thread may be the abandoned turn's");
    let answer = json!({ "turn": { "id": "v", "status": "inProgress" }, "reviewThreadId": "r" });
    bench.answer("review/start", answer);
    let seen = ["turn/started", "thread/started", "turn/started", "hi", "answer"];
    assert_eq!(bench.seen(B), seen);
    bench.turn_completed("s", "x");
    bench.turn_completed("r", "v");
    assert_eq!(bench.seen(B), ["turn/completed", "turn/completed"]);
    let counts = bench.core.counts();
    assert_eq!((counts.turns, counts.unclaimed_bytes), (0, 0), "{counts:?}");
}

#[test]
fn a_subagent_that_works_before_it_is_named_belongs_to_the_turn_that_names_it() {
    let mut bench = Bench::new();
    bench.start_turn(A, "t", "u");
    bench.close(A);
    bench.start_turn(B, "t2", "v");
    bench.turn_started("s", "x");
    assert_eq!(bench.seen(B), [""; 0]);
    let spawn = json!({ "type": "collabAgentToolCall", "id": "i", "tool": "spawnAgent",
        "status": "inProgress", "receiverThreadIds": ["s"] });
    let item = json!({ "threadId": "t2", "turnId": "v", "item": spawn });
    bench.notify("item/started", item);
    bench.item("s", "x", "of the subagent");
    assert_eq!(bench.seen(B), ["item/started", "turn/started", "of the subagent"]);
}

#[test]
fn the_thread_of_an_abandoned_review_is_interrupted_when_the_answer_names_it() {
    let mut bench = Bench::new();
    bench.ask(A, "review/start", json!({ "threadId": "t", "delivery": "detached" }));
    bench.close(A);
    bench.start_turn(B, "t2", "u");
    bench.turn_started("r", "v");
    assert_eq!(bench.seen(B), [""; 0]);
    let answer = json!({ "turn": { "id": "v", "status": "inProgress" }, "reviewThreadId": "r" });
    bench.answer("review/start", answer);
    assert_eq!(bench.take("turn/interrupt").params, json!({ "threadId": "r", "turnId": "v" }));
    assert_eq!(bench.seen(B), [""; 0], "no news of another client's review");
}

#[test]
fn a_subagent_that_ends_before_its_start_holds_nothing() {
    let mut bench = Bench::new();
    bench.start_turn(A, "t", "u");
    thread_started(&mut bench, "s", Some("t"));
    bench.turn_completed("s", "x");
    bench.turn_started("s", "x");
    bench.turn_completed("t", "u");
    assert_eq!(bench.core.counts().turns, 0);
    bench.close(A);
    assert_eq!(bench.interrupted(), [""; 0]);
}

#[test]
fn a_subagent_of_a_thread_without_a_turn_belongs_to_no_one() {
    let mut bench = Bench::new();
    bench.ask(B, "thread/start", json!({}));
    bench.answer("thread/start", json!({ "thread": { "id": "t2" } }));
    bench.start_turn(B, "t3", "u3");
    bench.turn_completed("t3", "u3");
    bench.start_turn(A, "t", "u");
    bench.close(A);
    bench.pull(B).clear();
    thread_started(&mut bench, "s", Some("t2"));
    bench.item("s", "x", "of the subagent");
    assert_eq!(bench.seen(B), [""; 0]);
    bench.turn_completed("t", "u");
    assert_eq!(bench.core.counts().unclaimed_bytes, 0);
}
