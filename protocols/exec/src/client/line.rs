//! The way from the user's handles to the driver.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reknit_resume::EVER;
use reknit_seams::defect;
use reknit_seams::env::Entropy;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::Instant;

use super::Failure;
use super::command::{Call, Command, Commands, Key, RetryPolicy};
use super::log::{Log, LogLimits};
use crate::limits::ClientLimits;
use crate::wire::read;

/// What all handles of one client share.
#[derive(Clone)]
pub(super) struct CommandChannel {
    pub(super) commands: Commands,
    pub(super) limits: ClientLimits,
    shared: Arc<Shared>,
}

struct Shared {
    /// How many more calls may be asked for. Who asks for more waits here, in order.
    permits: Semaphore,
    /// What the ids of this client's writes begin with, so that another client of the same session never uses the same.
    prefix: String,
    writes: AtomicU64,
    serials: AtomicU64,
    http: AtomicU64,
}

impl CommandChannel {
    pub(super) fn new(commands: Commands, limits: ClientLimits, entropy: &dyn Entropy) -> Self {
        let mut random = [0; 16];
        entropy.fill(&mut random);
        let prefix = format!("{:032x}", u128::from_le_bytes(random));
        let permits = Semaphore::new(limits.calls.clamp(1, Semaphore::MAX_PERMITS));
        let (writes, serials, http) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let shared = Shared { permits, prefix, writes, serials, http };
        Self { commands, limits, shared: Arc::new(shared) }
    }

    /// A new id for a write.
    pub(super) fn write_id(&self) -> String {
        let n = self.shared.writes.fetch_add(1, Ordering::Relaxed) + 1;
        if defect!(WriteIdsFromOne) { n.to_string() } else { format!("{}-{n}", self.shared.prefix) }
    }

    /// A new number for an HTTP request: none is used twice, over whatever connections.
    pub(super) fn http_number(&self) -> u64 {
        self.shared.http.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A new process of this id, with its log.
    pub(super) fn process(&self, id: &str) -> (Key, Arc<Log>) {
        let serial = self.shared.serials.fetch_add(1, Ordering::Relaxed);
        let room = LogLimits { events: self.limits.log_events, bytes: self.limits.log_bytes };
        (Key { id: id.into(), serial }, Arc::new(Log::new(room)))
    }

    /// Asks the server for something, and waits for the answer: no longer than a call may take, and `wait` on top of it.
    ///
    /// A call whose future is dropped is forgotten; whether it takes effect is open.
    pub(super) async fn call<R: DeserializeOwned>(
        &self,
        kind: RetryPolicy,
        method: &'static str,
        params: &impl Serialize,
        process: Option<(Key, Arc<Log>)>,
        wait: Duration,
    ) -> Result<R, Failure> {
        let params = serde_json::value::to_raw_value(params)
            .map_err(|error| Failure::Malformed(error.to_string()))?;
        // The semaphore is never closed.
        let _permit = self.shared.permits.acquire().await.map_err(|_| Failure::Closed)?;
        let until = Instant::now() + self.limits.call_wait.saturating_add(wait).min(EVER);
        let (answer, answered) = oneshot::channel();
        let call = Call { kind, method, params, process, until, answer, refusals: 0 };
        self.commands.send(Command::Call(call)).map_err(|_| Failure::Closed)?;
        let result = answered.await.unwrap_or(Err(Failure::Closed))?;
        read(Some(&result)).map_err(|error| Failure::Malformed(error.to_string()))
    }
}
