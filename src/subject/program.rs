//! Programs: the code of processes that a simulated host launches.
//!
//! A script ([`world::process`](crate::world::process)) only prints and reads. A [`Program`] is Rust
//! code. Its [`ProgramCode`] says whose code it is:
//! - A program of the outside world speaks a protocol over its standard streams: a language server, an
//!   agent, a plugin. It plays its part, well-behaved or not, and records what it really did.
//! - A program of product code is a whole process of the system under test: a daemon, a worker, a
//!   command. See "Several processes" in [`world::process`](crate::world::process).

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;

use crate::net::BoxFuture;
use crate::process::{Command, Exit, Input, Output};

use super::HostContext;

/// A program that the hosts of a subject can launch.
#[derive(Clone, Copy)]
pub struct Program {
    /// The name, which is the first argument of a command that launches it.
    pub name: &'static str,
    /// Whose code it is.
    pub code: ProgramCode,
    /// Runs a process of this program. The process ends with the future. Dropping the future kills
    /// the process, and a fault stops or slows only what the future polls itself. So it must spawn no
    /// tasks, except product code in a `JoinSet` that the future owns.
    pub run: fn(ProgramContext) -> BoxFuture<'static, Exit>,
}

/// Whose code a program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramCode {
    /// Code of the outside world. It has no network. Its records are ground truth, and it may survive
    /// a crash of its host.
    Outside,
    /// Product code under test. It has all that its host has, and its tasks, sockets and milestones
    /// are those of the host. It dies with its host.
    Product,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The context of one process of a program.
pub struct ProgramContext {
    /// The name of the process in the history: that of the program, with `~2`, `~3`, … for later
    /// launches on the same host.
    pub name: String,
    /// The process id.
    pub pid: u32,
    /// The command that launched it.
    pub command: Command,
    /// Its standard input.
    pub stdin: Output,
    /// Its standard output.
    pub stdout: Input,
    /// Its standard error.
    pub stderr: Input,
    /// The signals that it receives.
    pub signals: Signals,
    /// The host on which it runs, with a separate environment: its entropy, its entry in the
    /// process table, and the variables of its command. The recorder of a program of the outside
    /// world writes ground truth, which the history keeps even while the host dies. The network is
    /// only available to product code.
    pub host: HostContext,
}

/// The signals that a program handles. Every other signal kills it.
#[derive(Debug)]
pub struct Signals {
    handled: HandledSignals,
    arrived: mpsc::UnboundedReceiver<i32>,
}

/// The numbers of the signals that a program handles.
type HandledSignals = Arc<Mutex<BTreeSet<i32>>>;

/// The system's end of [`Signals`].
#[derive(Debug)]
pub(crate) struct SignalSender {
    handled: HandledSignals,
    to: mpsc::UnboundedSender<i32>,
}

impl Signals {
    /// Creates the signals of a process, and the system's end.
    pub(crate) fn new() -> (SignalSender, Self) {
        let (to, arrived) = mpsc::unbounded_channel();
        let handled = HandledSignals::default();
        (SignalSender { handled: handled.clone(), to }, Self { handled, arrived })
    }

    /// Handles a signal from now on: it does not kill the process, and [`next`](Self::next) returns
    /// it. Signal 9 cannot be handled.
    pub fn handle(&mut self, number: i32) {
        self.handled.lock().unwrap_or_else(PoisonError::into_inner).insert(number);
    }

    /// Waits for the next handled signal.
    pub async fn next(&mut self) -> i32 {
        match self.arrived.recv().await {
            Some(number) => number,
            None => std::future::pending().await,
        }
    }
}

impl SignalSender {
    /// Delivers a signal, and returns whether the program handles it.
    pub(crate) fn deliver(&self, number: i32) -> bool {
        let handled = self.handled.lock().unwrap_or_else(PoisonError::into_inner);
        handled.contains(&number) && self.to.send(number).is_ok()
    }
}
