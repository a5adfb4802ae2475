//! The start and the end of the broker.

use super::*;

#[test]
fn initialize_is_answered_once_the_app_server_has_answered() {
    let mut bench = Bench::starting();
    bench.open(A);
    let hello = bench.ask(A, "initialize", json!({}));
    let request = bench.ask(A, "account/read", json!({}));
    assert_eq!(bench.try_reply(A, hello), None);
    bench.answer("initialize", json!({ "userAgent": "codex" }));
    assert_eq!(bench.notified, ["initialized"]);
    assert_eq!(bench.reply(A, hello)["result"], json!({ "userAgent": "codex" }));
    bench.answer("account/read", json!({}));
    bench.reply(A, request);
}

#[test]
fn initialize_is_answered_while_another_client_works() {
    let mut bench = Bench::new();
    bench.start_turn(A, "t", "u");
    let hello = bench.ask(B, "initialize", json!({}));
    assert_eq!(bench.reply(B, hello)["result"], json!({ "userAgent": "codex" }));
}

#[test]
fn an_app_server_that_refuses_to_initialize_ends_the_broker() {
    let mut bench = Bench::starting();
    bench.open(A);
    let hello = bench.ask(A, "initialize", json!({}));
    bench.refuse("initialize", false);
    assert_eq!(bench.code(A, hello), code::SERVER);
    assert_eq!(bench.core.over(A), Some(CutReason::BrokerEnds));
    assert!(bench.closed);
    bench.upstream_ends();
    assert_eq!(bench.core.exit(), Some(&BrokerExit::NotInitialized("no".into())));
    assert_eq!(bench.core.exit().unwrap().status(), 1);
}

#[test]
fn the_end_of_the_app_server_ends_the_broker_with_a_failure() {
    let mut bench = Bench::new();
    bench.start_turn(A, "t", "u");
    let id = bench.ask(A, "account/read", json!({}));
    bench.item("t", "u", "last");
    bench.upstream_ends();
    let refusal = bench.reply(A, id);
    let why = "the app-server disconnected (exit code 3)";
    assert_eq!(refusal["error"], json!({ "code": code::SERVER, "message": why }));
    assert_eq!(bench.seen(A), ["last"], "everything that was received is delivered");
    for client in [A, B] {
        assert_eq!(bench.core.over(client), Some(CutReason::BrokerEnds));
    }
    let Some(exit @ BrokerExit::UpstreamEnded(_)) = bench.core.exit() else { panic!("a crash") };
    assert_eq!(exit.status(), 1);
}

#[test]
fn a_client_that_comes_after_the_end_is_cut() {
    let mut bench = Bench::new();
    bench.upstream_ends();
    let late = ClientId(3);
    bench.open(late);
    assert_eq!(bench.core.over(late), Some(CutReason::BrokerEnds));
}

#[test]
fn a_shutdown_without_work_ends_at_once_and_without_a_failure() {
    let mut bench = Bench::new();
    let id = bench.ask(A, "broker/shutdown", json!({}));
    assert_eq!(bench.reply(A, id)["result"], json!({}));
    assert_eq!(bench.core.over(A), Some(CutReason::BrokerEnds));
    assert!(bench.closed);
    assert_eq!(bench.core.exit(), None, "the app-server has not ended");
    bench.upstream_ends();
    assert_eq!(bench.core.exit(), Some(&BrokerExit::Asked));
    assert_eq!(bench.core.exit().unwrap().status(), 0);
}

#[test]
fn a_shutdown_interrupts_turns_and_delivers_their_ends() {
    let mut bench = Bench::new();
    bench.start_turn(A, "t", "u");
    bench.ask(B, "broker/shutdown", json!({}));
    assert_eq!(bench.interrupted(), ["u"]);
    assert!(!bench.closed);
    assert_eq!(bench.core.over(A), None);
    let refused = bench.ask(A, "account/read", json!({}));
    assert_eq!(bench.code(A, refused), code::SERVER);
    bench.turn_completed("t", "u");
    assert_eq!(bench.seen(A), ["turn/completed"]);
    assert_eq!(bench.core.over(A), Some(CutReason::BrokerEnds));
    assert!(bench.closed);
}

#[test]
fn a_shutdown_interrupts_a_turn_that_is_just_starting() {
    let mut bench = Bench::new();
    bench.ask(A, "turn/start", json!({ "threadId": "t" }));
    bench.core.shutdown(bench.now);
    bench.carry_out();
    assert!(!bench.closed);
    bench.answer("turn/start", started("u"));
    assert_eq!(bench.interrupted(), ["u"]);
    bench.turn_completed("t", "u");
    assert!(bench.closed);
    assert_eq!(bench.seen(A), ["answer", "turn/completed"]);
}

#[test]
fn a_shutdown_does_not_wait_for_ever() {
    let mut bench = Bench::new();
    bench.start_turn(A, "t", "u");
    let id = bench.ask(A, "account/read", json!({}));
    bench.core.shutdown(bench.now);
    bench.wait(limits().shutdown);
    assert!(bench.closed);
    assert_eq!(bench.code(A, id), code::SERVER);
    assert_eq!(bench.core.over(A), Some(CutReason::BrokerEnds));
}

#[test]
fn an_app_server_that_ends_during_a_shutdown_is_no_failure() {
    let mut bench = Bench::new();
    bench.start_turn(A, "t", "u");
    bench.core.shutdown(bench.now);
    bench.upstream_ends();
    assert_eq!(bench.core.exit(), Some(&BrokerExit::Asked));
    assert_eq!(bench.core.over(A), Some(CutReason::BrokerEnds));
}

#[test]
fn a_second_shutdown_changes_nothing() {
    let mut bench = Bench::new();
    bench.start_turn(A, "t", "u");
    bench.core.shutdown(bench.now);
    bench.wait(limits().shutdown - S);
    let id = bench.ask(B, "broker/shutdown", json!({}));
    assert_eq!(bench.reply(B, id)["result"], json!({}));
    bench.wait(S);
    assert!(bench.closed);
}

#[test]
fn a_waiting_client_is_refused_at_a_shutdown() {
    let mut bench = Bench::starting();
    bench.open(A);
    let hello = bench.ask(A, "initialize", json!({}));
    bench.core.shutdown(bench.now);
    bench.carry_out();
    assert_eq!(bench.code(A, hello), code::SERVER);
    assert!(bench.closed);
    bench.answer("initialize", json!({}));
    bench.upstream_ends();
    assert_eq!(bench.core.exit(), Some(&BrokerExit::Asked));
}
