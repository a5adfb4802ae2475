//! State that only seeded bugs use. Without a seeded bug, no behavior depends on it.

use reknit_seams::defect;

use super::command::Call;
use crate::wire::{DirectoryForm, Message, method};

/// The state of the core.
#[derive(Default)]
pub(super) struct CoreDefects {
    /// Calls registered with a connection that was already over, for `CallAfterDrain`.
    pub(super) leaked_calls: Vec<Call>,
    /// Starts that stay counted as in flight, for `StartCountLeaks`.
    pub(super) leaked_starts: u32,
    /// The form of directories of the first server, for `FirstFormKept`.
    first_form: Option<DirectoryForm>,
}

impl CoreDefects {
    /// Returns the form of directories for a new connection, whose server reads this form. With the
    /// defect `FirstFormKept`, it is that of the first connection.
    pub(super) fn directories(&mut self, form: DirectoryForm) -> DirectoryForm {
        let first = *self.first_form.get_or_insert(form);
        if defect!(FirstFormKept) { first } else { form }
    }
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
