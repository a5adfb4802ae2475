//! Tests of the whole client against a server that the test scripts, over in-memory connections, on
//! paused time.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::{SinkExt, StreamExt};
use reknit_seams::net::{BoxFuture, ConnId, Connect, Listener, Network, Stream};
use serde_json::{Value, json};
use tokio::io::duplex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message as Frame;

use super::*;
use crate::wire::Base64;
use crate::wire::process::{OutputStream, Signal};

// -- the network and the server -------------------------------------------------------------------

/// A network in which the test plays the server.
#[derive(Clone)]
struct Memory(Arc<Inner>);

struct Inner {
    accepted: mpsc::UnboundedSender<Stream>,
    refuses: AtomicBool,
    attempts: AtomicUsize,
}

impl Connect for Memory {
    fn connect<'a>(&'a self, _: &'a Endpoint) -> BoxFuture<'a, io::Result<Stream>> {
        Box::pin(async {
            let id = ConnId(self.0.attempts.fetch_add(1, Ordering::Relaxed) as u64 + 1);
            if self.0.refuses.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let (near, far) = duplex(64 * 1024);
            self.0
                .accepted
                .send(Stream::new(far, id))
                .map_err(|_| io::ErrorKind::ConnectionRefused)?;
            Ok(Stream::new(near, id))
        })
    }
}

impl Network for Memory {
    fn listen<'a>(&'a self, _: &'a Endpoint) -> BoxFuture<'a, io::Result<Listener>> {
        Box::pin(async { Err(io::ErrorKind::Unsupported.into()) })
    }
}

/// A client and its network.
struct ClientTest {
    client: Arc<Client>,
    net: Memory,
    accepted: Mutex<mpsc::UnboundedReceiver<Stream>>,
}

impl ClientTest {
    fn with(limits: ClientLimits) -> Self {
        let (sender, accepted) = mpsc::unbounded_channel();
        let net = Memory(Arc::new(Inner {
            accepted: sender,
            refuses: AtomicBool::new(false),
            attempts: AtomicUsize::new(0),
        }));
        let env = Env { net: Arc::new(net.clone()), ..Env::real() };
        let client = Arc::new(Client::start(&env, Endpoint::tcp("server", 80), limits));
        Self { client, net, accepted: Mutex::new(accepted) }
    }

    /// Creates a connected client.
    async fn connected() -> (Self, Peer) {
        let mut test = Self::with(ClientLimits::default());
        let mut peer = test.accept().await;
        peer.complete_handshake().await;
        (test, peer)
    }

    /// Accepts the next connection as a WebSocket.
    async fn accept(&mut self) -> Peer {
        let stream = self.accepted.get_mut().unwrap().recv().await.unwrap();
        Peer { socket: tokio_tungstenite::accept_async(stream).await.unwrap() }
    }

    /// Accepts the next connection and answers its handshake, which must resume the session.
    async fn resumed(&mut self) -> Peer {
        let mut peer = self.accept().await;
        assert_eq!(peer.complete_handshake().await["resumeSessionId"], "s");
        peer
    }

    fn refuse(&self, refuses: bool) {
        self.net.0.refuses.store(refuses, Ordering::Relaxed);
    }

    fn attempts(&self) -> usize {
        self.net.0.attempts.load(Ordering::Relaxed)
    }

    /// Runs an action of the user in the background.
    fn user<T: Send + 'static>(&self, what: impl AsyncFnOnceSend<T>) -> JoinHandle<T> {
        tokio::spawn(what.with(self.client.clone()))
    }

    /// Starts a process, as the user and as the server.
    async fn launch(&self, peer: &mut Peer, id: &str) -> Process {
        let starting = self.user(launch(id));
        let (request, _) = peer.expect_request("process/start").await;
        peer.reply(request, json!({ "processId": id })).await;
        starting.await.unwrap().unwrap()
    }
}

/// An action of a user on a client.
trait AsyncFnOnceSend<T> {
    fn with(self, client: Arc<Client>) -> BoxFuture<'static, T>;
}

