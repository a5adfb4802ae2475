//! What became of an action.

/// What became of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionOutcome {
    /// It took effect.
    Applied,
    /// It fits nothing that is there, for this reason; nothing has changed.
    Ignored(&'static str),
}

impl ActionOutcome {
    /// Why it was ignored, if it was.
    pub fn ignored(self) -> Option<&'static str> {
        match self {
            Self::Applied => None,
            Self::Ignored(why) => Some(why),
        }
    }
}
