//! What a client that is not ours knows of channels: snapshots, and what its own reducers make of the actions that follow.

use std::collections::BTreeMap;

use ahp::reducers::{apply_action_to_chat, apply_action_to_session};
use ahp_types::ActionEnvelope;
use ahp_types::state::{Snapshot, SnapshotState};

/// What is known, by channel.
#[derive(Default)]
pub struct Known(BTreeMap<String, Channel>);

struct Channel {
    state: SnapshotState,
    /// The number of the last action in it.
    seen: u64,
    /// Whether there may be actions between it and the next one that comes.
    is_stale: bool,
}

impl Known {
    /// A channel is like this, as of its number.
    pub fn reseat(&mut self, snapshot: Snapshot) {
        let as_of = u64::try_from(snapshot.from_seq).unwrap_or(0);
        self.0.insert(
            snapshot.resource,
            Channel { state: snapshot.state, seen: as_of, is_stale: false },
        );
    }

    /// The connection was lost: until a channel is reseated, nothing is applied to it.
    pub fn freeze(&mut self) {
        self.0.values_mut().for_each(|channel| channel.is_stale = true);
    }

    /// Something happened. What is known already is not applied again, and what was refused did not happen.
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

    /// The number of the last action in any channel.
    pub fn seen(&self) -> u64 {
        self.0.values().map(|known| known.seen).max().unwrap_or(0)
    }

    /// What a channel is like.
    pub fn state(&self, channel: &str) -> Option<&SnapshotState> {
        self.0.get(channel).map(|known| &known.state)
    }

    /// What all channels are like.
    pub fn all(&self) -> impl Iterator<Item = (&str, &SnapshotState)> {
        self.0.iter().map(|(channel, known)| (channel.as_str(), &known.state))
    }
}
