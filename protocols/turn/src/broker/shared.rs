//! The state that the tasks of a broker share.

use std::sync::{Mutex, MutexGuard, PoisonError};

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

    pub fn core(&self) -> MutexGuard<'_, BrokerCore> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
