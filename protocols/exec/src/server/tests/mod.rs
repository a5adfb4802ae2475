//! The server over connections in memory, on paused time, with processes that do what the test says.
//!
//! - here: the vocabulary. `handshake`, `processes`, `resume`, `http`: what is shown with it. `real`: without it.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use reknit_jsonrpc::{Heard, Link};
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

mod handshake;
mod http;
mod processes;
#[cfg(unix)]
mod real;
mod resume;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

// -- processes ----------------------------------------------------------------------------------------------------------

/// An operating system whose processes do what the test says. `missing` is no program; `slow` is launched when the test opens
/// the gate.
#[derive(Clone, Default)]
struct Machine {
    born: Arc<Mutex<BTreeMap<String, Vec<Arc<Actor>>>>>,
    gate: Arc<Notify>,
}

/// A process, in the hands of the test.
struct Actor {
    command: Command,
    body: Mutex<Body>,
    /// As long as somebody holds the child.
    held: Weak<()>,
}

struct Body {
    pipes: [Option<DuplexStream>; 3],
    exit: Option<oneshot::Sender<Exit>>,
    signals: Vec<i32>,
}

/// How many bytes a pipe holds.
const PIPE: usize = 1024;

impl Machine {
    /// The process that was launched last under this name.
    fn actor(&self, name: &str) -> Arc<Actor> {
        self.born.lock().unwrap()[name].last().unwrap().clone()
    }

    /// How many children are held by somebody.
    fn alive(&self) -> usize {
        let born = self.born.lock().unwrap();
        born.values().flatten().filter(|actor| actor.held.upgrade().is_some()).count()
    }
}

impl Launch for Machine {
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
            let actor = Actor {
                command: command.clone(),
                body: Mutex::new(body),
                held: Arc::downgrade(&held),
            };
            let actor = Arc::new(actor);
            self.born.lock().unwrap().entry(name).or_default().push(actor.clone());
            let pipes = [in_near, out_near, err_near].map(Some);
            Ok(Box::new(Launched { pipes, actor, exited: Exited::Not(exited), _held: held })
                as Box<dyn Child>)
        })
    }
}

impl Actor {
    fn body(&self) -> MutexGuard<'_, Body> {
        self.body.lock().unwrap()
    }

    /// Does something with one of its pipes, which nobody else uses meanwhile.
    async fn with_pipe(&self, n: usize, text: &[u8]) {
        let mut pipe = self.body().pipes[n].take().unwrap();
        pipe.write_all(text).await.unwrap();
        self.body().pipes[n] = Some(pipe);
    }

    async fn prints(&self, text: &str) {
        self.with_pipe(1, text.as_bytes()).await;
    }

    /// Prints 3 MB, as fast as somebody takes them.
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

    /// Reads so many bytes of its input.
    async fn reads(&self, count: usize) -> String {
        let mut pipe = self.body().pipes[0].take().unwrap();
        let mut bytes = vec![0; count];
        pipe.read_exact(&mut bytes).await.unwrap();
        self.body().pipes[0] = Some(pipe);
        String::from_utf8(bytes).unwrap()
    }

    /// Ends, and leaves its output to somebody whom it started.
    fn exits(&self, code: i32) {
        if let Some(exit) = self.body().exit.take() {
            let _ = exit.send(Exit::Code(code));
        }
    }

    /// Nobody holds its pipes any more.
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

