//! Slow subscribers: the log refuses events, the client reads them later, and it reports to the
//! server what was read.

use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::client::log::Events;

/// A connected core with a log of four events, and a running process. The server wants a report
/// after more than two events, or does not control the flow.
fn scene(flow: bool) -> (CoreTest, ObservedProcess, Events) {
    let limits = ClientLimits { log_events: 4, log_bytes: 100, ..ClientLimits::default() };
    let mut test = CoreTest::with(limits);
    test.complete_handshake_with(&handshake(flow));
    let p1 = test.started("p1");
    let events = Events::new(p1.log.clone(), Arc::new(()));
    (test, p1, events)
}

fn handshake(flow: bool) -> Value {
    let flow = flow.then(|| json!({ "reportBytes": 1000, "reportEvents": 2 }));
    json!({ "sessionId": "s", "reknitFlow": flow })
}

impl CoreTest {
    fn prints(&mut self, seqs: std::ops::RangeInclusive<u64>) {
        seqs.for_each(|seq| self.on_report(CoreTest::output("p1", seq, "x")));
    }

    /// The user reads this many events, and the log reports progress.
    async fn user_reads(&mut self, p1: &ObservedProcess, events: &mut Events, count: usize) {
        for _ in 0..count {
            events.next().await;
        }
        self.command(Command::Progress(p1.key.clone()));
    }

    fn expect_report(&mut self, seq: Option<u64>) -> RequestId {
        let (id, params) = self.expect_request("reknit/consumed");
        let expected = match seq {
            Some(seq) => json!({ "processId": "p1", "seq": seq }),
            None => json!({ "processId": "p1" }),
        };
        assert_eq!(params, expected);
        id
    }
}

#[tokio::test(start_paused = true)]
async fn events_beyond_the_log_are_read_when_half_of_it_is_free() {
    let (mut test, p1, mut events) = scene(false);
    test.prints(1..=7);
    assert_eq!((test.core.resources().kept_events, test.core.resources().kept_bytes), (4, 4));
    test.user_reads(&p1, &mut events, 1).await;
    test.advance(millis(60_000));
    assert!(test.nothing_sent(), "less than half of it is free");
    test.user_reads(&p1, &mut events, 1).await;
    let id = test.expect_read("p1", 4);
    test.prints(8..=8);
    test.reply(id, &answer(&[(5, "x"), (6, "x"), (7, "x")], 8, None, false));
    assert_eq!(test.core.resources().kept_events, 5, "two unread events, and the answer");
    test.prints(9..=9);
    test.user_reads(&p1, &mut events, 5).await;
    let id = test.expect_read("p1", 7);
    test.reply(id, &answer(&[(8, "x"), (9, "x")], 12, Some(3), true));
    for seq in 8..=11 {
        assert_eq!(events.next().await.and_then(|event| event.seq()), Some(seq));
    }
    assert_eq!((events.next().await, test.core.resources().processes), (None, 0));
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_the_server_no_longer_has_fails_behind_the_kept_events() {
    let (mut test, p1, mut events) = scene(false);
    test.prints(1..=5);
    test.user_reads(&p1, &mut events, 2).await;
    let id = test.expect_read("p1", 4);
    test.reply(id, &answer(&[(9, "x")], 10, None, false));
    test.expect_request("process/terminate");
    for seq in 3..=4 {
        assert_eq!(events.next().await.and_then(|event| event.seq()), Some(seq));
    }
    assert_eq!(events.next().await, Some(Event::Failed(Failure::Gap { next: 5, last: 9 })));
}

/// Its answer would have no room, and every cut would make the log longer.
#[tokio::test(start_paused = true)]
async fn a_recovery_does_not_read_a_process_whose_log_is_full() {
    let (mut test, p1, mut events) = scene(false);
    test.prints(1..=5);
    test.cut();
    test.advance(millis(1000));
    test.complete_handshake();
    assert_eq!((test.state(), test.nothing_sent()), (State::Connected, true));
    test.cut();
    test.user_reads(&p1, &mut events, 4).await;
    test.advance(millis(1000));
    test.complete_handshake();
    let id = test.expect_read("p1", 4);
    test.reply(id, &answer(&[(5, "x")], 6, None, false));
    assert_eq!(events.next().await.and_then(|event| event.seq()), Some(5));
}

#[tokio::test(start_paused = true)]
async fn what_was_read_is_reported_only_to_a_server_that_controls_the_flow() {
    let (mut test, p1, mut events) = scene(false);
    test.prints(1..=4);
    test.user_reads(&p1, &mut events, 3).await;
    test.command(Command::Release(p1.key.clone()));
    assert!(test.nothing_sent());

    let (mut test, p1, mut events) = scene(true);
    test.prints(1..=4);
    test.user_reads(&p1, &mut events, 2).await;
    assert!(test.nothing_sent());
    test.user_reads(&p1, &mut events, 1).await;
    let id = test.expect_report(Some(3));
    test.reply(id, &json!({}));
    test.user_reads(&p1, &mut events, 1).await;
    assert!(test.nothing_sent());
}

#[tokio::test(start_paused = true)]
async fn a_new_connection_begins_with_a_report_because_the_last_one_may_be_lost() {
    let (mut test, p1, mut events) = scene(true);
    test.prints(1..=4);
    test.cut();
    test.user_reads(&p1, &mut events, 4).await;
    test.advance(millis(1000));
    test.complete_handshake_with(&handshake(true));
    test.expect_report(Some(4));
    test.expect_read("p1", 4);
}

#[tokio::test(start_paused = true)]
async fn a_released_process_is_reported_until_the_server_has_answered() {
    let (mut test, p1, _events) = scene(true);
    test.command(Command::Release(p1.key.clone()));
    test.expect_report(None);
    for _ in 0..2 {
        test.cut();
        test.advance(millis(1000));
        test.complete_handshake_with(&handshake(true));
    }
    let id = test.expect_report(None);
    test.reply(id, &json!({}));
    test.cut();
    test.advance(millis(1000));
    test.complete_handshake_with(&handshake(true));
    assert!(test.nothing_sent());
}

#[tokio::test(start_paused = true)]
async fn a_failed_process_is_released_before_it_is_terminated() {
    let (mut test, _p1, _events) = scene(true);
    test.prints(1..=1);
    test.prints(3..=3);
    test.advance(millis(1000));
    let id = test.expect_read("p1", 1);
    test.reply(id, &answer(&[(3, "x")], 4, None, false));
    test.expect_report(None);
    test.expect_request("process/terminate");
}
