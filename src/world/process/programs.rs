//! Processes that run a [`Program`], and how they are launched.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;
use tokio::task::AbortHandle;

use super::Processes;
use super::ends::PIPE;
use super::signals::Body;
use super::table::Registered;
use crate::files::File;
use crate::net::{BoxFuture, UnixSockets};
use crate::process::{Command, Detached, Identity, Input, Output};
use crate::subject::{HostContext, Program, ProgramCode, ProgramContext, Signals};

/// The programs of a host.
pub struct Programs {
    /// The programs.
    pub known: &'static [Program],
    /// The host.
    pub host: Box<dyn ProgramHost>,
}

/// A host, as its programs need it.
pub trait ProgramHost: Send + Sync {
    /// Creates the context of a process.
    fn context(&self, processes: &Processes, process: &NewProcess<'_>) -> HostContext;

    /// Returns the unix sockets of the host, as its first process sees them.
    fn sockets(&self) -> &UnixSockets;

    /// Runs a process of product code as a task of the host.
    ///
    /// # Errors
    /// `Unsupported` if the caller is not product code of the host.
    fn spawn(&self, process: BoxFuture<'static, ()>) -> io::Result<AbortHandle>;
}

/// A process that is about to run a program.
pub struct NewProcess<'a> {
    /// Whose code it runs.
    pub code: ProgramCode,
    /// Its identity.
    pub identity: Identity,
    /// The number of its launch on its host, from 0: unique in a run.
    pub launch: u32,
    /// The command.
    pub command: &'a Command,
    /// The unix sockets, as the process sees them.
    pub sockets: UnixSockets,
}

/// The process's ends of its standard streams.
pub(super) struct ProgramStreams {
    pub(super) stdin: Output,
    pub(super) stdout: Input,
    pub(super) stderr: Input,
}

impl Programs {
    /// Creates a process of a program.
    pub(super) fn create(
        &self,
        processes: &Processes,
        program: &Program,
        registered: &Registered,
        command: &Command,
        streams: ProgramStreams,
    ) -> Body {
        let (handled, signals) = Signals::new();
        let sockets = self.host.sockets().of_new_process();
        let process = NewProcess {
            code: program.code,
            identity: registered.identity(),
            launch: registered.launch,
            command,
            sockets: sockets.clone(),
        };
        if program.code == ProgramCode::Product {
            registered.runs_product(sockets.clone());
        }
        let context = ProgramContext {
            name: registered.name.clone(),
            pid: registered.pid,
            command: command.clone(),
            stdin: streams.stdin,
            stdout: streams.stdout,
            stderr: streams.stderr,
            signals,
            host: self.host.context(processes, &process),
        };
        Body::Program { run: (program.run)(context), handled, sockets }
    }
}

impl Processes {
    /// Starts a program that outlives its launcher. Its standard output and standard error are
    /// appended to `log`, its standard input is empty.
    ///
    /// # Errors
    /// `InvalidInput` without a program, `NotFound` if there is no such program, and an error if the
    /// host is down.
    pub fn launch_detached(&self, detached: &Detached, log: Arc<dyn File>) -> io::Result<Identity> {
        let name = detached.argv.first().ok_or(io::ErrorKind::InvalidInput)?;
        let (programs, program) = self.program(name).ok_or(io::ErrorKind::NotFound)?;
        let command = Command {
            argv: detached.argv.clone(),
            cwd: detached.cwd.clone(),
            env: detached.env.clone(),
            ..Command::default()
        };
        let registered = self.register(name, &command)?;
        let streams = ProgramStreams {
            stdin: Box::new(tokio::io::empty()),
            stdout: Box::new(Appended(log.clone())),
            stderr: Box::new(Appended(log)),
        };
        let identity = registered.identity();
        let body = programs.create(self, program, &registered, &command, streams);
        self.begin(body, program.code, registered, None)?;
        Ok(identity)
    }

    /// Returns the program with this name.
    pub(super) fn program(&self, name: &str) -> Option<(&Programs, &'static Program)> {
        let programs = self.software.programs.as_ref()?;
        let program = programs.known.iter().find(|program| program.name == name)?;
        Some((programs, program))
    }
}

/// Creates the streams of an attached process from its ends of the pipes.
pub(super) fn attached(ends: super::ends::ProcessEnds) -> ProgramStreams {
    let stderr = ends.stderr.unwrap_or_else(|| tokio::io::duplex(PIPE).0);
    ProgramStreams {
        stdin: Box::new(ends.stdin),
        stdout: Box::new(ends.stdout),
        stderr: Box::new(stderr),
    }
}

/// An output that is appended to a file in memory, whose calls never wait.
struct Appended(Arc<dyn File>);

impl AsyncWrite for Appended {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let append = async {
            let end = self.0.metadata().await?.size;
            self.0.write_at(end, buf.to_vec()).await?;
            Ok(buf.len())
        };
        std::pin::pin!(append).poll(cx)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
