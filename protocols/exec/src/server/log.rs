//! What a server knows of one process's output, exit and close: one sequence of events, numbered from 1.
//!
//! Chunks of output are kept within bounds, the oldest go first; exit and close are kept always. Live notifications and reads
//! come from here alone: a cursor walks the sequence, a read asks for what follows a number. A chunk that has gone leaves a
//! hole, which whoever reads can see by the numbers.

use bytes::Bytes;
use reknit_resume::{Bounds, Retention};
use reknit_seams::defect;

use crate::wire::process::{Chunk, OutputStream, ReadResult};

/// How many bytes of output one event holds at most.
pub const CHUNK: usize = 8 * 1024;

/// The events of one process.
#[derive(Debug)]
pub(super) struct ServerLog {
    /// The number of the next event.
    next: u64,
    output: Retention<(OutputStream, Bytes)>,
    /// The number of the exit, and its code.
    exit: Option<(u64, i32)>,
    /// The number of the close.
    close: Option<u64>,
    /// Why the process could not be watched to its end.
    failure: Option<String>,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LogEntry {
    pub seq: u64,
    pub what: EntryKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EntryKind {
    /// It printed something.
    Output(OutputStream, Bytes),
    /// It exited, with this code.
    Exited(i32),
    /// It has exited, and nothing follows.
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

    /// A chunk of output came. Returns the number of the newest chunk that went for it.
    pub(super) fn output(&mut self, stream: OutputStream, bytes: Bytes) -> Option<u64> {
        let seq = self.number();
        self.output.push(seq, bytes.len(), (stream, bytes))
    }

    /// The process exited.
    pub(super) fn exit(&mut self, code: i32, failure: Option<String>) {
        self.exit = Some((self.number(), code));
        self.failure = failure;
    }

    /// Nothing follows.
    pub(super) fn close(&mut self) {
        self.close = Some(self.number());
    }

    /// An event takes its number, and is lost: for a defect.
    pub(super) fn skip(&mut self) {
        self.number();
    }

    /// The number of the next event to come.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    pub(super) fn exited(&self) -> bool {
        self.exit.is_some()
    }

    pub(super) fn closed(&self) -> bool {
        self.close.is_some()
    }

    /// The first event from `cursor` on that is there.
    pub(super) fn event(&self, cursor: u64) -> Option<LogEntry> {
        let output = self.output.since(cursor).next();
        let output = output.map(|(seq, (stream, bytes))| LogEntry {
            seq,
            what: EntryKind::Output(*stream, bytes.clone()),
        });
        let exit = self.exit.map(|(seq, code)| LogEntry { seq, what: EntryKind::Exited(code) });
        let close = self.close.map(|seq| LogEntry { seq, what: EntryKind::Closed });
        [output, exit, close]
            .into_iter()
            .flatten()
            .filter(|event| event.seq >= cursor)
            .min_by_key(|event| event.seq)
    }

    /// The number of the newest chunk that would go if one of this size came.
    pub(super) fn would_go(&self, bytes: usize) -> Option<u64> {
        self.output.would_go(bytes)
    }

    /// Whether a read after this number has something to say, so that nobody waits: a chunk, a newer exit, or the close.
    pub(super) fn has_answer(&self, after: u64) -> bool {
        let newer_exit =
            self.exit.is_some_and(|(seq, _)| seq > after || defect!(ReadSpinsAfterExit));
        newer_exit || self.closed() || self.output.newest().is_some_and(|newest| newest > after)
    }

    /// What is known after this number: all of it, or chunks of `max` bytes together, one at least.
    ///
    /// An answer that leaves chunks out says how far it goes, and tells of exit and close only where they are within: whoever
    /// goes on reading until it is told of the close has read everything.
    pub(super) fn read(&self, after: u64, max: Option<u64>) -> ReadResult {
        let max = max.map_or(usize::MAX, |max| usize::try_from(max).unwrap_or(usize::MAX));
        let wanted = self.output.since(after.saturating_add(1));
        let (mut chunks, mut bytes, mut left_out) = (Vec::new(), 0_usize, wanted.len());
        for (seq, (stream, chunk)) in wanted {
            bytes = bytes.saturating_add(chunk.len());
            if bytes > max && !chunks.is_empty() {
                break;
            }
            chunks.push(Chunk { seq, stream: *stream, chunk: chunk.clone().into() });
            left_out -= 1;
        }
        let next_seq = self.answered_to(after, &chunks, left_out);
        let all = left_out == 0 || defect!(BoundedReadClosedEarly);
        let exit = self.exit.filter(|(seq, _)| all || *seq < next_seq);
        ReadResult {
            chunks,
            next_seq,
            exited: exit.is_some(),
            exit_code: exit.map(|(_, code)| code),
            closed: self.closed() && all,
            failure: self.failure.clone().filter(|_| exit.is_some()),
            sandbox_denied: false,
        }
    }

    fn answered_to(&self, after: u64, chunks: &[Chunk], left_out: usize) -> u64 {
        let behind_the_last = chunks.last().map(|chunk| chunk.seq + 1);
        if left_out == 0 && !defect!(NextSeqIsLastChunk) {
            return self.next;
        }
        behind_the_last.unwrap_or_else(|| after.saturating_add(1).min(self.next))
    }

    /// How many chunks are kept.
    pub(super) fn chunks(&self) -> usize {
        self.output.len()
    }

    /// How many bytes these are.
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
        log.exit(7, None);
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
        let whats = [
            EntryKind::Output(Stdout, "aa".into()),
            EntryKind::Output(Stderr, "bbb".into()),
            EntryKind::Exited(7),
            EntryKind::Output(Stdout, "c".into()),
            EntryKind::Closed,
        ];
        assert_eq!(
            walked,
            (1..).zip(whats).map(|(seq, what)| LogEntry { seq, what }).collect::<Vec<_>>()
        );
        assert_eq!((log.event(6), log.next()), (None, 6));
    }

    #[test]
    fn a_cursor_steps_over_what_has_gone() {
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
    fn a_bounded_read_tells_only_what_it_reaches() {
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
    fn an_exit_that_a_bounded_read_reaches_is_told_though_output_follows() {
        let mut log = log(1000);
        log.exit(7, None);
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
    fn one_chunk_comes_however_small_the_bound() {
        let read = full().read(0, Some(0));
        assert_eq!((seqs(&read), read.next_seq), (vec![1], 2));
    }

    #[test]
    fn numbers_beyond_the_end_are_no_trouble() {
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
        log.exit(0, None);
        assert!(log.has_answer(1) && !log.has_answer(2));
        log.close();
        assert!(log.has_answer(2) && log.has_answer(3) && log.has_answer(99));
    }

    #[test]
    fn what_has_gone_leaves_a_hole_that_the_numbers_show() {
        let mut log = log(3);
        log.output(Stdout, "aaa".into());
        log.output(Stdout, "bbb".into());
        log.exit(0, None);
        let read = log.read(0, None);
        assert_eq!((seqs(&read), read.next_seq), (vec![2], 4));
        assert_eq!((log.chunks(), log.bytes()), (1, 3));
    }
}
