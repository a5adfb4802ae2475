//! The reducers for sessions and chats: one set of rules, which the host applies to its own state
//! and each client to its copy.
//!
//! The rules are pure: they take a state and an action, and return an [`ActionOutcome`]. They
//! ignore the sender of an action; the host checks the sender. An action that does not fit the
//! state changes nothing and returns a reason. The host refuses the action with that reason.
//!
//! - [`call`]: the lifecycle of one tool call. [`chat`]: turns, and their response parts.
//!   [`session`]: chats and active clients. `defects`: what only seeded bugs do.

use super::wire::{SnapshotState, StateAction};

pub mod call;
pub mod chat;
pub(crate) mod defects;
mod outcome;
pub mod session;

#[cfg(test)]
mod tests;

pub use outcome::ActionOutcome;

/// Applies an action to the state of a channel.
pub fn apply(state: &mut SnapshotState, action: &StateAction) -> ActionOutcome {
    match (state, action) {
        (SnapshotState::Session(session), action) => session::apply(session, action),
        (SnapshotState::Chat(chat), action) => chat::apply(chat, action),
        (SnapshotState::Root(root), StateAction::RootActiveSessionsChanged(changed)) => {
            root.active_sessions = Some(changed.active_sessions);
            ActionOutcome::Applied
        }
        _ => ActionOutcome::Ignored("not supported here"),
    }
}
