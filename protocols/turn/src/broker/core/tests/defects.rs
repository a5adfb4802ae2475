//! Each seeded bug of the broker's core has the wrong outcome that it re-creates.

use super::*;
use crate::testing::with_defect;

#[test]
fn fast_turn_stays_live() {
    with_defect("FastTurnStaysLive", || {
        let mut bench = Bench::new();
        bench.ask(A, "turn/start", json!({ "threadId": "t" }));
        bench.turn_completed("t", "u");
        bench.answer("turn/start", started("u"));
        assert!(!bench.admits(B), "busy for a turn that is over");
    });
}

#[test]
fn start_of_a_gone_client_stays_live() {
    with_defect("StartOfAGoneClientStaysLive", || {
        let mut bench = Bench::new();
        bench.ask(A, "turn/start", json!({ "threadId": "t" }));
        bench.close(A);
        bench.answer("turn/start", started("u"));
        assert_eq!(bench.interrupted(), [""; 0]);
        assert!(!bench.admits(B), "busy for a client that has disconnected");
    });
}

#[test]
fn timeout_ends_a_reported_turn() {
    with_defect("TimeoutEndsAReportedTurn", || {
        let mut bench = Bench::new();
        bench.ask(A, "turn/start", json!({ "threadId": "t" }));
        bench.turn_started("t", "u");
        bench.refuse("turn/start", true);
        assert_eq!(bench.interrupted(), ["u"], "although its client follows it");
    });
}

#[test]
fn abandoned_turn_runs_on() {
    with_defect("AbandonedTurnRunsOn", || {
        let mut bench = Bench::new();
        bench.start_turn(A, "t", "u");
        bench.close(A);
        assert_eq!(bench.interrupted(), [""; 0]);
    });
}

#[test]
fn abandoned_news_are_shared() {
    with_defect("AbandonedNewsAreShared", || {
        let mut bench = Bench::new();
        bench.start_turn(A, "t", "u");
        bench.close(A);
        bench.start_turn(B, "t2", "u2");
        bench.item("t", "u", "late");
        assert_eq!(bench.seen(B), ["late"]);
    });
}

#[test]
fn unclaimed_news_are_shared() {
    let seen = || {
        let mut bench = Bench::new();
        bench.start_turn(A, "t", "u");
        bench.close(A);
        bench.start_turn(B, "t2", "u2");
        bench.item("s", "v", "of a subagent");
        bench.seen(B)
    };
    assert_eq!(seen(), [""; 0]);
    with_defect("UnclaimedNewsAreShared", || assert_eq!(seen(), ["of a subagent"]));
}

#[test]
fn sent_bytes_stay_counted() {
    let seen = || {
        let mut bench = Bench::new();
        bench.start_turn(A, "t", "u");
        for _ in 0..2 {
            bench.item("t", "u", &"x".repeat(9_000));
            assert_eq!(bench.seen(A).len(), 1);
        }
        bench.item("t", "u", &"x".repeat(3_000));
        bench.seen(A).len()
    };
    assert_eq!(seen(), 1);
    with_defect("SentBytesStayCounted", || assert_eq!(seen(), 0, "it is cut off"));
}

#[test]
fn owner_per_socket() {
    with_defect("OwnerPerSocket", || {
        let mut bench = Bench::new();
        bench.start_turn(A, "t", "u");
        bench.close(A);
        bench.start_turn(B, "t2", "u2");
        bench.item("t", "u", "late");
        assert_eq!(bench.seen(B), ["late"]);
    });
}

#[test]
fn requests_are_not_counted() {
    with_defect("RequestsAreNotCounted", || {
        let mut bench = Bench::new();
        bench.ask(A, "config/read", json!({}));
        bench.ask(A, "model/list", json!({}));
        bench.answer("config/read", json!({}));
        assert!(bench.admits(B), "although a request of A is in flight");
    });
}

#[test]
fn shared_line_buffer() {
    with_defect("SharedLineBuffer", || {
        let mut bench = Bench::new();
        bench.ask(A, "config/read", json!({}));
        bench.ask(A, "model/list", json!({}));
        assert_eq!(bench.pull(A)[0]["error"]["code"], json!(-32700));
    });
}

#[test]
fn interrupt_is_busy() {
    with_defect("InterruptIsBusy", || {
        let mut bench = Bench::new();
        bench.start_turn(A, "t", "u");
        let id = bench.ask(B, "turn/interrupt", json!({ "threadId": "t", "turnId": "u" }));
        assert_eq!(bench.code(B, id), code::BUSY);
    });
}

#[test]
fn admission_ends_with_the_thread() {
    with_defect("AdmissionEndsWithTheThread", || {
        let mut bench = Bench::new();
        bench.ask(A, "thread/start", json!({}));
        bench.answer("thread/start", json!({ "thread": { "id": "t" } }));
        assert!(bench.admits(B));
    });
}

#[test]
fn answers_without_the_app_server() {
    with_defect("AnswersWithoutTheAppServer", || {
        let mut bench = Bench::starting();
        bench.open(A);
        let hello = bench.ask(A, "initialize", json!({}));
        assert!(bench.reply(A, hello)["result"].is_object());
    });
}

#[test]
fn broker_outlives_the_app_server() {
    with_defect("BrokerOutlivesTheAppServer", || {
        let mut bench = Bench::new();
        bench.start_turn(A, "t", "u");
        bench.upstream_ends();
        assert_eq!((bench.core.exit(), bench.core.over(A)), (None, None));
    });
}

