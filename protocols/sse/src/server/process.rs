//! The process of a command: one task, which launches it and moves its output into the log.
//!
//! The task belongs to the command, not to a connection: the end of a connection changes nothing.
//!
//! # The ending follows the output
//! When the process has exited, the task first reads what is in the pipes, and then appends the
//! ending. A process in the background can hold a pipe and print forever. So the task reads at most
//! [`PIPE`] bytes of each pipe after the exit. Later output is discarded, but not refused: such a
//! process lives on until the server forgets the command.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use reknit_seams::env::WallClock;
use reknit_seams::process::{Child, Command, Exit, KILL, Launch, Output, TERMINATE};
use reknit_seams::{defect, milestone, point};
use tokio::io::{AsyncReadExt, copy, sink};
use tokio::sync::{Notify, watch};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};

use super::lines::Lines;
use super::registry::Running;
use super::shared::milliseconds;
use crate::wire::{Ending, OutputStream};

#[path = "defects/process.rs"]
mod defects;

/// How many bytes the system keeps in a pipe at most, unless a privileged process enlarges it.
const PIPE: usize = 1 << 20;

/// How many bytes are read at a time.
const CHUNK: usize = 8 * 1024;

/// A process to launch for a command. The task does not keep the command alive after its end.
pub(super) struct ProcessTask {
    pub(super) running: Arc<Running>,
    pub(super) command: Command,
    pub(super) launch: Arc<dyn Launch>,
    pub(super) clock: Arc<dyn WallClock>,
    /// How long the process may run.
    pub(super) time_limit: Option<Duration>,
    pub(super) interrupt_grace: Duration,
    pub(super) line_bytes: usize,
    /// How long output may wait for a stream.
    pub(super) hold: Duration,
    /// How many bytes may be in the buffers of a connection.
    pub(super) in_flight: usize,
    /// Notified when the command has ended.
    pub(super) ended: Arc<Notify>,
}

impl ProcessTask {
    /// Launches the process, and serves it until its end. Then waits until the task is aborted,
    /// because the process may have left others behind, which end with its handle.
    pub(super) async fn run(self) {
        let started = Instant::now();
        let launched = self.launch.launch(&self.command).await;
        point!("sse.server.launched").await;
        let mut child = match launched {
            Ok(child) => child,
            Err(error) => return self.end(Ending::NotStarted(error.to_string())).await,
        };
        milestone!("sse.command.launched", command = self.running.id.as_str());
        let started = if defect!(LimitCountsFromTheLaunch) { Instant::now() } else { started };
        let deadline = self.time_limit.map(|limit| started + limit);
        let (stdout, stderr) = (child.stdout(), child.stderr());
        let exited = watch::Sender::new(false);
        let (out, err, ending) = tokio::join!(
            biased;
            self.read(OutputStream::Stdout, stdout, exited.subscribe()),
            self.read(OutputStream::Stderr, stderr, exited.subscribe()),
            self.supervise(&mut *child, &exited, deadline),
        );
        self.end(ending).await;
        tokio::join!(discard(out), discard(err));
        std::future::pending::<()>().await;
    }

    /// Moves the output of a pipe into the log, until the pipe has ended, or the process has exited
    /// and the pipe is empty. Returns a pipe that has not ended.
    async fn read(
        &self,
        stream: OutputStream,
        pipe: Option<Output>,
        mut exited: watch::Receiver<bool>,
    ) -> Option<Output> {
        let mut pipe = pipe?;
        let mut lines = Lines::new(self.line_bytes);
        let mut buffer = BytesMut::with_capacity(CHUNK);
        let mut left = PIPE;
        loop {
            buffer.clear();
            let mut chunk = (&mut pipe).take(CHUNK as u64);
            let count = tokio::select! {
                biased;
                read = chunk.read_buf(&mut buffer) => read.unwrap_or(0),
                // The read is pending, so what is in the pipe now comes from other processes.
                _ = exited.wait_for(|exited| *exited), if !defect!(WaitsForThePipes) => break,
            };
            // Before any wait: what was read before the exit does not count.
            let after_exit = *exited.borrow();
            point!("sse.server.read-output").await;
            if count == 0 {
                self.flush(stream, &mut lines).await;
                return None;
            }
            lines.feed(&buffer);
            while let Some(line) = lines.next() {
                self.output(stream, line).await;
            }
            if after_exit || defect!(AllOutputIsLate) {
                left = left.saturating_sub(count);
            }
            if after_exit && left == 0 {
                break;
            }
            // Output may arrive in a burst; let the stream send in between.
            yield_now().await;
        }
        // The bug: the last line of the standard error has no end, so it counts as none.
        if stream == OutputStream::Stdout || !defect!(OpenErrorsAreLost) {
            self.flush(stream, &mut lines).await;
        }
        Some(pipe)
    }

