//! Turns that lose their client.

use super::*;

#[test]
fn the_turn_of_a_client_that_disconnects_is_interrupted() {
    let mut bench = Bench::new();
    bench.start_turn(A, "t", "u");
    bench.close(A);
    let interrupt = bench.take("turn/interrupt");
    assert_eq!(interrupt.params, json!({ "threadId": "t", "turnId": "u" }));
    assert!(bench.admits(B), "the broker is free at once");
}

#[test]
fn a_turn_whose_client_left_before_the_answer_is_interrupted_at_the_answer() {
    let mut bench = Bench::new();
    bench.ask(A, "turn/start", json!({ "threadId": "t" }));
    bench.close(A);
    assert!(bench.admits(B));
    assert_eq!(bench.interrupted(), [""; 0], "the turn has no id yet");
    bench.answer("turn/start", started("u"));
    assert_eq!(bench.interrupted(), ["u"]);
    assert!(bench.admits(B));
}

#[test]
fn a_review_whose_client_left_before_the_answer_is_interrupted_on_its_thread() {
    let mut bench = Bench::new();
    bench.ask(A, "review/start", json!({ "threadId": "t", "delivery": "detached" }));
    bench.close(A);
    let answer = json!({ "turn": { "id": "u", "status": "inProgress" }, "reviewThreadId": "r" });
    bench.answer("review/start", answer);
    let interrupt = bench.take("turn/interrupt");
    assert_eq!(interrupt.params, json!({ "threadId": "r", "turnId": "u" }));
    bench.turn_completed("r", "u");
    assert!(bench.admits(B));
}

#[test]
fn a_turn_that_is_known_before_its_answer_is_interrupted_at_once() {
    let mut bench = Bench::new();
    bench.ask(A, "turn/start", json!({ "threadId": "t" }));
    bench.turn_started("t", "u");
    bench.close(A);
    assert_eq!(bench.interrupted(), ["u"]);
    bench.answer("turn/start", started("u"));
    assert_eq!(bench.interrupted(), [""; 0], "once is enough");
}

#[test]
fn a_turn_that_was_over_at_its_answer_is_not_interrupted() {
    let mut bench = Bench::new();
    bench.ask(A, "turn/start", json!({ "threadId": "t" }));
    bench.close(A);
    bench.answer("turn/start", json!({ "turn": { "id": "u", "status": "completed" } }));
    assert_eq!(bench.interrupted(), [""; 0]);
}

#[test]
fn a_refused_interrupt_is_repeated_while_the_turn_runs() {
    let mut bench = Bench::new();
    bench.start_turn(A, "t", "u");
    bench.close(A);
    bench.refuse("turn/interrupt", false);
    assert_eq!(bench.interrupted(), [""; 0]);
    bench.wait(limits().retry);
    assert_eq!(bench.interrupted(), ["u"]);
    bench.turn_completed("t", "u");
    bench.wait(600 * S);
    assert_eq!(bench.interrupted(), [""; 0]);
    assert_eq!(bench.core.due(), None);
}

#[test]
fn an_interrupt_that_comes_before_the_start_of_the_turn_is_repeated_at_the_start() {
    let mut bench = Bench::new();
    bench.start_turn(A, "t", "u");
    bench.close(A);
    bench.refuse("turn/interrupt", false);
    bench.turn_started("t", "u");
    assert_eq!(bench.interrupted(), ["u"]);
}

#[test]
fn a_turn_that_refuses_every_interrupt_is_given_up() {
    let mut bench = Bench::new();
    bench.close(B);
    bench.start_turn(A, "t", "u");
    bench.close(A);
    for _ in 0..5 {
        bench.refuse("turn/interrupt", false);
        bench.wait(limits().retry);
    }
    assert_eq!(bench.interrupted(), [""; 0]);
    bench.wait(limits().settle);
    assert_eq!(bench.core.due(), None);
    bench.turn_started("t", "u");
    assert_eq!(bench.interrupted(), ["u"], "it starts at last");
}

