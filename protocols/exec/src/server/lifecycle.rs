//! The lifecycle of one process: one task, which launches it and moves bytes between the process
//! and its session until the process is closed.
//!
//! The task belongs to the session, not to the connection that requested the start, so a disconnect
//! during a launch changes nothing. The task does not keep the session alive. It finds its process
//! by [`Run`], that is by id and start. If the session has removed the process meanwhile, the task
//! drops the child, which kills it.
//!
//! # What a process leaves behind
//! As with codex 0.169.0, a process that was started in the background lives on after its command
//! exits, with or without the command's pipes. If it holds a pipe, the close waits for it. It ends
//! when the server forgets the closed process, or with the session. A terminated process closes at
//! its exit, even if a process that left its group holds a pipe.
//!
//! # The exit follows the output
//! When the exit is known, the task first reads what is in the pipes, and then reports the exit. A
//! process in the background may print forever, so it reads at most [`PIPE`] bytes of each stream.
//! (Codex 0.169.0 reports some exits before the last output.)

use std::future::pending;
use std::io;
use std::sync::{Arc, Weak};

use bytes::{Bytes, BytesMut};
use reknit_seams::net::ConnId;
use reknit_seams::process::{Child, Command, Launch};
use reknit_seams::{defect, milestone, point};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};

use super::log::CHUNK;
use super::process::Run;
use super::registry::RetainedSession;
use super::session::{Room, Session};
use crate::wire::process::OutputStream;

/// How many bytes the system keeps in a pipe.
const PIPE: usize = 64 * 1024;

/// A process to launch.
pub(super) struct ProcessTask {
    pub(super) session: Weak<RetainedSession>,
    pub(super) run: Run,
    pub(super) command: Command,
    pub(super) tty: bool,
    pub(super) launch: Arc<dyn Launch>,
    /// The connection that requested the start.
    pub(super) requested_by: ConnId,
}

/// Wakes the task of a process. The sender is dropped when the session removes the process.
type WakeReceiver = watch::Receiver<()>;

impl ProcessTask {
    /// Launches the process, and serves it until its close.
    pub(super) async fn run(self) {
        let launched = self.launch.launch(&self.command).await;
        point!("exec.server.launched").await;
        match launched {
            Ok(child) => self.serve_child(child).await,
            Err(error) => {
                self.with(|session, run| session.start_failed(run, error.to_string()));
            }
        }
    }

    async fn serve_child(&self, mut child: Box<dyn Child>) {
        let (stdin, stdout, stderr) = (child.stdin(), child.stdout(), child.stderr());
        let streams = usize::from(stdout.is_some()) + usize::from(stderr.is_some());
        if defect!(StartDiesWithConnection)
            && self.with(|session, _| session.attached_by()) != Some(Some(self.requested_by))
        {
            return pending().await; // the connection has ended, and the child is leaked
        }
        let started = self.with(|session, run| session.started(run, streams, stdin.is_some()));
        let Some(Some(wake)) = started else {
            milestone!("exec.process.start-cancelled", process = self.run.id.as_str());
            if defect!(LateChildKept) {
                pending::<()>().await;
            }
            return; // drops the child, which kills it
        };
        let out = if self.tty { OutputStream::Pty } else { OutputStream::Stdout };
        let awaited = if defect!(ExitBeforeErrors) { streams.min(1) } else { streams };
        let drain = Drain::new(awaited);
        tokio::join!(
            biased;
            self.read(out, stdout, wake.clone(), &drain),
            self.read(OutputStream::Stderr, stderr, wake.clone(), &drain),
            self.write(stdin, wake.clone()),
            self.supervise(&mut *child, wake, &drain),
        );
        self.with(|session, run| session.keep(run, child));
    }

    /// Runs an action on the session; returns `None` if the session has ended.
    fn with<T>(&self, act: impl FnOnce(&mut Session, &Run) -> T) -> Option<T> {
        let session = self.session.upgrade()?;
        let done = act(&mut session.core(), &self.run);
        Some(done)
    }

    /// Runs an action on the session and wakes the server, because a timer may now be due earlier.
    fn notify(&self, act: impl FnOnce(&mut Session, &Run)) {
        self.with(act);
        if let Some(session) = self.session.upgrade() {
            session.changed();
        }
    }

    /// Moves the output of the process into its log while there is room.
    async fn read(
        &self,
        stream: OutputStream,
        pipe: Option<impl AsyncRead + Unpin>,
        mut wake: WakeReceiver,
        drain: &Drain,
    ) {
        let Some(mut pipe) = pipe else { return };
        let mut drained = drain.stream();
        if defect!(ExitBeforeErrors) && stream == OutputStream::Stderr {
            drained.left = None;
        }
        let mut buffer = BytesMut::with_capacity(CHUNK);
        loop {
            wake.mark_unchanged();
            match self.with(|session, run| session.room(run, Instant::now())) {
                None | Some(Room::Gone) => return,
                Some(Room::Yes) => {}
                Some(Room::NotYet(until)) => {
                    point!("exec.process.room.looked").await;
                    if defect!(RoomLostWakeUp) {
                        wake.mark_unchanged();
                    }
                    tokio::select! {
                        biased;
                        _ = wake.changed() => {}
                        () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => {}
                    }
                    continue;
                }
            }
            buffer.clear();
            // Some systems report the end of a terminal as an error; in both cases no output
            // follows.
            let mut chunk = (&mut pipe).take(CHUNK as u64);
            let count = tokio::select! {
                biased;
                read = chunk.read_buf(&mut buffer) => read.unwrap_or(0),
                () = drained.at_exit() => {
                    drained.finish(); // the read is pending, so the pipe is empty
                    continue;
                }
                // A terminated process closes while another process holds its pipe.
                changed = wake.changed() => match changed {
                    Ok(()) => continue,
                    Err(_) => return,
                },
            };
            // What was read before the exit left room in the pipe for as much.
            let of_exit = if drained.has_exited() { count } else { 0 };
            if defect!(CountedBeforeNumbered) {
                drained.advance(of_exit);
            }
            point!("exec.server.read-output").await;
            if count == 0 {
                return self.notify(|session, run| session.stream_ended(run, Instant::now()));
            }
            // The log counts the length of a chunk, so copy it: the copy uses no more memory than
            // its length.
            self.with(|session, run| {
                session.produced(run, stream, Bytes::copy_from_slice(&buffer))
            });
            // Only now: an exit that waits for these bytes would otherwise get its number first.
            if !defect!(CountedBeforeNumbered) {
                drained.advance(of_exit);
            }
            // Output may arrive in a burst; let the sending task run in between.
            yield_now().await;
        }
    }

