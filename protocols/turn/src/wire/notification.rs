//! The notifications of the server about threads and turns.

use reknit_seams::defect;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::item::Item;
use super::method;
use super::thread::{Thread, ThreadStatus, Turn, TurnError};

/// The thread and the turn that a notification is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Scope {
    /// The thread. `None` if the notification is about the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// The turn. `None` if the notification is about the thread or the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
}

/// A notification of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notification {
    /// A thread exists. The server need not report the thread of a subagent.
    ThreadStarted(Thread),
    /// A thread has a name.
    ThreadNameUpdated {
        /// The thread.
        thread: String,
        /// Its name. `None` if it has none any more.
        name: Option<String>,
    },
    /// A thread became active or idle.
    ThreadStatusChanged {
        /// The thread.
        thread: String,
        /// Its status.
        status: ThreadStatus,
    },
    /// The server unloaded a thread.
    ThreadClosed {
        /// The thread.
        thread: String,
    },
    /// A turn started. In a review, the turn has another id than in the answer to `review/start`,
    /// which is its root.
    TurnStarted {
        /// The thread.
        thread: String,
        /// The turn.
        turn: Turn,
    },
    /// A turn is over.
    TurnCompleted {
        /// The thread.
        thread: String,
        /// The turn.
        turn: Turn,
    },
    /// An item of a turn started.
    ItemStarted {
        /// The thread and the turn.
        scope: Scope,
        /// The item.
        item: Item,
    },
    /// An item of a turn is complete. In a review, and in a turn that is interrupted, some items
    /// that started are never completed.
    ItemCompleted {
        /// The thread and the turn.
        scope: Scope,
        /// The item.
        item: Item,
    },
    /// A turn met an error.
    Error {
        /// The thread and the turn.
        scope: Scope,
        /// The error.
        error: TurnError,
        /// Whether the server tries again. If not, `turn/completed` should follow. If the
        /// field is missing, it does not.
        will_retry: bool,
    },
    /// A notification that this version does not read.
    Other {
        /// The thread and the turn, if the notification names them.
        scope: Scope,
        /// The method.
        method: String,
    },
}

/// The parameters of all notifications above. A notification leaves out the others.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    #[serde(default)]
    thread_id: Option<String>,
    #[serde(default)]
    turn_id: Option<String>,
    #[serde(default)]
    thread: Option<Thread>,
    #[serde(default)]
    thread_name: Option<String>,
    #[serde(default)]
    status: Option<ThreadStatus>,
    #[serde(default)]
    turn: Option<Turn>,
    #[serde(default)]
    item: Option<Item>,
    #[serde(default)]
    error: Option<TurnError>,
    #[serde(default)]
    will_retry: bool,
}

impl Notification {
    /// Parses a notification.
    ///
    /// # Errors
    /// The error of serde, if this version reads the method, and a field of the parameters has
    /// another type than it must have, or the turn, thread or item of the method is missing. And an
    /// error if an id is longer than [`LONGEST_ID`](super::LONGEST_ID).
    pub fn parse(method: &str, params: Option<&RawValue>) -> Result<Self, serde_json::Error> {
        let notification = Self::parse_any(method, params)?;
        let is_long = |id: &str| id.len() > super::LONGEST_ID && !defect!(LongIdsAreRead);
        if notification.ids().into_iter().flatten().any(is_long) {
            return Err(serde::de::Error::custom("an id is too long"));
        }
        Ok(notification)
    }

