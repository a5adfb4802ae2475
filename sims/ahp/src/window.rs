//! A window built on the crate `ahp`: its client, which reconnects by itself, and a user who
//! subscribes to channels and runs tools.
//!
//! The crate leaves two tasks to its user without documenting them. First, it does not detect a
//! half-open connection, because it sends nothing by itself. Second, it drops the snapshots that it
//! receives on a reconnect, and continues with the actions after them. So a careful window pings,
//! and makes the client reconnect if there is no answer. After a loss, it ignores all actions until
//! it has requested the state of every channel again. A window that is not careful relies on the
//! crate.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ahp::hosts::{
    Backoff, HostConfig, HostEvent, HostEventStream, HostId, HostState, HostSubscriptionStream,
    MultiHostClient, ReconnectPolicy,
};
use ahp::{BoxedTransport, ClientConfig, ClientError, SubscriptionEvent, TransportError};
use ahp_types::state::{ResponsePart, SnapshotState, ToolCallContributor, ToolCallState};
use ahp_types::{ActionEnvelope, StateAction};
use reknit::history::{Answer, Call, Data, Stream};
use reknit::milestone;
use reknit::net::{BoxFuture, Endpoint};
use reknit::subject::{HostContext, OperationQueue};
use reknit::subjects::toolcall::answers::{Did, Rejected};
use reknit::subjects::toolcall::notes::{Became, By, OfCall, ToolWork};
use reknit::subjects::toolcall::observer::Observer;
use reknit::subjects::toolcall::setup::{self, CHAT, SESSION, TOOL, ToolSetup};
use reknit::subjects::toolcall::{PROVIDER, SETTLES, TOKEN};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep, sleep_until, timeout};

use crate::known::Known;
use crate::subject::{Operation, TRUST};
use crate::transport::Ws;

/// The client's name for the host.
const HOST: &str = "server";

/// How long a graceful close of a client may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// A call of a tool: its chat, its turn, its name.
type Key = (String, String, String);

/// A window.
pub struct Window {
    host: HostContext,
    client: MultiHostClient,
    known: Arc<Mutex<Known>>,
    observer: Observer,
    /// Whether its client is connected.
    is_up: bool,
    /// Whether it has joined, and may send the user's operations.
    is_in: bool,
    /// The user's operations that wait until it has joined.
    held: VecDeque<(Call, Operation)>,
    /// The operations sent over this connection without an outcome yet, by action number.
    asked: BTreeMap<i64, (Call, Data)>,
    /// The calls that it started to run.
    begun: BTreeSet<Key>,
    running: JoinSet<Key>,
}

impl Window {
    /// Opens a window; its client connects, and keeps reconnecting.
    pub async fn open(host: HostContext) -> Self {
        let observer = Observer::new(host.record.clone(), host.name.as_str());
        [SESSION, CHAT].iter().for_each(|channel| observer.watch(channel));
        let known = Arc::default();
        Self {
            client: MultiHostClient::new(),
            known,
            observer,
            is_up: false,
            is_in: false,
            held: VecDeque::new(),
            asked: BTreeMap::new(),
            begun: BTreeSet::new(),
            running: JoinSet::new(),
            host,
        }
    }

