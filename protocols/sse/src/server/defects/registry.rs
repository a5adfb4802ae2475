//! What seeded bugs need of the commands of a server.

use std::sync::Arc;

use tokio::time::Instant;

use super::Running;
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
