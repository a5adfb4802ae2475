//! A channel: what there is to subscribe to.

use reknit_seams::defect;
use tokio::time::Instant;

use super::outside::HostIdentity;
use crate::wire::ahp::state::{AgentInfo, ProtectedResourceMetadata, RootState};
use crate::wire::{SnapshotState, weight};

/// Something to subscribe to.
pub(super) struct Channel {
    /// Of a chat: its session.
    pub(super) session: Option<String>,
    /// `None` while it is not in memory.
    pub(super) state: Option<SnapshotState>,
    /// The restore that is under way.
    pub(super) restoring: Option<Restoring>,
    /// How many bytes its state has, at most and about.
    pub(super) weight: usize,
    /// The action with which it was made, in this life of the host. Who has not seen that much knew another one of its name.
    pub(super) made: u64,
}

/// A restore that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Restoring {
    /// What tells it from others of the same channel, which came to nothing.
    pub(super) number: u64,
    /// How long it may take.
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

    /// Whether there is room for so much more. What was said is counted as if it had added to the state; where that is too much, the
    /// state is weighed.
    pub(super) fn has_room(&mut self, more: usize, most: usize) -> bool {
        if self.weight + more > most {
            self.weight = self.state.as_ref().map_or(0, weight);
        }
        self.weight + more <= most
    }

    /// Whether it is the one that somebody knew who has seen that much, and not one that was made anew under its name.
    pub(super) fn is_known(&self, seen: Option<u64>) -> bool {
        seen.is_none_or(|seen| self.made <= seen) || defect!(NewTakenForOld)
    }

    /// One that is not in memory.
    pub(super) fn absent(session: Option<String>) -> Self {
        Self { session, state: None, restoring: None, weight: 0, made: 0 }
    }
}

fn resource_named(resource: &str) -> ProtectedResourceMetadata {
    let named = serde_json::json!({ "resource": resource });
    serde_json::from_value(named).expect("a resource needs no more than its name")
}
