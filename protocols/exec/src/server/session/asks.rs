//! What clients ask a session for, and what it sends them.

use std::collections::BTreeMap;

use bytes::Bytes;
use reknit_seams::defect;
use reknit_seams::net::ConnId;
use reknit_seams::process::KILL;
use tokio::time::Instant;

use super::Session;
use crate::server::log::LogEntry;
use crate::server::process::{ProcessId, ProcessStage, RetainedProcess, Run, StartId};
use crate::server::refusal::Refusal;
use crate::wire::process::{ReadResult, WriteStatus};

impl Session {
    /// A process is to be started: its id is taken from now on.
    pub(in super::super) fn start(
        &mut self,
        by: ConnId,
        id: &ProcessId,
        now: Instant,
    ) -> Result<Run, Refusal> {
        self.check(by)?;
        if self.processes.contains_key(id) {
            return Err(Refusal::Duplicate(id.clone()));
        }
        if self.processes.len() >= self.limits.processes && !self.forget_one(now) {
            return Err(Refusal::TooMany("processes"));
        }
        self.starts += 1;
        let start = StartId(self.starts);
        self.processes.insert(id.clone(), RetainedProcess::new(start, &self.limits));
        if let Some(owed) = self.attachment.owed_mut() {
            owed.cursors.insert(id.clone(), 1);
            owed.unread.remove(id); // an older process of this id was not read to its end
            owed.starts.insert(start, None);
        }
        Ok(Run { id: id.clone(), start })
    }

    /// What became of a start, once: `None` as long as it is not known. Only the connection that asked for it is told.
    pub(in super::super) fn outcome(&mut self, run: &Run) -> Option<Result<(), Refusal>> {
        let owed = self.attachment.owed_mut()?;
        owed.starts.get(&run.start)?.as_ref()?;
        owed.news.insert(run.id.clone()); // what it has told meanwhile follows the answer
        owed.starts.remove(&run.start)?
    }

    /// What is known of a process, or `None` where the reader may wait for more.
    pub(in super::super) fn read(
        &mut self,
        by: ConnId,
        id: &ProcessId,
        read: Reading,
    ) -> Result<Option<ReadResult>, Refusal> {
        self.check(by)?;
        let process = launched(&mut self.processes, id)?;
        if read.may_wait && !process.log.has_answer(read.after) {
            return Ok(None);
        }
        let result = process.log.read(read.after, read.max);
        if let Some(owed) = self.attachment.owed_mut() {
            let all_read = result.next_seq >= process.log.next();
            owed.unread.entry(id.clone()).and_modify(|from| *from = result.next_seq.max(*from));
            if all_read {
                owed.unread.remove(id);
            }
            if !defect!(PausedForEver) {
                process.resume();
            }
        }
        Ok(Some(result))
    }

    /// Queues bytes for the standard input of a process; `None` where there is no room.
    pub(in super::super) fn write(
        &mut self,
        by: ConnId,
        id: &ProcessId,
        write: Option<&str>,
        bytes: &Bytes,
    ) -> Result<Option<WriteStatus>, Refusal> {
        self.check(by)?;
        let Some(process) = self.processes.get_mut(id) else {
            return Ok(Some(WriteStatus::UnknownProcess));
        };
        if process.stage == ProcessStage::Starting {
            return Ok(Some(WriteStatus::Starting));
        }
        let status = process.stdin.write(write, bytes);
        process.stir();
        Ok(status)
    }

    /// The second half of a write, for a defect.
    pub(in super::super) fn remember_write(&mut self, id: &ProcessId, write: Option<&str>) {
        if let Some(process) = self.processes.get_mut(id) {
            process.stdin.remember(write);
        }
    }

    /// Has a process sent a signal.
    pub(in super::super) fn signal(
        &mut self,
        by: ConnId,
        id: &ProcessId,
        number: i32,
    ) -> Result<(), Refusal> {
        self.check(by)?;
        launched(&mut self.processes, id)?.order(number);
        Ok(())
    }

    /// Kills a process and all that it started; returns whether there was one. One that is being launched is killed as soon as
    /// it is there, and its id is free at once.
    pub(in super::super) fn terminate(
        &mut self,
        by: ConnId,
        id: &ProcessId,
    ) -> Result<bool, Refusal> {
        self.check(by)?;
        let Some(process) = self.processes.get_mut(id) else { return Ok(false) };
        if process.stage == ProcessStage::Starting {
            if defect!(TerminateIgnoresStarting) || defect!(StartDiesWithConnection) {
                return Ok(false);
            }
            let start = process.start;
            self.processes.remove(id);
            self.settle(&Run { id: id.clone(), start }, Err(Refusal::StartCancelled));
            return Ok(true);
        }
        if !process.closed() {
            process.order(KILL); // also behind the exit: somebody whom it started may hold its output
        }
        Ok(!process.log.exited())
    }

    /// The next event that is to be sent: of each process one in turn. `None` when there is nothing to send. What a process tells is
    /// sent behind the answer to its start: a client knows by that from which process of an id it comes.
    pub(in super::super) fn pull(
        &mut self,
        by: ConnId,
    ) -> Result<Option<(ProcessId, LogEntry)>, Refusal> {
        self.check(by)?;
        let own = self.attached_by() == Some(by);
        let Some(owed) = self.attachment.owed_mut().filter(|owed| own && !owed.deaf) else {
            return Ok(None);
        };
        while let Some(id) = owed.next().cloned() {
            let process =
                self.processes.get(&id).filter(|process| !owed.starts.contains_key(&process.start));
            let sent = owed.cursors.get(&id).zip(process);
            let Some((event, process)) =
                sent.and_then(|(cursor, process)| Some((process.log.event(*cursor)?, process)))
            else {
                owed.news.remove(&id);
                continue;
            };
            owed.cursors.insert(id.clone(), event.seq + 1);
            process.resume();
            if process.closed() && event.seq + 1 == process.log.next() {
                owed.cursors.remove(&id);
            }
            owed.turn = Some(id.clone());
            return Ok(Some((id, event)));
        }
        Ok(None)
    }
}

/// A process that was launched.
fn launched<'a>(
    processes: &'a mut BTreeMap<ProcessId, RetainedProcess>,
    id: &ProcessId,
) -> Result<&'a mut RetainedProcess, Refusal> {
    match processes.get_mut(id) {
        None => Err(Refusal::UnknownProcess(id.clone())),
        Some(process) if process.stage == ProcessStage::Starting => {
            Err(Refusal::Starting(id.clone()))
        }
        Some(process) => Ok(process),
    }
}

/// What a read asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Reading {
    /// What follows this number.
    pub(in super::super) after: u64,
    /// No more bytes than this.
    pub(in super::super) max: Option<u64>,
    /// Whether the reader rather waits than hears that there is nothing.
    pub(in super::super) may_wait: bool,
}
