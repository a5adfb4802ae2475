//! Tests of calls: without a connection, in flight when a connection dies, and abandoned by their
//! callers.

use super::*;
use crate::client::missing_watch::missing_watch;

#[tokio::test(start_paused = true)]
async fn calls_wait_for_a_connection_and_are_sent_in_order() {
    let (mut test, [p1]) = CoreTest::running(["p1"]);
    test.cut();
    let _answers = ["process/write", "process/signal", "process/read"]
        .map(|method| test.request(RetryPolicy::Other, method, Some(&p1)));
    assert!(test.nothing_sent());
    test.complete_handshake();
    let id = test.expect_read("p1", 0);
    test.reply(id, &answer(&[], 1, None, false));
    for method in ["process/write", "process/signal", "process/read"] {
        test.expect_request(method);
    }
    assert!(test.nothing_sent());
}

#[tokio::test(start_paused = true)]
async fn in_flight_reads_are_resent_and_other_calls_fail() {
    let (mut test, [p1]) = CoreTest::running(["p1"]);
    let mut read = test.request(RetryPolicy::Read, "process/read", Some(&p1));
    let mut others = [RetryPolicy::Write, RetryPolicy::Other]
        .map(|kind| test.request(kind, "process/any", Some(&p1)));
    let (_, params) = test.expect_request("process/read");
    test.cut();
    for answer in &mut others {
        assert_eq!(ended(answer), Some(Err(Failure::ConnectionLost)));
    }
    test.complete_handshake();
    let id = test.expect_read("p1", 0);
    test.reply(id, &answer(&[], 1, None, false));
    let (id, again) = test.expect_request("process/read");
    assert_eq!(again, params, "the same again");
    assert!(test.nothing_sent(), "and nothing else");
    test.reply(id, &json!(1));
    assert_eq!(ended(&mut read), Some(Ok("1".into())));
}

#[tokio::test(start_paused = true)]
async fn a_read_that_is_resent_or_sent_late_waits_for_its_remaining_time() {
    let (mut test, [p1]) = CoreTest::running(["p1"]);
    let mut read = test.request_read(&p1, millis(3_000));
    assert_eq!(
        test.expect_request("process/read").1,
        json!({ "processId": "p1", "waitMs": 3_000 })
    );
    test.cut();
    let _queued = test.request_read(&p1, millis(1_500));
    test.advance(Duration::from_micros(999_600));
    test.complete_handshake();
    let id = test.expect_read("p1", 0);
    test.reply(id, &answer(&[], 1, None, false));
    assert_eq!(
        test.expect_request("process/read").1,
        json!({ "processId": "p1", "waitMs": 1_001 }),
        "1 s and 0.4 ms are left"
    );
    assert_eq!(test.expect_request("process/read").1, json!({ "processId": "p1", "waitMs": 501 }));
    test.cut();
    test.advance(millis(10));
    test.complete_handshake();
    let id = test.expect_read("p1", 0);
    test.reply(id, &answer(&[], 1, None, false));
    for _ in 0..2 {
        assert_eq!(
            test.expect_request("process/read").1,
            json!({ "processId": "p1" }),
            "no time is left to wait"
        );
    }
    assert_eq!(ended(&mut read), None);
}

#[tokio::test(start_paused = true)]
async fn in_flight_writes_are_resent_in_order_if_the_limits_allow_it() {
    let mut test = CoreTest::with(ClientLimits { retry_writes: true, ..ClientLimits::default() });
    test.complete_handshake();
    let _answers =
        ["process/write", "b", "c"].map(|method| test.request(RetryPolicy::Write, method, None));
    test.expect_request("process/write");
    test.cut();
    let _later = test.request(RetryPolicy::Write, "d", None);
    test.complete_handshake();
    for method in ["process/write", "b", "c", "d"] {
        test.expect_request(method);
    }
}

