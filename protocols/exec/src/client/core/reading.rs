//! The reads that fetch missing events: after a recovery for every process, and while connected for
//! a process with missing events.
//!
//! A read requests everything after the last published event. The client repeats it if the server
//! refused it for a transient reason, or if it returned fewer events than are known to exist. The
//! number of retries is limited, and the pauses grow. If events are still missing after the last
//! retry, the process fails with a gap.
//!
//! If a read was lost with its connection, the client reads pages until the next connection is
//! installed. The last read of a process requests everything, because only its answer contains the
//! numbers of exit and close.
//!
//! When the log of a process is full, the client drops the live events of this process until half of
//! the log is free, and reads them then.

use std::sync::Arc;

use reknit_seams::{defect, milestone};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::Core;
use super::connection::InFlight;
use super::process::{ProcessState, Reading, StartStage};
use crate::client::Failure;
use crate::client::command::Key;
use crate::wire::process::{ReadParams, ReadResult};
use crate::wire::{ErrorBody, code, method, read};

/// The server's message for a process that it does not have. The error code alone is ambiguous.
const UNKNOWN_PROCESS: &str = "unknown process";

/// The read that follows an answer.
enum After {
    /// The next page.
    Page,
    /// Everything after the pages.
    Rest,
    /// None: the process has caught up, or its log is full.
    Nothing,
}

impl ProcessState {
    /// Schedules a read, because events were dropped that the server will not resend.
    pub(super) fn read_again(&mut self, now: Instant) {
        match self.reading {
            Reading::Idle => self.reading = Reading::Again { at: now },
            Reading::Asked { .. } => self.dropped = true,
            Reading::Again { .. } => {}
        }
    }

    /// Takes a page, and returns the read that continues.
    fn take_page(
        &mut self,
        page: u64,
        answer: ReadResult,
        generation: u64,
        now: Instant,
    ) -> Result<After, Failure> {
        let bytes: u64 = answer.chunks.iter().map(|chunk| chunk.chunk.0.len() as u64).sum();
        let before = self.read_after();
        self.merge_page(answer, generation, now)?;
        let last = self.read_after();
        milestone!("exec.client.page", process = self.id(), last);
        Ok(match () {
            () if self.is_refused() => After::Nothing,
            // A page that is half empty was probably the last one.
            () if last > before && bytes > page / 2 => After::Page,
            () => After::Rest,
        })
    }

    /// Takes the answer to a read of everything.
    fn take_rest(
        &mut self,
        mut answer: ReadResult,
        generation: u64,
        now: Instant,
    ) -> Result<After, Failure> {
        // A process whose exit is known goes on to its end, like one whose exit arrived as an event. Such a
        // failure means that the server could not learn the exit code. The code is then -1.
        let is_over = answer.exited && !defect!(FailureOverridesExit);
        let unwatched = answer.failure.take().filter(|_| !is_over);
        self.merge(answer, generation, now)?;
        // While the log refuses events, a later read reports it again.
        let unwatched = unwatched.filter(|_| !self.is_refused());
        unwatched.map_or(Ok(After::Nothing), |why| Err(Failure::Unwatched(why)))
    }

    /// Returns when a read must be sent, or when its answer is overdue.
    fn due(&self, gap_wait: std::time::Duration) -> Option<Instant> {
        match self.reading {
            Reading::Idle if self.refused_since.is_some() => {
                self.refused_since.filter(|_| !self.log.is_refusing())
            }
            Reading::Idle => self
                .behind_since
                .filter(|_| !defect!(LiveGapUnrepaired))
                .map(|since| since + gap_wait),
            Reading::Asked { until, .. } => Some(until),
            Reading::Again { at } => Some(at),
        }
    }
}

impl Core {
    /// Returns the processes that a recovery reads: those that run, and whose log has room.
    pub(super) fn owed(&self) -> impl Iterator<Item = Arc<str>> {
        let is_owed = |process: &ProcessState| {
            let is_full = process.refused_since.is_some() && process.log.is_refusing();
            // The bug: a recovery also reads the processes whose log is full.
            process.stage == StartStage::Running && (!is_full || defect!(FullLogCatchesUp))
        };
        self.processes.iter().filter(move |(_, process)| is_owed(process)).map(|(id, _)| id.clone())
    }

    /// For a defect: whether the log of a process is full.
    pub(in crate::client) fn is_held(&self) -> bool {
        self.processes.values().any(|process| process.is_refused() && process.log.is_refusing())
    }

    /// Returns when the next read is due.
    pub(super) fn reading_due(&self) -> Option<Instant> {
        self.processes.values().filter_map(|process| process.due(self.limits.gap_wait)).min()
    }

    /// Sends the reads that are due. Fails the processes whose read was not answered in time.
    pub(super) fn send_due_reads(&mut self, now: Instant) {
        let gap_wait = self.limits.gap_wait;
        let is_due = |process: &ProcessState| process.due(gap_wait).is_some_and(|due| due <= now);
        let due: Vec<Arc<str>> =
            self.processes.iter().filter(|(_, p)| is_due(p)).map(|(id, _)| id.clone()).collect();
        for id in due {
            match self.processes.get(&id).map(|process| process.reading) {
                Some(Reading::Asked { .. }) if defect!(OverdueReadForgotten) => {
                    if let Some(process) = self.processes.get_mut(&id) {
                        process.reading = Reading::Idle;
                    }
                }
                Some(Reading::Asked { .. }) => self.fail_process(&id, Failure::Unanswered, now),
                Some(reading) => {
                    let refused = self.processes.get(&id).is_some_and(ProcessState::is_refused);
                    if refused {
                        milestone!("exec.client.log-has-room", process = &*id);
                    } else if reading == Reading::Idle {
                        milestone!("exec.client.live-gap", process = &*id);
                    }
                    self.send_read(&id, now);
                }
                None => {}
            }
        }
    }

