//! Tests of starts: with a known outcome, with an unknown outcome, and with a dropped caller.

use super::*;

#[tokio::test(start_paused = true)]
async fn events_before_the_answer_are_read_after_it() {
    let mut lab = Lab::connected();
    let (p1, mut started) = lab.start("p1");
    let (id, _) = lab.asked("process/start");
    lab.hear(Lab::output("p1", 1, "a"));
    lab.hear(Lab::exited("p1", 2, 0));
    lab.hear(Lab::closed("p1", 3));
    lab.reply(id, &json!({ "processId": "p1" }));
    assert!(matches!(ended(&mut started), Some(Ok(_))));
    assert_eq!((p1.reported().as_str(), lab.core.resources().held_back_events), ("", 0));
    let id = lab.asked_to_read("p1", 0);
    lab.reply(id, &answer(&[(1, "a")], 4, Some(0), true));
    assert_eq!(
        (p1.reported().as_str(), lab.core.resources().processes),
        ("1=a 2=exit(0) 3=closed", 0)
    );
}

#[tokio::test(start_paused = true)]
async fn events_of_an_older_process_are_not_published_for_a_newer_one() {
    let (mut lab, [older]) = Lab::running(["p1"]);
    lab.command(Command::Release(older.key));
    let (newer, _started) = lab.start("p1");
    let (id, _) = lab.asked("process/start");
    lab.hear(Lab::output("p1", 1, "older"));
    lab.hear(Lab::exited("p1", 2, 0));
    lab.hear(Lab::closed("p1", 3));
    lab.reply(id, &json!({ "processId": "p1" }));
    lab.hear(Lab::output("p1", 1, "newer"));
    assert_eq!(newer.reported(), "1=newer");
    let id = lab.asked_to_read("p1", 0);
    lab.reply(id, &answer(&[(1, "newer")], 2, None, false));
    assert_eq!((newer.reported().as_str(), lab.core.resources().processes), ("1=newer", 1));
}

#[tokio::test(start_paused = true)]
async fn an_id_is_taken_by_a_start_and_free_after_its_refusal() {
    let mut lab = Lab::connected();
    let (_p1, mut first) = lab.start("p1");
    let (_, mut second) = lab.start("p1");
    assert_eq!(ended(&mut second), Some(Err(Failure::IdTaken)));
    let (id, _) = lab.asked("process/start");
    lab.refuse(id, code::INTERNAL, "no such program");
    let refused = Failure::Refused { code: code::INTERNAL, message: "no such program".into() };
    assert_eq!(ended(&mut first), Some(Err(refused)));
    lab.started("p1");
}

#[tokio::test(start_paused = true)]
async fn a_start_in_flight_at_a_cut_fails_and_the_process_is_terminated() {
    let mut lab = Lab::connected();
    let (p1, mut started) = lab.start("p1");
    lab.cut();
    assert_eq!(ended(&mut started), Some(Err(Failure::ConnectionLost)));
    lab.shake_hands();
    assert_eq!(lab.state(), State::Connected, "nobody waits for the end of what is left");
    let (id, params) = lab.asked("process/terminate");
    assert_eq!(params, json!({ "processId": "p1" }));
    lab.hear(Lab::output("p1", 1, "orphan"));
    let (_, mut again) = lab.start("p1");
    assert_eq!((ended(&mut again), p1.reported().as_str()), (Some(Err(Failure::IdTaken)), ""));
    lab.reply(id, &json!({ "running": true }));
    let newer = lab.started("p1");
    lab.hear(Lab::output("p1", 1, "newer"));
    assert_eq!(newer.reported(), "1=newer");
}

#[tokio::test(start_paused = true)]
async fn a_termination_is_requested_until_it_is_answered() {
    let mut lab = Lab::connected();
    let (_p1, _started) = lab.start("p1");
    for _ in 0..3 {
        lab.cut();
        lab.pass(millis(1000));
        lab.shake_hands();
        lab.asked("process/terminate");
        assert_eq!(lab.core.resources().endings, 1);
    }
    lab.cut();
    lab.pass(millis(1000));
    lab.shake_hands();
    let (id, _) = lab.asked("process/terminate");
    lab.refuse(id, code::INTERNAL, "busy");
    lab.pass(millis(1000));
    let (id, _) = lab.asked("process/terminate");
    lab.reply(id, &json!({ "running": false }));
    assert_eq!(lab.core.resources().endings, 0);
}

