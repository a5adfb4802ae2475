//! Unix sockets in memory, for simulations and unit tests.
//!
//! They behave as those of Linux. The file of a socket is in a [`Memory`], next to the other files of
//! the machine. It exists until a program removes it: a listener removes its own file when it is
//! dropped, but [a process that is killed](UnixSockets::kill) drops nothing. A connection through the
//! file that it leaves behind is refused, and the path is busy until the file is removed.
//!
//! A connection has no delay. Its data is lost with the machine.
//!
//! Not supported: a limit on the connections that wait to be accepted.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use super::{Accept, Address, BoxFuture, ConnId, Connect, Endpoint, Listener, Network, Stream};
use crate::files::Memory;

mod stream;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;

use stream::End;

/// The longest path of a socket in bytes, as on Linux.
const LONGEST_PATH: usize = 107;

/// The number of the first connection. The connections of other networks of a simulated machine have
/// smaller numbers.
const FIRST_CONN: u64 = 1 << 32;

/// The unix sockets of a machine, as one of its processes sees them. A clone is the same process.
#[derive(Clone)]
pub struct UnixSockets {
    files: Memory,
    bound: Arc<Mutex<Bound>>,
    killed: Arc<AtomicBool>,
}

/// The listeners of a machine.
#[derive(Default)]
struct Bound {
    /// The connections that wait to be accepted, by the identity of the socket's file.
    backlogs: BTreeMap<u64, Arc<Mutex<Backlog>>>,
    /// The number of connections so far.
    connections: u64,
}

/// The connections that wait to be accepted.
#[derive(Default)]
struct Backlog {
    waiting: VecDeque<(End, ConnId)>,
    acceptor: Option<Waker>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl UnixSockets {
    /// Creates the unix sockets of a machine that has these files, as its first process sees them.
    pub fn new(files: Memory) -> Self {
        Self { files, bound: Arc::default(), killed: Arc::default() }
    }

    /// Returns the same sockets as a new process of the machine sees them.
    #[must_use]
    pub fn of_new_process(&self) -> Self {
        Self { killed: Arc::default(), ..self.clone() }
    }

    /// Handles that the process is killed: from now on, the files of its listeners stay when these are
    /// dropped. The caller then drops all that the process holds.
    pub fn kill(&self) {
        self.killed.store(true, Ordering::Relaxed);
    }
}

/// Returns the path of a unix socket.
fn path_of(endpoint: &Endpoint) -> io::Result<&Path> {
    let Address::Unix(path) = endpoint.address() else {
        return Err(io::ErrorKind::Unsupported.into());
    };
    if path.as_os_str().len() > LONGEST_PATH {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the path of a socket is too long",
        ));
    }
    Ok(path)
}

impl Connect for UnixSockets {
    fn connect<'a>(&'a self, to: &'a Endpoint) -> BoxFuture<'a, io::Result<Stream>> {
        Box::pin(async move {
            let socket = self.files.socket(path_of(to)?)?;
            let mut bound = lock(&self.bound);
            let backlog = bound.backlogs.get(&socket).ok_or(io::ErrorKind::ConnectionRefused)?;
            let mut backlog = lock(backlog);
            let (near, far) = End::pair();
            let id = ConnId(FIRST_CONN + bound.connections);
            backlog.waiting.push_back((far, id));
            let acceptor = backlog.acceptor.take();
            drop(backlog);
            bound.connections += 1;
            if let Some(acceptor) = acceptor {
                acceptor.wake();
            }
            Ok(Stream::new(near, id))
        })
    }
}

impl Network for UnixSockets {
    fn listen<'a>(&'a self, at: &'a Endpoint) -> BoxFuture<'a, io::Result<Listener>> {
        Box::pin(async move {
            let path = path_of(at)?.to_owned();
            let id = self.files.create_socket(&path)?;
            let backlog = Arc::<Mutex<Backlog>>::default();
            lock(&self.bound).backlogs.insert(id, backlog.clone());
            Ok(Box::new(Listening { process: self.clone(), path, id, backlog }) as Listener)
        })
    }
}

/// A listener.
struct Listening {
    process: UnixSockets,
    path: PathBuf,
    /// The identity of the socket's file.
    id: u64,
    backlog: Arc<Mutex<Backlog>>,
}

impl Accept for Listening {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Stream>> {
        Box::pin(std::future::poll_fn(|cx| {
            let mut backlog = lock(&self.backlog);
            let Some((mut end, id)) = backlog.waiting.pop_front() else {
                backlog.acceptor = Some(cx.waker().clone());
                return Poll::Pending;
            };
            end.accept();
            Poll::Ready(Ok(Stream::new(end, id)))
        }))
    }

    fn endpoint(&self) -> Endpoint {
        Endpoint::unix(self.path.clone())
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        lock(&self.process.bound).backlogs.remove(&self.id);
        if !self.process.killed.load(Ordering::Relaxed) {
            self.process.files.remove_socket(&self.path, self.id);
        }
    }
}
