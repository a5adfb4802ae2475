//! A real server, a hostile client, and a well-behaved one beside it.
//!
//! These invariants hold for all messages of the hostile client:
//! - no code panics, and everything that the server sends is a valid message;
//! - the server stays within its limits at every step;
//! - at the end, the hostile client gets an answer, or its connection ends, within a minute;
//! - after the hostile client has disconnected, none of its resources are left after `FORGOTTEN`;
//! - the process of the well-behaved client echoes each input at once, over the client's first
//!   connection.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use arbitrary::Arbitrary;
use reknit_exec::Server;
use reknit_exec::client::{Client, Event, Events, Process};
use reknit_exec::limits::{ClientLimits, ServerLimits, WireLimits};
use reknit_exec::server::{CHUNK, ServerResources};
use reknit_exec::wire::Directory;
use reknit_exec::wire::process::StartParams;
use reknit_seams::net::Endpoint;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::files::FileAsk;
use crate::machine::{Machine, PROGRAMS};
use crate::peer::caller::{HostileClient, LAST};
use crate::script::{Bytes, Name, Noise, Number, Pause, Rarely, SendOptions, Steps, Times};
use crate::stage::{Arrivals, Memory, env, must, run};

/// The actions of a hostile client.
#[derive(Arbitrary, Debug)]
pub struct ExecServerScript {
    /// Whether the server's limits are tight.
    tight: bool,
    /// The answers of the web servers to the server's HTTP requests.
    web: Vec<Bytes>,
    /// The steps, in order.
    steps: Steps<Step>,
}

/// A step of a hostile client.
#[derive(Arbitrary, Debug)]
enum Step {
    /// It sends a request this many times.
    Asks(Ask, SendOptions, Times),
    /// It stays silent for a while.
    Pauses(Pause),
    /// It stops or resumes reading.
    Reads(bool),
    /// Its connection ends, and it connects again; usually with the complete handshake, and with
    /// the last session or a new one.
    ComesAgain(bool, Rarely<ConnectionStart>),
    /// It sends something that no client sends.
    Disturbs(Rarely<Disturbance>),
}

/// Something that no client sends.
#[derive(Arbitrary, Debug)]
enum Disturbance {
    /// An answer, which only servers send.
    Answers(Number, SendOptions),
    /// Invalid data.
    Noise(Noise),
    /// Another handshake message, or another request.
    Asks(OddAsk, SendOptions),
}

/// How a connection begins.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum ConnectionStart {
    /// With the complete handshake and a new session.
    Anew,
    /// With the complete handshake and the last session.
    Resumes,
    /// With a WebSocket only.
    Bare,
    /// With an HTTP request for another path.
    Readyz,
    /// With no data.
    Silent,
}

/// A request after the handshake.
#[derive(Arbitrary, Debug)]
enum Ask {
    /// `process/start`.
    Start { process: Name, program: u8, tty: bool, stdin: bool, more: Option<Name> },
    /// `process/read`.
    Read { process: Name, after: Option<Number>, max: Option<Number>, wait: Option<Number> },
    /// `process/write`.
    Write { process: Name, bytes: Bytes, id: Option<Name> },
    /// `process/signal`.
    Signal(Name),
    /// `process/terminate`.
    Terminate(Name),
    /// A request for files.
    File(Box<FileAsk>),
    /// `http/request`.
    Http {
        url: u8,
        id: Name,
        body: Option<Bytes>,
        timeout: Option<Number>,
        stream: bool,
        header: Option<Name>,
    },
}

/// An unusual request.
#[derive(Arbitrary, Debug)]
enum OddAsk {
    /// `initialize`; with the last session if `true`, otherwise with this one.
    Initialize(bool, Option<Name>),
    /// `initialized`.
    Initialized,
    /// Another method.
    Other(Name),
}

/// The URLs of the HTTP requests.
const URLS: [&str; 6] =
    ["http://web/", "http://web:8080/x?y", "https://web/", "http://", "web", "http://[::1]:99999/"];

