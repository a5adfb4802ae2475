//! Random walks: a host and several clients, without sockets, over connections that lose the
//! messages in flight. Each side notices the end of a connection at its own time. The walk checks
//! invariants at every step, and again when the network has recovered.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use reknit_seams::Env;
use reknit_seams::net::ConnId;
use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::client::core::{self as client_core, ClientEffect as Effect, Key};
use crate::client::{State, done, named};
use crate::host::{HostCore, HostEffect, HostIdentity, Owner, Stored};
use crate::limits::{ClientLimits, HostLimits};
use crate::state::{call, chat};
use crate::wire::SnapshotState;
use crate::wire::ahp::state::ToolCallState;

const CLIENTS: usize = 3;

/// A random number generator with a seed.
struct RandomSource(u64);

impl RandomSource {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound.max(1)
    }
}

/// A connection: the messages in flight, and which sides believe that it is open.
struct Connection {
    client: usize,
    generation: u64,
    up: VecDeque<String>,
    down: VecDeque<String>,
    at_client: bool,
    at_host: bool,
    /// Whether the host knows the client of the connection.
    named: bool,
}

struct TestClient {
    core: client_core::ClientCore,
    working: Vec<Key>,
}

struct Walk {
    random: RandomSource,
    now: Instant,
    host: HostCore,
    archive: BTreeMap<String, Stored>,
    restoring: Vec<(String, u64)>,
    clients: Vec<TestClient>,
    connections: BTreeMap<ConnId, Connection>,
    opened: u64,
    names: u64,
    /// Every action that took effect, by sender: no duplicates.
    effects: BTreeSet<(String, i64)>,
    /// Every call that was started: no duplicates.
    begun: BTreeSet<String>,
    /// The calls that failed because their owner was disconnected.
    failed: BTreeSet<String>,
    /// The clients without a connection at the host, each with the time since when.
    absent: BTreeMap<String, Instant>,
    tap: ConnId,
}

impl Walk {
    fn new(seed: u64) -> Self {
        let now = Instant::now();
        let limits = HostLimits {
            log_actions: [24, 60, 1000][usize::try_from(seed % 3).unwrap()],
            ..HostLimits::default()
        };
        let identity =
            HostIdentity { epoch: "e".into(), provider: "p".into(), tokens: BTreeMap::new() };
        let host = HostCore::new(limits, identity, Env::real().clock);
        let window = |n: usize| {
            let identity =
                client_core::ClientIdentity { client: format!("w{n}"), tools: vec![named("tool")] };
            TestClient {
                core: client_core::ClientCore::new(ClientLimits::default(), identity, now),
                working: Vec::new(),
            }
        };
        let mut walk = Self {
            random: RandomSource(seed),
            now,
            host,
            archive: BTreeMap::new(),
            restoring: Vec::new(),
            clients: (0..CLIENTS).map(window).collect(),
            connections: BTreeMap::new(),
            opened: 0,
            names: 0,
            effects: BTreeSet::new(),
            begun: BTreeSet::new(),
            failed: BTreeSet::new(),
            absent: BTreeMap::new(),
            tap: ConnId(u64::MAX),
        };
        walk.set_up();
        walk
    }

    /// Creates a session with two chats and adds all clients. One more connection is never lost; it
    /// subscribes to the session and to one chat, so that the other chat leaves memory when it has
    /// no holder.
    fn set_up(&mut self) {
        self.host.open(self.tap, Arc::new(Notify::new()), self.now);
        let params =
            json!({ "channel": "ahp-root://", "protocolVersions": ["1.0.0"], "clientId": "tap" });
        let requests = [
            ("initialize", params),
            ("createSession", json!({ "channel": "s" })),
            ("createChat", json!({ "channel": "s", "chat": "c" })),
            ("createChat", json!({ "channel": "s", "chat": "d" })),
            ("subscribe", json!({ "channel": "s" })),
            ("subscribe", json!({ "channel": "c" })),
        ];
        for (id, (method, params)) in requests.into_iter().enumerate() {
            let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
            self.host.on_frame(self.tap, request.to_string().as_bytes(), self.now);
            self.carry_out_effects();
            self.restore();
        }
        for n in 0..CLIENTS {
            for channel in ["s", "c", "d"] {
                drop(self.subscribe(n, channel));
            }
        }
        self.heal();
        for window in &mut self.clients {
            let (to, _answered) = oneshot::channel();
            window.core.join("s", to);
        }
        self.heal();
    }

