//! Tests of starts: with a known outcome, with an unknown outcome, and with a dropped caller.

use super::*;
use crate::wire::process::StartParams;

#[tokio::test(start_paused = true)]
async fn events_before_the_answer_are_read_after_it() {
    let mut test = CoreTest::connected();
    let (p1, mut started) = test.start("p1");
    let (id, _) = test.expect_request("process/start");
    test.on_report(CoreTest::output("p1", 1, "a"));
    test.on_report(CoreTest::exited("p1", 2, 0));
    test.on_report(CoreTest::closed("p1", 3));
    test.reply(id, &json!({ "processId": "p1" }));
    assert!(matches!(ended(&mut started), Some(Ok(_))));
    assert_eq!((p1.events_text().as_str(), test.core.resources().held_back_events), ("", 0));
    let id = test.expect_read("p1", 0);
    test.reply(id, &answer(&[(1, "a")], 4, Some(0), true));
    assert_eq!(
        (p1.events_text().as_str(), test.core.resources().processes),
        ("1=a 2=exit(0) 3=closed", 0)
    );
}

#[tokio::test(start_paused = true)]
async fn events_of_an_older_process_are_not_published_for_a_newer_one() {
    let (mut test, [older]) = CoreTest::running(["p1"]);
    test.command(Command::Release(older.key));
    let (newer, _started) = test.start("p1");
    let (id, _) = test.expect_request("process/start");
    test.on_report(CoreTest::output("p1", 1, "older"));
    test.on_report(CoreTest::exited("p1", 2, 0));
    test.on_report(CoreTest::closed("p1", 3));
    test.reply(id, &json!({ "processId": "p1" }));
    test.on_report(CoreTest::output("p1", 1, "newer"));
    assert_eq!(newer.events_text(), "1=newer");
    let id = test.expect_read("p1", 0);
    test.reply(id, &answer(&[(1, "newer")], 2, None, false));
    assert_eq!((newer.events_text().as_str(), test.core.resources().processes), ("1=newer", 1));
}

#[tokio::test(start_paused = true)]
async fn an_id_is_taken_by_a_start_and_free_after_its_refusal() {
    let mut test = CoreTest::connected();
    let (_p1, mut first) = test.start("p1");
    let (_, mut second) = test.start("p1");
    assert_eq!(ended(&mut second), Some(Err(Failure::IdTaken)));
    let (id, _) = test.expect_request("process/start");
    test.refuse(id, code::INTERNAL, "no such program");
    let refused = Failure::Refused { code: code::INTERNAL, message: "no such program".into() };
    assert_eq!(ended(&mut first), Some(Err(refused)));
    test.started("p1");
}

#[tokio::test(start_paused = true)]
async fn a_start_in_flight_at_a_cut_fails_and_the_process_is_terminated() {
    let mut test = CoreTest::connected();
    let (p1, mut started) = test.start("p1");
    test.cut();
    assert_eq!(ended(&mut started), Some(Err(Failure::ConnectionLost)));
    test.complete_handshake();
    assert_eq!(test.state(), State::Connected, "nobody waits for the end of what is left");
    let (id, params) = test.expect_request("process/terminate");
    assert_eq!(params, json!({ "processId": "p1" }));
    test.on_report(CoreTest::output("p1", 1, "orphan"));
    let (_, mut again) = test.start("p1");
    assert_eq!((ended(&mut again), p1.events_text().as_str()), (Some(Err(Failure::IdTaken)), ""));
    test.reply(id, &json!({ "running": true }));
    let newer = test.started("p1");
    test.on_report(CoreTest::output("p1", 1, "newer"));
    assert_eq!(newer.events_text(), "1=newer");
}

#[tokio::test(start_paused = true)]
async fn a_termination_is_requested_until_it_is_answered() {
    let mut test = CoreTest::connected();
    let (_p1, _started) = test.start("p1");
    for _ in 0..3 {
        test.cut();
        test.advance(millis(1000));
        test.complete_handshake();
        test.expect_request("process/terminate");
        assert_eq!(test.core.resources().endings, 1);
    }
    test.cut();
    test.advance(millis(1000));
    test.complete_handshake();
    let (id, _) = test.expect_request("process/terminate");
    test.refuse(id, code::INTERNAL, "busy");
    test.advance(millis(1000));
    let (id, _) = test.expect_request("process/terminate");
    test.reply(id, &json!({ "running": false }));
    assert_eq!(test.core.resources().endings, 0);
}

#[tokio::test(start_paused = true)]
async fn a_start_that_was_not_sent_waits_and_is_sent_once() {
    let mut test = CoreTest::new();
    let (_p1, mut started) = test.start("p1");
    test.advance(millis(500));
    test.complete_handshake();
    let (id, _) = test.expect_request("process/start");
    test.reply(id, &json!({ "processId": "p1" }));
    assert!(matches!(ended(&mut started), Some(Ok(_))));
    assert!(test.nothing_sent());
}

#[tokio::test(start_paused = true)]
async fn a_start_whose_caller_is_dropped_before_it_is_sent_is_never_sent() {
    let mut test = CoreTest::new();
    let (p1, started) = test.start("p1");
    drop(started);
    test.command(Command::Abandon(p1.key));
    assert_eq!(test.core.resources(), crate::client::ClientResources::default());
    test.complete_handshake();
    assert!(test.nothing_sent());
}

