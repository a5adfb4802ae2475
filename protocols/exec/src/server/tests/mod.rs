//! Tests of the server over in-memory connections, on paused time, with processes that the test
//! scripts.
//!
//! - this module: helpers. `handshake`, `processes`, `resume`, `http`, `files`: tests with these helpers.
//!   `real`: tests with real sockets and processes.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use reknit_jsonrpc::{Link, LinkEvent};
use reknit_seams::env::Machine;
use reknit_seams::files::{Files, Memory};
use reknit_seams::net::{Accept, BoxFuture, ConnId, Connect, Endpoint, Listener, Network, Stream};
use reknit_seams::process::{Child, Command, Exit, Input, KILL, Launch, Output};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::limits::WireLimits;
use crate::wire::{Message, RequestId};

mod files;
mod handshake;
mod http;
mod processes;
#[cfg(unix)]
mod real;
#[cfg(target_os = "linux")]
mod real_files;
mod resume;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

// -- processes ------------------------------------------------------------------------------------

/// An operating system whose processes the test scripts. The program `missing` does not exist; the
/// launch of `slow` waits until the test opens the gate.
#[derive(Clone, Default)]
struct FakeLauncher {
    launched: Arc<Mutex<BTreeMap<String, Vec<Arc<FakeProcess>>>>>,
    gate: Arc<Notify>,
}

/// A process that the test controls.
struct FakeProcess {
    command: Command,
    body: Mutex<Body>,
    /// Tracks whether the server still holds the child.
    held: Weak<()>,
}

struct Body {
    pipes: [Option<DuplexStream>; 3],
    exit: Option<oneshot::Sender<Exit>>,
    signals: Vec<i32>,
}

/// The capacity of a pipe in bytes.
const PIPE: usize = 1024;

impl FakeLauncher {
    /// Returns the process that was launched last under this name.
    fn process(&self, name: &str) -> Arc<FakeProcess> {
        self.launched.lock().unwrap()[name].last().unwrap().clone()
    }

    /// Returns how many children the server holds.
    fn alive(&self) -> usize {
        let launched = self.launched.lock().unwrap();
        launched.values().flatten().filter(|process| process.held.upgrade().is_some()).count()
    }
}

impl Launch for FakeLauncher {
    fn launch<'a>(&'a self, command: &'a Command) -> BoxFuture<'a, io::Result<Box<dyn Child>>> {
        Box::pin(async {
            let name = command.argv[0].clone();
            match name.as_str() {
                "missing" => return Err(io::ErrorKind::NotFound.into()),
                "slow" => self.gate.notified().await,
                _ => {}
            }
            let [(in_near, in_far), (out_near, out_far), (err_near, err_far)] =
                std::array::from_fn(|_| duplex(PIPE));
            let (exit, exited) = oneshot::channel();
            let held = Arc::new(());
            let body = Body {
                pipes: [in_far, out_far, err_far].map(Some),
                exit: Some(exit),
                signals: Vec::new(),
            };
            let process = FakeProcess {
                command: command.clone(),
                body: Mutex::new(body),
                held: Arc::downgrade(&held),
            };
            let process = Arc::new(process);
            self.launched.lock().unwrap().entry(name).or_default().push(process.clone());
            let pipes = [in_near, out_near, err_near].map(Some);
            Ok(Box::new(Launched { pipes, process, exited: Exited::Not(exited), _held: held })
                as Box<dyn Child>)
        })
    }
}