#[test]
fn a_review_that_refused_every_interrupt_is_interrupted_when_the_turn_inside_of_it_starts() {
    let mut bench = Bench::new();
    bench.ask(A, "review/start", json!({ "threadId": "t", "delivery": "inline" }));
    let answer = json!({ "turn": { "id": "u", "status": "inProgress" }, "reviewThreadId": "t" });
    bench.answer("review/start", answer);
    bench.close(A);
    for _ in 0..5 {
        bench.refuse("turn/interrupt", false);
        bench.wait(limits().retry);
    }
    assert_eq!(bench.interrupted(), [""; 0]);
    let inner = json!({ "id": "inner", "rootTurnId": "u", "status": "inProgress" });
    bench.notify("turn/started", json!({ "threadId": "t", "turn": inner }));
    assert_eq!(bench.interrupted(), ["u"], "it starts at last");
    bench.turn_completed("t", "u");
    assert!(bench.admits(B));
}

/// The app-server may not know the turn of a subagent any more, and then it reports no end of it.
#[test]
fn a_subagent_that_refuses_every_interrupt_holds_no_start_back() {
    let mut bench = Bench::new();
    bench.start_behind_an_abandoned_subagent();
    for _ in 0..4 {
        bench.refuse("turn/interrupt", false);
        assert!(bench.received.is_empty(), "the subagent may still work");
        bench.wait(limits().retry);
    }
    bench.refuse("turn/interrupt", false);
    bench.answer("turn/start", started("w"));
    bench.subagent_started();
    assert_eq!(bench.interrupted(), ["v"], "it starts at last");
}

#[test]
fn the_turns_of_subagents_are_interrupted_too() {
    let mut bench = Bench::new();
    bench.start_turn(A, "t", "u");
    let turn = json!({ "id": "v", "rootTurnId": "u", "status": "inProgress" });
    bench.notify("turn/started", json!({ "threadId": "s", "turn": turn }));
    let over = json!({ "id": "w", "rootTurnId": "u", "status": "inProgress" });
    bench.notify("turn/started", json!({ "threadId": "s2", "turn": over }));
    bench.turn_completed("s2", "w");
    bench.turn_completed("t", "u");
    bench.close(A);
    assert_eq!(bench.interrupted(), ["v"]);
    let late = json!({ "id": "x", "rootTurnId": "u", "status": "inProgress" });
    bench.notify("turn/started", json!({ "threadId": "s3", "turn": late }));
    assert_eq!(bench.interrupted(), ["x"]);
}

/// The app-server may report that the thread of a subagent is idle instead of the end of its turn.
#[test]
fn a_subagent_whose_thread_rests_holds_no_start_back() {
    for kind in ["idle", "systemError"] {
        let mut bench = Bench::new();
        bench.start_turn(A, "t", "u");
        let turn = json!({ "id": "v", "rootTurnId": "u", "status": "inProgress" });
        bench.notify("turn/started", json!({ "threadId": "s", "turn": turn }));
        let rests = json!({ "threadId": "s", "status": { "type": kind } });
        bench.notify("thread/status/changed", rests);
        bench.turn_completed("t", "u");
        bench.close(A);
        assert_eq!(bench.interrupted(), [""; 0], "{kind}");
        bench.ask(B, "turn/start", json!({ "threadId": "t" }));
        bench.take("turn/start");
    }
}

#[test]
fn a_thread_that_rests_ends_no_turn_of_a_client() {
    let mut bench = Bench::new();
    bench.start_turn(A, "t", "u");
    bench.notify("thread/status/changed", json!({ "threadId": "t", "status": { "type": "idle" } }));
    assert!(!bench.admits(B));
    bench.close(A);
    assert_eq!(bench.interrupted(), ["u"]);
}

#[test]
fn a_start_waits_until_the_abandoned_turn_on_its_thread_has_ended() {
    let mut bench = Bench::new();
    bench.start_turn(A, "t", "u");
    bench.close(A);
    let id = bench.ask(B, "turn/start", json!({ "threadId": "t" }));
    assert_eq!(bench.interrupted(), ["u"]);
    assert!(bench.received.is_empty(), "the app-server would add the input to the old turn");
    bench.open(A);
    assert!(!bench.admits(A), "the waiting start is live work");
    bench.turn_completed("t", "u");
    bench.answer("turn/start", started("v"));
    assert_eq!(bench.reply(B, id)["result"]["turn"]["id"], "v");
    assert_eq!(bench.seen(B), [""; 0]);
}

