//! The hostile server of one client.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use arbitrary::Arbitrary;
use reknit_seams::net::Stream;
use reknit_sse::wire::{CommandStatus, Decoder, Epoch, Record, RunCommand};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::event::{Dress, ID, Line, RUN};
use crate::script::{Bytes, Name, Number, Rarely, SendOptions};
use crate::stage::{Arrivals, Memory};

/// An answer that takes the place of the correct one.
#[derive(Arbitrary, Debug)]
pub enum Answer {
    /// A refusal with a time, or without one.
    Refuses(u8, Option<Number>, Rarely<Name>),
    /// Another status.
    Status(u16),
    /// Nothing follows the cursor.
    Completes,
    /// A stream of another run.
    OtherRun(u8),
    /// A stream that does not name its run.
    NoRun,
    /// A stream that ends with its connection.
    Plain,
    /// A stream with this length.
    Length(Number),
    /// Any bytes.
    Bytes(Bytes),
}

/// Refusals: status and code.
const REFUSALS: [(u16, &str); 12] = [
    (409, "STREAM_ACTIVE"),
    (404, "COMMAND_EXPIRED"),
    (404, "COMMAND_NOT_FOUND"),
    (400, "CURSOR_FOREIGN"),
    (400, "CURSOR_FUTURE"),
    (503, "SERVICE_UNAVAILABLE"),
    (502, ""),
    (409, "STREAM_SUPERSEDED"),
    (401, "UNAUTHORIZED"),
    (500, ""),
    (409, "OPERATION_ID_IN_USE"),
    (404, ""),
];

/// A request of the client.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Whether it asks for a stream.
    pub fn is_of_follower(&self) -> bool {
        self.path == "/command" && self.method == "POST" || self.path.contains("/resume?")
    }
}

/// The requests and events that the server has received and sent.
#[derive(Default)]
pub struct Ledger {
    /// The requests for streams.
    pub asked: Vec<Request>,
    /// All events, as a correct parser reads them, each with the run that its stream names.
    pub sent: Vec<(Option<Epoch>, Record)>,
    /// Whether it has sent bytes that may be anything.
    pub unknown: bool,
    /// The statuses that it has sent, and whether each came with a time to wait.
    pub statuses: Vec<(u16, bool)>,
}

/// The server.
pub struct Host {
    net: Memory,
    arrivals: Arrivals,
    ledger: Arc<Mutex<Ledger>>,
    /// The open connections, the newest first.
    connections: Vec<Connection>,
}

/// One connection.
struct Connection {
    writer: WriteHalf<Stream>,
    requests: mpsc::UnboundedReceiver<Request>,
    request: Option<Request>,
    answered: Option<Body>,
    run: Option<Epoch>,
    decoder: Decoder,
    next: u64,
    id: String,
    _reader: JoinSet<()>,
}

/// How a body is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Body {
    Chunked,
    Bare,
}

/// How long a server waits for the client to connect, and for its request.
const COMING: Duration = Duration::from_secs(2);

/// The largest event that a correct parser reads.
const LARGEST: usize = 1 << 20;

impl Host {
    pub fn new(net: Memory, ledger: Arc<Mutex<Ledger>>) -> Self {
        let arrivals = net.arrivals();
        Self { net, arrivals, ledger, connections: Vec::new() }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().expect("the client is right")
    }

    /// Returns the n-th connection with its request, if there is one soon.
    async fn connection(&mut self, n: &Rarely<u8>) -> Option<&mut Connection> {
        self.connections.retain(|connection| !connection.requests.is_closed());
        while let Ok((_, stream)) = self.arrivals.try_recv() {
            self.connections.insert(0, Connection::new(stream, self.ledger.clone()));
        }
        if self.connections.is_empty() {
            let (_, stream) = timeout(COMING, self.arrivals.recv()).await.ok()??;
            self.connections.push(Connection::new(stream, self.ledger.clone()));
        }
        let at = usize::from(n.0.unwrap_or(0)) % self.connections.len();
        let connection = &mut self.connections[at];
        connection.has_request().await.then_some(connection)
    }

    /// Answers a request; without an answer, correctly.
    pub async fn answer(&mut self, n: &Rarely<u8>, answer: Option<&Answer>) {
        let ledger = self.ledger.clone();
        if let Some(connection) = self.connection(n).await
            && connection.answered.is_none()
        {
            connection.answer(answer, &ledger).await;
        }
    }