    fn parse_any(method: &str, params: Option<&RawValue>) -> Result<Self, serde_json::Error> {
        if !is_read(method) {
            let scope = reknit_jsonrpc::read(params).unwrap_or_default();
            return Ok(Self::Other { scope, method: method.to_owned() });
        }
        let Params {
            thread_id,
            turn_id,
            thread,
            thread_name,
            status,
            turn,
            item,
            error,
            will_retry,
        } = reknit_jsonrpc::read(params)?;
        let missing = |name| <serde_json::Error as serde::de::Error>::missing_field(name);
        let scope = Scope { thread_id: thread_id.clone(), turn_id };
        let id = thread_id.unwrap_or_default();
        Ok(match method {
            method::THREAD_STARTED => Self::ThreadStarted(thread.ok_or_else(|| missing("thread"))?),
            method::THREAD_NAME_UPDATED => {
                Self::ThreadNameUpdated { thread: id, name: thread_name }
            }
            method::THREAD_STATUS_CHANGED => {
                Self::ThreadStatusChanged { thread: id, status: status.unwrap_or_default() }
            }
            method::THREAD_CLOSED => Self::ThreadClosed { thread: id },
            method::TURN_STARTED => {
                Self::TurnStarted { thread: id, turn: turn.ok_or_else(|| missing("turn"))? }
            }
            method::TURN_COMPLETED => {
                Self::TurnCompleted { thread: id, turn: turn.ok_or_else(|| missing("turn"))? }
            }
            method::ITEM_STARTED => {
                Self::ItemStarted { scope, item: item.ok_or_else(|| missing("item"))? }
            }
            method::ITEM_COMPLETED => {
                Self::ItemCompleted { scope, item: item.ok_or_else(|| missing("item"))? }
            }
            _ => Self::Error { scope, error: error.unwrap_or_default(), will_retry },
        })
    }

    /// Returns its ids, except those that an item names.
    fn ids(&self) -> [Option<&str>; 4] {
        let (root, other) = match self {
            Self::ThreadStarted(thread) => (None, thread.parent_thread_id.as_deref()),
            Self::TurnStarted { turn, .. } | Self::TurnCompleted { turn, .. } => {
                (turn.root(), None)
            }
            Self::ItemStarted { item, .. } | Self::ItemCompleted { item, .. } => {
                (None, Some(item.id()))
            }
            _ => (None, None),
        };
        [self.thread(), self.turn(), root, other]
    }

    /// Returns the thread that the notification is about, if it is about one.
    pub fn thread(&self) -> Option<&str> {
        let thread = match self {
            Self::ThreadStarted(thread) => Some(&thread.id),
            Self::ThreadNameUpdated { thread, .. }
            | Self::ThreadStatusChanged { thread, .. }
            | Self::ThreadClosed { thread }
            | Self::TurnStarted { thread, .. }
            | Self::TurnCompleted { thread, .. } => Some(thread),
            Self::ItemStarted { scope, .. }
            | Self::ItemCompleted { scope, .. }
            | Self::Error { scope, .. }
            | Self::Other { scope, .. } => scope.thread_id.as_ref(),
        };
        thread.map(String::as_str).filter(|thread| !thread.is_empty())
    }

    /// Returns the turn that the notification is about, if it is about one.
    pub fn turn(&self) -> Option<&str> {
        match self {
            Self::TurnStarted { turn, .. } | Self::TurnCompleted { turn, .. } => turn.id(),
            Self::ItemStarted { scope, .. }
            | Self::ItemCompleted { scope, .. }
            | Self::Error { scope, .. }
            | Self::Other { scope, .. } => scope.turn_id.as_deref().filter(|turn| !turn.is_empty()),
            Self::ThreadStarted(_)
            | Self::ThreadNameUpdated { .. }
            | Self::ThreadStatusChanged { .. }
            | Self::ThreadClosed { .. } => None,
        }
    }
}

/// Whether this version reads the content of a notification.
fn is_read(method: &str) -> bool {
    matches!(
        method,
        method::THREAD_STARTED
            | method::THREAD_NAME_UPDATED
            | method::THREAD_STATUS_CHANGED
            | method::THREAD_CLOSED
            | method::TURN_STARTED
            | method::TURN_COMPLETED
            | method::ITEM_STARTED
            | method::ITEM_COMPLETED
            | method::ERROR
    )
}
