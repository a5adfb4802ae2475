//! The path from the user's handles to the driver.

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

/// The state that all handles of one client share.
#[derive(Clone)]
pub(super) struct CommandChannel {
    pub(super) commands: Commands,
    pub(super) limits: ClientLimits,
    shared: Arc<Shared>,
}

struct Shared {
    /// How many more calls may start. Further calls wait here, in order.
    permits: Semaphore,
    /// The prefix of this client's write ids. It ensures that another client of the same session
    /// never uses the same ids.
    prefix: String,
    writes: AtomicU64,
    serials: AtomicU64,
    http: AtomicU64,
    files: AtomicU64,
}

impl CommandChannel {
    pub(super) fn new(commands: Commands, limits: ClientLimits, entropy: &dyn Entropy) -> Self {
        let mut random = [0; 16];
        entropy.fill(&mut random);
        let prefix = format!("{:032x}", u128::from_le_bytes(random));
        let calls = if defect!(CallsUnbounded) { usize::MAX } else { limits.calls };
        let permits = Semaphore::new(calls.clamp(1, Semaphore::MAX_PERMITS));
        let [writes, serials, http, files] = [0; 4].map(AtomicU64::new);
        let shared = Shared { permits, prefix, writes, serials, http, files };
        Self { commands, limits, shared: Arc::new(shared) }
    }

    /// Returns a new id for a write.
    pub(super) fn write_id(&self) -> String {
        let n = self.shared.writes.fetch_add(1, Ordering::Relaxed) + 1;
        if defect!(WriteIdsFromOne) { n.to_string() } else { format!("{}-{n}", self.shared.prefix) }
    }

    /// Returns a new number for an HTTP request. Numbers are never reused, not even on another
    /// connection.
    pub(super) fn http_number(&self) -> u64 {
        self.shared.http.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns a new id for an open file. Ids are never reused, not even on another connection.
    pub(super) fn handle_id(&self) -> String {
        format!("file-{}", self.watch_number())
    }

    /// Returns a new number for a watch for files.
    pub(super) fn watch_number(&self) -> u64 {
        self.shared.files.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Creates a new process with this id, and its log.
    pub(super) fn process(&self, id: &str) -> (Key, Arc<Log>) {
        let serial = self.shared.serials.fetch_add(1, Ordering::Relaxed);
        let room = LogLimits { events: self.limits.log_events, bytes: self.limits.log_bytes };
        let key = Key { id: id.into(), serial };
        let (commands, own) = (self.commands.downgrade(), key.clone());
        let progress = move || {
            if let Some(commands) = commands.upgrade() {
                // If the driver has ended, the log has no use for room.
                let _ = commands.send(Command::Progress(own.clone()));
            }
        };
        (key, Arc::new(Log::new(room, progress)))
    }

    /// Sends a request to the server and waits for the answer, for at most the call timeout plus
    /// `wait`.
    ///
    /// If the future is dropped, the call is forgotten; it may still take effect.
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
        let asked = Instant::now();
        // The semaphore is never closed.
        let _permit = self.shared.permits.acquire().await.map_err(|_| Failure::Closed)?;
        let begun = if defect!(WaitForPermitCounts) { asked } else { Instant::now() };
        let until = begun + self.limits.call_wait.saturating_add(wait).min(EVER);
        let (answer, answered) = oneshot::channel();
        let call = Call::new(kind, method, params, process, until, answer);
        self.commands.send(Command::Call(call)).map_err(|_| Failure::Closed)?;
        let result = answered.await.unwrap_or(Err(Failure::Closed))?;
        read(Some(&result)).map_err(|error| Failure::Malformed(error.to_string()))
    }
}
