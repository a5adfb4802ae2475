//! Launching processes: the replacement of `tokio::process` for product code.
//!
//! A server that runs commands receives a [`Launch`], passes a [`Command`] to it, and gets a
//! [`Child`]: pipes or a terminal, signals, and one exit.
//!
//! - [`System`]: the operating system's implementation. On systems other than Unix, it is
//!   [`Unsupported`].
//! - [`Unsupported`]: launches nothing, for systems without processes.
//! - The simulated implementation runs scripted processes whose every byte is known
//!   (`world::process` of the crate `reknit`).
//!
//! A process that a [`Launch`] starts ends with its launcher. A [`ProcessTable`] starts programs that
//! outlive it, and names processes of other programs by their [`Identity`].
//!
//! A [`Confinement`] limits what a command may do. On Linux, [`System`] enforces it; no other launcher
//! does, and a launcher that cannot enforce a confinement refuses to launch.
//!
//! Not supported: resource limits, other users, resizing a terminal.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use crate::net::BoxFuture;

#[cfg(target_os = "linux")]
mod confine;
mod confinement;
#[cfg(target_os = "linux")]
mod detached;
#[cfg(target_os = "linux")]
mod filter;
#[cfg(unix)]
#[allow(unsafe_code)] // what runs between fork and exec has no safe form
mod launcher;
#[cfg(unix)]
mod pipes;
#[cfg(target_os = "linux")]
mod placeholders;
#[cfg(feature = "memory")]
mod scripted;
#[cfg(unix)]
mod system;
#[cfg(target_os = "linux")]
mod system_table;
mod table;
#[cfg(unix)]
mod terminal;
#[cfg(unix)]
#[cfg(test)]
mod tests;

#[cfg(not(unix))]
pub use Unsupported as System;
pub use confinement::{Confinement, FilesScope, NetworkScope, PathAccess, PathRules};
#[cfg(feature = "memory")]
pub use scripted::Scripted;
#[cfg(unix)]
pub use system::System;
pub use table::{Detached, Identity, ProcessTable, Reach};

/// The signal of Ctrl-C.
pub const INTERRUPT: i32 = 2;
/// The signal that a process cannot ignore.
pub const KILL: i32 = 9;
/// The signal that asks a process to end.
pub const TERMINATE: i32 = 15;

/// A command to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// The program and its arguments. A program without a slash is searched in the `PATH` of
    /// [`env`](Self::env).
    pub argv: Vec<String>,
    /// The program's own name, as passed to it; `argv[0]` by default.
    pub arg0: Option<String>,
    /// The working directory; by default the launcher's.
    pub cwd: Option<String>,
    /// The complete environment; nothing is inherited.
    pub env: Vec<(String, String)>,
    /// The standard input, output and error.
    pub stdio: Stdio,
    /// The limits of its rights; by default it has those of the launcher.
    pub confinement: Option<Confinement>,
}

/// The standard streams of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdio {
    /// A pipe for the standard output, and one for the standard error.
    Pipes {
        /// Whether there is also a pipe for the standard input; otherwise the input is empty.
        stdin: bool,
    },
    /// A terminal for all three, which is the controlling terminal of the process.
    Terminal(Size),
}

impl Default for Stdio {
    fn default() -> Self {
        Self::Pipes { stdin: false }
    }
}

/// The size of a terminal in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The number of lines.
    pub rows: u16,
    /// The number of characters per line.
    pub columns: u16,
}

/// 24 lines of 80 characters.
impl Default for Size {
    fn default() -> Self {
        Self { rows: 24, columns: 80 }
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// The signal with this number killed it.
    Signal(i32),
}

/// The write end to a process.
pub type Input = Box<dyn AsyncWrite + Send + Unpin>;

/// The read end from a process.
pub type Output = Box<dyn AsyncRead + Send + Unpin>;

/// The launcher's ends of the standard streams, until they are taken.
pub struct Streams {
    /// Returned by [`Child::stdin`].
    pub stdin: Option<Input>,
    /// Returned by [`Child::stdout`].
    pub stdout: Option<Output>,
    /// Returned by [`Child::stderr`].
    pub stderr: Option<Output>,
}

/// Launches processes.
pub trait Launch: Send + Sync {
    /// Starts `command`.
    ///
    /// # Errors
    /// `InvalidInput` if `argv` is empty, `NotFound` if there is no such program or directory,
    /// `Unsupported` if the launcher cannot enforce the confinement, and every other error of the
    /// operating system.
    fn launch<'a>(&'a self, command: &'a Command) -> BoxFuture<'a, io::Result<Box<dyn Child>>>;

