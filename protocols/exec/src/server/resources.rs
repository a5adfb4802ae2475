//! What a server holds, counted: for an operator, and for whoever looks for what was left behind.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use super::process::{ProcessStage, RetainedProcess};
use super::registry::Shared;

/// Asks a server what it holds, and does not keep it.
#[derive(Clone)]
pub struct ServerResources(Weak<Shared>);

/// The counts of one moment. All of them are 0 when nobody has been there for a while, or when the server is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Sessions.
    pub sessions: u64,
    /// Sessions that wait for a connection; for each there is a time at which it is over.
    pub detached: u64,
    /// Connections that were accepted and are not over.
    pub connections: u64,
    /// HTTP requests that are under way.
    pub http_requests: u64,
    /// Processes that are known, closed ones included.
    pub processes: u64,
    /// Processes that are not closed.
    pub open_processes: u64,
    /// Processes that are being launched.
    pub starting: u64,
    /// Bytes of output that are kept of the process of which most are.
    pub most_retained_bytes: u64,
    /// Chunks of output that are kept of the process of which most are.
    pub most_retained_chunks: u64,
    /// Bytes that wait for the standard input of the process for which most do.
    pub most_waiting_input: u64,
}

impl ServerResources {
    pub(super) fn of(shared: &Arc<Shared>) -> Self {
        Self(Arc::downgrade(shared))
    }

    /// What there is now.
    pub fn counts(&self) -> Counts {
        let Some(shared) = self.0.upgrade() else { return Counts::default() };
        let mut counts = Counts {
            connections: shared.connections.load(Ordering::Relaxed),
            http_requests: shared.http_requests.load(Ordering::Relaxed),
            ..Counts::default()
        };
        let kept: Vec<_> = shared.sessions().values().cloned().collect();
        for session in kept {
            let session = session.core();
            counts.sessions += 1;
            counts.detached += u64::from(session.attached_by().is_none());
            session.processes().for_each(|(_, process)| counts.add(process));
        }
        counts
    }
}

impl Counts {
    fn add(&mut self, process: &RetainedProcess) {
        let most = |so_far: &mut u64, here: usize| *so_far = (*so_far).max(here as u64);
        self.processes += 1;
        self.open_processes += u64::from(!process.closed());
        self.starting += u64::from(process.stage == ProcessStage::Starting);
        most(&mut self.most_retained_bytes, process.log.bytes());
        most(&mut self.most_retained_chunks, process.log.chunks());
        most(&mut self.most_waiting_input, process.stdin.waiting());
    }
}
