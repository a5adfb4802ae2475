//! The processes and the unix sockets of a host, as one of its processes sees them.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::files::{File, Files, Memory, Open};
use crate::net::{Accept, BoxFuture, Endpoint, Listener, Stream};
use crate::process::{Detached, Identity, ProcessTable, Reach};

use crate::world::local;
use crate::world::process::Processes;
use crate::world::thread::HostIx;

/// The process id of a host's root.
const ROOT: u32 = 1;

/// The greatest number of a signal.
const LAST_SIGNAL: i32 = 31;

/// The process table of a host. The root of a later start of the host is another process.
pub(in crate::world) struct HostTable {
    pub host: HostIx,
    /// The process that uses the table; `None` for the root.
    pub own: Option<Identity>,
    /// The processes besides the root, if the host can launch any.
    pub processes: Option<Processes>,
    pub files: Memory,
}

impl HostTable {
    /// Returns the identity of the root, if the host is up.
    fn root(&self) -> Option<Identity> {
        let (starts, up) = local::with(|world| {
            let host = world.hosts.get(self.host);
            (host.starts, host.up)
        });
        up.then(|| Identity { pid: ROOT, started: format!("start {starts}") })
    }
}

impl ProcessTable for HostTable {
    fn own(&self) -> io::Result<Identity> {
        let own = self.own.clone().or_else(|| self.root());
        own.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn find(&self, pid: u32) -> io::Result<Option<Identity>> {
        if pid == ROOT {
            return Ok(self.root());
        }
        Ok(self.processes.as_ref().and_then(|processes| processes.find(pid)))
    }

    fn is_alive(&self, process: &Identity) -> io::Result<bool> {
        Ok(self.find(process.pid)?.as_ref() == Some(process))
    }

    /// A process leads its own group, and its children lead theirs. So a signal to the group reaches
    /// the process. Signals to a root fail: it has no handlers, and its end is a crash of its host, which
    /// only a step of the plan causes.
    fn signal(&self, process: &Identity, number: i32, _: Reach) -> io::Result<()> {
        if !(1..=LAST_SIGNAL).contains(&number) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if process.pid == ROOT && self.is_alive(process)? {
            let why = "the root of a host receives no signals; use the fault `crash`";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let processes = self.processes.as_ref();
        match processes.is_some_and(|processes| processes.signal(process, number)) {
            true => Ok(()),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn launch_detached<'a>(&'a self, program: &'a Detached) -> BoxFuture<'a, io::Result<Identity>> {
        Box::pin(async move {
            let Some(processes) = &self.processes else {
                let why = "the hosts of this subject launch no programs";
                return Err(io::Error::new(io::ErrorKind::Unsupported, why));
            };
            processes.launch_detached(program, self.log(program).await?)
        })
    }
}

impl HostTable {
    /// Opens the log of a detached program.
    async fn log(&self, program: &Detached) -> io::Result<Arc<dyn File>> {
        let file = match self.files.open(&program.log, Open::New).await {
            Ok(file) => {
                file.set_mode(0o600).await?;
                file
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.files.open(&program.log, Open::Write).await?
            }
            Err(error) => {
                let why = format!("cannot open the log `{}`: {error}", program.log.display());
                return Err(io::Error::new(error.kind(), why));
            }
        };
        Ok(file.into())
    }
}

/// A unix socket that its host counts.
pub(in crate::world) struct Counted<T> {
    host: HostIx,
    socket: T,
}

impl<T> Counted<T> {
    /// Counts a socket until it is dropped.
    pub(in crate::world) fn new(host: HostIx, socket: T) -> Self {
        local::with(|world| world.hosts.get_mut(host).sockets += 1);
        Self { host, socket }
    }
}

impl<T> Drop for Counted<T> {
    fn drop(&mut self) {
        local::try_with(|world| world.hosts.get_mut(self.host).sockets -= 1);
    }
}

/// Counts a unix connection.
pub(in crate::world) fn counted(host: HostIx, stream: Stream) -> Stream {
    let id = stream.id();
    Stream::new(Counted::new(host, stream), id)
}

impl Accept for Counted<Listener> {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Stream>> {
        Box::pin(async { Ok(counted(self.host, self.socket.accept().await?)) })
    }

    fn endpoint(&self) -> Endpoint {
        self.socket.endpoint()
    }
}

impl AsyncRead for Counted<Stream> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buf)
    }
}

impl AsyncWrite for Counted<Stream> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
