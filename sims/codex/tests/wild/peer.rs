//! A client that sends requests without waiting for their answers.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use codex_peer::raw::{Raw, Received};
use codex_peer::servers::Server;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

/// How long a test waits for an answer that a server may never send.
pub const LONG_ENOUGH: Duration = Duration::from_secs(5);

/// A connection with a session.
pub struct Peer {
    pub raw: Raw,
    /// The id of the session.
    pub session: String,
    asked: u64,
    answers: BTreeMap<u64, Value>,
    /// All notifications so far, in order.
    pub events: Vec<Value>,
}

impl Peer {
    /// Connects with a new session.
    pub async fn new(server: &Server) -> Self {
        let mut raw = Raw::connect(server.address()).await;
        let welcome = raw.initialize().await;
        let session = welcome["result"]["sessionId"].as_str().expect("a session").to_owned();
        Self { raw, session, asked: 1, answers: BTreeMap::new(), events: Vec::new() }
    }

    /// Sends a request; returns its id.
    pub async fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.asked += 1;
        let request = json!({"id": self.asked, "method": method, "params": params});
        self.raw.send(request.to_string()).await;
        self.asked
    }

    /// Returns the answer to a request, or `None` if none comes for this long.
    pub async fn answer(&mut self, id: u64, at_most: Duration) -> Option<Value> {
        let deadline = Instant::now() + at_most;
        while !self.answers.contains_key(&id) {
            if !timeout_at(deadline, self.receive(at_most)).await.ok()? {
                return None;
            }
        }
        self.answers.remove(&id)
    }

    /// Receives one message; returns `false` after this long without one, and at the end of the
    /// connection.
    pub async fn receive(&mut self, at_most: Duration) -> bool {
        let Some(Received::Text(text)) = self.raw.receive(at_most).await else { return false };
        let message: Value = serde_json::from_str(&text).expect("JSON");
        match message["id"].as_u64() {
            Some(id) => drop(self.answers.insert(id, message)),
            None => self.events.push(message),
        }
        true
    }

    /// Sends a request, and returns its answer.
    ///
    /// # Panics
    /// If none comes.
    pub async fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params).await;
        self.answer(id, LONG_ENOUGH).await.expect("an answer")
    }

    /// Starts a process with pipes, or with a terminal.
    pub async fn start(&mut self, process: &str, tty: bool, argv: &[&str]) {
        let params = json!({
            "processId": process, "argv": argv, "cwd": "file:///", "env": {"PATH": "/usr/bin:/bin"},
            "tty": tty, "pipeStdin": true,
        });
        let started = self.call("process/start", params).await;
        assert_eq!(started["result"]["processId"], process, "{started}");
    }

    /// Returns the number of answers so far that were not taken.
    pub fn answered(&self) -> usize {
        self.answers.len()
    }

    /// Returns all output of all processes so far.
    pub fn output(&self) -> String {
        let outputs = self.events.iter().filter(|event| event["method"] == "process/output");
        let bytes = outputs.flat_map(|event| {
            let chunk = event["params"]["chunk"].as_str().expect("a chunk");
            BASE64_STANDARD.decode(chunk).expect("base64")
        });
        String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).into_owned()
    }
}

/// The parameters of a write.
pub fn write(process: &str, id: &str, text: &str) -> Value {
    json!({"processId": process, "writeId": id, "chunk": BASE64_STANDARD.encode(text)})
}

/// Tries to resume a session on a new connection; returns the error code, or `None` on success.
pub async fn resume(server: &Server, session: &str) -> Option<i64> {
    let mut raw = Raw::connect(server.address()).await;
    let params = json!({"clientName": "raw", "resumeSessionId": session});
    raw.send(json!({"id": 1, "method": "initialize", "params": params}).to_string()).await;
    raw.json().await["error"]["code"].as_i64()
}
