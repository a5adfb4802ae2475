//! The part of a stream that the server keeps: its newest numbers, and its end.
//!
//! Readers pull by position. A reader that was disconnected asks for the same position as before. A
//! reader that is up to date asks for the position that does not exist yet. Since there is no other
//! way to read a number, no number can be lost between catch-up and live delivery.

use std::collections::VecDeque;

use reknit_seams::defect;

/// The newest numbers of a stream.
#[derive(Debug)]
pub(super) struct Log {
    /// The index of the oldest number in the log; indices start at 1.
    oldest: u64,
    kept: VecDeque<u64>,
    retained_items: usize,
    ended: bool,
}

/// The content of a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// A number.
    Number(u64),
    /// Nothing yet.
    NotYet,
    /// The end of the stream.
    End {
        /// The number of numbers in the stream.
        total: u64,
    },
    /// A number that the log no longer contains.
    Gone {
        /// The index of the oldest number in the log.
        oldest: u64,
    },
}

impl Log {
    pub(super) fn new(retained_items: usize) -> Self {
        Self { oldest: 1, kept: VecDeque::new(), retained_items, ended: false }
    }

    /// Appends a number, and removes the oldest ones beyond the limit.
    pub(super) fn append(&mut self, value: u64) {
        debug_assert!(!self.ended, "nothing follows the end");
        self.kept.push_back(value);
        if self.kept.len() > self.retained_items && !defect!(RetentionUnbounded) {
            self.kept.pop_front();
            self.oldest += 1;
        }
    }

    /// Marks the end of the stream.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    /// The index of the next number.
    pub(super) fn next(&self) -> u64 {
        self.oldest + self.kept.len() as u64
    }

    /// The content of position `index`.
    pub(super) fn at(&self, index: u64) -> At {
        if defect!(PanicsBehindRetention) {
            assert!(index >= self.oldest, "what a reader wants is kept");
        }
        if index < self.oldest {
            return At::Gone { oldest: self.oldest };
        }
        match usize::try_from(index - self.oldest).ok().and_then(|n| self.kept.get(n)) {
            Some(value) => At::Number(*value),
            None if self.ended => At::End { total: self.next() - 1 },
            None => At::NotYet,
        }
    }

    /// The number of numbers in the log.
    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_gets_the_newest_numbers_in_order_and_then_the_end() {
        let mut log = Log::new(2);
        assert_eq!(log.at(1), At::NotYet);
        [10, 20, 30].into_iter().for_each(|value| log.append(value));
        assert_eq!(
            (log.at(1), log.at(2), log.at(3)),
            (At::Gone { oldest: 2 }, At::Number(20), At::Number(30))
        );
        assert_eq!((log.at(4), log.len()), (At::NotYet, 2));
        log.end();
        assert_eq!(log.at(4), At::End { total: 3 });
    }

    /// With a limit of 0, no reader ever gets a number.
    #[test]
    fn a_log_that_keeps_nothing_still_counts() {
        let mut log = Log::new(0);
        log.append(10);
        log.end();
        assert_eq!((log.at(1), log.at(2)), (At::Gone { oldest: 2 }, At::End { total: 1 }));
    }
}
