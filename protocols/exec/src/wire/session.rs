//! The session family: the handshake of a connection.

use serde::{Deserialize, Serialize};

/// The parameters of `initialize`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeParams {
    /// The name of the client, for logs.
    pub client_name: String,
    /// The session to resume; without it, the server opens a new session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_session_id: Option<String>,
}

/// The result of `initialize`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeResult {
    /// The session that the connection is attached to.
    pub session_id: String,
}

/// The parameters of `initialized`: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Initialized {}
