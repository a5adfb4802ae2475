//! The state of seeded bugs that affect a command.

use reknit_seams::defect;
use tokio::time::Instant;

/// The state of a command that only seeded bugs have.
#[derive(Debug, Default)]
pub(in crate::server) struct CommandDefects {
    /// Whether a stream has read the log.
    was_read: bool,
    /// The position of the last output before a stream has read the log.
    unread: u64,
    /// Whether the command counts as finished before its ending is in the log.
    finished_early: bool,
    /// When a client first asked the command to end.
    asked_at: Option<Instant>,
    /// When the last stream was attached.
    attached_at: Option<Instant>,
}

impl CommandDefects {
    /// A stream reads the log. Returns after which position it reads, if it should read after `after`.
    pub(super) fn reads(&mut self, generation: u64, after: u64) -> u64 {
        self.was_read = true;
        let skips = generation > 1 && defect!(OutputBeforeStreamUnlogged);
        if skips { after.max(self.unread) } else { after }
    }

    /// Output was appended at this position.
    pub(super) fn appended(&mut self, position: u64) {
        if !self.was_read {
            self.unread = position;
        }
    }

    /// A client asks the command to end.
    pub(super) fn asked_to_end(&mut self) {
        if defect!(GraceCountsFromTheRequest) {
            self.asked_at.get_or_insert_with(Instant::now);
        }
    }

    /// Returns when the grace of an interrupted command begins, if that is not now.
    pub(in crate::server) fn grace_begins(&self) -> Option<Instant> {
        self.asked_at
    }

    /// A stream is attached.
    pub(super) fn attached(&mut self, now: Instant) {
        if defect!(TakeoverCountsFromTheAttachment) || defect!(HoldCountsFromTheAttachment) {
            self.attached_at = Some(now);
        }
    }

    /// Returns since when a stream counts as one without progress, if that is not its last progress.
    pub(super) fn attached_at(&self) -> Option<Instant> {
        self.attached_at.filter(|_| defect!(TakeoverCountsFromTheAttachment))
    }

    /// Returns since when output waits for a stream, if that is not its last progress.
    pub(super) fn hold_begins(&self) -> Option<Instant> {
        self.attached_at.filter(|_| defect!(HoldCountsFromTheAttachment))
    }

    /// The command counts as finished, and its ending follows later.
    pub(in crate::server) fn finish_early(&mut self) {
        self.finished_early = true;
    }

    /// Whether the command counts as finished.
    pub(super) fn finished_early(&self) -> bool {
        self.finished_early
    }
}
