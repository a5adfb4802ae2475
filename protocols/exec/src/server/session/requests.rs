//! The requests of clients to a session, and the events that it sends them.

use std::collections::BTreeMap;

use bytes::Bytes;
use reknit_seams::defect;
use reknit_seams::net::ConnId;
use tokio::time::Instant;

use super::Session;
use crate::server::flow::Unconsumed;
use crate::server::log::LogEntry;
use crate::server::process::{ProcessId, ProcessStage, RetainedProcess, Run, StartId};
use crate::server::request_error::RequestError;
use crate::server::write_ids::WriteAnswer;
use crate::wire::process::{ReadResult, WriteStatus};
use crate::wire::sandbox::SandboxType;

impl Session {
    /// Registers the start of a process; its id is taken from now on.
    pub(in super::super) fn start(
        &mut self,
        by: ConnId,
        id: &ProcessId,
        sandbox: SandboxType,
        now: Instant,
    ) -> Result<Run, RequestError> {
        self.check(by)?;
        if self.processes.contains_key(id) {
            return Err(RequestError::Duplicate(id.clone()));
        }
        let is_full = self.processes.len() >= self.limits.processes;
        if is_full && !defect!(ProcessesUnbounded) && !self.forget_one(now) {
            return Err(RequestError::TooMany("processes"));
        }
        self.starts += 1;
        let start = StartId(self.starts);
        let mut process = RetainedProcess::new(start, sandbox, &self.limits);
        process.flow = self.window.map(|_| Unconsumed::default());
        self.processes.insert(id.clone(), process);
        if let Some(owed) = self.attachment.owed_mut() {
            owed.cursors.insert(id.clone(), 1);
            owed.unread.remove(id); // an older process with this id may have unread output
            owed.starts.insert(start, None);
        }
        Ok(Run { id: id.clone(), start })
    }

    /// Returns the outcome of a start once, or `None` if it is not known yet. Only the connection
    /// that requested the start gets it.
    pub(in super::super) fn outcome(&mut self, run: &Run) -> Option<Result<(), RequestError>> {
        let owed = self.attachment.owed_mut()?;
        owed.starts.get(&run.start)?.as_ref()?;
        owed.pending.insert(run.id.clone()); // its earlier events follow the answer
        owed.starts.remove(&run.start)?
    }

    /// Reads the events of a process. Returns `None` if there is nothing new and the reader may
    /// wait.
    pub(in super::super) fn read(
        &mut self,
        by: ConnId,
        id: &ProcessId,
        read: Reading,
    ) -> Result<Option<ReadResult>, RequestError> {
        self.check(by)?;
        if defect!(SentCloseIsUnknown) && self.has_sent_close(id) {
            return Err(RequestError::UnknownProcess(id.clone()));
        }
        let process = launched(&mut self.processes, id)?;
        if read.may_wait && !process.log.has_answer(read.after) {
            return Ok(None);
        }
        let dropped = process.flow.filter(|_| defect!(ConsumedOutputDropped));
        let after = read.after.max(dropped.map_or(0, |flow| flow.consumed));
        let result = process.log.read(after, read.max);
        if let Some(owed) = self.attachment.owed_mut() {
            let all_read = result.next_seq >= process.log.next();
            owed.unread.entry(id.clone()).and_modify(|from| *from = result.next_seq.max(*from));
            if all_read {
                owed.unread.remove(id);
            }
            if !defect!(PausedForever) {
                process.resume();
            }
        }
        Ok(Some(result))
    }

    /// Records how far the client has consumed the output of a process. Does nothing if the process
    /// does not exist: the report may have crossed its end on the way.
    pub(in super::super) fn consumed(
        &mut self,
        by: ConnId,
        id: &ProcessId,
        seq: Option<u64>,
    ) -> Result<(), RequestError> {
        self.check(by)?;
        if let Some(process) = self.processes.get_mut(id) {
            process.consumed(seq);
        }
        Ok(())
    }

