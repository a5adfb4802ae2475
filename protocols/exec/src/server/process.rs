//! The session's state of one process: its events, its standard input, and the pending actions of
//! its task.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use reknit_resume::Bounds;
use reknit_seams::defect;
use reknit_seams::process::{Child, KILL};
use tokio::sync::watch;
use tokio::time::Instant;

use super::defects::ProcessDefects;
use super::denial;
use super::flow::Unconsumed;
use super::log::{LoggedExit, ServerLog};
use super::stdin::Stdin;
use super::write_ids::WriteAnswer;
use crate::limits::ServerLimits;
use crate::wire::flow::FlowWindow;
use crate::wire::process::OutputStream;
use crate::wire::sandbox::SandboxType;

/// The id of a process, chosen by the client.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct ProcessId(Arc<str>);

impl From<&str> for ProcessId {
    fn from(id: &str) -> Self {
        Self(id.into())
    }
}

impl ProcessId {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Identifies a start. A process id can be reused, a start id cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StartId(pub(super) u64);

/// One run of a process. The task of a process uses it to identify its process in the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) id: ProcessId,
    pub(super) start: StartId,
}

/// The session's state of a process.
pub(super) struct RetainedProcess {
    pub(super) start: StartId,
    pub(super) stage: ProcessStage,
    sandbox: SandboxType,
    pub(super) log: ServerLog,
    pub(super) stdin: Stdin,
    /// The number of output streams that have not ended.
    open: usize,
    /// The signals to send to the process.
    signals: VecDeque<i32>,
    /// Whether it has exited. The exit is reported behind the output in its pipes, which may wait for
    /// the client.
    has_exited: bool,
    /// Whether it was killed for a client before its exit was known.
    terminated: bool,
    /// The process, after its close. Dropping it kills what it left behind.
    ended: Option<Box<dyn Child>>,
    /// Whether the server has paused reading the output of the process.
    pub(super) paused: bool,
    /// The output that the client has not consumed; `None` if the flow is not controlled.
    pub(super) flow: Option<Unconsumed>,
    /// Wakes the task of the process.
    wake: watch::Sender<()>,
    pub(super) defects: ProcessDefects,
}

/// The progress of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcessStage {
    /// The process is being launched.
    Starting,
    /// The process was launched and is not closed yet.
    Running,
    /// The process has exited, and its output has ended.
    Closed {
        /// When the process closed.
        at: Instant,
    },
}

/// How many signals may wait for a process. Further signals are dropped, because they would have no
/// additional effect.
const MAX_SIGNALS: usize = 16;

impl RetainedProcess {
    pub(super) fn new(start: StartId, sandbox: SandboxType, limits: &ServerLimits) -> Self {
        let items =
            if defect!(RetainedChunksUnbounded) { usize::MAX } else { limits.retained_chunks };
        let log = ServerLog::new(Bounds { items, weight: limits.retained_bytes });
        let stdin = Stdin::new(false, limits.stdin_bytes, limits.write_ids);
        Self {
            start,
            stage: ProcessStage::Starting,
            sandbox,
            log,
            stdin,
            open: 0,
            signals: VecDeque::new(),
            has_exited: false,
            terminated: false,
            ended: None,
            paused: false,
            flow: None,
            wake: watch::Sender::new(()),
            defects: ProcessDefects::default(),
        }
    }

    /// Records the launch: the number of output streams, and whether the process has a standard
    /// input.
    pub(super) fn launched(
        &mut self,
        streams: usize,
        stdin: bool,
        limits: &ServerLimits,
    ) -> watch::Receiver<()> {
        self.stage = ProcessStage::Running;
        self.open = streams;
        self.stdin = Stdin::new(stdin, limits.stdin_bytes, limits.write_ids);
        self.wake.subscribe()
    }

    /// Appends output. Returns the number of the newest chunk that was evicted to make room.
    pub(super) fn produced(&mut self, stream: OutputStream, bytes: Bytes) -> Option<u64> {
        if let Some(flow) = &mut self.flow {
            flow.add(bytes.len());
        }
        self.log.output(stream, bytes)
    }

    /// Whether flow control lets the process print.
    pub(super) fn may_print(&self, window: Option<FlowWindow>) -> bool {
        let controlled = self.flow.zip(window);
        controlled.is_none_or(|(flow, window)| flow.has_room(window, self.open, self.paused))
    }

    /// Records how far the client has consumed the output. `None`: the client consumes nothing
    /// more, and the process continues without flow control.
    pub(super) fn consumed(&mut self, seq: Option<u64>) {
        match (&mut self.flow, seq) {
            (Some(flow), Some(seq)) => flow.consumed(seq, &self.log),
            _ => self.flow = None,
        }
        self.resume();
    }

    /// Records the end of an output stream.
    pub(super) fn stream_ended(&mut self, now: Instant) {
        self.open = self.open.saturating_sub(1);
        self.close_if_over(now);
    }

    /// Records that it has exited, although its exit is not reported yet.
    pub(super) fn exit_is_known(&mut self) {
        self.has_exited = true;
    }

    /// Whether it has exited, reported or not.
    pub(super) fn has_exited(&self) -> bool {
        self.has_exited && !defect!(HeldExitStillRuns) || self.log.exited()
    }

    /// Records the exit. The output of a terminated process ends with it, although a process that
    /// left the group may hold a pipe.
    pub(super) fn exited(&mut self, code: i32, failure: Option<String>, now: Instant) {
        let denied = self.sandbox != SandboxType::None && denial::is_likely(code, &self.log);
        self.log.exit(LoggedExit { code, denied }, failure);
        self.stdin.end();
        self.defects.exited_at = Some(now);
        if self.terminated || defect!(ClosesAtExit) {
            self.open = 0;
        }
        self.close_if_over(now);
    }

