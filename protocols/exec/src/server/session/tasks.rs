//! The reports and queries of the tasks of processes.

use bytes::Bytes;
use reknit_seams::process::{Child, Exit};
use reknit_seams::{defect, milestone};
use tokio::sync::watch;
use tokio::time::Instant;

use super::Session;
use crate::server::log::CHUNK;
use crate::server::process::{RetainedProcess, Run};
use crate::server::request_error::RequestError;
use crate::wire::process::OutputStream;

/// Whether the task may read the output of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Room {
    /// The task may read.
    Yes,
    /// The task must wait until it is woken, or until this time.
    NotYet(Option<Instant>),
    /// The process was removed, or is closed.
    Gone,
}

impl Session {
    /// Returns the process, if it still is the same run.
    fn of(&mut self, run: &Run) -> Option<&mut RetainedProcess> {
        let is_its = |process: &&mut RetainedProcess| {
            process.start == run.start || defect!(OlderRunTakenForNewer)
        };
        self.processes.get_mut(&run.id).filter(is_its)
    }

    /// Records a successful launch; returns the receiver that wakes the task of the process.
    /// Returns `None` if the start was cancelled: the task then has to kill the child.
    pub(in super::super) fn started(
        &mut self,
        run: &Run,
        streams: usize,
        stdin: bool,
    ) -> Option<watch::Receiver<()>> {
        let limits = self.limits;
        let wake = self.of(run)?.launched(streams, stdin, &limits);
        milestone!("exec.process.started", process = run.id.as_str());
        self.settle(run, Ok(()));
        Some(wake)
    }

    /// Records a failed launch: the id is free again, unless a newer start has taken it.
    pub(in super::super) fn start_failed(&mut self, run: &Run, why: String) {
        if self.of(run).is_some() {
            self.processes.remove(&run.id);
            milestone!("exec.process.start-failed", process = run.id.as_str());
            self.settle(run, Err(RequestError::StartFailed(why)));
        }
    }

    /// Whether the task may read the output of a process now. A paused process resumes only when
    /// there is room for half of the limits.
    pub(in super::super) fn room(&mut self, run: &Run, now: Instant) -> Room {
        let Some(process) =
            self.processes.get(&run.id).filter(|process| process.start == run.start)
        else {
            return Room::Gone;
        };
        if process.closed() {
            return Room::Gone;
        }
        let (paused, next) = (process.paused, process.log.next());
        let flows =
            process.may_print(self.window) || defect!(FlowEndsWithConnection) && !self.attached();
        let (room, until) = match self.attachment.owed() {
            None => (flows && !(paused && defect!(PausedForever)), None),
            Some(owed) => {
                let unsent = next - owed.cursors.get(&run.id).copied().unwrap_or(next);
                let most = self.limits.outbound_queue as u64;
                let queued = if paused { unsent > most / 2 } else { unsent >= most };
                let queued = queued && !defect!(OutboundUnbounded);
                let goes = process.log.would_evict(if paused {
                    CHUNK.max(self.limits.retained_bytes / 2)
                } else {
                    CHUNK
                });
                let loses = owed.needed(&run.id, now).is_some_and(|needed| goes >= Some(needed));
                (
                    flows && !queued && !loses || defect!(UnsentIsEvicted),
                    (now < owed.grace).then_some(owed.grace),
                )
            }
        };
        if !room && !paused {
            milestone!("exec.process.paused", process = run.id.as_str());
        }
        if let Some(process) = self.of(run) {
            process.paused = !room;
        }
        if room { Room::Yes } else { Room::NotYet(until) }
    }