#[tokio::test(start_paused = true)]
async fn a_start_whose_caller_is_dropped_in_flight_leaves_no_process() {
    let mut test = CoreTest::connected();
    let (p1, started) = test.start("p1");
    drop(started);
    test.command(Command::Abandon(p1.key));
    let (id, _) = test.expect_request("process/start");
    assert!(test.nothing_sent(), "whether there is anything to end is not known yet");
    test.reply(id, &json!({ "processId": "p1" }));
    let (id, _) = test.expect_request("process/terminate");
    test.reply(id, &json!({ "running": true }));
    assert_eq!(test.core.resources(), crate::client::ClientResources::default());
}

#[tokio::test(start_paused = true)]
async fn a_start_whose_caller_is_dropped_after_the_answer_leaves_no_process() {
    let (mut test, [p1]) = CoreTest::running(["p1"]);
    test.command(Command::Abandon(p1.key.clone()));
    test.expect_request("process/terminate");
    test.command(Command::Abandon(p1.key));
    assert!(test.nothing_sent());
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_start_fails_at_its_deadline_and_is_terminated() {
    let mut test = CoreTest::connected();
    let (_p1, mut started) = test.start("p1");
    test.expect_request("process/start");
    test.advance(millis(60_000));
    assert_eq!(ended(&mut started), Some(Err(Failure::Unanswered)));
    test.expect_request("process/terminate");
}

#[tokio::test(start_paused = true)]
async fn only_running_processes_are_caught_up() {
    let (mut test, [_p1]) = CoreTest::running(["p1"]);
    let (_p2, _started) = test.start("p2");
    test.cut();
    let (_p3, _waits) = test.start("p3");
    test.complete_handshake();
    let id = test.expect_read("p1", 0);
    test.expect_request("process/terminate");
    assert!(test.nothing_sent());
    test.reply(id, &answer(&[], 1, None, false));
    test.expect_request("process/start");
}

/// Creates a connected core with `p1` started and closed. The test still holds `p1`.
fn over() -> (CoreTest, ObservedProcess) {
    let mut test = CoreTest::connected();
    let older = test.started("p1");
    test.on_report(CoreTest::exited("p1", 1, 0));
    test.on_report(CoreTest::closed("p1", 2));
    (test, older)
}

#[tokio::test(start_paused = true)]
async fn a_handle_of_an_older_process_never_reaches_a_newer_one() {
    let (mut test, older) = over();
    let newer = test.started("p1");
    test.on_report(CoreTest::exited("p1", 1, 0));
    test.on_report(CoreTest::closed("p1", 2));
    let mut read = |seen| ended(&mut test.request(RetryPolicy::Read, "process/read", Some(seen)));
    assert_eq!((read(&older), read(&newer)), (Some(Err(Failure::Superseded)), None));
    test.command(Command::Release(newer.key.clone()));
    assert_eq!(
        ended(&mut test.request(RetryPolicy::Read, "process/read", Some(&older))),
        Some(Err(Failure::Superseded))
    );
}

#[tokio::test(start_paused = true)]
async fn a_start_whose_outcome_is_unknown_supersedes_and_a_refused_one_does_not() {
    let (mut test, older) = over();
    let (_newer, _) = test.start("p1");
    let (id, _) = test.expect_request("process/start");
    test.refuse(id, code::INVALID_REQUEST, "the id is taken");
    assert_eq!(ended(&mut test.request(RetryPolicy::Read, "process/read", Some(&older))), None);
    let (_newest, _) = test.start("p1");
    test.cut();
    test.complete_handshake();
    assert_eq!(
        ended(&mut test.request(RetryPolicy::Read, "process/read", Some(&older))),
        Some(Err(Failure::Superseded))
    );
}

/// Requests a start in the directory `/a b`.
fn start_in_directory(test: &mut CoreTest, id: &str) -> (ObservedProcess, Answer) {
    let (seen, unused) = test.start(id);
    drop(unused);
    test.command(Command::Abandon(seen.key.clone()));
    let cwd = "/a b".parse().unwrap();
    let params = StartParams { process_id: id.into(), cwd, ..StartParams::default() };
    let answer = test.request_with(RetryPolicy::Start, "process/start", Some(&seen), &params);
    (seen, answer)
}

#[tokio::test(start_paused = true)]
async fn the_directory_of_a_start_has_the_form_that_the_server_reads() {
    let mut test = CoreTest::new();
    let (_p1, _started) = start_in_directory(&mut test, "p1");
    let newer = json!({ "sessionId": "s", "environmentInfo": { "cwd": "file:///srv" } });
    test.complete_handshake_with(&newer);
    let (_, params) = test.expect_request("process/start");
    assert_eq!(params["cwd"], "file:///a%20b");

    test.cut();
    let (_p2, _started) = start_in_directory(&mut test, "p2");
    test.complete_handshake(); // the server was replaced by an older one
    test.expect_request("process/terminate");
    let (_, params) = test.expect_request("process/start");
    assert_eq!(params["cwd"], "/a b");
}