impl FakeProcess {
    fn body(&self) -> MutexGuard<'_, Body> {
        self.body.lock().unwrap()
    }

    /// Writes to one of its pipes. No other task may use the pipe meanwhile.
    async fn with_pipe(&self, n: usize, text: &[u8]) {
        let mut pipe = self.body().pipes[n].take().unwrap();
        pipe.write_all(text).await.unwrap();
        self.body().pipes[n] = Some(pipe);
    }

    async fn prints(&self, text: &str) {
        self.with_pipe(1, text.as_bytes()).await;
    }

    /// Prints 3 MB, as fast as the server reads them.
    fn floods(&self) {
        let mut pipe = self.body().pipes[1].take().unwrap();
        tokio::spawn(async move {
            for _ in 0..3000 {
                if pipe.write_all(&[b'x'; 1000]).await.is_err() {
                    return;
                }
            }
        });
    }

    /// Reads this many bytes of its input.
    async fn reads(&self, count: usize) -> String {
        let mut pipe = self.body().pipes[0].take().unwrap();
        let mut bytes = vec![0; count];
        pipe.read_exact(&mut bytes).await.unwrap();
        self.body().pipes[0] = Some(pipe);
        String::from_utf8(bytes).unwrap()
    }

    /// Exits, but a child process still holds its output open.
    fn exits(&self, code: i32) {
        if let Some(exit) = self.body().exit.take() {
            let _ = exit.send(Exit::Code(code));
        }
    }

    /// Closes its pipes.
    fn closes(&self) {
        self.body().pipes = [None, None, None];
    }

    fn ends(&self, code: i32) {
        self.closes();
        self.exits(code);
    }

    fn signals(&self) -> Vec<i32> {
        self.body().signals.clone()
    }
}

/// The launcher's end of a process.
struct Launched {
    pipes: [Option<DuplexStream>; 3],
    process: Arc<FakeProcess>,
    exited: Exited,
    _held: Arc<()>,
}

enum Exited {
    Not(oneshot::Receiver<Exit>),
    Yes(Exit),
}

impl Child for Launched {
    fn pid(&self) -> u32 {
        7
    }

    fn stdin(&mut self) -> Option<Input> {
        let wanted =
            self.process.command.stdio != reknit_seams::process::Stdio::Pipes { stdin: false };
        self.pipes[0].take().filter(|_| wanted).map(|pipe| Box::new(pipe) as Input)
    }

    fn stdout(&mut self) -> Option<Output> {
        self.pipes[1].take().map(|pipe| Box::new(pipe) as Output)
    }

    fn stderr(&mut self) -> Option<Output> {
        let pipes =
            matches!(self.process.command.stdio, reknit_seams::process::Stdio::Pipes { .. });
        self.pipes[2].take().filter(|_| pipes).map(|pipe| Box::new(pipe) as Output)
    }

    fn signal(&mut self, number: i32) -> io::Result<()> {
        self.process.body().signals.push(number);
        if number == KILL {
            self.process.closes();
            if let Some(exit) = self.process.body().exit.take() {
                let _ = exit.send(Exit::Signal(KILL));
            }
        }
        Ok(())
    }

    fn wait(&mut self) -> BoxFuture<'_, io::Result<Exit>> {
        Box::pin(async {
            if let Exited::Not(exited) = &mut self.exited {
                self.exited = Exited::Yes(exited.await.map_err(io::Error::other)?);
            }
            match self.exited {
                Exited::Yes(exit) => Ok(exit),
                Exited::Not(_) => unreachable!("it was waited for"),
            }
        })
    }
}

// -- other servers --------------------------------------------------------------------------------

/// A network in which the test answers every connection that the server opens.
#[derive(Clone, Default)]
struct FakeNetwork(Arc<PendingConnections>);

/// The connections that the server has opened and the test has not accepted yet.
#[derive(Default)]
struct PendingConnections {
    waiting: Mutex<VecDeque<(Endpoint, DuplexStream)>>,
    arrived: Notify,
}

impl FakeNetwork {
    /// Accepts the next connection; returns its target and its stream.
    async fn accept(&self) -> (Endpoint, DuplexStream) {
        loop {
            if let Some(accept) = self.0.waiting.lock().unwrap().pop_front() {
                return accept;
            }
            self.0.arrived.notified().await;
        }
    }
}

