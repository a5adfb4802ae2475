//! Tests of the events of a process, over one connection and several: missing events, and the reads
//! that fetch them.

use super::*;

/// Cuts the connection and reconnects up to the catch-up read of `p1`, which must start after this
/// event.
fn back_to_the_read(lab: &mut Lab, after: u64) -> RequestId {
    lab.cut();
    lab.pass(millis(1000));
    lab.shake_hands();
    lab.asked_to_read("p1", after)
}

#[tokio::test(start_paused = true)]
async fn events_are_published_in_order_whatever_their_order_of_arrival() {
    let (mut lab, [p1]) = Lab::running(["p1"]);
    lab.hear(Lab::closed("p1", 4));
    lab.hear(Lab::output("p1", 1, "a"));
    lab.hear(Lab::exited("p1", 3, 0));
    assert_eq!(p1.reported(), "1=a");
    lab.hear(Lab::output("p1", 2, "b"));
    assert_eq!(p1.reported(), "1=a 2=b 3=exit(0) 4=closed");
    lab.cut();
    lab.shake_hands();
    assert_eq!(lab.state(), State::Connected, "what is closed needs no catching up");
}

#[tokio::test(start_paused = true)]
async fn missed_events_are_read_and_published_once() {
    let (mut lab, [p1]) = Lab::running(["p1"]);
    lab.hear(Lab::output("p1", 1, "a"));
    lab.hear(Lab::output("p1", 3, "c"));
    let id = back_to_the_read(&mut lab, 1);
    lab.hear(Lab::output("p1", 5, "e"));
    lab.reply(id, &answer(&[(2, "b"), (3, "c"), (4, "d")], 5, None, false));
    assert_eq!((p1.reported().as_str(), lab.state()), ("1=a 2=b 3=c 4=d 5=e", State::Connected));
    let vias = (0..5).map(|place| match p1.log.at(place) {
        Some(Event::Output { via, .. }) => (via.generation, via.live),
        other => panic!("{other:?}"),
    });
    assert_eq!(vias.collect::<Vec<_>>(), [(1, true), (2, false), (1, true), (2, false), (2, true)]);
}

#[tokio::test(start_paused = true)]
async fn an_exit_and_a_close_during_an_outage_are_published_in_order() {
    let (mut lab, [p1]) = Lab::running(["p1"]);
    lab.hear(Lab::output("p1", 1, "a"));
    let id = back_to_the_read(&mut lab, 1);
    lab.reply(id, &answer(&[(2, "b"), (4, "late")], 6, Some(7), true));
    assert_eq!(
        (p1.reported().as_str(), lab.state()),
        ("1=a 2=b 3=exit(7) 4=late 5=closed", State::Connected)
    );
    assert_eq!(lab.core.resources().processes, 0);
}

#[tokio::test(start_paused = true)]
async fn several_outages_lose_nothing() {
    let (mut lab, [p1]) = Lab::running(["p1"]);
    for outage in 1..=5 {
        let id = back_to_the_read(&mut lab, 2 * outage - 2);
        lab.reply(id, &answer(&[(2 * outage - 1, "r")], 2 * outage, None, false));
        lab.hear(Lab::output("p1", 2 * outage, "l"));
    }
    assert_eq!(p1.reported(), "1=r 2=l 3=r 4=l 5=r 6=l 7=r 8=l 9=r 10=l");
}

#[tokio::test(start_paused = true)]
async fn a_gap_fails_only_its_process_and_terminates_it_on_the_server() {
    let (mut lab, [p1, p2]) = Lab::running(["p1", "p2"]);
    let id = back_to_the_read(&mut lab, 0);
    lab.reply(id, &answer(&[(3, "c")], 4, None, false));
    let other = lab.asked_to_read("p2", 0);
    assert_eq!(p1.reported(), "failed: gap: event 1 is no longer retained, but event 3 is");
    let (terminate, params) = lab.asked("process/terminate");
    assert_eq!(params, json!({ "processId": "p1" }));
    lab.reply(other, &answer(&[(1, "x")], 2, None, false));
    assert_eq!((p2.reported().as_str(), lab.state()), ("1=x", State::Connected));
    let (_, mut again) = lab.start("p1");
    assert_eq!(ended(&mut again), Some(Err(Failure::IdTaken)), "until what is left of it is ended");
    lab.reply(terminate, &json!({ "running": true }));
    lab.started("p1");
}