    /// Sends an event, on a connection with an answer.
    pub async fn send(&mut self, n: &Rarely<u8>, line: &Line, dress: Dress, manner: &SendOptions) {
        self.answer(n, None).await;
        let ledger = self.ledger.clone();
        if let Some(connection) = self.connection(n).await {
            let (bytes, next) = line.encode(connection.next, &connection.id, dress, manner);
            connection.next = next.max(1);
            for (bytes, pause) in manner.pieces(bytes) {
                connection.write(&bytes, &ledger).await;
                sleep(pause).await;
            }
        }
    }

    /// Sends bytes without an end. Returns how many the client took.
    pub async fn flood(&mut self, n: &Rarely<u8>, count: usize) -> usize {
        self.answer(n, None).await;
        let Some(connection) = self.connection(n).await else { return 0 };
        let mut taken = 0;
        let head: &[u8] =
            if connection.answered == Some(Body::Chunked) { b"ffffff\r\n" } else { b"" };
        let zs = [b'z'; 1024];
        for bytes in std::iter::once(head).chain(std::iter::repeat_n(&zs[..], count / zs.len())) {
            let written = connection.writer.write_all(bytes);
            match timeout(Duration::from_secs(1), written).await {
                Ok(Ok(())) => taken += bytes.len(),
                _ => break,
            }
        }
        // The last chunk has not ended.
        connection.answered = Some(Body::Bare);
        taken
    }

    /// Ends a connection; `cleanly`: it ends the body before.
    pub async fn end(&mut self, n: &Rarely<u8>, cleanly: bool) {
        if let Some(connection) = self.connection(n).await {
            if cleanly && connection.answered == Some(Body::Chunked) {
                connection.raw(b"0\r\n\r\n").await;
            }
            let at = usize::from(n.0.unwrap_or(0)) % self.connections.len();
            self.connections.remove(at);
        }
    }

    /// Sets whether new connections are refused.
    pub fn refuse(&mut self, refuses: bool) {
        self.net.refuse(refuses);
    }

    /// Ends all connections.
    pub fn drop_all(&mut self) {
        self.connections.clear();
        while self.arrivals.try_recv().is_ok() {}
    }

    /// Serves new connections: each gets this answer, or none, and is closed, or not. Does not return.
    pub async fn go_on(&mut self, answers: bool, closes: bool) {
        let ledger = self.ledger.clone();
        while let Some((_, stream)) = self.arrivals.recv().await {
            let mut connection = Connection::new(stream, self.ledger.clone());
            if connection.has_request().await && answers {
                connection.answer(None, &ledger).await;
            }
            if !closes {
                self.connections.push(connection);
            }
        }
    }

    /// Returns the statuses that it has sent, or `None` if they are not known.
    pub fn statuses(&self) -> Option<Vec<(u16, bool)>> {
        let ledger = self.ledger();
        (!ledger.unknown).then(|| ledger.statuses.clone())
    }
}

impl Connection {
    fn new(stream: Stream, ledger: Arc<Mutex<Ledger>>) -> Self {
        let (reader, writer) = split(stream);
        let (sender, requests) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        tasks.spawn(listen(reader, sender, ledger));
        let decoder = Decoder::new(LARGEST);
        let (request, answered, id) = (None, None, ID.to_owned());
        Self {
            writer,
            requests,
            request,
            answered,
            run: None,
            decoder,
            next: 1,
            id,
            _reader: tasks,
        }
    }

    async fn has_request(&mut self) -> bool {
        if self.request.is_none() {
            self.request = timeout(COMING, self.requests.recv()).await.ok().flatten();
            if let Some(request) = &self.request {
                let after =
                    request.path.rsplit(['=', '-']).next().and_then(|after| after.parse().ok());
                self.next = after.unwrap_or(0_u64).saturating_add(1);
                let started = RunCommand::from_json(&request.body).ok();
                self.id = started.and_then(|command| command.operation_id).unwrap_or(ID.to_owned());
            }
        }
        self.request.is_some()
    }

