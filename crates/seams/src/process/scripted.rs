//! [`Scripted`]: a process table in memory, for unit tests of product code. Needs the feature
//! `memory`.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::KILL;
use super::table::{Detached, Identity, ProcessTable, Reach};
use crate::net::BoxFuture;

/// A process table in memory. A clone is the same table, seen by the same program; [`as_seen_by`]
/// is the same table as another program sees it.
///
/// A launched program does nothing until the test lets it end. A kill ends a process; the table
/// only records every other signal.
///
/// [`as_seen_by`]: Scripted::as_seen_by
#[derive(Clone)]
pub struct Scripted {
    inner: Arc<Mutex<Inner>>,
    own: Identity,
}

#[derive(Default)]
struct Inner {
    /// The start of each living process, by its id.
    living: BTreeMap<u32, String>,
    /// How many processes have started.
    starts: u64,
    launches: Vec<(Detached, Identity)>,
    signals: Vec<(Identity, i32, Reach)>,
}

impl Inner {
    fn start(&mut self, pid: u32) -> Identity {
        self.starts += 1;
        let started = self.starts.to_string();
        self.living.insert(pid, started.clone());
        Identity { pid, started }
    }

    fn has(&self, process: &Identity) -> bool {
        self.living.get(&process.pid) == Some(&process.started)
    }
}

/// A table with one process: the program that asks.
impl Default for Scripted {
    fn default() -> Self {
        let mut inner = Inner::default();
        let own = inner.start(1);
        Self { inner: Arc::new(Mutex::new(inner)), own }
    }
}

impl Scripted {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a process with a new id.
    pub fn start(&self) -> Identity {
        let mut inner = self.inner();
        let pid = inner.living.keys().next_back().map_or(1, |newest| newest + 1);
        inner.start(pid)
    }

    /// Starts a process with this id. A living process with the same id ends.
    pub fn start_with_id(&self, pid: u32) -> Identity {
        self.inner().start(pid)
    }

    /// Ends a process. It does nothing if the process has ended.
    pub fn end(&self, process: &Identity) {
        let mut inner = self.inner();
        if inner.has(process) {
            inner.living.remove(&process.pid);
        }
    }

    /// Returns the table as the program with this identity sees it.
    #[must_use]
    pub fn as_seen_by(&self, own: &Identity) -> Self {
        Self { own: own.clone(), ..self.clone() }
    }

    /// Returns the programs that were launched, in order.
    pub fn launches(&self) -> Vec<(Detached, Identity)> {
        self.inner().launches.clone()
    }

    /// Returns the signals that living processes have received, in order.
    pub fn signals(&self) -> Vec<(Identity, i32, Reach)> {
        self.inner().signals.clone()
    }
}

impl ProcessTable for Scripted {
    fn own(&self) -> io::Result<Identity> {
        Ok(self.own.clone())
    }

    fn find(&self, pid: u32) -> io::Result<Option<Identity>> {
        let started = self.inner().living.get(&pid).cloned();
        Ok(started.map(|started| Identity { pid, started }))
    }

    fn is_alive(&self, process: &Identity) -> io::Result<bool> {
        Ok(self.inner().has(process))
    }

    fn signal(&self, process: &Identity, number: i32, reach: Reach) -> io::Result<()> {
        let mut inner = self.inner();
        if !inner.has(process) {
            return Err(io::ErrorKind::NotFound.into());
        }
        inner.signals.push((process.clone(), number, reach));
        if number == KILL {
            inner.living.remove(&process.pid);
        }
        Ok(())
    }

    fn launch_detached<'a>(&'a self, program: &'a Detached) -> BoxFuture<'a, io::Result<Identity>> {
        Box::pin(async move {
            if program.argv.is_empty() {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            let process = self.start();
            self.inner().launches.push((program.clone(), process.clone()));
            Ok(process)
        })
    }
}
