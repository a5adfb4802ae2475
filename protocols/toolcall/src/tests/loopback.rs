//! A host whose agents follow the user's instructions, clients whose tools take as long as a test
//! needs, and a network in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reknit_seams::Env;
use reknit_seams::net::memory::Memory;
use reknit_seams::net::{BoxFuture, Endpoint, Network};
use serde_json::json;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

use crate::client::{self, Client, Run, State, Tool, Toolbox};
use crate::host::{
    self, Agent, Archive, Ended, Host, HostResources, MemoryArchive, Permission, Turn,
};
use crate::limits::{ClientLimits, HostLimits};
use crate::state::call;
use crate::wire::SnapshotState;
use crate::wire::ahp::state::{ResponsePart, ToolCallResult, ToolCallState, ToolDefinition};

pub const S: Duration = Duration::from_secs(1);
pub const MS: Duration = Duration::from_millis(1);

/// A record of the work of agents and tools.
#[derive(Clone, Default)]
pub struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    pub fn add(&self, note: impl Into<String>) {
        self.0.lock().unwrap().push(note.into());
    }

    pub fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub fn count(&self, note: &str) -> usize {
        self.all().iter().filter(|known| *known == note).count()
    }
}

/// Follows the user's instructions: `send TEXT`, `call TOOL`, `confirm TOOL`, `sleep SECONDS`, `ask
/// CLIENT`, `panic`; separated by `;`.
pub struct ScriptedAgent(pub Notes);

impl Agent for ScriptedAgent {
    fn turn(&self, turn: Turn) -> BoxFuture<'static, ()> {
        let notes = self.0.clone();
        Box::pin(async move {
            for order in turn.text.clone().split(';') {
                obey(&turn, order.trim(), &notes).await;
            }
        })
    }
}

async fn obey(turn: &Turn, order: &str, notes: &Notes) {
    let (verb, what) = order.split_once(' ').unwrap_or((order, ""));
    match verb {
        "say" => drop(turn.send(what).unwrap()),
        "call" => notes.add(match turn.call(what, &json!({}), false).await.unwrap() {
            Ended::Completed(result) if result.success => format!("{what} ran"),
            Ended::Completed(result) => {
                format!("{what} failed: {}", result.past_tense_message.as_text())
            }
            Ended::Cancelled => format!("{what} was cancelled"),
        }),
        "confirm" => {
            let id = turn.start_call(what, host::Owner::Any).unwrap();
            // If no client can run the call, it is already over.
            let _ = turn.ready(&id, &json!({}), true);
            let permission = turn.permission(&id).await;
            notes.add(if permission == Permission::Granted { "granted" } else { "not granted" });
            turn.ended(&id).await;
        }
        "sleep" => sleep(Duration::from_secs(what.parse().unwrap())).await,
        "ask" => {
            let answer = turn.ask(what, "resourceRead", &json!({ "uri": "file:///x" })).await;
            notes.add(match answer {
                Ok(answer) => format!("answer: {}", answer.get()),
                Err(why) => format!("no answer: {why}"),
            });
        }
        _ => panic!("an agent that does not understand {order:?}"),
    }
}

/// A tool with a fixed duration, which records its start and end.
struct Slow {
    name: &'static str,
    takes: Duration,
    notes: Notes,
}

impl Tool for Slow {
    fn definition(&self) -> ToolDefinition {
        client::named(self.name)
    }

    fn run(&self, run: Run) -> BoxFuture<'static, ToolCallResult> {
        assert!(run.tool != "broken", "it breaks down before it begins");
        let (takes, notes) = (self.takes, self.notes.clone());
        Box::pin(async move {
            notes.add(format!("{} begins", run.tool));
            sleep(takes).await;
            notes.add(format!("{} ends", run.tool));
            client::done("done")
        })
    }
}

/// A host, its network, and the record of events.
pub struct LoopbackTest {
    pub net: Memory,
    pub notes: Notes,
    pub archive: MemoryArchive,
    pub resources: HostResources,
    limits: HostLimits,
    tasks: JoinSet<()>,
    host: AbortHandle,
}

impl LoopbackTest {
    pub async fn new() -> Self {
        Self::with(HostLimits::default()).await
    }

    pub async fn with(limits: HostLimits) -> Self {
        let (net, notes, archive) = (Memory::default(), Notes::default(), MemoryArchive::default());
        let mut tasks = JoinSet::new();
        let (resources, host) = serve(&net, &notes, &archive, limits, &mut tasks).await;
        Self { net, notes, archive, resources, limits, tasks, host }
    }

    /// Ends the host and starts a new incarnation.
    pub async fn restart(&mut self) {
        self.net.stop_listening();
        self.host.abort();
        let _ = self.tasks.join_next().await;
        (self.resources, self.host) =
            serve(&self.net, &self.notes, &self.archive, self.limits, &mut self.tasks).await;
    }

    fn env(&self) -> Env {
        env(&self.net)
    }

