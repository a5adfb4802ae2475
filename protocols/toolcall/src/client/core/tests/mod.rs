//! Drives the client's core by hand: the tests write the host's messages and check the client's.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::*;
use crate::client::named;
use crate::wire::ROOT;

mod line;
mod order;
mod replica;
mod runner;

const S: Duration = Duration::from_secs(1);

/// A client, and all its effects.
struct ClientTest {
    core: ClientCore,
    now: Instant,
    /// The connections that it asked to open.
    opened: Vec<u64>,
    /// The messages that it sent over the newest connection.
    sent: Vec<Value>,
    /// The calls that it asked to run or stop.
    calls: Vec<String>,
}

impl ClientTest {
    fn new() -> Self {
        Self::with(ClientLimits::default())
    }

    fn with(limits: ClientLimits) -> Self {
        let now = Instant::now();
        let identity = ClientIdentity { client: "window".into(), tools: vec![named("tool")] };
        let core = ClientCore::new(limits, identity, now);
        let mut test = Self { core, now, opened: Vec::new(), sent: Vec::new(), calls: Vec::new() };
        test.wait(Duration::ZERO);
        test
    }

    /// Advances the time, and lets the client handle its timeouts.
    fn wait(&mut self, how_long: Duration) {
        let until = self.now + how_long;
        let mut rounds = 0;
        while let Some(due) = self.core.due().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            self.core.wake(self.now, 0);
            self.carry_out();
            rounds += 1;
            assert!(rounds < 1000, "what was due is done");
        }
        self.now = until;
    }

    fn carry_out(&mut self) {
        while let Some(effect) = self.core.effect() {
            match effect {
                ClientEffect::Open(generation) => {
                    self.opened.push(generation);
                    self.sent.clear();
                }
                ClientEffect::Send(_, message) => {
                    self.sent.push(serde_json::from_str(&message.to_versioned_text()).unwrap())
                }
                ClientEffect::Close(_) => {}
                ClientEffect::Run(run) => {
                    self.calls.push(format!("run {} {}", run.call, run.input))
                }
                ClientEffect::Stop((_, _, call)) => self.calls.push(format!("stop {call}")),
                ClientEffect::AnswerRequest { method, .. } => {
                    self.calls.push(format!("asked {method}"))
                }
            }
        }
    }

    fn generation(&self) -> u64 {
        *self.opened.last().unwrap()
    }

    fn open(&mut self) {
        self.core.opened(self.generation(), 1, self.now);
        self.carry_out();
    }

    fn lose(&mut self) {
        self.core.lost(self.generation(), self.now, 0);
        self.carry_out();
    }

    fn deliver(&mut self, message: &Value) {
        self.core.on_frame(self.generation(), message.to_string().as_bytes(), self.now, 0);
        self.carry_out();
    }

    /// Returns the id of the newest request of a method that the test has not read yet.
    fn request_id(&self, method: &str) -> i64 {
        let request_id =
            self.sent.iter().rev().find(|sent| sent["method"] == method && sent["id"].is_i64());
        request_id.unwrap_or_else(|| panic!("{method} was not asked: {:?}", self.methods()))["id"]
            .as_i64()
            .unwrap()
    }

    /// Returns the methods of the messages sent over this connection.
    fn methods(&self) -> Vec<&str> {
        self.sent.iter().map(|sent| sent["method"].as_str().unwrap_or("answer")).collect()
    }

    fn answer(&mut self, method: &str, result: Value) {
        let id = self.request_id(method);
        self.deliver(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    }

    fn refuse(&mut self, method: &str, code: i64) {
        let id = self.request_id(method);
        self.deliver(
            &json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": "no" } }),
        );
    }

    fn answer_initialize(&mut self, seq: u64, snapshots: Value) {
        let meta = json!({ "reknit.epoch": "epoch-1" });
        let result = json!({ "protocolVersion": "1.0.0", "serverSeq": seq, "snapshots": snapshots, "_meta": meta });
        self.answer("initialize", result);
    }

    /// Creates a connected client that knows a session and a chat as of action 10.
    fn connected() -> Self {
        Self::new().connecting()
    }

    fn connecting(mut self) -> Self {
        self.open();
        self.answer_initialize(10, json!([]));
        for (channel, snapshot) in [("s", session(10, "title")), ("c", chat(10, Value::Null))] {
            let _answered = self.subscribe(channel);
            self.answer("subscribe", json!({ "snapshot": snapshot }));
        }
        assert_eq!(self.core.state(), State::Connected);
        self
    }

    fn subscribe(&mut self, channel: &str) -> oneshot::Receiver<Result<(), Failure>> {
        let (to, answered) = oneshot::channel();
        self.core.subscribe(channel, to, self.now);
        self.carry_out();
        answered
    }

    fn request(&mut self, method: &str) -> oneshot::Receiver<Result<Box<RawValue>, Failure>> {
        let (to, answered) = oneshot::channel();
        self.core.request(
            method,
            serde_json::value::to_raw_value(&json!({})).unwrap(),
            to,
            self.now,
        );
        self.carry_out();
        answered
    }

    fn dispatch(&mut self, channel: &str, action: Value) -> oneshot::Receiver<Result<(), Failure>> {
        let (to, answered) = oneshot::channel();
        self.core.dispatch(channel, serde_json::from_value(action).unwrap(), Some(to));
        self.carry_out();
        answered
    }

    fn deliver_action(&mut self, seq: u64, channel: &str, action: &Value) {
        self.deliver(&action_message(
            &json!({ "channel": channel, "action": action, "serverSeq": seq }),
        ));
    }

    fn title(&self) -> (String, String) {
        let of = |state: Option<SnapshotState>| match state {
            Some(SnapshotState::Session(session)) => session.title,
            _ => "none".to_owned(),
        };
        (of(self.core.confirmed("s").cloned()), of(self.core.view("s")))
    }

    /// Loses the connection and opens the next one; the client asks the host to reconnect it.
    fn reconnects(&mut self) {
        self.lose();
        self.wait(40 * S);
        self.open();
    }
}

