//! The client's state of one process: its events in order, regardless of the connection that
//! delivered them.
//!
//! Live notifications and the answers of catch-up reads go into one [`Sequence`]; events that are
//! next in order are published to the log. A read returns chunks with their numbers, but reports
//! exit and close without numbers. [`ProcessState::merge`] derives the numbers of exit and close,
//! or detects a gap that nothing can fill.

use std::sync::Arc;

use bytes::Bytes;
use reknit_resume::{Bounds, InsertOutcome, Sequence};
use reknit_seams::{defect, milestone};
use tokio::time::Instant;

use crate::client::Failure;
use crate::client::command::Key;
use crate::client::defects::ProcessDefects;
use crate::client::log::{Event, Log, Via};
use crate::wire::process::{Chunk, OutputStream, ReadResult, UNKNOWN_EXIT_CODE};

/// The content of an event, without its number.
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

/// The progress of a process's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StartStage {
    /// The start was requested and not answered yet.
    Starting,
    /// The process was started; a recovery reads its missed events.
    Running,
}

/// The state of the read that fetches missing events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// No read is needed.
    Idle,
    /// A read is in flight, with this deadline. A page returns at most this many bytes of output;
    /// without a page, the read returns everything.
    Asked { until: Instant, page: Option<u64> },
    /// A read is due at this time: one failed for a transient reason, or dropped events must be
    /// read.
    Again { at: Instant },
}

/// The client's state of a process.
pub(super) struct ProcessState {
    id: Arc<str>,
    pub(super) serial: u64,
    pub(super) stage: StartStage,
    pub(super) log: Arc<Log>,
    pub(super) reading: Reading,
    /// How many reads in a row have failed or returned nothing new.
    pub(super) tries: u32,
    /// Since when events are missing.
    pub(super) behind_since: Option<Instant>,
    /// Whether events were dropped since the read in flight was sent, or before the start was
    /// answered.
    pub(super) dropped: bool,
    /// Since when the log has refused events that the client has not requested again.
    pub(super) refused_since: Option<Instant>,
    sequence: Sequence<(ProcessEvent, Via)>,
    defects: ProcessDefects,
    exited: bool,
    closed: bool,
}

impl ProcessState {
    pub(super) fn new(key: &Key, log: Arc<Log>, bounds: Bounds) -> Self {
        let bounds = if defect!(ReorderUnbounded) {
            Bounds { items: usize::MAX, weight: usize::MAX }
        } else {
            bounds
        };
        Self {
            id: key.id.clone(),
            serial: key.serial,
            stage: StartStage::Starting,
            log,
            reading: Reading::Idle,
            tries: 0,
            behind_since: None,
            dropped: false,
            refused_since: None,
            sequence: Sequence::new(bounds),
            defects: ProcessDefects::default(),
            exited: false,
            closed: false,
        }
    }

    /// The start was answered: from now on, notifications belong to this process. Earlier
    /// notifications were dropped, but may also have belonged to it, so they are read.
    pub(super) fn started(&mut self, now: Instant) {
        self.stage = StartStage::Running;
        if std::mem::take(&mut self.dropped) {
            self.read_again(now);
        }
    }

    /// Returns its id.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Returns the number of the last published event.
    pub(super) fn published(&self) -> u64 {
        self.sequence.published()
    }

    /// Returns the greatest number seen so far.
    pub(super) fn seen(&self) -> u64 {
        self.sequence.seen()
    }

    /// Returns the number after which the next read starts: that of the last published event, or of
    /// the last event that a page returned. Between the two, the server has nothing that is not
    /// waiting here.
    pub(super) fn read_after(&self) -> u64 {
        if defect!(CatchesUpFromReceived) {
            return self.defects.received;
        }
        let paged = self.sequence.waiting().filter(|(_, (_, via))| !via.live);
        paged.last().map_or(self.published(), |(seq, _)| seq)
    }

    /// Whether its close was published, so that its events are complete.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether the log has refused events that the client has not requested again.
    pub(super) fn is_refused(&self) -> bool {
        self.refused_since.is_some()
    }

    /// Returns how many events wait for a lower number, and their bytes.
    pub(super) fn held_back(&self) -> (usize, usize) {
        (self.sequence.waiting().count(), self.sequence.weight())
    }