    /// Creates a client that runs these tools. Each takes two seconds, except `long`, which takes
    /// an hour.
    pub fn client(&self, id: &str, tools: &[&'static str]) -> Client {
        self.client_with(id, tools, ClientLimits::default())
    }

    pub fn client_with(&self, id: &str, tools: &[&'static str], limits: ClientLimits) -> Client {
        let tool = |name: &&'static str| -> Arc<dyn Tool> {
            let takes = if *name == "long" { 3600 * S } else { 2 * S };
            Arc::new(Slow { name, takes, notes: self.notes.clone() })
        };
        let config = client::ClientConfig {
            id: Some(id.to_owned()),
            tools: Toolbox::of(tools.iter().map(tool)),
            limits,
            ..client::ClientConfig::default()
        };
        Client::new(&self.env(), Endpoint::tcp("host", 1), config)
    }

    /// Creates a client that has created a session with a chat, and is active in it.
    pub async fn opened(&self, id: &str, tools: &[&'static str]) -> Client {
        let client = self.client(id, tools);
        client.create_session("s").await.unwrap();
        client.create_chat("s", "c").await.unwrap();
        joined(&client).await;
        client
    }

    /// Creates another client in the same session.
    pub async fn joining(&self, id: &str, tools: &[&'static str]) -> Client {
        let client = self.client(id, tools);
        joined(&client).await;
        client
    }
}

async fn joined(client: &Client) {
    client.subscribe("s").await.unwrap();
    client.subscribe("c").await.unwrap();
    client.join("s").await.unwrap();
}

fn env(net: &Memory) -> Env {
    Env { net: Arc::new(net.clone()), ..Env::real() }
}

async fn serve(
    net: &Memory,
    notes: &Notes,
    archive: &MemoryArchive,
    limits: HostLimits,
    tasks: &mut JoinSet<()>,
) -> (HostResources, AbortHandle) {
    let listener = net.listen(&Endpoint::tcp("host", 1)).await.unwrap();
    let archive: Arc<dyn Archive> = Arc::new(archive.clone());
    let agent = Arc::new(ScriptedAgent(notes.clone()));
    let config = host::HostConfig {
        provider: "agent".into(),
        tokens: BTreeMap::new(),
        agent,
        archive,
        limits,
    };
    let host = Host::new(&env(net), config);
    let resources = host.resources();
    (resources, tasks.spawn(host.serve(listener)))
}

/// Returns the calls of the current turn, or else of the last one, as a client sees them.
pub fn calls(client: &Client) -> Vec<(String, &'static str)> {
    let Some(SnapshotState::Chat(chat)) = client.confirmed("c") else { return Vec::new() };
    let active = chat.active_turn.as_ref().map(|turn| &turn.response_parts);
    let parts = active.or(chat.turns.last().map(|turn| &turn.response_parts));
    let calls = parts.into_iter().flatten().filter_map(|part| match part {
        ResponsePart::ToolCall(part) => Some(&part.tool_call),
        _ => None,
    });
    calls.map(|state| (call::id(state).to_owned(), status(state))).collect()
}

pub fn status(state: &ToolCallState) -> &'static str {
    match state {
        ToolCallState::Streaming(_) => "streaming",
        ToolCallState::PendingConfirmation(_) => "pending confirmation",
        ToolCallState::Running(_) => "running",
        ToolCallState::PendingResultConfirmation(_) => "pending result confirmation",
        ToolCallState::Completed(done) if done.success => "completed",
        ToolCallState::Completed(_) => "failed",
        ToolCallState::Cancelled(_) => "cancelled",
        _ => "?",
    }
}

/// Waits until a condition holds for a client, with a time limit.
async fn until(client: &Client, what: &str, mut so: impl FnMut(&Client) -> bool) {
    let waited = timeout(600 * S, client.until(|client| so(client).then_some(()))).await;
    assert_eq!(waited, Ok(Some(())), "{what}: {:?}, {:?}", client.state(), calls(client));
}

/// Waits until a client sees no turn in progress in the chat.
pub async fn turn_over(client: &Client) {
    let over = |client: &Client| matches!(client.confirmed("c"), Some(SnapshotState::Chat(chat)) if chat.active_turn.is_none());
    until(client, "the turn is over", over).await;
}

/// Waits until a client sees any turn, in progress or over.
pub async fn any_turn(client: &Client) {
    let any = |client: &Client| match client.confirmed("c") {
        Some(SnapshotState::Chat(chat)) => chat.active_turn.is_some() || !chat.turns.is_empty(),
        _ => false,
    };
    until(client, "there is a turn", any).await;
}

/// Waits until a client sees a call with this status.
pub async fn call_is(client: &Client, wanted: &str) {
    until(client, wanted, |client| calls(client).iter().any(|(_, status)| *status == wanted)).await;
}

pub async fn connected(client: &Client) {
    until(client, "connected", |client| client.state() == State::Connected).await;
}

/// Waits until the client is connected over a connection newer than number `after`.
pub async fn back(client: &Client, after: u64) {
    until(client, "back", |client| {
        client.state() == State::Connected && client.generation() > after
    })
    .await;
}

pub async fn lost(client: &Client) {
    until(client, "lost", |client| client.state() == State::Reconnecting).await;
}