impl Ask {
    /// Returns the method and the parameters.
    fn carries(&self) -> (Cow<'static, str>, Value) {
        let value = |number: &Option<Number>| number.map(Number::value);
        let (method, params) = match self {
            Self::Start { process, program, tty, stdin, more } => {
                let program = PROGRAMS[usize::from(*program) % PROGRAMS.len()];
                let argv: Vec<_> =
                    [program.to_owned()].into_iter().chain(more.as_ref().map(Name::text)).collect();
                let params = json!({"processId": process.text(), "argv": argv, "cwd": "/", "tty": tty, "pipeStdin": stdin});
                ("process/start", params)
            }
            Self::Read { process, after, max, wait } => {
                let (after, max, wait) = (value(after), value(max), value(wait));
                (
                    "process/read",
                    json!({"processId": process.text(), "afterSeq": after, "maxBytes": max, "waitMs": wait}),
                )
            }
            Self::Write { process, bytes, id } => {
                let id = id.as_ref().map(Name::text);
                (
                    "process/write",
                    json!({"processId": process.text(), "chunk": bytes.base64(), "writeId": id}),
                )
            }
            Self::Signal(process) => {
                ("process/signal", json!({"processId": process.text(), "signal": "interrupt"}))
            }
            Self::Terminate(process) => ("process/terminate", json!({"processId": process.text()})),
            Self::Http { url, id, body, timeout, stream, header } => {
                let header =
                    header.as_ref().map(|name| json!({"name": name.text(), "value": name.text()}));
                let params = json!({
                    "method": "GET", "url": URLS[usize::from(*url) % URLS.len()], "requestId": id.text(), "streamResponse": stream,
                    "bodyBase64": body.as_ref().map(Bytes::base64), "timeoutMs": value(timeout), "headers": Vec::from_iter(header),
                });
                ("http/request", params)
            }
            Self::File(ask) => {
                let (method, params) = ask.carries();
                return (method.into(), params);
            }
        };
        (method.into(), params)
    }

    fn message(&self, id: u64) -> Value {
        let (method, params) = self.carries();
        json!({"id": id, "method": method, "params": params})
    }

    /// Returns the number of bytes that it writes to a process.
    fn writes(&self) -> usize {
        if let Self::Write { bytes, .. } = self { bytes.bytes().len() } else { 0 }
    }
}

impl OddAsk {
    fn message(&self, id: u64, session: Option<String>) -> Value {
        let session = match self {
            Self::Initialized => return json!({"method": "initialized", "params": {}}),
            Self::Other(name) => return json!({"id": id, "method": name.text(), "params": {}}),
            Self::Initialize(true, _) => session,
            Self::Initialize(false, other) => other.as_ref().map(Name::text),
        };
        json!({"id": id, "method": "initialize", "params": {"clientName": "hostile", "resumeSessionId": session}})
    }
}

/// The time limit for results that must be immediate.
pub(super) const SOON: Duration = Duration::from_secs(1);

pub(super) const MINUTE: Duration = Duration::from_secs(60);

/// The time by which a disconnected client has left nothing behind: sessions are kept for 80 s.
pub(super) const FORGOTTEN: Duration = Duration::from_secs(95);

/// Runs the script, and checks all invariants.
pub fn holds(script: &ExecServerScript) {
    run(async {
        let mut test = ServerTest::open(script).await;
        let mut peer = test.enter(None, ConnectionStart::Anew).await;
        for step in &script.steps.0 {
            peer = test.step(peer, step).await;
            test.is_within_limits();
            test.well_behaved.echoes().await;
        }
        let request =
            json!({"id": LAST, "method": "process/terminate", "params": {"processId": "nobody"}});
        peer.is_answered_or_over(request, MINUTE).await;
        drop(peer);
        test.well_behaved.echoes().await;
        sleep(FORGOTTEN).await;
        test.well_behaved.echoes().await;
        test.has_forgotten();
    });
}