#[test]
fn a_start_waits_for_an_abandoned_turn_only_for_a_while() {
    let mut bench = Bench::new();
    bench.start_turn(A, "t", "u");
    bench.close(A);
    bench.ask(B, "turn/start", json!({ "threadId": "t" }));
    bench.wait(limits().settle);
    bench.take("turn/start");
}

#[test]
fn a_waiting_start_leaves_with_its_client() {
    let mut bench = Bench::new();
    bench.start_turn(A, "t", "u");
    bench.close(A);
    bench.ask(B, "turn/start", json!({ "threadId": "t" }));
    bench.close(B);
    bench.turn_completed("t", "u");
    assert!(bench.received.iter().all(|received| received.method != "turn/start"));
}

#[test]
fn a_start_that_is_answered_after_its_deadline_is_interrupted() {
    let mut bench = Bench::new();
    let id = bench.ask(A, "turn/start", json!({ "threadId": "t" }));
    let ticket = bench.refuse("turn/start", true);
    assert_eq!(bench.code(A, id), -32600);
    assert!(bench.admits(B));
    bench.wait(600 * S);
    bench.late(ticket, started("u"));
    assert_eq!(bench.interrupted(), ["u"]);
    bench.item("t", "u", "late");
    assert_eq!(bench.seen(A), [""; 0]);
}

#[test]
fn a_start_without_an_answer_is_answered_with_the_turn_that_was_reported() {
    let mut bench = Bench::new();
    let id = bench.ask(A, "review/start", json!({ "threadId": "t", "delivery": "inline" }));
    bench.turn_started("t", "u");
    bench.turn_started("t", "inner");
    let ticket = bench.refuse("review/start", true);
    let answer = bench.reply(A, id)["result"].take();
    assert_eq!((&answer["turn"]["id"], &answer["reviewThreadId"]), (&json!("u"), &json!("t")));
    assert_eq!(answer["turn"]["status"], json!("inProgress"));
    assert_eq!(bench.interrupted(), [""; 0], "its client follows it");
    assert!(!bench.admits(B), "the turn runs");
    bench.item("t", "u", "news");
    assert_eq!(bench.seen(A).last().unwrap(), "news");
    bench.turn_completed("t", "u");
    assert!(bench.admits(B));
    bench.late(ticket, started("u"));
    assert!(bench.admits(B), "the late answer says nothing new");
}

#[test]
fn a_client_learns_from_the_late_answer_that_its_turn_is_over() {
    let mut bench = Bench::new();
    let id = bench.ask(A, "turn/start", json!({ "threadId": "t" }));
    bench.turn_started("t", "u");
    let ticket = bench.refuse("turn/start", true);
    bench.reply(A, id);
    let over = json!({ "id": "u", "status": "failed", "error": { "message": "no" } });
    bench.late(ticket, json!({ "turn": over }));
    let end = bench.pull(A).pop().unwrap();
    assert_eq!(
        (&end["method"], &end["params"]["threadId"]),
        (&json!("turn/completed"), &json!("t"))
    );
    let turn = &end["params"]["turn"];
    assert_eq!((&turn["id"], &turn["status"]), (&json!("u"), &json!("failed")));
    assert_eq!(turn["error"]["message"], json!("no"));
    assert!(bench.admits(B));
    bench.turn_completed("t", "u");
    assert_eq!(bench.seen(B), [""; 0]);
}