impl<T, F: Future<Output = T> + Send + 'static, G: FnOnce(Arc<Client>) -> F> AsyncFnOnceSend<T>
    for G
{
    fn with(self, client: Arc<Client>) -> BoxFuture<'static, T> {
        Box::pin(self(client))
    }
}

fn spec(id: &str) -> StartParams {
    StartParams {
        process_id: id.into(),
        argv: vec!["sh".into()],
        cwd: crate::wire::Directory::root(),
        ..StartParams::default()
    }
}

fn launch(id: &str) -> impl AsyncFnOnceSend<Result<Process, Failure>> + use<> {
    let spec = spec(id);
    async move |client: Arc<Client>| client.launch(spec).await
}

/// The server's end of a connection. Dropping it closes the connection.
struct Peer {
    socket: WebSocketStream<Stream>,
}

impl Peer {
    /// Returns the next message, or `None` when the client has closed the connection.
    async fn receive(&mut self) -> Option<Value> {
        loop {
            match self.socket.next().await?.ok()? {
                Frame::Text(text) => return Some(serde_json::from_str(&text).unwrap()),
                Frame::Close(_) => return None,
                _ => {}
            }
        }
    }

    async fn send_text(&mut self, text: impl Into<String>) {
        self.socket.send(Frame::text(text.into())).await.unwrap();
    }

    async fn emit(&mut self, message: Value) {
        self.send_text(message.to_string()).await;
    }

    async fn expect_request(&mut self, method: &str) -> (Value, Value) {
        let mut message = self.receive().await.expect("the client is there");
        assert_eq!(message["method"], method, "{message}");
        (message["id"].take(), message["params"].take())
    }

    async fn reply(&mut self, id: Value, result: Value) {
        self.emit(json!({ "id": id, "result": result })).await;
    }

    /// Answers the handshake; returns the client's parameters.
    async fn complete_handshake(&mut self) -> Value {
        let (id, params) = self.expect_request("initialize").await;
        self.reply(id, json!({ "sessionId": "s" })).await;
        self.expect_request("initialized").await;
        params
    }

    async fn output(&mut self, id: &str, seq: u64, text: &'static str) {
        let chunk = Base64(text.into());
        let params = json!({ "processId": id, "seq": seq, "stream": "stdout", "chunk": chunk });
        self.emit(json!({ "method": "process/output", "params": params })).await;
    }

    async fn ends(&mut self, id: &str, seq: u64) {
        let params = json!({ "processId": id, "seq": seq, "exitCode": 7 });
        self.emit(json!({ "method": "process/exited", "params": params })).await;
        self.emit(
            json!({ "method": "process/closed", "params": { "processId": id, "seq": seq + 1 } }),
        )
        .await;
    }

    /// Answers the catch-up read of a process whose last event has the number `last`. The client
    /// missed none of its events.
    async fn catch_up(&mut self, last: u64) {
        let (id, params) = self.expect_request("process/read").await;
        assert_eq!(params["afterSeq"], last);
        self.reply(
            id,
            json!({ "chunks": [], "nextSeq": last + 1, "exited": false, "closed": false }),
        )
        .await;
    }

    /// Sends nothing more, and keeps the connection open.
    fn falls_silent(self) -> JoinHandle<()> {
        tokio::spawn(async move {
            sleep(secs(3600)).await;
            drop(self);
        })
    }
}

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Renders all events of a subscription in short form, up to its end.
async fn render(mut events: Events) -> String {
    let mut parts = Vec::new();
    while let Some(event) = events.next().await {
        parts.push(match event {
            Event::Output { seq, stream: OutputStream::Stdout, bytes, .. } => {
                format!("{seq}={}", String::from_utf8_lossy(&bytes))
            }
            Event::Output { seq, stream, .. } => format!("{seq} on {}", stream.name()),
            Event::Exited { seq, code, .. } => format!("{seq}=exit({code})"),
            Event::Closed { seq, .. } => format!("{seq}=closed"),
            Event::Failed(failure) => format!("failed: {failure}"),
        });
    }
    parts.join(" ")
}

