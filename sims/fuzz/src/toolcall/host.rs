//! A real host, a hostile client, and a well-behaved one beside it.
//!
//! These invariants hold for all messages of the hostile client:
//! - no code panics, and everything that the host sends is a valid message;
//! - the host stays within its limits at every step;
//! - at the end, the hostile client gets an answer, or its connection ends, within a minute;
//! - after the hostile client has disconnected, only the sessions and chats that it created are
//!   left after `FORGOTTEN`, and they are not in use;
//! - each title that the well-behaved client sets appears at once, over the client's first connection;
//!   and at the end, its tool runs in a turn that it starts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arbitrary::Arbitrary;
use reknit_seams::net::{BoxFuture, Endpoint};
use reknit_seams::process::Unsupported;
use reknit_toolcall::client::{Client, ClientConfig, Run, Tool, Toolbox, done, named};
use reknit_toolcall::host::{self, Agent, Host, HostResources, MemoryArchive, Turn};
use reknit_toolcall::limits::{ClientLimits, HostLimits};
use reknit_toolcall::wire::SnapshotState;
use reknit_toolcall::wire::ahp::state::{ToolCallResult, ToolDefinition};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::action::{Action, WELL_BEHAVED, text};
use crate::peer::caller::{HostileClient, LAST};
use crate::script::{Name, Noise, Number, Pause, Rarely, SendOptions, Steps, Times};
use crate::stage::{Memory, env, must, run};

/// The actions of a hostile client.
#[derive(Arbitrary, Debug)]
pub struct ToolcallHostScript {
    /// Whether the host's limits are tight.
    tight: bool,
    /// The steps, in order.
    steps: Steps<Step>,
}

/// A step of a hostile client.
#[derive(Arbitrary, Debug)]
enum Step {
    /// It dispatches an action this many times, with rising numbers or not.
    Acts {
        channel: Name,
        seq: Number,
        rises: bool,
        action: Action,
        manner: SendOptions,
        times: Times,
    },
    /// It sends a request this many times.
    Asks(Ask, SendOptions, Times),
    /// It stays silent for a while.
    Pauses(Pause),
    /// It stops or resumes reading.
    Reads(bool),
    /// It opens another connection, and keeps or drops the one before; usually with a handshake, as
    /// a new client or a returning one.
    ComesAgain { keeps: bool, start: ConnectionStart },
    /// It sends something that no client sends.
    Disturbs(Rarely<Disturbance>),
}

/// Something that no client sends.
#[derive(Arbitrary, Debug)]
enum Disturbance {
    /// An answer to a request that may not exist.
    Answers(Number, SendOptions),
    /// Invalid data.
    Noise(Noise),
    /// Another handshake.
    Enters(ConnectionStart, SendOptions),
    /// An unknown request.
    Other(Name, SendOptions),
}

/// How a connection begins.
#[derive(Arbitrary, Clone, Debug)]
enum ConnectionStart {
    /// With `initialize`, and these channels.
    Anew { client: Name, channels: Vec<Name> },
    /// With `reconnect`, and the last action that it claims to have seen; `knows`: whether it names
    /// the host's correct epoch.
    Returns { client: Name, channels: Vec<Name>, seen: Number, knows: bool },
    /// With a WebSocket only.
    Bare,
    /// With no data.
    Silent,
}

/// A request after the handshake.
#[derive(Arbitrary, Debug)]
enum Ask {
    /// `subscribe`.
    Subscribe(Name),
    /// `unsubscribe`, a notification.
    Unsubscribe(Name),
    /// `createSession`.
    CreateSession(Name),
    /// `disposeSession`.
    DisposeSession(Name),
    /// `createChat`.
    CreateChat(Name, Name),
    /// `disposeChat`.
    DisposeChat(Name),
    /// `authenticate`.
    Authenticate(Name, Name),
    /// `ping`.
    Ping,
}

/// The hostile client's name when the script gives none.
const HOSTILE: &str = "p0";

