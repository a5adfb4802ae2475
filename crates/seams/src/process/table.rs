//! The other processes of the machine: the table that the operating system keeps of them.
//!
//! The operating system reuses process ids. So a record or a signal names a process by its
//! [`Identity`]: the id together with its start. A [`ProcessTable`] answers whether such a process
//! is alive, sends signals to it, and starts programs that outlive this one.
//!
//! - [`System`](super::System): the operating system's table, on Linux.
//! - [`Unsupported`](super::Unsupported): no table: each call fails.
//! - `Scripted`: a table in memory, for unit tests (feature `memory`).

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::net::BoxFuture;

/// The identity of a process: no two processes of a machine have the same one, not even one after
/// the other, and not across restarts of the machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// The process id.
    pub pid: u32,
    /// Distinguishes the process from others that have or had the same id. Its form belongs to the
    /// table that created it; others only store and compare it.
    pub started: String,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.pid)
    }
}

/// The processes that a signal reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The process only.
    Process,
    /// Its process group if the process leads one, else the process only. A foreground job of a
    /// script leads no group: its group also has the programs that started it.
    Group,
}

/// A program that outlives the program that starts it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detached {
    /// The program and its arguments. A program without a slash is searched in the `PATH` of
    /// [`env`](Self::env).
    pub argv: Vec<String>,
    /// The working directory; by default the launcher's.
    pub cwd: Option<String>,
    /// The complete environment; nothing is inherited.
    pub env: Vec<(String, String)>,
    /// The file to which its standard output and its standard error are appended. It is created
    /// for its owner only (mode 0600) if it does not exist.
    pub log: PathBuf,
}

fn unsupported<T>() -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no table of processes"))
}

/// The processes of a machine. By default, each call fails with `Unsupported`.
pub trait ProcessTable: Send + Sync {
    /// Returns the identity of this program.
    ///
    /// # Errors
    /// Those of the operating system.
    fn own(&self) -> io::Result<Identity> {
        unsupported()
    }

    /// Returns the identity of the process that has this id now; `None` if there is none, or it has
    /// ended.
    ///
    /// # Errors
    /// Those of the operating system.
    fn find(&self, pid: u32) -> io::Result<Option<Identity>> {
        let _ = pid;
        unsupported()
    }

    /// Returns whether this process is alive. A process that has ended is dead, also if its parent
    /// has not taken note of it (a zombie).
    ///
    /// # Errors
    /// `Unsupported` if the table cannot see the process, because it belongs to another process
    /// namespace (a container): it may be alive. Also other errors of the operating system.
    fn is_alive(&self, process: &Identity) -> io::Result<bool> {
        let _ = process;
        unsupported()
    }

    /// Sends a signal to exactly this process and, if asked for, to its process group. It never
    /// reaches another process that has the same id.
    ///
    /// # Errors
    /// `NotFound` if the process is dead; `InvalidInput` if there is no such signal;
    /// `PermissionDenied` if the process belongs to another user. Also the errors of
    /// [`is_alive`](Self::is_alive).
    fn signal(&self, process: &Identity, number: i32, reach: Reach) -> io::Result<()> {
        let _ = (process, number, reach);
        unsupported()
    }

    /// Starts a program that outlives this one. It leads its own session and process group, its
    /// standard input is empty, it inherits no other descriptor, and it does not end with its
    /// launcher.
    ///
    /// # Errors
    /// `InvalidInput` if `argv` is empty, `NotFound` if there is no such program or directory, and
    /// every other error of the operating system, also of the log file.
    fn launch_detached<'a>(&'a self, program: &'a Detached) -> BoxFuture<'a, io::Result<Identity>> {
        let _ = program;
        Box::pin(async { unsupported() })
    }
}