impl Connect for FakeNetwork {
    fn connect<'a>(&'a self, to: &'a Endpoint) -> BoxFuture<'a, io::Result<Stream>> {
        Box::pin(async {
            if to.host() == Some("nobody") {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let (near, far) = duplex(PIPE);
            self.0.waiting.lock().unwrap().push_back((to.clone(), far));
            self.0.arrived.notify_one();
            Ok(Stream::new(near, ConnId(1000)))
        })
    }
}

impl Network for FakeNetwork {
    fn listen<'a>(&'a self, _: &'a Endpoint) -> BoxFuture<'a, io::Result<Listener>> {
        Box::pin(async { Err(io::ErrorKind::Unsupported.into()) })
    }
}

// -- the server and its clients -------------------------------------------------------------------

/// The machine of the server.
fn machine() -> Machine {
    let variables = [("HOME", "/home/u"), ("PATH", "/bin"), ("A_TOKEN", "t")];
    Machine {
        variables: variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        directory: "/srv".to_owned(),
    }
}

/// A server and its machine.
struct TestServer {
    launcher: FakeLauncher,
    network: FakeNetwork,
    files: Memory,
    resources: ServerResources,
    incoming: mpsc::UnboundedSender<Stream>,
    connections: u64,
    serving: JoinHandle<()>,
}

struct Listening(mpsc::UnboundedReceiver<Stream>);

impl Accept for Listening {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Stream>> {
        Box::pin(async {
            match self.0.recv().await {
                Some(stream) => Ok(stream),
                None => std::future::pending().await,
            }
        })
    }

    fn endpoint(&self) -> Endpoint {
        Endpoint::tcp("server", 80)
    }
}

impl TestServer {
    fn with(limits: ServerLimits) -> Self {
        let launcher = FakeLauncher::default();
        let network = FakeNetwork::default();
        let files = Memory::default();
        let env = Env {
            files: Arc::new(files.clone()),
            launch: Arc::new(launcher.clone()),
            net: Arc::new(network.clone()),
            machine: Arc::new(machine()),
            ..Env::real()
        };
        let server = Server::new(&env, limits);
        let resources = server.resources();
        let (incoming, accepted) = mpsc::unbounded_channel();
        let serving = tokio::spawn(server.serve(Box::new(Listening(accepted)) as Listener));
        Self { launcher, network, files, resources, incoming, connections: 0, serving }
    }

    fn new() -> Self {
        Self::with(ServerLimits::default())
    }

    /// Opens a connection without any handshake.
    fn open_connection(&mut self) -> Stream {
        self.open_connection_from(1)
    }

    /// Opens a connection from the host `10.0.0.n`, without any handshake.
    fn open_connection_from(&mut self, host: u8) -> Stream {
        self.connections += 1;
        let (near, far) = duplex(64 * 1024);
        let far = Stream::new(far, ConnId(self.connections)).opened_by([10, 0, 0, host].into());
        self.incoming.send(far).unwrap();
        Stream::new(near, ConnId(self.connections))
    }

    /// Opens a connection with a WebSocket handshake.
    async fn peer(&mut self) -> Peer {
        self.peer_from(1).await
    }

    /// Opens a connection from the host `10.0.0.n`, with a WebSocket handshake.
    async fn peer_from(&mut self, host: u8) -> Peer {
        let stream = self.open_connection_from(host);
        let link = Link::connect(stream, "server", WireLimits::default()).await.unwrap();
        Peer { link, asked: 0, answers: BTreeMap::new(), reported: VecDeque::new() }
    }

    /// Connects a client with a new session.
    async fn client(&mut self) -> (Peer, String) {
        let mut peer = self.peer().await;
        let session = peer.call("initialize", json!({"clientName": "test"})).await.unwrap();
        peer.complete_handshake().await;
        (peer, session["sessionId"].as_str().unwrap().to_owned())
    }

    /// Tries to resume a session.
    async fn resume(&mut self, session: &str) -> Result<Peer, i64> {
        let mut peer = self.peer().await;
        peer.call("initialize", json!({"clientName": "test", "resumeSessionId": session}))
            .await
            .map_err(|(code, _)| code)?;
        peer.complete_handshake().await;
        Ok(peer)
    }
}

/// A client that the test scripts.
struct Peer {
    link: Link,
    asked: i64,
    answers: BTreeMap<RequestId, Result<Value, (i64, String)>>,
    reported: VecDeque<(String, Value)>,
}

impl Peer {
    fn request(&mut self, method: &str, params: Value) -> i64 {
        self.asked += 1;
        self.link.send(&Message::request(self.asked, method, &params));
        self.asked
    }

