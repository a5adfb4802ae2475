//! Tests of the job store.

mod crashes;
mod damage;
mod defects;
mod interleavings;
mod logs;
mod pruning;
mod readers;
mod real;
mod rules;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use reknit_seams::Env;
use reknit_seams::env::{Entropy, WallClock};
use reknit_seams::files::{Files, Memory, Open};
use reknit_seams::process::{Identity, ProcessTable, Scripted};

use super::*;
use crate::limits::JobLimits;

/// A machine in memory. Each program that uses it has its own process.
#[derive(Clone)]
struct TestMachine {
    files: Memory,
    processes: Scripted,
    clock: Arc<TestClock>,
    draws: Arc<Counter>,
}

/// A clock that moves on when a test says so. In seconds since 1970.
struct TestClock(AtomicU64);

impl WallClock for TestClock {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(self.0.load(Ordering::Relaxed))
    }
}

/// Counts instead of drawing.
struct Counter(AtomicU64);

impl Entropy for Counter {
    fn fill(&self, bytes: &mut [u8]) {
        let count = self.0.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        bytes.copy_from_slice(&count[count.len() - bytes.len()..]);
    }
}

const DIRECTORY: &str = "/state/jobs";

impl TestMachine {
    fn new() -> Self {
        Self {
            files: Memory::default(),
            processes: Scripted::default(),
            clock: Arc::new(TestClock(AtomicU64::new(1000))),
            draws: Arc::new(Counter(AtomicU64::new(1))),
        }
    }

    fn pass(&self, seconds: u64) {
        self.clock.0.fetch_add(seconds, Ordering::Relaxed);
    }

    fn env(&self, process: &Identity) -> Env {
        Env {
            files: Arc::new(self.files.clone()),
            processes: Arc::new(self.processes.as_seen_by(process)),
            clock: self.clock.clone(),
            entropy: self.draws.clone(),
            ..Env::real()
        }
    }

    async fn store_in(&self, env: Env, limits: JobLimits) -> JobStore {
        JobStore::open(&env, DIRECTORY, limits).await.unwrap()
    }

    /// Opens the store as a new process.
    async fn process(&self) -> (JobStore, Identity) {
        let process = self.processes.start();
        (self.store_in(self.env(&process), JobLimits::default()).await, process)
    }

    async fn store(&self) -> JobStore {
        self.process().await.0
    }

    async fn store_with(&self, limits: JobLimits) -> JobStore {
        self.store_in(self.env(&self.processes.start()), limits).await
    }

    /// Writes a file of the store.
    async fn put(&self, name: &str, content: &str) {
        let path = format!("{DIRECTORY}/{name}");
        let file = self.files.open(path.as_ref(), Open::Replace).await.unwrap();
        file.write_at(0, content.as_bytes().to_vec()).await.unwrap();
    }

    async fn get(&self, name: &str) -> String {
        let path = format!("{DIRECTORY}/{name}");
        let file = self.files.open(path.as_ref(), Open::Read).await.unwrap();
        String::from_utf8(file.read_at(0, 1 << 20).await.unwrap()).unwrap()
    }

    /// Returns the names of the store's files, without the lock.
    async fn names(&self) -> Vec<String> {
        let entries = self.files.entries(DIRECTORY.as_ref(), 1000).await.unwrap();
        let names = entries.into_iter().map(|entry| entry.name.into_string().unwrap());
        names.filter(|name| name != "lock").collect()
    }
}

fn task(title: &str) -> NewJob {
    NewJob {
        kind: JobKind::Task,
        session: Some("s1".into()),
        title: title.into(),
        workspace: "/work".into(),
        order: None,
    }
}

fn failed(message: &str) -> Ending {
    Ending::Failed { message: message.into() }
}

fn turn(thread: &str, turn: Option<&str>) -> Update {
    Update { phase: None, thread: Some(thread.into()), turn: turn.map(str::to_owned) }
}

/// Runs on one thread, with paused time.
fn run<T>(test: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().unwrap().block_on(test)
}