    /// Appends what remains of a pipe.
    async fn flush(&self, stream: OutputStream, lines: &mut Lines) {
        if let Some(rest) = lines.rest() {
            self.output(stream, rest).await;
        }
    }

    async fn output(&self, stream: OutputStream, line: bytes::Bytes) {
        let timestamp = milliseconds(&*self.clock);
        if defect!(BlankLinesDropped) && line.iter().all(|byte| matches!(byte, b'\r' | b'\n')) {
            return;
        }
        if defect!(IdBeforeLock) {
            return self.output_in_two_steps(timestamp, stream, line).await;
        }
        self.wait_for_stream(line.len()).await;
        // The bug: the stream does not notice the output before its next sign of life.
        let evicted = if defect!(OutputWakesNoStream) {
            self.running.command().output(timestamp, stream, line)
        } else {
            self.running.change(|command| command.output(timestamp, stream, line))
        };
        if let Some(position) = evicted {
            milestone!("sse.command.evicted", command = self.running.id.as_str(), position);
        }
    }

    /// Waits while events would have to go for new output that the client may not have.
    async fn wait_for_stream(&self, bytes: usize) {
        let mut reads = self.running.reads();
        loop {
            reads.mark_unchanged();
            let until = self.running.command().waits(bytes, self.hold, self.in_flight);
            let until = until.map(|until| match defect!(HoldNeverEnds) {
                true => Instant::now() + self.hold,
                false => until,
            });
            let Some(until) = until.filter(|until| *until > Instant::now()) else { return };
            if self.running.command().held() {
                milestone!("sse.command.held", command = self.running.id.as_str());
            }
            point!("sse.server.hold.looked").await;
            if defect!(HoldLostWakeUp) {
                reads.mark_unchanged();
            }
            tokio::select! {
                biased;
                _ = reads.changed() => {}
                () = sleep_until(until) => {}
            }
        }
    }

    /// Waits for the exit. Ends the process if it is interrupted, or runs for too long.
    async fn supervise(
        &self,
        child: &mut dyn Child,
        exited: &watch::Sender<bool>,
        deadline: Option<Instant>,
    ) -> Ending {
        let mut changes = self.running.changes();
        let (mut deadline, mut timed_out, mut kill_at) = (deadline, false, None);
        let (mut asked, mut looks) = (false, !defect!(EarlyInterruptLost));
        let exit = loop {
            if !asked && looks && self.running.command().interrupted() {
                asked = true;
                let begins = self.running.command().defects.grace_begins();
                // The bug: the process has no time to end by itself.
                let grace = match defect!(InterruptHasNoGrace) {
                    true => Duration::ZERO,
                    false => self.interrupt_grace,
                };
                kill_at = Some(begins.unwrap_or_else(Instant::now) + grace);
                // An error means that no process is left to receive the signal.
                let _ = child.signal(TERMINATE);
            }
            let due = match defect!(TimeLimitDelaysTheKill) {
                true => deadline.or(kill_at),
                false => deadline.into_iter().chain(kill_at).min(),
            };
            tokio::select! {
                biased;
                exit = child.wait() => break exit,
                // No wake-up is lost: the receiver exists since before the first look, and each
                // change that it has not seen ends this wait at once.
                _ = changes.changed(), if !asked => looks = true,
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    timed_out = deadline.is_some_and(|deadline| deadline <= Instant::now())
                        || defect!(GraceIsATimeLimit);
                    (deadline, kill_at) = (None, None);
                    let _ = child.signal(KILL);
                }
            }
        };
        point!("sse.server.exit-known").await;
        if !defect!(EndingBeforeOutput) {
            exited.send_replace(true);
        }
        let ending = match exit {
            // With another outcome, the process ended just before the signal.
            Ok(Exit::Signal(KILL)) if timed_out => Ending::TimedOut,
            Ok(Exit::Code(code)) => Ending::Exited(code),
            Ok(Exit::Signal(signal)) => Ending::Killed(signal),
            Err(error) => Ending::Lost(error.to_string()),
        };
        if defect!(EndingBeforeOutput) {
            self.end(ending.clone()).await;
            exited.send_replace(true);
        }
        ending
    }

    async fn end(&self, ending: Ending) {
        let timestamp = milliseconds(&*self.clock);
        if defect!(FinishedBeforeEnding) {
            self.running.change(|command| command.defects.finish_early());
            point!("sse.server.finished").await;
        }
        self.running.change(|command| command.end(timestamp, ending, Instant::now()));
        milestone!("sse.command.ended", command = self.running.id.as_str());
        if !defect!(EndWakesNoSweep) {
            self.ended.notify_one();
        }
    }
}

/// Reads a pipe without a use for its output, so that its writers can go on.
async fn discard(pipe: Option<Output>) {
    if let Some(mut pipe) = pipe {
        let _ = copy(&mut pipe, &mut sink()).await;
    }
}