#[test]
fn a_broker_that_remembers_one_thread_knows_of_a_turn_without_an_answer() {
    let mut bench = Bench::new();
    bench.core.limits.threads = 1;
    let id = bench.ask(A, "turn/start", json!({ "threadId": "t" }));
    bench.turn_started("t", "u");
    bench.refuse("turn/start", true);
    assert_eq!(bench.reply(A, id)["result"]["turn"]["id"], json!("u"));
    assert_eq!(bench.interrupted(), [""; 0], "its client follows it");

    let mut bench = Bench::new();
    bench.core.limits.threads = 1;
    let id = bench.ask(A, "review/start", json!({ "threadId": "t", "delivery": "inline" }));
    let inner = json!({ "id": "inner", "rootTurnId": "u", "status": "inProgress" });
    bench.notify("turn/started", json!({ "threadId": "t", "turn": inner }));
    bench.refuse("review/start", true);
    assert_eq!(bench.reply(A, id)["result"]["turn"]["id"], json!("u"));
}

#[test]
fn a_review_whose_inner_turn_names_it_is_interrupted_without_an_answer() {
    let mut bench = Bench::new();
    bench.ask(A, "review/start", json!({ "threadId": "t", "delivery": "inline" }));
    let inner = json!({ "id": "inner", "rootTurnId": "u", "status": "inProgress" });
    bench.notify("turn/started", json!({ "threadId": "t", "turn": inner }));
    bench.refuse("review/start", true);
    bench.close(A);
    assert_eq!(bench.interrupted(), ["u"]);
}

#[test]
fn the_late_answer_names_a_review_that_was_reported_with_another_id() {
    let mut bench = Bench::new();
    bench.ask(A, "review/start", json!({ "threadId": "t", "delivery": "inline" }));
    bench.turn_started("t", "inner");
    let ticket = bench.refuse("review/start", true);
    bench.late(ticket, started("u"));
    bench.close(A);
    assert_eq!(bench.interrupted(), ["u"]);

    let mut bench = Bench::new();
    bench.ask(A, "review/start", json!({ "threadId": "t", "delivery": "inline" }));
    bench.turn_started("t", "inner");
    let ticket = bench.refuse("review/start", true);
    bench.turn_completed("t", "u");
    bench.late(ticket, started("u"));
    assert!(bench.admits(B), "the review is over");
}

#[test]
fn a_start_without_an_answer_whose_client_has_left_is_interrupted() {
    let mut bench = Bench::new();
    bench.ask(A, "turn/start", json!({ "threadId": "t" }));
    bench.close(A);
    bench.turn_started("t", "u");
    bench.refuse("turn/start", true);
    assert_eq!(bench.interrupted(), ["u"]);
}

#[test]
fn an_unloaded_thread_has_no_turn() {
    let mut bench = Bench::new();
    bench.start_turn(A, "t", "u");
    bench.notify("thread/closed", json!({ "threadId": "t" }));
    assert!(bench.admits(B));
    assert_eq!(bench.seen(A), ["thread/closed"]);
}

#[test]
fn a_turn_that_starts_after_it_was_given_up_holds_its_thread_only_for_a_while() {
    let mut bench = Bench::new();
    bench.start_turn(A, "t", "u");
    bench.close(A);
    assert_eq!(bench.interrupted(), ["u"]);
    bench.wait(limits().settle);
    bench.turn_started("t", "u");
    assert_eq!(bench.interrupted(), ["u"]);
    bench.ask(B, "turn/start", json!({ "threadId": "t" }));
    bench.wait(limits().settle - S);
    assert!(bench.received.is_empty(), "the turn may still run");
    bench.wait(S);
    bench.take("turn/start");
}

/// A client without the id of its turn asks for the interrupt of what runs on the thread. Once the broker
/// has given the turn up, that may be the turn of another client.
#[test]
fn an_interrupt_of_a_turn_that_was_given_up_does_not_end_the_next_one() {
    let mut bench = Bench::new();
    bench.ask(A, "turn/start", json!({ "threadId": "t" }));
    bench.answer("turn/start", json!({ "turn": { "status": "inProgress" } }));
    bench.wait(limits().settle);
    bench.start_turn(B, "t", "u");
    let whatever_runs = json!({ "threadId": "t", "turnId": "" });
    let id = bench.ask(A, "turn/interrupt", whatever_runs.clone());
    assert_eq!(bench.code(A, id), code::SERVER);
    assert_eq!(bench.interrupted(), [""; 0]);
    bench.open(ClientId(3));
    bench.ask(ClientId(3), "turn/interrupt", whatever_runs);
    assert_eq!(bench.interrupted(), [""], "a client without a turn means the one that runs");
}

