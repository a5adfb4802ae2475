//! The replica of a channel: the state that the host confirmed, and the number of the last action
//! in it.
//!
//! The client's own unconfirmed actions are not part of it. They are applied on top for each
//! reader, so that undoing one only means to forget it.

use reknit_seams::defect;

use crate::state::apply;
use crate::wire::{ActionEnvelope, Snapshot, SnapshotState, weight};

/// A copy of a channel.
#[derive(Debug, Default)]
pub(super) struct Replica {
    number: u64,
    /// `None` until the first snapshot arrives.
    state: Option<SnapshotState>,
    /// The number of the last action in the state.
    as_of: u64,
    /// The number of bytes of actions since the snapshot.
    weight: usize,
}

impl Replica {
    /// Returns a copy without a state.
    pub(super) fn new(number: u64) -> Self {
        Self { number, ..Self::default() }
    }

    /// Returns its number among all replicas of the client.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the state that the host confirmed, if one has arrived.
    pub(super) fn confirmed(&self) -> Option<&SnapshotState> {
        self.state.as_ref()
    }

    /// Replaces the state by this snapshot.
    pub(super) fn reset_to(&mut self, snapshot: Snapshot) {
        self.as_of = u64::try_from(snapshot.from_seq).unwrap_or(0);
        self.weight = weight(&snapshot.state);
        self.state = Some(snapshot.state);
    }

    /// Whether the state is larger than `most` bytes. As an estimate, all received bytes count as
    /// if they had been added to the state. If the estimate is too large, the state itself is
    /// measured.
    pub(super) fn is_over(&mut self, most: usize) -> bool {
        if self.weight > most {
            self.weight = self.state.as_ref().map_or(0, weight);
        }
        self.weight > most
    }

    /// Applies an action, unless the state contains it already. Returns whether anything changed.
    pub(super) fn apply(&mut self, envelope: &ActionEnvelope) -> bool {
        let known = envelope.server_seq <= self.as_of && !defect!(AppliesTwice);
        let Some(state) = self.state.as_mut().filter(|_| !known) else { return false };
        self.as_of = envelope.server_seq;
        self.weight += weight(&envelope.action);
        apply(state, &envelope.action).ignored().is_none()
    }
}
