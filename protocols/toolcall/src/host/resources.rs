//! What a host holds, to be asked at any time.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use tokio::sync::watch;

use super::counts::Counts;
use super::shared::HostShared;
use crate::wire::SnapshotState;

/// How much of everything a host holds. Does not keep it alive.
#[derive(Clone)]
pub struct HostResources(Weak<HostShared>);

impl HostResources {
    pub(super) fn of(shared: &Arc<HostShared>) -> Self {
        Self(Arc::downgrade(shared))
    }

    /// What there is now.
    pub fn counts(&self) -> Counts {
        let Some(shared) = self.0.upgrade() else { return Counts::default() };
        let core = shared.core();
        Counts { connections: shared.connections.load(Ordering::Relaxed), ..core.counts() }
    }

    /// What a channel is like now; `None` where it is not in memory, or the host is gone.
    pub fn state(&self, channel: &str) -> Option<SnapshotState> {
        self.0.upgrade()?.core().state(channel).cloned()
    }

    /// Hears of every change of a channel; `None` where the host is gone.
    pub fn changes(&self) -> Option<watch::Receiver<u64>> {
        Some(self.0.upgrade()?.core().changes())
    }
}