    /// Queues bytes for the standard input of a process. Returns the result of the request, or
    /// `None` if there is no room.
    pub(in super::super) fn write(
        &mut self,
        by: ConnId,
        id: &ProcessId,
        write: Option<&str>,
        bytes: &Bytes,
        now: Instant,
    ) -> Result<Option<WriteStatus>, RequestError> {
        self.check(by)?;
        let is_repetition_over = self.repetition_ends().is_some_and(|end| end <= now);
        let answer = self.next_write_answer(by);
        let Some(process) = self.processes.get_mut(id) else {
            return Ok(Some(WriteStatus::UnknownProcess));
        };
        if process.stage == ProcessStage::Starting {
            let status = if defect!(StartingIsUnknown) {
                WriteStatus::UnknownProcess
            } else {
                WriteStatus::Starting
            };
            return Ok(Some(status));
        }
        if process.paused && defect!(PausedTakesNoInput) {
            return Ok(Some(WriteStatus::StdinClosed));
        }
        if is_repetition_over {
            process.stdin.ids_mut().keep_only(by);
        }
        let status = process.stdin.write(write, bytes, answer);
        let ids_full = status.is_none() && !process.stdin.ids().has_room();
        process.wake();
        if let Some(owed) = self.attachment.owed_mut() {
            let remembered = status == Some(WriteStatus::Accepted) && write.is_some();
            owed.write_answers += u64::from(remembered);
            owed.ids_full |= ids_full;
        }
        Ok(status)
    }

    /// Returns the next answer to a write over the attached connection.
    fn next_write_answer(&self, by: ConnId) -> WriteAnswer {
        let answered = self.attachment.owed().map_or(0, |owed| owed.write_answers);
        WriteAnswer { conn: by, number: answered + 1 }
    }

    /// Returns when the client of the attached connection no longer repeats writes of earlier
    /// connections.
    pub(in super::super) fn repetition_ends(&self) -> Option<Instant> {
        self.attachment.owed().map(|owed| owed.since + self.limits.write_repetition)
    }

    /// Returns the number of the last answer to a write, if the server should find out now whether
    /// it has reached the client: after a quarter of the limit of ids, or when a write waits for
    /// room. The answers up to this one must be in the outbox.
    pub(in super::super) fn answers_to_mark(&mut self) -> Option<u64> {
        let enough = (self.limits.write_ids as u64 / 4).max(1);
        let owed = self.attachment.owed_mut()?;
        let unmarked = owed.write_answers - owed.marked;
        let due = unmarked >= enough || owed.ids_full && unmarked > 0;
        if !due || owed.marked > owed.reached {
            return None; // too few, or the last mark is still on its way
        }
        owed.marked = owed.write_answers;
        Some(owed.marked)
    }

    /// Records that the client has received the answers to writes up to this number: it will not
    /// repeat these writes.
    pub(in super::super) fn answers_reached(&mut self, by: ConnId, number: u64) {
        if self.attached_by() != Some(by) {
            return;
        }
        let Some(owed) = self.attachment.owed_mut().filter(|owed| number <= owed.marked) else {
            return; // the client has made up a pong
        };
        owed.reached = owed.reached.max(number);
        owed.ids_full = false;
        let last = WriteAnswer { conn: by, number };
        self.processes.values_mut().for_each(|process| process.answers_reached(last));
    }

    /// For a defect: the second half of a write, which remembers its id.
    pub(in super::super) fn remember_write(
        &mut self,
        by: ConnId,
        id: &ProcessId,
        write: Option<&str>,
    ) {
        let answer = self.next_write_answer(by);
        if let Some(process) = self.processes.get_mut(id) {
            process.stdin.remember(write, answer);
        }
    }

