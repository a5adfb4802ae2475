//! Drives the host's core by hand: frames in, frames out, and a clock that only a test advances.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use reknit_seams::Env;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::*;
use crate::state::call;
use crate::wire::ahp::state::ToolCallState;

mod actions;
mod calls;
mod grace;
mod handshake;
mod hostile;
mod replay;
mod subscriptions;

const S: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// A host, its archive, and the calls to its agents.
struct Host {
    core: HostCore,
    now: Instant,
    connections: u64,
    requests: i64,
    archive: BTreeMap<String, Stored>,
    /// Restores that wait for the test; `None` if they complete at once.
    restores: Option<Vec<String>>,
    /// The number of the newest restore of each channel.
    numbers: BTreeMap<String, u64>,
    effects: Vec<String>,
    /// The messages that were pulled and that the test has not read yet.
    inbox: BTreeMap<ConnId, Vec<Value>>,
}

impl Host {
    fn new() -> Self {
        Self::with(HostLimits::default())
    }

    fn with(limits: HostLimits) -> Self {
        Self::of(limits, "epoch-1", BTreeMap::new())
    }

    fn of(limits: HostLimits, epoch: &str, tokens: BTreeMap<String, String>) -> Self {
        let identity = HostIdentity { epoch: epoch.into(), provider: "agent".into(), tokens };
        let core = HostCore::new(limits, identity, Env::real().clock);
        let (effects, inbox, archive) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        Self {
            core,
            now: Instant::now(),
            connections: 0,
            requests: 0,
            archive,
            restores: None,
            numbers: BTreeMap::new(),
            effects,
            inbox,
        }
    }