#[tokio::test(start_paused = true)]
async fn a_read_refused_for_a_transient_reason_is_retried() {
    for refusal in
        [(code::INTERNAL, "too many requests"), (code::INVALID_REQUEST, "process p1 is starting")]
    {
        let (mut lab, [p1]) = Lab::running(["p1"]);
        let mut id = back_to_the_read(&mut lab, 0);
        for _ in 0..3 {
            lab.refuse(id, refusal.0, refusal.1);
            assert!(lab.asked_nothing());
            lab.pass(millis(1000));
            id = lab.asked_to_read("p1", 0);
        }
        lab.reply(id, &answer(&[(1, "a")], 2, None, false));
        assert_eq!((p1.reported().as_str(), lab.state()), ("1=a", State::Connected));
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_that_is_refused_repeatedly_fails_its_process() {
    let (mut lab, [p1]) = Lab::running(["p1"]);
    let mut id = back_to_the_read(&mut lab, 0);
    for _ in 0..5 {
        lab.refuse(id, code::INTERNAL, "no");
        lab.pass(millis(1000));
        id = lab.asked_to_read("p1", 0);
    }
    lab.refuse(id, code::INTERNAL, "no");
    assert_eq!(
        (p1.reported().as_str(), lab.state()),
        ("failed: the server refused: no (-32603)", State::Connected)
    );
}

#[tokio::test(start_paused = true)]
async fn a_process_unknown_to_the_server_fails_at_once() {
    let (mut lab, [p1]) = Lab::running(["p1"]);
    let id = back_to_the_read(&mut lab, 0);
    lab.refuse(id, code::INVALID_REQUEST, "unknown process id p1");
    assert_eq!(p1.reported(), "failed: the server refused: unknown process id p1 (-32600)");
    assert_eq!(lab.state(), State::Connected);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_answer_fails_only_its_process() {
    let (mut lab, [p1]) = Lab::running(["p1"]);
    let id = back_to_the_read(&mut lab, 0);
    lab.reply(id, &json!({ "chunks": 7 }));
    assert_eq!((p1.log.failure(), lab.state()), (Some(Failure::Contradiction), State::Connected));
}

#[tokio::test(start_paused = true)]
async fn events_before_the_server_lost_the_process_are_published() {
    let (mut lab, [p1]) = Lab::running(["p1"]);
    let id = back_to_the_read(&mut lab, 0);
    let mut watched = answer(&[(1, "a")], 2, None, false);
    watched["failure"] = json!("the pipe broke");
    lab.reply(id, &watched);
    assert_eq!(p1.reported(), "1=a failed: the server lost the process: the pipe broke");
}

#[tokio::test(start_paused = true)]
async fn an_event_that_stays_missing_while_connected_is_read() {
    let (mut lab, [p1]) = Lab::running(["p1"]);
    lab.hear(Lab::output("p1", 2, "b"));
    lab.pass(millis(999));
    assert!(lab.asked_nothing());
    lab.pass(millis(1));
    let id = lab.asked_to_read("p1", 0);
    lab.pass(millis(5000));
    assert!(lab.asked_nothing(), "one read at a time");
    lab.reply(id, &answer(&[(1, "a"), (2, "b")], 3, None, false));
    assert_eq!(p1.reported(), "1=a 2=b");
}

#[tokio::test(start_paused = true)]
async fn a_missing_event_that_arrives_in_time_is_not_read() {
    let (mut lab, [p1]) = Lab::running(["p1"]);
    lab.hear(Lab::output("p1", 2, "b"));
    lab.pass(millis(999));
    lab.hear(Lab::output("p1", 1, "a"));
    lab.pass(millis(5000));
    assert_eq!((lab.asked_nothing(), p1.reported().as_str()), (true, "1=a 2=b"));
}

#[tokio::test(start_paused = true)]
async fn an_event_that_several_reads_do_not_return_is_a_gap() {
    let (mut lab, [p1]) = Lab::running(["p1"]);
    lab.hear(Lab::output("p1", u64::MAX, "far"));
    for _ in 0..6 {
        lab.pass(millis(1000));
        let id = lab.asked_to_read("p1", 0);
        lab.reply(id, &answer(&[], 1, None, false));
    }
    assert_eq!(p1.log.failure(), Some(Failure::Gap { next: 1, last: u64::MAX }));
    assert_eq!(lab.state(), State::Connected);
}

#[tokio::test(start_paused = true)]
async fn missing_events_that_arrived_do_not_add_up_to_a_gap() {
    let (mut lab, [p1]) = Lab::running(["p1"]);
    for hole in 0..20 {
        let seq = 2 * hole + 1;
        lab.hear(Lab::output("p1", seq + 1, "b"));
        lab.pass(millis(1000));
        let id = lab.asked_to_read("p1", seq - 1);
        lab.reply(id, &answer(&[], seq, None, false));
        lab.pass(millis(500));
        lab.hear(Lab::output("p1", seq, "a"));
        lab.hear(Lab::output("p1", seq + 1, "b"));
    }
    assert_eq!((lab.core.processes["p1"].published(), p1.log.failure()), (40, None));
}

#[tokio::test(start_paused = true)]
async fn early_events_beyond_the_bounds_are_read_again() {
    let (mut lab, [p1]) = Lab::running(["p1"]);
    let id = back_to_the_read(&mut lab, 0);
    for seq in 2..=400 {
        lab.hear(Lab::output("p1", seq, "x"));
    }
    assert_eq!(lab.core.resources().held_back_events, 256);
    lab.reply(id, &answer(&[(1, "x")], 2, None, false));
    assert_eq!((lab.core.processes["p1"].published(), lab.state()), (257, State::Connected));
    let id = lab.asked_to_read("p1", 257);
    let rest: Vec<(u64, &str)> = (258..=400).map(|seq| (seq, "x")).collect();
    lab.reply(id, &answer(&rest, 401, None, false));
    assert_eq!((lab.core.processes["p1"].published(), p1.log.failure()), (400, None));
    lab.pass(millis(5000));
    assert!(lab.asked_nothing());
}

#[tokio::test(start_paused = true)]
async fn events_dropped_while_connected_are_read_at_once() {
    let mut lab = Lab::with(ClientLimits { reorder_events: 2, ..ClientLimits::default() });
    lab.shake_hands();
    let p1 = lab.started("p1");
    for seq in 2..=4 {
        lab.hear(Lab::output("p1", seq, "x"));
    }
    let id = lab.asked_to_read("p1", 0);
    lab.reply(id, &answer(&[(1, "x"), (2, "x"), (3, "x"), (4, "x")], 5, None, false));
    assert_eq!(p1.reported(), "1=x 2=x 3=x 4=x");
}

#[tokio::test(start_paused = true)]
async fn events_of_unknown_processes_are_ignored() {
    let (mut lab, [p1]) = Lab::running(["p1"]);
    lab.hear(Lab::output("p2", 1, "foreign"));
    lab.hear(Lab::closed("p2", 2));
    assert_eq!((p1.reported().as_str(), lab.state()), ("", State::Connected));
}

#[tokio::test(start_paused = true)]
async fn a_process_without_handles_is_no_longer_followed() {
    let (mut lab, [p1, p2]) = Lab::running(["p1", "p2"]);
    lab.command(Command::Release(p1.key.clone()));
    lab.hear(Lab::output("p1", 1, "a"));
    assert_eq!((p1.reported().as_str(), lab.core.resources().processes), ("", 1));
    lab.cut();
    lab.shake_hands();
    lab.asked_to_read("p2", 0);
    assert!(lab.asked_nothing());
    let newer = lab.start("p1").0;
    lab.command(Command::Release(p1.key.clone()));
    assert_eq!(
        lab.core.resources().processes,
        2,
        "a late release of the older one does not touch it"
    );
    let mut late = lab.ask(RetryPolicy::Read, "process/read", Some(&p1));
    let (id, p2) = (lab.core.processes["p2"].serial, p2.key.serial);
    assert_eq!((id, newer.key.serial > p2), (p2, true));
    assert_eq!(ended(&mut late), None);
}
