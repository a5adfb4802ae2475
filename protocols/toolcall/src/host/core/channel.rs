//! A channel: the unit of subscription.

use reknit_seams::defect;
use tokio::time::Instant;

use super::outside::HostIdentity;
use super::transport::Size;
use crate::wire::ahp::state::{AgentInfo, ProtectedResourceMetadata, RootState};
use crate::wire::{SnapshotState, weight};

/// A channel.
pub(super) struct Channel {
    /// For a chat: its session.
    pub(super) session: Option<String>,
    /// `None` if it is not in memory.
    pub(super) state: Option<SnapshotState>,
    /// The restore in progress.
    pub(super) restoring: Option<Restoring>,
    /// An upper estimate of the size of the state in bytes.
    pub(super) weight: usize,
    /// The number of the action that created it in this incarnation of the host. A client that has
    /// only seen earlier actions knew a previous channel with this name.
    pub(super) made: u64,
}

/// A restore in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Restoring {
    /// Distinguishes it from earlier, failed restores of the same channel.
    pub(super) number: u64,
    /// The deadline.
    pub(super) until: Instant,
}

impl Channel {
    pub(super) fn root(identity: &HostIdentity) -> Self {
        let resources =
            identity.tokens.keys().map(|resource| resource_named(resource)).collect::<Vec<_>>();
        let agent = AgentInfo {
            provider: identity.provider.clone(),
            display_name: identity.provider.clone(),
            description: String::new(),
            models: Vec::new(),
            protected_resources: (!resources.is_empty()).then_some(resources),
            customizations: None,
            capabilities: None,
        };
        let state = RootState {
            agents: vec![agent],
            active_sessions: Some(0),
            terminals: None,
            config: None,
            meta: None,
        };
        Self::of(SnapshotState::Root(Box::new(state)), None)
    }

    pub(super) fn of(state: SnapshotState, session: Option<String>) -> Self {
        let weight = weight(&state);
        Self { session, state: Some(state), restoring: None, weight, made: 0 }
    }

    /// Whether `more` bytes still fit. As an estimate, all received bytes count as if they had been
    /// added to the state. If the estimate is too large, the state itself is measured.
    pub(super) fn has_room(&mut self, more: usize, most: usize) -> bool {
        if self.weight + more > most {
            self.measure();
        }
        self.weight + more <= most
    }

    /// Replaces the estimate of the size by the size of the state.
    pub(super) fn measure(&mut self) {
        self.weight = self.state.as_ref().map_or(0, weight);
    }

    /// Whether this is the channel that a client knew after action `seen`, and not a new channel
    /// with the same name.
    pub(super) fn is_known(&self, seen: Option<u64>) -> bool {
        seen.is_none_or(|seen| self.made <= seen) || defect!(NewTakenForOld)
    }

    pub(super) fn size(&self) -> Size {
        Size { is_chat: matches!(self.state, Some(SnapshotState::Chat(_))), weight: self.weight }
    }

    /// Creates a channel that is not in memory.
    pub(super) fn absent(session: Option<String>) -> Self {
        Self { session, state: None, restoring: None, weight: 0, made: 0 }
    }
}

fn resource_named(resource: &str) -> ProtectedResourceMetadata {
    let named = serde_json::json!({ "resource": resource });
    serde_json::from_value(named).expect("a resource needs no more than its name")
}
