//! The outputs of a capture, except its verdict.

use super::input::Raw;
use crate::wire::Item;

/// An effect of a capture.
#[derive(Clone, Debug)]
pub enum Output {
    /// Interrupt the turn. Comes at most once.
    Interrupt(Interrupt),
    /// News for a log.
    Progress(Progress),
    /// A notification that does not belong to this turn.
    Foreign(Raw),
}

/// The turn to interrupt, for `turn/interrupt`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interrupt {
    /// The thread.
    pub thread: String,
    /// The turn. `None` if its id never came. The app-server 0.169.0 then takes the empty id: it
    /// interrupts the turn that runs on the thread.
    pub turn: Option<String>,
}

/// News of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The turn has an id.
    Started {
        /// The thread.
        thread: String,
        /// The turn.
        turn: String,
    },
    /// The agent does something else than before.
    Phase(Phase),
    /// A thread of the turn has a name.
    Named {
        /// The thread.
        thread: String,
        /// The name.
        name: String,
    },
    /// The turn has a subagent.
    Subagent {
        /// The thread of the subagent.
        thread: String,
    },
    /// An item started.
    ItemStarted {
        /// The thread.
        thread: String,
        /// The item.
        item: Item,
    },
    /// An item is complete.
    ItemCompleted {
        /// The thread.
        thread: String,
        /// The item.
        item: Item,
    },
    /// The server met an error.
    Error {
        /// The thread.
        thread: String,
        /// The message.
        message: String,
        /// Whether the server tries again.
        will_retry: bool,
    },
    /// The server sent a line without a readable message.
    Unreadable,
    /// The user cancelled the turn, and it has not ended yet.
    Cancelling,
}

/// The current work of the agent of the main thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The server has not answered the start request.
    Starting,
    /// The agent thinks, reads, or searches.
    Investigating,
    /// A command or a tool runs.
    Running,
    /// Files change.
    Editing,
    /// Subagents work.
    Delegating,
    /// A review is on.
    Reviewing,
    /// The answer is there.
    Finalizing,
}

impl Phase {
    /// The name for records and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Investigating => "investigating",
            Self::Running => "running",
            Self::Editing => "editing",
            Self::Delegating => "delegating",
            Self::Reviewing => "reviewing",
            Self::Finalizing => "finalizing",
        }
    }

    /// The phase that begins with an item of the main thread, if one does.
    pub(super) fn of(item: &Item) -> Option<Self> {
        match item {
            Item::Reasoning { .. } | Item::WebSearch { .. } | Item::Plan { .. } => {
                Some(Self::Investigating)
            }
            Item::CommandExecution { .. }
            | Item::McpToolCall { .. }
            | Item::DynamicToolCall { .. } => Some(Self::Running),
            Item::FileChange { .. } => Some(Self::Editing),
            Item::CollabAgentToolCall { .. } | Item::SubAgentActivity { .. } => {
                Some(Self::Delegating)
            }
            Item::EnteredReviewMode { .. } => Some(Self::Reviewing),
            _ => None,
        }
    }
}
