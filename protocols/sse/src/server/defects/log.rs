//! The code of seeded bugs that affect a log. Some take a position first, and append later.

use bytes::Bytes;

use super::{CommandLog, OVERHEAD};
use crate::wire::{Event, OutputStream, Record};

impl CommandLog {
    /// Takes a position for output that is appended later.
    pub(in crate::server) fn reserve(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Appends output at a position that was taken before, unless a later one was appended meanwhile.
    pub(in crate::server) fn output_at(
        &mut self,
        position: u64,
        timestamp: u64,
        stream: OutputStream,
        bytes: Bytes,
    ) {
        let is_next = self.retained.newest().is_none_or(|newest| newest < position);
        if is_next && self.ended.is_none() {
            let weight = bytes.len() + OVERHEAD;
            let event = Event::Output(stream, bytes);
            let record = Record { position: Some(position), timestamp, event };
            self.push(weight, record);
        }
    }

    /// Returns the position of the newest entry that would have to go if output of this size had no overhead.
    pub(in crate::server) fn would_evict_without_overhead(&self, bytes: usize) -> Option<u64> {
        self.retained.would_evict_for(&[bytes, 0])
    }

    /// Returns the position of the newest entry that would have to go for output of this size alone.
    pub(in crate::server) fn would_evict_without_ending(&self, bytes: usize) -> Option<u64> {
        self.retained.would_evict(bytes + OVERHEAD)
    }
}
