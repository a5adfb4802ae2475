//! A broker over a network in memory, with a scripted app-server. Time is paused.

use std::time::Duration;

use reknit_jsonrpc::{LineEvent, LineLimits, Lines, Message, RequestId};
use reknit_seams::net::memory::{Fate, Memory};
use reknit_seams::net::{ConnId, Connect, Endpoint, Network, Stream};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, duplex};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::*;
use crate::limits::{BrokerLimits, ConnectionLimits};
use crate::testing::defect_on;
use crate::upstream::{Upstream, UpstreamEvent};
use crate::wire::{ClientInfo, InitializeParams, code};

const S: Duration = Duration::from_secs(1);

fn limits() -> BrokerLimits {
    let connection =
        ConnectionLimits { line_bytes: 10_000, outbox_bytes: 100_000, ..Default::default() };
    BrokerLimits { clients: 3, connection, ..BrokerLimits::default() }
}

/// The parts of a message: id, method, parameters.
type Parts = (Option<RequestId>, String, Value);

/// The app-server of a test.
struct AppServer {
    lines: Lines,
    /// The messages that arrived while it wrote.
    waiting: Vec<LineEvent>,
}

impl AppServer {
    /// Waits for the next request or notification: its id, its method, its parameters.
    async fn next(&mut self) -> Parts {
        let event = match self.waiting.pop() {
            Some(event) => Ok(event),
            None => timeout(600 * S, self.lines.next()).await.expect("the broker sends something"),
        };
        let parse = |raw: Option<Box<serde_json::value::RawValue>>| {
            raw.map_or(Value::Null, |raw| serde_json::from_str(raw.get()).unwrap())
        };
        match event {
            Ok(LineEvent::Message(Message::Request { id, method, params })) => {
                (Some(id), method, parse(params))
            }
            Ok(LineEvent::Message(Message::Notification { method, params })) => {
                (None, method, parse(params))
            }
            event => panic!("{event:?}"),
        }
    }

    /// Waits for a request for this method, and returns its id.
    async fn expect(&mut self, method: &str) -> (RequestId, Value) {
        let (id, received, params) = self.next().await;
        assert_eq!(received, method);
        (id.expect("a request"), params)
    }

    async fn answer(&mut self, method: &str, result: Value) {
        let (id, _) = self.expect(method).await;
        self.send(&[Message::response(id, &result)]);
        self.flush().await;
    }

    fn send(&mut self, messages: &[Message]) {
        for message in messages {
            self.lines.send(message);
        }
    }

    /// Writes what was sent.
    async fn flush(&mut self) {
        while let Ok(event) = timeout(Duration::from_millis(1), self.lines.next()).await {
            let Ok(event) = event else { return };
            self.waiting.insert(0, event);
        }
    }
}

/// A running broker.
struct Bench {
    net: Memory,
    app_server: AppServer,
    handle: BrokerHandle,
    broker: JoinHandle<BrokerExit>,
}

fn at() -> Endpoint {
    Endpoint::tcp("broker", 1)
}

async fn bench() -> Bench {
    let (near, far) = duplex(1 << 16);
    let upstream = Upstream::over(Stream::new(near, ConnId(0)), limits().connection);
    let line = LineLimits { line_bytes: 100_000, outbox_bytes: 1 << 24, write_deadline: 60 * S };
    let mut app_server =
        AppServer { lines: Lines::of(Stream::new(far, ConnId(0)), line), waiting: Vec::new() };
    let net = Memory::default();
    let listener = net.listen(&at()).await.unwrap();
    let client_info = ClientInfo { name: "b".into(), title: None, version: "1".into() };
    let broker = Broker::new(limits(), &InitializeParams::new(client_info));
    let handle = broker.handle();
    let broker = tokio::spawn(broker.serve(upstream, listener));
    app_server.answer("initialize", json!({ "userAgent": "codex" })).await;
    assert_eq!(app_server.next().await.1, "initialized");
    Bench { net, app_server, handle, broker }
}

