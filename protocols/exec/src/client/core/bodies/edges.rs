//! Tests of bodies when connections are lost and restored; the tests drive the core directly.

use std::sync::Arc;
use std::time::Duration;

use reknit_seams::env::Entropy;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::client::body::{Body, BodyWindow, body};
use crate::client::command::{Call, Command, RetryPolicy};
use crate::client::core::{Core, Effect};
use crate::client::generation::{CloseReason, Generation, Report};
use crate::client::{Failure, State};
use crate::limits::ClientLimits;
use crate::wire::{Message, RequestId, method};

struct ZeroEntropy;

impl Entropy for ZeroEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
}

/// A core, and the handles of its user.
struct CoreTest {
    core: Core,
    _state: watch::Receiver<State>,
    sent: Vec<(Generation, Message)>,
    /// The most recently opened connection.
    newest: Option<Generation>,
}

type Answered = oneshot::Receiver<Result<Box<RawValue>, Failure>>;

impl CoreTest {
    fn new() -> Self {
        let (state, observed) = watch::channel(State::Recovering);
        let core = Core::new(ClientLimits::default(), Arc::new(ZeroEntropy), state, Instant::now());
        let mut test = Self { core, _state: observed, sent: Vec::new(), newest: None };
        test.carry_out();
        test
    }

    fn carry_out(&mut self) {
        while let Some(effect) = self.core.effect() {
            match effect {
                Effect::Open(generation) => self.newest = Some(generation),
                Effect::Send(generation, message) => self.sent.push((generation, message)),
                Effect::Close(_) => {}
                Effect::Install(generation) => self.core.install(generation, true, Instant::now()),
            }
        }
    }

    fn on_report(&mut self, generation: Generation, report: Report) {
        self.core.on_report(generation, report, Instant::now());
        self.carry_out();
    }

    /// Completes the handshake of the newest connection, which is then installed.
    fn connect(&mut self) -> Generation {
        let generation = self.newest.expect("an attempt was begun");
        self.on_report(generation, Report::Opened { conn: generation.attempt });
        let session = json!({ "sessionId": "s" });
        self.on_report(
            generation,
            Report::Message(Message::response(RequestId::Number(1), &session)),
        );
        generation
    }

    /// Loses the connection, and passes the pause before the next attempt.
    async fn lose(&mut self, generation: Generation) {
        self.on_report(generation, Report::Over(CloseReason::Malformed));
        tokio::time::advance(Duration::from_secs(1)).await;
        self.core.wake(Instant::now());
        self.carry_out();
    }

    fn ask(&mut self, number: u64) -> (Answered, Body) {
        let (commands, _) = mpsc::unbounded_channel();
        let (feed, body) = body(number, BodyWindow { pieces: 9, bytes: 99 }, commands);
        let (answer, answered) = oneshot::channel();
        let params = to_raw_value(&json!({ "requestId": format!("http-{number}") })).unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        let (kind, method) = (RetryPolicy::Body(feed), method::HTTP_REQUEST);
        self.core.on_command(
            Command::Call(Call::new(kind, method, params, None, until, answer)),
            Instant::now(),
        );
        self.carry_out();
        (answered, body)
    }

    /// Returns the id of the last HTTP request sent over a connection.
    fn request(&self, over: Generation) -> Option<RequestId> {
        self.sent.iter().rev().find_map(|(generation, message)| match message {
            Message::Request { id, method, .. }
                if *generation == over && method == method::HTTP_REQUEST =>
            {
                Some(id.clone())
            }
            _ => None,
        })
    }

    fn answer(&mut self, generation: Generation) {
        let id = self.request(generation).expect("it was sent");
        self.on_report(
            generation,
            Report::Message(Message::response(id, &json!({ "status": 200, "headers": [] }))),
        );
    }

    fn delta(&mut self, generation: Generation, number: u64, seq: u64, done: bool) {
        let delta = json!({ "requestId": format!("http-{number}"), "seq": seq, "deltaBase64": "YQ==", "done": done });
        self.on_report(
            generation,
            Report::Message(Message::notification(method::HTTP_BODY, &delta)),
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_fails_open_bodies_and_requests_in_flight_at_once() {
    let mut test = CoreTest::new();
    let first = test.connect();
    let (mut answered, mut flowing) = test.ask(1);
    test.answer(first);
    test.delta(first, 1, 1, false);
    let (mut waiting, _in_flight) = test.ask(2);
    test.on_report(first, Report::Over(CloseReason::Malformed));
    assert!(answered.try_recv().unwrap().is_ok(), "an answer that had come stays one");
    assert_eq!(flowing.next().await, Some(Err(Failure::ConnectionLost)));
    assert_eq!(flowing.next().await, None);
    assert_eq!(waiting.try_recv().unwrap().unwrap_err(), Failure::ConnectionLost);
    assert_eq!(test.core.resources().bodies, 0);
}

#[tokio::test(start_paused = true)]
async fn a_body_requested_during_a_recovery_is_not_failed_by_the_earlier_loss() {
    let mut test = CoreTest::new();
    let first = test.connect();
    test.lose(first).await;
    let (mut answered, mut body) = test.ask(1);
    let second = test.newest.expect("an attempt was begun");
    test.on_report(second, Report::Over(CloseReason::Unconnected));
    tokio::time::advance(Duration::from_secs(1)).await;
    test.core.wake(Instant::now());
    test.carry_out();
    assert!(answered.try_recv().is_err(), "it still waits, whatever becomes of attempts");
    let third = test.connect();
    test.answer(third);
    assert!(answered.try_recv().unwrap().is_ok());
    test.delta(third, 1, 1, true);
    assert_eq!(body.next().await.unwrap().unwrap(), "a");
    assert_eq!(body.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn pieces_of_an_older_generation_reach_no_newer_body() {
    let mut test = CoreTest::new();
    let first = test.connect();
    test.lose(first).await;
    let second = test.connect();
    let (_answered, mut body) = test.ask(1);
    test.answer(second);
    test.delta(first, 1, 1, true);
    test.delta(second, 1, 1, false);
    test.delta(second, 1, 2, true);
    for _ in 0..2 {
        assert_eq!(body.next().await.unwrap().unwrap(), "a");
    }
    assert_eq!(body.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_dropped_is_forgotten_and_its_pieces_are_ignored() {
    let mut test = CoreTest::new();
    let first = test.connect();
    let (_answered, _body) = test.ask(1);
    test.answer(first);
    test.core.on_command(Command::Forget(1), Instant::now());
    assert_eq!(test.core.resources().bodies, 0);
    test.delta(first, 1, 1, true);
    assert_eq!(test.core.resources().bodies, 0);
}

#[tokio::test(start_paused = true)]
async fn closing_the_client_fails_its_bodies() {
    let mut test = CoreTest::new();
    let first = test.connect();
    let (_answered, mut body) = test.ask(1);
    test.answer(first);
    let (done, _told) = oneshot::channel();
    test.core.on_command(Command::Close { done }, Instant::now());
    assert_eq!(body.next().await, Some(Err(Failure::Closed)));
}

#[tokio::test(start_paused = true)]
async fn a_body_counts_until_its_end() {
    let mut test = CoreTest::new();
    let generation = test.connect();
    let _asked = test.ask(1);
    test.answer(generation);
    test.delta(generation, 1, 1, false);
    assert_eq!(test.core.resources().bodies, 1);
    test.delta(generation, 1, 2, true);
    assert_eq!(test.core.resources().bodies, 0);
}