async fn until(client: &Client, state: State) {
    client.watch_state().wait_for(|is| *is == state).await.unwrap();
}

// -- the tests ------------------------------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn a_process_starts_reports_events_and_closes() {
    let (test, mut peer) = ClientTest::connected().await;
    let process = test.launch(&mut peer, "p1").await;
    let mut wake = process.wake();
    peer.output("p1", 1, "hello").await;
    wake.changed().await.unwrap();
    assert_eq!((*wake.borrow(), process.id()), (1, "p1"));
    peer.ends("p1", 2).await;
    assert_eq!(render(process.events()).await, "1=hello 2=exit(7) 3=closed");
    assert_eq!(
        render(process.events()).await,
        "1=hello 2=exit(7) 3=closed",
        "and again, as often as one likes"
    );
    assert_eq!(test.client.state(), State::Connected);
}

#[tokio::test(start_paused = true)]
async fn handles_and_subscriptions_stay_valid_over_a_cut_and_calls_wait() {
    let (mut test, mut peer) = ClientTest::connected().await;
    let process = test.launch(&mut peer, "p1").await;
    let hearing = tokio::spawn(render(process.events()));
    peer.output("p1", 1, "a").await;
    sleep(secs(2)).await;
    drop(peer);
    until(&test.client, State::Recovering).await;
    let signal = test.user(async move |_| process.signal(Signal::Interrupt).await);
    let mut peer = test.resumed().await;
    let (id, params) = peer.expect_request("process/read").await;
    assert_eq!(params, json!({ "processId": "p1", "afterSeq": 1 }));
    assert_eq!(test.client.state(), State::Recovering, "not before it has caught up");
    let missed = json!([{ "seq": 2, "stream": "stdout", "chunk": Base64("b".into()) }]);
    peer.reply(id, json!({ "chunks": missed, "nextSeq": 3, "exited": false, "closed": false }))
        .await;
    let (id, params) = peer.expect_request("process/signal").await;
    assert_eq!(params, json!({ "processId": "p1", "signal": "interrupt" }));
    peer.reply(id, json!({})).await;
    assert_eq!(signal.await.unwrap(), Ok(()));
    peer.ends("p1", 3).await;
    assert_eq!(hearing.await.unwrap(), "1=a 2=b 3=exit(7) 4=closed");
}

