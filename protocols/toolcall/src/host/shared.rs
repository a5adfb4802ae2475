//! The state that the tasks of a host share.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard};

use super::HostCore;
use super::archive::Archive;
use crate::limits::HostLimits;

/// The core, behind a lock that is only held briefly, and its access to the outside.
pub(super) struct HostShared {
    core: Mutex<HostCore>,
    pub(super) limits: HostLimits,
    pub(super) archive: Arc<dyn Archive>,
    pub(super) connections: Arc<AtomicU64>,
}

impl HostShared {
    pub(super) fn new(core: HostCore, limits: HostLimits, archive: Arc<dyn Archive>) -> Self {
        Self { core: Mutex::new(core), limits, archive, connections: Arc::default() }
    }

    pub(super) fn core(&self) -> MutexGuard<'_, HostCore> {
        self.core.lock().expect("nothing panics under the lock")
    }
}