    /// Appends output of a process.
    pub(in super::super) fn produced(&mut self, run: &Run, stream: OutputStream, bytes: Bytes) {
        let attached = self.attached();
        let Some(process) = self.of(run).filter(|process| !process.closed()) else { return };
        if defect!(NotRetainedWhileDetached) && !attached {
            return process.log.skip();
        }
        let consumed = process.flow.map_or(0, |flow| flow.consumed);
        let gone = process.produced(stream, bytes).filter(|gone| *gone > consumed);
        if let (Some(gone), false) = (gone, attached) {
            milestone!("exec.process.evicted", process = run.id.as_str(), seq = gone);
            if defect!(EvictionSkipsNeighbours) {
                self.skip_neighbours(run);
            }
        }
        if defect!(OutputWithoutWakeUp) {
            if let Some(owed) = self.attachment.owed_mut() {
                owed.pending.insert(run.id.clone());
            }
            return;
        }
        self.mark_pending(&run.id);
    }

    /// Records the end of an output stream of a process.
    pub(in super::super) fn stream_ended(&mut self, run: &Run, now: Instant) {
        self.changed(run, |process| process.stream_ended(now));
    }

    /// Records that a process has exited. Its exit is reported later, behind its output.
    pub(in super::super) fn exit_is_known(&mut self, run: &Run) {
        if let Some(process) = self.of(run) {
            process.exit_is_known();
        }
    }

    /// Records the exit of a process.
    pub(in super::super) fn exited(
        &mut self,
        run: &Run,
        exit: std::io::Result<Exit>,
        now: Instant,
    ) {
        let (code, failure) = match exit {
            Ok(exit) => (exit_code(exit), None),
            Err(error) => (-1, Some(format!("the wait for the process failed: {error}"))),
        };
        self.changed(run, |process| {
            milestone!(
                "exec.process.exited",
                process = run.id.as_str(),
                code = i64::from(code),
                seq = process.log.next()
            );
            process.exited(code, failure, now);
        });
    }

    fn changed(&mut self, run: &Run, change: impl FnOnce(&mut RetainedProcess)) {
        let Some(process) = self.of(run).filter(|process| !process.closed()) else { return };
        change(process);
        if process.closed() {
            milestone!(
                "exec.process.closed",
                process = run.id.as_str(),
                seq = process.log.next() - 1
            );
        }
        self.mark_pending(&run.id);
    }

    /// Returns the next bytes for the standard input of a process.
    pub(in super::super) fn next_input(&mut self, run: &Run) -> Option<Bytes> {
        self.of(run)?.stdin.next()
    }

    /// Removes bytes that the process has taken, and wakes the connection, because a waiting write
    /// may have room now.
    pub(in super::super) fn input_written(&mut self, run: &Run, count: usize) {
        if let Some(process) = self.of(run) {
            process.stdin.took(count);
            if !defect!(ReadInputWakesNothing) {
                self.wake();
            }
        }
    }

    /// Closes the standard input of a process that no longer reads it.
    pub(in super::super) fn input_closed(&mut self, run: &Run) {
        if let Some(process) = self.of(run) {
            process.stdin.close();
            if !defect!(ClosedInputWakesNothing) {
                self.wake();
            }
        }
    }

    /// Removes and returns the next signal for a process.
    pub(in super::super) fn next_signal(&mut self, run: &Run) -> Option<i32> {
        self.of(run)?.take_signal()
    }

    /// Keeps a closed process until the session forgets it. A removed one is dropped.
    pub(in super::super) fn keep(&mut self, run: &Run, ended: Box<dyn Child>) {
        if defect!(LeftoversNeedAClient) && !self.attached() {
            return; // The bug: what the process left in the background is killed.
        }
        if let Some(process) = self.of(run) {
            process.keep(ended);
        }
    }

    /// Whether the process is closed or removed, so that its task can end.
    pub(in super::super) fn over(&mut self, run: &Run) -> bool {
        self.of(run).is_none_or(|process| process.closed())
    }
}

/// Returns the exit code on the wire: the process's exit code, or, as in shells, 128 plus the
/// signal number.
pub fn exit_code(exit: Exit) -> i32 {
    match exit {
        Exit::Code(code) => code,
        Exit::Signal(number) => 128 + number,
    }
}
