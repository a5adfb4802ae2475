//! A call that this client runs.

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    /// The chat.
    pub chat: String,
    /// The turn in the chat.
    pub turn: String,
    /// The call in the turn.
    pub call: String,
    /// The tool.
    pub tool: String,
    /// The input; usually JSON.
    pub input: String,
}

/// The local progress of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Running {
    /// The tool is running.
    Works,
    /// The call has a result, and the client has sent it to the host.
    Told,
}

/// Identifies a call: the chat, the turn, the call.
pub type Key = (String, String, String);

impl Run {
    /// Returns the key of the call.
    pub fn key(&self) -> Key {
        (self.chat.clone(), self.turn.clone(), self.call.clone())
    }
}
