//! What a server holds, counted: for an operator, and for whoever looks for what was left behind.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use super::process::{Process, Stage};
use super::registry::Shared;
use super::session::Session;

/// What a server holds. All of it is 0 when nobody has been there for a while, or when the server is gone.
#[derive(Clone)]
pub struct Census(Weak<Shared>);

impl Census {
    pub(super) fn of(shared: &Arc<Shared>) -> Self {
        Self(Arc::downgrade(shared))
    }

    fn sessions_by(&self, count: impl Fn(&Session) -> u64) -> Vec<u64> {
        let Some(shared) = self.0.upgrade() else { return Vec::new() };
        let kept: Vec<_> = shared.sessions().values().cloned().collect();
        kept.iter().map(|kept| count(&kept.core())).collect()
    }

    fn sum(&self, of: impl Fn(&Process) -> u64) -> u64 {
        self.sessions_by(|session| session.processes().map(|(_, process)| of(process)).sum()).iter().sum()
    }

    fn most(&self, of: impl Fn(&Process) -> u64) -> u64 {
        let most = self.sessions_by(|session| session.processes().map(|(_, process)| of(process)).max().unwrap_or(0));
        most.into_iter().max().unwrap_or(0)
    }

    /// Sessions.
    pub fn sessions(&self) -> u64 {
        self.sessions_by(|_| 1).iter().sum()
    }

    /// Sessions that wait for a connection; for each there is a time at which it is over.
    pub fn detached(&self) -> u64 {
        self.sessions_by(|session| u64::from(session.attached_by().is_none())).iter().sum()
    }

    /// Connections that were accepted and are not over.
    pub fn connections(&self) -> u64 {
        self.0.upgrade().map_or(0, |shared| shared.connections.load(Ordering::Relaxed))
    }

    /// HTTP requests that are under way.
    pub fn http_requests(&self) -> u64 {
        self.0.upgrade().map_or(0, |shared| shared.http_requests.load(Ordering::Relaxed))
    }

    /// Processes that are known, closed ones included.
    pub fn processes(&self) -> u64 {
        self.sum(|_| 1)
    }

    /// Processes that are not closed.
    pub fn open_processes(&self) -> u64 {
        self.sum(|process| u64::from(!process.closed()))
    }

    /// Processes that are being launched.
    pub fn starting(&self) -> u64 {
        self.sum(|process| u64::from(process.stage == Stage::Starting))
    }

    /// Bytes of output that are kept of the process of which most are.
    pub fn most_retained_bytes(&self) -> u64 {
        self.most(|process| process.log.bytes() as u64)
    }

    /// Chunks of output that are kept of the process of which most are.
    pub fn most_retained_chunks(&self) -> u64 {
        self.most(|process| process.log.chunks() as u64)
    }

    /// Bytes that wait for the standard input of the process for which most do.
    pub fn most_waiting_input(&self) -> u64 {
        self.most(|process| process.stdin.waiting() as u64)
    }
}
