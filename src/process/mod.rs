//! Launching processes: what product code uses in the place of `tokio::process`.
//!
//! A server that runs commands takes a [`Launch`] from outside. The simulated side is
//! scripted processes whose every byte is ground truth (`world::process`), which the glue of a subject hands to its hosts; the
//! operating system's side is not written yet. Where neither is given, [`Unsupported`] stands.

use std::io;

use crate::net::{BoxFuture, Io};

/// What to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// The program, and its arguments.
    pub argv: Vec<String>,
    /// Where it starts; the launcher's own directory where none is given.
    pub cwd: Option<String>,
    /// Its whole environment.
    pub env: Vec<(String, String)>,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// A signal of this number killed it.
    Signal(i32),
}

/// A byte stream to or from a process.
pub type Pipe = Box<dyn Io>;

/// Launches processes.
pub trait Launch: Send + Sync {
    /// Starts `command`.
    ///
    /// # Errors
    /// `NotFound` where there is no such program, and whatever else the operating system says.
    fn launch<'a>(&'a self, command: &'a Command) -> BoxFuture<'a, io::Result<Box<dyn Child>>>;
}

/// A process that was launched. Dropping it kills the process and all that it started.
pub trait Child: Send {
    /// The number that its operating system knows it by.
    fn pid(&self) -> u32;

    /// Where it reads from; `None` from the second call on.
    fn stdin(&mut self) -> Option<Pipe>;

    /// What it prints; `None` from the second call on. It ends when every process that holds it has gone.
    fn stdout(&mut self) -> Option<Pipe>;

    /// What it complains; as [`stdout`](Child::stdout).
    fn stderr(&mut self) -> Option<Pipe>;

    /// Sends a signal to it and to all that it started.
    ///
    /// # Errors
    /// `NotFound` where it has ended.
    fn signal(&mut self, number: i32) -> io::Result<()>;

    /// Waits for its end. Dropping the future forgets nothing; asking again answers the same.
    fn wait(&mut self) -> BoxFuture<'_, io::Result<Exit>>;
}

/// A launcher that can launch nothing: each call ends with `Unsupported`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unsupported;

impl Launch for Unsupported {
    fn launch<'a>(&'a self, _: &'a Command) -> BoxFuture<'a, io::Result<Box<dyn Child>>> {
        Box::pin(async { Err(io::ErrorKind::Unsupported.into()) })
    }
}