    fn subscribe(
        &mut self,
        n: usize,
        channel: &str,
    ) -> oneshot::Receiver<Result<(), super::Failure>> {
        let (to, answered) = oneshot::channel();
        self.clients[n].core.subscribe(channel, to, self.now);
        answered
    }

    /// Carries out the effects of the cores.
    fn carry_out_effects(&mut self) {
        while let Some(effect) = self.host.effect() {
            match effect {
                HostEffect::Restore(channel, number) => self.restoring.push((channel, number)),
                HostEffect::Save(channel, stored) => drop(self.archive.insert(channel, *stored)),
                HostEffect::Forget(channel) => drop(self.archive.remove(&channel)),
                HostEffect::Begin { .. } | HostEffect::Stop { .. } => {}
            }
        }
        for n in 0..CLIENTS {
            while let Some(effect) = self.clients[n].core.effect() {
                self.carry_out(n, effect);
            }
        }
        self.check_actions();
        self.check_calls();
    }

    fn carry_out(&mut self, n: usize, effect: Effect) {
        match effect {
            Effect::Open(generation) => {
                self.opened += 1;
                let conn = ConnId(self.opened);
                let (up, down) = (VecDeque::new(), VecDeque::new());
                self.connections.insert(
                    conn,
                    Connection {
                        client: n,
                        generation,
                        up,
                        down,
                        at_client: true,
                        at_host: true,
                        named: false,
                    },
                );
                self.host.open(conn, Arc::new(Notify::new()), self.now);
                self.clients[n].core.opened(generation, conn.0, self.now);
            }
            Effect::Send(generation, message) => {
                let connection = self.connections.values_mut().find(|connection| {
                    connection.client == n
                        && connection.generation == generation
                        && connection.at_client
                });
                connection
                    .into_iter()
                    .for_each(|connection| connection.up.push_back(message.to_versioned_text()));
            }
            Effect::Close(generation) => {
                let connections = self.connections.values_mut().filter(|connection| {
                    connection.client == n && connection.generation == generation
                });
                connections.for_each(|connection| connection.at_client = false);
            }
            Effect::Run(run) => {
                assert!(self.begun.insert(run.call.clone()), "{} is begun twice", run.call);
                self.clients[n].working.push(run.key());
            }
            Effect::Stop(key) => self.clients[n].working.retain(|working| *working != key),
            Effect::AnswerRequest { .. } => {}
        }
    }

    /// Reads every action: no action takes effect twice.
    fn check_actions(&mut self) {
        while let Some(message) = self.host.pull(self.tap) {
            let sent: Value = serde_json::from_str(&message.to_versioned_text()).unwrap();
            let origin = &sent["params"]["origin"];
            if let (Some(client), Some(seq)) =
                (origin["clientId"].as_str(), origin["clientSeq"].as_i64())
            {
                assert!(
                    self.effects.insert((client.to_owned(), seq)),
                    "action {seq} of {client} took effect twice"
                );
            }
        }
        assert_eq!(self.host.over(self.tap), None);
    }

    /// No call fails as disconnected while its owner has a connection, and no call waits for an
    /// owner that was disconnected for too long.
    fn check_calls(&mut self) {
        for n in 0..CLIENTS {
            let name = format!("w{n}");
            if self
                .connections
                .values()
                .any(|connection| connection.at_host && connection.client == n)
            {
                self.absent.remove(&name);
            } else {
                self.absent.entry(name).or_insert(self.now);
            }
        }
        for channel in ["c", "d"] {
            let Some(SnapshotState::Chat(state)) = self.host.state(channel) else { continue };
            for state in chat::calls(state) {
                let since = call::owner(state)
                    .filter(|_| call::is_pending(state))
                    .and_then(|owner| self.absent.get(owner));
                assert!(
                    since.is_none_or(|since| self.now - *since < Duration::from_secs(30)),
                    "{} waits",
                    call::id(state)
                );
                let ToolCallState::Completed(over) = state else { continue };
                let gone = over
                    .past_tense_message
                    .as_text()
                    .starts_with("the client that ran this tool is disconnected");
                if gone && self.failed.insert(over.tool_call_id.clone()) {
                    let owner = call::owner(state).unwrap();
                    let here = self.connections.values().any(|connection| {
                        connection.at_host
                            && connection.named
                            && format!("w{}", connection.client) == owner
                    });
                    assert!(!here, "{} was failed though {owner} is here", over.tool_call_id);
                }
            }
        }
    }