pub(super) fn limits(tight: bool) -> ServerLimits {
    let wire =
        WireLimits { message_bytes: 16 << 10, outbox_bytes: 32 << 10, ..WireLimits::default() };
    let limits = ServerLimits { wire, ..ServerLimits::default() };
    if !tight {
        return limits;
    }
    ServerLimits {
        retained_bytes: 600,
        retained_chunks: 4,
        outbound_queue: 2,
        stdin_bytes: 16,
        write_ids: 2,
        connections: 3,
        sessions: 3,
        processes: 3,
        waiting_requests: 2,
        http_body_bytes: 64,
        file_handles: 2,
        file_bytes: 64,
        directory_entries: 3,
        ..limits
    }
}

/// The server, the well-behaved client, and the state of the hostile one.
struct ServerTest {
    limits: ServerLimits,
    resources: ServerResources,
    door: Memory,
    well_behaved: WellBehavedClient,
    asked: u64,
    /// The size of the largest single write to a process.
    longest_write: usize,
    _tasks: JoinSet<()>,
}

impl ServerTest {
    async fn open(script: &ExecServerScript) -> Self {
        let (door, web) = (Memory::new(), Memory::new());
        let limits = limits(script.tight);
        let server = Server::new(&env(web.clone(), Arc::new(Machine::default())), limits);
        let resources = server.resources();
        let mut tasks = JoinSet::new();
        tasks.spawn(server.serve(door.listener()));
        tasks.spawn(answer(web.arrivals(), script.web.iter().map(Bytes::bytes).collect()));
        let well_behaved = WellBehavedClient::enter(door.clone()).await;
        Self { limits, resources, door, well_behaved, asked: 0, longest_write: 0, _tasks: tasks }
    }

    async fn step(&mut self, mut peer: HostileClient, step: &Step) -> HostileClient {
        match step {
            Step::Asks(ask, manner, times) => {
                self.longest_write = self.longest_write.max(ask.writes());
                for _ in 0..times.count() {
                    peer.send(manner, ask.message(self.next_id())).await;
                }
            }
            Step::Disturbs(Rarely(Some(disturbance))) => self.disturb(&mut peer, disturbance).await,
            Step::Disturbs(Rarely(None)) => {}
            Step::Pauses(pause) => sleep(pause.duration()).await,
            Step::Reads(reads) => peer.read(*reads),
            Step::ComesAgain(resumes, odd) => {
                let session = peer.latest();
                drop(peer);
                let usual = if *resumes { ConnectionStart::Resumes } else { ConnectionStart::Anew };
                peer = self.enter(session, odd.0.unwrap_or(usual)).await;
            }
        }
        peer
    }

    async fn disturb(&mut self, peer: &mut HostileClient, disturbance: &Disturbance) {
        match disturbance {
            Disturbance::Answers(id, manner) => {
                peer.send(manner, json!({"id": id.value(), "result": {}})).await
            }
            Disturbance::Noise(noise) => peer.write(&noise.write(true)).await,
            Disturbance::Asks(ask, manner) => {
                let message = ask.message(self.next_id(), peer.latest());
                peer.send(manner, message).await;
            }
        }
    }

    fn next_id(&mut self) -> u64 {
        self.asked += 1;
        self.asked
    }

    /// Opens a connection and starts it in this way.
    async fn enter(&mut self, session: Option<String>, start: ConnectionStart) -> HostileClient {
        let stream = self.door.open(&Endpoint::tcp("server", 80)).expect("it is never refused");
        let mut peer = HostileClient::new(stream, "/result/sessionId", session.clone(), &[]);
        match start {
            ConnectionStart::Anew | ConnectionStart::Resumes => {
                peer.asks_for_websocket().await;
                for ask in [
                    OddAsk::Initialize(matches!(start, ConnectionStart::Resumes), None),
                    OddAsk::Initialized,
                ] {
                    let message = ask.message(self.next_id(), session.clone());
                    peer.send_valid(&message).await;
                }
            }
            ConnectionStart::Bare => peer.asks_for_websocket().await,
            ConnectionStart::Readyz => {
                peer.write(b"GET /readyz HTTP/1.1\r\nHost: server\r\n\r\n").await
            }
            ConnectionStart::Silent => {}
        }
        peer
    }

