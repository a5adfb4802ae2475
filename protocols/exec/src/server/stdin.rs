//! The standard input of one process: what was accepted and not yet taken, and the ids of what was accepted.
//!
//! Bytes are queued and their id is kept in the same step. There is no moment in which a repeated write could find the one
//! without the other.

use std::collections::VecDeque;

use bytes::{Buf, Bytes};
use reknit_resume::Seen;
use reknit_seams::defect;

use crate::wire::process::WriteStatus;

/// What waits for one process to read it.
#[derive(Debug)]
pub(super) struct Stdin {
    open: bool,
    queue: VecDeque<Bytes>,
    bytes: usize,
    most: usize,
    seen: Seen<String>,
}

impl Stdin {
    /// Nothing yet. `most` bytes may wait, and `ids` are remembered.
    pub(super) fn new(open: bool, most: usize, ids: usize) -> Self {
        Self { open, queue: VecDeque::new(), bytes: 0, most, seen: Seen::new(ids) }
    }

    /// Queues bytes under an id, unless the id is known. `None` where there is no room: nothing has changed then. Something
    /// longer than the whole queue gets in when the queue is empty.
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

    /// Keeps the id of a write.
    pub(super) fn remember(&mut self, id: Option<&str>) {
        id.map(|id| self.seen.insert(id.to_owned()));
    }

    /// What the process is to be given next.
    pub(super) fn next(&self) -> Option<Bytes> {
        self.queue.front().cloned()
    }

    /// The process took so many bytes of it.
    pub(super) fn took(&mut self, count: usize) {
        let Some(front) = self.queue.front_mut() else { return };
        front.advance(count);
        self.bytes -= count;
        if front.is_empty() {
            self.queue.pop_front();
        }
    }

    /// Nobody reads any more: what waits is lost, and nothing is accepted.
    pub(super) fn close(&mut self) {
        self.open = false;
        self.queue.clear();
        self.bytes = 0;
    }

    /// Whether somebody reads.
    #[cfg(test)]
    pub(super) fn open(&self) -> bool {
        self.open
    }

    /// How many bytes wait.
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
    fn what_is_accepted_is_taken_in_order_and_once() {
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
    fn who_finds_no_room_has_changed_nothing_and_may_come_again() {
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
    fn what_is_longer_than_the_queue_waits_for_an_empty_one() {
        let mut stdin = Stdin::new(true, 4, 10);
        assert_eq!(stdin.write(None, &"longer than that".into()), Some(Accepted));
        assert_eq!(stdin.write(None, &"x".into()), None);
        assert_eq!(taken(&mut stdin).len(), 16);
        assert_eq!(stdin.write(None, &"x".into()), Some(Accepted));
    }

    #[test]
    fn a_closed_input_accepts_what_it_accepted_before_and_nothing_else() {
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
    fn an_id_is_forgotten_after_as_many_others_as_are_kept() {
        let mut stdin = Stdin::new(true, 100, 2);
        for id in ["1", "2", "3", "1"] {
            stdin.write(Some(id), &"x".into());
        }
        assert_eq!(taken(&mut stdin), b"xxxx");
    }
}
