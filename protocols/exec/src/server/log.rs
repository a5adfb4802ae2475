//! The server's log of one process: output, exit and close in one sequence of events, numbered from
//! 1.
//!
//! The log keeps output chunks within bounds and evicts the oldest first. It always keeps exit and
//! close. It is the only source of live notifications and reads: a cursor walks the sequence, and a
//! read returns the events after a number. An evicted chunk leaves a gap, which a reader can detect
//! by the numbers.

use bytes::Bytes;
use reknit_resume::{Bounds, Retention};
use reknit_seams::defect;

use crate::wire::process::{Chunk, OutputStream, ReadResult};

/// The maximum number of output bytes in one event.
pub const CHUNK: usize = 8 * 1024;

/// The events of one process.
#[derive(Debug)]
pub(super) struct ServerLog {
    /// The number of the next event.
    next: u64,
    output: Retention<(OutputStream, Bytes)>,
    /// The number of the exit, and the exit.
    exit: Option<(u64, LoggedExit)>,
    /// The number of the close.
    close: Option<u64>,
    /// Why the server could not observe the process to its end.
    failure: Option<String>,
}

/// How a process exited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LoggedExit {
    pub code: i32,
    /// Whether its sandbox seems to be the reason.
    pub denied: bool,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LogEntry {
    pub seq: u64,
    pub what: EntryKind,
}

/// The content of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EntryKind {
    /// The process printed output.
    Output(OutputStream, Bytes),
    /// The process exited.
    Exited(LoggedExit),
    /// The process has exited, and no event follows.
    Closed,
}

