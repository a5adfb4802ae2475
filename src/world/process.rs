//! The simulated side of [`process`]: processes that play a [`Script`], or run a program. Every byte
//! of the input and output of a script is recorded as ground truth.
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
//! A [program](crate::subject::Program) of the subject runs like a script, but its code is Rust. It
//! records what it does itself. Faults of child processes ([`Conditions`]) apply to both.
//!
//! Not supported: working directories, environments and sizes of terminals (they are accepted, and
//! have no effect); the byte processing of a terminal (no echo, no `\r\n`, no signal for Ctrl-C);
//! real signal handlers; confinements (a launch with one is refused).

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::DuplexStream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use crate::history::Call;
use crate::net::BoxFuture;
use crate::process::{self, Child, Command, Exit, KILL, Launch, Output};
use crate::schedule::{Action, Fault, Pipe, Plan};
use crate::subject::{HostContext, Program, ProgramContext, Recorder, Signals};

pub mod calls;
mod conditions;
mod ends;
mod relay;
mod script;
mod setup;
mod signals;
#[cfg(test)]
mod tests;

pub use conditions::Conditions;
pub use script::{Print, ProcessEnd, Script, Stdin};
pub use setup::{Ends, Input, Late, PrintedLines, Setup, TABLE, schema, scripts};

use conditions::Followed;
use signals::{Body, SignalReceiver};

/// The capacity of a pipe in bytes, as on Linux. A writer waits while the pipe is full.
pub const PIPE: usize = 65_536;

/// The pid of the first process of a host.
const FIRST_PID: u32 = 1000;

/// The signal for a process that writes to a pipe without a reader.
const BROKEN_PIPE: i32 = 13;

/// The simulated operating system of one host. It only runs processes.
#[derive(Clone)]
pub struct Processes {
    software: Arc<Software>,
    record: Recorder,
    table: Arc<Mutex<Table>>,
    births: mpsc::UnboundedSender<BoxFuture<'static, ()>>,
}

/// What the processes of a host can run, and what can happen to them.
#[derive(Default)]
pub struct Software {
    /// The scripts, by name.
    pub scripts: BTreeMap<String, Script>,
    /// The programs.
    pub programs: Option<Programs>,
    /// The faults of child processes.
    pub faults: ChildFaults,
}

/// The programs of a host.
pub struct Programs {
    /// The programs.
    pub known: &'static [Program],
    /// Creates the context of the process with this id.
    pub context: Box<CreateContext>,
}

/// Creates the context of the process with this id.
pub type CreateContext = dyn Fn(&Processes, u32) -> HostContext + Send + Sync;

/// The faults of child processes that a run can have. What it cannot have costs nothing.
#[derive(Default)]
pub struct ChildFaults {
    conditions: Option<watch::Sender<Conditions>>,
    relays: bool,
}

impl ChildFaults {
    /// Returns the faults of child processes that a plan has.
    pub fn of(plan: &Plan) -> Self {
        let faults = || {
            plan.steps.iter().filter_map(|step| match &step.action {
                Action::Fault(fault) => Some(fault),
                Action::Operation(_) => None,
            })
        };
        let relays = faults()
            .any(|fault| matches!(fault, Fault::DelayOutput { .. } | Fault::ClosePipe { .. }));
        let paces = faults()
            .any(|fault| matches!(fault, Fault::StopChildren { .. } | Fault::SlowChildren { .. }));
        let conditions = (relays || paces).then(|| watch::channel(Conditions::default()).0);
        Self { conditions, relays }
    }

    fn follow(&self) -> Followed {
        match &self.conditions {
            Some(conditions) => Followed::changing(conditions.subscribe()),
            None => Followed::usual(),
        }
    }
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
    /// Creates an operating system with this software, and returns it with the future in which its
    /// processes run. Writes ground truth with `record`.
    pub fn new(
        software: Software,
        record: Recorder,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (births, born) = mpsc::unbounded_channel();
        (Self { software: Arc::new(software), record, table: Arc::default(), births }, host(born))
    }

    /// Changes the conditions of the processes. No effect if the plan has no fault that needs it.
    pub fn change_conditions(&self, change: impl FnOnce(&mut Conditions)) {
        if let Some(conditions) = &self.software.faults.conditions {
            conditions.send_modify(change);
        }
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
            return Err(io::ErrorKind::Unsupported.into()); // no process here touches what can be denied
        }
        let software = self.software(program).ok_or(io::ErrorKind::NotFound)?;
        let signals = Arc::new(SignalReceiver::default());
        let (pid, name) =
            self.register(program, calls::variable(command, calls::NAME), &signals)?;
        if let Some(call) = calls::variable(command, calls::CALL).and_then(|call| call.parse().ok())
        {
            self.record.effect(Call(call), name.as_str());
        }
        let (near, far) = ends::ends(command.stdio, |near, pipe| self.relayed(near, pipe));
        let (ended, exit) = oneshot::channel();
        let body = match software {
            Launched::Script(script) => Body::Script(script.clone(), far),
            Launched::Program(program, context) => {
                let (handled, signals) = Signals::new();
                let stderr = far.stderr.unwrap_or_else(|| tokio::io::duplex(PIPE).0);
                let context = ProgramContext {
                    name: name.clone(),
                    pid,
                    command: command.clone(),
                    stdin: Box::new(far.stdin),
                    stdout: Box::new(far.stdout),
                    stderr: Box::new(stderr),
                    signals,
                    host: context(self, pid),
                };
                Body::Program((program.run)(context), handled)
            }
        };
        let process = signals::Process {
            name,
            record: self.record.clone(),
            signals: signals.clone(),
            conditions: self.software.faults.follow(),
            body,
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

    /// Returns the script or program with this name.
    fn software(&self, name: &str) -> Option<Launched<'_>> {
        if let Some(script) = self.software.scripts.get(name) {
            return Some(Launched::Script(script));
        }
        let programs = self.software.programs.as_ref()?;
        let program = programs.known.iter().find(|program| program.name == name)?;
        Some(Launched::Program(program, &programs.context))
    }

    /// Puts a relay before the launcher's end of a pipe, if a fault of the plan needs one.
    fn relayed(&self, near: DuplexStream, pipe: Pipe) -> DuplexStream {
        if !self.software.faults.relays {
            return near;
        }
        let (near, relay) = relay::relayed(near, pipe, self.software.faults.follow());
        let _ = self.births.send(Box::pin(relay)); // without a machine, there is no process either
        near
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

/// What a process runs.
enum Launched<'a> {
    Script(&'a Script),
    Program(&'a Program, &'a CreateContext),
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