#[tokio::test(start_paused = true)]
async fn a_start_that_was_not_sent_waits_and_is_sent_once() {
    let mut lab = Lab::new();
    let (_p1, mut started) = lab.start("p1");
    lab.pass(millis(500));
    lab.shake_hands();
    let (id, _) = lab.asked("process/start");
    lab.reply(id, &json!({ "processId": "p1" }));
    assert!(matches!(ended(&mut started), Some(Ok(_))));
    assert!(lab.asked_nothing());
}

#[tokio::test(start_paused = true)]
async fn a_start_whose_caller_is_dropped_before_it_is_sent_is_never_sent() {
    let mut lab = Lab::new();
    let (p1, started) = lab.start("p1");
    drop(started);
    lab.command(Command::Abandon(p1.key));
    assert_eq!(lab.core.resources(), crate::client::ClientResources::default());
    lab.shake_hands();
    assert!(lab.asked_nothing());
}

#[tokio::test(start_paused = true)]
async fn a_start_whose_caller_is_dropped_in_flight_leaves_no_process() {
    let mut lab = Lab::connected();
    let (p1, started) = lab.start("p1");
    drop(started);
    lab.command(Command::Abandon(p1.key));
    let (id, _) = lab.asked("process/start");
    assert!(lab.asked_nothing(), "whether there is anything to end is not known yet");
    lab.reply(id, &json!({ "processId": "p1" }));
    let (id, _) = lab.asked("process/terminate");
    lab.reply(id, &json!({ "running": true }));
    assert_eq!(lab.core.resources(), crate::client::ClientResources::default());
}

#[tokio::test(start_paused = true)]
async fn a_start_whose_caller_is_dropped_after_the_answer_leaves_no_process() {
    let (mut lab, [p1]) = Lab::running(["p1"]);
    lab.command(Command::Abandon(p1.key.clone()));
    lab.asked("process/terminate");
    lab.command(Command::Abandon(p1.key));
    assert!(lab.asked_nothing());
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_start_fails_at_its_deadline_and_is_terminated() {
    let mut lab = Lab::connected();
    let (_p1, mut started) = lab.start("p1");
    lab.asked("process/start");
    lab.pass(millis(60_000));
    assert_eq!(ended(&mut started), Some(Err(Failure::Unanswered)));
    lab.asked("process/terminate");
}

#[tokio::test(start_paused = true)]
async fn only_running_processes_are_caught_up() {
    let (mut lab, [_p1]) = Lab::running(["p1"]);
    let (_p2, _started) = lab.start("p2");
    lab.cut();
    let (_p3, _waits) = lab.start("p3");
    lab.shake_hands();
    let id = lab.asked_to_read("p1", 0);
    lab.asked("process/terminate");
    assert!(lab.asked_nothing());
    lab.reply(id, &answer(&[], 1, None, false));
    lab.asked("process/start");
}

/// Creates a connected core with `p1` started and closed. The test still holds `p1`.
fn over() -> (Lab, ObservedProcess) {
    let mut lab = Lab::connected();
    let older = lab.started("p1");
    lab.hear(Lab::exited("p1", 1, 0));
    lab.hear(Lab::closed("p1", 2));
    (lab, older)
}

#[tokio::test(start_paused = true)]
async fn a_handle_of_an_older_process_never_reaches_a_newer_one() {
    let (mut lab, older) = over();
    let newer = lab.started("p1");
    lab.hear(Lab::exited("p1", 1, 0));
    lab.hear(Lab::closed("p1", 2));
    let mut read = |seen| ended(&mut lab.ask(RetryPolicy::Read, "process/read", Some(seen)));
    assert_eq!((read(&older), read(&newer)), (Some(Err(Failure::Superseded)), None));
    lab.command(Command::Release(newer.key.clone()));
    assert_eq!(
        ended(&mut lab.ask(RetryPolicy::Read, "process/read", Some(&older))),
        Some(Err(Failure::Superseded))
    );
}

#[tokio::test(start_paused = true)]
async fn a_start_whose_outcome_is_unknown_supersedes_and_a_refused_one_does_not() {
    let (mut lab, older) = over();
    let (_newer, _) = lab.start("p1");
    let (id, _) = lab.asked("process/start");
    lab.refuse(id, code::INVALID_REQUEST, "the id is taken");
    assert_eq!(ended(&mut lab.ask(RetryPolicy::Read, "process/read", Some(&older))), None);
    let (_newest, _) = lab.start("p1");
    lab.cut();
    lab.shake_hands();
    assert_eq!(
        ended(&mut lab.ask(RetryPolicy::Read, "process/read", Some(&older))),
        Some(Err(Failure::Superseded))
    );
}
