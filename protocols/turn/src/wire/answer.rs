//! The answers to requests. `thread/name/set`, `turn/interrupt` and `broker/shutdown` are answered
//! with an empty object.

use serde::{Deserialize, Serialize};

use super::thread::{Thread, Turn};

/// The answer to `initialize`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InitializeAnswer {
    /// The name and version of the server.
    pub user_agent: String,
}

/// The answer to `thread/start` and `thread/resume`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ThreadAnswer {
    /// The thread. Without an id, the client cannot start a turn.
    pub thread: Thread,
}

/// The answer to `turn/start` and `review/start`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StartAnswer {
    /// The turn.
    pub turn: Turn,
    /// The thread on which a review runs. `None` for other turns. If it is missing for a review, the
    /// review runs on the thread of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub review_thread_id: Option<String>,
}
