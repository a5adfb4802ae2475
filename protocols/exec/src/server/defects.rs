//! State that only seeded bugs use. Without a seeded bug, no behavior depends on it.

use std::any::Any;
use std::sync::{Arc, Mutex};

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

/// The state of the HTTP requests of a connection.
#[derive(Default)]
pub(super) struct FetchDefects {
    /// How many requests have no answer yet, for `HttpBlocksRequests`.
    pub(super) unanswered: usize,
}