impl Ask {
    fn message(&self, id: u64) -> Value {
        let (method, params) = match self {
            Self::Subscribe(channel) => ("subscribe", json!({"channel": text(channel)})),
            Self::Unsubscribe(channel) => {
                return json!({"method": "unsubscribe", "params": {"channel": text(channel)}});
            }
            Self::CreateSession(session) => ("createSession", json!({"channel": text(session)})),
            Self::DisposeSession(session) => ("disposeSession", json!({"channel": text(session)})),
            Self::CreateChat(session, chat) => {
                ("createChat", json!({"channel": text(session), "chat": text(chat)}))
            }
            Self::DisposeChat(chat) => ("disposeChat", json!({"channel": text(chat)})),
            Self::Authenticate(resource, token) => (
                "authenticate",
                json!({"channel": "ahp-root://", "resource": text(resource), "token": text(token)}),
            ),
            Self::Ping => ("ping", Value::Null),
        };
        json!({"id": id, "method": method, "params": params})
    }
}

impl ConnectionStart {
    /// Encodes the handshake; `None` if there is none.
    fn message(&self, id: u64, epoch: Option<String>) -> Option<Value> {
        let channels = |names: &[Name]| names.iter().map(text).collect::<Vec<_>>();
        let (method, params) = match self {
            Self::Anew { client, channels: names } => {
                let params = json!({
                    "channel": "ahp-root://", "clientId": text(client), "protocolVersions": ["1.0.0"],
                    "initialSubscriptions": channels(names),
                });
                ("initialize", params)
            }
            Self::Returns { client, channels: names, seen, knows } => {
                let meta = epoch.filter(|_| *knows).map(|epoch| json!({"reknit.epoch": epoch}));
                let params = json!({
                    "channel": "ahp-root://", "clientId": text(client), "lastSeenServerSeq": seen.value(),
                    "subscriptions": channels(names), "_meta": meta,
                });
                ("reconnect", params)
            }
            Self::Bare | Self::Silent => return None,
        };
        Some(json!({"id": id, "method": method, "params": params}))
    }
}

/// The time limit for results that must be immediate.
const SOON: Duration = Duration::from_secs(1);

const MINUTE: Duration = Duration::from_secs(60);

/// The time by which a disconnected client has left nothing behind: calls are kept for 30 s,
/// clients for 300 s more.
const FORGOTTEN: Duration = Duration::from_secs(400);

/// Runs the script, and checks all invariants.
pub fn holds(script: &ToolcallHostScript) {
    run(async {
        let mut test = ServerTest::open(script).await;
        let first = ConnectionStart::Anew { client: Name::first(), channels: Vec::new() };
        let mut peers = vec![test.enter(None, &first).await];
        for step in &script.steps.0 {
            test.step(&mut peers, step).await;
            test.well_behaved.titles().await;
            test.is_within_limits();
        }
        for peer in &mut peers {
            peer.is_answered_or_over(json!({"id": LAST, "method": "ping"}), MINUTE).await;
        }
        drop(peers);
        test.well_behaved.titles().await;
        sleep(FORGOTTEN).await;
        test.well_behaved.titles().await;
        test.well_behaved.is_served().await;
        sleep(SOON).await;
        test.has_forgotten();
    });
}

fn limits(tight: bool) -> HostLimits {
    let mut limits = HostLimits::default();
    limits.wire.message_bytes = 32 << 10;
    limits.wire.outbox_bytes = 64 << 10;
    limits.channel_bytes = 8 << 10;
    if !tight {
        return limits;
    }
    HostLimits {
        outcomes: 2,
        connections: 4,
        clients: 3,
        sessions: 3,
        chats: 2,
        subscriptions: 3,
        active_clients: 2,
        tools: 2,
        parts: 6,
        turns: 3,
        replies: 16,
        ..limits
    }
}

/// The host, the well-behaved client, and the state of the hostile one.
struct ServerTest {
    limits: HostLimits,
    resources: HostResources,
    door: Memory,
    well_behaved: WellBehavedClient,
    asked: u64,
    _tasks: JoinSet<()>,
}

