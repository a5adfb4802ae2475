//! Drives the broker's core by hand: lines in, lines out, and a clock that only a test advances.

use std::collections::BTreeMap;
use std::time::Duration;

use reknit_jsonrpc::{ErrorBody, Message};
use serde_json::{Value, json};

use super::*;
use crate::upstream::{EndReason, UpstreamEnd};
use crate::wire::{ClientInfo, InitializeParams};

mod abandoned;
mod admission;
mod defects;
mod routing;
mod stages;
mod walk;

const S: Duration = Duration::from_secs(1);
const A: ClientId = ClientId(1);
const B: ClientId = ClientId(2);

/// A request that the app-server has received.
struct Received {
    ticket: Ticket,
    method: String,
    params: Value,
}

/// A broker, its clients, and its app-server.
struct Bench {
    core: BrokerCore,
    now: Instant,
    requests: i64,
    /// The requests that the app-server has received and not answered.
    received: Vec<Received>,
    notified: Vec<&'static str>,
    closed: bool,
    inbox: BTreeMap<ClientId, Vec<Value>>,
}

fn limits() -> BrokerLimits {
    let connection = crate::limits::ConnectionLimits {
        line_bytes: 10_000,
        outbox_bytes: 20_000,
        ..Default::default()
    };
    BrokerLimits { connection, ..BrokerLimits::default() }
}

impl Bench {
    /// Creates a broker whose app-server is not initialized.
    fn starting() -> Self {
        let client_info = ClientInfo { name: "b".into(), title: None, version: "1".into() };
        let mut bench = Self {
            core: BrokerCore::new(limits(), &InitializeParams::new(client_info)),
            now: Instant::now(),
            requests: 0,
            received: Vec::new(),
            notified: Vec::new(),
            closed: false,
            inbox: BTreeMap::new(),
        };
        bench.carry_out();
        bench
    }

    /// Creates a broker with the clients A and B.
    fn new() -> Self {
        let mut bench = Self::starting();
        bench.answer("initialize", json!({ "userAgent": "codex" }));
        bench.open(A);
        bench.open(B);
        bench
    }

    fn carry_out(&mut self) {
        while let Some(effect) = self.core.effect() {
            match effect {
                BrokerEffect::Request { ticket, method, params } => {
                    let params = params.map_or(Value::Null, |raw| {
                        serde_json::from_str(raw.get()).expect("valid parameters")
                    });
                    self.received.push(Received { ticket, method, params });
                }
                BrokerEffect::Notify { method } => self.notified.push(method),
                BrokerEffect::CloseUpstream => self.closed = true,
            }
        }
    }