    /// Closes the process once it has exited and no process holds its output open. The close is the
    /// last event.
    fn close_if_over(&mut self, now: Instant) {
        if self.log.exited() && self.open == 0 && !self.closed() {
            self.log.close();
            self.stage = ProcessStage::Closed { at: now };
            self.stdin.close();
            self.wake();
        }
    }

    /// Forgets the ids of writes whose answers have reached the client, up to this one.
    pub(super) fn answers_reached(&mut self, last: WriteAnswer) {
        self.stdin.ids_mut().reached(last);
    }

    pub(super) fn closed(&self) -> bool {
        matches!(self.stage, ProcessStage::Closed { .. })
    }

    /// Returns when the process closed, if it did.
    pub(super) fn closed_at(&self) -> Option<Instant> {
        match self.stage {
            ProcessStage::Closed { at } => Some(at),
            _ => None,
        }
    }

    /// Wakes the task of the process, which then checks what to do.
    pub(super) fn wake(&self) {
        self.wake.send_replace(());
    }

    /// Wakes the task if it has paused reading, so that it checks for room again.
    pub(super) fn resume(&self) {
        if self.paused {
            self.wake();
        }
    }

    /// Kills the process and its group.
    pub(super) fn terminate(&mut self) {
        if self.signals.len() == MAX_SIGNALS {
            self.signals.pop_back(); // no other signal replaces this one
        }
        self.queue_signal(KILL);
    }

    /// Keeps the process after its close, so that what it left in the background lives as long as
    /// this state.
    pub(super) fn keep(&mut self, ended: Box<dyn Child>) {
        self.ended = Some(ended);
    }

    /// Queues a signal for the process.
    pub(super) fn queue_signal(&mut self, signal: i32) {
        if self.signals.len() < MAX_SIGNALS {
            self.signals.push_back(signal);
            if self.paused && defect!(SignalWaitsForRoom) {
                return;
            }
            self.wake();
        }
    }

    /// Removes and returns the next signal for the process.
    pub(super) fn take_signal(&mut self) -> Option<i32> {
        let signal = self.signals.pop_front();
        self.terminated |= signal == Some(KILL) && !self.has_exited();
        signal
    }
}

#[cfg(test)]
mod tests {
    use super::super::log::EntryKind;
    use super::*;
    use OutputStream::{Stderr, Stdout};

    fn running() -> RetainedProcess {
        let limits = ServerLimits::default();
        let mut process = RetainedProcess::new(StartId(1), SandboxType::None, &limits);
        assert_eq!(process.stage, ProcessStage::Starting);
        process.launched(2, true, &limits);
        process
    }

    fn entry_kinds(process: &RetainedProcess) -> Vec<EntryKind> {
        (1..process.log.next())
            .filter_map(|seq| process.log.event(seq))
            .map(|event| event.what)
            .collect()
    }

    #[test]
    fn the_close_waits_for_both_streams_and_the_exit() {
        let now = Instant::now();
        let mut process = running();
        process.stream_ended(now);
        process.exited(7, None, now);
        assert!(!process.closed());
        process.produced(Stderr, "late".into());
        process.stream_ended(now);
        assert_eq!(process.closed_at(), Some(now));
        assert_eq!(
            entry_kinds(&process),
            [
                EntryKind::Exited(LoggedExit { code: 7, denied: false }),
                EntryKind::Output(Stderr, "late".into()),
                EntryKind::Closed
            ]
        );
        assert!(!process.stdin.open());
    }

    #[test]
    fn the_exit_follows_the_output_if_the_streams_end_first() {
        let now = Instant::now();
        let mut process = running();
        process.produced(Stdout, "a".into());
        process.stream_ended(now);
        process.stream_ended(now);
        assert!(!process.closed());
        process.exited(0, None, now);
        assert_eq!(
            entry_kinds(&process),
            [
                EntryKind::Output(Stdout, "a".into()),
                EntryKind::Exited(LoggedExit { code: 0, denied: false }),
                EntryKind::Closed
            ]
        );
    }

    #[test]
    fn the_exit_of_a_terminated_process_closes_it() {
        let now = Instant::now();
        let mut process = running();
        process.terminate();
        assert_eq!((process.take_signal(), process.closed()), (Some(KILL), false));
        process.exited(137, None, now);
        assert_eq!(process.closed_at(), Some(now));
    }

    #[test]
    fn a_terminate_that_was_sent_after_the_exit_closes_nothing() {
        let mut process = running();
        process.terminate();
        process.exit_is_known();
        assert_eq!(process.take_signal(), Some(KILL));
        process.exited(0, None, Instant::now());
        assert!(!process.closed(), "another process may hold its output open");
    }

    #[test]
    fn signals_wait_in_order_and_their_number_is_bounded() {
        let mut process = running();
        (0..99).for_each(|signal| process.queue_signal(signal));
        process.terminate();
        let signals: Vec<_> = std::iter::from_fn(|| process.take_signal()).collect();
        let last = MAX_SIGNALS as i32 - 1;
        assert_eq!(signals, (0..last).chain([KILL]).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn resume_wakes_only_a_paused_process() {
        let limits = ServerLimits::default();
        let mut process = RetainedProcess::new(StartId(1), SandboxType::None, &limits);
        let wake = process.launched(2, true, &limits);
        process.resume();
        assert!(!wake.has_changed().unwrap());
        process.paused = true;
        process.resume();
        assert!(wake.has_changed().unwrap());
    }
}
