//! The world's access to turmoil. Orders are stored here, and run between two ticks, when the world
//! is not borrowed.

use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use turmoil_net::Packet;

use crate::net::BoxFuture;
use crate::subject::Root;
use crate::world::network::stack::{DeliveryResult, RawListener, RawSocket, Stack};
use crate::world::network::timeline::Clock;
use crate::world::thread::HostIx;

use super::links::Links;
use super::socket;

/// The state that the machine and the stack share.
#[derive(Default)]
pub(super) struct Shared {
    /// The total time of the finished ticks.
    pub passed: Duration,
    pub orders: Vec<MachineOrder>,
    pub links: Links,
    /// Whether each host runs, by number, and the address of each host.
    pub up: Vec<bool>,
    pub ips: Vec<IpAddr>,
    /// Whether a task needs to panic.
    pub needs_panic: bool,
}

/// An order that the machine runs as soon as the world is not borrowed.
pub(super) enum MachineOrder {
    Start(HostIx, Root),
    Stop(HostIx),
}

/// The kernels of turmoil's hosts, as far as turmoil gives access to them.
pub(super) struct TickStack(pub Rc<RefCell<Shared>>);

impl Stack for TickStack {
    fn clock(&self) -> Clock {
        let shared = self.0.clone();
        Box::new(move || shared.borrow().passed)
    }

    /// Does nothing: turmoil knows which host's runtime it runs.
    fn set_current(&self, _: HostIx) {}

    fn egress(&mut self, packets: &mut Vec<Packet>) {
        packets.append(&mut self.0.borrow_mut().links.new);
    }

    fn deliver(&mut self, packet: Packet, held: bool) -> DeliveryResult {
        let mut shared = self.0.borrow_mut();
        let up =
            shared.ips.iter().position(|ip| *ip == packet.dst).is_some_and(|host| shared.up[host]);
        match (up, held) {
            (true, true) => shared.links.mark(&packet),
            (false, true) => DeliveryResult::Closed,
            // For a FIN to a closed socket, turmoil would send an RST.
            (_, false) => DeliveryResult::Taken,
        }
    }

    /// Does nothing: the world's end of the connection has its error, so turmoil's socket is no
    /// longer used.
    fn reset(&mut self, _: Packet) {}

    fn take_back(&mut self, from: SocketAddr, to: SocketAddr) -> Vec<Bytes> {
        self.0.borrow_mut().links.take_back(from, to)
    }

    fn connect(&self, to: SocketAddr) -> BoxFuture<'static, io::Result<Box<dyn RawSocket>>> {
        Box::pin(socket::ConnectAttempt::new(to))
    }

    fn bind(&self, port: u16) -> io::Result<Box<dyn RawListener>> {
        Ok(Box::new(socket::Binding::new(port)?))
    }

    fn start(&mut self, host: HostIx, root: Root) {
        let mut shared = self.0.borrow_mut();
        shared.up[host.0] = true;
        shared.orders.push(MachineOrder::Start(host, root));
    }

    fn stop(&mut self, host: HostIx) {
        let mut shared = self.0.borrow_mut();
        if std::mem::replace(&mut shared.up[host.0], false) {
            shared.orders.push(MachineOrder::Stop(host));
        }
    }

    /// A panic shuts the runtime of its host down. While tokio does that, it aborts the process if
    /// it drops a `JoinSet` with two running tasks.
    fn request_panic(&mut self) -> bool {
        self.0.borrow_mut().needs_panic = true;
        false
    }
}
