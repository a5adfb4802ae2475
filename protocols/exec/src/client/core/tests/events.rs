//! Tests of the events of a process, over one connection and several: missing events, and the reads
//! that fetch them.

use super::*;

/// Cuts the connection and reconnects up to the catch-up read of `p1`, which must start after this
/// event.
fn back_to_the_read(test: &mut CoreTest, after: u64) -> RequestId {
    test.cut();
    test.advance(millis(1000));
    test.complete_handshake();
    test.expect_read("p1", after)
}

#[tokio::test(start_paused = true)]
async fn events_are_published_in_order_whatever_their_order_of_arrival() {
    let (mut test, [p1]) = CoreTest::running(["p1"]);
    test.on_report(CoreTest::closed("p1", 4));
    test.on_report(CoreTest::output("p1", 1, "a"));
    test.on_report(CoreTest::exited("p1", 3, 0));
    assert_eq!(p1.events_text(), "1=a");
    test.on_report(CoreTest::output("p1", 2, "b"));
    assert_eq!(p1.events_text(), "1=a 2=b 3=exit(0) 4=closed");
    test.cut();
    test.complete_handshake();
    assert_eq!(test.state(), State::Connected, "what is closed needs no catching up");
}

#[tokio::test(start_paused = true)]
async fn missed_events_are_read_and_published_once() {
    let (mut test, [p1]) = CoreTest::running(["p1"]);
    test.on_report(CoreTest::output("p1", 1, "a"));
    test.on_report(CoreTest::output("p1", 3, "c"));
    let id = back_to_the_read(&mut test, 1);
    test.on_report(CoreTest::output("p1", 5, "e"));
    test.reply(id, &answer(&[(2, "b"), (3, "c"), (4, "d")], 5, None, false));
    assert_eq!(
        (p1.events_text().as_str(), test.state()),
        ("1=a 2=b 3=c 4=d 5=e", State::Connected)
    );
    let vias = p1.log.events().into_iter().map(|event| match event {
        Event::Output { via, .. } => (via.generation, via.live),
        other => panic!("{other:?}"),
    });
    assert_eq!(vias.collect::<Vec<_>>(), [(1, true), (2, false), (1, true), (2, false), (2, true)]);
}

#[tokio::test(start_paused = true)]
async fn an_exit_and_a_close_during_an_outage_are_published_in_order() {
    let (mut test, [p1]) = CoreTest::running(["p1"]);
    test.on_report(CoreTest::output("p1", 1, "a"));
    let id = back_to_the_read(&mut test, 1);
    test.reply(id, &answer(&[(2, "b"), (4, "late")], 6, Some(7), true));
    assert_eq!(
        (p1.events_text().as_str(), test.state()),
        ("1=a 2=b 3=exit(7) 4=late 5=closed", State::Connected)
    );
    assert_eq!(test.core.resources().processes, 0);
}

#[tokio::test(start_paused = true)]
async fn several_outages_lose_nothing() {
    let (mut test, [p1]) = CoreTest::running(["p1"]);
    for outage in 1..=5 {
        let id = back_to_the_read(&mut test, 2 * outage - 2);
        test.reply(id, &answer(&[(2 * outage - 1, "r")], 2 * outage, None, false));
        test.on_report(CoreTest::output("p1", 2 * outage, "l"));
    }
    assert_eq!(p1.events_text(), "1=r 2=l 3=r 4=l 5=r 6=l 7=r 8=l 9=r 10=l");
}

#[tokio::test(start_paused = true)]
async fn a_gap_fails_only_its_process_and_terminates_it_on_the_server() {
    let (mut test, [p1, p2]) = CoreTest::running(["p1", "p2"]);
    let id = back_to_the_read(&mut test, 0);
    test.reply(id, &answer(&[(3, "c")], 4, None, false));
    let other = test.expect_read("p2", 0);
    assert_eq!(p1.events_text(), "failed: gap: event 1 is no longer retained, but event 3 is");
    let (terminate, params) = test.expect_request("process/terminate");
    assert_eq!(params, json!({ "processId": "p1" }));
    test.reply(other, &answer(&[(1, "x")], 2, None, false));
    assert_eq!((p2.events_text().as_str(), test.state()), ("1=x", State::Connected));
    let (_, mut again) = test.start("p1");
    assert_eq!(ended(&mut again), Some(Err(Failure::IdTaken)), "until what is left of it is ended");
    test.reply(terminate, &json!({ "running": true }));
    test.started("p1");
}

