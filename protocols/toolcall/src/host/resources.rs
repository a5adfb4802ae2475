//! The resource counts of a host, available at any time.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use tokio::sync::watch;

use super::counts::Counts;
use super::shared::HostShared;
use crate::wire::SnapshotState;

/// A handle for the resource counts of a host. Does not keep the host alive.
#[derive(Clone)]
pub struct HostResources(Weak<HostShared>);

impl HostResources {
    pub(super) fn of(shared: &Arc<HostShared>) -> Self {
        Self(Arc::downgrade(shared))
    }

    /// Returns the current counts.
    pub fn counts(&self) -> Counts {
        let Some(shared) = self.0.upgrade() else { return Counts::default() };
        let core = shared.core();
        Counts { connections: shared.connections.load(Ordering::Relaxed), ..core.counts() }
    }

    /// Returns the current state of a channel; `None` if it is not in memory or the host no longer
    /// exists.
    pub fn state(&self, channel: &str) -> Option<SnapshotState> {
        self.0.upgrade()?.core().state(channel).cloned()
    }

    /// Returns the number of the last action; `None` if the host no longer exists.
    pub fn seq(&self) -> Option<u64> {
        Some(self.0.upgrade()?.core().seq())
    }

    /// Returns a receiver that is notified of every change of a channel; `None` if the host no
    /// longer exists.
    pub fn changes(&self) -> Option<watch::Receiver<u64>> {
        Some(self.0.upgrade()?.core().changes())
    }
}