    async fn answer(&mut self, answer: Option<&Answer>, ledger: &Mutex<Ledger>) {
        let Some(request) = &self.request else { return };
        let is_stream = request.is_of_follower();
        let path = request.path.clone();
        let ok = |more: &str, body: &str| {
            let length = body.len();
            format!("HTTP/1.1 200 OK\r\n{more}content-length: {length}\r\n\r\n{body}")
        };
        let stream = |more: &str| {
            format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{more}\r\n")
        };
        let chunked = |epoch: u64| {
            stream(&format!("transfer-encoding: chunked\r\nx-reknit-epoch: {epoch:016x}\r\n"))
        };
        let mut has_time = false;
        let (text, body, status) = match answer {
            None if is_stream => {
                self.run = Some(RUN);
                (chunked(RUN.0), Body::Chunked, 200)
            }
            None if path.starts_with("/command/status") => {
                let status = CommandStatus::running(ID, String::new(), 0, 0);
                (ok("", &json!(status).to_string()), Body::Bare, 200)
            }
            None => (ok("execd-commands-tail-cursor: 3\r\n", "one\n"), Body::Bare, 200),
            Some(Answer::Refuses(n, retry, message)) => {
                let (status, code) = REFUSALS[usize::from(*n) % REFUSALS.len()];
                let message = message.0.as_ref().map(Name::text);
                let retry = retry.map(Number::value);
                has_time = retry.is_some();
                let body = json!({"code": code, "message": message.unwrap_or_default(), "retry_after_ms": retry});
                let text = ok("", &body.to_string()).replace("200 OK", &format!("{status} No"));
                (text, Body::Bare, status)
            }
            Some(Answer::Status(status)) => {
                let status = 100 + status % 500;
                (ok("", "{}").replace("200 OK", &format!("{status} Odd")), Body::Bare, status)
            }
            Some(Answer::Completes) => ("HTTP/1.1 204 None\r\n\r\n".to_owned(), Body::Bare, 204),
            Some(Answer::OtherRun(run)) => {
                self.run = Some(Epoch((*run).into()));
                (chunked((*run).into()), Body::Chunked, 200)
            }
            Some(Answer::NoRun) => (stream("transfer-encoding: chunked\r\n"), Body::Chunked, 200),
            Some(Answer::Plain) => (stream(""), Body::Bare, 200),
            Some(Answer::Length(length)) => {
                (stream(&format!("content-length: {}\r\n", length.value())), Body::Bare, 200)
            }
            Some(Answer::Bytes(bytes)) => {
                ledger.lock().expect("the client is right").unknown = true;
                self.raw(&bytes.bytes()).await;
                self.answered = Some(Body::Bare);
                return;
            }
        };
        ledger.lock().expect("the client is right").statuses.push((status, has_time));
        self.answered = Some(body);
        self.raw(text.as_bytes()).await;
    }

    /// Writes a part of the body.
    async fn write(&mut self, bytes: &[u8], ledger: &Mutex<Ledger>) {
        let readable = self.decoder.feed(bytes);
        let sent =
            std::iter::from_fn(|| self.decoder.next()).map(|decoded| (self.run, decoded.record));
        ledger.lock().expect("the client is right").sent.extend(sent);
        if readable.is_err() {
            self.decoder = Decoder::new(LARGEST);
        }
        if self.answered == Some(Body::Chunked) {
            if !bytes.is_empty() {
                let size = format!("{:x}\r\n", bytes.len());
                self.raw(&[size.as_bytes(), bytes, b"\r\n"].concat()).await;
            }
        } else {
            self.raw(bytes).await;
        }
    }

    /// Writes as much as the client accepts within a short time.
    async fn raw(&mut self, bytes: &[u8]) {
        let _ = timeout(Duration::from_secs(1), self.writer.write_all(bytes)).await;
    }
}

/// Reads one request, and then waits for the end of the connection.
async fn listen(
    mut stream: ReadHalf<Stream>,
    requests: mpsc::UnboundedSender<Request>,
    ledger: Arc<Mutex<Ledger>>,
) {
    let (mut inbox, mut bytes) = (Vec::new(), [0; 4096]);
    let mut is_read = false;
    while let Ok(count @ 1..) = stream.read(&mut bytes).await {
        inbox.extend_from_slice(&bytes[..count]);
        if !is_read && let Some(request) = parse(&inbox) {
            is_read = true;
            if request.is_of_follower() {
                ledger.lock().expect("the client is right").asked.push(request.clone());
            }
            // The connection may have been dropped.
            let _ = requests.send(request);
        }
    }
}

/// Parses a request, once it is complete. The client is trusted to write HTTP.
fn parse(bytes: &[u8]) -> Option<Request> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).expect("the client sends text");
    let mut lines = head.split("\r\n");
    let mut first = lines.next().unwrap_or_default().split(' ');
    let (method, path) = (first.next().expect("a method"), first.next().expect("a path"));
    let headers: Vec<(String, String)> = lines
        .map(|line| line.split_once(": ").expect("a header has a value"))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let body = bytes[end + 4..].to_vec();
    let mut request = Request { method: method.into(), path: path.into(), headers, body };
    let length = request.header("content-length").map_or(0, |text| text.parse().expect("a length"));
    if request.body.len() < length {
        return None;
    }
    request.body.truncate(length);
    Some(request)
}