/// The queue of a connection holds 128 messages. A client that read it only after the handshake
/// would never see the answer.
#[tokio::test(start_paused = true)]
async fn a_busy_process_does_not_hold_up_the_handshake() {
    let (mut test, mut peer) = ClientTest::connected().await;
    let process = test.launch(&mut peer, "p1").await;
    sleep(secs(2)).await;
    drop(peer);
    let mut peer = test.accept().await;
    let (id, _) = peer.expect_request("initialize").await;
    for seq in 1..=1000 {
        peer.output("p1", seq, "x").await;
    }
    peer.reply(id, json!({ "sessionId": "s" })).await;
    peer.expect_request("initialized").await;
    let (id, params) = peer.expect_request("process/read").await;
    let chunk = |seq: u64| json!({ "seq": seq, "stream": "stdout", "chunk": Base64("x".into()) });
    let first = params["afterSeq"].as_u64().unwrap() + 1;
    let chunks: Vec<Value> = (first..=1000).map(chunk).collect();
    peer.reply(id, json!({ "chunks": chunks, "nextSeq": 1001, "exited": false, "closed": false }))
        .await;
    until(&test.client, State::Connected).await;
    assert_eq!(*process.wake().borrow(), 1000);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_falls_silent_is_noticed_after_16_s_and_given_up_45_s_later() {
    let (test, mut peer) = ClientTest::connected().await;
    let process = test.launch(&mut peer, "p1").await;
    sleep(secs(2)).await;
    test.refuse(true);
    let silent = Instant::now();
    peer.output("p1", 1, "last words").await;
    let waiting = tokio::spawn({
        let process = process.clone();
        async move { process.read(0, None, secs(300)).await }
    });
    let _peer = peer.falls_silent();
    until(&test.client, State::Recovering).await;
    assert_eq!(silent.elapsed(), secs(16));
    until(&test.client, State::Failed).await;
    assert_eq!(silent.elapsed(), secs(16 + 45));
    assert_eq!(waiting.await.unwrap(), Err(Failure::RecoveryDeadline));
    assert_eq!(
        process.write("late").await,
        Err(Failure::RecoveryDeadline),
        "and for the same reason ever after"
    );
    assert_eq!(
        render(process.events()).await,
        "1=last words failed: no connection within the recovery deadline"
    );
    assert!(test.attempts() < 100, "attempts back off: {}", test.attempts());
    drop(test);
    assert_eq!(
        process.terminate().await,
        Err(Failure::RecoveryDeadline),
        "also when the client is gone"
    );
}

#[tokio::test(start_paused = true)]
async fn an_invalid_message_ends_the_connection_and_the_client_recovers() {
    let (mut test, mut peer) = ClientTest::connected().await;
    for rubbish in
        ["{", "[]", r#"{"id":1}"#, r#"{"method":"process/closed","params":{"processId":"p1"}}"#]
    {
        sleep(secs(2)).await;
        peer.send_text(rubbish).await;
        assert_eq!(peer.receive().await, None, "{rubbish}");
        peer = test.resumed().await;
        until(&test.client, State::Connected).await;
    }
}

#[tokio::test(start_paused = true)]
async fn writes_are_resent_under_the_same_id_only_if_the_limits_allow_it() {
    for retry_writes in [false, true] {
        let mut test = ClientTest::with(ClientLimits { retry_writes, ..ClientLimits::default() });
        let mut peer = test.accept().await;
        peer.complete_handshake().await;
        let process = test.launch(&mut peer, "p1").await;
        sleep(secs(2)).await;
        let write = tokio::spawn({
            let process = process.clone();
            async move { process.write("input").await }
        });
        let (_, lost) = peer.expect_request("process/write").await;
        drop(peer);
        let mut peer = test.resumed().await;
        peer.catch_up(0).await;
        if !retry_writes {
            assert_eq!(write.await.unwrap(), Err(Failure::ConnectionLost));
            continue;
        }
        let (id, again) = peer.expect_request("process/write").await;
        assert_eq!(again, lost);
        peer.reply(id, json!({ "status": "accepted" })).await;
        assert_eq!(write.await.unwrap(), Ok(()));
        let next = tokio::spawn(async move { process.write("more").await });
        let (id, next_params) = peer.expect_request("process/write").await;
        assert_ne!(next_params["writeId"], lost["writeId"]);
        peer.reply(id, json!({ "status": "stdinClosed" })).await;
        let refused = Failure::NotWritten(crate::wire::process::WriteStatus::StdinClosed);
        assert_eq!(next.await.unwrap(), Err(refused));
    }
}

#[tokio::test(start_paused = true)]
async fn two_clients_never_use_the_same_ids_for_writes() {
    let ids = async || {
        let (test, mut peer) = ClientTest::connected().await;
        let process = test.launch(&mut peer, "p1").await;
        let _write = tokio::spawn(async move { process.write("input").await });
        peer.expect_request("process/write").await.1["writeId"].take()
    };
    assert_ne!(ids().await, ids().await);
}

#[tokio::test(start_paused = true)]
async fn a_start_whose_caller_was_dropped_is_terminated() {
    let (test, mut peer) = ClientTest::connected().await;
    let starting = test.user(launch("p1"));
    let (id, _) = peer.expect_request("process/start").await;
    starting.abort();
    assert!(starting.await.is_err());
    peer.reply(id, json!({ "processId": "p1" })).await;
    let (id, params) = peer.expect_request("process/terminate").await;
    assert_eq!(params, json!({ "processId": "p1" }));
    peer.reply(id, json!({ "running": true })).await;
    test.launch(&mut peer, "p1").await;
}

#[tokio::test(start_paused = true)]
async fn a_process_is_followed_while_it_has_a_handle_or_subscriber() {
    let (test, mut peer) = ClientTest::connected().await;
    let process = test.launch(&mut peer, "p1").await;
    let events = process.events();
    drop(process);
    peer.output("p1", 1, "a").await;
    sleep(secs(1)).await;
    assert_eq!(test.client.resources().processes, 1);
    drop(events);
    sleep(secs(1)).await;
    assert_eq!(test.client.resources(), ClientResources::default());
}

#[tokio::test(start_paused = true)]
async fn closing_a_client_fails_all_pending_and_later_calls_as_closed() {
    let (test, mut peer) = ClientTest::connected().await;
    let process = test.launch(&mut peer, "p1").await;
    let waiting = tokio::spawn({
        let process = process.clone();
        async move { process.read(0, None, secs(300)).await }
    });
    peer.expect_request("process/read").await;
    let closing = test.user(async |client: Arc<Client>| client.close().await);
    assert_eq!(peer.receive().await, None, "the connection is closed in order");
    closing.await.unwrap();
    assert_eq!(
        (test.client.state(), waiting.await.unwrap()),
        (State::Failed, Err(Failure::Closed))
    );
    assert_eq!(test.client.resources(), ClientResources::default(), "and holds nothing for them");
    assert_eq!(render(process.events()).await, "failed: the client is closed");
    assert_eq!(test.client.launch(spec("p2")).await.err(), Some(Failure::Closed));
    test.client.close().await;
}

#[tokio::test(start_paused = true)]
async fn dropping_a_client_fails_all_pending_calls() {
    let (test, mut peer) = ClientTest::connected().await;
    let process = test.launch(&mut peer, "p1").await;
    let hearing = tokio::spawn(render(process.events()));
    peer.output("p1", 1, "a").await;
    sleep(secs(1)).await;
    let ClientTest { client, net, .. } = test;
    drop(client);
    assert_eq!(
        timeout(secs(1), hearing).await.unwrap().unwrap(),
        "1=a failed: the client is closed"
    );
    assert_eq!(process.terminate().await, Err(Failure::Closed));
    assert_eq!(peer.receive().await, None);
    sleep(secs(60)).await;
    assert_eq!(net.0.attempts.load(Ordering::Relaxed), 1, "nobody tries to come back");
}

#[tokio::test(start_paused = true)]
async fn calls_beyond_the_limit_wait_for_earlier_calls_to_end() {
    let mut test = ClientTest::with(ClientLimits { calls: 1, ..ClientLimits::default() });
    let mut peer = test.accept().await;
    peer.complete_handshake().await;
    let process = test.launch(&mut peer, "p1").await;
    let again = process.clone();
    let first = tokio::spawn(async move { process.terminate().await });
    let (id, _) = peer.expect_request("process/terminate").await;
    let second = tokio::spawn(async move { again.read(0, Some(10), secs(2)).await });
    assert!(timeout(secs(1), peer.receive()).await.is_err());
    peer.reply(id, json!({ "running": true })).await;
    assert_eq!(first.await.unwrap(), Ok(true));
    let (id, params) = peer.expect_request("process/read").await;
    assert_eq!(params, json!({ "processId": "p1", "afterSeq": 0, "maxBytes": 10, "waitMs": 2000 }));
    peer.reply(id, json!({ "chunks": "none" })).await;
    assert!(matches!(second.await.unwrap(), Err(Failure::Malformed(_))));
    assert_eq!(test.client.state(), State::Connected);
}

#[tokio::test(start_paused = true)]
async fn a_server_without_websocket_is_retried_until_the_deadline() {
    let mut test = ClientTest::with(ClientLimits::default());
    let begin = Instant::now();
    let answering = async {
        while let Some(mut stream) = test.accepted.get_mut().unwrap().recv().await {
            let answer = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";
            tokio::io::AsyncWriteExt::write_all(&mut stream, answer).await.unwrap();
        }
    };
    let client = test.client.clone();
    tokio::select! {
        () = answering => {}
        () = until(&client, State::Failed) => {}
    }
    assert_eq!(begin.elapsed(), secs(45));
    assert_eq!(client.launch(spec("p1")).await.err(), Some(Failure::RecoveryDeadline));
}
