//! Lines of a hostile peer: for the parsers, for a connection to an app-server, for a broker at both of its
//! ends, and for a client.
//!
//! These invariants hold for all bytes:
//! - no code panics, and everything that the tested end sends is a message, or the refusal of a line that
//!   it could not read;
//! - a line that is no message is skipped. Only a line that is too long ends a connection, or a peer that
//!   does not read;
//! - a hostile client gets an answer, or its connection ends, within a minute. The broker answers other
//!   clients at once, and runs a turn for one of them in the end;
//! - the broker stays within its limits at every step. After the hostile client has disconnected,
//!   it keeps nothing of the client after `FORGOTTEN`, except finished turns;
//! - a command gets exactly one result within `PATIENCE`, also from a hostile app-server.

use std::sync::Arc;
use std::time::Duration;

use arbitrary::Arbitrary;
use reknit_jsonrpc::{LineEvent, LineLimits, Lines, Message};
use reknit_seams::net::{ConnId, Endpoint, Stream};
use reknit_seams::process::Unsupported;
use reknit_turn::broker::{Broker, BrokerCounts, BrokerHandle};
use reknit_turn::capture::{Evidence, Report, Verdict};
use reknit_turn::client::{Client, ClientError, Route};
use reknit_turn::command::{Command, Settings, TaskThread};
use reknit_turn::limits::{BrokerLimits, ClientLimits, ConnectionLimits};
use reknit_turn::upstream::{Upstream, UpstreamEvent};
use reknit_turn::wire::{
    ClientInfo, InitializeAnswer, InitializeParams, Notification, Scope, StartAnswer, ThreadAnswer,
};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, duplex};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::message::{Answer, Ask, News};
use super::model::AppServer;
use super::peer::LinePeer;
use crate::script::{Bytes, Name, Number, Pause, Rarely, SendOptions, Steps, Times};
use crate::stage::{Memory, env, must, run};

/// The lines of a hostile peer.
#[derive(Arbitrary, Debug)]
pub struct TurnWireScript {
    /// Whether the limits are tight.
    tight: bool,
    /// The tested end.
    target: Target,
    /// Whether the peer disconnects in the end.
    leaves: bool,
    /// The steps, in order.
    steps: Steps<Step>,
}

/// The tested end.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Target {
    /// A connection to the hostile peer as to an app-server.
    Upstream,
    /// A broker. The peer is a client.
    Broker,
    /// A broker. The peer is its app-server.
    BrokerOfAppServer,
    /// A client. The peer is its broker.
    Client,
}

/// A step of the peer.
#[derive(Arbitrary, Debug)]
enum Step {
    /// It sends a request this many times.
    Asks(Ask, Rarely<Name>, SendOptions, Times),
    /// It sends a notification this many times.
    Tells(News, SendOptions, Times),
    /// It sends an answer to a request that may not exist.
    Answers(Number, Answer, SendOptions),
    /// It answers everything as a correct app-server.
    Obeys,
    /// It lets the turns go on as a correct app-server.
    Works,
    /// It sends any bytes.
    Disturbs(Rarely<Bytes>),
    /// It stays silent for a while.
    Pauses(Pause),
    /// It stops or resumes reading.
    Reads(bool),
}

/// The time limit for results that must be immediate.
const SOON: Duration = Duration::from_secs(1);

const MINUTE: Duration = Duration::from_secs(60);

/// The time by which a broker has given up everything of a client that has disconnected.
const FORGOTTEN: Duration = Duration::from_secs(400);

/// The time in which a command ends: a turn takes at most 1800 s, and a client asks a busy broker for 60 s.
const PATIENCE: Duration = Duration::from_secs(3000);

/// How many lines a client may send in all, so that it certainly reads fast enough.
const FEW: usize = 100;

/// Runs the script, and checks all invariants.
pub fn holds(script: &TurnWireScript) {
    for step in &script.steps.0 {
        match step {
            Step::Asks(ask, text, manner, _) => parses(&manner.text(ask.message(1, text))),
            Step::Tells(news, manner, _) => parses(&manner.text(news.message())),
            Step::Answers(id, answer, manner) => {
                parses(&manner.text(answer.message(&json!(id.value()))))
            }
            Step::Disturbs(Rarely(Some(bytes))) => parses(&bytes.bytes()),
            _ => {}
        }
    }
    run(async {
        match script.target {
            Target::Upstream => upstream(script).await,
            Target::Broker => broker(script).await,
            Target::BrokerOfAppServer => app_server(script).await,
            Target::Client => client(script).await,
        }
    });
}

