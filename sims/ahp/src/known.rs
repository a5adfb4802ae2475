//! The channel state of a third-party client: snapshots, and the result of applying later actions
//! with its own reducers.

use std::collections::BTreeMap;

use ahp::reducers::{apply_action_to_chat, apply_action_to_session};
use ahp_types::ActionEnvelope;
use ahp_types::state::{Snapshot, SnapshotState};

/// The known state, by channel.
#[derive(Default)]
pub struct Known(BTreeMap<String, Channel>);

struct Channel {
    state: SnapshotState,
    /// The number of the last action in the state.
    seen: u64,
    /// Whether actions between the state and the next received one may be missing.
    is_stale: bool,
}

impl Known {
    /// Replaces the state of a channel by a snapshot.
    pub fn reset_to(&mut self, snapshot: Snapshot) {
        let as_of = u64::try_from(snapshot.from_seq).unwrap_or(0);
        self.0.insert(
            snapshot.resource,
            Channel { state: snapshot.state, seen: as_of, is_stale: false },
        );
    }

    /// Handles a lost connection: no action is applied to a channel until its next snapshot.
    pub fn freeze(&mut self) {
        self.0.values_mut().for_each(|channel| channel.is_stale = true);
    }

    /// Applies an action. Actions that the state contains already and rejected actions are ignored.
    pub fn apply(&mut self, envelope: &ActionEnvelope) {
        let Some(Channel { state, seen, is_stale: false }) = self.0.get_mut(&envelope.channel)
        else {
            return;
        };
        if envelope.server_seq <= *seen || envelope.rejection_reason.is_some() {
            return;
        }
        *seen = envelope.server_seq;
        match state {
            SnapshotState::Session(session) => {
                drop(apply_action_to_session(session, &envelope.action))
            }
            SnapshotState::Chat(chat) => drop(apply_action_to_chat(chat, &envelope.action)),
            _ => {}
        }
    }

    /// Returns the number of the last action in any channel.
    pub fn seen(&self) -> u64 {
        self.0.values().map(|known| known.seen).max().unwrap_or(0)
    }

    /// Returns the state of a channel.
    pub fn state(&self, channel: &str) -> Option<&SnapshotState> {
        self.0.get(channel).map(|known| &known.state)
    }

    /// Returns the states of all channels.
    pub fn all(&self) -> impl Iterator<Item = (&str, &SnapshotState)> {
        self.0.iter().map(|(channel, known)| (channel.as_str(), &known.state))
    }
}
