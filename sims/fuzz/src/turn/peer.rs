//! One end of a connection of lines: it writes any bytes, and reads the lines of the tested end, or does not.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use reknit_jsonrpc::Message;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::model::AppServer;
use crate::script::Writes;
use crate::stage::must;

/// The id of the last request.
const LAST: &str = "the last question";

/// The messages that the tested end has sent so far.
#[derive(Default)]
struct Received {
    /// The requests without an answer: id, method, parameters.
    open: Vec<(Value, String, Value)>,
    /// Whether the last request was answered.
    answered: bool,
    /// Whether the connection is over.
    over: bool,
}

/// One end of a connection. Dropping it ends the connection.
pub(super) struct LinePeer<S> {
    writer: WriteHalf<S>,
    received: Arc<Mutex<Received>>,
    changed: watch::Receiver<u64>,
    reads: watch::Sender<bool>,
    /// The length of the line that it writes.
    line: usize,
    /// The length of its longest line, and how many lines it wrote.
    pub longest: usize,
    pub lines: usize,
    /// Whether it has always read.
    pub has_read: bool,
    _reader: JoinSet<()>,
}

impl<S: AsyncRead + AsyncWrite + Send + 'static> LinePeer<S> {
    pub fn new(stream: S) -> Self {
        let (reader, writer) = split(stream);
        let (change, changed) = watch::channel(0);
        let (reads, may_read) = watch::channel(true);
        let received = Arc::<Mutex<Received>>::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(listen(reader, received.clone(), change, may_read));
        let (line, longest, lines, has_read) = (0, 0, 0, true);
        Self { writer, received, changed, reads, line, longest, lines, has_read, _reader: tasks }
    }

    /// Stops or resumes reading.
    pub fn read(&mut self, reads: bool) {
        self.has_read &= reads;
        self.reads.send_replace(reads);
    }

    /// Writes as much as the tested end accepts within a short time.
    pub async fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.line = if *byte == b'\n' { 0 } else { self.line + 1 };
            self.longest = self.longest.max(self.line);
            self.lines += usize::from(*byte == b'\n');
        }
        // The tested end is allowed not to read, and to disconnect.
        let written = timeout(Duration::from_secs(2), self.writer.write_all(bytes)).await;
        self.has_read &= written.is_ok();
    }

    pub async fn send(&mut self, writes: Writes) {
        for (bytes, pause) in writes {
            self.write(&bytes).await;
            sleep(pause).await;
        }
    }

    pub async fn send_valid(&mut self, message: &Value) {
        self.write(format!("{message}\n").as_bytes()).await;
    }

    /// Answers all open requests as a correct app-server.
    pub async fn answer_all(&mut self, app_server: &mut AppServer) {
        let open = std::mem::take(&mut self.received.lock().expect("no panic under it").open);
        for (id, method, params) in open {
            self.send_valid(&app_server.answer(&id, &method, &params)).await;
        }
    }

    /// Ends its line, sends a last request, and waits until it is answered, or the connection is over.
    /// Returns whether it is answered.
    pub async fn is_answered(&mut self, method: &str, within: Duration) -> bool {
        self.reads.send_replace(true);
        self.write(b"\n").await;
        self.send_valid(&json!({ "id": LAST, "method": method })).await;
        let received = self.received.clone();
        let lock = || received.lock().expect("no panic under it");
        let done = self.changed.wait_for(|_| lock().answered || lock().over);
        drop(must("an answer, or an end", within, done).await);
        lock().answered
    }
}

/// Reads the lines of the tested end while reading is on.
async fn listen<S: AsyncRead>(
    mut stream: ReadHalf<S>,
    received: Arc<Mutex<Received>>,
    change: watch::Sender<u64>,
    mut may_read: watch::Receiver<bool>,
) {
    let (mut inbox, mut bytes) = (Vec::new(), [0; 4096]);
    loop {
        if may_read.wait_for(|reads| *reads).await.is_err() {
            return;
        }
        let Ok(count @ 1..) = stream.read(&mut bytes).await else { break };
        inbox.extend_from_slice(&bytes[..count]);
        let Some(end) = inbox.iter().rposition(|byte| *byte == b'\n') else { continue };
        let rest = inbox.split_off(end + 1);
        let lines = std::mem::replace(&mut inbox, rest);
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            record(line, &mut received.lock().expect("no panic under it"));
        }
        change.send_modify(|count| *count += 1);
    }
    received.lock().expect("no panic under it").over = true;
    change.send_modify(|count| *count += 1);
}

fn record(line: &[u8], received: &mut Received) {
    let mut message: Value = serde_json::from_slice(line).expect("a line is JSON");
    received.answered |= message["id"] == LAST;
    match Message::parse(line) {
        Ok(Message::Request { method, .. }) => {
            received.open.push((message["id"].take(), method, message["params"].take()));
        }
        Ok(_) => {}
        Err(_) => assert!(message["id"].is_null() && message["error"].is_object(), "{message}"),
    }
}
