//! The configuration of a host, and its effects for the driver.

use std::collections::BTreeMap;

use crate::wire::SnapshotState;

/// The identity of a host, without its limits.
#[derive(Clone, Debug)]
pub struct HostIdentity {
    /// The name of this incarnation of the host.
    pub epoch: String,
    /// The name of its only kind of agent.
    pub provider: String,
    /// The valid tokens, by resource. If there are any, only a client that sent them may start a
    /// turn.
    pub tokens: BTreeMap<String, String>,
}

/// An effect for the driver to carry out.
#[derive(Debug)]
pub enum HostEffect {
    /// Restores a channel. The driver reports the result to
    /// [`HostCore::restored`](super::HostCore::restored), with this number.
    Restore(String, u64),
    /// Saves a channel to the archive.
    Save(String, Box<Stored>),
    /// Deletes a channel that was removed from the archive.
    Forget(String),
    /// Starts an agent for a new turn.
    Begin {
        /// The chat.
        chat: String,
        /// The turn in the chat.
        turn: String,
        /// The user's message.
        text: String,
        /// The client that started the turn.
        client: Option<String>,
    },
    /// Stops the agent of a turn that is over.
    Stop {
        /// The chat.
        chat: String,
        /// The turn in the chat.
        turn: String,
    },
}

/// A channel as the archive stores it.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// For a chat: its session.
    pub session: Option<String>,
    /// Its state, without work in progress and without active clients.
    pub state: SnapshotState,
}
