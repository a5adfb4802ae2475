//! The well-behaved client of a broker: it runs one command after another, each over its own connection.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use reknit_jsonrpc::{LineEvent, Message, RequestId};
use reknit_turn::broker::{BrokerCore, ClientId, CutReason};
use reknit_turn::capture::{Capture, Input, Output, Raw, TurnKind, Verdict};
use reknit_turn::limits::{ConnectionLimits, TurnLimits};
use reknit_turn::upstream::RequestFailure;
use reknit_turn::wire::code;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

/// The start of the names of its threads.
pub(super) const OWN: &str = "own-";

/// Its first connection. Hostile clients have lower numbers.
const FIRST: u64 = 1 << 32;

/// How long it waits after a refusal.
const PAUSE: Duration = Duration::from_secs(1);

/// How long it waits between two commands.
const REST: Duration = Duration::from_secs(30);

/// How a command ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Verdict(Verdict),
    NotStarted,
}

/// The purpose of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Hello,
    Start,
    Interrupt,
}

/// One command.
struct Command {
    client: ClientId,
    thread: String,
    last: i64,
    /// The requests without an answer, with their deadlines; `None` after the deadline.
    asked: BTreeMap<i64, (Purpose, Option<Instant>)>,
    /// When it asks for its turn again.
    again: Option<Instant>,
    capture: Option<Capture>,
    /// The first verdict.
    verdict: Option<Verdict>,
    outcome: Option<Outcome>,
}

/// The well-behaved client.
pub(super) struct User {
    commands: u64,
    /// The commands that are over: their threads, and how they ended.
    pub outcomes: Vec<(String, Outcome)>,
    command: Option<Command>,
    /// When the next command starts; `None` if there is none.
    next: Option<Instant>,
    /// How many requests the broker has refused as busy.
    pub busy: u64,
}

impl User {
    pub fn new(now: Instant) -> Self {
        Self { commands: 0, outcomes: Vec::new(), command: None, next: Some(now), busy: 0 }
    }

    /// Starts no more commands.
    pub fn stop(&mut self) {
        self.next = None;
    }

    /// Whether no command runs.
    pub fn is_idle(&self) -> bool {
        self.command.is_none()
    }

    pub fn due(&self) -> Option<Instant> {
        match &self.command {
            Some(command) => command.due(),
            None => self.next,
        }
    }

    /// Does what is due, and handles what it has received. `is_checked`: whether each notification must
    /// be about its own turn.
    pub fn wake(&mut self, core: &mut BrokerCore, is_checked: bool, now: Instant) {
        if core.is_closing() {
            self.stop();
        }
        if self.command.is_none() && self.next.is_some_and(|next| next <= now) {
            self.commands += 1;
            self.command = Some(Command::begin(self.commands, core, now));
        }
        let Some(command) = &mut self.command else { return };
        command.on_time(core, now);
        while let Some(text) = core.pull(command.client) {
            self.busy += u64::from(command.receive(&text, core, is_checked, now));
        }
        command.follow(core, now);
        if let Some(reason) = core.over(command.client) {
            assert_eq!(reason, CutReason::BrokerEnds, "it reads everything");
            command.lose(now);
        }
        if let Some(outcome) = command.outcome.take() {
            assert!(
                !matches!(&outcome, Outcome::Verdict(verdict) if command.verdict.as_ref() != Some(verdict)),
                "the first verdict stands",
            );
            core.close(command.client, now);
            self.outcomes.push((command.thread.clone(), outcome));
            self.command = None;
            self.next = self.next.map(|_| now + REST);
        }
    }
}

impl Command {
    fn begin(number: u64, core: &mut BrokerCore, now: Instant) -> Self {
        let mut command = Self {
            client: ClientId(FIRST + number),
            thread: format!("{OWN}{number}"),
            last: 0,
            asked: BTreeMap::new(),
            again: None,
            capture: None,
            verdict: None,
            outcome: None,
        };
        core.open(command.client, Arc::new(Notify::new()), now);
        command.ask("initialize", &json!({}), Purpose::Hello, core, now);
        command
    }

    fn ask(
        &mut self,
        method: &str,
        params: &Value,
        purpose: Purpose,
        core: &mut BrokerCore,
        now: Instant,
    ) {
        self.last += 1;
        let until = now + ConnectionLimits::default().request;
        self.asked.insert(self.last, (purpose, Some(until)));
        let request = Message::request(self.last, method, params);
        core.on_line(self.client, LineEvent::Message(request), now);
    }

    fn start(&mut self, core: &mut BrokerCore, now: Instant) {
        let (thread, limits) = (self.thread.clone(), TurnLimits::default());
        let params = json!({ "threadId": thread, "input": [] });
        self.capture = Some(Capture::new(TurnKind::Task, thread, limits, now));
        self.ask("turn/start", &params, Purpose::Start, core, now);
    }

