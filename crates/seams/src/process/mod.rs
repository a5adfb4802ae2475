//! Launching processes: what product code uses in the place of `tokio::process`.
//!
//! A server that runs commands takes a [`Launch`] from outside, gives it a [`Command`], and holds a [`Child`]: pipes or a
//! terminal, signals, and one end.
//!
//! - [`System`]: the operating system's side. Not on Unix, it is [`Unsupported`].
//! - [`Unsupported`]: launches nothing, where there is nothing to launch with.
//! - The simulated side is scripted processes whose every byte is ground truth (`world::process` of the crate `reknit`).
//!
//! What it does not do: resource limits, other users, sandboxes, a change of a terminal's size.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use crate::net::BoxFuture;

#[cfg(unix)]
mod system;
#[cfg(unix)]
mod terminal;
#[cfg(unix)]
#[cfg(test)]
mod tests;

#[cfg(not(unix))]
pub use Unsupported as System;
#[cfg(unix)]
pub use system::System;

/// The signal of somebody who presses Ctrl-C.
pub const INTERRUPT: i32 = 2;
/// The signal that cannot be ignored.
pub const KILL: i32 = 9;
/// The signal that asks for an end.
pub const TERMINATE: i32 = 15;

/// What to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// The program, and its arguments. A program without a slash is looked for in the `PATH` of [`env`](Self::env).
    pub argv: Vec<String>,
    /// What the program is told to be its own name; `argv[0]` where none is given.
    pub arg0: Option<String>,
    /// Where it starts; the launcher's own directory where none is given.
    pub cwd: Option<String>,
    /// Its whole environment: nothing is inherited.
    pub env: Vec<(String, String)>,
    /// What its standard input, output and error are.
    pub stdio: Stdio,
}

/// What a process reads from and prints to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdio {
    /// A pipe for what it prints, and one for what it complains.
    Pipes {
        /// Whether it has a pipe to read from, too; else its input is empty.
        stdin: bool,
    },
    /// A terminal for all three, which it controls.
    Terminal(Size),
}

impl Default for Stdio {
    fn default() -> Self {
        Self::Pipes { stdin: false }
    }
}

/// The size of a terminal, in letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// How many lines.
    pub rows: u16,
    /// How many letters a line has.
    pub columns: u16,
}

/// 24 lines of 80 letters.
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
    /// A signal of this number killed it.
    Signal(i32),
}

/// Bytes to a process.
pub type Input = Box<dyn AsyncWrite + Send + Unpin>;

/// Bytes from a process.
pub type Output = Box<dyn AsyncRead + Send + Unpin>;

/// The launcher's ends of what a process reads from and prints to, until they are taken.
pub struct Streams {
    /// What [`Child::stdin`] hands out.
    pub stdin: Option<Input>,
    /// What [`Child::stdout`] hands out.
    pub stdout: Option<Output>,
    /// What [`Child::stderr`] hands out.
    pub stderr: Option<Output>,
}

/// Launches processes.
pub trait Launch: Send + Sync {
    /// Starts `command`.
    ///
    /// # Errors
    /// `InvalidInput` where `argv` is empty, `NotFound` where there is no such program or directory, and whatever else the
    /// operating system says.
    fn launch<'a>(&'a self, command: &'a Command) -> BoxFuture<'a, io::Result<Box<dyn Child>>>;
}

/// A process that was launched. Dropping it kills the process and all that it started, and leaves nothing behind.
///
/// "All that it started" is its process group: who left that on purpose (a daemon, a job of an interactive shell) is out of
/// reach.
pub trait Child: Send {
    /// The number that its operating system knows it by. Nobody else gets it as long as this handle lives.
    fn pid(&self) -> u32;

    /// Where it reads from, if it has a pipe or a terminal for that; `None` from the second call on.
    ///
    /// A pipe that is dropped is the end of the input. A terminal has no such end: its process reads one where the byte 4
    /// (Ctrl-D) is written at the start of a line.
    fn stdin(&mut self) -> Option<Input>;

    /// What it prints; `None` from the second call on. Of a terminal: all that appears there.
    ///
    /// It ends when every process that holds it has gone, which may be long after the end of this one. (On a terminal, that
    /// end hangs up the others: they are told by signal 1, and most go.)
    fn stdout(&mut self) -> Option<Output>;

    /// What it complains, as [`stdout`](Child::stdout); `None` where it has a terminal.
    fn stderr(&mut self) -> Option<Output>;

    /// Sends a signal to it and to all that it started. After its end, the rest of them are reached still.
    ///
    /// # Errors
    /// `InvalidInput` where there is no such signal; `NotFound` where nobody is left. Not every system can tell that:
    /// success says that nobody missed it. Whether the process has ended, [`wait`](Child::wait) tells.
    fn signal(&mut self, number: i32) -> io::Result<()>;

    /// Waits for its end. Dropping the future forgets nothing; asking again answers the same.
    ///
    /// # Errors
    /// Where the system, or the runtime, is down.
    fn wait(&mut self) -> BoxFuture<'_, io::Result<Exit>>;
}

impl dyn Child {
    /// Asks it and all that it started to end, and kills them where it has not ended after `grace`. Those who outlive it
    /// within that time are killed when this handle is dropped.
    ///
    /// # Errors
    /// Those of [`signal`](Child::signal), except that nobody is left, and of [`wait`](Child::wait).
    pub async fn terminate(&mut self, grace: Duration) -> io::Result<Exit> {
        self.signal_whoever_is_left(TERMINATE)?;
        if let Ok(exit) = timeout(grace, self.wait()).await {
            return exit;
        }
        self.signal_whoever_is_left(KILL)?;
        self.wait().await
    }

    fn signal_whoever_is_left(&mut self, number: i32) -> io::Result<()> {
        match self.signal(number) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            answer => answer,
        }
    }
}

/// A launcher that can launch nothing: each call ends with `Unsupported`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unsupported;

impl Launch for Unsupported {
    fn launch<'a>(&'a self, _: &'a Command) -> BoxFuture<'a, io::Result<Box<dyn Child>>> {
        Box::pin(async { Err(io::ErrorKind::Unsupported.into()) })
    }
}