    /// Advances the time, and lets the host handle its timeouts.
    fn wait(&mut self, how_long: Duration) {
        let until = self.now + how_long;
        while let Some(due) = self.core.due().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            self.core.catch_up(self.now);
            self.carry_out();
            assert!(self.core.due().is_none_or(|next| next > due), "what was due is done");
        }
        self.now = until;
    }

    fn carry_out(&mut self) {
        while let Some(effect) = self.core.effect() {
            match effect {
                HostEffect::Restore(channel, number) => {
                    self.numbers.insert(channel.clone(), number);
                    match &mut self.restores {
                        Some(restores) => restores.push(channel),
                        None => self.restored(&channel),
                    }
                }
                HostEffect::Save(channel, stored) => drop(self.archive.insert(channel, *stored)),
                HostEffect::Forget(channel) => drop(self.archive.remove(&channel)),
                HostEffect::Begin { chat, turn, .. } => {
                    self.effects.push(format!("begin {chat} {turn}"))
                }
                HostEffect::Stop { chat, turn } => self.effects.push(format!("stop {chat} {turn}")),
            }
        }
    }

    /// Completes the newest restore of a channel with the archive's content.
    fn restored(&mut self, channel: &str) {
        let stored = self.archive.get(channel).cloned();
        self.core.restored(channel, self.numbers[channel], stored, self.now);
        self.carry_out();
    }

    fn open(&mut self) -> ConnId {
        self.connections += 1;
        let conn = ConnId(self.connections);
        self.core.open(conn, Arc::new(Notify::new()), self.now);
        conn
    }

    fn close(&mut self, conn: ConnId) {
        self.core.close(conn, self.now);
        self.carry_out();
    }

    fn send(&mut self, conn: ConnId, message: &Value) {
        self.core.on_frame(conn, message.to_string().as_bytes(), self.now);
        self.carry_out();
    }

    fn notify(&mut self, conn: ConnId, method: &str, params: Value) {
        self.send(conn, &json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Sends a request and returns its id. The answer is among the next messages.
    fn request(&mut self, conn: ConnId, method: &str, params: Value) -> i64 {
        self.requests += 1;
        let id = self.requests;
        self.send(conn, &json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Pulls all messages of a connection.
    fn pull(&mut self, conn: ConnId) {
        while let Some(message) = self.core.pull(conn) {
            let value = serde_json::from_str(&message.to_versioned_text()).unwrap();
            self.inbox.entry(conn).or_default().push(value);
        }
    }

    /// Returns the actions received since the last read.
    fn actions(&mut self, conn: ConnId) -> Vec<Value> {
        self.pull(conn);
        let inbox = self.inbox.remove(&conn).unwrap_or_default();
        let (actions, others) =
            inbox.into_iter().partition(|message| message["method"] == "action");
        self.inbox.insert(conn, others);
        let actions: Vec<Value> = actions;
        actions.into_iter().map(|action| action["params"].clone()).collect()
    }

    /// Returns the types of the actions received since the last read.
    fn received(&mut self, conn: ConnId) -> Vec<String> {
        let kind = |action: &Value| action["action"]["type"].as_str().unwrap_or("?").to_owned();
        self.actions(conn).iter().map(kind).collect()
    }

    /// Returns the answer to a request, if it arrived.
    fn answer(&mut self, conn: ConnId, id: i64) -> Option<Value> {
        self.pull(conn);
        self.inbox
            .get(&conn)?
            .iter()
            .find(|message| message["id"] == id && message["method"].is_null())
            .cloned()
    }

    fn ask(&mut self, conn: ConnId, method: &str, params: Value) -> Value {
        let id = self.request(conn, method, params);
        self.answer(conn, id).unwrap_or_else(|| panic!("{method} is not answered"))
    }

    fn initialize_on(&mut self, conn: ConnId, client: &str, channels: &[&str]) -> i64 {
        let params = json!({
            "channel": ROOT, "protocolVersions": ["1.0.0"], "clientId": client, "initialSubscriptions": channels,
        });
        self.request(conn, "initialize", params)
    }

    /// Opens a connection of a client that starts over with `initialize`.
    fn initialize(&mut self, client: &str, channels: &[&str]) -> ConnId {
        let conn = self.open();
        let id = self.initialize_on(conn, client, channels);
        let answer = self.answer(conn, id).expect("the handshake is over");
        assert!(answer["result"].is_object(), "{answer}");
        conn
    }

    fn reconnect_on(&mut self, conn: ConnId, client: &str, seen: u64, channels: &[&str]) -> i64 {
        let meta = json!({ "reknit.epoch": "epoch-1/0/1" });
        let params = json!({
            "channel": ROOT, "clientId": client, "lastSeenServerSeq": seen, "subscriptions": channels, "_meta": meta,
        });
        self.request(conn, "reconnect", params)
    }

    /// Opens a connection of a returning client. Returns the connection and the answer.
    fn reconnect(&mut self, client: &str, seen: u64, channels: &[&str]) -> (ConnId, Value) {
        let conn = self.open();
        let id = self.reconnect_on(conn, client, seen, channels);
        let answer = self.answer(conn, id).expect("the handshake is over");
        (conn, answer)
    }

    fn dispatch(&mut self, conn: ConnId, seq: i64, channel: &str, action: Value) {
        self.notify(
            conn,
            "dispatchAction",
            json!({ "channel": channel, "clientSeq": seq, "action": action }),
        );
    }

    /// Creates a session with a chat, and a client in it that offers tools.
    fn with_chat(client: &str, tools: &[&str]) -> (Self, ConnId) {
        Self::new().having_chat(client, tools)
    }

    fn having_chat(mut self, client: &str, tools: &[&str]) -> (Self, ConnId) {
        let conn = self.initialize(client, &[]);
        assert!(self.ask(conn, "createSession", json!({ "channel": "s" }))["error"].is_null());
        assert!(
            self.ask(conn, "createChat", json!({ "channel": "s", "chat": "c" }))["error"].is_null()
        );
        self.joins(conn, client, tools);
        (self, conn)
    }

    /// Adds a client that subscribes to the chat and offers tools in its session.
    fn second(&mut self, client: &str, tools: &[&str]) -> ConnId {
        let conn = self.initialize(client, &[]);
        self.joins(conn, client, tools);
        conn
    }

    fn joins(&mut self, conn: ConnId, client: &str, tools: &[&str]) {
        for channel in ["s", "c"] {
            assert!(self.ask(conn, "subscribe", json!({ "channel": channel }))["error"].is_null());
        }
        if !tools.is_empty() {
            self.offers(conn, client, tools);
        }
        self.pull(conn);
        self.inbox.clear();
    }

    fn offers(&mut self, conn: ConnId, client: &str, tools: &[&str]) {
        let tools: Vec<_> = tools.iter().map(|tool| json!({ "name": tool })).collect();
        let active = json!({ "clientId": client, "tools": tools });
        let seq = 1000 + i64::try_from(self.connections).unwrap();
        self.dispatch(
            conn,
            seq,
            "s",
            json!({ "type": "session/activeClientSet", "activeClient": active }),
        );
    }

    /// Starts a turn in the chat.
    fn starts_turn(&mut self, conn: ConnId, seq: i64, turn: &str) {
        self.dispatch(conn, seq, "c", turn_started(turn));
    }

    /// Starts a call of an agent; the call is streaming.
    fn calls(&mut self, tool: &str) -> CallId {
        let SnapshotState::Chat(state) = self.core.state("c").unwrap() else {
            panic!("it is a chat")
        };
        let turn = state.active_turn.as_ref().unwrap().id.clone();
        let id = self.core.start_call("c", &turn, tool, Owner::Any, self.now).unwrap();
        self.carry_out();
        id
    }

    /// Completes the call's parameters. It runs, or waits for a confirmation.
    fn ready(&mut self, id: &CallId, confirmed: bool) {
        let mut action = json!({
            "type": "chat/toolCallReady", "turnId": id.turn, "toolCallId": id.id, "invocationMessage": "it runs", "toolInput": "{}",
        });
        if confirmed {
            action["confirmed"] = "not-needed".into();
        }
        self.core.act("c", serde_json::from_value(action).unwrap(), self.now).unwrap();
    }

    fn call(&self, id: &CallId) -> &'static str {
        match self.core.call(id) {
            None => "none",
            Some(ToolCallState::Streaming(_)) => "streaming",
            Some(ToolCallState::PendingConfirmation(_)) => "pending confirmation",
            Some(ToolCallState::Running(_)) => "running",
            Some(ToolCallState::PendingResultConfirmation(_)) => "pending result confirmation",
            Some(ToolCallState::Completed(done)) if done.success => "completed",
            Some(ToolCallState::Completed(_)) => "failed",
            Some(ToolCallState::Cancelled(_)) => "cancelled",
            Some(_) => "?",
        }
    }

    fn owner(&self, id: &CallId) -> Option<String> {
        self.core.call(id).and_then(call::owner).map(str::to_owned)
    }

    fn title(&self) -> &str {
        match self.core.state("s") {
            Some(SnapshotState::Session(session)) => &session.title,
            _ => panic!("there is a session"),
        }
    }

    fn active(&self) -> Vec<String> {
        let Some(SnapshotState::Session(session)) = self.core.state("s") else {
            panic!("there is a session")
        };
        session.active_clients.iter().map(|active| active.client_id.clone()).collect()
    }
}

fn turn_started(turn: &str) -> Value {
    let message = json!({ "text": "do it", "origin": { "kind": "user" } });
    json!({ "type": "chat/turnStarted", "turnId": turn, "startedAt": "2026-01-01T00:00:00.000Z", "message": message })
}

fn completed(id: &CallId) -> Value {
    let result = json!({ "success": true, "pastTenseMessage": "it ran" });
    json!({ "type": "chat/toolCallComplete", "turnId": id.turn, "toolCallId": id.id, "result": result })
}

fn title(title: &str) -> Value {
    json!({ "type": "session/titleChanged", "title": title })
}

/// Creates a client with a streaming call.
fn with_call() -> (Host, ConnId, CallId) {
    let (mut host, conn) = Host::with_chat("window", &["tool"]);
    host.starts_turn(conn, 1, "t1");
    let id = host.calls("tool");
    (host, conn, id)
}
