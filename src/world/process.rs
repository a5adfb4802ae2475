//! The simulated side of [`process`]: processes that play a [`Script`]. Every byte of their input
//! and output is recorded as ground truth.
//!
//! A server launches processes through [`Launch`], with the name of a script as the program. The
//! processes themselves write to the history: what they print, what reaches their standard input,
//! and how they end. The history does not depend on the server for this. All of it uses
//! `tokio::time`, so it needs only a runtime and no world.
//!
//! The processes do not run in the tasks of their launcher, but in one future of the world, which
//! [`Processes::new`] returns. They are part of the outside world, and their tasks are not counted
//! as a leak of the subject. Dropping that future ends the machine.
//!
//! A world gives processes to each server if the plan has a table `process` ([`Setup`]). The
//! processes die with their host, after its tasks are dropped, unless the step lets them survive.
//! The processes that remain at the end of the run are counted.
//!
//! In the history, the script `p1` is the stream `p1`. This stream ends with the process: `exit 7`,
//! `signal 9`. Its pipes are `p1/stdout`, `p1/stderr` and `p1/stdin`. An output pipe ends with
//! `closed` when all its holders have closed it. The stream `p1/stdin` contains what the process
//! read. Later launches are `p1~2`, `p1~3`, … The adapter of a subject can give the process another
//! name. It can also name the call that launched the process, or that wrote a line of its input
//! ([`calls`]): the launch, or the reading of the line, is then an effect of that call.
//!
//! With a terminal, all output is one stream, `p1/pty`; its lines still name their pipe. The input
//! ends with Ctrl-D. The hang-up (signal 1) goes to a process that prints to a terminal without a
//! reader. When the process ends, it also goes to the processes that it started, so late output
//! appears only if they ignore that signal.
//!
//! Not supported: working directories, environments and sizes of terminals (they are accepted, and
//! have no effect); the byte processing of a terminal (no echo, no `\r\n`, no signal for Ctrl-C);
//! real signal handlers; confinements (a launch with one is refused).

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

/// The capacity of a pipe in bytes, as on Linux. A writer waits while the pipe is full.
pub const PIPE: usize = 65_536;

/// The pid of the first process of a host.
const FIRST_PID: u32 = 1000;

/// The signal for a process that writes to a pipe without a reader.
const BROKEN_PIPE: i32 = 13;

/// The simulated operating system of one host. It only runs processes.
#[derive(Clone)]
pub struct Processes {
    scripts: Arc<BTreeMap<String, Script>>,
    record: Recorder,
    table: Arc<Mutex<Table>>,
    births: mpsc::UnboundedSender<BoxFuture<'static, ()>>,
}

/// The state of the operating system.
#[derive(Default)]
struct Table {
    /// The live processes by pid. An entry also lives while a child of the process holds its pipes.
    alive: BTreeMap<u32, Arc<SignalReceiver>>,
    /// Number of processes ever launched.
    launched: u32,
    /// Number of launches of each script.
    runs: BTreeMap<String, u32>,
    /// Whether the host is down: no process is launched, and dropping a child kills no process.
    down: bool,
}

/// The entry of a process in the table. Dropping it removes the entry.
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
    /// Creates an operating system with these scripts, by name, and returns it with the future in
    /// which its processes run. Writes ground truth with `record`.
    pub fn new(
        scripts: BTreeMap<String, Script>,
        record: Recorder,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (births, born) = mpsc::unbounded_channel();
        (Self { scripts: Arc::new(scripts), record, table: Arc::default(), births }, host(born))
    }

    /// Returns the number of live processes. A process that has exited counts while one of its
    /// children holds its pipes.
    pub fn alive(&self) -> u64 {
        self.table().alive.len() as u64
    }

    /// Kills all processes and their children. They end in the next turn.
    pub fn kill_all(&self) {
        self.table().alive.values().for_each(|signals| signals.kill(KILL));
    }

    /// Handles that the host dies: from now on no process is launched, and dropping a child kills
    /// no process. The caller decides what happens to the host's processes.
    pub fn on_host_down(&self) {
        self.table().down = true;
    }

    /// Handles that the host restarts with a fresh operating system: surviving processes belong to
    /// the previous one, and are no longer counted. Names and pids are not reused within a run.
    pub fn on_host_up(&self) {
        let mut table = self.table();
        table.alive.clear();
        table.down = false;
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        locked(&self.table)
    }

    /// Starts a process: registers it, and sends it to the future that runs all processes.
    fn start(&self, command: &Command) -> io::Result<Box<dyn Child>> {
        let program = command.argv.first().ok_or(io::ErrorKind::InvalidInput)?;
        if command.confinement.is_some() {
            return Err(io::ErrorKind::Unsupported.into()); // a script touches nothing to deny
        }
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
        let running = Box::pin(async move {
            process.run(ended).await;
            drop(registered);
        });
        self.births.send(running).map_err(|_| is_down())?;
        Ok(Box::new(Scripted {
            pid,
            signals,
            processes: self.clone(),
            ends: near,
            exit: Waited::Not(exit),
        }))
    }

    /// Assigns a pid and a name in the history to the next process.
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

/// Runs processes until they end, or until this future is dropped.
async fn host(mut born: mpsc::UnboundedReceiver<BoxFuture<'static, ()>>) {
    let mut running = JoinSet::new();
    while let Some(process) = born.recv().await {
        while running.try_join_next().is_some() {} // discards the results of finished processes
        running.spawn(process);
    }
    while running.join_next().await.is_some() {}
}

impl Launch for Processes {
    fn launch<'a>(&'a self, command: &'a Command) -> BoxFuture<'a, io::Result<Box<dyn Child>>> {
        Box::pin(async { self.start(command) })
    }
}

/// The launcher's handle of a process.
struct Scripted {
    pid: u32,
    signals: Arc<SignalReceiver>,
    processes: Processes,
    ends: process::Streams,
    exit: Waited,
}

/// The state of the end of the process, as the launcher knows it.
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
