//! The operating system's side of [`process`](super): real processes, on Unix.
//!
//! **Groups.** Each process leads a process group of its own (one with a terminal leads a session, too), so that a signal
//! reaches all that it started, and nobody else. Without a terminal it stays in the session of the launcher.
//!
//! **No stranger is hit.** The number of a process that ended is free for another as soon as somebody has taken note of its
//! end. A group is signalled long after the end of its leader, when grandchildren hold the pipes. So the end is only looked at
//! here (`WNOWAIT`), whenever a `SIGCHLD` says that somebody has ended; the process stays a zombie, and its number taken, until
//! the handle is dropped. Then tokio takes note of the end.
//!
//! **One start at a time.** A new terminal is marked close-on-exec only a moment after it was opened. A process started just
//! then, by another thread, would hold it, and the terminal would not be hung up.
//!
//! **Interrupts arrive.** A shell starts its background jobs with `SIGINT` ignored, and programs inherit that. A shell that
//! inherits it cannot even trap the signal. A signal that has a handler is back at its default in a started program, so the
//! launcher installs a handler where the signal is ignored (on Linux, where `/proc` shows that).
//!
//! What it does not do: reach processes that left their group; notice an end where the program ignores `SIGCHLD`, or
//! takes note itself of the ends of processes that it did not start.

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

/// Whose turn it is to start a process.
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

/// Whether this program ignores `SIGINT`. Where the system does not show it, `false`.
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

/// The system says only that something was not found.
fn explained(program: &str, command: &Command, error: &io::Error) -> io::Error {
    let place = command.cwd.as_ref().map(|cwd| format!(" in `{cwd}`")).unwrap_or_default();
    io::Error::new(error.kind(), format!("cannot start `{program}`{place}: {error}"))
}

/// A process, as the one who launched it holds it.
struct Launched {
    /// Its number, and that of its group.
    pid: Pid,
    streams: Streams,
    /// How it ended, once that was seen.
    exit: Option<Exit>,
    /// Tells when any process that this program started has ended.
    somebody_ended: Signal,
    /// Takes note of its end when dropped, now or, where it has not ended yet, as soon as it has.
    _held: os::Child,
}

impl Launched {
    /// Looks whether it has ended.
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
