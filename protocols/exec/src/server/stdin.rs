//! The standard input of one process: the accepted bytes that the process has not taken yet, and
//! the ids of accepted writes ([`WriteIds`]).
//!
//! Queueing the bytes and remembering the id is one step. So a repeated write always finds both or
//! neither.

use std::collections::VecDeque;

use bytes::{Buf, Bytes};
use reknit_seams::defect;

use super::write_ids::{WriteAnswer, WriteIds};
use crate::wire::process::WriteStatus;

/// The bytes that wait for one process to read them.
#[derive(Debug)]
pub(super) struct Stdin {
    open: bool,
    queue: VecDeque<Bytes>,
    bytes: usize,
    most: usize,
    ids: WriteIds,
}

impl Stdin {
    /// Creates an empty queue. `open`: the process has a standard input. The queue holds at most
    /// `most` bytes, and at most `ids` write ids that may be repeated.
    pub(super) fn new(open: bool, most: usize, ids: usize) -> Self {
        Self { open, queue: VecDeque::new(), bytes: 0, most, ids: WriteIds::new(ids) }
    }

    /// Queues bytes under an id, unless the id is known. `answer` is the answer that an accepted
    /// write will get. Returns `None` and changes nothing if there is no room for the bytes or for
    /// the id. A write longer than the limit is accepted if the queue is empty.
    pub(super) fn write(
        &mut self,
        id: Option<&str>,
        bytes: &Bytes,
        answer: WriteAnswer,
    ) -> Option<WriteStatus> {
        if id.is_some() && !self.ids.has_room() && defect!(RepeatedWriteNeedsRoom) {
            return None;
        }
        let is_repeated = id.is_some_and(|id| self.ids.contains(id));
        if !self.open && defect!(RepeatedWriteRefused) {
            return Some(WriteStatus::StdinClosed);
        }
        if is_repeated && !defect!(NoWriteDedupe) {
            match id {
                // The bug: the first repetition of a write is taken for the last one.
                Some(id) if defect!(RepeatedIdForgotten) => self.ids.forget(id),
                _ => self.remember(id, answer),
            }
            return Some(WriteStatus::Accepted);
        }
        if !self.open {
            return Some(WriteStatus::StdinClosed);
        }
        let is_full = !self.queue.is_empty() && self.bytes + bytes.len() > self.most;
        if is_full && !defect!(StdinUnbounded) {
            return None;
        }
        if id.is_some() && !is_repeated && !self.ids.has_room() {
            return None;
        }
        if !defect!(WriteRememberedLate) {
            self.remember(id, answer);
        }
        if !bytes.is_empty() {
            self.bytes += bytes.len();
            self.queue.push_back(bytes.clone());
        }
        Some(WriteStatus::Accepted)
    }

    /// Remembers the id of a write and its answer.
    pub(super) fn remember(&mut self, id: Option<&str>, answer: WriteAnswer) {
        if let Some(id) = id {
            self.ids.insert(id, answer);
        }
    }

    /// Returns the ids of accepted writes that may be repeated.
    pub(super) fn ids(&self) -> &WriteIds {
        &self.ids
    }

    /// Returns the ids of accepted writes that may be repeated, mutably.
    pub(super) fn ids_mut(&mut self) -> &mut WriteIds {
        &mut self.ids
    }

    /// Returns the next bytes for the process.
    pub(super) fn next(&self) -> Option<Bytes> {
        self.queue.front().cloned()
    }

    /// Removes bytes that the process has taken.
    pub(super) fn took(&mut self, count: usize) {
        let Some(front) = self.queue.front_mut() else { return };
        let count = if defect!(ShortWriteIsWhole) { front.len() } else { count };
        front.advance(count);
        self.bytes -= count;
        if front.is_empty() {
            self.queue.pop_front();
        }
        if self.queue.is_empty() && defect!(ReadWritesForgotten) {
            self.ids.forget_all();
        }
    }

    /// Accepts no new bytes, because the process has exited. A child process may still read the
    /// waiting ones.
    pub(super) fn end(&mut self) {
        self.open = self.open && defect!(WriteAcceptedAfterExit);
    }

    /// Closes the input because the process no longer reads it: waiting bytes are lost, and no new
    /// bytes are accepted.
    pub(super) fn close(&mut self) {
        self.open = false;
        self.queue.clear();
        self.bytes = 0;
    }

    /// Whether the input is open.
    #[cfg(test)]
    pub(super) fn open(&self) -> bool {
        self.open
    }