    /// Whether its exit is known, published or not.
    fn knows_exit(&self) -> bool {
        self.exited
            || self.sequence.waiting().any(|(_, (what, _))| matches!(what, ProcessEvent::Exited(_)))
    }

    /// Takes an event from a notification, and publishes the events that are next in order.
    ///
    /// # Errors
    /// [`Failure::Contradiction`] if the event is inconsistent with earlier events.
    pub(super) fn on_event(
        &mut self,
        seq: u64,
        what: ProcessEvent,
        via: Via,
        now: Instant,
    ) -> Result<InsertOutcome, Failure> {
        self.defects.received = self.defects.received.max(seq);
        if self.is_refused() {
            return Ok(InsertOutcome::Kept); // a later read returns it
        }
        if defect!(ArrivalOrder) || defect!(CloseOnArrival) && what == ProcessEvent::Closed {
            self.notify(seq, what, via);
            return Ok(InsertOutcome::Kept);
        }
        if defect!(DuplicatesDelivered) && seq <= self.published() && !self.closed {
            self.log.push(what.event(seq, via));
            return Ok(InsertOutcome::Kept);
        }
        let fresh = seq > self.published() && !self.sequence.has(seq);
        if fresh && !self.fits(seq, &what) && !defect!(EventBehindCloseKept) {
            return Err(Failure::Contradiction);
        }
        let weight = what.weight();
        let taken = self.sequence.insert(seq, (what, via), weight);
        self.publish(now)?;
        Ok(taken)
    }

    /// Whether a new event is consistent with the waiting events: there is only one exit, and no
    /// event follows the close.
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

    /// Publishes the events that are next in order.
    ///
    /// # Errors
    /// [`Failure::Contradiction`] at a close without an exit before it.
    fn publish(&mut self, now: Instant) -> Result<(), Failure> {
        while let Some((what, via)) = self.sequence.get(self.published().saturating_add(1)) {
            let (what, via) = (what.clone(), *via);
            if what == ProcessEvent::Closed && !self.exited {
                return Err(Failure::Contradiction);
            }
            if !self.notify(self.published() + 1, what, via) {
                if defect!(RefusedEventCountsAsKept) {
                    self.sequence.pop();
                }
                self.log_is_full(now);
                break;
            }
            self.sequence.pop();
        }
        let behind = !self.closed && self.sequence.is_behind();
        if !behind && self.behind_since.is_some() {
            self.tries = 0; // no event is missing now; a later gap has its own retries
        }
        let known = self.behind_since.filter(|_| !defect!(EachEventRestartsGapWait));
        self.behind_since = behind.then(|| known.unwrap_or(now));
        Ok(())
    }

    /// The log has no room: from now on, live events are dropped, and read later.
    fn log_is_full(&mut self, now: Instant) {
        milestone!("exec.client.log-full", process = &*self.id);
        self.sequence.clear();
        self.refused_since = Some(now);
    }

    /// Publishes one event, and returns whether the log had room for it.
    fn notify(&mut self, seq: u64, what: ProcessEvent, via: Via) -> bool {
        let (exited, closed) =
            (matches!(what, ProcessEvent::Exited(_)), what == ProcessEvent::Closed);
        let published = self.log.push(what.event(seq, via));
        self.exited |= exited && published;
        self.closed |= closed && published;
        published
    }

