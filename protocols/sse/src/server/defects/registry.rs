//! The state and code of seeded bugs that affect the commands of a server.

use std::sync::Arc;

use tokio::time::Instant;

use super::{Registry, Running};
use crate::wire::CommandId;

/// The state of all commands that only seeded bugs have.
#[derive(Default)]
pub(super) struct RegistryDefects {
    /// Commands whose logs are never dropped.
    pub(super) leaked: Vec<Arc<Running>>,
}

/// Lets all logs go when the newest of them goes.
pub(super) fn end_together(ended: &mut [(Instant, CommandId, usize)]) {
    let Some(newest) = ended.iter().map(|(at, ..)| *at).max() else { return };
    ended.iter_mut().for_each(|(at, ..)| *at = newest);
}

impl Registry {
    /// Returns how many commands run that belong to no shell session.
    pub(super) fn free(&self) -> usize {
        let runs = |running: &&Arc<Running>| {
            let command = running.command();
            command.runs() && !command.is_bound()
        };
        self.commands.values().filter(runs).count()
    }

    /// Returns how many bytes the logs of running commands hold.
    pub(super) fn running_bytes(&self) -> usize {
        let of = |running: &Arc<Running>| {
            let command = running.command();
            if command.runs() { command.log.weight() } else { 0 }
        };
        self.commands.values().map(of).sum()
    }
}