    /// Returns how many bytes wait.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.bytes
    }

    /// Returns how many bytes wait, or 0 if they are of one write, which may have any length.
    pub(super) fn queued(&self) -> usize {
        if self.queue.len() > 1 { self.bytes } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use WriteStatus::{Accepted, StdinClosed};
    use reknit_seams::net::ConnId;

    /// The answer with this number, over the same connection.
    fn answer(number: u64) -> WriteAnswer {
        WriteAnswer { conn: ConnId(1), number }
    }

    fn write(stdin: &mut Stdin, id: Option<&str>, bytes: &'static str) -> Option<WriteStatus> {
        stdin.write(id, &bytes.into(), answer(1))
    }

    fn taken(stdin: &mut Stdin) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(bytes) = stdin.next() {
            let some = bytes.len().min(2);
            all.extend_from_slice(&bytes[..some]);
            stdin.took(some);
        }
        all
    }

    #[test]
    fn accepted_bytes_are_taken_once_and_in_order() {
        let mut stdin = Stdin::new(true, 100, 10);
        for (id, bytes) in [("1", "one,"), ("2", "two,"), ("1", "one,"), ("3", ""), ("4", "four")] {
            assert_eq!(write(&mut stdin, Some(id), bytes), Some(Accepted));
        }
        assert_eq!(stdin.waiting(), 12);
        assert_eq!(taken(&mut stdin), b"one,two,four");
        assert_eq!(stdin.waiting(), 0);
    }

    #[test]
    fn writes_without_an_id_are_all_new() {
        let mut stdin = Stdin::new(true, 100, 10);
        write(&mut stdin, None, "a");
        write(&mut stdin, None, "a");
        assert_eq!(taken(&mut stdin), b"aa");
    }

    #[test]
    fn a_write_without_room_changes_nothing_and_may_be_retried() {
        let mut stdin = Stdin::new(true, 4, 10);
        assert_eq!(write(&mut stdin, Some("1"), "abc"), Some(Accepted));
        assert_eq!(write(&mut stdin, Some("2"), "de"), None);
        assert_eq!(
            write(&mut stdin, Some("3"), "d"),
            Some(Accepted),
            "as much as there is room for"
        );
        stdin.took(3);
        assert_eq!(write(&mut stdin, Some("2"), "efg"), Some(Accepted));
        assert_eq!(taken(&mut stdin), b"defg");
    }

    #[test]
    fn a_write_that_was_read_is_remembered() {
        let mut stdin = Stdin::new(true, 4, 10);
        assert_eq!(write(&mut stdin, Some("1"), "a"), Some(Accepted));
        stdin.took(1);
        assert!(stdin.ids().contains("1"));
    }

    #[test]
    fn a_write_longer_than_the_limit_needs_an_empty_queue() {
        let mut stdin = Stdin::new(true, 4, 10);
        assert_eq!(write(&mut stdin, None, "longer than that"), Some(Accepted));
        assert_eq!(write(&mut stdin, None, "x"), None);
        assert_eq!(taken(&mut stdin).len(), 16);
        assert_eq!(write(&mut stdin, None, "x"), Some(Accepted));
    }

    #[test]
    fn a_closed_input_accepts_only_repeated_writes() {
        let mut stdin = Stdin::new(true, 4, 10);
        write(&mut stdin, Some("1"), "abc");
        stdin.close();
        assert_eq!((stdin.next(), stdin.waiting(), stdin.open()), (None, 0, false));
        assert_eq!(write(&mut stdin, Some("1"), "abc"), Some(Accepted));
        assert_eq!(write(&mut stdin, Some("2"), "abc"), Some(StdinClosed));
        stdin.took(0);
        assert_eq!(write(&mut Stdin::new(false, 4, 10), None, "a"), Some(StdinClosed));
    }

    #[test]
    fn a_new_write_waits_while_too_many_ids_may_be_repeated() {
        let mut stdin = Stdin::new(true, 100, 2);
        for (id, number) in [("1", 1), ("2", 2)] {
            assert_eq!(stdin.write(Some(id), &"x".into(), answer(number)), Some(Accepted));
        }
        assert_eq!(write(&mut stdin, Some("3"), "x"), None);
        assert_eq!(stdin.write(Some("1"), &"x".into(), answer(3)), Some(Accepted), "repeated");
        assert_eq!(write(&mut stdin, None, "y"), Some(Accepted), "nothing to remember");
        stdin.ids_mut().reached(answer(2));
        assert_eq!(write(&mut stdin, Some("3"), "x"), Some(Accepted));
        assert_eq!(taken(&mut stdin), b"xxyx");
    }

    #[test]
    fn after_the_exit_only_waiting_bytes_are_written() {
        let mut stdin = Stdin::new(true, 100, 10);
        write(&mut stdin, Some("1"), "a");
        stdin.end();
        assert_eq!(write(&mut stdin, Some("2"), "b"), Some(StdinClosed));
        assert_eq!(write(&mut stdin, Some("1"), "a"), Some(Accepted), "it was accepted before");
        assert_eq!(taken(&mut stdin), b"a");
    }
}