/// What the launcher holds of a process.
struct Launched {
    pipes: [Option<DuplexStream>; 3],
    actor: Arc<Actor>,
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
            self.actor.command.stdio != reknit_seams::process::Stdio::Pipes { stdin: false };
        self.pipes[0].take().filter(|_| wanted).map(|pipe| Box::new(pipe) as Input)
    }

    fn stdout(&mut self) -> Option<Output> {
        self.pipes[1].take().map(|pipe| Box::new(pipe) as Output)
    }

    fn stderr(&mut self) -> Option<Output> {
        let pipes = matches!(self.actor.command.stdio, reknit_seams::process::Stdio::Pipes { .. });
        self.pipes[2].take().filter(|_| pipes).map(|pipe| Box::new(pipe) as Output)
    }

    fn signal(&mut self, number: i32) -> io::Result<()> {
        self.actor.body().signals.push(number);
        if number == KILL {
            self.actor.closes();
            if let Some(exit) = self.actor.body().exit.take() {
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

// -- other servers ------------------------------------------------------------------------------------------------------

/// A network in which the test answers every connection that the server opens.
#[derive(Clone, Default)]
struct Web(Arc<Visits>);

/// The connections that were opened and not answered yet.
#[derive(Default)]
struct Visits {
    waiting: Mutex<VecDeque<(Endpoint, DuplexStream)>>,
    came: Notify,
}

impl Web {
    /// The next connection, and where to.
    async fn visit(&self) -> (Endpoint, DuplexStream) {
        loop {
            if let Some(visit) = self.0.waiting.lock().unwrap().pop_front() {
                return visit;
            }
            self.0.came.notified().await;
        }
    }
}

impl Connect for Web {
    fn connect<'a>(&'a self, to: &'a Endpoint) -> BoxFuture<'a, io::Result<Stream>> {
        Box::pin(async {
            if to.host() == "nobody" {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let (near, far) = duplex(PIPE);
            self.0.waiting.lock().unwrap().push_back((to.clone(), far));
            self.0.came.notify_one();
            Ok(Stream::new(near, ConnId(1000)))
        })
    }
}

impl Network for Web {
    fn listen<'a>(&'a self, _: &'a Endpoint) -> BoxFuture<'a, io::Result<Listener>> {
        Box::pin(async { Err(io::ErrorKind::Unsupported.into()) })
    }
}

// -- the server and its clients -----------------------------------------------------------------------------------------

/// A server, and the machine that it runs on.
struct House {
    machine: Machine,
    web: Web,
    resources: ServerResources,
    door: mpsc::UnboundedSender<Stream>,
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

impl House {
    fn with(limits: ServerLimits) -> Self {
        let machine = Machine::default();
        let web = Web::default();
        let env =
            Env { launch: Arc::new(machine.clone()), net: Arc::new(web.clone()), ..Env::real() };
        let server = Server::new(&env, limits);
        let resources = server.resources();
        let (door, accepted) = mpsc::unbounded_channel();
        let serving = tokio::spawn(server.serve(Box::new(Listening(accepted)) as Listener));
        Self { machine, web, resources, door, connections: 0, serving }
    }

    fn new() -> Self {
        Self::with(ServerLimits::default())
    }

    /// A connection of which nothing is known yet.
    fn knock(&mut self) -> Stream {
        self.connections += 1;
        let (near, far) = duplex(64 * 1024);
        self.door.send(Stream::new(far, ConnId(self.connections))).unwrap();
        Stream::new(near, ConnId(self.connections))
    }

    /// A connection that is a WebSocket.
    async fn peer(&mut self) -> Peer {
        let link = Link::connect(self.knock(), "server", WireLimits::default()).await.unwrap();
        Peer { link, asked: 0, answers: BTreeMap::new(), reported: VecDeque::new() }
    }

    /// A client with a new session.
    async fn client(&mut self) -> (Peer, String) {
        let mut peer = self.peer().await;
        let session = peer.call("initialize", json!({"clientName": "test"})).await.unwrap();
        peer.is_ready().await;
        (peer, session["sessionId"].as_str().unwrap().to_owned())
    }

    /// Tries to go on with a session.
    async fn resume(&mut self, session: &str) -> Result<Peer, i64> {
        let mut peer = self.peer().await;
        peer.call("initialize", json!({"clientName": "test", "resumeSessionId": session}))
            .await
            .map_err(|(code, _)| code)?;
        peer.is_ready().await;
        Ok(peer)
    }
}

/// A client that says what the test says.
struct Peer {
    link: Link,
    asked: i64,
    answers: BTreeMap<RequestId, Result<Value, (i64, String)>>,
    reported: VecDeque<(String, Value)>,
}

impl Peer {
    fn ask(&mut self, method: &str, params: Value) -> i64 {
        self.asked += 1;
        self.link.send(&Message::request(self.asked, method, &params));
        self.asked
    }

    fn emit(&mut self, method: &str, params: Value) {
        self.link.send(&Message::notification(method, &params));
    }

    /// The handshake is over, and the server knows.
    async fn is_ready(&mut self) {
        self.emit("initialized", json!({}));
        self.is_heard().await;
    }

    /// The server has heard everything that was said.
    async fn is_heard(&mut self) {
        self.call("process/terminate", json!({"processId": "nobody"})).await.unwrap();
    }

    /// Hears one message; `false` when the connection is over.
    async fn hear(&mut self) -> bool {
        let frame = loop {
            match self.link.next().await {
                Ok(Heard::Frame(frame)) => break frame,
                Ok(Heard::Room) => {}
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
            assert!(self.hear().await, "the connection is over");
        }
    }

    async fn call(&mut self, method: &str, params: Value) -> Result<Value, (i64, String)> {
        let id = self.ask(method, params);
        self.answer(id).await
    }

    /// The next notification.
    async fn event(&mut self) -> (String, Value) {
        while self.reported.is_empty() {
            assert!(self.hear().await, "the connection is over");
        }
        self.reported.pop_front().unwrap()
    }

    /// The next notification, as `output p1:3 text`.
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

    /// Whether the server closes the connection before it says anything else.
    async fn is_closed(&mut self) -> bool {
        !self.hear().await
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

/// What a string in base64 says.
fn text(chunk: &Value) -> String {
    let bytes: crate::wire::Base64 = serde_json::from_value(chunk.clone()).unwrap();
    String::from_utf8(bytes.0.to_vec()).unwrap()
}

/// All that a read says was printed.
fn printed(read: &Value) -> String {
    read["chunks"].as_array().unwrap().iter().map(|chunk| text(&chunk["chunk"])).collect()
}