/// A start without an answer is abandoned, although its client is connected.
#[test]
fn an_interrupt_of_a_start_without_an_answer_does_not_end_the_next_turn() {
    let mut bench = Bench::new();
    bench.ask(A, "turn/start", json!({ "threadId": "t" }));
    bench.refuse("turn/start", true);
    bench.wait(limits().settle + limits().connection.request);
    bench.start_turn(B, "t", "u");
    let id = bench.ask(A, "turn/interrupt", json!({ "threadId": "t", "turnId": "" }));
    assert_eq!(bench.code(A, id), code::SERVER);
    assert_eq!(bench.interrupted(), [""; 0]);
}

/// The answer to its start may contain no id. The first report of the turn then has it.
#[test]
fn a_turn_that_is_named_after_its_answer_may_run_as_long_as_any_other() {
    let mut bench = Bench::new();
    bench.ask(A, "turn/start", json!({ "threadId": "t" }));
    bench.answer("turn/start", json!({ "turn": { "status": "inProgress" } }));
    bench.wait(S);
    bench.turn_started("t", "u");
    bench.wait(limits().turn - 2 * S);
    assert_eq!(bench.interrupted(), [""; 0]);
    bench.wait(S);
    assert_eq!(bench.interrupted(), ["u"]);
}

#[test]
fn a_detached_review_that_ended_before_its_late_answer_is_not_interrupted() {
    let mut bench = Bench::new();
    let ticket = bench.end_a_review_without_an_answer();
    let before = bench.received.len();
    bench.late(ticket, json!({ "turn": { "id": "u" }, "reviewThreadId": "r" }));
    assert_eq!((bench.received.len(), bench.core.counts().turns), (before, 0));
}

#[test]
fn a_late_answer_delivers_what_came_before_it() {
    let mut bench = Bench::new();
    bench.start_turn(B, "t2", "v");
    bench.close(B);
    assert_eq!(bench.interrupted(), ["v"]);
    bench.ask(A, "review/start", json!({ "threadId": "t", "delivery": "detached" }));
    let ticket = bench.refuse("review/start", true);
    bench.close(A);
    bench.turn_started("r", "u");
    bench.turn_completed("r", "u");
    bench.late(ticket, json!({ "turn": { "id": "u" }, "reviewThreadId": "r" }));
    assert_eq!(bench.interrupted(), [""; 0], "the review has ended");
    bench.turn_completed("t2", "v");
    assert_eq!((bench.core.counts().turns, bench.core.counts().unclaimed_bytes), (0, 0));
}

/// The broker reads the report of its start only after the answer.
#[test]
fn a_detached_review_that_is_over_at_its_late_answer_does_not_start_again() {
    let mut bench = Bench::new();
    bench.start_turn(B, "t2", "v");
    bench.close(B);
    assert_eq!(bench.interrupted(), ["v"]);
    bench.ask(A, "review/start", json!({ "threadId": "t", "delivery": "detached" }));
    let ticket = bench.refuse("review/start", true);
    bench.close(A);
    bench.turn_started("r", "u");
    let over = json!({ "id": "u", "status": "completed" });
    bench.late(ticket, json!({ "turn": over, "reviewThreadId": "r" }));
    assert_eq!(bench.interrupted(), [""; 0], "the review has ended");
    bench.turn_completed("t2", "v");
    assert_eq!((bench.core.counts().turns, bench.core.counts().unclaimed_bytes), (0, 0));
}

#[test]
fn the_ends_of_many_other_turns_do_not_hide_the_end_of_a_turn() {
    let mut bench = Bench::new();
    bench.ask(A, "turn/start", json!({ "threadId": "t" }));
    for n in 0..=limits().threads {
        bench.turn_completed("t", &format!("earlier {n}"));
    }
    bench.turn_completed("t", "u");
    bench.answer("turn/start", started("u"));
    assert!(bench.admits(B));
}