    fn emit(&mut self, method: &str, params: Value) {
        self.link.send(&Message::notification(method, &params));
    }

    /// Completes the handshake, and waits until the server has handled it.
    async fn complete_handshake(&mut self) {
        self.emit("initialized", json!({}));
        self.wait_until_handled().await;
    }

    /// Waits until the server has handled everything that was sent.
    async fn wait_until_handled(&mut self) {
        self.call("process/terminate", json!({"processId": "nobody"})).await.unwrap();
    }

    /// Receives one message; returns `false` when the connection has ended.
    async fn receive(&mut self) -> bool {
        let frame = loop {
            match self.link.next().await {
                Ok(LinkEvent::Frame(frame)) => break frame,
                Ok(LinkEvent::Room | LinkEvent::Reached(_)) => {}
                Err(_) => return false,
            }
        };
        let value = |raw: &serde_json::value::RawValue| serde_json::from_str(raw.get()).unwrap();
        match Message::parse(&frame).unwrap() {
            Message::Response { id, result } => drop(self.answers.insert(id, Ok(value(&result)))),
            Message::Error { id, error } => {
                drop(self.answers.insert(id, Err((error.code, error.message))))
            }
            Message::Notification { method, params } => {
                self.reported.push_back((method, value(&params.unwrap())))
            }
            Message::Request { .. } => panic!("a server asks for nothing"),
        }
        true
    }

    async fn answer(&mut self, id: i64) -> Result<Value, (i64, String)> {
        loop {
            if let Some(answer) = self.answers.remove(&RequestId::Number(id)) {
                return answer;
            }
            assert!(self.receive().await, "the connection is over");
        }
    }

    async fn call(&mut self, method: &str, params: Value) -> Result<Value, (i64, String)> {
        let id = self.request(method, params);
        self.answer(id).await
    }

    /// Returns the next notification.
    async fn event(&mut self) -> (String, Value) {
        while self.reported.is_empty() {
            assert!(self.receive().await, "the connection is over");
        }
        self.reported.pop_front().unwrap()
    }

    /// Renders the next notification as `output p1:3 text`.
    async fn line(&mut self) -> String {
        let (method, sent) = self.event().await;
        let name = method.strip_prefix("process/").unwrap();
        let rest = match name {
            "output" => text(&sent["chunk"]),
            "exited" => sent["exitCode"].to_string(),
            _ => String::new(),
        };
        format!("{name} {}:{} {rest}", sent["processId"].as_str().unwrap(), sent["seq"])
            .trim_end()
            .to_owned()
    }

    /// Whether the server closes the connection before it sends another message.
    async fn is_closed(&mut self) -> bool {
        !self.receive().await
    }

    async fn start(&mut self, process: &str, program: &str) {
        self.call("process/start", start(process, program)).await.unwrap();
    }

    async fn read(&mut self, process: &str) -> Value {
        self.call("process/read", json!({"processId": process})).await.unwrap()
    }
}

fn start(process: &str, program: &str) -> Value {
    json!({"processId": process, "argv": [program], "cwd": "/", "pipeStdin": true})
}

fn write(process: &str, id: &str, text: &str) -> Value {
    let chunk = crate::wire::Base64(text.to_owned().into());
    json!({"processId": process, "chunk": chunk, "writeId": id})
}

/// Decodes a base64 string.
fn text(chunk: &Value) -> String {
    let bytes: crate::wire::Base64 = serde_json::from_value(chunk.clone()).unwrap();
    String::from_utf8(bytes.0.to_vec()).unwrap()
}

/// Returns all output in the answer of a read.
fn printed(read: &Value) -> String {
    read["chunks"].as_array().unwrap().iter().map(|chunk| text(&chunk["chunk"])).collect()
}
