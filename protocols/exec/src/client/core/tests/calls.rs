//! Tests of calls: without a connection, in flight when a connection dies, and abandoned by their
//! callers.

use super::*;

#[tokio::test(start_paused = true)]
async fn calls_wait_for_a_connection_and_are_sent_in_order() {
    let (mut lab, [p1]) = Lab::running(["p1"]);
    lab.cut();
    let _answers = ["process/write", "process/signal", "process/read"]
        .map(|method| lab.ask(RetryPolicy::Other, method, Some(&p1)));
    assert!(lab.asked_nothing());
    lab.shake_hands();
    let id = lab.asked_to_read("p1", 0);
    lab.reply(id, &answer(&[], 1, None, false));
    for method in ["process/write", "process/signal", "process/read"] {
        lab.asked(method);
    }
    assert!(lab.asked_nothing());
}

#[tokio::test(start_paused = true)]
async fn in_flight_reads_are_resent_and_other_calls_fail() {
    let (mut lab, [p1]) = Lab::running(["p1"]);
    let mut read = lab.ask(RetryPolicy::Read, "process/read", Some(&p1));
    let mut others = [RetryPolicy::Write, RetryPolicy::Other]
        .map(|kind| lab.ask(kind, "process/any", Some(&p1)));
    let (_, params) = lab.asked("process/read");
    lab.cut();
    for answer in &mut others {
        assert_eq!(ended(answer), Some(Err(Failure::ConnectionLost)));
    }
    lab.shake_hands();
    let id = lab.asked_to_read("p1", 0);
    lab.reply(id, &answer(&[], 1, None, false));
    let (id, again) = lab.asked("process/read");
    assert_eq!(again, params, "the same again");
    assert!(lab.asked_nothing(), "and nothing else");
    lab.reply(id, &json!(1));
    assert_eq!(ended(&mut read), Some(Ok("1".into())));
}

#[tokio::test(start_paused = true)]
async fn a_read_that_is_resent_or_sent_late_waits_for_its_remaining_time() {
    let (mut lab, [p1]) = Lab::running(["p1"]);
    let mut read = lab.ask_to_read(&p1, millis(3_000));
    assert_eq!(lab.asked("process/read").1, json!({ "processId": "p1", "waitMs": 3_000 }));
    lab.cut();
    let _queued = lab.ask_to_read(&p1, millis(1_500));
    lab.pass(Duration::from_micros(999_600));
    lab.shake_hands();
    let id = lab.asked_to_read("p1", 0);
    lab.reply(id, &answer(&[], 1, None, false));
    assert_eq!(
        lab.asked("process/read").1,
        json!({ "processId": "p1", "waitMs": 1_001 }),
        "1 s and 0.4 ms are left"
    );
    assert_eq!(lab.asked("process/read").1, json!({ "processId": "p1", "waitMs": 501 }));
    lab.cut();
    lab.pass(millis(10));
    lab.shake_hands();
    let id = lab.asked_to_read("p1", 0);
    lab.reply(id, &answer(&[], 1, None, false));
    for _ in 0..2 {
        assert_eq!(
            lab.asked("process/read").1,
            json!({ "processId": "p1" }),
            "no time is left to wait"
        );
    }
    assert_eq!(ended(&mut read), None);
}

