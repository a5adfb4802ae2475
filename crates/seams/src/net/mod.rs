//! Connections: the replacement of `tokio::net` for product code.
//!
//! Product code receives a [`Network`] and asks it for a [`Stream`] ([`connect`](Connect::connect))
//! or a [`Listener`] ([`Network::listen`]). On a real machine that is [`System`]; in a world it is the
//! world's own network, which knows the host that it was made for. All layers above a byte stream
//! (WebSocket, HTTP, lines) are the real code in both.
//!
//! - [`Endpoint`]: the address to connect to, or to listen at.
//! - [`Stream`]: one connection. Implements tokio's [`AsyncRead`] and [`AsyncWrite`].
//! - [`System`]: the implementation with tokio. `memory`: a network for unit tests, behind its own
//!   feature. `UnixSockets`: unix sockets in memory, for simulations (feature `sim`) and unit tests
//!   (feature `memory`).
//!
//! Not supported: name resolution (the network resolves the host of an endpoint), TLS, datagrams.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

#[cfg(any(feature = "memory", feature = "sim"))]
mod local;
#[cfg(feature = "memory")]
pub mod memory;
mod system;
#[cfg(unix)]
mod unix;

#[cfg(any(feature = "memory", feature = "sim"))]
pub use local::UnixSockets;
pub use system::System;

/// A future that a seam returns: boxed, so that the seams stay object-safe and product code needs
/// no type parameter.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The address to connect to, or to listen at, and optionally the purpose of the connection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    address: Address,
    label: Option<&'static str>,
}

/// The address of an [`Endpoint`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// A TCP port of a host.
    Tcp {
        /// The name or address of the host.
        host: String,
        /// The port.
        port: u16,
    },
    /// A unix socket: the path of its file, on this machine.
    Unix(PathBuf),
}

impl Endpoint {
    /// Creates a TCP endpoint: `Endpoint::tcp("server", 80)`.
    pub fn tcp(host: impl Into<String>, port: u16) -> Self {
        Self { address: Address::Tcp { host: host.into(), port }, label: None }
    }

    /// Creates an endpoint that is a unix socket: `Endpoint::unix("/run/broker.sock")`. The system
    /// limits the length of the path, on Linux to 107 bytes.
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self { address: Address::Unix(path.into()), label: None }
    }

    /// Sets the purpose of connections to this endpoint, for clients that open several kinds: a
    /// schedule then names them `client/status#3`. The label is not transmitted.
    pub fn labelled(mut self, label: &'static str) -> Self {
        self.label = Some(label);
        self
    }

    /// Returns the address.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Returns the name or address of the host; `None` for a unix socket.
    pub fn host(&self) -> Option<&str> {
        match &self.address {
            Address::Tcp { host, .. } => Some(host),
            Address::Unix(_) => None,
        }
    }

    /// Returns the port; `None` for a unix socket.
    pub fn port(&self) -> Option<u16> {
        match &self.address {
            Address::Tcp { port, .. } => Some(*port),
            Address::Unix(_) => None,
        }
    }

    /// Returns the path of a unix socket; `None` for TCP.
    pub fn path(&self) -> Option<&Path> {
        match &self.address {
            Address::Tcp { .. } => None,
            Address::Unix(path) => Some(path),
        }
    }

    /// Returns the purpose of connections to it, if one was set.
    pub fn label(&self) -> Option<&'static str> {
        self.label
    }
}

/// `host:port`, or `unix:path`.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            Address::Tcp { host, port } => write!(f, "{host}:{port}"),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Opens connections.
pub trait Connect: Send + Sync {
    /// Opens a connection to `to`.
    ///
    /// # Errors
    /// The errors of `connect(2)`: `ConnectionRefused` without a listener, `TimedOut` without an
    /// answer, `NotFound` without the file of a unix socket, and so on. `Unsupported` if the network
    /// has no such addresses.
    fn connect<'a>(&'a self, to: &'a Endpoint) -> BoxFuture<'a, io::Result<Stream>>;
}

/// Accepts the connections to one endpoint. Dropping it closes the endpoint, and resets connections
/// that were not accepted yet.
pub trait Accept: Send {
    /// Waits for the next connection.
    ///
    /// Cancellation safe: dropping the future loses no connection.
    ///
    /// # Errors
    /// The errors of `accept(2)`; a server treats them as temporary.
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Stream>>;

    /// Returns the endpoint at which it listens, with the actual port if port 0 was requested.
    fn endpoint(&self) -> Endpoint;
}

/// A listener of any network.
pub type Listener = Box<dyn Accept>;

/// A network as one host sees it.
pub trait Network: Connect {
    /// Listens at `at`; port 0 selects any free port.
    ///
    /// The file of a unix socket is created for its owner only (mode 0600). The listener removes
    /// its own file when it is dropped. A file that is left behind by a killed program makes the
    /// address busy; the caller knows whether that program is dead, and removes the file.
    ///
    /// # Errors
    /// The errors of `bind(2)`: `AddrInUse`, `AddrNotAvailable`, `PermissionDenied`. `Unsupported`
    /// if the network has no such addresses.
    fn listen<'a>(&'a self, at: &'a Endpoint) -> BoxFuture<'a, io::Result<Listener>>;
}

/// The network that product code receives.
pub type Net = Arc<dyn Network>;

/// The number of a connection within one process, from 1; for milestones and logs. In a world, both
/// ends of a connection have the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

impl fmt::Display for ConnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The requirements for the inner type of a [`Stream`].
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// One connection: bytes in both directions, in order.
///
/// Dropping it closes the connection: with a FIN if all received data was read, with an RST
/// otherwise.
pub struct Stream {
    io: Box<dyn Io>,
    id: ConnId,
    peer: Option<IpAddr>,
}

impl Stream {
    /// Creates a stream from `io`, with the number `id`.
    pub fn new(io: impl Io + 'static, id: ConnId) -> Self {
        Self { io: Box::new(io), id, peer: None }
    }

    /// Sets the address of the host that opened the connection.
    pub fn opened_by(self, peer: IpAddr) -> Self {
        Self { peer: Some(peer), ..self }
    }

    /// Returns the address of the host that opened the connection, at the end that accepted it;
    /// `None` at the other end, and if the network has no addresses.
    pub fn peer(&self) -> Option<IpAddr> {
        self.peer
    }

    /// Returns the connection's number in milestones and logs.
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
