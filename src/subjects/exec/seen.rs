//! The output of one process that its user has received, by the numbers of its events. Each read must
//! return the same again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::answers::WrongAnswer;
use reknit_exec::wire::process::{OutputStream, ReadResult};

/// The output with each number: the first time that the user received it.
#[derive(Clone, Default)]
pub(super) struct Seen(Arc<Mutex<BTreeMap<u64, (OutputStream, Bytes)>>>);

impl Seen {
    /// Remembers the output with a number, unless it is known. Returns whether it is the same.
    pub(super) fn put(&self, event: u64, stream: OutputStream, bytes: &Bytes) -> bool {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, first) = seen.entry(event).or_insert_with(|| (stream, bytes.clone()));
        *known == stream && first == bytes
    }

    /// Returns what is wrong with an answer: an event that has other bytes than the first time.
    pub(super) fn changed(&self, answer: &ReadResult) -> Option<WrongAnswer> {
        let mut chunks = answer.chunks.iter();
        let changed = chunks.find(|chunk| !self.put(chunk.seq, chunk.stream, &chunk.chunk.0))?;
        Some(WrongAnswer::Changed { event: changed.seq })
    }
}