    fn due(&self) -> Option<Instant> {
        let asked = self.asked.values().filter_map(|(_, until)| *until);
        let capture = self.capture.as_ref().and_then(Capture::due);
        asked.chain(capture).chain(self.again).min()
    }

    fn on_time(&mut self, core: &mut BrokerCore, now: Instant) {
        if self.again.is_some_and(|again| again <= now) {
            self.again = None;
            self.start(core, now);
        }
        let late = |(_, (_, until)): &(&i64, &mut (Purpose, Option<Instant>))| {
            until.is_some_and(|until| until <= now)
        };
        let late: Vec<Purpose> = self
            .asked
            .iter_mut()
            .filter(late)
            .map(|(_, (purpose, until))| {
                *until = None;
                *purpose
            })
            .collect();
        for purpose in late {
            match purpose {
                Purpose::Hello => self.outcome = Some(Outcome::NotStarted),
                Purpose::Start => self.handle(Input::NoAnswer, now),
                Purpose::Interrupt => {}
            }
        }
        if let Some(capture) = &mut self.capture {
            capture.wake(now);
        }
    }

    fn handle(&mut self, input: Input, now: Instant) {
        if let Some(capture) = &mut self.capture {
            capture.handle(input, now);
            if self.verdict.is_none() {
                self.verdict = capture.verdict().cloned();
            }
        }
    }

    /// Handles a line of the broker. Returns whether it refuses a request as busy.
    fn receive(
        &mut self,
        text: &str,
        core: &mut BrokerCore,
        is_checked: bool,
        now: Instant,
    ) -> bool {
        let (id, outcome) = match Message::parse(text.as_bytes()) {
            Ok(Message::Response { id, result }) => (id, Ok(result)),
            Ok(Message::Error { id, error }) => (id, Err(error)),
            Ok(Message::Notification { method, params }) => {
                let value: Value = params
                    .as_ref()
                    .map_or(Value::Null, |raw| serde_json::from_str(raw.get()).unwrap());
                let is_own = value["threadId"] == Value::String(self.thread.clone());
                assert!(!is_checked || is_own, "{}: {method} {value}", self.thread);
                self.handle(Input::Notification(Raw { method, params }), now);
                return false;
            }
            Ok(Message::Request { method, .. }) => panic!("a client is never asked: {method}"),
            Err(_) => {
                let refusal: Value = serde_json::from_str(text).expect("a line is JSON");
                assert!(refusal["id"].is_null() && refusal["error"]["code"] == code::PARSE);
                self.handle(Input::Unreadable, now);
                return false;
            }
        };
        let RequestId::Number(number) = id else { panic!("{id:?}: an id that it never used") };
        let (purpose, until) = self.asked.remove(&number).expect("one answer to each request");
        let is_busy = outcome.as_ref().is_err_and(|error| error.code == code::BUSY);
        match purpose {
            Purpose::Hello if outcome.is_ok() => self.start(core, now),
            Purpose::Hello => self.outcome = Some(Outcome::NotStarted),
            // The turn did not start: it asks again.
            Purpose::Start if outcome.is_err() && self.verdict.is_none() && until.is_some() => {
                self.capture = None;
                self.again = Some(now + PAUSE);
            }
            Purpose::Start => {
                let outcome = outcome.map_err(RequestFailure::Refused);
                let input = Input::from_outcome(outcome).expect("the connection has not ended");
                if until.is_some() || matches!(input, Input::Answer(_)) {
                    self.handle(input, now);
                }
            }
            Purpose::Interrupt => {}
        }
        is_busy
    }

    /// Carries out the outputs of the capture, and ends with its verdict.
    fn follow(&mut self, core: &mut BrokerCore, now: Instant) {
        let mut interrupts = Vec::new();
        if let Some(capture) = &mut self.capture {
            while let Some(output) = capture.output() {
                if let Output::Interrupt(interrupt) = output {
                    interrupts.push(interrupt);
                }
            }
            if self.verdict.is_none() {
                self.verdict = capture.verdict().cloned();
            }
        }
        assert!(interrupts.len() <= 1);
        for interrupt in interrupts {
            let turn = interrupt.turn.unwrap_or_default();
            let params = json!({ "threadId": interrupt.thread, "turnId": turn });
            self.ask("turn/interrupt", &params, Purpose::Interrupt, core, now);
        }
        if self.outcome.is_none() && self.capture.as_ref().is_some_and(Capture::is_over) {
            self.end();
        }
    }

    /// Handles the end of its connection.
    fn lose(&mut self, now: Instant) {
        self.handle(Input::End { why: "the broker ended".into() }, now);
        match self.capture.as_ref().is_some_and(|capture| capture.verdict().is_some()) {
            true => self.end(),
            false => self.outcome = Some(Outcome::NotStarted),
        }
    }

    fn end(&mut self) {
        let capture = self.capture.take().expect("it has a capture");
        let report = capture.into_report().expect("it has a verdict");
        self.outcome = Some(Outcome::Verdict(report.verdict));
    }
}
