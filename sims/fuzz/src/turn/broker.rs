//! The core of a broker, hostile clients, an app-server that may be hostile, and a well-behaved client.
//!
//! These invariants hold for everything that the hostile peers say, and for each order of events:
//! - no code panics, and the broker sends only valid messages;
//! - the broker stays within its limits at every step;
//! - the broker does everything at the time at which it is due;
//! - each command of the well-behaved client ends exactly once: with one verdict, or without a turn only if
//!   the broker ended. Each of its requests gets at most one answer;
//! - if the app-server is not hostile, the client gets only the notifications of its turns, and its
//!   verdict is the end that the app-server reported;
//! - after the hostile clients have disconnected, the broker is not busy with them any more after
//!   `FORGOTTEN`;
//! - after all clients have disconnected, the broker waits for nothing after `FORGOTTEN`. It
//!   remembers at most `MOST_FINISHED` finished turns, one late start for each of them, and threads
//!   up to its limit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arbitrary::Arbitrary;
use reknit_jsonrpc::{ErrorBody, LineEvent, Message, RequestId};
use reknit_turn::broker::{BrokerCore, BrokerEffect, ClientId, Ticket};
use reknit_turn::capture::{Evidence, Interruption, Verdict};
use reknit_turn::limits::{BrokerLimits, ConnectionLimits};
use reknit_turn::upstream::{EndReason, UpstreamEnd};
use reknit_turn::wire::{ClientInfo, InitializeParams, code};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::message::{Answer, Ask, News};
use super::model::AppServer;
use super::user::{OWN, Outcome, User};
use crate::script::{Bytes, Name, Pause, Rarely, SendOptions, Steps, Times};

/// The actions of hostile clients, and of the app-server.
#[derive(Arbitrary, Debug)]
pub struct TurnBrokerScript {
    /// Whether the broker's limits are tight.
    tight: bool,
    /// Whether the app-server is hostile.
    hostile: bool,
    /// The steps, in order.
    steps: Steps<Step>,
}

/// A step. The numbers of clients are those of the four hostile ones.
#[derive(Arbitrary, Debug)]
enum Step {
    /// A client sends a request this many times.
    Asks(u8, Ask, Rarely<Name>, SendOptions, Times),
    /// A client interrupts a turn that runs at the correct app-server.
    Interrupts(u8, u8),
    /// A client sends any bytes as a line.
    Disturbs(u8, Rarely<Bytes>),
    /// A client stops or resumes reading.
    Reads(u8, bool),
    /// A client leaves, and comes again over another connection.
    ComesAgain(u8),
    /// The app-server answers one of its requests; a hostile one with anything.
    Answers(Rarely<u8>, Option<Answer>, SendOptions),
    /// A hostile app-server sends a notification this many times.
    Tells(News, SendOptions, Times),
    /// A hostile app-server sends any bytes as a line.
    Mumbles(Rarely<Bytes>),
    /// Time passes.
    Pauses(Pause),
    /// More time passes: up to 256 s.
    Waits(Rarely<u8>),
    /// The broker is asked to end, or the app-server ends.
    Ends(Rarely<Rarely<bool>>),
}

/// How many finished turns a broker remembers.
const MOST_FINISHED: usize = 64;

/// The time by which a broker has given up all turns of clients that have disconnected: an app-server has
/// 60 s to answer a start, and 30 s to end the turn.
const FORGOTTEN: Duration = Duration::from_secs(400);

/// The time in which a command ends if nothing disturbs it: a silent turn fails after 600 s.
const PATIENCE: Duration = Duration::from_secs(2000);

/// How often a correct app-server works.
const TICK: Duration = Duration::from_millis(100);

/// Runs the script, and checks all invariants.
pub fn holds(script: &TurnBrokerScript) {
    let mut test = BrokerTest::new(script);
    for step in &script.steps.0 {
        test.step(step);
        test.is_within_limits();
    }
    for number in test.hostile.keys().copied().collect::<Vec<_>>() {
        test.leave(number);
    }
    test.advance(FORGOTTEN);
    let busy = test.user.busy;
    test.advance(FORGOTTEN);
    assert_eq!(test.user.busy, busy, "busy without another client");
    test.user.stop();
    test.advance(PATIENCE);
    assert!(test.user.is_idle(), "the command of the well-behaved client does not end");
    test.judge();
    test.advance(FORGOTTEN);
    test.has_forgotten();
}

fn limits(tight: bool) -> BrokerLimits {
    let connection = |line_bytes, outbox_bytes| ConnectionLimits {
        line_bytes,
        outbox_bytes,
        ..ConnectionLimits::default()
    };
    if !tight {
        let connection = connection(32 << 10, 64 << 10);
        return BrokerLimits { connection, ..BrokerLimits::default() };
    }
    let connection = connection(2 << 10, 8 << 10);
    BrokerLimits { requests: 4, threads: 6, connection, ..BrokerLimits::default() }
}

