//! What a host is made of, and what it asks of the outside.

use std::collections::BTreeMap;

use crate::wire::SnapshotState;

/// What a host is, besides its limits.
#[derive(Clone, Debug)]
pub struct HostIdentity {
    /// The name of this life of the host.
    pub epoch: String,
    /// The name of its one kind of agent.
    pub provider: String,
    /// The tokens that are good, by resource. Where there are any, turns are only for clients that handed one over.
    pub tokens: BTreeMap<String, String>,
}

/// What is to be done outside.
#[derive(Debug)]
pub enum HostEffect {
    /// A channel is to be restored; [`Core::restored`](super::HostCore::restored) wants to hear of it, with this number.
    Restore(String, u64),
    /// A channel is to be kept, for a restore.
    Save(String, Box<Stored>),
    /// A channel is gone, and nothing of it is to be kept.
    Forget(String),
    /// A turn began: an agent is to work.
    Begin {
        /// The chat.
        chat: String,
        /// The turn in it.
        turn: String,
        /// What the user said.
        text: String,
        /// Who said it.
        client: Option<String>,
    },
    /// A turn is over: no agent is to work at it any more.
    Stop {
        /// The chat.
        chat: String,
        /// The turn in it.
        turn: String,
    },
}

/// A channel as it is kept outside of memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// Of a chat: its session.
    pub session: Option<String>,
    /// What it is like, with nothing under way, and nobody active.
    pub state: SnapshotState,
}
