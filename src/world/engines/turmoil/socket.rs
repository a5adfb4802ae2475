//! Adapts turmoil's sockets to the world.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use ::turmoil::net::{TcpListener, TcpStream};
use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::net::BoxFuture;
use crate::world::network::stack::{RawListener, RawSocket};

/// The largest segment, the same as in the event engine.
const SEGMENT: usize = 1_460;

/// A turmoil stream with the wakers of its tasks. The world needs them because it can end the
/// stream without turmoil.
struct Socket {
    stream: TcpStream,
    reader: Option<Waker>,
    writer: Option<Waker>,
    shut: bool,
}

impl Socket {
    fn boxed(stream: TcpStream) -> Box<dyn RawSocket> {
        Box::new(Self { stream, reader: None, writer: None, shut: false })
    }
}

impl RawSocket for Socket {
    fn drain(&mut self, into: &mut BytesMut) {
        let mut buffer = [0; 4096];
        loop {
            let mut read = ReadBuf::new(&mut buffer);
            let polled = Pin::new(&mut self.stream)
                .poll_read(&mut Context::from_waker(Waker::noop()), &mut read);
            if !matches!(polled, Poll::Ready(Ok(()))) || read.filled().is_empty() {
                return;
            }
            into.extend_from_slice(read.filled());
        }
    }

    fn wake(&mut self) {
        self.reader.take().into_iter().chain(self.writer.take()).for_each(Waker::wake);
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.reader = polled.is_pending().then(|| cx.waker().clone());
        polled
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, &buf[..buf.len().min(SEGMENT)]);
        self.writer = polled.is_pending().then(|| cx.waker().clone());
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if std::mem::replace(&mut self.shut, true) {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A connection attempt.
///
/// If it is dropped while pending, it is polled once more. A server may have accepted the
/// connection in the same tick. In that case the poll yields the stream, and dropping the stream
/// makes turmoil notify the server that the connection is over.
pub(super) struct ConnectAttempt {
    opening: BoxFuture<'static, io::Result<TcpStream>>,
    state: AttemptState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AttemptState {
    NotYet,
    Waits,
    Done,
}

impl ConnectAttempt {
    /// Creates a connection attempt from the host that polls it.
    pub fn new(to: SocketAddr) -> Self {
        Self { opening: Box::pin(TcpStream::connect(to)), state: AttemptState::NotYet }
    }
}

impl Future for ConnectAttempt {
    type Output = io::Result<Box<dyn RawSocket>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = self.opening.as_mut().poll(cx);
        self.state = if polled.is_ready() { AttemptState::Done } else { AttemptState::Waits };
        polled.map_ok(Socket::boxed)
    }
}

impl Drop for ConnectAttempt {
    fn drop(&mut self) {
        if self.state == AttemptState::Waits {
            drop(self.opening.as_mut().poll(&mut Context::from_waker(Waker::noop())));
        }
    }
}

/// A listening socket. It keeps the pending accept, so that a cancelled accept loses no connection.
pub(super) struct Binding {
    next: Option<BoxFuture<'static, io::Result<(TcpStream, SocketAddr)>>>,
    socket: Arc<TcpListener>,
    port: u16,
}

impl Binding {
    /// Listens on a port of the current host.
    pub fn new(port: u16) -> io::Result<Self> {
        // turmoil's `bind` never waits, although it is async.
        let mut bound = std::pin::pin!(TcpListener::bind(("0.0.0.0", port)));
        let Poll::Ready(socket) = bound.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        let socket = Arc::new(socket?);
        let port = socket.local_addr()?.port();
        Ok(Self { next: None, socket, port })
    }
}

impl RawListener for Binding {
    fn poll_accept(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<(Box<dyn RawSocket>, SocketAddr)>> {
        let socket = &self.socket;
        let next = self.next.get_or_insert_with(|| {
            let socket = socket.clone();
            Box::pin(async move { socket.accept().await })
        });
        let accepted = std::task::ready!(next.as_mut().poll(cx));
        self.next = None;
        Poll::Ready(accepted.map(|(stream, peer)| (Socket::boxed(stream), peer)))
    }

    fn port(&self) -> u16 {
        self.port
    }
}
