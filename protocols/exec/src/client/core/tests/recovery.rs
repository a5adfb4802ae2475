//! Tests of the recovery: deadlines, attempts, errors, and reports of older connections.

use super::*;

/// Fails an attempt at once.
fn nobody_there(lab: &mut Lab) {
    lab.hear(Report::Over(CloseReason::Unconnected));
}

#[tokio::test(start_paused = true)]
async fn the_first_connection_opens_a_session_and_the_next_resumes_it() {
    let mut lab = Lab::new();
    assert_eq!((lab.state(), lab.opened), (State::Recovering, 1));
    lab.open();
    let (id, params) = lab.asked("initialize");
    assert_eq!(params, json!({ "clientName": "reknit" }));
    lab.reply(id, &json!({ "sessionId": "s", "environmentInfo": {} }));
    assert_eq!(lab.state(), State::Connected);
    lab.cut();
    assert_eq!(
        (lab.state(), lab.opened),
        (State::Recovering, 2),
        "the first attempt comes at once"
    );
    lab.open();
    assert_eq!(
        lab.asked("initialize").1,
        json!({ "clientName": "reknit", "resumeSessionId": "s" })
    );
}

#[tokio::test(start_paused = true)]
async fn ids_count_from_1_on_each_connection() {
    let mut lab = Lab::connected();
    lab.ask(RetryPolicy::Read, "process/read", None);
    assert_eq!(lab.asked("process/read").0, RequestId::Number(2));
    lab.cut();
    lab.shake_hands();
    assert!(lab.asked_nothing(), "who asked has gone");
    let _answer = lab.ask(RetryPolicy::Read, "process/read", None);
    assert_eq!(lab.asked("process/read").0, RequestId::Number(2));
}

