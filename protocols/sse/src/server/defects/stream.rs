//! The state and code of seeded bugs that affect a stream: a step from the past to the present, and
//! silence.

use bytes::Bytes;
use reknit_seams::{defect, point};

use super::EventStream;
use crate::server::command::Pull;
use crate::wire::Record;

/// The state of a stream that only seeded bugs have.
pub(in crate::server) struct StreamDefects {
    /// The stream passes from the past to the present when it has sent everything up to this position.
    handoff: Option<u64>,
    /// Whether the stream has sent a sign of life.
    pub(super) has_beaten: bool,
}

impl StreamDefects {
    /// Returns the state of a new stream. `past`: the last position of the past, if the stream begins with
    /// it.
    pub(in crate::server) fn new(past: Option<u64>) -> Self {
        Self { handoff: past, has_beaten: false }
    }
}

impl EventStream {
    /// Whether the stream sends no sign of life.
    pub(super) fn keeps_silent(&self) -> bool {
        self.defects.has_beaten && defect!(HeartbeatOnlyOnce)
            || self.generation > 1 && defect!(NoHeartbeatAfterResume)
    }

    /// The step from the past to the present. Returns what the stream does: bytes to send, or its end.
    /// `None`: it goes on with the log.
    pub(super) async fn hand_off(&mut self) -> Option<Option<Bytes>> {
        if self.after < self.defects.handoff? {
            return None;
        }
        if defect!(EndedMeansReplayed) && !self.running.command().runs() {
            return Some(None);
        }
        self.defects.handoff = None;
        if defect!(SnapshotThenAttach) {
            point!("sse.server.snapshot-sent").await;
            self.after = self.running.command().log.last();
        }
        if !defect!(AttachThenFlush) {
            return None;
        }
        let live = self.running.command().log.last();
        point!("sse.server.attached-unflushed").await;
        let mut records = self.all_after(live);
        let pushed = !records.is_empty();
        records.extend(self.all_after(self.after));
        if !pushed {
            return None;
        }
        self.after = records.last().and_then(|record| record.position).unwrap_or(self.after);
        Some(Some(self.encode(&records)))
    }

    /// Returns all events after a position.
    fn all_after(&self, after: u64) -> Vec<Record> {
        let mut command = self.running.command();
        match command.pull(self.generation, after, usize::MAX, 0) {
            Pull::Events { records, .. } => records,
            _ => Vec::new(),
        }
    }
}
