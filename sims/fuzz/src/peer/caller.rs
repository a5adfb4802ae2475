//! One connection of a hostile client. It writes arbitrary data, and reads the answers of the
//! tested end, or does not.

use std::time::Duration;

use reknit_jsonrpc::Message;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, split};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::frames::{self, Reader};
use crate::script::SendOptions;
use crate::stage::must;

/// The id of the last request.
pub const LAST: &str = "the last question";

/// The messages of the server so far.
#[derive(Default)]
struct ReceivedState {
    /// The latest value at the place that this client watches.
    latest: Option<String>,
    /// Whether the last request was answered.
    answered: bool,
    /// Whether the connection is over.
    over: bool,
}

/// One connection of the hostile client. Dropping it ends the connection.
pub struct HostileClient {
    writer: WriteHalf<DuplexStream>,
    state: watch::Receiver<ReceivedState>,
    reads: watch::Sender<bool>,
    _reader: JoinSet<()>,
}

impl HostileClient {
    /// Creates a client that records the server's value at `place`, a JSON pointer into a message.
    /// `latest` is the earlier value. The server must not send a text of `secrets`.
    pub fn new(
        stream: DuplexStream,
        place: &'static str,
        latest: Option<String>,
        secrets: &'static [&'static str],
    ) -> Self {
        let (reader, writer) = split(stream);
        let (sender, state) = watch::channel(ReceivedState { latest, ..ReceivedState::default() });
        let (reads, may_read) = watch::channel(true);
        let mut tasks = JoinSet::new();
        tasks.spawn(listen(reader, place, secrets, sender, may_read));
        Self { writer, state, reads, _reader: tasks }
    }

    /// Returns the latest value at that place.
    pub fn latest(&self) -> Option<String> {
        self.state.borrow().latest.clone()
    }

    /// Stops or resumes reading.
    pub fn read(&mut self, reads: bool) {
        self.reads.send_replace(reads);
    }

    /// Writes as much as the server accepts within a short time.
    pub async fn write(&mut self, bytes: &[u8]) {
        // The server is allowed not to read, and to disconnect.
        let _ = timeout(Duration::from_secs(2), self.writer.write_all(bytes)).await;
    }

    /// Sends a message in the given manner.
    pub async fn send(&mut self, manner: &SendOptions, message: Value) {
        for (bytes, pause) in manner.write(message, true) {
            self.write(&bytes).await;
            sleep(pause).await;
        }
    }

    /// Sends a message correctly.
    pub async fn send_valid(&mut self, message: &Value) {
        self.write(&frames::whole(frames::TEXT, true, message.to_string().as_bytes())).await;
    }

    /// Sends the head of a request for a WebSocket.
    pub async fn asks_for_websocket(&mut self) {
        const HEAD: &[u8] =
            b"GET / HTTP/1.1\r\nHost: server\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
            Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";
        self.write(HEAD).await;
    }

    /// Sends a last request, with the id [`LAST`], until the server answers or closes. If the
    /// client left a frame unfinished, this data completes it, so the connection may end without an
    /// answer.
    pub async fn is_answered_or_over(&mut self, request: Value, within: Duration) {
        self.read(true);
        let done = |state: &ReceivedState| state.answered || state.over;
        for _ in 0..40 {
            self.send_valid(&request).await;
            if timeout(within / 40, self.state.wait_for(done)).await.is_ok() {
                return;
            }
        }
        // If the last request became part of a long unfinished frame, the connection lives while
        // data arrives. From now on the client is silent, and the server closes the connection.
        must("an answer, or an end", within, self.state.wait_for(done))
            .await
            .expect("the reader lives");
    }
}

/// Reads the server's messages while reading is on.
async fn listen(
    mut stream: ReadHalf<DuplexStream>,
    place: &'static str,
    secrets: &'static [&'static str],
    sender: watch::Sender<ReceivedState>,
    mut may_read: watch::Receiver<bool>,
) {
    let mut reader = Reader::default();
    let mut is_websocket = false;
    let mut bytes = [0; 4096];
    loop {
        if may_read.wait_for(|reads| *reads).await.is_err() {
            return;
        }
        let Ok(count @ 1..) = stream.read(&mut bytes).await else { break };
        reader.push(&bytes[..count]);
        while !is_websocket && let Some(head) = reader.head() {
            is_websocket = head.starts_with("HTTP/1.1 101 ");
        }
        while is_websocket && let Some(message) = reader.message() {
            let text = String::from_utf8_lossy(&message);
            assert!(!secrets.iter().any(|secret| text.contains(secret)), "a secret: {text}");
            record_message(&message, place, &sender);
        }
    }
    sender.send_modify(|state| state.over = true);
}

fn record_message(message: &[u8], place: &str, sender: &watch::Sender<ReceivedState>) {
    Message::parse(message).expect("the server says messages");
    let message: Value = serde_json::from_slice(message).expect("a message is JSON");
    let news = message.pointer(place).and_then(Value::as_str);
    let answered = message["id"] == LAST;
    if news.is_some() || answered {
        sender.send_modify(|state| {
            state.latest = news.map(str::to_owned).or(state.latest.take());
            state.answered |= answered;
        });
    }
}