impl ServerLog {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self { next: 1, output: Retention::new(bounds), exit: None, close: None, failure: None }
    }

    fn number(&mut self) -> u64 {
        debug_assert!(self.close.is_none(), "nothing follows the close");
        self.next += 1;
        self.next - 1
    }

    /// Appends a chunk of output. Returns the number of the newest chunk that was evicted to make
    /// room.
    pub(super) fn output(&mut self, stream: OutputStream, bytes: Bytes) -> Option<u64> {
        let seq = self.number();
        self.output.push(seq, bytes.len(), (stream, bytes))
    }

    /// Appends the exit.
    pub(super) fn exit(&mut self, exit: LoggedExit, failure: Option<String>) {
        self.exit = Some((self.number(), exit));
        self.failure = failure;
    }

    /// Appends the close, which is the last event.
    pub(super) fn close(&mut self) {
        self.close = Some(self.number());
    }

    /// For a defect: uses a number for an event and loses the event.
    pub(super) fn skip(&mut self) {
        self.number();
    }

    /// Returns the number of the next event.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Returns the number and the size of the kept chunks after this event.
    pub(super) fn behind(&self, seq: u64) -> (usize, usize) {
        let chunks = self.output.since(seq.saturating_add(1));
        (chunks.len(), chunks.map(|(_, (_, bytes))| bytes.len()).sum())
    }

    pub(super) fn exited(&self) -> bool {
        self.exit.is_some()
    }

    pub(super) fn closed(&self) -> bool {
        self.close.is_some()
    }

    /// Returns the first event from `cursor` on that the log still has.
    pub(super) fn event(&self, cursor: u64) -> Option<LogEntry> {
        let output = self.output.since(cursor).next();
        let output = output.map(|(seq, (stream, bytes))| LogEntry {
            seq,
            what: EntryKind::Output(*stream, bytes.clone()),
        });
        let exit = self.exit.map(|(seq, exit)| LogEntry { seq, what: EntryKind::Exited(exit) });
        let close = self.close.map(|seq| LogEntry { seq, what: EntryKind::Closed });
        [output, exit, close]
            .into_iter()
            .flatten()
            .filter(|event| event.seq >= cursor)
            .min_by_key(|event| event.seq)
    }

    /// Returns the number of the newest chunk that a new chunk of this size would evict.
    pub(super) fn would_evict(&self, bytes: usize) -> Option<u64> {
        self.output.would_evict(bytes)
    }

    /// Whether a read after this number can be answered without waiting: there is a later chunk or
    /// exit, or the process is closed.
    pub(super) fn has_answer(&self, after: u64) -> bool {
        let newer_exit =
            self.exit.is_some_and(|(seq, _)| seq > after || defect!(ReadSpinsAfterExit));
        let newer_close =
            self.close.is_some_and(|seq| seq > after || !defect!(ReadBehindCloseWaits));
        newer_exit || newer_close || self.output.newest().is_some_and(|newest| newest > after)
    }

    /// Returns the events after this number: all of them, or chunks of at most `max` bytes in
    /// total, but at least one chunk.
    ///
    /// An answer that leaves chunks out contains the number to continue from. It reports exit and
    /// close only if the answer reaches them. A reader that continues until the close is reported
    /// has read everything.
    pub(super) fn read(&self, after: u64, max: Option<u64>) -> ReadResult {
        let max = max.map_or(usize::MAX, |max| usize::try_from(max).unwrap_or(usize::MAX));
        let wanted = self.output.since(after.saturating_add(1));
        let (mut chunks, mut bytes, mut left_out) = (Vec::new(), 0_usize, wanted.len());
        for (seq, (stream, chunk)) in wanted {
            bytes = bytes.saturating_add(chunk.len());
            if bytes > max && !chunks.is_empty() {
                break;
            }
            let whole = if defect!(PageCutsChunk) { chunk.len().min(max) } else { chunk.len() };
            chunks.push(Chunk { seq, stream: *stream, chunk: chunk.slice(..whole).into() });
            left_out -= 1;
        }
        let next_seq = self.answered_to(after, &chunks, left_out);
        let all = left_out == 0 || defect!(BoundedReadClosedEarly);
        let reached = next_seq + u64::from(defect!(ExitReportedEarly));
        let exit = self.exit.filter(|(seq, _)| all || *seq < reached);
        ReadResult {
            chunks,
            next_seq,
            exited: exit.is_some(),
            exit_code: exit.map(|(_, exit)| exit.code),
            closed: self.closed() && all,
            failure: self.failure.clone().filter(|_| exit.is_some()),
            sandbox_denied: exit.is_some_and(|(_, exit)| exit.denied),
        }
    }

    fn answered_to(&self, after: u64, chunks: &[Chunk], left_out: usize) -> u64 {
        let behind_the_last = chunks.last().map(|chunk| chunk.seq + 1);
        if left_out == 0 && !defect!(NextSeqIsLastChunk) {
            return self.next;
        }
        behind_the_last.unwrap_or_else(|| after.saturating_add(1).min(self.next))
    }

    /// Returns the kept output of all streams, in the order of its numbers.
    pub(super) fn kept_output(&self) -> Vec<u8> {
        self.output.since(0).flat_map(|(_, (_, bytes))| bytes.iter().copied()).collect()
    }

    /// Returns how many chunks are kept.
    pub(super) fn chunks(&self) -> usize {
        self.output.len()
    }

    /// Returns the size of the kept chunks in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.output.weight()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use OutputStream::{Stderr, Stdout};

    fn log(bytes: usize) -> ServerLog {
        ServerLog::new(Bounds { items: 100, weight: bytes })
    }

    /// 1: "aa", 2: "bbb", 3: exit 7, 4: "c", 5: close.
    fn full() -> ServerLog {
        let mut log = log(1000);
        log.output(Stdout, "aa".into());
        log.output(Stderr, "bbb".into());
        log.exit(LoggedExit { code: 7, denied: false }, None);
        log.output(Stdout, "c".into());
        log.close();
        log
    }

    fn seqs(result: &ReadResult) -> Vec<u64> {
        result.chunks.iter().map(|chunk| chunk.seq).collect()
    }

    #[test]
    fn output_exit_and_close_share_one_sequence_that_a_cursor_walks() {
        let log = full();
        let walked: Vec<_> = (1..6).filter_map(|cursor| log.event(cursor)).collect();
        let entry_kinds = [
            EntryKind::Output(Stdout, "aa".into()),
            EntryKind::Output(Stderr, "bbb".into()),
            EntryKind::Exited(LoggedExit { code: 7, denied: false }),
            EntryKind::Output(Stdout, "c".into()),
            EntryKind::Closed,
        ];
        assert_eq!(
            walked,
            (1..).zip(entry_kinds).map(|(seq, what)| LogEntry { seq, what }).collect::<Vec<_>>()
        );
        assert_eq!((log.event(6), log.next()), (None, 6));
    }

    #[test]
    fn a_cursor_skips_evicted_chunks() {
        let mut log = log(2);
        log.output(Stdout, "a".into());
        assert_eq!(log.output(Stdout, "bb".into()), Some(1));
        assert_eq!(log.event(1).map(|event| event.seq), Some(2));
    }

    #[test]
    fn an_unbounded_read_counts_exit_and_close() {
        let read = full().read(0, None);
        assert_eq!((seqs(&read), read.next_seq), (vec![1, 2, 4], 6));
        assert_eq!((read.exited, read.exit_code, read.closed), (true, Some(7), true));
        let nothing_new = full().read(5, None);
        assert_eq!(
            (seqs(&nothing_new), nothing_new.next_seq, nothing_new.closed),
            (vec![], 6, true)
        );
    }

    #[test]
    fn a_bounded_read_reports_only_the_events_that_it_reaches() {
        let first = full().read(0, Some(5));
        assert_eq!(
            (seqs(&first), first.next_seq, first.exited, first.closed),
            (vec![1, 2], 3, false, false)
        );
        let rest = full().read(first.next_seq - 1, Some(5));
        assert_eq!(
            (seqs(&rest), rest.next_seq, rest.exited, rest.closed),
            (vec![4], 6, true, true)
        );
        let exact = full().read(0, Some(6));
        assert_eq!((seqs(&exact), exact.next_seq, exact.closed), (vec![1, 2, 4], 6, true));
    }

    #[test]
    fn a_bounded_read_reports_an_exit_before_later_output() {
        let mut log = log(1000);
        log.exit(LoggedExit { code: 7, denied: false }, None);
        log.output(Stdout, "aa".into());
        log.output(Stdout, "bb".into());
        log.close();
        let read = log.read(0, Some(2));
        assert_eq!(
            (seqs(&read), read.next_seq, read.exited, read.closed),
            (vec![2], 3, true, false)
        );
    }

    #[test]
    fn a_bounded_read_returns_at_least_one_chunk() {
        let read = full().read(0, Some(0));
        assert_eq!((seqs(&read), read.next_seq), (vec![1], 2));
    }

    #[test]
    fn numbers_beyond_the_end_are_accepted() {
        let read = full().read(u64::MAX, Some(u64::MAX));
        assert_eq!((seqs(&read), read.next_seq, read.closed), (vec![], 6, true));
        assert_eq!(full().event(u64::MAX), None);
    }

    #[test]
    fn a_read_waits_between_exit_and_close_but_never_behind_the_close() {
        let mut log = log(1000);
        assert!(!log.has_answer(0));
        log.output(Stdout, "a".into());
        assert!(log.has_answer(0) && !log.has_answer(1));
        log.exit(LoggedExit { code: 0, denied: false }, None);
        assert!(log.has_answer(1) && !log.has_answer(2));
        log.close();
        assert!(log.has_answer(2) && log.has_answer(3) && log.has_answer(99));
    }

    #[test]
    fn an_evicted_chunk_leaves_a_gap_in_the_numbers() {
        let mut log = log(3);
        log.output(Stdout, "aaa".into());
        log.output(Stdout, "bbb".into());
        log.exit(LoggedExit { code: 0, denied: false }, None);
        let read = log.read(0, None);
        assert_eq!((seqs(&read), read.next_seq), (vec![2], 4));
        assert_eq!((log.chunks(), log.bytes()), (1, 3));
    }
}
