//! The operating system's implementation of [`process`](super): real processes, on Unix.
//!
//! **Groups.** Each process leads its own process group (a process with a terminal also leads a
//! session), so a signal reaches its descendants and no other process. Without a terminal, it stays
//! in the launcher's session.
//!
//! **No other process is hit.** The system may reuse the id of an ended process as soon as the
//! process is reaped. The group may get a signal long after its leader ended, while grandchildren
//! hold the pipes. So, on each `SIGCHLD`, this module only checks for the exit (`WNOWAIT`) and does
//! not reap: the process stays a zombie, and its id stays reserved, until the handle is dropped.
//! Then tokio reaps it.
//!
//! **One start at a time.** A new terminal is marked close-on-exec only a moment after it was
//! opened. A process started in that moment by another thread would inherit it, and the terminal
//! would not be hung up.
//!
//! **Interrupts arrive.** A shell starts its background jobs with `SIGINT` ignored, and programs
//! inherit that. A shell that inherits it cannot even trap the signal. A signal with a handler is
//! reset to its default in a started program. So, if the signal is ignored, the launcher installs a
//! handler (on Linux, where `/proc` shows this).
//!
//! Limits: it does not reach processes that left their group, and it does not notice an exit if the
//! program ignores `SIGCHLD` or reaps processes that it did not start.

use std::io;
use std::process::Stdio as Std;
use std::sync::{Mutex, PoisonError};

use rustix::process::{
    Pid, Signal as Number, WaitId, WaitIdOptions, kill_process_group, test_kill_process_group,
    waitid,
};
use tokio::process as os;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Child, Command, Exit, Input, KILL, Launch, Output, Stdio, Streams, terminal};
use crate::net::BoxFuture;

/// Processes of the operating system. They need a runtime with IO.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl Launch for System {
    fn launch<'a>(&'a self, command: &'a Command) -> BoxFuture<'a, io::Result<Box<dyn Child>>> {
        Box::pin(async { start(command) })
    }
}

/// Held while a process is started: one start at a time.
static TURN: Mutex<()> = Mutex::new(());

fn start(command: &Command) -> io::Result<Box<dyn Child>> {
    let (program, arguments) = command.argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut builder = os::Command::new(program);
    builder.args(arguments).env_clear().envs(command.env.iter().cloned());
    builder.kill_on_drop(true); // a leader who moved to another group does not escape
    if let Some(arg0) = &command.arg0 {
        builder.arg0(arg0);
    }
    if let Some(cwd) = &command.cwd {
        builder.current_dir(cwd);
    }
    let somebody_ended = signal(SignalKind::child())?; // before there is anybody who could
    if ignores_interrupts() {
        drop(signal(SignalKind::interrupt())?); // the handler stays
    }
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let started = match command.stdio {
        Stdio::Pipes { stdin } => with_pipes(builder, stdin),
        Stdio::Terminal(size) => terminal::start(builder, size),
    };
    drop(turn);
    let (held, streams) = started.map_err(|error| explained(program, command, &error))?;
    let pid = held
        .id()
        .and_then(|id| Pid::from_raw(id as i32))
        .expect("nobody has taken note of its end");
    Ok(Box::new(Launched { pid, streams, exit: None, somebody_ended, _held: held }))
}

/// Whether this program ignores `SIGINT`; `false` if the system does not show it.
fn ignores_interrupts() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    ignored & 1 << (super::INTERRUPT - 1) != 0
}

fn with_pipes(mut builder: os::Command, stdin: bool) -> io::Result<(os::Child, Streams)> {
    builder.process_group(0);
    builder
        .stdin(if stdin { Std::piped() } else { Std::null() })
        .stdout(Std::piped())
        .stderr(Std::piped());
    let mut held = builder.spawn()?;
    let streams = Streams {
        stdin: held.stdin.take().map(|pipe| Box::new(pipe) as Input),
        stdout: held.stdout.take().map(|pipe| Box::new(pipe) as Output),
        stderr: held.stderr.take().map(|pipe| Box::new(pipe) as Output),
    };
    Ok((held, streams))
}

/// Adds the program and directory to an error of the system, which names neither.
fn explained(program: &str, command: &Command, error: &io::Error) -> io::Error {
    let place = command.cwd.as_ref().map(|cwd| format!(" in `{cwd}`")).unwrap_or_default();
    io::Error::new(error.kind(), format!("cannot start `{program}`{place}: {error}"))
}

/// The launcher's handle of a process.
struct Launched {
    /// The id of the process and of its group.
    pid: Pid,
    streams: Streams,
    /// Its exit, once it was observed.
    exit: Option<Exit>,
    /// Signals that some child process of this program has ended.
    somebody_ended: Signal,
    /// Reaps the process when dropped: at once, or as soon as it has ended.
    _held: os::Child,
}

impl Launched {
    /// Checks whether it has ended.
    fn look(&self) -> io::Result<Option<Exit>> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let Some(status) = waitid(WaitId::Pid(self.pid), options)? else { return Ok(None) };
        Ok(status.exit_status().map(Exit::Code).or(status.terminating_signal().map(Exit::Signal)))
    }
}

impl Child for Launched {
    fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get() as u32
    }

    fn stdin(&mut self) -> Option<Input> {
        self.streams.stdin.take()
    }

    fn stdout(&mut self) -> Option<Output> {
        self.streams.stdout.take()
    }

    fn stderr(&mut self) -> Option<Output> {
        self.streams.stderr.take()
    }

    fn signal(&mut self, number: i32) -> io::Result<()> {
        let sent = match number {
            0 => test_kill_process_group(self.pid),
            _ => kill_process_group(
                self.pid,
                Number::from_named_raw(number).ok_or(io::ErrorKind::InvalidInput)?,
            ),
        };
        sent.map_err(|error| match error {
            rustix::io::Errno::SRCH => io::ErrorKind::NotFound.into(),
            other => other.into(),
        })
    }

    fn wait(&mut self) -> BoxFuture<'_, io::Result<Exit>> {
        Box::pin(async {
            loop {
                if self.exit.is_none() {
                    self.exit = self.look()?;
                }
                if let Some(exit) = self.exit {
                    return Ok(exit);
                }
                self.somebody_ended
                    .recv()
                    .await
                    .ok_or_else(|| io::Error::other("the runtime is down"))?;
            }
        })
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        let _ = self.signal(KILL); // where nobody is left, that is as well
    }
}