    /// Advances the time, and lets the broker handle its timeouts.
    fn wait(&mut self, how_long: Duration) {
        let until = self.now + how_long;
        while let Some(due) = self.core.due().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            self.core.catch_up(self.now);
            self.carry_out();
            assert!(self.core.due().is_none_or(|next| next > self.now), "what was due is done");
        }
        self.now = until;
    }

    fn open(&mut self, client: ClientId) {
        self.core.open(client, Arc::new(Notify::new()), self.now);
    }

    fn close(&mut self, client: ClientId) {
        self.core.close(client, self.now);
        self.carry_out();
    }

    fn line(&mut self, client: ClientId, line: LineEvent) {
        self.core.on_line(client, line, self.now);
        self.carry_out();
    }

    /// Sends a request of a client, and returns its id.
    fn ask(&mut self, client: ClientId, method: &str, params: Value) -> i64 {
        self.requests += 1;
        let id = self.requests;
        self.line(client, LineEvent::Message(Message::request(id, method, &params)));
        id
    }

    /// Takes the first request for this method that the app-server has not answered.
    fn take(&mut self, method: &str) -> Received {
        let at = self.received.iter().position(|received| received.method == method);
        let at = at.unwrap_or_else(|| panic!("the app-server received no {method}"));
        self.received.remove(at)
    }

    /// Answers the first request for this method.
    fn answer(&mut self, method: &str, result: Value) {
        let ticket = self.take(method).ticket;
        self.answer_ticket(ticket, result);
    }

    fn answer_ticket(&mut self, ticket: Ticket, result: Value) {
        let result = serde_json::value::to_raw_value(&result).unwrap();
        self.core.on_answer(ticket, Ok(result), false, self.now);
        self.carry_out();
    }

    /// Answers a request whose deadline has passed.
    fn late(&mut self, ticket: Ticket, result: Value) {
        let result = serde_json::value::to_raw_value(&result).unwrap();
        self.core.on_late(ticket, result, self.now);
        self.carry_out();
    }

    /// Fails the first request for this method.
    fn refuse(&mut self, method: &str, timed_out: bool) -> Ticket {
        let ticket = self.take(method).ticket;
        let error = ErrorBody { code: -32600, message: "no".into(), data: None };
        self.core.on_answer(ticket, Err(error), timed_out, self.now);
        self.carry_out();
        ticket
    }

    fn notify(&mut self, method: &str, params: Value) {
        let params = serde_json::value::to_raw_value(&params).unwrap();
        self.core.on_notification(method, Some(&params), self.now);
        self.carry_out();
    }

    fn turn_started(&mut self, thread: &str, turn: &str) {
        let params = json!({ "threadId": thread, "turn": { "id": turn, "status": "inProgress" } });
        self.notify("turn/started", params);
    }

    fn turn_completed(&mut self, thread: &str, turn: &str) {
        let params = json!({ "threadId": thread, "turn": { "id": turn, "status": "completed" } });
        self.notify("turn/completed", params);
    }

    fn item(&mut self, thread: &str, turn: &str, text: &str) {
        let item = json!({ "type": "agentMessage", "id": "i", "text": text });
        let params = json!({ "threadId": thread, "turnId": turn, "item": item });
        self.notify("item/completed", params);
    }

    /// Starts a turn and answers the request.
    fn start_turn(&mut self, client: ClientId, thread: &str, turn: &str) {
        let id = self.ask(client, "turn/start", json!({ "threadId": thread, "input": [] }));
        self.answer("turn/start", started(turn));
        assert_eq!(self.reply(client, id)["result"]["turn"]["id"], turn);
    }

    /// The turn `v` of a subagent of the turn `u` starts on the thread `s`.
    fn subagent_started(&mut self) {
        let turn = json!({ "id": "v", "rootTurnId": "u", "status": "inProgress" });
        self.notify("turn/started", json!({ "threadId": "s", "turn": turn }));
    }

    /// A leaves behind a subagent that works after the end of its turn, and B asks for a turn.
    fn start_behind_an_abandoned_subagent(&mut self) {
        self.start_turn(A, "t", "u");
        self.subagent_started();
        self.turn_completed("t", "u");
        self.close(A);
        self.ask(B, "turn/start", json!({ "threadId": "t" }));
    }

    /// Plays a detached review of A that ends after A has left, and before the answer to its start.
    fn end_a_review_without_an_answer(&mut self) -> Ticket {
        self.ask(A, "review/start", json!({ "threadId": "t", "delivery": "detached" }));
        self.turn_started("r", "u");
        let ticket = self.refuse("review/start", true);
        self.close(A);
        self.wait(limits().settle * 3);
        self.turn_completed("r", "u");
        ticket
    }

    fn pull(&mut self, client: ClientId) -> &mut Vec<Value> {
        let inbox = self.inbox.entry(client).or_default();
        while let Some(text) = self.core.pull(client) {
            inbox.push(serde_json::from_str(&text).unwrap());
        }
        inbox
    }

    /// Takes the answer to a request.
    #[track_caller]
    fn reply(&mut self, client: ClientId, id: i64) -> Value {
        self.try_reply(client, id).unwrap_or_else(|| panic!("no answer to {id}"))
    }

    fn try_reply(&mut self, client: ClientId, id: i64) -> Option<Value> {
        let inbox = self.pull(client);
        let at = inbox.iter().position(|message| message["id"] == id)?;
        Some(inbox.remove(at))
    }

    /// Takes the texts of the items, and the methods of the other notifications, that a client has
    /// received.
    fn seen(&mut self, client: ClientId) -> Vec<String> {
        let inbox = std::mem::take(self.pull(client));
        let show = |message: &Value| match message["params"]["item"]["text"].as_str() {
            Some(text) => text.to_owned(),
            None => message["method"].as_str().unwrap_or("answer").to_owned(),
        };
        inbox.iter().map(show).collect()
    }

    /// Returns the error code of the answer to a request.
    #[track_caller]
    fn code(&mut self, client: ClientId, id: i64) -> i64 {
        let reply = self.reply(client, id);
        reply["error"]["code"].as_i64().unwrap_or_else(|| panic!("no refusal: {reply}"))
    }

    /// Whether a client's request is admitted now.
    fn admits(&mut self, client: ClientId) -> bool {
        let id = self.ask(client, "account/read", json!({}));
        let admitted = self.received.iter().any(|received| received.method == "account/read");
        if admitted {
            self.answer("account/read", json!({}));
            self.reply(client, id);
        } else {
            assert_eq!(self.code(client, id), code::BUSY);
        }
        admitted
    }

    /// Takes the turns that the broker or a client has interrupted.
    fn interrupted(&mut self) -> Vec<String> {
        let (interrupts, others) = std::mem::take(&mut self.received)
            .into_iter()
            .partition(|received: &Received| received.method == "turn/interrupt");
        self.received = others;
        let mut turns = Vec::new();
        for interrupt in interrupts {
            let interrupt: Received = interrupt;
            turns.push(interrupt.params["turnId"].as_str().unwrap().to_owned());
            self.answer_ticket(interrupt.ticket, json!({}));
        }
        turns
    }

    fn upstream_ends(&mut self) {
        let exit = Some(reknit_seams::process::Exit::Code(3));
        let end = UpstreamEnd { reason: EndReason::Closed, exit, stderr: String::new() };
        self.core.upstream_ended(Arc::new(end), self.now);
        self.carry_out();
    }
}

fn started(turn: &str) -> Value {
    json!({ "turn": { "id": turn, "items": [], "status": "inProgress" } })
}
