//! Tests of the recovery: deadlines, attempts, errors, and reports of older connections.

use super::*;

/// Fails an attempt at once.
fn nobody_there(test: &mut CoreTest) {
    test.on_report(Report::Over(CloseReason::Unconnected));
}

#[tokio::test(start_paused = true)]
async fn the_first_connection_opens_a_session_and_the_next_resumes_it() {
    let mut test = CoreTest::new();
    assert_eq!((test.state(), test.opened), (State::Recovering, 1));
    test.open();
    let (id, params) = test.expect_request("initialize");
    let window = json!({ "windowBytes": 4 << 20, "windowChunks": 65_534 });
    assert_eq!(params, json!({ "clientName": "reknit", "reknitFlow": window }));
    test.reply(id, &json!({ "sessionId": "s", "environmentInfo": {} }));
    assert_eq!(test.state(), State::Connected);
    test.cut();
    assert_eq!(
        (test.state(), test.opened),
        (State::Recovering, 2),
        "the first attempt comes at once"
    );
    test.open();
    assert_eq!(
        test.expect_request("initialize").1,
        json!({ "clientName": "reknit", "resumeSessionId": "s", "reknitFlow": window })
    );
}

#[tokio::test(start_paused = true)]
async fn ids_count_from_1_on_each_connection() {
    let mut test = CoreTest::connected();
    test.request(RetryPolicy::Read, "process/read", None);
    assert_eq!(test.expect_request("process/read").0, RequestId::Number(2));
    test.cut();
    test.complete_handshake();
    assert!(test.nothing_sent(), "who asked has gone");
    let _answer = test.request(RetryPolicy::Read, "process/read", None);
    assert_eq!(test.expect_request("process/read").0, RequestId::Number(2));
}