impl ServerTest {
    async fn open(script: &ToolcallHostScript) -> Self {
        let door = Memory::new();
        let limits = limits(script.tight);
        let config = host::HostConfig {
            provider: "busy".into(),
            tokens: BTreeMap::new(),
            agent: Arc::new(Busy),
            archive: Arc::new(MemoryArchive::default()),
            limits,
        };
        let host = Host::new(&env(Memory::new(), Arc::new(Unsupported)), config);
        let resources = host.resources();
        let mut tasks = JoinSet::new();
        tasks.spawn(host.serve(door.listener()));
        let well_behaved = WellBehavedClient::enter(door.clone()).await;
        Self { limits, resources, door, well_behaved, asked: 0, _tasks: tasks }
    }

    /// Runs a step. It uses the newest of the hostile client's connections; there is always one.
    async fn step(&mut self, peers: &mut Vec<HostileClient>, step: &Step) {
        let peer = peers.last_mut().expect("there is one");
        match step {
            Step::Acts { channel, seq, rises, action, manner, times } => {
                for n in 0..times.count() {
                    let seq = seq.value().saturating_add(if *rises { n } else { 0 });
                    let params = json!({"channel": text(channel), "clientSeq": seq, "action": action.value(HOSTILE)});
                    peer.send(manner, json!({"method": "dispatchAction", "params": params})).await;
                }
            }
            Step::Asks(ask, manner, times) => {
                for _ in 0..times.count() {
                    peer.send(manner, ask.message(self.next_id())).await;
                }
            }
            Step::Pauses(pause) => sleep(pause.duration()).await,
            Step::Reads(reads) => peer.read(*reads),
            Step::ComesAgain { keeps, start } => {
                let epoch = peer.latest();
                if !keeps || peers.len() > 2 {
                    peers.clear();
                }
                peers.push(self.enter(epoch, start).await);
            }
            Step::Disturbs(Rarely(Some(disturbance))) => self.disturb(peer, disturbance).await,
            Step::Disturbs(Rarely(None)) => {}
        }
    }

    async fn disturb(&mut self, peer: &mut HostileClient, disturbance: &Disturbance) {
        match disturbance {
            Disturbance::Answers(id, manner) => {
                peer.send(manner, json!({"id": id.value(), "result": {}})).await
            }
            Disturbance::Noise(noise) => peer.write(&noise.write(true)).await,
            Disturbance::Enters(start, manner) => {
                if let Some(message) = start.message(self.next_id(), peer.latest()) {
                    peer.send(manner, message).await;
                }
            }
            Disturbance::Other(method, manner) => {
                peer.send(
                    manner,
                    json!({"id": self.next_id(), "method": text(method), "params": {}}),
                )
                .await;
            }
        }
    }

    fn next_id(&mut self) -> u64 {
        self.asked += 1;
        self.asked
    }

    /// Opens a connection and starts it in this way.
    async fn enter(&mut self, epoch: Option<String>, start: &ConnectionStart) -> HostileClient {
        let stream = self.door.open(&Endpoint::tcp("server", 80)).expect("it is never refused");
        let mut peer = HostileClient::new(stream, "/result/_meta/reknit.epoch", epoch.clone(), &[]);
        if !matches!(start, ConnectionStart::Silent) {
            peer.asks_for_websocket().await;
        }
        if let Some(message) = start.message(self.next_id(), epoch) {
            peer.send_valid(&message).await;
        }
        peer
    }

    fn is_within_limits(&self) {
        let (counts, limits) = (self.resources.counts(), &self.limits);
        let at_most =
            |what: &str, is: u64, most: usize| assert!(is <= most as u64, "{what}: {is} of {most}");
        at_most("connections", counts.connections, limits.connections);
        at_most("clients", counts.clients, limits.clients);
        at_most("sessions", counts.sessions, limits.sessions);
        at_most("chats", counts.chats, limits.sessions * limits.chats);
        at_most("holds", counts.holds, limits.clients * limits.connections * limits.subscriptions);
        at_most("turns", counts.turns, limits.sessions * limits.chats);
        at_most("questions", counts.questions, counts.turns as usize);
        at_most("actions", counts.actions, limits.log_actions);
    }

