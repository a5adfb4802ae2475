//! The server's resource counts, for operators and for leak checks.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use super::process::{ProcessStage, RetainedProcess};
use super::registry::Shared;

/// A handle to a server's resource counts. It does not keep the server alive.
#[derive(Clone)]
pub struct ServerResources(Weak<Shared>);

/// The counts at one moment. All counts are 0 after the server has ended, or when it has had no
/// client for a while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Sessions.
    pub sessions: u64,
    /// Sessions without a connection; each has an expiry time.
    pub detached: u64,
    /// Accepted connections that have not ended.
    pub connections: u64,
    /// HTTP requests in progress.
    pub http_requests: u64,
    /// Requests for files in progress.
    pub file_requests: u64,
    /// Open files.
    pub file_handles: u64,
    /// Processes that the server keeps, including closed ones.
    pub processes: u64,
    /// Processes that are not closed.
    pub open_processes: u64,
    /// Processes that are being launched.
    pub starting: u64,
    /// Retained bytes of output: the maximum over all processes.
    pub most_retained_bytes: u64,
    /// Retained chunks of output: the maximum over all processes.
    pub most_retained_chunks: u64,
    /// Bytes that wait for a standard input, if they are of more than one write: the maximum over all
    /// processes.
    pub most_waiting_input: u64,
    /// Remembered ids of writes: the maximum over all processes.
    pub most_write_ids: u64,
    /// Events that wait to be sent: the maximum over all processes.
    pub most_unsent_events: u64,
}

impl ServerResources {
    pub(super) fn of(shared: &Arc<Shared>) -> Self {
        Self(Arc::downgrade(shared))
    }

    /// Returns the current counts.
    pub fn counts(&self) -> Counts {
        let Some(shared) = self.0.upgrade() else { return Counts::default() };
        let mut counts = Counts {
            connections: shared.connections.load(Ordering::Relaxed),
            http_requests: shared.http_requests.load(Ordering::Relaxed),
            file_requests: shared.file_requests.load(Ordering::Relaxed),
            file_handles: shared.file_handles.load(Ordering::Relaxed),
            ..Counts::default()
        };
        let kept: Vec<_> = shared.sessions().values().cloned().collect();
        for session in kept {
            let session = session.core();
            counts.sessions += 1;
            counts.detached += u64::from(session.attached_by().is_none());
            session.processes().for_each(|(_, process)| counts.add(process));
            counts.most_unsent_events = counts.most_unsent_events.max(session.most_unsent());
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
        most(&mut self.most_waiting_input, process.stdin.queued());
        most(&mut self.most_write_ids, process.stdin.ids().len());
    }
}
