//! What is known of a channel: the state that the host confirmed, and up to which action.
//!
//! What this client did and the host did not confirm is not part of it: it is applied on top, for whoever looks, and so it is
//! taken back by being forgotten.

use reknit_seams::defect;

use crate::state::apply;
use crate::wire::{ActionEnvelope, Snapshot, SnapshotState, weight};

/// A copy of a channel.
#[derive(Debug, Default)]
pub(super) struct Replica {
    /// `None` until the first snapshot came.
    state: Option<SnapshotState>,
    /// The number of the last action that is in it.
    as_of: u64,
    /// How many bytes were said about it, since the snapshot.
    weight: usize,
}

impl Replica {
    /// The state that the host confirmed, if any came.
    pub(super) fn confirmed(&self) -> Option<&SnapshotState> {
        self.state.as_ref()
    }

    /// Things are as this snapshot says.
    pub(super) fn reseat(&mut self, snapshot: Snapshot) {
        self.as_of = u64::try_from(snapshot.from_seq).unwrap_or(0);
        self.weight = weight(&snapshot.state);
        self.state = Some(snapshot.state);
    }

    /// Whether it has more bytes than that. What was said is counted as if it had added to the state; where that is too much, the
    /// state is weighed.
    pub(super) fn is_over(&mut self, most: usize) -> bool {
        if self.weight > most {
            self.weight = self.state.as_ref().map_or(0, weight);
        }
        self.weight > most
    }

    /// Something happened, unless it is known already. Returns whether anything changed.
    pub(super) fn apply(&mut self, envelope: &ActionEnvelope) -> bool {
        let known = envelope.server_seq <= self.as_of && !defect!(AppliesTwice);
        let Some(state) = self.state.as_mut().filter(|_| !known) else { return false };
        self.as_of = envelope.server_seq;
        self.weight += weight(&envelope.action);
        apply(state, &envelope.action).ignored().is_none()
    }
}
