//! The simulated side of [`process`]: processes that play a [`Script`], and whose every byte is ground truth.
//!
//! A server launches them through [`Launch`], by the name of a script in the place of a program. What they really write, what
//! really reaches their standard input, and how they really end goes into the history, by their own hand: no word of the
//! server's is needed. All of it is on `tokio::time`, so it needs no world, only a runtime.
//!
//! The processes do not live in the tasks of whoever launches them, but in one future of the world's ([`Processes::new`]
//! hands it out): they are the outside world, and their tasks are no residue of the subject. Dropping that future is the end of
//! the machine.
//!
//! A world gives them to each server of a plan that has a table `process` ([`Setup`]). They die with their
//! host, once its tasks are gone, unless the step says that they live on; those that are left when all is over are counted.
//!
//! In the history, the script `p1` is the stream `p1` (its end is the process's: `exit 7`, `signal 9`), and its pipes are
//! `p1/stdout`, `p1/stderr` (their end, `closed`, comes when everybody who holds them has gone) and `p1/stdin` (what it
//! read). Launched again, it is `p1~2`, `p1~3`, … The glue of a subject can give it another name, and say which call asked for
//! it or for a line of its input ([`calls`]): then the launching and the reading of the line are effects of that call.
//!
//! With a terminal, all that it prints is one stream, `p1/pty`, whose lines still say which of the two they came from. Its
//! input ends with Ctrl-D. The hang-up (signal 1) comes to whoever prints to a terminal that nobody reads any more, and, when
//! the process ends, to whom it started: late output comes only where that signal is ignored.
//!
//! What it does not do: working directories, environments and sizes of terminals (they are accepted, and change nothing);
//! what a terminal does to the bytes (no echo, no `\r\n`, no signal for Ctrl-C); real signal handlers.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::history::Call;
use crate::net::BoxFuture;
use crate::process::{self, Child, Command, Exit, KILL, Launch, Output};
use crate::subject::Recorder;

pub mod calls;
mod ends;
mod script;
mod setup;
mod signals;
#[cfg(test)]
mod tests;

pub use script::{Print, ProcessEnd, Script, Stdin};
pub use setup::{Ends, Input, Late, PrintedLines, Setup, TABLE, schema, scripts};

use signals::SignalReceiver;

/// How many bytes a pipe holds before its writer has to wait: as on Linux.
pub const PIPE: usize = 65_536;

/// The number of the first process of a host.
const FIRST_PID: u32 = 1000;

/// The signal that comes of writing to a pipe that nobody reads any more.
const BROKEN_PIPE: i32 = 13;

/// The simulated operating system of one host, as far as it runs processes.
#[derive(Clone)]
pub struct Processes {
    scripts: Arc<BTreeMap<String, Script>>,
    record: Recorder,
    table: Arc<Mutex<Table>>,
    births: mpsc::UnboundedSender<BoxFuture<'static, ()>>,
}

/// What the operating system knows.
#[derive(Default)]
struct Table {
    /// Who lives, by pid: the process, or somebody whom it started and who holds its pipes.
    alive: BTreeMap<u32, Arc<SignalReceiver>>,
    /// How many were ever launched.
    launched: u32,
    /// How many times each script was launched.
    runs: BTreeMap<String, u32>,
    /// Whether the host is down: nothing is launched, and whoever drops a child kills nobody.
    down: bool,
}

/// The entry of a process in the table, for as long as it lives.
struct Registered {
    table: Arc<Mutex<Table>>,
    pid: u32,
}

impl Drop for Registered {
    fn drop(&mut self) {
        locked(&self.table).alive.remove(&self.pid);
    }
}