    fn name(&self) -> &str {
        self.host.name.as_str()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows the channels, runs tools, and carries out the user's operations, until there are no
    /// more.
    pub async fn run(mut self, mut operations: OperationQueue<Operation>) {
        let (mut events, mut news) = (self.client.events(), self.client.host_events());
        self.client.add_host(config(&self.host)).await.expect("there is no other host");
        let mut busy: Option<BoxFuture<'static, ()>> = None;
        let (mut settles, mut pings) =
            (None::<Instant>, interval(self.host.limits.duration("client.ping-interval")));
        let mut pinged = JoinSet::new();
        loop {
            while self.is_in
                && let Some((call, operation)) = self.held.pop_front()
            {
                self.perform(call, operation).await;
            }
            if self.look() {
                settles = Some(Instant::now() + SETTLES);
            }
            tokio::select! {
                biased;
                () = async { busy.as_mut().expect("it is there").await }, if busy.is_some() => (busy, self.is_in) = (None, self.is_up),
                event = next_event(&mut events) => self.happened(&event),
                event = next_news(&mut news) => {
                    if let Some(begins) = self.on_host_event(&event) {
                        busy = Some(begins);
                    }
                }
                Some(Ok(key)) = self.running.join_next() => self.ran(key).await,
                operation = operations.next() => match operation {
                    Some(asked) => self.held.push_back(asked),
                    None => break,
                },
                () = sleep_until(settles.unwrap_or_else(Instant::now)), if settles.is_some() => {
                    settles = None;
                    self.observer.record_digests();
                }
                _ = pings.tick(), if self.is_careful() && pinged.is_empty() => {
                    pinged.spawn(ping(self.client.clone(), self.host.limits.duration("client.pong-deadline")));
                }
                Some(_) = pinged.join_next() => {}
            }
        }
        drop((busy, pinged));
        // The client may be in the middle of an attempt.
        let _ = timeout(CLOSE_TIMEOUT, self.client.remove_host(&HostId::new(HOST))).await;
    }

    fn is_careful(&self) -> bool {
        self.host.limits.count(TRUST) == 0
    }

    /// Looks at the current state, and starts the calls that belong to this window; returns whether
    /// anything changed.
    fn look(&mut self) -> bool {
        let known = self.known.clone();
        let confirmed = |channel: &str| {
            known.lock().unwrap_or_else(PoisonError::into_inner).state(channel).cloned()
        };
        let (_, is_stirred) = self.observer.observe(confirmed);
        let runs: Vec<(Key, String)> = self
            .known()
            .all()
            .flat_map(|(channel, state)| runs(channel, state, self.name()))
            .collect();
        for (key, tool) in runs {
            if self.begun.insert(key.clone()) {
                let takes =
                    self.host.plan.entry::<ToolSetup>(TOOL, &tool).unwrap_or_default().takes.0;
                self.note(&key, ToolWork::Begins);
                self.running.spawn(async move {
                    sleep(takes).await;
                    key
                });
            }
        }
        is_stirred
    }

    fn note(&self, (_, turn, call): &Key, work: ToolWork) {
        let note = OfCall { by: By::Tool, call: call.clone(), what: Became::Works(work) };
        note.note(&self.host.record, &Stream::from(turn.as_str()));
    }

    async fn ran(&mut self, key: Key) {
        self.note(&key, ToolWork::Ends);
        let (chat, turn, call) = key;
        let result = json!({ "success": true, "pastTenseMessage": "done" });
        let complete = json!({ "type": "chat/toolCallComplete", "turnId": turn, "toolCallId": call, "result": result });
        // The crate has no queue: without a connection, the result is lost.
        let _ = self.client.dispatch(&HostId::new(HOST), chat, action(complete)).await;
    }

    fn happened(&mut self, envelope: &ActionEnvelope) {
        self.known().apply(envelope);
        let own = envelope.origin.as_ref().filter(|origin| origin.client_id == self.name());
        if let Some((call, done)) = own.and_then(|origin| self.asked.remove(&origin.client_seq)) {
            let refused = envelope
                .rejection_reason
                .as_ref()
                .map(|why| Answer::refused(Rejected(why.to_string())));
            self.host.record.answered(call, refused.unwrap_or(Answer::Done(done)));
        }
    }

    /// Handles an event of the client's connection. Returns the work to do on a new connection.
    fn on_host_event(&mut self, event: &HostEvent) -> Option<BoxFuture<'static, ()>> {
        match event {
            HostEvent::Connected { generation, .. } => {
                milestone!("toolcall.client.connected", generation = *generation);
                self.is_up = true;
                if *generation > 1 && !self.is_careful() {
                    self.is_in = true;
                    return None;
                }
                let channels =
                    [SESSION, CHAT].iter().map(|channel| (*channel).to_owned()).collect();
                let (client, known, host) =
                    (self.client.clone(), self.known.clone(), self.host.clone());
                Some(Box::pin(async move { move_in(&client, &known, &host, channels).await }))
            }
            // The client reports that it is connected until its next attempt.
            HostEvent::StateChanged { state, .. }
                if *state != HostState::Connected && self.is_up =>
            {
                self.is_up = false;
                milestone!("toolcall.client.lost");
                self.is_in = false;
                if self.is_careful() {
                    self.known().freeze();
                }
                for (call, _) in std::mem::take(&mut self.asked).into_values() {
                    self.host.record.failed(call, "the connection was lost");
                }
                None
            }
            _ => None,
        }
    }

    async fn perform(&mut self, call: Call, operation: Operation) {
        let (channel, begins, done) = match operation {
            Operation::Rename {} => {
                let title = format!("{} {}", self.name(), call.0);
                let renamed = json!({ "type": "session/titleChanged", "title": title });
                (SESSION.to_owned(), renamed, Data::from(Did::Named(title)))
            }
            Operation::StartTurn { turn } => {
                let name = if self.name() == "client" {
                    turn.clone()
                } else {
                    format!("{}/{turn}", self.name())
                };
                let chat = setup::turn(&self.host.plan, &turn).chat;
                (chat, started(&name, &call.0.to_string()), format!("began {name}").into())
            }
        };
        match self.client.dispatch(&HostId::new(HOST), channel, action(begins)).await {
            Ok(handle) => drop(self.asked.insert(handle.client_seq, (call, done))),
            Err(error) => self.host.record.failed(call, error.to_string()),
        }
    }
}

