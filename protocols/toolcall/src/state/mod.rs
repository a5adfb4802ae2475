//! What an action makes of a session or a chat: one set of rules, which the host applies to what it owns, and a client to what it
//! has copied.
//!
//! Pure: a state, an action, an [`ActionOutcome`]. No rule knows who sent an action; that is the host's business. An action that does
//! not fit what is there changes nothing, and says why: at the host that is the reason with which it is refused.
//!
//! - [`call`]: the life of one tool call. [`chat`]: turns, and what stands in them. [`session`]: chats and active clients.

use super::wire::{SnapshotState, StateAction};

pub mod call;
pub mod chat;
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
