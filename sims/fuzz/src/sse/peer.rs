//! One connection of a hostile client.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, split};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::answers::Answers;
use crate::script::Writes;

/// The answers that the client has received.
struct Received {
    answers: Answers,
    /// When bytes came last.
    last: Instant,
    is_over: bool,
}

/// One connection. Dropping it ends the connection.
pub struct HostilePeer {
    writer: WriteHalf<DuplexStream>,
    received: Arc<Mutex<Received>>,
    reads: watch::Sender<bool>,
    /// The last bytes that it has sent.
    tail: Vec<u8>,
    _reader: JoinSet<()>,
}

/// The method whose answers have a length, but no body.
const HEAD: &[u8] = b"HEAD";

impl HostilePeer {
    pub fn new(stream: DuplexStream) -> Self {
        let (reader, writer) = split(stream);
        let received = Received { answers: Answers::new(), last: Instant::now(), is_over: false };
        let received = Arc::new(Mutex::new(received));
        let (reads, may_read) = watch::channel(true);
        let mut tasks = JoinSet::new();
        tasks.spawn(listen(reader, received.clone(), may_read));
        Self { writer, received, reads, tail: Vec::new(), _reader: tasks }
    }

    fn received(&self) -> MutexGuard<'_, Received> {
        self.received.lock().expect("the answers are right")
    }

    /// Stops or resumes reading.
    pub fn read(&mut self, reads: bool) {
        self.reads.send_replace(reads);
    }

    /// Sends any bytes.
    pub async fn disturb(&mut self, bytes: &[u8]) {
        self.received().answers.lose_count();
        self.write(bytes).await;
    }

    /// Writes as much as the server accepts within a short time.
    async fn write(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
        if self.tail.windows(HEAD.len()).any(|bytes| bytes == HEAD) {
            self.received().answers.give_up();
        }
        self.tail.drain(..self.tail.len().saturating_sub(HEAD.len()));
        // The server is allowed not to read, and to disconnect.
        let _ = timeout(Duration::from_secs(2), self.writer.write_all(bytes)).await;
    }

    /// Sends a request. `cursor`: that of a request for a stream; `None` if the bytes may not be one request.
    pub async fn send(&mut self, writes: Writes, cursor: Option<Option<String>>) {
        match cursor {
            Some(cursor) => self.received().answers.asks(cursor),
            None => self.received().answers.lose_count(),
        }
        for (bytes, pause) in writes {
            self.write(&bytes).await;
            sleep(pause).await;
        }
    }

    /// Returns the last session and the last run that the server named.
    pub fn heard(&self) -> (Option<String>, Option<String>) {
        let received = self.received();
        (received.answers.session.clone(), received.answers.epoch.clone())
    }

    /// Whether the connection is over.
    pub fn is_over(&self) -> bool {
        self.received().is_over
    }

    /// Whether a stream is in progress, and brought something in this time.
    pub fn streams(&self, within: Duration) -> bool {
        let received = self.received();
        received.answers.is_in_stream() && received.last.elapsed() <= within
    }
}

/// Reads the answers while reading is on.
async fn listen(
    mut stream: ReadHalf<DuplexStream>,
    received: Arc<Mutex<Received>>,
    mut may_read: watch::Receiver<bool>,
) {
    let mut bytes = [0; 4096];
    loop {
        if may_read.wait_for(|reads| *reads).await.is_err() {
            return;
        }
        let Ok(count @ 1..) = stream.read(&mut bytes).await else { break };
        let mut received = received.lock().expect("the answers are right");
        received.answers.push(&bytes[..count]);
        received.last = Instant::now();
    }
    received.lock().expect("the answers are right").is_over = true;
}