/// Sends the token, requests the state of every channel, joins the session, and starts the first
/// turn if there is none.
async fn move_in(
    client: &MultiHostClient,
    known: &Mutex<Known>,
    host: &HostContext,
    channels: Vec<String>,
) {
    let id = HostId::new(HOST);
    let known = || known.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(handle) = client.client(&id).await else { return };
    let token = json!({ "channel": "ahp-root://", "resource": PROVIDER, "token": TOKEN });
    // If a request fails, the connection is over, and this function starts again on the next one.
    if handle.request::<_, Value>("authenticate", token).await.is_err() {
        return;
    }
    for channel in channels {
        match client.subscribe(&id, channel.clone()).await {
            Ok(subscribed) => {
                subscribed.snapshot.into_iter().for_each(|snapshot| known().reset_to(snapshot))
            }
            Err(_) => return,
        }
    }
    let takes_part = match known().state(SESSION) {
        Some(SnapshotState::Session(session)) => {
            session.active_clients.iter().any(|active| active.client_id == host.name.as_str())
        }
        _ => return,
    };
    if !takes_part {
        let tools = setup::tools_of(&host.plan, host.name.as_str()).into_iter();
        let tools: Vec<_> = tools.map(|(name, _)| json!({ "name": name })).collect();
        let joins = json!({ "type": "session/activeClientSet", "activeClient": { "clientId": host.name.as_str(), "tools": tools } });
        let _ = client.dispatch(&id, SESSION.to_owned(), action(joins)).await;
    }
    let is_new = matches!(known().state(CHAT), Some(SnapshotState::Chat(chat)) if chat.turns.is_empty() && chat.active_turn.is_none());
    let first = setup::first_turn(&host.plan).filter(|_| is_new && host.name.as_str() == "client");
    if let Some((turn, setup)) = first {
        let _ = client.dispatch(&id, setup.chat, action(started(&turn, "at the start"))).await;
    }
}

/// Pings the host. If there is no answer in time, makes the client reconnect.
async fn ping(client: MultiHostClient, deadline: Duration) {
    let id = HostId::new(HOST);
    let Some(handle) = client.client(&id).await else { return };
    let answered = timeout(deadline, handle.raw_client().ping()).await;
    if matches!(answered, Err(_) | Ok(Err(ClientError::Cancelled)))
        && handle.check_alive().await.is_ok()
    {
        // The client may be reconnecting already.
        let _ = client.reconnect_host(&id).await;
    }
}

/// Configures their client with the values of our limits, where it has such a setting, and without
/// jitter, which would use the wall clock.
fn config(host: &HostContext) -> HostConfig {
    let limits = &host.limits;
    let (connect, answers) =
        (limits.duration("client.connect-timeout"), limits.duration("client.handshake-timeout"));
    let backoff = Backoff::Exponential {
        initial: limits.duration("client.back-off-min"),
        max: limits.duration("client.back-off-max"),
        multiplier: 2.0,
    };
    let policy = ReconnectPolicy { backoff, jitter: 0.0, ..ReconnectPolicy::exponential() };
    let (env, opened) = (host.env.clone(), Arc::new(AtomicU64::new(0)));
    let open = move |_| {
        let (env, opened) = (env.clone(), opened.clone());
        async move {
            let at = Endpoint::tcp("server", 80);
            let open = async {
                let stream = env
                    .net
                    .connect(&at)
                    .await
                    .map_err(|error| TransportError::Io(error.to_string()))?;
                let generation = opened.fetch_add(1, Ordering::Relaxed) + 1;
                milestone!("toolcall.client.opened", generation, conn = stream.id().0);
                Ws::open(stream, &format!("ws://{at}/")).await
            };
            let ws = timeout(connect, open)
                .await
                .map_err(|_| TransportError::Io("it took too long".to_owned()))??;
            Ok(BoxedTransport::new(ws))
        }
    };
    HostConfig::new(HOST, HOST, open)
        .with_client_id(host.name.as_str())
        .with_client_config(ClientConfig {
            default_request_timeout: Some(answers),
            ..ClientConfig::default()
        })
        .with_reconnect_policy(policy)
}

async fn next_event(events: &mut HostSubscriptionStream) -> ActionEnvelope {
    loop {
        match events.recv().await {
            Some(event) => {
                if let SubscriptionEvent::Action(envelope) = event.event {
                    return envelope;
                }
            }
            None => std::future::pending().await,
        }
    }
}

async fn next_news(news: &mut HostEventStream) -> HostEvent {
    match news.recv().await {
        Some(event) => event,
        None => std::future::pending().await,
    }
}

/// Returns the calls in a chat that a client must run, with their tools.
fn runs(channel: &str, state: &SnapshotState, client: &str) -> Vec<(Key, String)> {
    let SnapshotState::Chat(chat) = state else { return Vec::new() };
    let Some(turn) = &chat.active_turn else { return Vec::new() };
    let running = turn.response_parts.iter().filter_map(|part| match part {
        ResponsePart::ToolCall(part) => match &part.tool_call {
            ToolCallState::Running(running) => Some(running),
            _ => None,
        },
        _ => None,
    });
    let own = running
        .filter(|running| matches!(&running.contributor, Some(ToolCallContributor::Client(owner)) if owner.client_id == client));
    own.map(|own| {
        ((channel.to_owned(), turn.id.clone(), own.tool_call_id.clone()), own.tool_name.clone())
    })
    .collect()
}

fn started(turn: &str, text: &str) -> Value {
    let message = json!({ "text": text, "origin": { "kind": "user" } });
    json!({ "type": "chat/turnStarted", "turnId": turn, "startedAt": "2026-01-01T00:00:00.000Z", "message": message })
}

fn action(value: Value) -> StateAction {
    serde_json::from_value(value).expect("an action of this protocol")
}
