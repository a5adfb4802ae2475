//! What a host holds, to be asked at any time.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use tokio::sync::watch;

use super::shared::Shared;
use crate::wire::SnapshotState;

/// How much of everything a host holds. Does not keep it alive.
#[derive(Clone)]
pub struct Census(Weak<Shared>);

/// The counts of one moment; all of them zero where the host is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections.
    pub connections: u64,
    /// Clients that are remembered.
    pub clients: u64,
    /// Sessions.
    pub sessions: u64,
    /// Chats that are in memory.
    pub chats: u64,
    /// Subscriptions, each client's counted once a channel.
    pub holds: u64,
    /// Channels in which something depends on a client.
    pub causes: u64,
    /// Waits for clients, each counted once a channel in which something depends on it.
    pub waits: u64,
    /// Turns that are under way.
    pub turns: u64,
    /// Questions to clients without an answer.
    pub questions: u64,
    /// Actions that are kept.
    pub actions: u64,
}

impl Census {
    pub(super) fn of(shared: &Arc<Shared>) -> Self {
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
