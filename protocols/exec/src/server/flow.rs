//! The flow control of one process: how much of its output the client has not consumed.

use reknit_seams::defect;

use super::log::{CHUNK, ServerLog};
use crate::wire::flow::{FlowReports, FlowWindow};

/// The output of a process that its client has not consumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Unconsumed {
    /// The number of the last consumed event.
    pub(super) consumed: u64,
    bytes: usize,
    chunks: usize,
}

impl Unconsumed {
    /// Counts a chunk that the process printed.
    pub(super) fn add(&mut self, bytes: usize) {
        (self.bytes, self.chunks) = (self.bytes + bytes, self.chunks + 1);
    }

    /// Records a report of the client. A report that is older than the last one changes nothing.
    pub(super) fn consumed(&mut self, seq: u64, log: &ServerLog) {
        if seq > self.consumed || defect!(OlderReportCounts) {
            let (chunks, bytes) = log.behind(seq);
            *self = Self { consumed: seq, bytes, chunks };
        }
    }

    /// Whether each of the open streams of the process may print one more chunk. A paused process
    /// continues only when half of the window is free.
    pub(super) fn has_room(&self, window: FlowWindow, open: usize, paused: bool) -> bool {
        let waits = paused && !defect!(PausedResumesAtOnce);
        let half = if waits { window.window_bytes / 2 } else { 0 };
        let next = half.max((open * CHUNK) as u64);
        self.bytes as u64 + next <= window.window_bytes
            && ((self.chunks + open) as u64 <= window.window_chunks || defect!(ChunksBeyondWindow))
    }
}

/// Returns how often the client must report its progress, so that a paused process continues
/// before the client has run out of output.
pub(super) fn reports(window: FlowWindow) -> FlowReports {
    FlowReports { report_bytes: window.window_bytes / 4, report_events: window.window_chunks / 4 }
}

#[cfg(test)]
mod tests {
    use reknit_resume::Bounds;

    use super::*;
    use crate::wire::process::OutputStream::Stdout;

    const WINDOW: FlowWindow = FlowWindow { window_bytes: 64 << 10, window_chunks: 256 };

    fn printed(chunks: usize, bytes: usize) -> (Unconsumed, ServerLog) {
        let mut log = ServerLog::new(Bounds { items: 1000, weight: 1 << 20 });
        let mut flow = Unconsumed::default();
        for _ in 0..chunks {
            log.output(Stdout, vec![0; bytes].into());
            flow.add(bytes);
        }
        (flow, log)
    }

    #[test]
    fn each_open_stream_has_room_for_a_chunk() {
        let (flow, _) = printed(6, CHUNK);
        assert!(flow.has_room(WINDOW, 2, false), "6 and 2 of 8 chunks");
        let (flow, _) = printed(7, CHUNK);
        assert!(flow.has_room(WINDOW, 1, false) && !flow.has_room(WINDOW, 2, false));
        let (flow, _) = printed(255, 1);
        assert!(flow.has_room(WINDOW, 1, false) && !flow.has_room(WINDOW, 2, false));
    }

    #[test]
    fn a_paused_process_continues_when_half_of_the_window_is_free() {
        let (mut flow, log) = printed(8, CHUNK);
        flow.consumed(3, &log);
        assert!(!flow.has_room(WINDOW, 2, true) && flow.has_room(WINDOW, 2, false));
        flow.consumed(4, &log);
        assert!(flow.has_room(WINDOW, 2, true));
        flow.consumed(2, &log);
        assert_eq!((flow.consumed, flow.bytes), (4, 4 * CHUNK), "an older report changes nothing");
    }

    #[test]
    fn a_client_that_follows_the_rule_cannot_hold_a_process_for_ever() {
        let unreported = reports(WINDOW).report_bytes as usize / CHUNK;
        let (mut flow, log) = printed(8, CHUNK);
        flow.consumed((8 - unreported) as u64, &log);
        assert!(flow.has_room(WINDOW, 2, true));
    }
}
