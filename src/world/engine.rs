//! What an engine is to a world: something that runs tasks of hosts, a clock, and the kernels of the hosts.
//!
//! The world itself is the same on both: hosts, connections, steps, faults, the link model, and the history. An engine is in two
//! parts, because nothing that runs product code may be inside the world: the [`Machine`] runs the hosts' tasks and lives beside
//! the world; the [`Stack`] is what the world can ask of the hosts' kernels, and lives in it.
//!
//! Segments are `turmoil_net`'s packets on both engines: the world's own notes, faults and history speak of them.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite};
use turmoil_net::Packet;

use crate::history::Time;
use crate::net::BoxFuture;
use crate::schedule::Host;
use crate::subject::Root;

use super::local::HostIx;
use super::{Engine, RunError, event, turmoil};

/// What runs the tasks of a world. Dropping it drops them.
pub(super) trait Machine {
    /// The hosts' kernels and the clock, for hosts of these names, and the hosts' addresses. Is asked for once.
    fn stack(&mut self, hosts: &[Host]) -> (Box<dyn Stack>, Vec<IpAddr>);

    /// Runs the world that is entered on this thread until `until`, and to its end, with its last words.
    ///
    /// # Errors
    /// If the engine itself gives up. What goes wrong with the subject is in the history.
    fn drive(&mut self, until: Time) -> Result<(), RunError>;
}

/// The machine of an engine.
pub(super) fn machine(engine: Engine, seed: u64) -> Result<Box<dyn Machine>, RunError> {
    Ok(match engine {
        Engine::Event => Box::new(
            event::EventMachine::new(seed).map_err(|error| RunError::Runtime(error.to_string()))?,
        ),
        Engine::Turmoil(tick) => Box::new(turmoil::TickMachine::new(seed, tick)),
    })
}

/// The hosts' kernels, and the clock. Runs no product code.
pub(super) trait Stack {
    /// How much virtual time has passed.
    fn passed(&self) -> Duration;

    /// Makes a host the one whose sockets are touched; between polls that is `nobody`.
    fn set_current(&self, host: HostIx);

    /// Takes what the hosts' kernels sent since it was asked last, in order, into `packets`.
    fn egress(&mut self, packets: &mut Vec<Packet>);

    /// Hands a segment to the kernel of its receiver; `held` is whether anybody there holds that end, or may still come to.
    fn deliver(&mut self, packet: Packet, held: bool) -> Handed;

    /// Hands an RST to the kernel of its receiver, which forgets the connection.
    fn reset(&mut self, rst: Packet);

    /// Takes back the bytes that were handed to the kernel of `to` and have not reached the socket of `from` and `to` yet.
    fn take_back(&mut self, from: SocketAddr, to: SocketAddr) -> Vec<Bytes>;

    /// Opens a connection from the current host, with the first poll.
    fn connect(&self, to: SocketAddr) -> BoxFuture<'static, io::Result<Box<dyn RawSocket>>>;

    /// Listens at a port of the current host, on all its addresses.
    fn bind(&self, port: u16) -> io::Result<Box<dyn RawListener>>;

    /// Starts the root of a host.
    fn start(&mut self, host: HostIx, root: Root);

    /// Stops the root of a host, and drops it: soon, and not while the world is held.
    fn stop(&mut self, host: HostIx);

    /// The sockets that belong to no host, as far as the engine can tell.
    fn strays(&self) -> Vec<String> {
        Vec::new()
    }
}

/// What a kernel did with a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Handed {
    /// It took it.
    Taken,
    /// There is nobody to take it: its sender is to be told so.
    Closed,
    /// It can take the segment whole or not at all: what is left of it goes to the reader by another way.
    Part(Bytes),
}

/// A socket of an engine.
pub(super) trait RawSocket: AsyncRead + AsyncWrite + Send + Unpin {
    /// Takes what has arrived, and waits for nothing.
    fn drain(&mut self, into: &mut BytesMut);

    /// Wakes whoever waits for it, where handing an RST to the kernel does not.
    fn wake(&mut self) {}
}

/// A listening socket of an engine.
pub(super) trait RawListener: Send {
    /// Takes the next connection.
    fn poll_accept(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<(Box<dyn RawSocket>, SocketAddr)>>;

    /// The port.
    fn port(&self) -> u16;
}
