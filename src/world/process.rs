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
//! `signal 9`, or `exit -1` if the wait for it fails, because its launcher cannot know its end. Its pipes are `p1/stdout`, `p1/stderr` and `p1/stdin`. An output pipe ends with
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
//! # Several processes
//!
//! The processes of a host share its disk, the locks on its files, its process table and its unix
//! sockets, all through [`Env`](crate::env::Env). So a daemon, its clients and its workers can run as
//! separate processes of one machine. A [program of product code](crate::subject::ProgramCode) is such
//! a process:
//!
//! - **Launch.** The root of the host, or another process of product code, launches it: attached
//!   (`env.launch`), so that it ends with the launcher's handle, or detached
//!   (`env.processes.launch_detached`), so that it outlives its launcher. A detached process has no
//!   input, and appends its output to its log file on the disk. Only programs can be detached, and a
//!   program of the outside world cannot launch product code.
//! - **Environment.** It has the host's network, files and clock, and its own entropy: a sequence for
//!   each launch. Its variables and working directory are those of its command.
//! - **Identity.** The root has the id 1. A new process gets the lowest free id from 1000 on, so ids are
//!   reused at once. The identity contains the number of the start or launch, which is unique in a run,
//!   also across restarts of the host.
//! - **Signals.** A process handles the signals that it names, and dies of all others. A signal to the
//!   group of a process reaches the process. The root receives no signals: the call fails. Its end is
//!   the fault `crash`.
//! - **Death.** A process that is killed is dropped where it waits, with the tasks of its `JoinSet`s.
//!   Its locks are free then, its connections are closed, and its attached children are killed. The
//!   files of its unix sockets stay. A task that it spawned otherwise lives on, and is a leak of the
//!   host.
//! - **Death of the host.** A crash and a loss of power kill all processes of product code together
//!   with the root, also if `processes = "live"`. The restarted host launches none by itself.
//! - **Faults.** `kill-children`, `stop-children` and `slow-children` apply to all processes of the
//!   host except its root, attached or detached. A stop or a slowdown affects what the future of the
//!   process polls itself. The tasks that it spawned go on, until they wait for that future.
//! - **Resources.** Its tasks, polls and sockets are those of the host, and so are its milestones and
//!   points. When the run ends, the processes of product code on clients receive SIGTERM, as on a
//!   machine that is shut down. Resources that remain after the settling time are leaks.
//! - **Unix sockets** behave as on Linux ([`UnixSockets`](crate::net::UnixSockets)). The history does
//!   not contain their connections, and no fault of the network affects them.
//!
//! # Limits
//!
//! Not supported: the byte processing of a terminal (no echo, no `\r\n`, no signal for Ctrl-C); real
//! signal handlers. A script touches no files and no network, so working directories, environments,
//! sizes of terminals and confinements only appear in what it says of its command
//! ([`Script::shows_command`]). A launch with a confinement that nothing would show is refused.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::DuplexStream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::history::Call;
use crate::net::BoxFuture;
use crate::process::{self, Child, Command, Exit, Identity, KILL, Launch, Output};
use crate::schedule::fault::effect::{ChildEffect, ChildFault, Effect};
use crate::schedule::{Action, Pipe, Plan};
use crate::subject::{Program, ProgramCode, Recorder};

pub mod calls;
mod command_line;
mod conditions;
mod ends;
mod programs;
mod relay;
mod script;
mod setup;
mod signals;
mod table;
#[cfg(test)]
mod tests;

pub use conditions::Conditions;
pub use ends::PIPE;
pub use programs::{NewProcess, ProgramHost, Programs};
pub use script::{LateOutput, Print, ProcessEnd, Script, Stdin, UNKNOWN_EXIT};
pub use setup::{Ends, Input, Late, PrintedLines, Setup, TABLE, schema, scripts};

use conditions::Followed;
use relay::Relayed;
use signals::{Body, Ended, SignalReceiver};
use table::{Held, Registered, Table, is_down, locked};

/// The simulated operating system of one host. It only runs processes.
#[derive(Clone)]
pub struct Processes {
    software: Arc<Software>,
    record: Recorder,
    table: Arc<Mutex<Table>>,
    births: mpsc::UnboundedSender<BoxFuture<'static, ()>>,
}