#[tokio::test(start_paused = true)]
async fn in_flight_writes_are_resent_in_order_if_the_limits_allow_it() {
    let mut lab = Lab::with(ClientLimits { retry_writes: true, ..ClientLimits::default() });
    lab.shake_hands();
    let _answers =
        ["process/write", "b", "c"].map(|method| lab.ask(RetryPolicy::Write, method, None));
    lab.asked("process/write");
    lab.cut();
    let _later = lab.ask(RetryPolicy::Write, "d", None);
    lab.shake_hands();
    for method in ["process/write", "b", "c", "d"] {
        lab.asked(method);
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_was_read_before_the_end_wins() {
    let mut lab = Lab::connected();
    let mut answer = lab.ask(RetryPolicy::Other, "process/signal", None);
    let (id, _) = lab.asked("process/signal");
    lab.reply(id, &json!({}));
    lab.cut();
    assert_eq!(ended(&mut answer), Some(Ok("{}".into())));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_returned_to_its_caller() {
    let mut lab = Lab::connected();
    let mut answer = lab.ask(RetryPolicy::Other, "process/signal", None);
    let (id, _) = lab.asked("process/signal");
    lab.refuse(id, code::INVALID_REQUEST, "unknown process id p1");
    let refused =
        Failure::Refused { code: code::INVALID_REQUEST, message: "unknown process id p1".into() };
    assert_eq!((ended(&mut answer), lab.state()), (Some(Err(refused)), State::Connected));
}

#[tokio::test(start_paused = true)]
async fn a_closed_transport_ends_the_connection_and_is_retried_with_pauses() {
    let mut lab = Lab::connected();
    let mut answer = lab.ask(RetryPolicy::Read, "process/read", None);
    let begin = lab.now;
    let mut asked = 0;
    while ended(&mut answer).is_none() {
        if lab.wire.is_some() && lab.asked_nothing() {
            lab.shake_hands();
        }
        if lab.state() == State::Connected {
            let (id, _) = lab.asked("process/read");
            asked += 1;
            lab.refuse(id, code::TRANSPORT_CLOSED, "JSON-RPC transport closed");
            assert_eq!(lab.state(), State::Recovering);
            if asked > 5 {
                continue;
            }
        }
        lab.pass(millis(1));
    }
    assert_eq!(asked, 6, "once, and as often again as the limits say");
    assert!(lab.now - begin > millis(700), "with pauses");
}

#[tokio::test(start_paused = true)]
async fn a_session_taken_by_another_connection_causes_one_recovery() {
    let (mut lab, [p1, p2]) = Lab::running(["p1", "p2"]);
    lab.cut();
    lab.shake_hands();
    let id = lab.asked_to_read("p1", 0);
    lab.refuse(id, code::INVALID_REQUEST, "session has been resumed by another connection");
    assert_eq!((lab.wire, lab.state()), (None, State::Recovering));
    lab.pass(millis(25_000));
    for process in [p1, p2] {
        assert_eq!(process.reported(), "failed: no connection within the recovery deadline");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_call_fails_at_its_deadline_and_the_connection_stays() {
    let mut lab = Lab::connected();
    let mut answer = lab.ask(RetryPolicy::Read, "process/read", None);
    lab.pass(millis(59_999));
    assert_eq!(ended(&mut answer), None);
    lab.pass(millis(1));
    assert_eq!(
        (ended(&mut answer), lab.state()),
        (Some(Err(Failure::Unanswered)), State::Connected)
    );
    let (id, _) = lab.asked("process/read");
    lab.reply(id, &json!({}));
}

#[tokio::test(start_paused = true)]
async fn abandoned_calls_do_not_fill_the_tables() {
    let mut lab = Lab::with(ClientLimits { calls: 4, ..ClientLimits::default() });
    for _ in 0..100 {
        drop(lab.ask(RetryPolicy::Read, "process/read", None));
    }
    assert!(lab.core.resources().calls <= 4, "waiting ones: {}", lab.core.resources().calls);
    lab.shake_hands();
    assert!(lab.asked_nothing(), "they are not even sent");
    for _ in 0..100 {
        drop(lab.ask(RetryPolicy::Read, "process/read", None));
    }
    assert!(lab.core.resources().calls <= 4, "in flight: {}", lab.core.resources().calls);
}

#[tokio::test(start_paused = true)]
async fn a_call_for_a_failed_process_returns_the_same_failure_and_sends_nothing() {
    let (mut lab, [p1]) = Lab::running(["p1"]);
    lab.hear(Lab::closed("p1", 5));
    lab.hear(Lab::output("p1", 6, "x"));
    assert_eq!(p1.log.failure(), Some(Failure::Contradiction));
    lab.asked("process/terminate");
    let mut answer = lab.ask(RetryPolicy::Read, "process/read", Some(&p1));
    assert_eq!(
        (ended(&mut answer), lab.asked_nothing()),
        (Some(Err(Failure::Contradiction)), true)
    );
}

#[tokio::test(start_paused = true)]
async fn requests_from_the_server_are_refused_and_unknown_notifications_are_ignored() {
    let mut lab = Lab::connected();
    lab.hear(Lab::reported("network/policyDecision", &json!({ "any": 1 })));
    lab.hear(Report::Message(Message::request(9, "network/policy", &json!({}))));
    let sent = lab.sent.pop_front();
    assert!(
        matches!(&sent, Some(Message::Error { id: RequestId::Number(9), error }) if error.code == code::UNKNOWN_METHOD),
        "{sent:?}"
    );
    lab.hear(Report::Message(Message::error(
        RequestId::Number(-1),
        code::INVALID_REQUEST,
        "malformed",
    )));
    lab.hear(Report::Message(Message::response(RequestId::Text("x".into()), &json!({}))));
    assert_eq!(lab.state(), State::Connected);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_notification_ends_the_connection_and_the_client_recovers() {
    let mut lab = Lab::connected();
    lab.pass(millis(1000));
    lab.hear(Lab::reported("process/output", &json!({ "processId": "p1", "seq": -1 })));
    assert_eq!((lab.state(), lab.opened), (State::Recovering, 2));
}
