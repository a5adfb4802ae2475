//! Threads and turns.

use serde::{Deserialize, Serialize};

use super::item::Item;
use super::open::open_names;

/// A conversation: a sequence of turns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Thread {
    /// Its id. A message with an empty one is of no use.
    pub id: String,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// The thread whose agent started this one. `None` for the thread of a user, and from a server
    /// that is too old to report it.
    pub parent_thread_id: Option<String>,
    /// The name of the subagent that works on the thread.
    pub agent_nickname: Option<String>,
    /// The role of the subagent that works on the thread.
    pub agent_role: Option<String>,
    /// Whether the server forgets the thread when it ends.
    pub ephemeral: bool,
}

open_names! {
    /// Whether a turn runs on a thread.
    ThreadStatusKind {
        /// A turn runs.
        Active = "active",
        /// No turn runs.
        Idle = "idle",
        /// The thread is not in memory.
        NotLoaded = "notLoaded",
        /// The last turn failed.
        SystemError = "systemError",
    }
}

/// The status of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadStatus {
    /// Its kind.
    #[serde(rename = "type", default)]
    pub kind: ThreadStatusKind,
}

open_names! {
    /// The status of a turn.
    TurnStatus {
        /// It runs.
        InProgress = "inProgress",
        /// It is over: the agent finished.
        Completed = "completed",
        /// It is over: an error ended it.
        Failed = "failed",
        /// It is over: a client interrupted it.
        Interrupted = "interrupted",
    }
}

impl TurnStatus {
    /// Whether the turn is over.
    pub fn is_end(&self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Interrupted)
    }
}

/// A turn: an agent's work on one input.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Turn {
    /// Its id. Empty if the server left it out.
    pub id: String,
    /// The turn of the user that this turn works for, perhaps itself. A subagent's turn names the
    /// turn that started the subagent. `None` from a server that is too old to report it, and in the
    /// answer to `review/start`.
    pub root_turn_id: Option<String>,
    /// Its status.
    pub status: TurnStatus,
    /// Why it failed.
    pub error: Option<TurnError>,
    /// Some of its items. At the end of a turn, its last message.
    pub items: Vec<Item>,
}

impl Turn {
    /// Returns the id, if there is one.
    pub fn id(&self) -> Option<&str> {
        Some(self.id.as_str()).filter(|id| !id.is_empty())
    }

    /// Returns the id of the turn of the user that this turn works for, if the server reports it.
    pub fn root(&self) -> Option<&str> {
        self.root_turn_id.as_deref().filter(|id| !id.is_empty())
    }
}

/// An error that a turn met.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TurnError {
    /// The message for people.
    pub message: String,
    /// More of it.
    pub additional_details: Option<String>,
}
