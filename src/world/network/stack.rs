//! The parts of an engine that the network uses: the kernels of the hosts, and their sockets.
//!
//! Both engines represent segments as packets of `turmoil_net`. The network's faults and history
//! refer to these packets.

use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite};
use turmoil_net::Packet;

use crate::net::BoxFuture;
use crate::subject::Root;
use crate::world::thread::HostIx;

use super::timeline::Clock;

/// The hosts' kernels and the clock. Runs no product code.
pub(in crate::world) trait Stack {
    /// Returns the clock of the engine.
    fn clock(&self) -> Clock;

    /// Sets the host whose sockets are used now. Between polls, this is the host `unused`.
    fn set_current(&self, host: HostIx);

    /// Moves the packets that the hosts' kernels have sent since the last call into `packets`, in
    /// order.
    fn egress(&mut self, packets: &mut Vec<Packet>);

    /// Delivers a segment to the kernel of its receiver. `held` is whether that end has a user, or
    /// can still get one.
    fn deliver(&mut self, packet: Packet, held: bool) -> DeliveryResult;

    /// Delivers an RST to the kernel of its receiver, which forgets the connection.
    fn reset(&mut self, rst: Packet);

    /// Takes back the bytes that were delivered to the kernel of `to` but have not yet reached the
    /// socket of the connection between `from` and `to`.
    fn take_back(&mut self, from: SocketAddr, to: SocketAddr) -> Vec<Bytes>;

    /// Opens a connection from the current host. The first poll starts it.
    fn connect(&self, to: SocketAddr) -> BoxFuture<'static, io::Result<Box<dyn RawSocket>>>;

    /// Listens on a port of the current host, on all its addresses.
    fn bind(&self, port: u16) -> io::Result<Box<dyn RawListener>>;

    /// Starts the root of a host.
    fn start(&mut self, host: HostIx, root: Root);

    /// Stops the root of a host, and drops it soon, at a time when the world is not borrowed.
    fn stop(&mut self, host: HostIx);

    /// Asks whether a task may panic now. If the answer is `false`, the machine cannot continue
    /// after a panic, and ends the run with an error instead.
    fn request_panic(&mut self) -> bool {
        true
    }

    /// Returns the sockets that belong to no host, if the engine can detect them.
    fn unowned_resources(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The result of delivering a segment to a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::world) enum DeliveryResult {
    /// The kernel accepted the segment.
    Taken,
    /// The socket is closed. The sender must get an RST.
    Closed,
    /// The kernel accepts only whole segments, and this one was shortened. The world passes the
    /// remaining bytes to the reader directly.
    Part(Bytes),
}

/// A socket of an engine.
pub(in crate::world) trait RawSocket:
    AsyncRead + AsyncWrite + Send + Unpin
{
    /// Takes the bytes that have arrived, without waiting.
    fn drain(&mut self, into: &mut BytesMut);

    /// Wakes the tasks that wait for the socket, if an RST to the kernel does not wake them.
    fn wake(&mut self) {}
}

/// A listening socket of an engine.
pub(in crate::world) trait RawListener: Send {
    /// Accepts the next connection.
    fn poll_accept(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<(Box<dyn RawSocket>, SocketAddr)>>;

    /// Returns the port.
    fn port(&self) -> u16;
}