fn action_message(envelope: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": "action", "params": envelope })
}

fn title(title: &str) -> Value {
    json!({ "type": "session/titleChanged", "title": title })
}

fn session(seq: u64, title: &str) -> Value {
    let state = json!({
        "provider": "p", "title": title, "status": 1, "lifecycle": "ready", "activeClients": [], "chats": [],
    });
    json!({ "resource": "s", "fromSeq": seq, "state": state })
}

fn chat(seq: u64, active: Value) -> Value {
    let mut state = json!({ "resource": "c", "title": "c", "status": 1, "modifiedAt": "2026-01-01T00:00:00.000Z", "turns": [] });
    if !active.is_null() {
        state["activeTurn"] = active;
    }
    json!({ "resource": "c", "fromSeq": seq, "state": state })
}

/// Returns a turn with a call of this client.
fn turn_with(call: &Value) -> Value {
    let message = json!({ "text": "do it", "origin": { "kind": "user" } });
    let parts = json!([{ "kind": "toolCall", "toolCall": call }]);
    json!({ "id": "t1", "startedAt": "2026-01-01T00:00:00.000Z", "message": message, "responseParts": parts })
}

fn running(call: &str, owner: &str) -> Value {
    json!({
        "status": "running", "toolCallId": call, "toolName": "tool", "displayName": "tool", "invocationMessage": "it runs",
        "toolInput": "{}", "confirmed": "not-needed", "contributor": { "kind": "client", "clientId": owner },
    })
}

fn over(call: &str) -> Value {
    let result = json!({ "success": false, "pastTenseMessage": "its client is gone" });
    json!({ "type": "chat/toolCallComplete", "turnId": "t1", "toolCallId": call, "result": result })
}
