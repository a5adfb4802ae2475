//! The outcome of an action.

/// The outcome of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionOutcome {
    /// The action took effect.
    Applied,
    /// The action did not fit the state, for this reason, and changed nothing.
    Ignored(&'static str),
}

impl ActionOutcome {
    /// Returns why the action was ignored, if it was.
    pub fn ignored(self) -> Option<&'static str> {
        match self {
            Self::Applied => None,
            Self::Ignored(why) => Some(why),
        }
    }
}