    /// Checks that only the well-behaved client is left, with its session and its chat.
    fn has_forgotten(&self) {
        let counts = self.resources.counts();
        let left = [
            counts.connections,
            counts.clients,
            counts.chats,
            counts.holds,
            counts.causes,
            counts.turns,
            counts.questions,
            counts.waits,
        ];
        assert_eq!(
            left,
            [1, 1, 1, 2, 1, 0, 0, 0],
            "connections, clients, chats, holds, causes, turns, questions, waits"
        );
    }
}

/// Sends a text, sends a request to the client that started the turn, calls a tool, and sends
/// another text.
struct Busy;

impl Agent for Busy {
    fn turn(&self, turn: Turn) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            // An action may fail, because the turn may be over.
            let Ok(part) = turn.send("well, ") else { return };
            let _ = turn.continue_saying(&part, "let us see");
            if let Some(client) = turn.client.clone().filter(|client| client != WELL_BEHAVED) {
                let _ = turn.ask(&client, "resourceRead", &json!({"uri": "file:///x"})).await;
            }
            let tool = if turn.chat.starts_with(WELL_BEHAVED) { WELL_BEHAVED } else { "p0" };
            let _ = turn.call(tool, &json!({}), false).await;
            let _ = turn.send("done");
        })
    }
}

struct Quick;

impl Tool for Quick {
    fn definition(&self) -> ToolDefinition {
        named(WELL_BEHAVED)
    }

    fn run(&self, _: Run) -> BoxFuture<'static, ToolCallResult> {
        Box::pin(std::future::ready(done("1")))
    }
}

/// A client that uses the host as intended.
struct WellBehavedClient {
    client: Client,
    titles: u64,
}

/// The chat of the well-behaved client.
const CHAT: &str = "innocent/c";

impl WellBehavedClient {
    async fn enter(door: Memory) -> Self {
        let tools = Toolbox::of([Arc::new(Quick) as Arc<dyn Tool>]);
        let config = ClientConfig {
            id: Some(WELL_BEHAVED.into()),
            tools,
            limits: ClientLimits::default(),
            ..ClientConfig::default()
        };
        let client =
            Client::new(&env(door, Arc::new(Unsupported)), Endpoint::tcp("server", 80), config);
        must("the well-behaved client's session", SOON, client.create_session(WELL_BEHAVED))
            .await
            .expect("there is room");
        must("the well-behaved client's chat", SOON, client.create_chat(WELL_BEHAVED, CHAT))
            .await
            .expect("there is room");
        for channel in [WELL_BEHAVED, CHAT] {
            must("the well-behaved client's subscription", SOON, client.subscribe(channel))
                .await
                .expect("it is there");
        }
        must("the well-behaved client's place", SOON, client.join(WELL_BEHAVED))
            .await
            .expect("there is room");
        Self { client, titles: 0 }
    }

    /// Sets a title and expects it at once, over its first connection.
    async fn titles(&mut self) {
        self.titles += 1;
        let title = format!("title {}", self.titles);
        let named = serde_json::from_value(json!({"type": "session/titleChanged", "title": title}))
            .expect("an action");
        must("the well-behaved client's title", SOON, self.client.dispatch(WELL_BEHAVED, named))
            .await
            .expect("nobody else has a say");
        match self.client.confirmed(WELL_BEHAVED) {
            Some(SnapshotState::Session(session)) => assert_eq!(session.title, title),
            other => panic!("in the place of a session: {other:?}"),
        }
        assert_eq!(self.client.generation(), 1);
    }

    /// Starts a turn and expects it to complete, including its tool.
    async fn is_served(&self) {
        must("the well-behaved client's turn", SOON, self.client.start_turn(CHAT, "turn", "go"))
            .await
            .expect("there is room for one");
        let over = self.client.until(|client| match client.confirmed(CHAT) {
            Some(SnapshotState::Chat(chat)) => {
                (chat.turns.len() == 1).then(|| chat.turns[0].response_parts.len())
            }
            _ => None,
        });
        assert_eq!(timeout(SOON, over).await, Ok(Some(3)), "it was said, done, and said");
    }
}