#[tokio::test(start_paused = true)]
async fn a_read_refused_for_a_transient_reason_is_retried() {
    for refusal in
        [(code::INTERNAL, "too many requests"), (code::INVALID_REQUEST, "process p1 is starting")]
    {
        let (mut test, [p1]) = CoreTest::running(["p1"]);
        let mut id = back_to_the_read(&mut test, 0);
        for _ in 0..3 {
            test.refuse(id, refusal.0, refusal.1);
            assert!(test.nothing_sent());
            test.advance(millis(1000));
            id = test.expect_read("p1", 0);
        }
        test.reply(id, &answer(&[(1, "a")], 2, None, false));
        assert_eq!((p1.events_text().as_str(), test.state()), ("1=a", State::Connected));
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_that_is_refused_repeatedly_fails_its_process() {
    let (mut test, [p1]) = CoreTest::running(["p1"]);
    let mut id = back_to_the_read(&mut test, 0);
    for _ in 0..5 {
        test.refuse(id, code::INTERNAL, "no");
        test.advance(millis(1000));
        id = test.expect_read("p1", 0);
    }
    test.refuse(id, code::INTERNAL, "no");
    assert_eq!(
        (p1.events_text().as_str(), test.state()),
        ("failed: the server refused: no (-32603)", State::Connected)
    );
}

#[tokio::test(start_paused = true)]
async fn a_process_unknown_to_the_server_fails_at_once() {
    let (mut test, [p1]) = CoreTest::running(["p1"]);
    let id = back_to_the_read(&mut test, 0);
    test.refuse(id, code::INVALID_REQUEST, "unknown process id p1");
    assert_eq!(p1.events_text(), "failed: the server refused: unknown process id p1 (-32600)");
    assert_eq!(test.state(), State::Connected);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_answer_fails_only_its_process() {
    let (mut test, [p1]) = CoreTest::running(["p1"]);
    let id = back_to_the_read(&mut test, 0);
    test.reply(id, &json!({ "chunks": 7 }));
    assert_eq!((p1.log.failure(), test.state()), (Some(Failure::Contradiction), State::Connected));
}

#[tokio::test(start_paused = true)]
async fn events_before_the_server_lost_the_process_are_published() {
    let (mut test, [p1]) = CoreTest::running(["p1"]);
    let id = back_to_the_read(&mut test, 0);
    let mut watched = answer(&[(1, "a")], 2, None, false);
    watched["failure"] = json!("the pipe broke");
    test.reply(id, &watched);
    assert_eq!(p1.events_text(), "1=a failed: the server lost the process: the pipe broke");
}

#[tokio::test(start_paused = true)]
async fn an_event_that_stays_missing_while_connected_is_read() {
    let (mut test, [p1]) = CoreTest::running(["p1"]);
    test.on_report(CoreTest::output("p1", 2, "b"));
    test.advance(millis(999));
    assert!(test.nothing_sent());
    test.advance(millis(1));
    let id = test.expect_read("p1", 0);
    test.advance(millis(5000));
    assert!(test.nothing_sent(), "one read at a time");
    test.reply(id, &answer(&[(1, "a"), (2, "b")], 3, None, false));
    assert_eq!(p1.events_text(), "1=a 2=b");
}

#[tokio::test(start_paused = true)]
async fn a_missing_event_that_arrives_in_time_is_not_read() {
    let (mut test, [p1]) = CoreTest::running(["p1"]);
    test.on_report(CoreTest::output("p1", 2, "b"));
    test.advance(millis(999));
    test.on_report(CoreTest::output("p1", 1, "a"));
    test.advance(millis(5000));
    assert_eq!((test.nothing_sent(), p1.events_text().as_str()), (true, "1=a 2=b"));
}

#[tokio::test(start_paused = true)]
async fn an_event_that_several_reads_do_not_return_is_a_gap() {
    let (mut test, [p1]) = CoreTest::running(["p1"]);
    test.on_report(CoreTest::output("p1", u64::MAX, "far"));
    for _ in 0..6 {
        test.advance(millis(1000));
        let id = test.expect_read("p1", 0);
        test.reply(id, &answer(&[], 1, None, false));
    }
    assert_eq!(p1.log.failure(), Some(Failure::Gap { next: 1, last: u64::MAX }));
    assert_eq!(test.state(), State::Connected);
}

#[tokio::test(start_paused = true)]
async fn missing_events_that_arrived_do_not_add_up_to_a_gap() {
    let (mut test, [p1]) = CoreTest::running(["p1"]);
    for hole in 0..20 {
        let seq = 2 * hole + 1;
        test.on_report(CoreTest::output("p1", seq + 1, "b"));
        test.advance(millis(1000));
        let id = test.expect_read("p1", seq - 1);
        test.reply(id, &answer(&[], seq, None, false));
        test.advance(millis(500));
        test.on_report(CoreTest::output("p1", seq, "a"));
        test.on_report(CoreTest::output("p1", seq + 1, "b"));
    }
    assert_eq!((test.core.processes["p1"].published(), p1.log.failure()), (40, None));
}

#[tokio::test(start_paused = true)]
async fn early_events_beyond_the_bounds_are_read_again() {
    let (mut test, [p1]) = CoreTest::running(["p1"]);
    let id = back_to_the_read(&mut test, 0);
    for seq in 2..=400 {
        test.on_report(CoreTest::output("p1", seq, "x"));
    }
    assert_eq!(test.core.resources().held_back_events, 256);
    test.reply(id, &answer(&[(1, "x")], 2, None, false));
    assert_eq!((test.core.processes["p1"].published(), test.state()), (257, State::Connected));
    let id = test.expect_read("p1", 257);
    let rest: Vec<(u64, &str)> = (258..=400).map(|seq| (seq, "x")).collect();
    test.reply(id, &answer(&rest, 401, None, false));
    assert_eq!((test.core.processes["p1"].published(), p1.log.failure()), (400, None));
    test.advance(millis(5000));
    assert!(test.nothing_sent());
}

#[tokio::test(start_paused = true)]
async fn events_dropped_while_connected_are_read_at_once() {
    let mut test = CoreTest::with(ClientLimits { reorder_events: 2, ..ClientLimits::default() });
    test.complete_handshake();
    let p1 = test.started("p1");
    for seq in 2..=4 {
        test.on_report(CoreTest::output("p1", seq, "x"));
    }
    let id = test.expect_read("p1", 0);
    test.reply(id, &answer(&[(1, "x"), (2, "x"), (3, "x"), (4, "x")], 5, None, false));
    assert_eq!(p1.events_text(), "1=x 2=x 3=x 4=x");
}

#[tokio::test(start_paused = true)]
async fn events_of_unknown_processes_are_ignored() {
    let (mut test, [p1]) = CoreTest::running(["p1"]);
    test.on_report(CoreTest::output("p2", 1, "foreign"));
    test.on_report(CoreTest::closed("p2", 2));
    assert_eq!((p1.events_text().as_str(), test.state()), ("", State::Connected));
}

#[tokio::test(start_paused = true)]
async fn a_process_without_handles_is_no_longer_followed() {
    let (mut test, [p1, p2]) = CoreTest::running(["p1", "p2"]);
    test.command(Command::Release(p1.key.clone()));
    test.on_report(CoreTest::output("p1", 1, "a"));
    assert_eq!((p1.events_text().as_str(), test.core.resources().processes), ("", 1));
    test.cut();
    test.complete_handshake();
    test.expect_read("p2", 0);
    assert!(test.nothing_sent());
    let newer = test.start("p1").0;
    test.command(Command::Release(p1.key.clone()));
    assert_eq!(
        test.core.resources().processes,
        2,
        "a late release of the older one does not touch it"
    );
    let mut late = test.request(RetryPolicy::Read, "process/read", Some(&p1));
    let (id, p2) = (test.core.processes["p2"].serial, p2.key.serial);
    assert_eq!((id, newer.key.serial > p2), (p2, true));
    assert_eq!(ended(&mut late), None);
}