#[tokio::test(start_paused = true)]
async fn attempts_pause_longer_each_time_and_end_at_the_deadline_exactly() {
    let mut lab = Lab::connected();
    lab.cut();
    let begin = lab.now;
    let mut at = Vec::new();
    while lab.wire.is_some() {
        at.push(lab.now - begin);
        nobody_there(&mut lab);
        let attempts = lab.opened;
        while lab.opened == attempts && lab.state() == State::Recovering {
            lab.pass(millis(1));
        }
    }
    assert_eq!((lab.state(), lab.now - begin), (State::Failed, millis(25_000)));
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
        let mut lab = Lab::with(limits);
        lab.shake_hands();
        let seen = lab.started("p1");
        lab.cut();
        match stage {
            0 => {}
            1 => lab.open(),
            _ => lab.shake_hands(),
        }
        lab.pass(millis(4999));
        assert_eq!(lab.state(), State::Recovering, "stage {stage}");
        lab.pass(millis(1));
        assert_eq!((lab.state(), lab.wire), (State::Failed, None), "stage {stage}");
        assert_eq!(seen.reported(), "failed: no connection within the recovery deadline");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_in_the_millisecond_of_the_deadline_is_too_late() {
    for woken_first in [false, true] {
        let mut lab = Lab::connected();
        lab.started("p1");
        lab.cut();
        lab.shake_hands();
        let id = lab.asked_to_read("p1", 0);
        let (wire, end) = (lab.wire.unwrap(), lab.now + millis(25_000));
        lab.pass(millis(24_999));
        lab.now = end;
        if woken_first {
            lab.core.wake(end);
        }
        lab.hear_from(wire, Report::Message(Message::response(id, &answer(&[], 1, None, false))));
        assert_eq!(lab.state(), State::Failed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_caught_up_a_millisecond_before_the_deadline_is_installed() {
    let mut lab = Lab::connected();
    lab.started("p1");
    lab.cut();
    lab.shake_hands();
    let id = lab.asked_to_read("p1", 0);
    lab.pass(millis(24_999));
    lab.reply(id, &answer(&[], 1, None, false));
    assert_eq!(lab.state(), State::Connected);
    lab.pass(millis(60_000));
    assert_eq!(lab.state(), State::Connected);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_does_not_open_or_does_not_answer_is_given_up_after_10_s() {
    let mut lab = Lab::connected();
    lab.cut();
    lab.pass(millis(10_000));
    lab.pass(millis(101));
    assert_eq!(lab.opened, 3);
    lab.open();
    lab.pass(millis(9_999));
    assert_eq!(lab.opened, 3);
    lab.pass(millis(202));
    assert_eq!(lab.opened, 4);
}

#[tokio::test(start_paused = true)]
async fn a_still_attached_session_is_retried_until_it_is_free() {
    let mut lab = Lab::connected();
    lab.cut();
    for _ in 0..3 {
        lab.open();
        let (id, _) = lab.asked("initialize");
        lab.refuse(id, code::STILL_ATTACHED, "attached elsewhere");
        assert_eq!(lab.wire, None, "the connection is let go");
        lab.pass(millis(1000));
    }
    lab.shake_hands();
    assert_eq!(lab.state(), State::Connected);
}

#[tokio::test(start_paused = true)]
async fn a_closed_transport_behind_the_server_is_retried() {
    let mut lab = Lab::connected();
    lab.cut();
    lab.open();
    let (id, _) = lab.asked("initialize");
    lab.refuse(id, code::TRANSPORT_CLOSED, "JSON-RPC transport closed");
    lab.pass(millis(200));
    lab.shake_hands();
    assert_eq!(lab.state(), State::Connected);
}

#[tokio::test(start_paused = true)]
async fn permanent_errors_are_not_retried() {
    type Refusal = fn(&mut Lab, RequestId);
    let refusals: [(Refusal, &str); 4] = [
        (
            |lab, id| lab.refuse(id, code::INVALID_REQUEST, "unknown session id s"),
            "the server no longer knows the session: ",
        ),
        (
            |lab, id| lab.refuse(id, code::INTERNAL, "no"),
            "the server refused the handshake: no (-32603)",
        ),
        (
            |lab, id| lab.reply(id, &json!({ "sessionId": "t" })),
            "the server answered with a different session",
        ),
        (
            |lab, id| lab.reply(id, &json!({ "sessionId": 7 })),
            "the server sent an invalid response to the handshake",
        ),
    ];
    for (refusal, why) in refusals {
        let (mut lab, [p1]) = Lab::running(["p1"]);
        lab.cut();
        let mut waits = lab.ask(RetryPolicy::Other, "process/signal", Some(&p1));
        lab.open();
        let (id, _) = lab.asked("initialize");
        refusal(&mut lab, id);
        assert_eq!((lab.state(), lab.wire, lab.core.due()), (State::Failed, None, None));
        let Some(Err(failure)) = ended(&mut waits) else { panic!("it waits on") };
        assert!(failure.to_string().starts_with(why), "{failure}");
        assert_eq!(p1.reported(), format!("failed: {failure}"));
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_failure_every_call_returns_the_same_failure() {
    let (mut lab, [p1]) = Lab::running(["p1"]);
    let mut in_flight = lab.ask(RetryPolicy::Read, "process/read", Some(&p1));
    lab.cut();
    let old = lab.wire.unwrap();
    let mut waits = lab.ask(RetryPolicy::Other, "process/signal", Some(&p1));
    lab.pass(millis(25_000));
    lab.hear_from(old, Report::Over(CloseReason::GivenUp));
    let (_, mut late) = lab.start("p2");
    for answer in [&mut in_flight, &mut waits, &mut late] {
        assert_eq!(ended(answer), Some(Err(Failure::RecoveryDeadline)));
    }
    assert_eq!(p1.reported(), "failed: no connection within the recovery deadline", "once");
    assert_eq!(lab.core.resources(), crate::client::ClientResources::default());
}

#[tokio::test(start_paused = true)]
async fn reports_of_older_connections_change_nothing() {
    let (mut lab, [p1]) = Lab::running(["p1"]);
    let old = lab.wire.unwrap();
    let mut read = lab.ask(RetryPolicy::Read, "process/read", Some(&p1));
    let (id, _) = lab.asked("process/read");
    lab.cut();
    lab.shake_hands();
    let catch_up = lab.asked_to_read("p1", 0);
    for _ in 0..2 {
        lab.hear_from(old, Lab::output("p1", 1, "old"));
        lab.hear_from(old, Report::Message(Message::response(id.clone(), &json!("old"))));
        lab.hear_from(old, Report::Opened { conn: 1 });
        lab.hear_from(old, Report::Over(CloseReason::GivenUp));
        assert_eq!((p1.reported().as_str(), ended(&mut read)), ("", None));
        if lab.state() == State::Recovering {
            lab.reply(catch_up.clone(), &answer(&[], 1, None, false));
        }
        assert_eq!((lab.state(), lab.opened), (State::Connected, 2));
    }
    let (id, _) = lab.asked("process/read");
    lab.reply(id, &json!("new"));
    assert_eq!(ended(&mut read), Some(Ok("\"new\"".into())));
}

#[tokio::test(start_paused = true)]
async fn reports_of_an_abandoned_attempt_are_ignored() {
    let mut lab = Lab::new();
    let first = lab.wire.unwrap();
    lab.open();
    let (id, _) = lab.asked("initialize");
    lab.pass(millis(10_200));
    assert_eq!(lab.opened, 2);
    lab.hear_from(first, Report::Message(Message::response(id, &json!({ "sessionId": "first" }))));
    assert_eq!(lab.state(), State::Recovering, "it does not install itself");
    lab.shake_hands();
    assert_eq!((lab.state(), lab.core.session.as_deref()), (State::Connected, Some("s")));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_died_before_its_installation_is_not_installed() {
    let (mut lab, [p1]) = Lab::running(["p1"]);
    lab.cut();
    lab.shake_hands();
    let id = lab.asked_to_read("p1", 0);
    lab.alive = false;
    let dead = lab.wire.unwrap();
    lab.reply(id, &answer(&[(1, "a")], 2, None, false));
    assert_eq!(
        (lab.state(), p1.reported().as_str()),
        (State::Recovering, "1=a"),
        "what it read is true"
    );
    lab.hear_from(dead, Report::Over(CloseReason::FoundDead));
    lab.alive = true;
    lab.pass(millis(100));
    lab.shake_hands();
    let id = lab.asked_to_read("p1", 1);
    lab.reply(id, &answer(&[], 2, None, false));
    assert_eq!((lab.state(), lab.core.installed), (State::Connected, 2), "only two generations");
}

#[tokio::test(start_paused = true)]
async fn a_connection_found_dead_is_recovered_before_its_report_arrives() {
    let mut lab = Lab::connected();
    lab.pass(millis(1000));
    let dead = lab.wire.unwrap();
    lab.core.found_dead(dead, lab.now);
    lab.carry_out();
    assert_eq!((lab.state(), lab.opened), (State::Recovering, 2));
    lab.hear_from(dead, Report::Over(CloseReason::FoundDead));
    assert_eq!((lab.state(), lab.opened), (State::Recovering, 2));
}

#[tokio::test(start_paused = true)]
async fn connections_that_die_at_once_do_not_cause_a_reconnect_storm() {
    let mut lab = Lab::connected();
    let begin = lab.now;
    for _ in 0..20 {
        lab.hear(Report::Over(CloseReason::FoundDead));
        while lab.wire.is_none() {
            lab.pass(millis(1));
        }
        lab.shake_hands();
    }
    assert!(lab.now - begin > millis(8_000), "{:?}", lab.now - begin);
    lab.pass(millis(1000));
    lab.cut();
    assert!(lab.wire.is_some(), "one that lived is replaced at once");
}

#[tokio::test(start_paused = true)]
async fn every_process_catches_up_before_the_connection_is_installed_and_all_at_once() {
    let (mut lab, [p1, p2]) = Lab::running(["p1", "p2"]);
    lab.cut();
    let mut waits = lab.ask(RetryPolicy::Other, "process/signal", Some(&p1));
    lab.shake_hands();
    let (first, second) = (lab.asked_to_read("p1", 0), lab.asked_to_read("p2", 0));
    lab.reply(second, &answer(&[(1, "b")], 2, None, false));
    assert_eq!(
        (p2.reported().as_str(), lab.state()),
        ("1=b", State::Recovering),
        "the held read of p1 does not hold p2"
    );
    assert!(lab.asked_nothing(), "no call before the connection is installed");
    lab.reply(first, &answer(&[], 1, None, false));
    assert_eq!(lab.state(), State::Connected);
    let (id, _) = lab.asked("process/signal");
    lab.reply(id, &json!({}));
    assert!(matches!(ended(&mut waits), Some(Ok(_))));
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_read_does_not_prevent_the_recovery_of_other_processes() {
    let (mut lab, [p1, p2]) = Lab::running(["p1", "p2"]);
    lab.cut();
    lab.shake_hands();
    let (held, second) = (lab.asked_to_read("p1", 0), lab.asked_to_read("p2", 0));
    lab.reply(second, &answer(&[], 1, None, false));
    lab.pass(millis(10_000));
    assert_eq!(lab.state(), State::Connected);
    lab.hear(Lab::output("p1", 2, "b"));
    lab.reply(held, &answer(&[(1, "a")], 2, None, false));
    assert_eq!(
        (p1.reported().as_str(), p2.reported().as_str()),
        ("1=a 2=b", ""),
        "it catches up behind"
    );
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_read_fails_only_its_process() {
    let (mut lab, [p1, p2]) = Lab::running(["p1", "p2"]);
    lab.cut();
    lab.shake_hands();
    let (_, second) = (lab.asked_to_read("p1", 0), lab.asked_to_read("p2", 0));
    lab.reply(second, &answer(&[], 1, None, false));
    lab.pass(millis(60_000));
    assert_eq!(
        (p1.reported().as_str(), p2.reported().as_str(), lab.state()),
        ("failed: no answer in time", "", State::Connected)
    );
    assert_eq!(lab.asked("process/terminate").1, json!({ "processId": "p1" }));
}

#[tokio::test(start_paused = true)]
async fn notifications_during_the_handshake_are_published_after_it() {
    let (mut lab, [p1]) = Lab::running(["p1"]);
    lab.cut();
    lab.open();
    let (id, _) = lab.asked("initialize");
    for seq in 1..=300 {
        lab.hear(Lab::output("p1", seq, "x"));
    }
    assert_eq!(p1.reported(), "", "whose they are is not known yet");
    lab.reply(id, &json!({ "sessionId": "s" }));
    assert_eq!(
        lab.core.processes["p1"].published(),
        256,
        "the first ones, as far as there is room"
    );
    lab.sent.pop_front();
    let id = lab.asked_to_read("p1", 256);
    let rest: Vec<(u64, &str)> = (257..=300).map(|seq| (seq, "x")).collect();
    lab.reply(id, &answer(&rest, 301, None, false));
    assert_eq!((lab.core.processes["p1"].published(), lab.state()), (300, State::Connected));
}

#[tokio::test(start_paused = true)]
async fn an_invalid_early_notification_fails_one_attempt() {
    let (mut lab, [p1]) = Lab::running(["p1"]);
    lab.cut();
    lab.open();
    let (id, _) = lab.asked("initialize");
    lab.hear(Lab::reported("process/output", &json!({ "processId": "p1" })));
    lab.hear(Lab::output("p1", 1, "a"));
    lab.reply(id, &json!({ "sessionId": "s" }));
    assert_eq!((p1.reported().as_str(), lab.state()), ("", State::Recovering));
    lab.pass(millis(100));
    lab.shake_hands();
    let id = lab.asked_to_read("p1", 0);
    lab.reply(id, &answer(&[(1, "a")], 2, None, false));
    assert_eq!((p1.reported().as_str(), lab.state()), ("1=a", State::Connected));
}

#[tokio::test(start_paused = true)]
async fn the_catch_up_does_not_wait_for_released_or_closed_processes() {
    let (mut lab, [p1, p2]) = Lab::running(["p1", "p2"]);
    lab.cut();
    lab.shake_hands();
    lab.command(Command::Release(p1.key.clone()));
    assert_eq!(lab.state(), State::Recovering);
    lab.hear(Lab::exited("p2", 1, 0));
    lab.hear(Lab::closed("p2", 2));
    assert_eq!((lab.state(), p2.reported().as_str()), (State::Connected, "1=exit(0) 2=closed"));
}