    /// Requests the missing events of a process, or a page of them, unless such a read is in flight.
    pub(super) fn send_read(&mut self, id: &Arc<str>, now: Instant) {
        self.send_read_of(id, self.pages.size(), now);
    }

    /// Requests a page, or everything if `page` is `None`.
    fn send_read_of(&mut self, id: &Arc<str>, page: Option<u64>, now: Instant) {
        let until = now + self.limits.call_wait;
        let Some(process) = self.processes.get_mut(id) else { return };
        if matches!(process.reading, Reading::Asked { .. }) {
            return;
        }
        process.reading = Reading::Asked { until, page };
        process.dropped = false;
        process.refused_since = None;
        let key = Key { id: id.clone(), serial: process.serial };
        let params = ReadParams {
            process_id: id.to_string(),
            after_seq: Some(process.read_after()),
            max_bytes: page,
            ..ReadParams::default()
        };
        self.request(method::READ, &params, InFlight::Reading(key));
    }

    /// Handles the answer of a read.
    pub(super) fn read_answered(
        &mut self,
        key: &Key,
        outcome: Result<Box<RawValue>, ErrorBody>,
        now: Instant,
    ) {
        let Some(generation) = self.current().map(|generation| generation.number) else { return };
        let Some(process) =
            self.processes.get_mut(&key.id).filter(|process| process.serial == key.serial)
        else {
            // The bug: the client takes the process for one that it must end.
            if defect!(DroppedCatchUpEndsProcess) {
                self.endings.put(key.id.clone());
            }
            return;
        };
        let asked = std::mem::replace(&mut process.reading, Reading::Idle);
        let answer = match outcome {
            Ok(result) => read::<ReadResult>(Some(&result)).map_err(|_| Failure::Contradiction),
            Err(error) => return self.read_refused(key, error, now),
        };
        let before = process.published();
        let merged = answer.and_then(|answer| match asked {
            Reading::Asked { page: Some(page), .. } => {
                process.take_page(page, answer, generation, now)
            }
            _ => process.take_rest(answer, generation, now),
        });
        let brought = process.published() - before;
        process.tries = if brought > 0 { 0 } else { process.tries };
        let (closed, dropped) = (process.is_closed(), std::mem::take(&mut process.dropped));
        self.count_events(brought);
        match merged {
            Err(failure) => self.fail_read(&key.id, failure, now),
            Ok(_) if closed => self.process_over(&key.id, now),
            Ok(After::Page) => {
                self.pages.arrived();
                self.send_read(&key.id, now);
            }
            Ok(After::Rest) => self.send_read_of(&key.id, None, now),
            Ok(After::Nothing) => {
                self.schedule_reread(&key.id, dropped, now);
                self.caught_up(Some(&key.id), now);
            }
        }
    }

    /// Fails a process because of a permanent gap or another failure of its read.
    fn fail_read(&mut self, id: &str, failure: Failure, now: Instant) {
        if let Failure::Gap { next, last } = failure {
            milestone!("exec.client.gap", process = id, next, last);
        }
        self.fail_process(id, failure, now);
    }

    /// A read returned everything that the server had. If an event that was seen is still missing,
    /// it is read again: at once if the client dropped it; otherwise it may be in flight, and the
    /// client waits for it.
    fn schedule_reread(&mut self, id: &str, dropped: bool, now: Instant) {
        let retries = self.limits.read_retries;
        let Some(process) = self.processes.get_mut(id) else { return };
        if process.behind_since.is_none() {
            process.tries = 0;
            return;
        }
        process.tries += 1;
        if process.tries > retries && !defect!(MissingEventReadForEver) {
            let gap = Failure::Gap { next: process.published() + 1, last: process.seen() };
            return self.fail_read(id, gap, now);
        }
        process.behind_since = Some(now);
        if dropped {
            process.reading = Reading::Again { at: now };
        }
    }

    /// Handles a refused read. Only errors that are known to be permanent fail the process at once.
    fn read_refused(&mut self, key: &Key, error: ErrorBody, now: Instant) {
        milestone!("exec.client.read-refused", process = &*key.id, code = error.code);
        let unknown = error.code == code::INVALID_REQUEST
            && (error.message.contains(UNKNOWN_PROCESS) || defect!(InvalidReadIsFinal));
        let unreadable = matches!(error.code, code::UNKNOWN_METHOD | code::INVALID_PARAMS);
        let for_good = unknown
            || unreadable && !defect!(UnknownReadIsRepeated)
            || defect!(TransientReadErrorIsFatal)
            || defect!(ResumedElsewhereFailsEach);
        let retries = self.limits.read_retries;
        let Some(process) = self.processes.get_mut(&key.id) else { return };
        process.tries += 1;
        if for_good || process.tries > retries {
            return self.fail_process(&key.id, error.into(), now);
        }
        let tries = process.tries - u32::from(!defect!(FirstPauseIsDouble));
        let pause = self.pause(tries);
        let at = if defect!(RefusedReadRepeatedAtOnce) { now } else { now + pause };
        if let Some(process) = self.processes.get_mut(&key.id) {
            process.reading = Reading::Again { at };
        }
    }
}
