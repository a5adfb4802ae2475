//! The state that the tasks of a broker share.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reknit_seams::defect;

use super::core::BrokerCore;
use crate::limits::BrokerLimits;

/// The state that the tasks of a broker share.
pub(super) struct BrokerShared {
    core: Mutex<BrokerCore>,
    pub limits: BrokerLimits,
}

impl BrokerShared {
    pub fn new(core: BrokerCore, limits: BrokerLimits) -> Self {
        Self { core: Mutex::new(core), limits }
    }

    /// Returns how long the last messages to a client may take.
    pub fn linger(&self) -> Duration {
        // The bug: the broker waits until each client has closed its end.
        match defect!(WaitsForOpenClients) {
            true => Duration::from_secs(u64::from(u32::MAX)),
            false => self.limits.linger,
        }
    }

    pub fn core(&self) -> MutexGuard<'_, BrokerCore> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
