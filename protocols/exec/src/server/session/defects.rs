//! The state and functions of a session that only seeded bugs use. Without a seeded bug, no
//! behavior depends on them.

use std::collections::BTreeMap;

use reknit_resume::Lease;
use reknit_seams::process::KILL;
use tokio::time::Instant;

use super::{Outgoing, Session};
use crate::server::process::{ProcessId, RetainedProcess, Run};

/// The state of a session.
#[derive(Default)]
pub(super) struct SessionDefects {
    first_until: Option<Instant>,
}

impl SessionDefects {
    /// Notes that the session was detached.
    pub(super) fn detached(&mut self, lease: Lease) {
        self.first_until.get_or_insert(lease.until());
    }

    /// The defect `ExpiryTimerUnchecked`: returns when a detached session expires, which is set at its
    /// first detachment and not again.
    pub(super) fn first_until(&self) -> Option<Instant> {
        self.first_until
    }
}

impl Outgoing {
    /// The defect `FullestFirst`: returns the process with the most unsent events.
    pub(super) fn fullest(
        &self,
        processes: &BTreeMap<ProcessId, RetainedProcess>,
    ) -> Option<&ProcessId> {
        let unsent = |id: &&ProcessId| {
            let next = processes.get(*id).map_or(0, |process| process.log.next());
            next.saturating_sub(self.cursors.get(*id).copied().unwrap_or(next))
        };
        self.pending.iter().max_by_key(unsent)
    }
}

impl Session {
    /// The defect `SenderClearedAfterUnlock`: a detach stops the events of the connection that has
    /// attached meanwhile.
    pub(in super::super) fn clear_sender(&mut self) {
        if let Some(owed) = self.attachment.owed_mut() {
            owed.muted = true;
        }
    }

    /// The defect `DisconnectKills`: processes end with the connection.
    pub(in super::super) fn kill_all(&mut self) {
        self.processes.values_mut().for_each(|process| process.queue_signal(KILL));
    }

    /// The defect `ReleaseEndsWithConnection`: the flow of each process is controlled again.
    pub(super) fn forget_releases(&mut self) {
        if self.window.is_some() {
            for process in self.processes.values_mut() {
                process.flow.get_or_insert_default();
            }
        }
    }

    /// The defect `OutputFlushedByTimer` uses this: whether processes may have new events.
    pub(in super::super) fn may_owe_events(&self) -> bool {
        self.attachment.owed().is_some_and(|owed| !owed.pending.is_empty())
    }

    /// The defect `SentCloseIsUnknown` uses this: whether the close of a process was sent.
    pub(in super::super) fn has_sent_close(&self, id: &ProcessId) -> bool {
        let closed = self.processes.get(id).is_some_and(|process| process.closed());
        closed && self.attachment.owed().is_some_and(|owed| !owed.cursors.contains_key(id))
    }

    /// The defect `EvictionSkipsNeighbours`: the other processes of the session lose an event.
    pub(super) fn skip_neighbours(&mut self, run: &Run) {
        let others = self.processes.iter_mut().filter(|(id, _)| **id != run.id);
        let open = others.filter(|(_, process)| !process.closed());
        open.for_each(|(_, process)| process.log.skip());
    }

    /// The defect `LongPollLostWakeUp` uses this: returns the number of the next event of a process.
    pub(in super::super) fn next_of(&self, id: &ProcessId) -> Option<u64> {
        self.processes.get(id).map(|process| process.log.next())
    }
}