    /// Merges the answer of an unbounded read, which contains every event after
    /// [`read_after`](Self::read_after) that the server still has. Publishes events up to the first
    /// missing one.
    ///
    /// # Errors
    /// [`Failure::Gap`] if the server no longer has a missing event; no event after it is
    /// published.
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
            // The events are in order, so each is published before the next one is inserted. The
            // bounds apply only to events that wait behind a missing one, and no event is missing
            // here.
            self.sequence.insert(seq, (what, via), weight);
            self.publish(now)?;
        }
        if self.log.is_refusing() {
            self.log_is_full(now);
        }
        Ok(())
    }

    /// Merges a page: the answer of a bounded read. Publishes its chunks up to the first missing
    /// number, and holds the others back.
    ///
    /// A page says nothing about the events after its last chunk. `exited` and `closed` may describe
    /// the whole process, and `next_seq` may count events that the page does not reach: only an
    /// unbounded answer has the numbers of exit and close. So a page never ends a process, and one
    /// missing number may be the exit.
    ///
    /// # Errors
    /// [`Failure::Gap`] if the server no longer has a missing event.
    pub(super) fn merge_page(
        &mut self,
        page: ReadResult,
        generation: u64,
        now: Instant,
    ) -> Result<(), Failure> {
        let Some(last) = page.chunks.last().map(|chunk| chunk.seq) else { return Ok(()) };
        let may_be_exit = (page.exited || page.closed) && !self.knows_exit();
        let found = self.outputs(page.chunks, last)?;
        let mut missing = self.missing(&found, last);
        match (missing.next(), missing.next()) {
            (None, _) => {}
            (Some(_), None) if may_be_exit => {}
            _ if defect!(PageGapSkipped) => {}
            (Some(next), _) => return Err(Failure::Gap { next, last }),
        }
        drop(missing);
        for (seq, what) in found {
            let weight = what.weight();
            self.sequence.insert(seq, (what, Via { generation, live: false }), weight);
            self.publish(now)?;
        }
        if self.log.is_refusing() {
            self.log_is_full(now);
        }
        Ok(())
    }

    /// Returns the chunks that are not published yet as events, in order. All of them must have
    /// numbers up to `last`.
    fn outputs(&self, chunks: Vec<Chunk>, last: u64) -> Result<Vec<(u64, ProcessEvent)>, Failure> {
        let mut found: Vec<(u64, ProcessEvent)> = Vec::with_capacity(chunks.len() + 2);
        let mut previous = self.published();
        for chunk in chunks {
            let other = self
                .sequence
                .get(chunk.seq)
                .is_some_and(|(what, _)| !matches!(what, ProcessEvent::Output(..)));
            if chunk.seq > last || other {
                return Err(Failure::Contradiction);
            }
            if chunk.seq > previous {
                previous = chunk.seq;
                found.push((chunk.seq, ProcessEvent::Output(chunk.stream, chunk.chunk.0)));
            }
        }
        Ok(found)
    }

    /// Returns the events of an unbounded answer up to `last`, in order.
    fn find(&self, answer: ReadResult, last: u64) -> Result<Vec<(u64, ProcessEvent)>, Failure> {
        // The close has the last number; no chunk can have it, too.
        let last_chunk = if answer.closed { last.saturating_sub(1) } else { last };
        let mut found = self.outputs(answer.chunks, last_chunk)?;
        if answer.closed {
            let other =
                self.sequence.get(last).is_some_and(|(what, _)| *what != ProcessEvent::Closed);
            if other || self.sequence.seen() > last {
                return Err(Failure::Contradiction);
            }
            found.push((last, ProcessEvent::Closed));
        }
        // A closed process has also exited.
        let unknown = if defect!(UnknownExitIsZero) { 0 } else { UNKNOWN_EXIT_CODE };
        let exit = ((answer.exited || answer.closed) && !self.knows_exit())
            .then(|| ProcessEvent::Exited(answer.exit_code.unwrap_or(unknown)));
        self.fill(&mut found, exit, last)?;
        Ok(found)
    }

    /// Assigns the exit, if its number is not known yet, to the one missing number. Any other
    /// missing number is a gap.
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
            // The process exited, but no number is left for the exit.
            (None, _, Some(_)) => Err(Failure::Contradiction),
        }
    }

    /// Returns the numbers up to `last` that are neither waiting nor found.
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

    /// Fails the process: its subscribers get the failure once.
    pub(super) fn fail(&mut self, failure: Failure) {
        self.sequence.clear();
        self.behind_since = None;
        self.log.push(Event::Failed(failure));
    }

    /// Handles a lost connection: the read in flight is lost with it.
    pub(super) fn connection_lost(&mut self) {
        let tries = if defect!(TriesOutliveConnection) { self.tries } else { 0 };
        (self.reading, self.tries, self.dropped) = (Reading::Idle, tries, false);
        if defect!(CatchesUpFromReceived) {
            self.sequence.clear(); // the defect drops the buffer, but not the cursor
        }
    }
}