#[tokio::test(start_paused = true)]
async fn a_resent_write_to_an_unknown_process_may_have_been_written() {
    let unknown = json!({ "status": "unknownProcess" });
    let mut test = CoreTest::with(ClientLimits { retry_writes: true, ..ClientLimits::default() });
    test.complete_handshake();
    let mut first = test.request(RetryPolicy::Write, "process/write", None);
    let (id, _) = test.expect_request("process/write");
    test.reply(id, &unknown);
    assert_eq!(ended(&mut first), Some(Ok(unknown.to_string())));
    let mut resent = test.request(RetryPolicy::Write, "process/write", None);
    test.expect_request("process/write");
    test.cut();
    test.complete_handshake();
    let (id, _) = test.expect_request("process/write");
    test.reply(id, &unknown);
    assert_eq!(ended(&mut resent), Some(Err(Failure::ConnectionLost)));
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_was_read_before_the_end_wins() {
    let mut test = CoreTest::connected();
    let mut answer = test.request(RetryPolicy::Other, "process/signal", None);
    let (id, _) = test.expect_request("process/signal");
    test.reply(id, &json!({}));
    test.cut();
    assert_eq!(ended(&mut answer), Some(Ok("{}".into())));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_returned_to_its_caller() {
    let mut test = CoreTest::connected();
    let mut answer = test.request(RetryPolicy::Other, "process/signal", None);
    let (id, _) = test.expect_request("process/signal");
    test.refuse(id, code::INVALID_REQUEST, "unknown process id p1");
    let refused =
        Failure::Refused { code: code::INVALID_REQUEST, message: "unknown process id p1".into() };
    assert_eq!((ended(&mut answer), test.state()), (Some(Err(refused)), State::Connected));
}

#[tokio::test(start_paused = true)]
async fn a_closed_transport_ends_the_connection_and_is_retried_with_pauses() {
    let mut test = CoreTest::connected();
    let mut answer = test.request(RetryPolicy::Read, "process/read", None);
    let begin = test.now;
    let mut expect_request = 0;
    while ended(&mut answer).is_none() {
        if test.wire.is_some() && test.nothing_sent() {
            test.complete_handshake();
        }
        if test.state() == State::Connected {
            let (id, _) = test.expect_request("process/read");
            expect_request += 1;
            test.refuse(id, code::TRANSPORT_CLOSED, "JSON-RPC transport closed");
            assert_eq!(test.state(), State::Recovering);
            if expect_request > 5 {
                continue;
            }
        }
        test.advance(millis(1));
    }
    assert_eq!(expect_request, 6, "once, and as often again as the limits say");
    assert!(test.now - begin > millis(700), "with pauses");
}

#[tokio::test(start_paused = true)]
async fn a_renounced_start_is_ambiguous_also_if_reads_are_not_repeated() {
    let mut test = CoreTest::with(ClientLimits { read_retries: 0, ..ClientLimits::default() });
    test.complete_handshake();
    let (_p1, mut answer) = test.start("p1");
    let (id, _) = test.expect_request("process/start");
    test.advance(millis(1000));
    test.refuse(id, code::TRANSPORT_CLOSED, "JSON-RPC transport closed");
    assert_eq!(ended(&mut answer), Some(Err(Failure::ConnectionLost)));
    test.complete_handshake();
    let (id, _) = test.expect_request("process/terminate");
    test.reply(id, &json!({ "running": true }));
    test.started("p1");
}

#[tokio::test(start_paused = true)]
async fn a_renounced_write_may_have_been_written() {
    let limits = ClientLimits { retry_writes: true, read_retries: 0, ..ClientLimits::default() };
    let mut test = CoreTest::with(limits);
    test.complete_handshake();
    let mut write = test.request(RetryPolicy::Write, "process/write", None);
    let (id, _) = test.expect_request("process/write");
    test.refuse(id, code::TRANSPORT_CLOSED, "JSON-RPC transport closed");
    assert_eq!(ended(&mut write), Some(Err(Failure::ConnectionLost)));
}

#[tokio::test(start_paused = true)]
async fn a_read_fails_if_each_connection_ends_with_a_message_that_is_too_long() {
    let mut test = CoreTest::with(ClientLimits { read_retries: 1, ..ClientLimits::default() });
    test.complete_handshake();
    let mut read = test.request(RetryPolicy::Read, "fs/readFile", None);
    let mut change = test.request(RetryPolicy::Other, "fs/writeFile", None);
    for connections in 1..=2 {
        test.expect_request("fs/readFile");
        assert_eq!(ended(&mut read), None, "{connections}");
        test.cut_by(LinkError::TooLong);
        test.complete_handshake();
    }
    assert_eq!(ended(&mut read), Some(Err(Failure::AnswerTooLong)));
    assert_eq!(ended(&mut change), Some(Err(Failure::ConnectionLost)));
    assert!(test.nothing_sent());
}

#[tokio::test(start_paused = true)]
async fn a_session_taken_by_another_connection_causes_one_recovery() {
    let (mut test, [p1, p2]) = CoreTest::running(["p1", "p2"]);
    test.cut();
    test.complete_handshake();
    let id = test.expect_read("p1", 0);
    test.refuse(id, code::INVALID_REQUEST, "session has been resumed by another connection");
    assert_eq!((test.wire, test.state()), (None, State::Recovering));
    test.advance(deadline());
    for process in [p1, p2] {
        assert_eq!(process.events_text(), "failed: no connection within the recovery deadline");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_call_fails_at_its_deadline_and_the_connection_stays() {
    let mut test = CoreTest::connected();
    let mut answer = test.request(RetryPolicy::Read, "process/read", None);
    test.advance(millis(59_999));
    assert_eq!(ended(&mut answer), None);
    test.advance(millis(1));
    assert_eq!(
        (ended(&mut answer), test.state()),
        (Some(Err(Failure::Unanswered)), State::Connected)
    );
    let (id, _) = test.expect_request("process/read");
    test.reply(id, &json!({}));
}

#[tokio::test(start_paused = true)]
async fn abandoned_calls_do_not_fill_the_tables() {
    let mut test = CoreTest::with(ClientLimits { calls: 4, ..ClientLimits::default() });
    for _ in 0..100 {
        drop(test.request(RetryPolicy::Read, "process/read", None));
    }
    assert!(test.core.resources().calls <= 4, "waiting ones: {}", test.core.resources().calls);
    test.complete_handshake();
    assert!(test.nothing_sent(), "they are not even sent");
    for _ in 0..100 {
        drop(test.request(RetryPolicy::Read, "process/read", None));
    }
    assert!(test.core.resources().calls <= 4, "in flight: {}", test.core.resources().calls);
}

#[tokio::test(start_paused = true)]
async fn a_call_for_a_failed_process_returns_the_same_failure_and_sends_nothing() {
    let (mut test, [p1]) = CoreTest::running(["p1"]);
    test.on_report(CoreTest::closed("p1", 5));
    test.on_report(CoreTest::output("p1", 6, "x"));
    assert_eq!(p1.log.failure(), Some(Failure::Contradiction));
    test.expect_request("process/terminate");
    let mut answer = test.request(RetryPolicy::Read, "process/read", Some(&p1));
    assert_eq!(
        (ended(&mut answer), test.nothing_sent()),
        (Some(Err(Failure::Contradiction)), true)
    );
}

#[tokio::test(start_paused = true)]
async fn requests_from_the_server_are_refused_and_unknown_notifications_are_ignored() {
    let mut test = CoreTest::connected();
    test.on_report(CoreTest::notification("network/policyDecision", &json!({ "any": 1 })));
    test.on_report(Report::Message(Message::request(9, "network/policy", &json!({}))));
    let sent = test.sent.pop_front();
    assert!(
        matches!(&sent, Some(Message::Error { id: RequestId::Number(9), error }) if error.code == code::UNKNOWN_METHOD),
        "{sent:?}"
    );
    test.on_report(Report::Message(Message::error(
        RequestId::Number(-1),
        code::INVALID_REQUEST,
        "malformed",
    )));
    test.on_report(Report::Message(Message::response(RequestId::Text("x".into()), &json!({}))));
    assert_eq!(test.state(), State::Connected);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_notification_ends_the_connection_and_the_client_recovers() {
    let mut test = CoreTest::connected();
    test.advance(millis(1000));
    test.on_report(CoreTest::notification(
        "process/output",
        &json!({ "processId": "p1", "seq": -1 }),
    ));
    assert_eq!((test.state(), test.opened), (State::Recovering, 2));
}

#[tokio::test(start_paused = true)]
async fn a_watch_waits_for_a_connection_and_ends_with_it() {
    let mut test = CoreTest::connected();
    test.cut();
    let (sender, watch) = missing_watch(7);
    let mut answer = test.request(RetryPolicy::Watch(sender), "fs/watchMissing", None);
    // A failed attempt ends no watch that waits for a connection.
    test.open();
    test.cut();
    test.advance(millis(100));
    test.complete_handshake();
    let (id, _) = test.expect_request("fs/watchMissing");
    test.reply(id, &json!({ "watching": true }));
    assert!(matches!(ended(&mut answer), Some(Ok(_))));
    let changed = tokio::spawn(watch.changed());
    tokio::task::yield_now().await;
    assert!(!changed.is_finished());
    test.cut();
    assert_eq!(changed.await.unwrap(), Err(Failure::ConnectionLost));
}

#[tokio::test(start_paused = true)]
async fn a_watch_reports_a_change_also_before_its_answer() {
    let mut test = CoreTest::connected();
    let (sender, watch) = missing_watch(7);
    drop(test.request(RetryPolicy::Watch(sender), "fs/watchMissing", None));
    test.on_report(CoreTest::notification("fs/missingChanged", &json!({ "watchId": 7 })));
    assert_eq!(watch.changed().await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_call_counts_while_it_is_in_flight() {
    let (mut test, [p1]) = CoreTest::running(["p1"]);
    let mut read = test.request(RetryPolicy::Read, "process/read", Some(&p1));
    let (id, _) = test.expect_request("process/read");
    assert_eq!(test.core.resources().calls, 1);
    test.reply(id, &json!(1));
    assert_eq!((ended(&mut read), test.core.resources().calls), (Some(Ok("1".into())), 0));
}
