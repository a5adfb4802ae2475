//! A network in memory, with one listener, for unit tests of product code. A test can reset or
//! freeze each end of a connection separately. Needs the feature `memory`.
//!
//! It has no delays and no segments; a simulation has both.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::sync::mpsc;

use super::{Accept, BoxFuture, ConnId, Connect, Endpoint, Listener, Network, Stream};

/// The state of one end of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fate {
    /// Data passes.
    #[default]
    Flows,
    /// Data does not pass; it waits.
    Frozen,
    /// Reads and writes fail with a reset.
    Reset,
}

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The end that opened it.
    Near,
    /// The end that accepted it.
    Far,
}

/// The fate of one end, and the tasks that wait for a change of it.
#[derive(Default)]
struct Wire(Mutex<(Fate, Vec<Waker>)>);

impl Wire {
    fn set(&self, fate: Fate) {
        let mut wire = self.0.lock().expect("nothing panics under the lock");
        wire.0 = fate;
        wire.1.drain(..).for_each(Waker::wake);
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let mut wire = self.0.lock().expect("nothing panics under the lock");
        wire.1.push(cx.waker().clone());
        match wire.0 {
            Fate::Flows => Poll::Ready(Ok(())),
            Fate::Frozen => Poll::Pending,
            Fate::Reset => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
        }
    }
}

/// One end of a connection.
struct End {
    io: DuplexStream,
    wire: Arc<Wire>,
}

impl AsyncRead for End {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        std::task::ready!(self.wire.poll(cx))?;
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for End {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        std::task::ready!(self.wire.poll(cx))?;
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// A network with one listener.
#[derive(Clone, Default)]
pub struct Memory(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    listener: Option<mpsc::UnboundedSender<Stream>>,
    /// Both ends of each connection.
    wires: Vec<[Arc<Wire>; 2]>,
    refuses: bool,
    /// The fate of new connections.
    initial_state: Fate,
}

impl Memory {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("nothing panics under the lock")
    }

    /// Sets the fate of both ends of the n-th connection, from 1.
    ///
    /// # Panics
    /// If there is no such connection.
    pub fn set(&self, conn: usize, fate: Fate) {
        let ends = self.inner().wires[conn - 1].clone();
        ends.iter().for_each(|wire| wire.set(fate));
    }

    /// Sets the fate of one end of the n-th connection, from 1.
    ///
    /// # Panics
    /// If there is no such connection.
    pub fn set_end(&self, conn: usize, side: Side, fate: Fate) {
        let end = self.inner().wires[conn - 1][side as usize].clone();
        end.set(fate);
    }

    /// Sets whether new connections are refused.
    pub fn refuse(&self, refuses: bool) {
        self.inner().refuses = refuses;
    }

    /// Sets the fate of new connections.
    pub fn set_initial_state(&self, fate: Fate) {
        self.inner().initial_state = fate;
    }

    /// Removes the listener.
    pub fn stop_listening(&self) {
        self.inner().listener = None;
    }

    /// Returns the number of connection attempts so far, including the refused ones.
    pub fn connections(&self) -> usize {
        self.inner().wires.len()
    }
}

impl Connect for Memory {
    fn connect<'a>(&'a self, _: &'a Endpoint) -> BoxFuture<'a, io::Result<Stream>> {
        Box::pin(async {
            let mut inner = self.inner();
            let [wire, far_wire] = [Arc::new(Wire::default()), Arc::new(Wire::default())];
            wire.set(inner.initial_state);
            far_wire.set(inner.initial_state);
            inner.wires.push([wire.clone(), far_wire.clone()]);
            if inner.refuses {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let id = ConnId(inner.wires.len() as u64);
            let (near, far) = tokio::io::duplex(64 * 1024);
            let far = Stream::new(End { io: far, wire: far_wire }, id);
            let listener = inner.listener.as_ref().ok_or(io::ErrorKind::ConnectionRefused)?;
            listener.send(far).map_err(|_| io::ErrorKind::ConnectionRefused)?;
            Ok(Stream::new(End { io: near, wire }, id))
        })
    }
}

impl Network for Memory {
    fn listen<'a>(&'a self, at: &'a Endpoint) -> BoxFuture<'a, io::Result<Listener>> {
        Box::pin(async {
            let (sender, accepted) = mpsc::unbounded_channel();
            self.inner().listener = Some(sender);
            Ok(Box::new(Listening { accepted, at: at.clone() }) as Listener)
        })
    }
}

struct Listening {
    accepted: mpsc::UnboundedReceiver<Stream>,
    at: Endpoint,
}

impl Accept for Listening {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Stream>> {
        Box::pin(async { self.accepted.recv().await.ok_or(io::ErrorKind::BrokenPipe.into()) })
    }

    fn endpoint(&self) -> Endpoint {
        self.at.clone()
    }
}
