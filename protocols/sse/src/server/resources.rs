//! Counts of what a server holds, to detect leaks.

use std::sync::{Arc, Weak};

use super::shared::Shared;

/// A handle to the counts. It does not keep the server alive.
#[derive(Clone)]
pub struct ServerResources(Weak<Shared>);

/// The resources that a server holds at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Open connections.
    pub connections: usize,
    /// Commands with a log.
    pub commands: usize,
    /// Those of them that run.
    pub running: usize,
    /// Commands with a stream.
    pub streams: usize,
    /// The bytes of all logs.
    pub log_bytes: usize,
}

impl ServerResources {
    pub(super) fn of(shared: &Arc<Shared>) -> Self {
        Self(Arc::downgrade(shared))
    }

    /// Returns the counts; all are zero after the end of the server.
    pub fn counts(&self) -> Counts {
        let Some(shared) = self.0.upgrade() else { return Counts::default() };
        let registry = shared.registry();
        let (streams, log_bytes) = registry.census();
        Counts {
            connections: shared.links().len(),
            commands: registry.len(),
            running: registry.running(),
            streams,
            log_bytes,
        }
    }
}
