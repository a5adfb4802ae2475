//! A client beside a scripted server: over a network in memory with paused time, and as a child.

mod broker;
mod cancel;
mod child;
mod defects;
mod fallback;

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use reknit_seams::net::memory::Memory;
use reknit_seams::net::{Listener, Network, Stream};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::time::{Instant, timeout};

use super::*;
use crate::capture::{Evidence, Failure, Interruption, Verdict};
use crate::command::TaskThread;
use crate::limits::{ConnectionLimits, TurnLimits};
use crate::wire::{Delivery, ReviewTarget};

const S: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

fn task() -> Command {
    Command::Task { thread: TaskThread::New { prompt: "go".into() }, write: true }
}

fn resumed() -> Command {
    Command::Task { thread: TaskThread::Resume { thread: "t".into(), prompt: None }, write: true }
}

fn review() -> Command {
    Command::Review { target: ReviewTarget::UncommittedChanges, delivery: Delivery::Inline }
}

fn settings() -> Settings {
    Settings { cwd: "/w".into(), model: None, effort: None, service: "tests".into() }
}

fn broker() -> Endpoint {
    Endpoint::tcp("broker", 1)
}

/// A network with a scripted server.
struct Net {
    memory: Arc<Memory>,
    listener: Listener,
}

impl Net {
    async fn new() -> Self {
        let memory = Arc::new(Memory::default());
        let listener = memory.listen(&broker()).await.unwrap();
        Self { memory, listener }
    }

    fn client(&self, route: Route) -> Client {
        self.client_with(route, ClientLimits::default())
    }

    fn client_with(&self, route: Route, limits: ClientLimits) -> Client {
        Client::new(&Env { net: self.memory.clone(), ..Env::real() }, route, limits)
    }

    /// Accepts the next connection.
    async fn peer(&mut self) -> Peer {
        let stream = timeout(600 * S, self.listener.accept()).await.expect("it connects").unwrap();
        Peer(BufReader::new(stream))
    }

    /// Accepts the next connection, and answers `initialize`.
    async fn server(&mut self) -> Peer {
        let mut peer = self.peer().await;
        peer.answer("initialize", json!({ "userAgent": "s" })).await;
        assert_eq!(peer.read().await, json!({ "method": "initialized" }));
        peer
    }
}

fn to_broker() -> Route {
    Route::Broker { endpoint: broker() }
}

/// The far end of a connection of the client.
struct Peer(BufReader<Stream>);

impl Peer {
    /// Reads a message. `Null` is the end.
    async fn read(&mut self) -> Value {
        let mut line = String::new();
        let read = timeout(600 * S, self.0.read_line(&mut line)).await.expect("a message");
        if read.unwrap_or(0) == 0 {
            return Value::Null;
        }
        serde_json::from_str(&line).unwrap()
    }

    /// Expects a request of this method, and returns its id and its parameters.
    async fn expect(&mut self, method: &str) -> (Value, Value) {
        let request = self.read().await;
        assert_eq!(request["method"], method, "{request}");
        (request["id"].clone(), request["params"].clone())
    }

    async fn answer(&mut self, method: &str, result: Value) -> Value {
        let (id, params) = self.expect(method).await;
        self.send(&[json!({ "id": id, "result": result })]).await;
        params
    }

    async fn refuse(&mut self, method: &str, code: i64) {
        let (id, _) = self.expect(method).await;
        self.send(&[json!({ "id": id, "error": { "code": code, "message": "no" } })]).await;
    }

    async fn send(&mut self, messages: &[Value]) {
        let lines: String = messages.iter().map(|message| format!("{message}\n")).collect();
        self.0.write_all(lines.as_bytes()).await.unwrap();
    }

    /// Answers the requests of a new task up to the turn.
    async fn thread(&mut self) {
        self.answer("thread/start", json!({ "thread": { "id": "t" } })).await;
        self.answer("thread/name/set", json!({})).await;
    }

    /// Answers the requests of a new task, and starts the turn.
    async fn start(&mut self) {
        self.thread().await;
        self.answer("turn/start", json!({ "turn": { "id": "u", "status": "inProgress" } })).await;
    }

    /// Expects the end of the connection.
    async fn end(&mut self) {
        assert_eq!(self.read().await, Value::Null);
    }
}

fn final_answer() -> Value {
    let item =
        json!({ "type": "agentMessage", "id": "m", "text": "the answer", "phase": "final_answer" });
    json!({
        "method": "item/completed",
        "params": { "threadId": "t", "turnId": "u", "item": item },
    })
}

fn completed(status: &str) -> Value {
    let turn = json!({ "id": "u", "status": status });
    json!({ "method": "turn/completed", "params": { "threadId": "t", "turn": turn } })
}

/// Runs a command without a wish to cancel it. Returns its result and its news.
async fn run(client: Client, command: Command) -> (Result<Report, ClientError>, Vec<News>) {
    let mut news = Vec::new();
    let result = client.run(command, settings(), pending(), |one| news.push(one)).await;
    (result, news)
}

fn fallbacks(news: &[News]) -> usize {
    news.iter().filter(|news| matches!(news, News::FellBack { .. })).count()
}
