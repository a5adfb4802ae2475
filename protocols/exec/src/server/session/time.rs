//! The timers of a session: the end of the retention of closed processes.

use reknit_seams::defect;
use tokio::time::Instant;

use super::Session;
use crate::server::process::ProcessId;

impl Session {
    /// Removes the closed processes whose retention is over; returns their ids.
    pub(in super::super) fn forget(&mut self, now: Instant) -> Vec<ProcessId> {
        let is_due = |due: &Instant| *due <= now && !self.is_in_doubt(*due);
        let due: Vec<_> = self
            .retention_ends()
            .filter(|(_, due)| is_due(due))
            .map(|(id, _)| id.clone())
            .collect();
        due.iter().for_each(|id| drop(self.processes.remove(id)));
        due
    }

    /// Returns when the next timer after `now` is due: the end of a process's retention, or the
    /// expiry of the session.
    pub(in super::super) fn due(&self, now: Instant) -> Option<Instant> {
        let first = self.defects.first_until();
        let first = first.filter(|_| defect!(ExpiryTimerUnchecked) && !self.attached());
        // A process kept because the connection is in doubt is checked again then: by that time,
        // the connection has given a sign of life or is dead.
        let again = now + self.limits.wire.ping_interval;
        let kept = self.retention_ends().map(|(_, due)| if due > now { due } else { again });
        kept.chain(self.attachment.until()).chain(first).filter(|due| *due > now).min()
    }

    /// Whether the attached connection may have been dead at this moment: the client had been
    /// silent for longer than a live client would be. A client that no longer hears the server
    /// sends over the connection until it gives it up, and then never again.
    fn is_in_doubt(&self, at: Instant) -> bool {
        let wire = self.limits.wire;
        self.attachment
            .owed()
            .is_some_and(|owed| *owed.line.signs.borrow() + wire.ping_interval <= at)
    }

    /// Returns when the retention of each closed process ends.
    fn retention_ends(&self) -> impl Iterator<Item = (&ProcessId, Instant)> {
        let kept = self.limits.closed_retention;
        self.processes.iter().filter_map(move |(id, process)| {
            if defect!(RetentionFromExit) {
                return Some((id, process.defects.exited_at? + kept));
            }
            let closed = process.closed_at()?;
            if defect!(RetentionFromClose) {
                return Some((id, closed + kept));
            }
            let sent = !self.attachment.owed()?.cursors.contains_key(id);
            sent.then_some((id, closed.max(self.last_attach_attempt) + kept))
        })
    }

    /// Makes room for a process: removes the process that closed first among those whose close was
    /// sent, if its retention is over. Returns whether it did.
    pub(super) fn forget_one(&mut self, now: Instant) -> bool {
        let is_sent = |id: &ProcessId| {
            self.attachment.owed().is_none_or(|owed| !owed.cursors.contains_key(id))
        };
        let sent = self.processes.iter().filter(|(id, _)| is_sent(id));
        let closed = sent.filter_map(|(id, process)| Some((process.closed_at()?, id.clone())));
        let first = if defect!(NewestMakesRoom) { closed.max() } else { closed.min() };
        let Some((at, id)) = first else { return false };
        let is_over = at + self.limits.closed_retention <= now || defect!(RoomTakenEarly);
        is_over && self.processes.remove(&id).is_some()
    }
}