#[test]
fn shutdown_looks_like_a_crash() {
    with_defect("ShutdownLooksLikeACrash", || {
        let mut bench = Bench::new();
        bench.core.shutdown(bench.now);
        bench.upstream_ends();
        assert_eq!(bench.core.exit().map(BrokerExit::status), Some(1));
    });
}

#[test]
fn new_threads_follow_themselves() {
    with_defect("NewThreadsFollowThemselves", || {
        let mut bench = Bench::new();
        bench.start_turn(A, "t", "u");
        bench.close(A);
        bench.start_turn(B, "t2", "u2");
        super::routing::child_before_parent(&mut bench, "t2", "u2");
        assert_eq!(bench.seen(B), ["item/started"]);
    });
}

#[test]
fn unclaimed_threads_are_dropped() {
    with_defect("UnclaimedThreadsAreDropped", || {
        let mut bench = Bench::new();
        bench.start_turn(A, "t", "u");
        bench.close(A);
        bench.ask(B, "review/start", json!({ "threadId": "t2", "delivery": "detached" }));
        bench.item("r", "v", "before the answer");
        let answer = json!({ "turn": { "id": "v" }, "reviewThreadId": "r" });
        bench.answer("review/start", answer);
        assert_eq!(bench.seen(B), ["answer"]);
    });
}

#[test]
fn late_names_run_on() {
    with_defect("LateNamesRunOn", || {
        let mut bench = Bench::new();
        let ticket = bench.end_a_review_without_an_answer();
        bench.late(ticket, json!({ "turn": { "id": "u" }, "reviewThreadId": "r" }));
        assert_eq!(bench.core.counts().turns, 1, "it waits for a turn that has ended");
    });
}

#[test]
fn given_up_turns_stay_over() {
    with_defect("GivenUpTurnsStayOver", || {
        let mut bench = Bench::new();
        bench.ask(A, "review/start", json!({ "threadId": "t", "delivery": "detached" }));
        let ticket = bench.refuse("review/start", true);
        bench.close(A);
        bench.wait((limits().settle + limits().connection.request) * 2);
        bench.late(ticket, json!({ "turn": { "id": "u" }, "reviewThreadId": "r" }));
        assert_eq!(bench.interrupted(), [""; 0], "although the review runs");
    });
}

#[test]
fn late_answers_claim_nothing() {
    with_defect("LateAnswersClaimNothing", || {
        let mut bench = Bench::new();
        bench.start_turn(B, "t2", "v");
        bench.close(B);
        bench.ask(A, "review/start", json!({ "threadId": "t", "delivery": "detached" }));
        let ticket = bench.refuse("review/start", true);
        bench.close(A);
        bench.turn_started("r", "u");
        bench.turn_completed("r", "u");
        bench.turn_completed("t2", "v");
        bench.late(ticket, json!({ "turn": { "id": "u" }, "reviewThreadId": "r" }));
        assert_eq!(bench.interrupted(), ["v", "u"], "the review has ended");
    });
}

#[test]
fn old_ends_take_the_room() {
    with_defect("OldEndsTakeTheRoom", || {
        let mut bench = Bench::new();
        bench.ask(A, "turn/start", json!({ "threadId": "t" }));
        for n in 0..limits().threads {
            bench.turn_completed("t", &format!("earlier {n}"));
        }
        bench.turn_completed("t", "u");
        bench.answer("turn/start", started("u"));
        assert!(!bench.admits(B), "busy for a turn that is over");
    });
}

#[test]
fn adopted_turns_run_on() {
    with_defect("AdoptedTurnsRunOn", || {
        let mut bench = Bench::new();
        bench.ask(A, "turn/start", json!({ "threadId": "t" }));
        bench.turn_started("t", "u");
        bench.turn_completed("t", "u");
        bench.refuse("turn/start", true);
        assert!(!bench.admits(B), "busy for a turn that is over");
        bench.close(A);
        assert_eq!(bench.interrupted(), ["u"]);
    });
}

#[test]
fn refused_interrupt_is_final() {
    with_defect("RefusedInterruptIsFinal", || {
        let mut bench = Bench::new();
        bench.start_turn(A, "t", "u");
        bench.close(A);
        bench.refuse("turn/interrupt", false);
        bench.wait(limits().retry);
        assert_eq!(bench.interrupted(), [""; 0]);
    });
}

#[test]
fn refused_subagents_are_awaited() {
    with_defect("RefusedSubagentsAreAwaited", || {
        let mut bench = Bench::new();
        bench.start_behind_an_abandoned_subagent();
        for _ in 0..5 {
            bench.refuse("turn/interrupt", false);
            bench.wait(limits().retry);
        }
        assert!(bench.received.is_empty(), "although nothing is left to try");
    });
}

#[test]
fn answers_free_the_broker() {
    with_defect("AnswersFreeTheBroker", || {
        let mut bench = Bench::new();
        bench.start_turn(A, "t", "u");
        let item = json!({ "type": "agentMessage", "id": "i", "phase": "final_answer" });
        let params = json!({ "threadId": "t", "turnId": "u", "item": item });
        bench.notify("item/completed", params);
        assert!(bench.admits(B), "although the turn may go on");
    });
}