/// Hands a line to every parser of the protocol.
fn parses(line: &[u8]) {
    let (method, content) = match Message::parse(line) {
        Ok(Message::Request { method, params, .. }) => (method, params),
        Ok(Message::Notification { method, params }) => (method, params),
        Ok(Message::Response { result, .. }) => (String::new(), Some(result)),
        _ => return,
    };
    if let Ok(notification) = Notification::parse(&method, content.as_deref()) {
        let ids = [notification.thread(), notification.turn()];
        assert!(ids.into_iter().flatten().all(|id| !id.is_empty()));
    }
    let content = content.as_deref();
    let _ = reknit_jsonrpc::read::<Scope>(content);
    let _ = reknit_jsonrpc::read::<InitializeAnswer>(content);
    let _ = reknit_jsonrpc::read::<InitializeParams>(content);
    let _ = reknit_jsonrpc::read::<ThreadAnswer>(content);
    let _ = reknit_jsonrpc::read::<StartAnswer>(content);
}

fn limits(tight: bool) -> ConnectionLimits {
    let (line_bytes, outbox_bytes) = if tight { (2 << 10, 16 << 10) } else { (32 << 10, 64 << 10) };
    ConnectionLimits { line_bytes, outbox_bytes, ..ConnectionLimits::default() }
}

/// Does a step. Lines that contain `without` are left out.
async fn does<S: AsyncRead + AsyncWrite + Send + 'static>(
    peer: &mut LinePeer<S>,
    step: &Step,
    app_server: &mut AppServer,
    without: Option<&str>,
) {
    let (message, manner, times) = match step {
        Step::Asks(ask, text, manner, times) => {
            (ask.message(u64::from(peer.lines as u32), text), manner, times.count())
        }
        Step::Tells(news, manner, times) => (news.message(), manner, times.count()),
        Step::Answers(id, answer, manner) => (answer.message(&json!(id.value())), manner, 1),
        Step::Obeys => return peer.answer_all(app_server).await,
        Step::Works => {
            for news in app_server.work() {
                peer.send_valid(&news).await;
            }
            return;
        }
        Step::Disturbs(Rarely(Some(bytes))) => return peer.write(&bytes.bytes()).await,
        Step::Pauses(pause) => return sleep(pause.duration()).await,
        Step::Reads(reads) => return peer.read(*reads),
        Step::Disturbs(Rarely(None)) => return,
    };
    let is_forbidden = |without: &str| message.to_string().contains(without);
    if !without.is_some_and(is_forbidden) {
        for _ in 0..times {
            peer.send(manner.lines(message.clone())).await;
        }
    }
}

/// A connection to a hostile app-server.
async fn upstream(script: &TurnWireScript) {
    let limits = limits(script.tight);
    let (near, far) = duplex(4096);
    let mut upstream = Upstream::over(Stream::new(near, ConnId(1)), limits);
    let mut peer = LinePeer::new(far);
    let sends = async {
        for step in &script.steps.0 {
            does(&mut peer, step, &mut AppServer::default(), None).await;
        }
        peer.read(true);
        peer.write(b"\n").await;
        peer.send_valid(&json!({ "method": "marker" })).await;
        peer
    };
    let receives = async {
        let mut events = 0;
        loop {
            match upstream.next().await {
                UpstreamEvent::Notification { method, .. } if method == "marker" => break events,
                UpstreamEvent::Ended(_) => break usize::MAX,
                _ => events += 1,
            }
        }
    };
    let receives = timeout(PATIENCE, receives);
    let (peer, events) = tokio::join!(sends, receives);
    match events.expect("the marker, or the end") {
        usize::MAX => assert!(peer.longest >= limits.line_bytes || !peer.has_read, "it ended"),
        events => assert!(events <= peer.lines, "{events} events of {} lines", peer.lines),
    }
}

/// A broker with a correct app-server.
struct Served {
    door: Memory,
    handle: BrokerHandle,
    limits: BrokerLimits,
    _tasks: JoinSet<()>,
}

fn at() -> Endpoint {
    Endpoint::tcp("broker", 1)
}

impl Served {
    /// Starts a broker. Its app-server has the other end of the stream.
    fn open(tight: bool) -> (Self, DuplexStream) {
        let connection = limits(tight);
        let requests = if tight { 4 } else { 64 };
        let limits = BrokerLimits { requests, threads: 8, connection, ..BrokerLimits::default() };
        let client_info = ClientInfo { name: "b".into(), title: None, version: "1".into() };
        let broker = Broker::new(limits, &InitializeParams::new(client_info));
        let (door, handle) = (Memory::new(), broker.handle());
        let (near, far) = duplex(4096);
        let upstream = Upstream::over(Stream::new(near, ConnId(0)), connection);
        let (mut tasks, listener) = (JoinSet::new(), door.listener());
        tasks.spawn(async move { drop(broker.serve(upstream, listener).await) });
        (Self { door, handle, limits, _tasks: tasks }, far)
    }

    fn is_within_limits(&self) -> BrokerCounts {
        let (counts, limits) = (self.handle.counts(), &self.limits);
        let at_most =
            |what: &str, is: usize, most: usize| assert!(is <= most, "{what}: {is} of {most}");
        at_most("bytes of requests", counts.request_bytes, limits.connection.line_bytes + 256);
        at_most("threads", counts.threads, limits.threads);
        at_most("finished turns", counts.finished_turns, 64);
        at_most("late starts", counts.late_starts, counts.turns + counts.finished_turns);
        let outboxes = counts.clients * limits.connection.outbox_bytes;
        at_most("bytes for clients", counts.outbox_bytes, outboxes);
        counts
    }
}