/// The programs that the processes of a host can run, and the faults that can hit them.
#[derive(Default)]
pub struct Software {
    /// The scripts, by name.
    pub scripts: BTreeMap<String, Script>,
    /// The programs.
    pub programs: Option<Programs>,
    /// The faults of child processes.
    pub faults: ChildFaults,
}

/// The faults of child processes that a run can have. A run pays only for faults that it can have.
#[derive(Default)]
pub struct ChildFaults {
    conditions: Option<watch::Sender<Conditions>>,
    relays: bool,
}

impl ChildFaults {
    /// Returns the faults of child processes that a plan has.
    pub fn of(plan: &Plan) -> Self {
        let effects = || {
            plan.steps.iter().filter_map(|step| match &step.action {
                Action::Fault(fault) => match fault.effect() {
                    Effect::Children { what, .. } => Some(what),
                    _ => None,
                },
                Action::Operation(_) => None,
            })
        };
        let relays = effects().any(|what| {
            matches!(
                what,
                ChildEffect::ClosePipe(_) | ChildEffect::Change(ChildFault::DelayOutput(_), _)
            )
        });
        let paces = effects().any(|what| {
            matches!(what, ChildEffect::Change(ChildFault::Stop | ChildFault::Slow(_), _))
        });
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
        self.table().count()
    }

    /// Kills all processes and their children. They end in the next turn.
    pub fn kill_all(&self) {
        self.table().kill_all();
    }

    /// Asks the processes of product code to end, as a machine that is shut down does.
    pub fn terminate_product(&self) {
        self.table().terminate_product();
    }

    /// Handles that the host dies: from now on no process is launched, and dropping a child kills
    /// no process. The processes of product code die at once; returns their names in the history. The
    /// caller decides what happens to the others.
    pub fn on_host_down(&self) -> Vec<String> {
        let mut table = self.table();
        table.down = true;
        table.abort_product()
    }

    /// Handles that the host restarts with a fresh operating system: surviving processes belong to
    /// the previous one, and are no longer counted. Names are not reused within a run.
    pub fn on_host_up(&self) {
        self.table().restart();
    }

    /// Returns the process that has this id now, unless it has ended.
    pub fn find(&self, pid: u32) -> Option<Identity> {
        self.table().find(pid)
    }

    /// Sends a signal to a process. Returns whether the process is alive. The number 0 has no effect.
    pub fn signal(&self, process: &Identity, number: i32) -> bool {
        self.table().signal(process, number)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        locked(&self.table)
    }

    /// Returns how long the launch of a command takes.
    fn launch_takes(&self, command: &Command) -> Duration {
        let command = calls::assigned(command);
        let script = command.argv.first().and_then(|name| self.software.scripts.get(name));
        script.map_or(Duration::ZERO, |script| script.launch_takes)
    }

    /// Starts a process: registers it, and sends it to the future that runs all processes.
    fn start(&self, command: &Command) -> io::Result<Box<dyn Child>> {
        let command = &calls::assigned(command);
        let program = command.argv.first().ok_or(io::ErrorKind::InvalidInput)?;
        self.can_confine(command).map_err(|why| io::Error::new(io::ErrorKind::Unsupported, why))?;
        let script = self.software.scripts.get(program);
        let launched = match script {
            Some(script) => Launched::Script(script),
            None => {
                let (programs, program) = self.program(program).ok_or(io::ErrorKind::NotFound)?;
                Launched::Program(programs, program)
            }
        };
        let registered = self.register(program, command)?;
        let mut relays = Vec::new();
        let (near, far) =
            ends::ends(command.stdio, |near, pipe| self.relayed(near, pipe, &mut relays));
        let (body, code) = match launched {
            Launched::Script(script) => {
                let shown = if script.shows_command {
                    command_line::described(command)
                } else {
                    Bytes::new()
                };
                (Body::Script(script.clone(), shown, far), ProgramCode::Outside)
            }
            Launched::Program(programs, program) => {
                let streams = programs::attached(far);
                (programs.create(self, program, &registered, command, streams), program.code)
            }
        };
        let (ended, exit) = oneshot::channel();
        let (held, signals) = (registered.hold(), registered.signals.clone());
        self.begin(body, code, registered, Some(ended))?;
        Ok(Box::new(Attached {
            held,
            signals,
            processes: self.clone(),
            ends: near,
            relays,
            exit: Waited::Not(exit),
            wait_fails: script.is_some_and(|script| script.wait_fails),
        }))
    }