/// A hostile client.
struct Hostile {
    client: ClientId,
    reads: bool,
}

/// A request that the app-server has not answered.
struct Asked {
    ticket: Ticket,
    method: String,
    params: Value,
    until: Instant,
}

struct BrokerTest {
    core: BrokerCore,
    limits: BrokerLimits,
    now: Instant,
    user: User,
    hostile: BTreeMap<u8, Hostile>,
    connections: u64,
    requests: u64,
    /// The app-server, if it works correctly.
    app_server: Option<AppServer>,
    tick: Instant,
    asked: BTreeMap<u64, Asked>,
    /// The requests whose late answers matter.
    late: BTreeMap<u64, Ticket>,
    last: u64,
    /// Whether the connection to the app-server ends, or has ended.
    closes: bool,
    ended: bool,
}

impl BrokerTest {
    fn new(script: &TurnBrokerScript) -> Self {
        let now = Instant::now();
        let limits = limits(script.tight);
        let client_info = ClientInfo { name: "b".into(), title: None, version: "1".into() };
        let mut test = Self {
            core: BrokerCore::new(limits, &InitializeParams::new(client_info)),
            limits,
            now,
            user: User::new(now),
            hostile: BTreeMap::new(),
            connections: 0,
            requests: 0,
            app_server: (!script.hostile).then(AppServer::default),
            tick: now + TICK,
            asked: BTreeMap::new(),
            late: BTreeMap::new(),
            last: 0,
            closes: false,
            ended: false,
        };
        for number in 0..4 {
            test.enter(number);
        }
        test.settle();
        test
    }

    fn enter(&mut self, number: u8) {
        self.connections += 1;
        let client = ClientId(self.connections);
        self.core.open(client, Arc::new(Notify::new()), self.now);
        self.hostile.insert(number % 4, Hostile { client, reads: true });
    }

