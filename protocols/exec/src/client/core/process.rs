//! One process as the client knows it: its events, put in order, whatever connection they came over.
//!
//! Live notifications and the answers of catch-up reads go into one [`Sequence`]; what is next goes out to the log. A read
//! brings chunks with their numbers, and says of exit and close only that they were: [`ProcessState::merge`] finds the numbers that
//! these must have, or that there is a hole which nothing can fill.

use std::sync::Arc;

use bytes::Bytes;
use reknit_resume::{Bounds, Sequence, Taken};
use reknit_seams::defect;
use tokio::time::Instant;

use crate::client::Failure;
use crate::client::log::{Event, Log, Via};
use crate::wire::process::{OutputStream, ReadResult};

/// What an event says, without its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum ProcessEvent {
    Output(OutputStream, Bytes),
    Exited(i32),
    Closed,
}

impl ProcessEvent {
    fn weight(&self) -> usize {
        if let Self::Output(_, bytes) = self { bytes.len() } else { 0 }
    }

    fn event(self, seq: u64, via: Via) -> Event {
        match self {
            Self::Output(stream, bytes) => Event::Output { seq, stream, bytes, via },
            Self::Exited(code) => Event::Exited { seq, code, via },
            Self::Closed => Event::Closed { seq, via },
        }
    }
}

/// Where a process is in its life here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StartStage {
    /// Its start was asked for, and not answered.
    Starting,
    /// It was started: what it tells is recovered.
    Running,
}

/// The reading that fills holes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// Nothing is to be read.
    Idle,
    /// A read is in flight, until then.
    Asked { until: Instant },
    /// One failed for a reason that may pass: again then.
    Again { at: Instant },
}

/// A process.
pub(super) struct ProcessState {
    pub(super) serial: u64,
    pub(super) stage: StartStage,
    pub(super) log: Arc<Log>,
    pub(super) reading: Reading,
    /// How often a read has failed in a row, or brought nothing.
    pub(super) tries: u32,
    /// Since when something is missing.
    pub(super) behind_since: Option<Instant>,
    /// Whether events were let go since the read was asked for that is in flight, or before its start was answered.
    pub(super) dropped: bool,
    sequence: Sequence<(ProcessEvent, Via)>,
    /// The greatest number that was heard live: only a defect asks.
    received: u64,
    exited: bool,
    closed: bool,
}

impl ProcessState {
    pub(super) fn new(serial: u64, log: Arc<Log>, bounds: Bounds) -> Self {
        let bounds = if defect!(ReorderUnbounded) {
            Bounds { items: usize::MAX, weight: usize::MAX }
        } else {
            bounds
        };
        Self {
            serial,
            stage: StartStage::Starting,
            log,
            reading: Reading::Idle,
            tries: 0,
            behind_since: None,
            dropped: false,
            sequence: Sequence::new(bounds),
            received: 0,
            exited: false,
            closed: false,
        }
    }

    /// Its start was answered: what the server tells from now on is its own. What came earlier and was dropped may have been its
    /// own, too, and is read.
    pub(super) fn started(&mut self, now: Instant) {
        self.stage = StartStage::Running;
        if std::mem::take(&mut self.dropped) {
            self.read_again(now);
        }
    }

    /// The number of the last event that went out.
    pub(super) fn published(&self) -> u64 {
        self.sequence.published()
    }

    /// The greatest number that was seen.
    pub(super) fn seen(&self) -> u64 {
        self.sequence.seen()
    }

    /// From where to read on.
    pub(super) fn read_after(&self) -> u64 {
        if defect!(CatchesUpFromReceived) { self.received } else { self.sequence.published() }
    }

    /// Whether its close went out: it has told everything.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// How many events wait for a lower number, and their bytes.
    pub(super) fn held_back(&self) -> (usize, usize) {
        (self.sequence.waiting().count(), self.sequence.weight())
    }

    /// Whether its exit is known, published or not.
    fn knows_exit(&self) -> bool {
        self.exited
            || self.sequence.waiting().any(|(_, (what, _))| matches!(what, ProcessEvent::Exited(_)))
    }

    /// The server told something by itself. What is next goes out.
    ///
    /// # Errors
    /// [`Failure::Contradiction`] where it cannot be, after what it told before.
    pub(super) fn hear(
        &mut self,
        seq: u64,
        what: ProcessEvent,
        via: Via,
        now: Instant,
    ) -> Result<Taken, Failure> {
        self.received = self.received.max(seq);
        if defect!(ArrivalOrder) || defect!(CloseOnArrival) && what == ProcessEvent::Closed {
            self.notify(seq, what, via);
            return Ok(Taken::Kept);
        }
        if defect!(DuplicatesDelivered) && seq <= self.published() && !self.closed {
            self.log.push(what.event(seq, via));
            return Ok(Taken::Kept);
        }
        let fresh = seq > self.published() && !self.sequence.has(seq);
        if fresh && !self.fits(seq, &what) {
            return Err(Failure::Contradiction);
        }
        let weight = what.weight();
        let taken = self.sequence.insert(seq, (what, via), weight);
        self.publish(now)?;
        Ok(taken)
    }

    /// Whether a new event agrees with those that wait: one exit, and a close behind everything.
    fn fits(&self, seq: u64, what: &ProcessEvent) -> bool {
        let behind_close = self
            .sequence
            .waiting()
            .any(|(other, (known, _))| *known == ProcessEvent::Closed && seq > other);
        match what {
            ProcessEvent::Output(..) => !behind_close,
            ProcessEvent::Exited(_) => !behind_close && !self.knows_exit(),
            ProcessEvent::Closed => !behind_close && seq >= self.sequence.seen(),
        }
    }