/// A broker with a hostile client, and a well-behaved one.
async fn broker(script: &TurnWireScript) {
    let (served, stream) = Served::open(script.tight);
    let mut app_server = JoinSet::new();
    app_server.spawn(works_correctly(stream));
    let connection = served.door.open(&at()).expect("it is never refused");
    let mut well_behaved =
        Upstream::over(Stream::new(connection, ConnId(1)), served.limits.connection);
    let hello = well_behaved.call("initialize", None);
    must("the answer to the well-behaved client", SOON, hello).await.expect("it is served");
    let mut peer = LinePeer::new(served.door.open(&at()).expect("it is never refused"));
    for step in &script.steps.0 {
        does(&mut peer, step, &mut AppServer::default(), Some("broker/shutdown")).await;
        let hello = well_behaved.call("initialize", None);
        must("the answer to the well-behaved client", SOON, hello).await.expect("it is served");
        served.is_within_limits();
    }
    let is_answered = peer.is_answered("initialize", MINUTE).await;
    let may_end = peer.longest >= served.limits.connection.line_bytes || !peer.has_read;
    assert!(is_answered || may_end || peer.lines > FEW, "the connection ended");
    drop((peer, well_behaved));
    sleep(FORGOTTEN).await;
    let counts = served.is_within_limits();
    let left =
        [counts.clients, counts.requests, counts.interrupts, counts.turns, counts.late_starts];
    assert_eq!(left, [0; 5], "clients, requests, interrupts, turns, late starts");
    let report = command(&served.door).await.expect("the broker is free");
    assert_eq!(report.verdict, Verdict::Completed(Evidence::Reported));
}

/// An app-server that works correctly.
async fn works_correctly(stream: DuplexStream) {
    const TICK: Duration = Duration::from_millis(100);
    let limits = LineLimits { line_bytes: 1 << 20, outbox_bytes: 1 << 20, write_deadline: MINUTE };
    let mut lines = Lines::of(Stream::new(stream, ConnId(0)), limits);
    let (mut app_server, mut tick) = (AppServer::default(), Instant::now() + TICK);
    loop {
        let line = tokio::select! {
            biased;
            line = lines.next() => line,
            () = sleep_until(tick) => {
                tick += TICK;
                app_server.work().iter().for_each(|news| lines.send_text(&news.to_string()));
                continue;
            }
        };
        match line {
            Ok(LineEvent::Message(Message::Request { id, method, params })) => {
                let params = params.map_or(Value::Null, |raw| {
                    serde_json::from_str(raw.get()).expect("parameters are JSON")
                });
                let id = serde_json::to_value(&id).expect("an id is plain data");
                lines.send_text(&app_server.answer(&id, &method, &params).to_string());
            }
            Ok(LineEvent::Message(Message::Notification { .. })) => {}
            Ok(other) => panic!("the broker says messages: {other:?}"),
            Err(_) => return,
        }
    }
}

/// Runs a command of the well-behaved client.
async fn command(net: &Memory) -> Result<Report, ClientError> {
    let command = Command::Task { thread: TaskThread::New { prompt: "go".into() }, write: false };
    let settings = Settings { cwd: "/".into(), model: None, effort: None, service: "f".into() };
    let route = Route::Broker { endpoint: at() };
    let env = env(net.clone(), Arc::new(Unsupported));
    let client = Client::new(&env, route, ClientLimits::default());
    must("the result", PATIENCE, client.run(command, settings, std::future::pending(), drop)).await
}

/// A broker with a hostile app-server, and a well-behaved client.
async fn app_server(script: &TurnWireScript) {
    let (served, stream) = Served::open(script.tight);
    let mut model = AppServer::default();
    let mut peer = Some(LinePeer::new(stream));
    let script_runs = async {
        for step in &script.steps.0 {
            if let Some(peer) = &mut peer {
                does(peer, step, &mut model, None).await;
            }
            served.is_within_limits();
        }
        if script.leaves {
            peer = None;
        }
    };
    let _ = tokio::join!(script_runs, command(&served.door));
}

/// A client with a hostile broker.
async fn client(script: &TurnWireScript) {
    let net = Memory::new();
    let mut arrivals = net.arrivals();
    let mut peer = None;
    let script_runs = async {
        let (_, stream) = arrivals.recv().await.expect("the client connects");
        let mut model = AppServer::default();
        let mut open = LinePeer::new(stream);
        for step in &script.steps.0 {
            does(&mut open, step, &mut model, None).await;
        }
        if !script.leaves {
            peer = Some(open);
        }
    };
    let _ = tokio::join!(script_runs, command(&net));
    drop(peer);
}
