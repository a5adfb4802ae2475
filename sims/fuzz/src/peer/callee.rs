//! One connection of a hostile server.

use std::time::Duration;

use arbitrary::Arbitrary;
use reknit_jsonrpc::Message;
use reknit_seams::net::Stream;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::frames::{self, Reader};
use crate::script::{Name, Noise, SendOptions};

/// A request of the client.
pub struct ClientRequest {
    pub id: Value,
    pub method: String,
    pub params: Value,
}

/// Something that no server sends.
#[derive(Arbitrary, Debug)]
pub enum Disturbance {
    /// A request, which only clients send.
    Asks(Name, SendOptions),
    /// An unknown notification.
    Tells(Name, SendOptions),
    /// Invalid data.
    Noise(Noise),
}

/// One connection of the hostile server. Dropping it ends the connection.
pub struct HostileServer {
    writer: WriteHalf<Stream>,
    key: Option<oneshot::Receiver<String>>,
    questions: mpsc::UnboundedReceiver<ClientRequest>,
    open: Vec<ClientRequest>,
    _reader: JoinSet<()>,
}

/// How long it waits for a message of the client.
const SOON: Duration = Duration::from_secs(1);

impl HostileServer {
    pub fn new(stream: Stream) -> Self {
        let (reader, writer) = split(stream);
        let (reported, key) = oneshot::channel();
        let (asked, questions) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        tasks.spawn(listen(reader, reported, asked));
        Self { writer, key: Some(key), questions, open: Vec::new(), _reader: tasks }
    }

    /// Whether the client has ended it.
    pub fn is_over(&self) -> bool {
        self.questions.is_closed()
    }

    /// Answers the request for a WebSocket.
    pub async fn opens_websocket(&mut self) {
        let Some(key) = self.key.take() else { return };
        let Ok(Ok(key)) = timeout(SOON, key).await else { return };
        let accept = derive_accept_key(key.as_bytes());
        let head = format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
        );
        self.write(head.as_bytes()).await;
    }

    /// Takes the n-th of the open requests, the newest first.
    pub fn request(&mut self, n: u8) -> Option<ClientRequest> {
        while let Ok(request) = self.questions.try_recv() {
            self.open.insert(0, request);
        }
        let at = usize::from(n).checked_rem(self.open.len())?;
        Some(self.open.remove(at))
    }

    /// Takes the next request, if it arrives soon.
    pub async fn question_soon(&mut self) -> Option<ClientRequest> {
        timeout(SOON, self.questions.recv()).await.ok()?
    }

    /// Sends a message in the given manner.
    pub async fn send(&mut self, manner: &SendOptions, message: Value) {
        for (bytes, pause) in manner.write(message, false) {
            self.write(&bytes).await;
            sleep(pause).await;
        }
    }

    /// Sends something that no server sends.
    pub async fn disturb(&mut self, disturbance: &Disturbance) {
        match disturbance {
            Disturbance::Asks(method, manner) => {
                self.send(manner, json!({"id": 1, "method": method.text(), "params": {}})).await;
            }
            Disturbance::Tells(method, manner) => {
                self.send(manner, json!({"method": method.text(), "params": {}})).await
            }
            Disturbance::Noise(noise) => self.write(&noise.write(false)).await,
        }
    }

    /// Sends a message correctly.
    pub async fn send_valid(&mut self, message: Value) {
        self.write(&frames::whole(frames::TEXT, false, message.to_string().as_bytes())).await;
    }

    /// Writes as much as the client accepts within a short time.
    pub async fn write(&mut self, bytes: &[u8]) {
        // The client is allowed not to read, and to disconnect.
        let _ = timeout(SOON, self.writer.write_all(bytes)).await;
    }
}

/// Reads the client's messages: first the key of its handshake, then its requests.
async fn listen(
    mut stream: ReadHalf<Stream>,
    key: oneshot::Sender<String>,
    asked: mpsc::UnboundedSender<ClientRequest>,
) {
    let mut reader = Reader::default();
    let mut key = Some(key);
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut bytes).await {
        reader.push(&bytes[..count]);
        if key.is_some()
            && let Some(head) = reader.head()
        {
            let line = head
                .lines()
                .find_map(|line| line.strip_prefix("Sec-WebSocket-Key: "))
                .expect("a client sends its key");
            // If the server does not answer the handshake, it has dropped the receiver.
            key.take().map(|key| key.send(line.to_owned()));
        }
        while key.is_none()
            && let Some(message) = reader.message()
        {
            Message::parse(&message).expect("the client says messages");
            let mut message: Value = serde_json::from_slice(&message).expect("a message is JSON");
            if let Some(method) = message["method"].as_str().map(str::to_owned)
                && !message["id"].is_null()
            {
                let request = ClientRequest {
                    id: message["id"].take(),
                    method,
                    params: message["params"].take(),
                };
                // The receiver lives longer than this reader.
                let _ = asked.send(request);
            }
        }
    }
}