    /// Lets go out what is next.
    ///
    /// # Errors
    /// [`Failure::Contradiction`] at a close without an exit before it.
    fn publish(&mut self, now: Instant) -> Result<(), Failure> {
        while let Some((seq, (what, via))) = self.sequence.pop() {
            if what == ProcessEvent::Closed && !self.exited {
                return Err(Failure::Contradiction);
            }
            self.notify(seq, what, via);
        }
        let behind = !self.closed && self.sequence.is_behind();
        if !behind && self.behind_since.is_some() {
            self.tries = 0; // the hole was filled; the next one is another
        }
        self.behind_since = behind.then(|| self.behind_since.unwrap_or(now));
        Ok(())
    }

    fn notify(&mut self, seq: u64, what: ProcessEvent, via: Via) {
        self.exited |= matches!(what, ProcessEvent::Exited(_));
        self.closed |= what == ProcessEvent::Closed;
        self.log.push(what.event(seq, via));
    }

    /// A read without bound was answered: everything after the last event that went out, as far as the server still has it.
    /// Goes out as far as nothing is missing.
    ///
    /// # Errors
    /// [`Failure::Gap`] where something is missing that the server no longer has; nothing that follows it goes out.
    pub(super) fn merge(
        &mut self,
        answer: ReadResult,
        generation: u64,
        now: Instant,
    ) -> Result<(), Failure> {
        let via = Via { generation, live: false };
        let last = answer.next_seq.saturating_sub(1);
        if self.closed || last <= self.published() {
            return Ok(());
        }
        let found = self.find(answer, last)?;
        for (seq, what) in found {
            let weight = what.weight();
            // In order, each goes out before the next comes in: the bounds hold only what comes behind a hole, and there is none.
            self.sequence.insert(seq, (what, via), weight);
            self.publish(now)?;
        }
        Ok(())
    }

    /// What fills everything up to `last`, in order.
    fn find(&self, answer: ReadResult, last: u64) -> Result<Vec<(u64, ProcessEvent)>, Failure> {
        let mut found: Vec<(u64, ProcessEvent)> = Vec::with_capacity(answer.chunks.len() + 2);
        let mut previous = self.published();
        for chunk in answer.chunks {
            let other = self
                .sequence
                .get(chunk.seq)
                .is_some_and(|(what, _)| !matches!(what, ProcessEvent::Output(..)));
            if chunk.seq > last || other || answer.closed && chunk.seq == last {
                return Err(Failure::Contradiction);
            }
            if chunk.seq > previous {
                previous = chunk.seq;
                found.push((chunk.seq, ProcessEvent::Output(chunk.stream, chunk.chunk.0)));
            }
        }
        if answer.closed {
            let other =
                self.sequence.get(last).is_some_and(|(what, _)| *what != ProcessEvent::Closed);
            if other || self.sequence.seen() > last {
                return Err(Failure::Contradiction);
            }
            found.push((last, ProcessEvent::Closed));
        }
        // What is closed has exited.
        let exit = ((answer.exited || answer.closed) && !self.knows_exit())
            .then(|| ProcessEvent::Exited(answer.exit_code.unwrap_or(-1)));
        self.fill(&mut found, exit, last)?;
        Ok(found)
    }

    /// Puts the exit, if its number is not known yet, where one number is missing. Any other that is missing is a gap.
    fn fill(
        &self,
        found: &mut Vec<(u64, ProcessEvent)>,
        exit: Option<ProcessEvent>,
        last: u64,
    ) -> Result<(), Failure> {
        let mut missing = self.missing(found, last);
        let (first, second) = (missing.next(), missing.next());
        drop(missing);
        match (first, second, exit) {
            (None, _, None) => Ok(()),
            (Some(seq), None, Some(exit)) => {
                let place = found.partition_point(|(other, _)| *other < seq);
                found.insert(place, (seq, exit));
                Ok(())
            }
            (Some(seq), Some(_), Some(exit)) if defect!(HoleTakenForExit) => {
                self.log.push(exit.event(seq, Via { generation: 0, live: false }));
                Err(Failure::Gap { next: self.published() + 1, last })
            }
            (Some(next), ..) => Err(Failure::Gap { next, last }),
            // It exited, and there is no place for that.
            (None, _, Some(_)) => Err(Failure::Contradiction),
        }
    }

    /// The numbers up to `last` that neither wait nor were found.
    fn missing<'a>(
        &'a self,
        found: &'a [(u64, ProcessEvent)],
        last: u64,
    ) -> impl Iterator<Item = u64> + 'a {
        let known =
            found.iter().map(|(seq, _)| *seq).chain(self.sequence.waiting().map(|(seq, _)| seq));
        let mut known: Vec<u64> = known.filter(|seq| *seq <= last).collect();
        known.sort_unstable();
        known.dedup();
        let mut known = known.into_iter().chain([last.saturating_add(1)]).peekable();
        let mut next = self.published() + 1;
        std::iter::from_fn(move || {
            while known.next_if_eq(&next).is_some() {
                next = next.saturating_add(1);
            }
            let missing = next;
            next = next.saturating_add(1);
            known.peek().map(|_| missing)
        })
    }

    /// It fails: its subscribers are told, once.
    pub(super) fn fail(&mut self, failure: Failure) {
        self.sequence.clear();
        self.behind_since = None;
        self.log.push(Event::Failed(failure));
    }

    /// Its connection is gone, and with it what was being read.
    pub(super) fn connection_lost(&mut self) {
        (self.reading, self.tries, self.dropped) = (Reading::Idle, 0, false);
        if defect!(CatchesUpFromReceived) {
            self.sequence.clear(); // the buffer went with its connection, the cursor did not
        }
    }
}