fn locked(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Processes {
    /// An operating system that knows these scripts, by name, and the future in which its processes live. It writes the
    /// truth with `record`.
    pub fn new(
        scripts: BTreeMap<String, Script>,
        record: Recorder,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (births, born) = mpsc::unbounded_channel();
        (Self { scripts: Arc::new(scripts), record, table: Arc::default(), births }, host(born))
    }

    /// How many processes live. One that has exited counts as long as somebody whom it started holds its pipes.
    pub fn alive(&self) -> u64 {
        self.table().alive.len() as u64
    }

    /// Kills all of them, and all that they started. They are gone at the end of the next turn.
    pub fn kill_all(&self) {
        self.table().alive.values().for_each(|signals| signals.kill(KILL));
    }

    /// The host dies: from now on nothing is launched, and whoever drops a child kills nobody. What becomes of its processes
    /// is for the one to say who has it die.
    pub fn go_down(&self) {
        self.table().down = true;
    }

    /// The host starts again, with a fresh operating system: whoever still lives is of another time, and is counted no more.
    /// Names and pids are not used twice in a run.
    pub fn come_up(&self) {
        let mut table = self.table();
        table.alive.clear();
        table.down = false;
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        locked(&self.table)
    }

    /// Starts a process: registers it, and hands its life to the future in which all live.
    fn start(&self, command: &Command) -> io::Result<Box<dyn Child>> {
        let program = command.argv.first().ok_or(io::ErrorKind::InvalidInput)?;
        let script = self.scripts.get(program).ok_or(io::ErrorKind::NotFound)?.clone();
        let signals = Arc::new(SignalReceiver::default());
        let (pid, name) =
            self.register(program, calls::variable(command, calls::NAME), &signals)?;
        if let Some(call) = calls::variable(command, calls::CALL).and_then(|call| call.parse().ok())
        {
            self.record.effect(Call(call), name.as_str());
        }
        let (near, far) = ends::ends(command.stdio);
        let (ended, exit) = oneshot::channel();
        let process = signals::Process {
            name,
            script,
            record: self.record.clone(),
            signals: signals.clone(),
            ends: far,
        };
        let registered = Registered { table: self.table.clone(), pid };
        let lifecycles = Box::pin(async move {
            process.live(ended).await;
            drop(registered);
        });
        self.births.send(lifecycles).map_err(|_| is_down())?;
        Ok(Box::new(Scripted {
            pid,
            signals,
            processes: self.clone(),
            ends: near,
            exit: Waited::Not(exit),
        }))
    }

    /// A pid for the next process, and its name in the history.
    fn register(
        &self,
        program: &str,
        name: Option<&str>,
        signals: &Arc<SignalReceiver>,
    ) -> io::Result<(u32, String)> {
        let program = name.unwrap_or(program);
        let mut table = self.table();
        if table.down {
            return Err(is_down());
        }
        let pid = FIRST_PID + table.launched;
        table.launched += 1;
        table.alive.insert(pid, signals.clone());
        let run = table.runs.entry(program.to_owned()).or_default();
        *run += 1;
        let name = if *run == 1 { program.to_owned() } else { format!("{program}~{run}") };
        Ok((pid, name))
    }
}

fn is_down() -> io::Error {
    io::Error::other("the machine is down")
}

/// Where processes live until they end, or until this is dropped.
async fn host(mut born: mpsc::UnboundedReceiver<BoxFuture<'static, ()>>) {
    let mut lifecycles = JoinSet::new();
    while let Some(signals) = born.recv().await {
        while lifecycles.try_join_next().is_some() {} // those who ended leave nothing behind
        lifecycles.spawn(signals);
    }
    while lifecycles.join_next().await.is_some() {}
}

impl Launch for Processes {
    fn launch<'a>(&'a self, command: &'a Command) -> BoxFuture<'a, io::Result<Box<dyn Child>>> {
        Box::pin(async { self.start(command) })
    }
}

/// What the one who launched a process holds of it.
struct Scripted {
    pid: u32,
    signals: Arc<SignalReceiver>,
    processes: Processes,
    ends: process::Streams,
    exit: Waited,
}

/// What is known of the end.
enum Waited {
    Not(oneshot::Receiver<Exit>),
    Ended(Exit),
}

impl Child for Scripted {
    fn pid(&self) -> u32 {
        self.pid
    }

    fn stdin(&mut self) -> Option<process::Input> {
        self.ends.stdin.take()
    }

    fn stdout(&mut self) -> Option<Output> {
        self.ends.stdout.take()
    }

    fn stderr(&mut self) -> Option<Output> {
        self.ends.stderr.take()
    }

    fn signal(&mut self, number: i32) -> io::Result<()> {
        if !self.processes.table().alive.contains_key(&self.pid) {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.signals.kill(number);
        Ok(())
    }

    fn wait(&mut self) -> BoxFuture<'_, io::Result<Exit>> {
        Box::pin(async {
            if let Waited::Not(exit) = &mut self.exit {
                let exit = exit.await.map_err(|_| is_down())?;
                self.exit = Waited::Ended(exit);
            }
            match self.exit {
                Waited::Ended(exit) => Ok(exit),
                Waited::Not(_) => unreachable!("it was waited for"),
            }
        })
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        if !self.processes.table().down {
            self.signals.kill(KILL);
        }
    }
}