#[tokio::test(start_paused = true)]
async fn attempts_pause_longer_each_time_and_end_at_the_deadline_exactly() {
    let mut test = CoreTest::connected();
    test.cut();
    let begin = test.now;
    let mut at = Vec::new();
    while test.wire.is_some() {
        at.push(test.now - begin);
        nobody_there(&mut test);
        let attempts = test.opened;
        while test.opened == attempts && test.state() == State::Recovering {
            test.advance(millis(1));
        }
    }
    assert_eq!((test.state(), test.now - begin), (State::Failed, deadline()));
    let pauses: Vec<u64> = at.windows(2).map(|two| (two[1] - two[0]).as_millis() as u64).collect();
    let bounds = [(50, 101), (100, 201), (200, 401), (400, 801), (500, 1001)];
    for (n, pause) in pauses.iter().enumerate() {
        let (least, most) = bounds[n.min(4)];
        assert!((least..=most).contains(pause), "pause {n}: {pause}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_deadline_holds_for_every_stage_of_an_attempt() {
    let limits = ClientLimits { recovery_deadline: millis(5000), ..ClientLimits::default() };
    for stage in 0..3 {
        let mut test = CoreTest::with(limits);
        test.complete_handshake();
        let seen = test.started("p1");
        test.cut();
        match stage {
            0 => {}
            1 => test.open(),
            _ => test.complete_handshake(),
        }
        test.advance(millis(4999));
        assert_eq!(test.state(), State::Recovering, "stage {stage}");
        test.advance(millis(1));
        assert_eq!((test.state(), test.wire), (State::Failed, None), "stage {stage}");
        assert_eq!(seen.events_text(), "failed: no connection within the recovery deadline");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_in_the_millisecond_of_the_deadline_is_too_late() {
    for woken_first in [false, true] {
        let mut test = CoreTest::connected();
        test.started("p1");
        test.cut();
        test.complete_handshake();
        let id = test.expect_read("p1", 0);
        let (wire, end) = (test.wire.unwrap(), test.now + deadline());
        test.advance(millis(24_999));
        test.now = end;
        if woken_first {
            test.core.wake(end);
        }
        test.on_report_from(
            wire,
            Report::Message(Message::response(id, &answer(&[], 1, None, false))),
        );
        assert_eq!(test.state(), State::Failed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_caught_up_a_millisecond_before_the_deadline_is_installed() {
    let mut test = CoreTest::connected();
    test.started("p1");
    test.cut();
    test.complete_handshake();
    let id = test.expect_read("p1", 0);
    test.advance(millis(24_999));
    test.reply(id, &answer(&[], 1, None, false));
    assert_eq!(test.state(), State::Connected);
    test.advance(millis(60_000));
    assert_eq!(test.state(), State::Connected);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_does_not_open_or_does_not_answer_is_given_up_after_10_s() {
    let mut test = CoreTest::connected();
    test.cut();
    test.advance(millis(10_000));
    test.advance(millis(101));
    assert_eq!(test.opened, 3);
    test.open();
    test.advance(millis(9_999));
    assert_eq!(test.opened, 3);
    test.advance(millis(202));
    assert_eq!(test.opened, 4);
}

#[tokio::test(start_paused = true)]
async fn a_still_attached_session_is_retried_until_it_is_free() {
    let mut test = CoreTest::connected();
    test.cut();
    for _ in 0..3 {
        test.open();
        let (id, _) = test.expect_request("initialize");
        test.refuse(id, code::STILL_ATTACHED, "attached elsewhere");
        assert_eq!(test.wire, None, "the connection is let go");
        test.advance(millis(1000));
    }
    test.complete_handshake();
    assert_eq!(test.state(), State::Connected);
}

#[tokio::test(start_paused = true)]
async fn a_closed_transport_behind_the_server_is_retried() {
    let mut test = CoreTest::connected();
    test.cut();
    test.open();
    let (id, _) = test.expect_request("initialize");
    test.refuse(id, code::TRANSPORT_CLOSED, "JSON-RPC transport closed");
    test.advance(millis(200));
    test.complete_handshake();
    assert_eq!(test.state(), State::Connected);
}

#[tokio::test(start_paused = true)]
async fn permanent_errors_are_not_retried() {
    type Refusal = fn(&mut CoreTest, RequestId);
    let refusals: [(Refusal, &str); 4] = [
        (
            |test, id| test.refuse(id, code::INVALID_REQUEST, "unknown session id s"),
            "the server no longer knows the session: ",
        ),
        (
            |test, id| test.refuse(id, code::INTERNAL, "no"),
            "the server refused the handshake: no (-32603)",
        ),
        (
            |test, id| test.reply(id, &json!({ "sessionId": "t" })),
            "the server answered with a different session",
        ),
        (
            |test, id| test.reply(id, &json!({ "sessionId": 7 })),
            "the server sent an invalid response to the handshake",
        ),
    ];
    for (refusal, why) in refusals {
        let (mut test, [p1]) = CoreTest::running(["p1"]);
        test.cut();
        let mut waits = test.request(RetryPolicy::Other, "process/signal", Some(&p1));
        test.open();
        let (id, _) = test.expect_request("initialize");
        refusal(&mut test, id);
        assert_eq!((test.state(), test.wire, test.core.due()), (State::Failed, None, None));
        let Some(Err(failure)) = ended(&mut waits) else { panic!("it waits on") };
        assert!(failure.to_string().starts_with(why), "{failure}");
        assert_eq!(p1.events_text(), format!("failed: {failure}"));
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_failure_every_call_returns_the_same_failure() {
    let (mut test, [p1]) = CoreTest::running(["p1"]);
    let mut in_flight = test.request(RetryPolicy::Read, "process/read", Some(&p1));
    test.cut();
    let old = test.wire.unwrap();
    let mut waits = test.request(RetryPolicy::Other, "process/signal", Some(&p1));
    test.advance(deadline());
    test.on_report_from(old, Report::Over(CloseReason::GivenUp));
    let (_, mut late) = test.start("p2");
    for answer in [&mut in_flight, &mut waits, &mut late] {
        assert_eq!(ended(answer), Some(Err(Failure::RecoveryDeadline)));
    }
    assert_eq!(p1.events_text(), "failed: no connection within the recovery deadline", "once");
    assert_eq!(test.core.resources(), crate::client::ClientResources::default());
}

#[tokio::test(start_paused = true)]
async fn reports_of_older_connections_change_nothing() {
    let (mut test, [p1]) = CoreTest::running(["p1"]);
    let old = test.wire.unwrap();
    let mut read = test.request(RetryPolicy::Read, "process/read", Some(&p1));
    let (id, _) = test.expect_request("process/read");
    test.cut();
    test.complete_handshake();
    let catch_up = test.expect_read("p1", 0);
    for _ in 0..2 {
        test.on_report_from(old, CoreTest::output("p1", 1, "old"));
        test.on_report_from(old, Report::Message(Message::response(id.clone(), &json!("old"))));
        test.on_report_from(old, Report::Opened { conn: 1 });
        test.on_report_from(old, Report::Over(CloseReason::GivenUp));
        assert_eq!((p1.events_text().as_str(), ended(&mut read)), ("", None));
        if test.state() == State::Recovering {
            test.reply(catch_up.clone(), &answer(&[], 1, None, false));
        }
        assert_eq!((test.state(), test.opened), (State::Connected, 2));
    }
    let (id, _) = test.expect_request("process/read");
    test.reply(id, &json!("new"));
    assert_eq!(ended(&mut read), Some(Ok("\"new\"".into())));
}

#[tokio::test(start_paused = true)]
async fn reports_of_an_abandoned_attempt_are_ignored() {
    let mut test = CoreTest::new();
    let first = test.wire.unwrap();
    test.open();
    let (id, _) = test.expect_request("initialize");
    test.advance(millis(10_200));
    assert_eq!(test.opened, 2);
    test.on_report_from(
        first,
        Report::Message(Message::response(id, &json!({ "sessionId": "first" }))),
    );
    assert_eq!(test.state(), State::Recovering, "it does not install itself");
    test.complete_handshake();
    assert_eq!((test.state(), test.core.session.as_deref()), (State::Connected, Some("s")));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_died_before_its_installation_is_not_installed() {
    let (mut test, [p1]) = CoreTest::running(["p1"]);
    test.cut();
    test.complete_handshake();
    let id = test.expect_read("p1", 0);
    test.alive = false;
    let dead = test.wire.unwrap();
    test.reply(id, &answer(&[(1, "a")], 2, None, false));
    assert_eq!(
        (test.state(), p1.events_text().as_str()),
        (State::Recovering, "1=a"),
        "what it read is true"
    );
    test.on_report_from(dead, Report::Over(CloseReason::FoundDead));
    test.alive = true;
    test.advance(millis(100));
    test.complete_handshake();
    let id = test.expect_read("p1", 1);
    test.reply(id, &answer(&[], 2, None, false));
    assert_eq!((test.state(), test.core.installed), (State::Connected, 2), "only two generations");
}

#[tokio::test(start_paused = true)]
async fn a_connection_found_dead_is_recovered_before_its_report_arrives() {
    let mut test = CoreTest::connected();
    test.advance(millis(1000));
    let dead = test.wire.unwrap();
    test.core.found_dead(dead, test.now);
    test.carry_out();
    assert_eq!((test.state(), test.opened), (State::Recovering, 2));
    test.on_report_from(dead, Report::Over(CloseReason::FoundDead));
    assert_eq!((test.state(), test.opened), (State::Recovering, 2));
}

#[tokio::test(start_paused = true)]
async fn connections_that_die_at_once_do_not_cause_a_reconnect_storm() {
    let mut test = CoreTest::connected();
    let begin = test.now;
    for _ in 0..20 {
        test.on_report(Report::Over(CloseReason::FoundDead));
        while test.wire.is_none() {
            test.advance(millis(1));
        }
        test.complete_handshake();
    }
    assert!(test.now - begin > millis(8_000), "{:?}", test.now - begin);
    test.advance(millis(1000));
    test.cut();
    assert!(test.wire.is_some(), "one that lived is replaced at once");
}

#[tokio::test(start_paused = true)]
async fn every_process_catches_up_before_the_connection_is_installed_and_all_at_once() {
    let (mut test, [p1, p2]) = CoreTest::running(["p1", "p2"]);
    test.cut();
    let mut waits = test.request(RetryPolicy::Other, "process/signal", Some(&p1));
    test.complete_handshake();
    let (first, second) = (test.expect_read("p1", 0), test.expect_read("p2", 0));
    test.reply(second, &answer(&[(1, "b")], 2, None, false));
    assert_eq!(
        (p2.events_text().as_str(), test.state()),
        ("1=b", State::Recovering),
        "the held read of p1 does not hold p2"
    );
    assert!(test.nothing_sent(), "no call before the connection is installed");
    test.reply(first, &answer(&[], 1, None, false));
    assert_eq!(test.state(), State::Connected);
    let (id, _) = test.expect_request("process/signal");
    test.reply(id, &json!({}));
    assert!(matches!(ended(&mut waits), Some(Ok(_))));
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_read_does_not_prevent_the_recovery_of_other_processes() {
    let (mut test, [p1, p2]) = CoreTest::running(["p1", "p2"]);
    test.cut();
    test.complete_handshake();
    let (held, second) = (test.expect_read("p1", 0), test.expect_read("p2", 0));
    test.reply(second, &answer(&[], 1, None, false));
    test.advance(millis(10_000));
    assert_eq!(test.state(), State::Connected);
    test.on_report(CoreTest::output("p1", 2, "b"));
    test.reply(held, &answer(&[(1, "a")], 2, None, false));
    assert_eq!(
        (p1.events_text().as_str(), p2.events_text().as_str()),
        ("1=a 2=b", ""),
        "it catches up behind"
    );
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_read_fails_only_its_process() {
    let (mut test, [p1, p2]) = CoreTest::running(["p1", "p2"]);
    test.cut();
    test.complete_handshake();
    let (_, second) = (test.expect_read("p1", 0), test.expect_read("p2", 0));
    test.reply(second, &answer(&[], 1, None, false));
    test.advance(millis(60_000));
    assert_eq!(
        (p1.events_text().as_str(), p2.events_text().as_str(), test.state()),
        ("failed: no answer in time", "", State::Connected)
    );
    assert_eq!(test.expect_request("process/terminate").1, json!({ "processId": "p1" }));
}

#[tokio::test(start_paused = true)]
async fn notifications_during_the_handshake_are_published_after_it() {
    let (mut test, [p1]) = CoreTest::running(["p1"]);
    test.cut();
    test.open();
    let (id, _) = test.expect_request("initialize");
    for seq in 1..=300 {
        test.on_report(CoreTest::output("p1", seq, "x"));
    }
    assert_eq!(p1.events_text(), "", "whose they are is not known yet");
    test.reply(id, &json!({ "sessionId": "s" }));
    assert_eq!(
        test.core.processes["p1"].published(),
        256,
        "the first ones, as far as there is room"
    );
    test.sent.pop_front();
    let id = test.expect_read("p1", 256);
    let rest: Vec<(u64, &str)> = (257..=300).map(|seq| (seq, "x")).collect();
    test.reply(id, &answer(&rest, 301, None, false));
    assert_eq!((test.core.processes["p1"].published(), test.state()), (300, State::Connected));
}

#[tokio::test(start_paused = true)]
async fn an_invalid_early_notification_fails_one_attempt() {
    let (mut test, [p1]) = CoreTest::running(["p1"]);
    test.cut();
    test.open();
    let (id, _) = test.expect_request("initialize");
    test.on_report(CoreTest::notification("process/output", &json!({ "processId": "p1" })));
    test.on_report(CoreTest::output("p1", 1, "a"));
    test.reply(id, &json!({ "sessionId": "s" }));
    assert_eq!((p1.events_text().as_str(), test.state()), ("", State::Recovering));
    test.advance(millis(100));
    test.complete_handshake();
    let id = test.expect_read("p1", 0);
    test.reply(id, &answer(&[(1, "a")], 2, None, false));
    assert_eq!((p1.events_text().as_str(), test.state()), ("1=a", State::Connected));
}

#[tokio::test(start_paused = true)]
async fn the_catch_up_does_not_wait_for_released_or_closed_processes() {
    let (mut test, [p1, p2]) = CoreTest::running(["p1", "p2"]);
    test.cut();
    test.complete_handshake();
    test.command(Command::Release(p1.key.clone()));
    assert_eq!(test.state(), State::Recovering);
    test.on_report(CoreTest::exited("p2", 1, 0));
    test.on_report(CoreTest::closed("p2", 2));
    assert_eq!((test.state(), p2.events_text().as_str()), (State::Connected, "1=exit(0) 2=closed"));
}
