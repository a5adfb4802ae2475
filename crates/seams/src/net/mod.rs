//! Connections: what product code uses in the place of `tokio::net`.
//!
//! Product code takes a [`Network`] from outside and asks it for a [`Stream`] ([`connect`](Connect::connect)) or a
//! [`Listener`] ([`Network::listen`]). On a real machine that is [`Tcp`]; in a world it is the world's own network, which
//! knows the host that it was made for. Everything above a byte stream (WebSocket, HTTP, lines) runs for real in both.
//!
//! - [`Endpoint`]: where to connect to, or to listen at.
//! - [`Stream`]: one connection. Implements tokio's [`AsyncRead`] and [`AsyncWrite`].
//! - [`Tcp`]: tokio's side. `memory`: a network for unit tests, behind a feature of its own.
//!
//! What it does not do: name resolution (an endpoint's host is resolved by the network it is given to), TLS, datagrams.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

#[cfg(feature = "memory")]
pub mod memory;
mod tcp;

pub use tcp::Tcp;

/// A future that a seam hands out: boxed, so that the seams stay object-safe and product code needs no type parameter.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Where to connect to, or to listen at: a host's name or address with a port, and optionally what the connection is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    host: String,
    port: u16,
    label: Option<&'static str>,
}

impl Endpoint {
    /// A TCP endpoint: `Endpoint::tcp("server", 80)`.
    pub fn tcp(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port, label: None }
    }

    /// Says what connections to this endpoint are for, where a client opens several kinds: a schedule then names them
    /// `client/status#3`. Nothing of it is sent.
    pub fn labelled(mut self, label: &'static str) -> Self {
        self.label = Some(label);
        self
    }

    /// The host's name or address.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What connections to it are for, if it was said.
    pub fn label(&self) -> Option<&'static str> {
        self.label
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Opens and accepts connections.
pub trait Connect: Send + Sync {
    /// Opens a connection to `to`.
    ///
    /// # Errors
    /// Those of `connect(2)`: `ConnectionRefused` where nobody listens, `TimedOut` where nobody answers, and so on.
    fn connect<'a>(&'a self, to: &'a Endpoint) -> BoxFuture<'a, io::Result<Stream>>;
}

/// Takes the connections that others open to one endpoint. Dropping it closes the endpoint, and resets what was not yet
/// accepted.
pub trait Accept: Send {
    /// Waits for the next connection.
    ///
    /// Dropping the future loses no connection.
    ///
    /// # Errors
    /// Those of `accept(2)`; a server treats them as passing.
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Stream>>;

    /// The endpoint it listens at, with the port it was given where it asked for port 0.
    fn endpoint(&self) -> Endpoint;
}

/// A listener of whatever kind of network.
pub type Listener = Box<dyn Accept>;

/// A network as one host sees it.
pub trait Network: Connect {
    /// Listens at `at`; port 0 asks for any free one.
    ///
    /// # Errors
    /// Those of `bind(2)`: `AddrInUse`, `AddrNotAvailable`, `PermissionDenied`.
    fn listen<'a>(&'a self, at: &'a Endpoint) -> BoxFuture<'a, io::Result<Listener>>;
}

/// The network that product code is given.
pub type Net = Arc<dyn Network>;

/// A number that tells the connections of one process apart, from 1; for milestones and logs. In a world both ends of a
/// connection have the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

impl fmt::Display for ConnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a [`Stream`] is made of.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// One connection: bytes in both directions, in order.
///
/// Dropping it closes the connection: with a FIN where all that had arrived was read, with an RST otherwise.
pub struct Stream {
    io: Box<dyn Io>,
    id: ConnId,
}

impl Stream {
    /// A stream of `io`, known by `id`.
    pub fn new(io: impl Io + 'static, id: ConnId) -> Self {
        Self { io: Box::new(io), id }
    }

    /// The number that milestones and logs know it by.
    pub fn id(&self) -> ConnId {
        self.id
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("id", &self.id).finish_non_exhaustive()
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
