//! The requests that run for one session, over all its connections.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::request::Footprint;

/// The requests that run for one session, over all its connections: a request of a new connection
/// waits for those of the old one with which it conflicts.
#[derive(Default)]
pub(in super::super) struct RunningRequests {
    all: Mutex<Numbered>,
    /// Notified when one has ended.
    ended: Notify,
}

#[derive(Default)]
struct Numbered {
    footprints: BTreeMap<u64, Footprint>,
    newest: u64,
}

impl RunningRequests {
    fn all(&self) -> MutexGuard<'_, Numbered> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a running request must end before this one begins.
    pub(super) fn conflicts(&self, footprint: &Footprint) -> bool {
        self.all().footprints.values().any(|other| other.conflicts(footprint))
    }

    /// Returns the request that opens a handle.
    pub(super) fn opens(&self, handle: &str) -> Option<Footprint> {
        self.all().footprints.values().rev().find(|other| other.opens(handle)).cloned()
    }

    /// Adds a request, until the result is dropped.
    pub(super) fn begin(self: &Arc<Self>, footprint: Footprint) -> Running {
        let mut all = self.all();
        all.newest += 1;
        let number = all.newest;
        all.footprints.insert(number, footprint);
        Running { all: self.clone(), number }
    }

    /// Completes when a request has ended after this call.
    pub(super) fn one_ended(&self) -> Notified<'_> {
        self.ended.notified()
    }
}

/// One of the running requests, until dropped.
pub(super) struct Running {
    all: Arc<RunningRequests>,
    number: u64,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.all.all().footprints.remove(&self.number);
        self.all.ended.notify_waiters();
    }
}
