//! State that only seeded bugs use. Without a seeded bug, no behavior depends on it.

use std::any::Any;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reknit_seams::defect;
use tokio::time::Instant;

/// The state of the registry.
#[derive(Default)]
pub(super) struct RegistryDefects {
    leaked: Mutex<Vec<Arc<dyn Any + Send + Sync>>>,
}

impl RegistryDefects {
    /// The defect `ProcessesOutliveSession`: keeps an expired session. Returns whether it did.
    pub(super) fn leaks<S: Any + Send + Sync>(&self, kept: &Arc<S>) -> bool {
        let leaks = defect!(ProcessesOutliveSession);
        if leaks {
            self.leaked.lock().expect("nothing panics under the lock").push(kept.clone());
        }
        leaks
    }
}

/// The state of a process.
#[derive(Default)]
pub(super) struct ProcessDefects {
    /// When the process exited, for `RetentionFromExit`.
    pub(super) exited_at: Option<Instant>,
}

/// The state of a connection.
#[derive(Default)]
pub(super) struct ConnectionDefects {
    /// When the output that waits is sent, for `OutputFlushedByTimer`.
    flush: Option<Instant>,
}

impl ConnectionDefects {
    /// The defect `OutputFlushedByTimer`: whether output is held, if any waits. The timer starts with
    /// the first of it.
    pub(super) fn hold_output(&mut self, waits: impl FnOnce() -> bool) -> bool {
        if !defect!(OutputFlushedByTimer) || !waits() {
            return false;
        }
        let now = Instant::now();
        let flush = *self.flush.get_or_insert(now + Duration::from_secs(4));
        if flush <= now {
            self.flush = None;
        }
        flush > now
    }

    /// Returns when output is sent that is held.
    pub(super) fn flush(&self) -> Option<Instant> {
        self.flush
    }
}

/// Returns how many milliseconds a read waits. The defect `ReadWaitRoundedUp` makes them tens of
/// seconds.
pub(super) fn read_wait(wait_ms: u64) -> u64 {
    const TEN_SECONDS: u64 = 10_000;
    if defect!(ReadWaitRoundedUp) {
        wait_ms.div_ceil(TEN_SECONDS).saturating_mul(TEN_SECONDS)
    } else {
        wait_ms
    }
}

/// The state of the HTTP requests of a connection.
#[derive(Default)]
pub(super) struct FetchDefects {
    /// How many requests have no answer yet, for `HttpBlocksRequests`.
    pub(super) unanswered: usize,
}
