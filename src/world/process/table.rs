//! The process table of a host: which processes run, and their ids.
//!
//! A new process gets the lowest free id from 1000 on. So ids are reused at once, and code that takes
//! an id for a process is caught. The number of the launch distinguishes processes with the same id: it
//! is unique in a run. The id of an ended process is not free while its launcher holds its handle.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

use super::signals::SignalReceiver;
use crate::net::UnixSockets;
use crate::process::{Identity, TERMINATE};

/// Returns the error of a machine that is down.
pub(super) fn is_down() -> io::Error {
    io::Error::other("the machine is down")
}

/// The pid of the first process of a host.
const FIRST_PID: u32 = 1000;

/// The processes of a host.
#[derive(Default)]
pub(super) struct Table {
    /// The processes by pid. An entry also lives while a child of the process holds its pipes.
    alive: BTreeMap<u32, Entry>,
    /// The launches whose launchers hold a handle, by pid.
    held: BTreeMap<u32, u32>,
    /// Number of processes ever launched.
    launched: u32,
    /// Number of launches of each script.
    runs: BTreeMap<String, u32>,
    /// Whether the host is down: no process is launched, and dropping a child kills no process.
    pub(super) down: bool,
}

/// A process in the table.
struct Entry {
    launch: u32,
    name: String,
    signals: Arc<SignalReceiver>,
    has_exited: bool,
    product: Option<ProductProcess>,
}

/// A process that runs product code.
struct ProductProcess {
    sockets: UnixSockets,
    /// `None` until it runs.
    task: Option<AbortHandle>,
}

/// A process in the table. Dropping it removes the entry.
pub(super) struct Registered {
    table: Arc<Mutex<Table>>,
    pub(super) pid: u32,
    /// The number of the launch, from 0.
    pub(super) launch: u32,
    /// The name in the history.
    pub(super) name: String,
    pub(super) signals: Arc<SignalReceiver>,
}

pub(super) fn locked(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

fn identity(pid: u32, launch: u32) -> Identity {
    Identity { pid, started: format!("launch {launch}") }
}

impl Registered {
    /// Assigns a pid and a name in the history to a new process.
    pub(super) fn new(table: &Arc<Mutex<Table>>, program: &str) -> io::Result<Self> {
        let mut inner = locked(table);
        if inner.down {
            return Err(is_down());
        }
        let is_free = |pid: &u32| !inner.alive.contains_key(pid) && !inner.held.contains_key(pid);
        let pid = (FIRST_PID..).find(is_free).ok_or(io::ErrorKind::WouldBlock)?;
        let launch = inner.launched;
        inner.launched += 1;
        let run = inner.runs.entry(program.to_owned()).or_default();
        *run += 1;
        let name = if *run == 1 { program.to_owned() } else { format!("{program}~{run}") };
        let signals = Arc::<SignalReceiver>::default();
        let entry = Entry {
            launch,
            name: name.clone(),
            signals: signals.clone(),
            has_exited: false,
            product: None,
        };
        inner.alive.insert(pid, entry);
        drop(inner);
        Ok(Self { table: table.clone(), pid, launch, name, signals })
    }

    /// Returns the identity of the process.
    pub(super) fn identity(&self) -> Identity {
        identity(self.pid, self.launch)
    }

    fn with_entry<R>(&self, f: impl FnOnce(&mut Entry) -> R) -> Option<R> {
        let mut table = locked(&self.table);
        table.alive.get_mut(&self.pid).filter(|entry| entry.launch == self.launch).map(f)
    }

    /// Handles that the process has ended.
    pub(super) fn exited(&self) {
        self.with_entry(|entry| entry.has_exited = true);
    }

    /// Handles that the process will run product code.
    pub(super) fn runs_product(&self, sockets: UnixSockets) {
        self.with_entry(|entry| entry.product = Some(ProductProcess { sockets, task: None }));
    }

    /// Handles that this task runs the process.
    pub(super) fn runs_in(&self, task: AbortHandle) {
        self.with_entry(|entry| {
            if let Some(product) = &mut entry.product {
                product.task = Some(task);
            }
        });
    }

    /// Keeps the pid while the returned value lives.
    pub(super) fn hold(&self) -> Held {
        locked(&self.table).held.insert(self.pid, self.launch);
        Held { table: self.table.clone(), pid: self.pid, launch: self.launch }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut table = locked(&self.table);
        if table.alive.get(&self.pid).is_some_and(|entry| entry.launch == self.launch) {
            table.alive.remove(&self.pid);
        }
    }
}

/// The launcher's hold on the pid of a process.
pub(super) struct Held {
    table: Arc<Mutex<Table>>,
    pub(super) pid: u32,
    launch: u32,
}

impl Held {
    /// Returns whether the process, or a child that holds its pipes, is left.
    pub(super) fn is_left(&self) -> bool {
        let table = locked(&self.table);
        table.alive.get(&self.pid).is_some_and(|entry| entry.launch == self.launch)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut table = locked(&self.table);
        if table.held.get(&self.pid) == Some(&self.launch) {
            table.held.remove(&self.pid);
        }
    }
}

impl Table {
    /// Returns the number of entries.
    pub(super) fn count(&self) -> u64 {
        self.alive.len() as u64
    }

    /// Kills all processes and their children. They end in the next turn.
    pub(super) fn kill_all(&self) {
        self.alive.values().for_each(|entry| entry.signals.machine_goes_down());
    }

    /// Asks the processes of product code to end.
    pub(super) fn terminate_product(&self) {
        let product = self.alive.values().filter(|entry| entry.product.is_some());
        product.for_each(|entry| entry.signals.kill(TERMINATE));
    }

    /// Kills the processes of product code without giving them another turn. Returns their names.
    pub(super) fn abort_product(&self) -> Vec<String> {
        let mut names = Vec::new();
        for entry in self.alive.values() {
            if let Some(product) = entry.product.as_ref().filter(|_| !entry.has_exited) {
                product.sockets.kill();
                if let Some(task) = &product.task {
                    task.abort();
                }
                names.push(entry.name.clone());
            }
        }
        names
    }

    /// Handles that a new operating system starts: it knows no process of the earlier one.
    pub(super) fn restart(&mut self) {
        self.alive.clear();
        self.held.clear();
        self.down = false;
    }

    /// Returns the process that has this id now, unless it has ended.
    pub(super) fn find(&self, pid: u32) -> Option<Identity> {
        let entry = self.alive.get(&pid).filter(|entry| !entry.has_exited)?;
        Some(identity(pid, entry.launch))
    }

    /// Sends a signal to a process; returns whether it is alive.
    pub(super) fn signal(&self, process: &Identity, number: i32) -> bool {
        let is_alive = self.find(process.pid).as_ref() == Some(process);
        if let Some(entry) = self.alive.get(&process.pid).filter(|_| is_alive) {
            entry.signals.kill(number);
        }
        is_alive
    }
}
