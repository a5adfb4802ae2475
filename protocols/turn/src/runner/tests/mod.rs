//! Jobs of commands, on a machine in memory with a scripted server. Time is paused.

mod cancel;
mod run;
mod view;

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use reknit_jsonrpc::{LineEvent, LineLimits, Lines, Message};
use reknit_seams::Env;
use reknit_seams::files;
use reknit_seams::net::memory::Memory;
use reknit_seams::net::{Endpoint, Network};
use reknit_seams::process::{Identity, Scripted};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::*;
use crate::client::{Client, Route};
use crate::command::{Command, Order, Settings, TaskThread};
use crate::jobs::{Job, JobId, JobStore, NewJob, State, StateName};
use crate::limits::{ClientLimits, JobLimits};
use crate::testing::defect_on;

const S: Duration = Duration::from_secs(1);

/// A machine with a scripted server at an address.
#[derive(Clone, Default)]
struct Machine {
    net: Memory,
    files: files::Memory,
    table: Scripted,
}

fn server() -> Endpoint {
    Endpoint::tcp("server", 1)
}

fn order() -> Order {
    let thread = TaskThread::New { prompt: "go".into() };
    let settings = Settings { cwd: "/w".into(), model: None, effort: None, service: "t".into() };
    Order { command: Command::Task { thread, write: false }, settings }
}

impl Machine {
    fn env(&self, process: &Identity) -> Env {
        Env {
            net: Arc::new(self.net.clone()),
            files: Arc::new(self.files.clone()),
            processes: Arc::new(self.table.as_seen_by(process)),
            ..Env::real()
        }
    }

    /// Opens the store as a new process, and returns the process.
    async fn process(&self) -> (JobStore, Identity) {
        let process = self.table.start();
        let store = JobStore::open(&self.env(&process), "/jobs", JobLimits::default()).await;
        (store.unwrap(), process)
    }

    async fn job(&self, session: Option<&str>) -> JobId {
        let (store, _) = self.process().await;
        store.create(NewJob::of(order(), session.map(str::to_owned))).await.unwrap().id
    }

    /// Creates a job that a process has claimed and that has a turn. Returns the process.
    async fn running(&self, session: &str) -> (JobId, Identity) {
        let id = self.job(Some(session)).await;
        let (store, worker) = self.process().await;
        let claim = store.claim(&id).await.unwrap();
        let turn = ("t".to_owned(), "u".to_owned());
        let update = crate::jobs::Update { phase: None, thread: Some(turn.0), turn: Some(turn.1) };
        store.update(&claim, update).await.unwrap();
        (id, worker)
    }

    async fn read(&self, id: &JobId) -> Job {
        self.process().await.0.read(id).await.unwrap()
    }

    /// Returns a runner in a new process.
    async fn runner(&self) -> JobRunner {
        let (store, process) = self.process().await;
        let route = Route::Broker { endpoint: server() };
        let client = Client::new(&self.env(&process), route, ClientLimits::default());
        JobRunner::new(store, client)
    }

    /// Serves one client, and reports the methods of its requests. It answers an interrupt with the
    /// end of the turn, and sends what the test gives it.
    async fn serve(&self) -> (mpsc::UnboundedSender<Message>, mpsc::UnboundedReceiver<String>) {
        let mut listener = self.net.listen(&server()).await.unwrap();
        let (to_client, mut messages) = mpsc::unbounded_channel();
        let (methods, seen) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let stream = listener.accept().await.unwrap();
            let limits =
                LineLimits { line_bytes: 1 << 20, outbox_bytes: 1 << 20, write_deadline: 60 * S };
            let mut lines = Lines::of(stream, limits);
            loop {
                let event = tokio::select! {
                    Some(message) = messages.recv() => {
                        lines.send(&message);
                        continue;
                    }
                    event = lines.next() => event,
                };
                let Ok(event) = event else { return };
                let LineEvent::Message(Message::Request { id, method, .. }) = event else {
                    continue;
                };
                lines.send(&Message::response(id, &answer(&method)));
                if method == "turn/interrupt" {
                    lines.send(&completed("interrupted"));
                }
                let _ = methods.send(method); // the test may be over
            }
        });
        (to_client, seen)
    }
}

fn answer(method: &str) -> Value {
    match method {
        "thread/start" => json!({ "thread": { "id": "t" } }),
        "turn/start" => json!({ "turn": { "id": "u", "status": "inProgress" } }),
        _ => json!({}),
    }
}

fn completed(status: &str) -> Message {
    let turn = json!({ "id": "u", "status": status });
    Message::notification("turn/completed", &json!({ "threadId": "t", "turn": turn }))
}

fn item(method: &str, id: &str, item: &str, fields: Value) -> Message {
    let mut item = json!({ "type": item, "id": id });
    item.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let params = json!({ "threadId": "t", "turnId": "u", "item": item });
    Message::notification(method, &params)
}

/// Waits until the server has seen this method.
async fn until(seen: &mut mpsc::UnboundedReceiver<String>, method: &str) {
    while seen.recv().await.expect("the client asks for it") != method {}
}
