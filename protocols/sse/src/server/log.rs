//! The log of one command: its output and its ending, numbered in the order in which they were
//! appended.
//!
//! A position is given by the append itself, under the lock that also wakes the reader. So the order
//! of positions is the order of the log and of every stream. (execd takes the number first and
//! appends later; an append that comes too late is dropped.)
//!
//! A reader pulls by position: [`read`](CommandLog::read) returns what follows an event. Old and new
//! events are read in the same way, so no step exists between the replay of the past and live output
//! in which an event could be lost. Nothing is pushed, so a slow reader delays no command.
//!
//! The ending is an entry like the others, and always the last one. That a command has ended is
//! known only from this entry.
//!
//! When the limits are exceeded, the oldest entries go. A reader that needs them receives the exact
//! range that it misses before anything else.

use bytes::Bytes;
use reknit_resume::{Bounds, Retention};
use tokio::time::Instant;

use crate::wire::{Cursor, CursorError, Ending, Epoch, Event, Gap, OutputStream, Record};

#[path = "defects/log.rs"]
mod defects;

/// The weight of an entry in addition to its output.
const OVERHEAD: usize = 64;

/// The log of one run of a command.
#[derive(Debug)]
pub(super) struct CommandLog {
    epoch: Epoch,
    retained: Retention<Entry>,
    /// The position of the last entry; 0 if there is none.
    last: u64,
    /// The weight of all entries so far, also of those that had to go.
    appended: u64,
    ended: Option<Ended>,
}

#[derive(Debug)]
struct Entry {
    record: Record,
    /// The weight of all entries up to this one.
    total: u64,
}

/// The end of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) ending: Ending,
    /// When the ending was appended. The retention counts from here.
    pub(super) at: Instant,
    /// The same in milliseconds since 1970.
    pub(super) timestamp: u64,
}

/// The successor of an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Following<'a> {
    /// These events are lost. The reader continues after the last of them.
    Gap(Gap),
    /// The next event.
    Event(&'a Record),
    /// Nothing yet.
    Nothing,
    /// Nothing ever: the reader has the ending.
    End,
}

impl CommandLog {
    /// Creates the empty log of a run.
    pub(super) fn new(epoch: Epoch, bounds: Bounds) -> Self {
        Self { epoch, retained: Retention::new(bounds), last: 0, appended: 0, ended: None }
    }

    /// Returns the run that the positions count.
    pub(super) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns the position of the last entry; 0 if there is none.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Returns the position of the oldest entry that is available; that of the next one if there is
    /// none.
    pub(super) fn oldest(&self) -> u64 {
        self.retained.oldest().unwrap_or(self.last + 1)
    }

    /// Returns the end of the command, if it is in the log.
    pub(super) fn ended(&self) -> Option<&Ended> {
        self.ended.as_ref()
    }

    /// Returns how many bytes the log holds.
    pub(super) fn weight(&self) -> usize {
        self.retained.weight()
    }

    /// Returns the position of the newest entry that would have to go for output of this size and for the
    /// ending after it.
    pub(super) fn would_evict(&self, bytes: usize) -> Option<u64> {
        self.retained.would_evict_for(&[bytes + OVERHEAD, OVERHEAD])
    }

    /// Returns the weight of all entries up to a position. Entries that had to go count together, as if
    /// they were one.
    pub(super) fn weight_up_to(&self, position: u64) -> u64 {
        let gone = self.appended - self.retained.weight() as u64;
        self.retained.up_to(position).next_back().map_or(gone, |(_, entry)| entry.total)
    }

    /// Appends output. Returns the position of the newest entry that had to go for it. Does nothing
    /// after the end.
    pub(super) fn output(
        &mut self,
        timestamp: u64,
        stream: OutputStream,
        bytes: Bytes,
    ) -> Option<u64> {
        let weight = bytes.len();
        self.append(timestamp, weight, Event::Output(stream, bytes))
    }

    /// Appends the ending of the command, which ran for `took` milliseconds. Does nothing if the
    /// command has ended before.
    pub(super) fn end(&mut self, timestamp: u64, ending: Ending, took: u64, now: Instant) {
        if self.ended.is_none() {
            self.append(timestamp, 0, Event::Ended { ending: ending.clone(), took });
            self.ended = Some(Ended { ending, at: now, timestamp });
        }
    }

    fn append(&mut self, timestamp: u64, weight: usize, event: Event) -> Option<u64> {
        if self.ended.is_some() {
            return None;
        }
        self.last += 1;
        let record = Record { position: Some(self.last), timestamp, event };
        self.push(weight + OVERHEAD, record)
    }

    fn push(&mut self, weight: usize, record: Record) -> Option<u64> {
        self.appended += weight as u64;
        let position = record.position.expect("an entry has a position");
        self.retained.push(position, weight, Entry { record, total: self.appended })
    }

    /// Checks that a reader can continue from `cursor`.
    ///
    /// # Errors
    /// If the cursor belongs to another run, or lies in the future.
    pub(super) fn check(&self, cursor: Cursor) -> Result<(), CursorError> {
        cursor.check(self.epoch, self.last)
    }

    /// Returns what follows the event at `after`; 0 is the place before the first event.
    pub(super) fn read(&self, after: u64) -> Following<'_> {
        if after >= self.last {
            return if self.ended.is_some() { Following::End } else { Following::Nothing };
        }
        if after + 1 < self.oldest() {
            return Following::Gap(Gap { first: after + 1, last: self.oldest() - 1 });
        }
        // Without a defect, every position from the oldest to the last is there.
        self.retained
            .since(after + 1)
            .next()
            .map_or(Following::Nothing, |(_, next)| Following::Event(&next.record))
    }
}

#[cfg(test)]
#[path = "tests/log.rs"]
mod tests;