    /// Begins to run a process: product code as a task of the host, and other code in the future
    /// that runs all processes.
    fn begin(
        &self,
        body: Body,
        code: ProgramCode,
        registered: Registered,
        waiter: Option<oneshot::Sender<Exit>>,
    ) -> io::Result<()> {
        let registered = Arc::new(registered);
        let process = signals::Process {
            name: registered.name.clone(),
            record: self.record.clone(),
            signals: registered.signals.clone(),
            conditions: self.software.faults.follow(),
            body,
        };
        let ended = Ended { registered: registered.clone(), waiter };
        let running = Box::pin(process.run(ended));
        match (code, &self.software.programs) {
            (ProgramCode::Product, Some(programs)) => {
                registered.runs_in(programs.host.spawn(running)?);
                Ok(())
            }
            _ => self.births.send(running).map_err(|_| is_down()),
        }
    }

    /// Puts a relay before the launcher's end of a pipe, if a fault of the plan needs one.
    /// Adds a relay of output to `relays`.
    fn relayed(&self, near: DuplexStream, pipe: Pipe, relays: &mut Vec<Relayed>) -> DuplexStream {
        if !self.software.faults.relays {
            return near;
        }
        let (near, relay, relayed) = relay::relayed(near, pipe, self.software.faults.follow());
        if pipe != Pipe::Stdin {
            relays.push(relayed);
        }
        let _ = self.births.send(Box::pin(relay)); // without a machine, there is no process either
        near
    }

    /// Registers a new process. If a call launched it, that is an effect of the call.
    fn register(&self, program: &str, command: &Command) -> io::Result<Registered> {
        let name = calls::variable(command, calls::NAME).unwrap_or(program);
        let registered = Registered::new(&self.table, name)?;
        if let Some(call) = calls::variable(command, calls::CALL).and_then(|call| call.parse().ok())
        {
            self.record.effect(Call(call), registered.name.as_str());
        }
        Ok(registered)
    }
}

/// The script or program that a launch names.
enum Launched<'a> {
    Script(&'a Script),
    Program(&'a Programs, &'static Program),
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
        Box::pin(async {
            let takes = self.launch_takes(command);
            if !takes.is_zero() {
                sleep(takes).await;
            }
            self.start(command)
        })
    }

    /// A script that shows its command shows its confinement, and touches nothing that can be denied.
    fn can_confine(&self, command: &Command) -> Result<(), String> {
        let script = command.argv.first().and_then(|name| self.software.scripts.get(name));
        let is_shown = script.is_some_and(|script| script.shows_command);
        if command.confinement.is_none() || is_shown {
            return Ok(());
        }
        Err("only a script that shows its command can be confined".to_owned())
    }
}

/// The launcher's handle of a process.
struct Attached {
    held: Held,
    signals: Arc<SignalReceiver>,
    processes: Processes,
    ends: process::Streams,
    /// The relays of its output.
    relays: Vec<Relayed>,
    exit: Waited,
    /// Whether the next wait fails when the process has ended.
    wait_fails: bool,
}

/// The state of the end of the process, as the launcher knows it.
enum Waited {
    Not(oneshot::Receiver<Exit>),
    /// It has ended. Its relays may still pass output on.
    Ended(Exit),
    /// The launcher knows its exit.
    Known(Exit),
}

impl Child for Attached {
    fn pid(&self) -> u32 {
        self.held.pid
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
        if !self.held.is_left() {
            return Err(io::ErrorKind::NotFound.into());
        }
        match (number, &self.exit) {
            (KILL, Waited::Not(_) | Waited::Ended(_)) => self.signals.kill_before_exit_is_known(),
            _ => self.signals.kill(number),
        }
        Ok(())
    }

    fn wait(&mut self) -> BoxFuture<'_, io::Result<Exit>> {
        Box::pin(async {
            if let Waited::Not(exit) = &mut self.exit {
                let exit = exit.await.map_err(|_| is_down())?;
                self.exit = Waited::Ended(exit);
            }
            for relay in &self.relays {
                relay.passed_on().await;
            }
            match self.exit {
                Waited::Ended(exit) | Waited::Known(exit) => {
                    self.exit = Waited::Known(exit);
                    if std::mem::take(&mut self.wait_fails) {
                        return Err(io::Error::other("no child processes"));
                    }
                    Ok(exit)
                }
                Waited::Not(_) => unreachable!("it was waited for"),
            }
        })
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if !self.processes.table().down {
            self.signals.kill(KILL);
        }
    }
}