    fn pick_connection(&mut self) -> Option<ConnId> {
        let connections = self.connections.keys().copied().collect::<Vec<_>>();
        (!connections.is_empty()).then(|| connections[self.random.below(connections.len())])
    }

    /// Moves one message of a connection one step further.
    fn move_message(&mut self, conn: ConnId) {
        let now = self.now;
        let Some(connection) = self.connections.get_mut(&conn) else { return };
        if connection.at_host {
            if let Some(message) = self.host.pull(conn) {
                connection.down.push_back(message.to_versioned_text());
            }
            if let Some(sent) = connection.up.pop_front() {
                self.host.on_frame(conn, sent.as_bytes(), now);
                connection.named = true;
            }
            if self.host.over(conn).is_some() {
                connection.at_host = false;
                self.host.close(conn, now);
            }
        }
        if let Some(sent) = connection.down.pop_front().filter(|_| connection.at_client) {
            let (n, generation) = (connection.client, connection.generation);
            self.clients[n].core.on_frame(generation, sent.as_bytes(), now, 0);
        } else if connection.at_client && !connection.at_host && connection.down.is_empty() {
            let (n, generation) = (connection.client, connection.generation);
            self.clients[n].core.lost(generation, now, 0);
        }
        self.connections.retain(|_, connection| connection.at_client || connection.at_host);
    }

    /// The client notices the end of its connection; the messages in flight to it are lost.
    fn client_loses(&mut self, conn: ConnId) {
        let Some(connection) =
            self.connections.get_mut(&conn).filter(|connection| connection.at_client)
        else {
            return;
        };
        connection.down.clear();
        let (n, generation) = (connection.client, connection.generation);
        self.clients[n].core.lost(generation, self.now, 0);
    }

    /// The host notices the end of a connection; the messages in flight to it are lost.
    fn host_loses(&mut self, conn: ConnId) {
        let Some(connection) = self
            .connections
            .get_mut(&conn)
            .filter(|connection| connection.at_host && !connection.at_client)
        else {
            return;
        };
        connection.at_host = false;
        connection.up.clear();
        self.host.close(conn, self.now);
        self.connections.retain(|_, connection| connection.at_client || connection.at_host);
    }

    fn wait(&mut self, how_long: Duration) {
        let until = self.now + how_long;
        for _ in 0..10_000 {
            let dues =
                self.clients.iter().filter_map(|window| window.core.due()).chain(self.host.due());
            let Some(due) = dues.min().filter(|due| *due <= until) else {
                self.now = until;
                return;
            };
            self.now = self.now.max(due);
            self.host.catch_up(self.now);
            self.clients.iter_mut().for_each(|window| window.core.wake(self.now, 0));
            self.carry_out_effects();
        }
        panic!("something is due forever");
    }

    fn dispatch(&mut self, n: usize, channel: &str, action: Value) {
        self.clients[n].core.dispatch(channel, serde_json::from_value(action).unwrap(), None);
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("n{}", self.names)
    }

    /// Lets a user, an agent, or a tool act.
    fn live(&mut self) {
        let n = self.random.below(CLIENTS);
        let channel = ["c", "d"][self.random.below(2)];
        let name = self.name();
        match self.random.below(12) {
            9.. => self.dispatch(n, "s", json!({ "type": "session/titleChanged", "title": name })),
            0..=2 => {
                let message = json!({ "text": "x", "origin": { "kind": "user" } });
                let at = "2026-01-01T00:00:00.000Z";
                self.dispatch(
                    n,
                    channel,
                    json!({ "type": "chat/turnStarted", "turnId": name, "startedAt": at, "message": message }),
                );
            }
            3 | 4 => self.call(channel),
            5 | 6 => {
                if let Some(key) = self.clients[n].working.pop() {
                    self.clients[n].core.finished(&key, done("x"));
                }
            }
            7 => {
                if let Some(turn) = self.turn(channel) {
                    self.host.end_turn(channel, &turn, true, self.now);
                }
            }
            _ => {
                self.clients[n].core.unsubscribe(channel);
                drop(self.subscribe(n, channel));
            }
        }
    }

    fn turn(&self, channel: &str) -> Option<String> {
        match self.host.state(channel) {
            Some(SnapshotState::Chat(state)) => {
                state.active_turn.as_ref().map(|turn| turn.id.clone())
            }
            _ => None,
        }
    }

