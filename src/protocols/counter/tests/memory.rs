//! A network in memory, with one listener. Its connections can be cut and frozen.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::sync::mpsc;

use crate::net::{Accept, BoxFuture, ConnId, Connect, Endpoint, Listener, Network, Stream};

/// What passes on a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fate {
    #[default]
    Flows,
    Frozen,
    Reset,
}

/// A connection's fate, with who waits for a change of it.
#[derive(Default)]
struct Wire(Mutex<(Fate, Vec<Waker>)>);

impl Wire {
    fn set(&self, fate: Fate) {
        let mut wire = self.0.lock().unwrap();
        wire.0 = fate;
        wire.1.drain(..).for_each(Waker::wake);
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let mut wire = self.0.lock().unwrap();
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
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        std::task::ready!(self.wire.poll(cx))?;
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for End {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
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
    wires: Vec<Arc<Wire>>,
    refuses: bool,
}

impl Memory {
    /// Sets the fate of the n-th connection, from 1.
    pub fn set(&self, conn: usize, fate: Fate) {
        self.0.lock().unwrap().wires[conn - 1].set(fate);
    }

    /// Has new connections refused, or not.
    pub fn refuse(&self, refuses: bool) {
        self.0.lock().unwrap().refuses = refuses;
    }

    /// Has nobody listen any more.
    pub fn stop_listening(&self) {
        self.0.lock().unwrap().listener = None;
    }

    pub fn connections(&self) -> usize {
        self.0.lock().unwrap().wires.len()
    }
}

impl Connect for Memory {
    fn connect<'a>(&'a self, _: &'a Endpoint) -> BoxFuture<'a, io::Result<Stream>> {
        Box::pin(async {
            let mut inner = self.0.lock().unwrap();
            let wire = Arc::new(Wire::default());
            inner.wires.push(wire.clone());
            if inner.refuses {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let id = ConnId(inner.wires.len() as u64);
            let (near, far) = tokio::io::duplex(64 * 1024);
            let far = Stream::new(End { io: far, wire: wire.clone() }, id);
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
            self.0.lock().unwrap().listener = Some(sender);
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
