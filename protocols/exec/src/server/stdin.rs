//! The standard input of one process: the accepted bytes that the process has not taken yet, and
//! the ids of accepted writes.
//!
//! Queueing the bytes and remembering the id is one step. So a repeated write always finds both or
//! neither.

use std::collections::VecDeque;

use bytes::{Buf, Bytes};
use reknit_resume::SeenIds;
use reknit_seams::defect;

use crate::wire::process::WriteStatus;

/// The bytes that wait for one process to read them.
#[derive(Debug)]
pub(super) struct Stdin {
    open: bool,
    queue: VecDeque<Bytes>,
    bytes: usize,
    most: usize,
    seen: SeenIds<String>,
}

impl Stdin {
    /// Creates an empty queue. `open`: the process has a standard input. The queue
    /// holds at most `most` bytes, and detects repeated writes by the last `ids` write ids.
    pub(super) fn new(open: bool, most: usize, ids: usize) -> Self {
        Self { open, queue: VecDeque::new(), bytes: 0, most, seen: SeenIds::new(ids) }
    }

    /// Queues bytes under an id, unless the id is known. Returns `None` and changes nothing if
    /// there is no room. A write longer than the limit is accepted if the queue is empty.
    pub(super) fn write(&mut self, id: Option<&str>, bytes: &Bytes) -> Option<WriteStatus> {
        if id.is_some_and(|id| self.seen.contains(&id.to_owned())) && !defect!(NoWriteDedupe) {
            return Some(WriteStatus::Accepted);
        }
        if !self.open {
            return Some(WriteStatus::StdinClosed);
        }
        if !self.queue.is_empty() && self.bytes + bytes.len() > self.most {
            return None;
        }
        if !defect!(WriteRememberedLate) {
            self.remember(id);
        }
        if !bytes.is_empty() {
            self.bytes += bytes.len();
            self.queue.push_back(bytes.clone());
        }
        Some(WriteStatus::Accepted)
    }

    /// Remembers the id of a write.
    pub(super) fn remember(&mut self, id: Option<&str>) {
        id.map(|id| self.seen.insert(id.to_owned()));
    }

    /// Returns the next bytes for the process.
    pub(super) fn next(&self) -> Option<Bytes> {
        self.queue.front().cloned()
    }

    /// Removes bytes that the process has taken.
    pub(super) fn took(&mut self, count: usize) {
        let Some(front) = self.queue.front_mut() else { return };
        front.advance(count);
        self.bytes -= count;
        if front.is_empty() {
            self.queue.pop_front();
        }
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
    pub(super) fn waiting(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use WriteStatus::{Accepted, StdinClosed};

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
            assert_eq!(stdin.write(Some(id), &bytes.into()), Some(Accepted));
        }
        assert_eq!(stdin.waiting(), 12);
        assert_eq!(taken(&mut stdin), b"one,two,four");
        assert_eq!(stdin.waiting(), 0);
    }

    #[test]
    fn writes_without_an_id_are_all_new() {
        let mut stdin = Stdin::new(true, 100, 10);
        stdin.write(None, &"a".into());
        stdin.write(None, &"a".into());
        assert_eq!(taken(&mut stdin), b"aa");
    }

    #[test]
    fn a_write_without_room_changes_nothing_and_may_be_retried() {
        let mut stdin = Stdin::new(true, 4, 10);
        assert_eq!(stdin.write(Some("1"), &"abc".into()), Some(Accepted));
        assert_eq!(stdin.write(Some("2"), &"de".into()), None);
        assert_eq!(
            stdin.write(Some("3"), &"d".into()),
            Some(Accepted),
            "as much as there is room for"
        );
        stdin.took(3);
        assert_eq!(stdin.write(Some("2"), &"efg".into()), Some(Accepted));
        assert_eq!(taken(&mut stdin), b"defg");
    }

    #[test]
    fn a_write_longer_than_the_limit_needs_an_empty_queue() {
        let mut stdin = Stdin::new(true, 4, 10);
        assert_eq!(stdin.write(None, &"longer than that".into()), Some(Accepted));
        assert_eq!(stdin.write(None, &"x".into()), None);
        assert_eq!(taken(&mut stdin).len(), 16);
        assert_eq!(stdin.write(None, &"x".into()), Some(Accepted));
    }

    #[test]
    fn a_closed_input_accepts_only_repeated_writes() {
        let mut stdin = Stdin::new(true, 4, 10);
        stdin.write(Some("1"), &"abc".into());
        stdin.close();
        assert_eq!((stdin.next(), stdin.waiting(), stdin.open()), (None, 0, false));
        assert_eq!(stdin.write(Some("1"), &"abc".into()), Some(Accepted));
        assert_eq!(stdin.write(Some("2"), &"abc".into()), Some(StdinClosed));
        stdin.took(0);
        assert_eq!(Stdin::new(false, 4, 10).write(None, &"a".into()), Some(StdinClosed));
    }

    #[test]
    fn the_oldest_id_is_forgotten_beyond_the_limit() {
        let mut stdin = Stdin::new(true, 100, 2);
        for id in ["1", "2", "3", "1"] {
            stdin.write(Some(id), &"x".into());
        }
        assert_eq!(taken(&mut stdin), b"xxxx");
    }
}