    fn is_within_limits(&self) {
        let (counts, limits) = (self.resources.counts(), &self.limits);
        let at_most =
            |what: &str, is: u64, most: usize| assert!(is <= most as u64, "{what}: {is} of {most}");
        at_most("connections", counts.connections, limits.connections);
        at_most("sessions", counts.sessions, limits.sessions);
        at_most("processes", counts.processes, limits.processes * limits.sessions);
        at_most(
            "HTTP requests",
            counts.http_requests,
            limits.waiting_requests * limits.connections,
        );
        let handles = limits.file_handles * limits.connections;
        at_most("open files", counts.file_handles, handles);
        at_most("retained bytes", counts.most_retained_bytes, limits.retained_bytes.max(CHUNK));
        at_most("retained chunks", counts.most_retained_chunks, limits.retained_chunks);
        at_most(
            "waiting input",
            counts.most_waiting_input,
            limits.stdin_bytes.max(self.longest_write),
        );
    }

    /// Checks that only the well-behaved client's resources are left.
    fn has_forgotten(&self) {
        let counts = self.resources.counts();
        let left =
            [counts.connections, counts.sessions, counts.open_processes, counts.http_requests];
        assert_eq!(left, [1, 1, 1, 0], "connections, sessions, open processes, HTTP requests");
        let left = [counts.file_requests, counts.file_handles];
        assert_eq!(left, [0, 0], "requests for files, open files");
    }
}

/// Runs the web servers for the server's HTTP requests: each connection gets the next answer, and
/// is closed.
async fn answer(mut arrivals: Arrivals, answers: Vec<Vec<u8>>) {
    const GOOD: &[u8] =
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    let mut answers = answers.into_iter();
    let mut open = Vec::new();
    while let Some((_, mut stream)) = arrivals.recv().await {
        let answer = answers.next();
        let mut request = [0; 4096];
        if answer.as_ref().is_some_and(Vec::is_empty) {
            open.push(stream); // it never answers
        } else if stream.read(&mut request).await.is_ok() {
            // The requester may have disconnected.
            let _ = stream.write_all(answer.as_deref().unwrap_or(GOOD)).await;
        }
    }
}

/// A client that uses the server as intended.
struct WellBehavedClient {
    _client: Client,
    process: Process,
    events: Events,
    echoed: u64,
}

impl WellBehavedClient {
    async fn enter(door: Memory) -> Self {
        let client = Client::start(
            &env(door, Arc::new(Machine::default())),
            Endpoint::tcp("server", 80),
            ClientLimits::default(),
        );
        let argv = vec!["echo".to_owned()];
        let spec = StartParams {
            process_id: "p1".into(),
            argv,
            cwd: Directory::root(),
            pipe_stdin: true,
            ..StartParams::default()
        };
        let process = must("the well-behaved client's start", SOON, client.launch(spec))
            .await
            .expect("there is room for one");
        let events = process.events();
        Self { _client: client, process, events, echoed: 0 }
    }

    /// Writes a text and expects its echo at once, as the next event, over its first connection.
    async fn echoes(&mut self) {
        self.echoed += 1;
        let text = format!("word {}", self.echoed);
        must("the well-behaved client's write", SOON, self.process.write(text.clone()))
            .await
            .expect("nobody else closes its input");
        match must("the well-behaved client's echo", SOON, self.events.next()).await {
            Some(Event::Output { seq, bytes, via, .. }) => {
                assert_eq!((seq, &bytes[..], via.generation), (self.echoed, text.as_bytes(), 1));
            }
            other => panic!("in the place of an echo: {other:?}"),
        }
    }
}