    /// Moves accepted bytes to the standard input of the process.
    async fn write(&self, pipe: Option<impl AsyncWrite + Unpin>, mut wake: WakeReceiver) {
        let Some(mut pipe) = pipe else { return };
        loop {
            wake.mark_unchanged();
            if self.with(|session, run| session.over(run)).unwrap_or(true) {
                return;
            }
            let Some(bytes) = self.with(|session, run| session.next_input(run)).flatten() else {
                point!("exec.process.input.looked").await;
                if defect!(InputLostWakeUp) {
                    wake.mark_unchanged();
                }
                if wake.changed().await.is_err() {
                    return;
                }
                continue;
            };
            let written = tokio::select! {
                biased;
                written = write_some(&mut pipe, &bytes) => written,
                // The process may be removed or closed while its input pipe is full: then the write
                // would never complete.
                changed = wake.changed() => match changed {
                    Ok(()) => continue,
                    Err(_) => return,
                },
            };
            match written {
                Ok(count) => drop(self.with(|session, run| session.input_written(run, count))),
                Err(_) => {
                    self.with(|session, run| session.input_closed(run));
                    return;
                }
            }
        }
    }

    /// Sends signals to the process and waits for its exit. After the exit, signals go to the
    /// processes that hold its output open.
    async fn supervise(&self, child: &mut dyn Child, mut wake: WakeReceiver, drain: &Drain) {
        let (mut exited, mut ended) = (false, None);
        loop {
            wake.mark_unchanged();
            while let Some(signal) = self.with(|session, run| session.next_signal(run)).flatten() {
                // An error means that no process is left to receive the signal.
                let _ = child.signal(signal);
                if defect!(SignalsOneByOne) {
                    break; // The bug: the next signal waits until something else wakes the task.
                }
            }
            if self.with(|session, run| session.over(run)).unwrap_or(true) {
                return;
            }
            point!("exec.process.signal.looked").await;
            if defect!(SignalLostWakeUp) {
                wake.mark_unchanged();
            }
            tokio::select! {
                biased;
                changed = wake.changed() => if changed.is_err() { return },
                exit = child.wait(), if !exited => {
                    (exited, ended) = (true, Some(exit));
                    point!("exec.server.exit-known").await;
                    self.with(|session, run| session.exit_is_known(run));
                    drain.begin();
                }
                () = drain.finished(), if ended.is_some() => {
                    if let Some(exit) = ended.take() {
                        self.notify(|session, run| session.exited(run, exit, Instant::now()));
                    }
                }
            }
        }
    }
}

/// The output that is still in the pipes of a process when it exits.
struct Drain {
    exited: watch::Sender<bool>,
    /// How many streams were not read empty since the exit.
    full: watch::Sender<usize>,
}

impl Drain {
    fn new(streams: usize) -> Self {
        Self { exited: watch::Sender::new(false), full: watch::Sender::new(streams) }
    }

    fn stream(&self) -> DrainingStream<'_> {
        let left = if defect!(ExitBehindOneChunk) { CHUNK } else { PIPE };
        DrainingStream { drain: self, exited: self.exited.subscribe(), left: Some(left) }
    }

    /// The process has exited.
    fn begin(&self) {
        self.exited.send_replace(true);
    }

    /// Waits until every stream was read empty.
    async fn finished(&self) {
        let _ = self.full.subscribe().wait_for(|full| *full == 0).await;
    }
}

/// A stream of a process that may have exited.
struct DrainingStream<'a> {
    drain: &'a Drain,
    exited: watch::Receiver<bool>,
    /// How many bytes are still read before the report, until the stream was read empty.
    left: Option<usize>,
}

impl DrainingStream<'_> {
    /// Waits for the exit, once.
    async fn at_exit(&mut self) {
        if self.left.is_none() || self.exited.wait_for(|exited| *exited).await.is_err() {
            pending().await
        }
    }

    /// Whether the process has exited.
    fn has_exited(&self) -> bool {
        *self.exited.borrow()
    }

    /// Counts bytes that were read after the exit, and that have their number.
    fn advance(&mut self, count: usize) {
        self.left = self.left.map(|left| left.saturating_sub(count));
        if self.left == Some(0) {
            self.finish();
        }
    }

    /// The stream holds no output from before the exit.
    fn finish(&mut self) {
        if self.left.take().is_some() {
            self.drain.full.send_modify(|full| *full -= 1);
        }
    }
}

/// A stream that is no longer read delays no exit.
impl Drop for DrainingStream<'_> {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Writes as many bytes as the pipe accepts. Cancel safe: dropping the future loses nothing.
async fn write_some(pipe: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<usize> {
    match pipe.write(bytes).await? {
        0 => Err(io::ErrorKind::WriteZero.into()),
        count => Ok(count),
    }
}