    fn call(&mut self, channel: &str) {
        let Some(turn) = self.turn(channel) else { return };
        let Ok(id) = self.host.start_call(channel, &turn, "tool", Owner::Any, self.now) else {
            return;
        };
        let ready = json!({
            "type": "chat/toolCallReady", "turnId": id.turn, "toolCallId": id.id, "invocationMessage": "x", "confirmed": "not-needed",
        });
        // If no client can run the call, it is already over.
        let _ = self.host.act(channel, serde_json::from_value(ready).unwrap(), self.now);
    }

    fn step(&mut self) {
        match self.random.below(20) {
            0 => self.pick_connection().into_iter().for_each(|conn| self.client_loses(conn)),
            1 => self.pick_connection().into_iter().for_each(|conn| self.host_loses(conn)),
            2..=5 => self.live(),
            6 => {
                // Loses a connection with messages in flight.
                let under_way = self
                    .connections
                    .iter()
                    .find(|(_, connection)| connection.at_client && !connection.up.is_empty())
                    .map(|(conn, _)| *conn);
                under_way.into_iter().for_each(|conn| self.client_loses(conn));
            }
            7 => {
                let seconds = self.random.below(40);
                self.wait(Duration::from_secs(seconds as u64));
            }
            8 => self.restore(),
            _ => self.pick_connection().into_iter().for_each(|conn| self.move_message(conn)),
        }
        self.carry_out_effects();
    }

    fn restore(&mut self) {
        if let Some((channel, number)) = self.restoring.pop() {
            let stored = self.archive.get(&channel).cloned();
            self.host.restored(&channel, number, stored, self.now);
        }
    }

    /// Repairs the network, and gives all clients time to settle.
    fn heal(&mut self) {
        for _ in 0..300 {
            for conn in self.connections.keys().copied().collect::<Vec<_>>() {
                self.host_loses(conn);
            }
            for _ in 0..40 {
                self.restore();
                for conn in self.connections.keys().copied().collect::<Vec<_>>() {
                    self.move_message(conn);
                    self.carry_out_effects();
                }
                self.carry_out_effects();
            }
            self.wait(Duration::from_secs(1));
            let quiet = self
                .connections
                .values()
                .all(|connection| connection.up.is_empty() && connection.down.is_empty());
            let settled = |window: &TestClient| {
                let resources = window.core.resources();
                window.core.state() == State::Connected
                    && resources.in_flight + resources.held + resources.unconfirmed == 0
            };
            if quiet && self.clients.iter().all(settled) {
                return;
            }
        }
        let states = self
            .clients
            .iter()
            .map(|window| (window.core.state(), window.core.resources()))
            .collect::<Vec<_>>();
        panic!("it does not settle: {states:?}");
    }

    /// Subscribes again for each client whose channel was reported missing because its restore took
    /// too long.
    fn subscribe_again(&mut self) {
        for n in 0..CLIENTS {
            for channel in ["s", "c", "d"] {
                if self.clients[n].core.confirmed(channel).is_none() {
                    drop(self.subscribe(n, channel));
                }
            }
        }
        self.heal();
    }

    /// Compares the state of every client with the host's.
    fn compare(&self) {
        for (n, window) in self.clients.iter().enumerate() {
            for channel in ["s", "c", "d"] {
                assert_eq!(
                    window.core.confirmed(channel),
                    self.host.state(channel),
                    "{channel} as w{n} knows it"
                );
                assert_eq!(
                    window.core.view(channel).as_ref(),
                    self.host.state(channel),
                    "{channel} as w{n} sees it"
                );
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_random_walk_ends_with_equal_states_and_no_duplicates() {
    // `REKNIT_WALKS` sets the number of walks, for a longer test.
    let seeds =
        std::env::var("REKNIT_WALKS").ok().and_then(|walks| walks.parse().ok()).unwrap_or(40);
    let (mut begun, mut failed) = (0, 0);
    for seed in 0..seeds {
        // The test runner shows this only if the test fails.
        println!("seed {seed}");
        let mut walk = Walk::new(seed);
        for round in 0..4 {
            for _ in 0..150 {
                walk.step();
            }
            println!("round {round}");
            walk.heal();
            walk.subscribe_again();
            walk.compare();
        }
        (begun, failed) = (begun + walk.begun.len(), failed + walk.failed.len());
    }
    assert!(begun > 0 && failed > 0, "{begun} calls begun, {failed} failed");
}
