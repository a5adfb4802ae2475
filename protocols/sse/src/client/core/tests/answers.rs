//! Tests of the core with the heads of answers.

use super::*;

#[test]
fn a_lost_answer_repeats_the_start_with_the_same_id() {
    let mut play = Play::start(Dialect::Reknit);
    for _ in 0..3 {
        assert_eq!(play.until_step().1, r#"start Some("c")"#);
        play.core.lost(Loss::NoAnswer, play.now);
    }
    play.streams().lost();
    assert_eq!(play.until_step().1, "resume c 0000000000000007-0");
}

#[test]
fn an_answer_without_a_run_does_not_confirm_the_start() {
    let mut play = Play::start(Dialect::Reknit);
    play.until_step();
    play.core.opened(None, play.now); // a proxy answers 200 by itself
    play.core.lost(Loss::EndedEarly, play.now);
    assert_eq!(play.until_step().1, r#"start Some("c")"#);
}

#[test]
fn each_attempt_has_a_higher_number() {
    let mut play = Play::follow();
    for attempt in 1..4 {
        let Step::Open(order) = play.core.step(play.now) else { panic!("it does not open") };
        assert_eq!(order.owner.map(|owner| owner.to_string()), Some(format!("me.{attempt}")));
        play.lost();
        play.now = play.core.due().unwrap();
    }
}

#[test]
fn refusals_that_cannot_pass_are_failures_at_once() {
    for (status, code, shown) in [
        (404, "COMMAND_NOT_FOUND", "failed: the server does not have the command any more"),
        (
            404,
            "COMMAND_EXPIRED",
            "failed: the command has ended, and its output is no longer available",
        ),
        (404, "", "failed: the server refuses the request: 404 : no"),
        (400, "CURSOR_FOREIGN", "failed: the server has another run of the command"),
        (400, "CURSOR_FUTURE", "failed: the server refuses the request: 400 CURSOR_FUTURE: no"),
        (400, "NOT_RESUMABLE", "failed: the server refuses the request: 400 NOT_RESUMABLE: no"),
        (401, "", "failed: the server refuses the request: 401 : no"),
        (
            409,
            "STREAM_SUPERSEDED",
            "failed: the server refuses the request: 409 STREAM_SUPERSEDED: no",
        ),
        (204, "", "failed: the server refuses the request: 204 : no"),
    ] {
        let mut play = Play::follow();
        play.step();
        play.refuses(status, code, None);
        assert_eq!((play.step(), play.step()), (shown.to_owned(), shown.to_owned()));
        assert_eq!(play.core.due(), None);
    }
}

#[test]
fn an_active_stream_is_waited_for_as_long_as_the_server_says() {
    let mut play = Play::follow();
    play.step();
    play.refuses(409, "STREAM_ACTIVE", Some(7000));
    assert_eq!(play.until_step(), (7 * SECOND, "resume c 0".to_owned()));
    play.refuses(503, "", None);
    assert_eq!(play.until_step().1, "resume c 0");
}

#[test]
fn no_wait_exceeds_the_budget() {
    let mut play = Play::follow();
    play.step();
    play.refuses(409, "STREAM_ACTIVE", Some(u64::MAX));
    let (time, step) = play.until_step();
    assert_eq!(time, ClientLimits::default().budget);
    assert_eq!(
        step,
        "failed: no progress for too long; the last attempt: refused: 409 STREAM_ACTIVE: no"
    );
}

#[test]
fn an_attempt_that_the_budget_cuts_short_is_not_the_reason() {
    let mut play = Play::follow();
    play.step();
    play.refuses(503, "SERVICE_UNAVAILABLE", Some(55_000));
    assert_eq!(play.until_step(), (55 * SECOND, "resume c 0".to_owned()));
    let (time, step) = play.until_step();
    assert_eq!(time, 5 * SECOND);
    assert_eq!(
        step,
        "failed: no progress for too long; the last attempt: refused: 503 SERVICE_UNAVAILABLE: no"
    );
}

#[test]
fn a_stream_of_another_run_is_a_failure() {
    let mut play = Play::follow();
    play.streams().prints(1);
    play.lost().until_step();
    play.core.opened(Some(Epoch(8)), play.now);
    assert_eq!(play.step(), "failed: the server has another run of the command");
}

#[test]
fn an_answer_to_an_attempt_that_is_over_has_no_effect() {
    let mut play = Play::follow();
    play.step();
    play.sleep(ClientLimits::default().open_timeout);
    play.core.opened(Some(Epoch(8)), play.now);
    play.refuses(404, "COMMAND_NOT_FOUND", None);
    assert_eq!(play.until_step().1, "resume c 0");
}
