//! The world's access to `turmoil-net`: its sockets, and the kernels of all hosts.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use turmoil_net::shim::tokio::net::{TcpListener, TcpStream};
use turmoil_net::{EnterGuard, HostId, KernelConfig, Net, NetstatEntry, Packet};

use crate::net::BoxFuture;
use crate::schedule::Host;
use crate::subject::Root;
use crate::world::network::stack::{DeliveryResult, RawListener, RawSocket, Stack};
use crate::world::network::timeline::Clock;
use crate::world::thread::{self, HostIx, UNUSED};

impl RawSocket for TcpStream {
    fn drain(&mut self, into: &mut BytesMut) {
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = self.try_read(&mut buffer) {
            into.extend_from_slice(&buffer[..n]);
        }
    }
}

/// A listening socket.
struct Binding {
    socket: TcpListener,
    port: u16,
}

impl RawListener for Binding {
    fn poll_accept(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<(Box<dyn RawSocket>, SocketAddr)>> {
        self.socket
            .poll_accept(cx)
            .map_ok(|(socket, peer)| (Box::new(socket) as Box<dyn RawSocket>, peer))
    }

    fn port(&self) -> u16 {
        self.port
    }
}

/// The kernels of all hosts, and tokio's clock.
pub(super) struct EventStack {
    net: EnterGuard,
    /// The ids of the hosts in `turmoil-net`, `unused` first.
    ids: Vec<HostId>,
    /// The address of `unused`.
    unused: IpAddr,
    /// The running roots of the hosts.
    roots: Vec<Option<JoinHandle<()>>>,
    started: Instant,
}

impl EventStack {
    /// Creates the kernels of these hosts. Their clock starts now. Must be called inside the
    /// runtime. Turns off the retransmission of `turmoil-net`, which counts passes.
    pub fn new(hosts: &[Host]) -> (Self, Vec<IpAddr>) {
        let mut net = Net::with_config(KernelConfig::default().retx_threshold(u32::MAX));
        let (ids, ips): (_, Vec<_>) = hosts
            .iter()
            .map(|host| (net.add_host(host.as_str()), net.lookup(host.as_str())))
            .unzip();
        let roots = hosts.iter().map(|_| None).collect();
        (Self { net: net.enter(), ids, unused: ips[UNUSED.0], roots, started: Instant::now() }, ips)
    }
}

impl Stack for EventStack {
    fn clock(&self) -> Clock {
        let started = self.started;
        Box::new(move || Instant::now() - started)
    }

    fn set_current(&self, host: HostIx) {
        turmoil_net::set_current(self.ids[host.0]);
    }

    fn egress(&mut self, packets: &mut Vec<Packet>) {
        self.net.egress_all(packets);
    }

    fn deliver(&mut self, packet: Packet, _: bool) -> DeliveryResult {
        self.net.deliver(packet);
        DeliveryResult::Taken
    }

    fn reset(&mut self, rst: Packet) {
        self.net.deliver(rst);
    }

    fn take_back(&mut self, _: SocketAddr, _: SocketAddr) -> Vec<Bytes> {
        Vec::new()
    }

    fn connect(&self, to: SocketAddr) -> BoxFuture<'static, io::Result<Box<dyn RawSocket>>> {
        Box::pin(async move { Ok(Box::new(TcpStream::connect(to).await?) as Box<dyn RawSocket>) })
    }

    fn bind(&self, port: u16) -> io::Result<Box<dyn RawListener>> {
        // The stack's `bind` never waits, although it is async.
        let mut bound = std::pin::pin!(TcpListener::bind(("0.0.0.0", port)));
        let Poll::Ready(socket) = bound.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        let socket = socket?;
        let port = socket.local_addr()?.port();
        Ok(Box::new(Binding { socket, port }))
    }

    fn start(&mut self, host: HostIx, root: Root) {
        self.roots[host.0] = Some(thread::as_host(host, || tokio::spawn(root)));
    }

    fn stop(&mut self, host: HostIx) {
        if let Some(root) = self.roots[host.0].take() {
            root.abort();
        }
    }

    fn unowned_resources(&self) -> Vec<String> {
        let describe = |entry: NetstatEntry| match entry.peer {
            Some(peer) => format!("a socket, {} to {peer}", entry.local),
            None => format!("a socket that listens at {}", entry.local),
        };
        turmoil_net::netstat(self.unused).entries.into_iter().map(describe).collect()
    }
}