    /// Checks whether this launcher can enforce the confinement of this command. By default, it can
    /// enforce none.
    ///
    /// # Errors
    /// A message if it cannot. (A launch can still fail, because the machine may have changed.)
    fn can_confine(&self, command: &Command) -> Result<(), String> {
        match command.confinement {
            None => Ok(()),
            Some(_) => Err("commands cannot be confined on this machine".to_owned()),
        }
    }
}

/// A launched process. Dropping it kills the process and its descendants, and leaves nothing
/// behind. A launcher that wants descendants to live on after the exit keeps the handle.
///
/// "Its descendants" means its process group. A process that left the group on purpose (a daemon, a
/// job of an interactive shell) is not reached. If the launcher's program is killed, the operating
/// system kills the process, but not its descendants (Linux only).
pub trait Child: Send {
    /// Returns the process id. The operating system does not reuse it while this handle exists.
    fn pid(&self) -> u32;

    /// Takes its standard input, if it is a pipe or a terminal; returns `None` from the second call
    /// on.
    ///
    /// Dropping a pipe ends the input. A terminal has no such end: the process reads an end of
    /// input when the byte 4 (Ctrl-D) is written at the start of a line.
    fn stdin(&mut self) -> Option<Input>;

    /// Takes its standard output; returns `None` from the second call on. For a terminal:
    /// everything that the terminal shows.
    ///
    /// The stream ends when every process that holds it has ended, which may be long after this
    /// process. (On a terminal, the end of this process hangs up the others: they receive signal 1,
    /// and most of them end.)
    fn stdout(&mut self) -> Option<Output>;

    /// Takes its standard error, like [`stdout`](Child::stdout); `None` for a terminal.
    fn stderr(&mut self) -> Option<Output>;

    /// Sends a signal to the process and its descendants. After the process has ended, the signal
    /// still reaches the rest.
    ///
    /// # Errors
    /// `InvalidInput` if there is no such signal; `NotFound` if no process is left. Not every
    /// system can detect the latter, so success does not prove that a process received the signal.
    /// Use [`wait`](Child::wait) to find out whether the process has ended.
    fn signal(&mut self, number: i32) -> io::Result<()>;

    /// Waits for its exit. Cancellation safe: dropping the future loses nothing. Later calls return
    /// the same exit.
    ///
    /// # Errors
    /// If the system, or the runtime, has shut down, or if the system does not know the exit any more,
    /// for example because something else has waited for the process. The process has ended then, too.
    ///
    /// When it returns, everything that the process wrote to its pipes can be read without waiting:
    /// the first pending read proves that the rest comes from other processes.
    fn wait(&mut self) -> BoxFuture<'_, io::Result<Exit>>;
}

impl dyn Child {
    /// Asks the process and its descendants to end, and kills them if the process has not ended
    /// after `grace`. If it ends in time, the remaining descendants are killed when this handle is
    /// dropped.
    ///
    /// # Errors
    /// The errors of [`signal`](Child::signal), except `NotFound`, and of [`wait`](Child::wait).
    pub async fn terminate(&mut self, grace: Duration) -> io::Result<Exit> {
        self.signal_remaining_processes(TERMINATE)?;
        if let Ok(exit) = timeout(grace, self.wait()).await {
            return exit;
        }
        self.signal_remaining_processes(KILL)?;
        self.wait().await
    }

    fn signal_remaining_processes(&mut self, number: i32) -> io::Result<()> {
        match self.signal(number) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            answer => answer,
        }
    }
}

/// A launcher that launches nothing: each call fails with `Unsupported`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unsupported;

impl Launch for Unsupported {
    fn launch<'a>(&'a self, _: &'a Command) -> BoxFuture<'a, io::Result<Box<dyn Child>>> {
        Box::pin(async { Err(io::ErrorKind::Unsupported.into()) })
    }
}

impl ProcessTable for Unsupported {}

#[cfg(all(unix, not(target_os = "linux")))]
impl ProcessTable for System {}
