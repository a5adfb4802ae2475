//! Still turns: turns in which no task ran, no event was handled, and no task is ready.
//!
//! Such a turn has no notes, and no kernel has a packet to send. The engine does not end it: the driver
//! handles the next packets at once, without a park of the runtime.

use tokio::runtime::{Handle, RuntimeMetrics};

use crate::world::thread;

/// The activity since the end of the last turn.
#[derive(Default)]
pub(in crate::world) struct TurnActivity {
    /// Whether still turns are skipped.
    is_on: bool,
    /// Metrics of the runtime. They show whether tasks are ready.
    runtime: Option<RuntimeMetrics>,
    /// The number of polls up to the end of the last turn.
    polls: u64,
    acted: bool,
}

impl TurnActivity {
    /// Must be called inside the runtime.
    pub fn new(is_on: bool) -> Self {
        Self { is_on, runtime: Some(Handle::current().metrics()), polls: 0, acted: false }
    }

    /// Notes that the engine handled an event.
    pub fn act(&mut self) {
        self.acted = true;
    }

    /// Whether the engine has handled an event in this turn.
    pub fn has_acted(&self) -> bool {
        self.acted
    }

    /// Whether a task was polled in this turn.
    pub fn has_polled(&self) -> bool {
        self.polls != thread::polls()
    }

    /// Begins the next turn. Returns whether anything happened in the last one. If not, there are no
    /// notes or packets to collect.
    pub fn next_turn(&mut self) -> bool {
        let polled = self.has_polled();
        self.polls = thread::polls();
        std::mem::take(&mut self.acted) || polled || !self.is_on
    }

    /// Whether nothing has happened in this turn, and no task is ready. The end of the turn would then
    /// change nothing.
    pub fn is_still(&self) -> bool {
        let no_task_is_ready = || {
            self.runtime.as_ref().is_some_and(|runtime| runtime.worker_local_queue_depth(0) == 0)
        };
        self.is_on && !self.acted && !self.has_polled() && no_task_is_ready()
    }
}
