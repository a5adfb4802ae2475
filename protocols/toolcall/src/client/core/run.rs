//! A call that this client runs.

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    /// The chat.
    pub chat: String,
    /// The turn in it.
    pub turn: String,
    /// The call in that.
    pub call: String,
    /// The tool.
    pub tool: String,
    /// What it is called with; JSON, as a rule.
    pub input: String,
}

/// How far a call has come here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Running {
    /// Somebody works at it.
    Works,
    /// It has a result, of which the host was told.
    Told,
}

/// What tells calls apart: the chat, the turn, the call.
pub type Key = (String, String, String);

impl Run {
    /// What tells it apart.
    pub fn key(&self) -> Key {
        (self.chat.clone(), self.turn.clone(), self.call.clone())
    }
}
