//! State that only seeded bugs use. Without a seeded bug, no behavior depends on it.

use reknit_seams::defect;

use super::command::Call;
use crate::wire::{Message, method};

/// The state of the core.
#[derive(Default)]
pub(super) struct CoreDefects {
    /// Calls registered with a connection that was already over, for `CallAfterDrain`.
    pub(super) leaked_calls: Vec<Call>,
    /// Starts that stay counted as in flight, for `StartCountLeaks`.
    pub(super) leaked_starts: u32,
}

/// The state of a process.
#[derive(Default)]
pub(super) struct ProcessDefects {
    /// The greatest number that arrived live, for `CatchesUpFromReceived`.
    pub(super) received: u64,
}

/// The state of an installed connection.
#[derive(Default)]
pub(super) struct ConnectionDefects {
    /// Whether the core ignores the end of the connection, for `InstallsTheDead`.
    pub(super) is_dead: bool,
}

/// The state of the task of a connection.
#[derive(Default)]
pub(super) struct TaskDefects {
    notifications: usize,
    initialized: bool,
}

impl TaskDefects {
    /// Notes that a message was received.
    pub(super) fn received(&mut self, message: &Message) {
        match message {
            Message::Notification { method, .. } if method != method::HTTP_BODY => {
                self.notifications += 1;
            }
            Message::Response { .. } => self.initialized = true,
            _ => {}
        }
    }

    /// The defect `ConsumerAfterHandshake`: a client that consumes notifications from a queue of `most`
    /// only after the handshake.
    pub(super) fn is_stuck(&self, most: usize) -> bool {
        defect!(ConsumerAfterHandshake) && !self.initialized && self.notifications >= most
    }
}