    /// Queues a signal for a process. As in codex 0.169.0, a process that does not exist is no
    /// error: the signal may have crossed the end of the process on the way.
    pub(in super::super) fn signal(
        &mut self,
        by: ConnId,
        id: &ProcessId,
        number: i32,
    ) -> Result<(), RequestError> {
        self.check(by)?;
        match launched(&mut self.processes, id) {
            Ok(process) => process.queue_signal(number),
            Err(RequestError::UnknownProcess(_)) => {}
            Err(refusal) => return Err(refusal),
        }
        Ok(())
    }

    /// Kills a process and its group; returns whether it was starting or running. As with
    /// codex 0.169.0, processes in the background live on after the exit, also while the exit waits
    /// behind output that the client has not consumed. The start of a process that is being launched
    /// is cancelled: its id is free at once, and its task kills the child after the launch.
    pub(in super::super) fn terminate(
        &mut self,
        by: ConnId,
        id: &ProcessId,
    ) -> Result<bool, RequestError> {
        self.check(by)?;
        let Some(process) = self.processes.get_mut(id) else { return Ok(false) };
        if process.stage == ProcessStage::Starting {
            if defect!(TerminateIgnoresStarting) || defect!(StartDiesWithConnection) {
                return Ok(false);
            }
            let start = process.start;
            self.processes.remove(id);
            self.settle(&Run { id: id.clone(), start }, Err(RequestError::StartCancelled));
            return Ok(true);
        }
        let over =
            if defect!(ExitedCountsAsRunning) { process.closed() } else { process.has_exited() };
        let running = !over;
        if running {
            process.terminate();
        }
        Ok(running)
    }

    /// Returns the next event to send, alternating between processes, or `None` if there is none.
    /// The events of a process are sent after the answer to its start, so the client knows which
    /// process with this id they belong to.
    pub(in super::super) fn pull(
        &mut self,
        by: ConnId,
    ) -> Result<Option<(ProcessId, LogEntry)>, RequestError> {
        self.check(by)?;
        let own = self.attached_by() == Some(by);
        let Some(owed) = self.attachment.owed_mut().filter(|owed| own && !owed.muted) else {
            return Ok(None);
        };
        loop {
            // The bug: a process that prints much keeps its turn.
            let next =
                if defect!(FullestFirst) { owed.fullest(&self.processes) } else { owed.next() };
            let Some(id) = next.cloned() else { return Ok(None) };
            let process =
                self.processes.get(&id).filter(|process| !owed.starts.contains_key(&process.start));
            let sent = owed.cursors.get(&id).zip(process);
            let Some((event, process)) =
                sent.and_then(|(cursor, process)| Some((process.log.event(*cursor)?, process)))
            else {
                owed.pending.remove(&id);
                continue;
            };
            owed.cursors.insert(id.clone(), event.seq + 1);
            if defect!(LiveEventEndsHold) {
                // The bug: the client may not have read the events before this one.
                owed.unread.remove(&id);
            }
            process.resume();
            if process.closed() && event.seq + 1 == process.log.next() {
                owed.cursors.remove(&id);
            }
            owed.turn = Some(id.clone());
            return Ok(Some((id, event)));
        }
    }
}

/// Returns a process, if it was launched.
fn launched<'a>(
    processes: &'a mut BTreeMap<ProcessId, RetainedProcess>,
    id: &ProcessId,
) -> Result<&'a mut RetainedProcess, RequestError> {
    match processes.get_mut(id) {
        None => Err(RequestError::UnknownProcess(id.clone())),
        Some(process) if process.stage == ProcessStage::Starting => {
            Err(RequestError::Starting(id.clone()))
        }
        Some(process) => Ok(process),
    }
}

/// The parameters of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Reading {
    /// Read events after this number.
    pub(in super::super) after: u64,
    /// Return at most this many bytes.
    pub(in super::super) max: Option<u64>,
    /// Whether the reader waits if there is nothing new.
    pub(in super::super) may_wait: bool,
}