    fn leave(&mut self, number: u8) {
        if let Some(hostile) = self.hostile.remove(&(number % 4)) {
            self.core.close(hostile.client, self.now);
        }
        self.settle();
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Asks(client, ask, text_id, manner, times) => {
                for _ in 0..times.count() {
                    self.requests += 1;
                    let line = manner.text(ask.message(self.requests, text_id));
                    self.client_sends(*client, &line);
                }
            }
            Step::Interrupts(client, n) => {
                let Some((thread, turn)) = self.app_server.as_ref().and_then(|app| app.turn(*n))
                else {
                    return;
                };
                self.requests += 1;
                let params = json!({ "threadId": thread, "turnId": turn });
                let ask =
                    json!({ "id": self.requests, "method": "turn/interrupt", "params": params });
                self.deliver(*client, ask.to_string().as_bytes());
            }
            Step::Disturbs(client, Rarely(Some(bytes))) => {
                self.client_sends(*client, &bytes.bytes());
            }
            Step::Reads(client, reads) => {
                if let Some(hostile) = self.hostile.get_mut(&(client % 4)) {
                    hostile.reads = *reads;
                }
                self.settle();
            }
            Step::ComesAgain(client) => {
                self.leave(*client);
                self.enter(*client);
            }
            Step::Answers(n, answer, manner) => self.app_server_answers(n, answer, manner),
            Step::Tells(news, manner, times) if self.app_server.is_none() => {
                for _ in 0..times.count() {
                    self.app_server_sends(&manner.text(news.message()));
                }
            }
            Step::Mumbles(Rarely(Some(bytes))) if self.app_server.is_none() => {
                self.app_server_sends(&bytes.bytes());
            }
            Step::Pauses(pause) => self.advance(pause.duration()),
            Step::Waits(Rarely(Some(seconds))) => {
                self.advance(Duration::from_secs(u64::from(*seconds)));
            }
            Step::Ends(Rarely(Some(Rarely(crash)))) => match crash {
                Some(_) => self.app_server_ends(EndReason::Closed),
                None => {
                    self.core.shutdown(self.now);
                    self.settle();
                }
            },
            _ => {}
        }
    }

    /// Handles a line of a hostile client, which knows no thread of the well-behaved one.
    fn client_sends(&mut self, number: u8, line: &[u8]) {
        if !String::from_utf8_lossy(line).contains(OWN) {
            self.deliver(number, line);
        }
    }

    fn deliver(&mut self, number: u8, line: &[u8]) {
        let Some(hostile) = self.hostile.get(&(number % 4)) else { return };
        let event = match Message::parse(line) {
            _ if line.len() > self.limits.connection.line_bytes => LineEvent::TooLong,
            Ok(message) => LineEvent::Message(message),
            Err(malformed) => LineEvent::Malformed(malformed),
        };
        self.core.on_line(hostile.client, event, self.now);
        self.settle();
    }

    fn app_server_answers(
        &mut self,
        n: &Rarely<u8>,
        answer: &Option<Answer>,
        manner: &SendOptions,
    ) {
        let all: Vec<u64> = self.asked.keys().chain(self.late.keys()).copied().collect();
        let at = usize::from(n.0.unwrap_or(0)).checked_rem(all.len());
        let Some(number) = at.map(|at| all[at]) else { return };
        match answer {
            Some(answer) if self.app_server.is_none() => {
                self.app_server_sends(&manner.text(answer.message(&json!(number))));
            }
            _ => self.answer_correctly(number),
        }
    }

    /// Answers a request as a correct app-server.
    fn answer_correctly(&mut self, number: u64) {
        let Some(asked) = self.asked.get(&number) else { return };
        let id = json!(number);
        let answer = match &mut self.app_server {
            Some(app_server) => app_server.answer(&id, &asked.method, &asked.params),
            None => AppServer::default().answer(&id, &asked.method, &asked.params),
        };
        self.app_server_sends(answer.to_string().as_bytes());
    }

    /// Handles a line of the app-server.
    fn app_server_sends(&mut self, line: &[u8]) {
        if self.ended {
            return;
        }
        if line.len() > self.limits.connection.line_bytes {
            return self.app_server_ends(EndReason::TooLong(self.limits.connection.line_bytes));
        }
        let now = self.now;
        let number = |id: RequestId| match id {
            RequestId::Number(number) => u64::try_from(number).ok(),
            RequestId::Text(_) => None,
        };
        match Message::parse(line) {
            Ok(Message::Notification { method, params }) => {
                self.core.on_notification(&method, params.as_deref(), now);
            }
            Ok(Message::Response { id, result }) => {
                let number = number(id).unwrap_or_default();
                if let Some(asked) = self.asked.remove(&number) {
                    self.core.on_answer(asked.ticket, Ok(result), false, now);
                } else if let Some(ticket) = self.late.remove(&number) {
                    self.core.on_late(ticket, result, now);
                }
            }
            Ok(Message::Error { id, error }) => {
                if let Some(asked) = self.asked.remove(&number(id).unwrap_or_default()) {
                    self.core.on_answer(asked.ticket, Err(error), false, now);
                }
            }
            Ok(Message::Request { .. }) => {}
            Err(malformed) => self.core.on_unreadable(&malformed.0, now),
        }
        self.settle();
    }

    fn app_server_ends(&mut self, reason: EndReason) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        self.closes = true;
        for asked in std::mem::take(&mut self.asked).into_values() {
            self.core.on_answer(asked.ticket, Err(failure("it ended")), false, self.now);
        }
        let end = UpstreamEnd { reason, exit: None, stderr: String::new() };
        self.core.upstream_ended(Arc::new(end), self.now);
        self.settle();
    }

    /// Carries out all effects, and lets the clients read.
    fn settle(&mut self) {
        loop {
            let before = (self.user.due(), self.user.outcomes.len());
            while let Some(effect) = self.core.effect() {
                self.carry_out(effect);
            }
            self.user.wake(&mut self.core, self.app_server.is_some(), self.now);
            for hostile in self.hostile.values() {
                while hostile.reads
                    && let Some(text) = self.core.pull(hostile.client)
                {
                    serde_json::from_str::<Value>(&text).expect("a line is JSON");
                }
            }
            let over = |hostile: &Hostile| self.core.over(hostile.client).is_some();
            let over: Vec<u8> =
                self.hostile.iter().filter(|(_, h)| over(h)).map(|(number, _)| *number).collect();
            for number in &over {
                if let Some(hostile) = self.hostile.remove(number) {
                    self.core.close(hostile.client, self.now);
                }
            }
            let is_calm = over.is_empty() && before == (self.user.due(), self.user.outcomes.len());
            let Some(effect) = self.core.effect() else {
                if is_calm {
                    return;
                }
                continue;
            };
            self.carry_out(effect);
        }
    }

    fn carry_out(&mut self, effect: BrokerEffect) {
        match effect {
            BrokerEffect::Request { ticket, .. } if self.closes => {
                let error = failure("the connection to the app-server has ended");
                self.core.on_answer(ticket, Err(error), false, self.now);
            }
            BrokerEffect::Request { ticket, method, params } => {
                self.last += 1;
                let params = params.map_or(Value::Null, |raw| {
                    serde_json::from_str(raw.get()).expect("parameters are JSON")
                });
                let until = self.now + self.limits.connection.request;
                self.asked.insert(self.last, Asked { ticket, method, params, until });
            }
            BrokerEffect::Notify { method } => assert_eq!(method, "initialized"),
            BrokerEffect::CloseUpstream => self.closes = true,
        }
    }

    fn turns_run(&self) -> bool {
        self.app_server.as_ref().is_some_and(|app_server| app_server.turn(0).is_some())
    }

    /// Returns when something happens next.
    fn due(&self) -> Option<Instant> {
        let deadlines = self.asked.values().map(|asked| asked.until);
        let works = !self.asked.is_empty() || self.turns_run();
        let app_server = (works && self.app_server.is_some() && !self.ended).then_some(self.tick);
        let end = (self.closes && !self.ended).then_some(self.now);
        let others = [self.core.due(), self.user.due(), app_server, end];
        deadlines.chain(others.into_iter().flatten()).min()
    }

    /// Lets time pass.
    fn advance(&mut self, how_long: Duration) {
        let until = self.now + how_long;
        while let Some(due) = self.due().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            self.core.catch_up(self.now);
            self.settle();
            assert!(self.core.due().is_none_or(|next| next > self.now), "what was due is done");
            if self.closes {
                self.app_server_ends(EndReason::Asked);
            }
            self.miss_deadlines();
            if self.tick <= self.now {
                self.tick = self.now + TICK;
                self.work();
            }
            self.settle();
            self.is_within_limits();
        }
        self.now = until;
    }

    fn miss_deadlines(&mut self) {
        let is_late = |(_, asked): &(&u64, &Asked)| asked.until <= self.now;
        let late: Vec<u64> = self.asked.iter().filter(is_late).map(|(number, _)| *number).collect();
        for number in late {
            let Some(Asked { ticket, .. }) = self.asked.remove(&number) else { continue };
            self.core.on_answer(ticket, Err(failure("no answer in time")), true, self.now);
            if self.core.awaits(ticket) {
                self.late.insert(number, ticket);
            }
        }
        self.late.retain(|_, ticket| self.core.awaits(*ticket));
    }

    /// Lets a correct app-server answer everything, and work.
    fn work(&mut self) {
        if self.app_server.is_none() || self.ended {
            return;
        }
        for number in self.asked.keys().copied().collect::<Vec<_>>() {
            self.answer_correctly(number);
        }
        let news = self.app_server.as_mut().map(AppServer::work).unwrap_or_default();
        for message in news {
            self.app_server_sends(message.to_string().as_bytes());
        }
    }

    fn is_within_limits(&self) {
        let (counts, limits) = (self.core.counts(), &self.limits);
        let at_most =
            |what: &str, is: usize, most: usize| assert!(is <= most, "{what}: {is} of {most}");
        let clients = self.hostile.len() + 1;
        at_most("clients", counts.clients, clients);
        // One request of any size is always admitted.
        at_most("bytes of requests", counts.request_bytes, limits.connection.line_bytes + 256);
        at_most("finished turns", counts.finished_turns, MOST_FINISHED);
        at_most("late starts", counts.late_starts, counts.turns + counts.finished_turns);
        at_most("threads", counts.threads, limits.threads);
        at_most("bytes for clients", counts.outbox_bytes, clients * limits.connection.outbox_bytes);
        at_most("requests", counts.requests, limits.connection.line_bytes / 128 + 1);
    }

    /// Checks how the commands of the well-behaved client ended.
    fn judge(&self) {
        for (thread, outcome) in &self.user.outcomes {
            let Outcome::Verdict(verdict) = outcome else {
                assert!(self.ended, "no turn started on {thread}, but the broker runs");
                continue;
            };
            let Some(app_server) = &self.app_server else { continue };
            let expected = match app_server.ended(thread) {
                Some("completed") => Verdict::Completed(Evidence::Reported),
                Some("interrupted") => Verdict::Interrupted(Interruption::Other),
                _ if self.ended => continue,
                end => panic!("{thread}: {end:?}, but {verdict:?}"),
            };
            assert!(*verdict == expected || self.ended, "{thread}: {verdict:?}, not {expected:?}");
        }
        assert!(!self.user.outcomes.is_empty() || self.ended);
    }

    /// Checks what is left when all clients have gone.
    fn has_forgotten(&self) {
        let counts = self.core.counts();
        let left = [
            counts.clients,
            counts.requests,
            counts.request_bytes,
            counts.interrupts,
            counts.turns,
            counts.outbox_bytes,
        ];
        assert_eq!(left, [0; 6], "clients, requests, bytes, interrupts, turns, bytes for clients");
        assert!(
            counts.finished_turns <= MOST_FINISHED && counts.late_starts <= counts.finished_turns
        );
        assert_eq!(self.core.due(), None);
        assert_eq!(self.core.unanswered(), counts.late_starts);
        assert_eq!(self.core.exit().is_some(), self.closes, "the broker ends with its app-server");
    }
}

fn failure(message: &str) -> ErrorBody {
    ErrorBody { code: code::SERVER, message: message.into(), data: None }
}
