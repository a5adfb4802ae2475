//! The session family: the handshake of a connection.

use serde::{Deserialize, Serialize};

/// The parameters of `initialize`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeParams {
    /// Who asks, for a log.
    pub client_name: String,
    /// The session to go on with; a new one where none is given.
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