impl Bench {
    async fn client(&self) -> Upstream {
        let stream = self.net.connect(&at()).await.unwrap();
        let mut client = Upstream::over(stream, ConnectionLimits::default());
        let hello = client.call("initialize", None).await.unwrap();
        assert_eq!(hello.get(), r#"{"userAgent":"codex"}"#);
        client
    }

    async fn raw(&self) -> BufReader<Stream> {
        BufReader::new(self.net.connect(&at()).await.unwrap())
    }

    /// Starts the turn `u` on the thread `t`.
    async fn start_turn(&mut self, client: &mut Upstream) {
        let answer = self.app_server.answer("turn/start", started());
        let (result, ()) =
            tokio::join!(client.call("turn/start", params(json!({ "threadId": "t" }))), answer);
        result.unwrap();
    }

    async fn exit(self) -> BrokerExit {
        timeout(600 * S, self.broker).await.expect("the broker ends").unwrap()
    }
}

fn params(value: Value) -> Option<Box<serde_json::value::RawValue>> {
    Some(serde_json::value::to_raw_value(&value).unwrap())
}

fn started() -> Value {
    json!({ "turn": { "id": "u", "items": [], "status": "inProgress" } })
}

fn item(text: &str) -> Message {
    let item = json!({ "type": "agentMessage", "id": "i", "text": text });
    Message::notification(
        "item/completed",
        &json!({ "threadId": "t", "turnId": "u", "item": item }),
    )
}

fn completed(status: &str) -> Message {
    let turn = json!({ "id": "u", "status": status });
    Message::notification("turn/completed", &json!({ "threadId": "t", "turn": turn }))
}

/// Waits for the next event of a client, and shows it in a word.
async fn next(client: &mut Upstream) -> String {
    match timeout(600 * S, client.next()).await.expect("an event comes") {
        UpstreamEvent::Notification { method, .. } => method,
        UpstreamEvent::Answered { outcome: Ok(_), .. } => "answer".into(),
        UpstreamEvent::Answered { outcome: Err(failure), .. } => format!("failed: {failure}"),
        UpstreamEvent::Ended(end) => end.to_string(),
        event => format!("{event:?}"),
    }
}

async fn read(raw: &mut BufReader<Stream>) -> Value {
    let mut line = String::new();
    raw.read_line(&mut line).await.unwrap();
    serde_json::from_str(&line).unwrap_or(Value::Null)
}

async fn admits(bench: &mut Bench, client: &mut Upstream) -> bool {
    client.request("account/read", None).unwrap();
    let id = tokio::select! {
        event = next(client) => {
            assert!(event.contains(&code::BUSY.to_string()), "{event}");
            return false;
        }
        (id, _) = bench.app_server.expect("account/read") => id,
    };
    bench.app_server.send(&[Message::response(id, &json!({}))]);
    let (event, ()) = tokio::join!(next(client), bench.app_server.flush());
    assert_eq!(event, "answer");
    true
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_comes_in_one_chunk_reaches_its_client_and_frees_the_broker() {
    let mut bench = bench().await;
    let (mut first, mut second) = (bench.client().await, bench.client().await);
    first.request("turn/start", params(json!({ "threadId": "t" }))).unwrap();
    let chunk = async {
        let (id, _) = bench.app_server.expect("turn/start").await;
        bench.app_server.send(&[
            Message::response(id, &started()),
            item("hi"),
            completed("completed"),
        ]);
        bench.app_server.flush().await;
    };
    let (answer, ()) = tokio::join!(next(&mut first), chunk);
    assert_eq!(answer, "answer");
    assert_eq!(next(&mut first).await, "item/completed");
    assert_eq!(next(&mut first).await, "turn/completed");
    assert!(admits(&mut bench, &mut second).await);
}

#[tokio::test(start_paused = true)]
async fn the_turn_of_a_client_that_disconnects_is_interrupted() {
    let mut bench = bench().await;
    let (mut first, mut second) = (bench.client().await, bench.client().await);
    bench.start_turn(&mut first).await;
    assert!(!admits(&mut bench, &mut second).await);
    drop(first);
    let (id, turn) = bench.app_server.expect("turn/interrupt").await;
    assert_eq!(turn, json!({ "threadId": "t", "turnId": "u" }));
    bench.app_server.send(&[
        Message::response(id, &json!({})),
        item("late"),
        completed("interrupted"),
    ]);
    assert!(admits(&mut bench, &mut second).await, "and no late notification precedes the answer");
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_reset_loses_its_turn() {
    let mut bench = bench().await;
    let mut client = bench.client().await;
    bench.start_turn(&mut client).await;
    bench.net.set(1, Fate::Reset);
    bench.app_server.expect("turn/interrupt").await;
}

#[tokio::test(start_paused = true)]
async fn everything_that_the_app_server_sent_is_delivered_before_its_end() {
    let mut bench = bench().await;
    let (mut first, mut second) = (bench.client().await, bench.client().await);
    bench.start_turn(&mut first).await;
    first.request("account/read", None).unwrap();
    tokio::select! {
        event = next(&mut first) => panic!("{event}"),
        _ = bench.app_server.expect("account/read") => {}
    }
    let mut messages = vec![item("hi"); 50];
    messages.push(completed("completed"));
    bench.app_server.send(&messages);
    bench.app_server.flush().await;
    let Bench { app_server, net, broker, .. } = bench;
    drop(app_server);
    for _ in 0..50 {
        assert_eq!(next(&mut first).await, "item/completed");
    }
    assert_eq!(next(&mut first).await, "turn/completed");
    let failure = next(&mut first).await;
    assert_eq!(failure, "failed: the app-server disconnected (code -32000)");
    for client in [&mut first, &mut second] {
        assert_eq!(next(client).await, "the app-server disconnected");
    }
    let exit = broker.await.unwrap();
    assert!(matches!(exit, BrokerExit::UpstreamEnded(_)), "{exit}");
    assert!(net.connect(&at()).await.is_err(), "the broker does not listen any more");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_closes_its_end_does_not_delay_the_end() {
    for crash in [false, true] {
        let bench = bench().await;
        let mut open = bench.raw().await;
        let _client = bench.client().await;
        let before = Instant::now();
        if crash {
            drop(bench.app_server);
        } else {
            bench.handle.shutdown();
        }
        let exit = timeout(600 * S, bench.broker).await.expect("the broker ends").unwrap();
        assert_eq!(exit.status(), u8::from(crash));
        assert!(before.elapsed() <= 2 * limits().linger, "{:?}", before.elapsed());
        assert_eq!(read(&mut open).await, Value::Null, "the client reads the end");
    }
    let _on = defect_on("WaitsForOpenClients");
    let bench = bench().await;
    let _open = bench.raw().await;
    let _client = bench.client().await;
    bench.handle.shutdown();
    assert!(timeout(3600 * S, bench.broker).await.is_err(), "the bug");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_delivers_the_end_of_the_turn() {
    let mut bench = bench().await;
    let (mut first, mut second) = (bench.client().await, bench.client().await);
    bench.start_turn(&mut first).await;
    let interrupt = async {
        let (id, _) = bench.app_server.expect("turn/interrupt").await;
        bench.app_server.send(&[Message::response(id, &json!({})), completed("interrupted")]);
        bench.app_server.flush().await;
    };
    let (answer, ()) = tokio::join!(second.call("broker/shutdown", None), interrupt);
    assert_eq!(answer.unwrap().get(), "{}");
    assert_eq!(next(&mut first).await, "turn/completed");
    for client in [&mut first, &mut second] {
        assert_eq!(next(client).await, "the app-server disconnected");
    }
    assert!(bench.app_server.lines.next().await.is_err(), "the input of the app-server has ended");
    assert_eq!(bench.exit().await, BrokerExit::Asked);
}

#[tokio::test(start_paused = true)]
async fn a_client_may_end_its_output_after_its_last_request() {
    let bench = bench().await;
    let mut raw = bench.raw().await;
    raw.write_all(b"{\"id\":1,\"method\":\"broker/shutdown\"}\n").await.unwrap();
    raw.shutdown().await.unwrap();
    let mut received = String::new();
    raw.read_to_string(&mut received).await.unwrap();
    assert_eq!(received, "{\"id\":1,\"result\":{}}\n");
    assert_eq!(bench.exit().await, BrokerExit::Asked);
}

#[tokio::test(start_paused = true)]
async fn bad_lines_are_refused_and_too_long_ones_end_the_connection() {
    let bench = bench().await;
    let mut raw = bench.raw().await;
    raw.write_all(b"oops\n{\"id\":1,\"method\":\"initialize\"}\n").await.unwrap();
    let refusal = read(&mut raw).await;
    assert_eq!((&refusal["id"], &refusal["error"]["code"]), (&Value::Null, &json!(-32700)));
    assert_eq!(read(&mut raw).await["result"], json!({ "userAgent": "codex" }));
    raw.write_all(&[b'x'; 20_000]).await.unwrap();
    assert_eq!(read(&mut raw).await["error"]["code"], json!(-32700));
    assert_eq!(read(&mut raw).await, Value::Null, "the connection is over");
    bench.client().await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_loses_its_connection_and_disturbs_no_other_client() {
    let mut bench = bench().await;
    let mut slow = bench.raw().await;
    slow.write_all(b"{\"id\":1,\"method\":\"turn/start\",\"params\":{\"threadId\":\"t\"}}\n")
        .await
        .unwrap();
    bench.app_server.answer("turn/start", started()).await;
    let before = Instant::now();
    let text = "x".repeat(1000);
    bench.app_server.send(&vec![item(&text); 300]);
    bench.app_server.expect("turn/interrupt").await;
    assert!(before.elapsed() < S, "the broker reads on at once");
    let mut other = bench.client().await;
    assert!(admits(&mut bench, &mut other).await);
}

#[tokio::test(start_paused = true)]
async fn more_clients_than_allowed_wait_until_one_leaves() {
    let bench = bench().await;
    let first = bench.client().await;
    let _others = (bench.client().await, bench.client().await);
    let waits = timeout(50 * S, bench.client()).await;
    assert!(waits.is_err());
    drop(first);
    timeout(60 * S, bench.client()).await.expect("there is room");
}

#[tokio::test(start_paused = true)]
async fn a_request_of_the_app_server_is_refused() {
    let mut bench = bench().await;
    let request = Message::request(9, "item/tool/call", &json!({}));
    bench.app_server.send(&[request]);
    let answer = bench.app_server.lines.next().await.unwrap();
    let LineEvent::Message(Message::Error { id, error }) = answer else { panic!("{answer:?}") };
    assert_eq!((id, error.code), (RequestId::Number(9), code::UNKNOWN_METHOD));
}

#[tokio::test(start_paused = true)]
async fn an_app_server_that_does_not_initialize_ends_the_broker() {
    let (near, _far) = duplex(1 << 16);
    let upstream = Upstream::over(Stream::new(near, ConnId(0)), limits().connection);
    let net = Memory::default();
    let listener = net.listen(&at()).await.unwrap();
    let client_info = ClientInfo { name: "b".into(), title: None, version: "1".into() };
    let broker = Broker::new(limits(), &InitializeParams::new(client_info));
    let exit = timeout(600 * S, broker.serve(upstream, listener)).await.expect("the broker ends");
    assert_eq!(exit, BrokerExit::NotInitialized("no answer in time".into()));
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_line_of_the_app_server_reaches_the_client_of_the_turn_as_one() {
    let mut bench = bench().await;
    let mut client = bench.client().await;
    bench.start_turn(&mut client).await;
    bench.app_server.lines.send_text("WARNING: oops");
    bench.app_server.send(&[completed("completed")]);
    bench.app_server.flush().await;
    let notice = client.next().await;
    assert!(matches!(notice, UpstreamEvent::Unreadable { .. }), "{notice:?}");
    assert_eq!(next(&mut client).await, "turn/completed");
}
