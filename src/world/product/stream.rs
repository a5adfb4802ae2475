//! The world's side of [`net`](crate::net): streams, listeners and connectors that are bound to
//! their host.
//!
//! Each of them sets the current host of the socket stack around every poll *and* in its drop, so
//! that a socket works correctly in any task. Between polls the current host is `unused`.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::history::{ConnEnd, ConnIndex, Side};
use crate::net::{
    Accept, Address, BoxFuture, ConnId, Connect, Endpoint, Listener, Network, Stream, UnixSockets,
};

use crate::world::local;
use crate::world::network::conns::{PendingConnect, SharedEnd};
use crate::world::network::stack::{RawListener, RawSocket};
use crate::world::product::machine::{self, Counted};
use crate::world::product::tampering::TamperedBytes;
use crate::world::thread::{self, HostIx, UNUSED};

/// The number of unread bytes from which a read may require a window update.
const NEARLY_FULL: u64 = 60 * 1024;

/// Sets the current host of the socket stack, until it is dropped.
struct OnHost;

impl OnHost {
    fn new(host: HostIx) -> Self {
        local::with(|world| world.net.stack.set_current(host));
        OnHost
    }
}

impl Drop for OnHost {
    fn drop(&mut self) {
        local::try_with(|world| world.net.stack.set_current(UNUSED));
    }
}

/// The network as seen from one process of a host.
pub(in crate::world) struct WorldNet {
    pub host: HostIx,
    pub unix: UnixSockets,
}

impl WorldNet {
    /// Resolves a TCP endpoint to a host of the world and an address.
    fn resolve(&self, to: &Endpoint) -> io::Result<(HostIx, SocketAddr)> {
        let Address::Tcp { host: name, port } = to.address() else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        local::with(|world| {
            let by_name = world.net.directory.named(&name.as_str().into());
            let by_address = || name.parse().ok().and_then(|ip| world.net.directory.at(ip));
            let host = match name.as_str() {
                "localhost" | "127.0.0.1" | "0.0.0.0" => Some(self.host),
                _ => by_name.or_else(by_address),
            };
            let host = host.ok_or_else(|| {
                io::Error::new(io::ErrorKind::NotFound, format!("there is no host `{name}`"))
            })?;
            Ok((host, SocketAddr::new(world.net.directory.ip(host), *port)))
        })
    }
}

impl Connect for WorldNet {
    fn connect<'a>(&'a self, to: &'a Endpoint) -> BoxFuture<'a, io::Result<Stream>> {
        Box::pin(async move {
            if to.path().is_some() {
                return Ok(machine::counted(self.host, self.unix.connect(to).await?));
            }
            let (server, at) = self.resolve(to)?;
            if server == self.host {
                return Err(io::Error::new(
                    io::ErrorKind::Unsupported,
                    "a host cannot connect to itself",
                ));
            }
            let end = SharedEnd::new();
            let opening =
                PendingConnect { to: (server, at.port()), label: to.label(), end: end.clone() };
            let socket = local::with(|world| world.net.stack.connect(at));
            Connecting { host: self.host, socket: Some(socket), opening: Some(opening), end }.await
        })
    }
}

/// A connection that is being opened.
struct Connecting {
    host: HostIx,
    /// `None` after the attempt has finished.
    socket: Option<BoxFuture<'static, io::Result<Box<dyn RawSocket>>>>,
    /// The attempt, which is registered in the world before the first poll, because that poll sends
    /// the SYN.
    opening: Option<PendingConnect>,
    end: SharedEnd,
}

impl Future for Connecting {
    type Output = io::Result<Stream>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let first = this.opening.is_some();
        if let Some(opening) = this.opening.take() {
            local::with(|world| world.net.opening.push((this.host, opening)));
        }
        let failed = this.end.lock().error;
        let result = match failed {
            Some(kind) => Err(kind.into()),
            None => {
                let _on_host = OnHost::new(this.host);
                let socket = this.socket.as_mut().expect("a connection is opened once");
                let Poll::Ready(result) = socket.as_mut().poll(cx) else {
                    this.end.lock().opener = Some(cx.waker().clone());
                    return Poll::Pending;
                };
                result
            }
        };
        {
            let _on_host = OnHost::new(this.host);
            this.socket = None;
        }
        let conn = {
            let mut end = this.end.lock();
            end.opener = None;
            end.conn
        };
        Poll::Ready(match result {
            Ok(socket) => {
                let conn = conn.expect("a connection that is up was opened");
                Ok(WorldStream::attach(this.host, conn, Side::Client, this.end.clone(), socket))
            }
            Err(error) => {
                let kind = this.end.lock().error.unwrap_or(error.kind());
                local::with(|world| match conn {
                    Some(conn) => world.net.not_opened(conn, kind),
                    None if first => {
                        world.net.opening.retain(|(_, opening)| !opening.end.is(&this.end))
                    }
                    None => {}
                });
                Err(kind.into())
            }
        })
    }
}

impl Drop for Connecting {
    fn drop(&mut self) {
        let Some(socket) = self.socket.take() else { return };
        if local::try_with(|_| ()).is_none() {
            return;
        }
        {
            let _on_host = OnHost::new(self.host);
            drop(socket);
        }
        let mut end = self.end.lock();
        (end.dropped, end.opener) = (true, None);
        let conn = end.conn;
        drop(end);
        if let Some(conn) = conn {
            local::with(|world| world.net.record_conn_end(conn, Side::Client, ConnEnd::Closed));
        }
    }
}

impl Network for WorldNet {
    fn listen<'a>(&'a self, at: &'a Endpoint) -> BoxFuture<'a, io::Result<Listener>> {
        Box::pin(async move {
            if at.path().is_some() {
                let listener = self.unix.listen(at).await?;
                return Ok(Box::new(Counted::new(self.host, listener)) as Listener);
            }
            let (host, address) = self.resolve(at)?;
            if host != self.host {
                return Err(io::ErrorKind::AddrNotAvailable.into());
            }
            let bind = || {
                let _on_host = OnHost::new(self.host);
                local::with(|world| world.net.stack.bind(address.port()))
            };
            let binding = match bind() {
                // Linux lets a server listen again while its old connections are still closing. The
                // stack does not.
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    local::with(|world| world.net.forget_orphans(self.host, address.port()));
                    // The stack removes the forgotten connections at the end of this turn.
                    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                    bind()?
                }
                bound => bound?,
            };
            local::with(|world| world.hosts.get_mut(self.host).sockets += 1);
            let host = at.host().map(str::to_owned).unwrap_or_else(|| address.ip().to_string());
            let port = binding.port();
            Ok(Box::new(Listening {
                host: self.host,
                binding: Some(binding),
                at: Endpoint::tcp(host, port),
                port,
            }) as Listener)
        })
    }
}

struct Listening {
    host: HostIx,
    /// `None` only while it is dropped.
    binding: Option<Box<dyn RawListener>>,
    at: Endpoint,
    /// The port of `at`.
    port: u16,
}

impl Accept for Listening {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Stream>> {
        Box::pin(std::future::poll_fn(|cx| {
            let accepted = {
                let _on_host = OnHost::new(self.host);
                self.binding
                    .as_mut()
                    .expect("a listener has its socket until it is dropped")
                    .poll_accept(cx)
            };
            let (socket, peer) = std::task::ready!(accepted)?;
            let host = self.host;
            let (conn, end) = local::with(|world| {
                let from = world.net.directory.at(peer.ip()).map(|client| (client, peer.port()));
                let found =
                    from.and_then(|from| world.net.conns.of_segment(from, (host, self.port)));
                let (conn, _) = found.expect("who connects has sent a SYN");
                (conn, world.net.conns.get(conn).end(Side::Server).clone())
            });
            let stream = WorldStream::attach(host, conn, Side::Server, end, socket);
            Poll::Ready(Ok(stream.opened_by(peer.ip())))
        }))
    }

    fn endpoint(&self) -> Endpoint {
        self.at.clone()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if local::try_with(|world| world.hosts.get_mut(self.host).sockets -= 1).is_some() {
            let _on_host = OnHost::new(self.host);
            self.binding = None;
        }
    }
}

/// One end of a connection, as its user holds it.
struct WorldStream {
    host: HostIx,
    conn: ConnIndex,
    side: Side,
    end: SharedEnd,
    /// Whether the user has read the end of the stream.
    at_end: bool,
    /// Changes received messages, if a fault of the run may do so.
    tampering: Option<Box<TamperedBytes>>,
}

impl WorldStream {
    /// Attaches a socket to an end, and returns the stream for its user.
    fn attach(
        host: HostIx,
        conn: ConnIndex,
        side: Side,
        end: SharedEnd,
        socket: Box<dyn RawSocket>,
    ) -> Stream {
        {
            let mut end = end.lock();
            end.socket = Some(socket);
            end.early.clear();
        }
        let may_tamper = local::with(|world| {
            world.hosts.get_mut(host).sockets += 1;
            world.net.mark_established(conn, side);
            world.may_tamper
        });
        let tampering = may_tamper.then(|| Box::new(TamperedBytes::new(conn, side.other())));
        let stream = WorldStream { host, conn, side, end, at_end: false, tampering };
        Stream::new(stream, ConnId(conn.0 as u64 + 1))
    }

    fn note_end(&mut self) {
        if !self.at_end {
            self.at_end = true;
            local::with(|world| world.net.record_conn_end(self.conn, self.side, ConnEnd::Eof));
        }
    }

    /// Reads what the socket has received.
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut end = self.end.lock();
        if !end.saved.is_empty() {
            let n = end.saved.len().min(buf.remaining());
            buf.put_slice(&end.saved.split_to(n));
            return Poll::Ready(Ok(()));
        }
        if let Some(kind) = end.error {
            // Linux reports an error once, and then an end of stream. Readers do not see a broken
            // pipe.
            let reported = std::mem::replace(&mut end.reported, true);
            return Poll::Ready(if reported || kind == io::ErrorKind::BrokenPipe {
                Ok(())
            } else {
                Err(kind.into())
            });
        }
        let (filled, wanted) = (buf.filled().len(), buf.remaining());
        {
            let _on_host = OnHost::new(self.host);
            let socket = end.socket.as_mut().expect("a stream has its socket until it is dropped");
            std::task::ready!(Pin::new(socket).poll_read(cx, buf))?;
        }
        let n = (buf.filled().len() - filled) as u64;
        let was_full = end.received - end.read >= NEARLY_FULL;
        end.read += n;
        drop(end);
        if was_full {
            local::with(|world| world.net.receive_buffer_read(self.conn, self.side));
        }
        if n == 0 && wanted > 0 {
            self.note_end();
        }
        Poll::Ready(Ok(()))
    }

    /// Reads what the socket has received, after faults have changed it.
    fn poll_receive_tampered(
        &mut self,
        tampered: &mut TamperedBytes,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut space = [0; 4096];
        while buf.remaining() > 0 && !tampered.read(buf) {
            if let Some(end) = tampered.take_end() {
                return Poll::Ready(end);
            }
            let mut received = ReadBuf::new(&mut space);
            match std::task::ready!(self.poll_receive(cx, &mut received)) {
                Ok(()) if !received.filled().is_empty() => tampered.receive(received.filled()),
                end => tampered.ends(end),
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for WorldStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(mut tampered) = self.tampering.take() else { return self.poll_receive(cx, buf) };
        let polled = self.poll_receive_tampered(&mut tampered, cx, buf);
        self.tampering = Some(tampered);
        polled
    }
}

impl AsyncWrite for WorldStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut end = self.end.lock();
        if let Some(kind) = end.error {
            let reported = std::mem::replace(&mut end.reported, true);
            return Poll::Ready(
                Err(if reported { io::ErrorKind::BrokenPipe } else { kind }.into()),
            );
        }
        let most = local::with(|world| {
            world.net.deliver_deferred_ack(self.conn, self.side);
            world.net.may_write(self.conn, self.side)
        });
        if most == 0 && !buf.is_empty() {
            end.writer = Some(cx.waker().clone());
            end.is_blocked = true;
            return Poll::Pending;
        }
        let polled = {
            let _on_host = OnHost::new(self.host);
            let socket = end.socket.as_mut().expect("a stream has its socket until it is dropped");
            Pin::new(socket).poll_write(cx, &buf[..buf.len().min(most)])
        };
        let was_blocked = std::mem::replace(&mut end.is_blocked, polled.is_pending());
        drop(end);
        let written = std::task::ready!(polled)?;
        if was_blocked {
            local::with(|world| world.net.unblocked(self.conn, self.side));
        }
        wrote(self.conn, self.side, &buf[..written]);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut end = self.end.lock();
        if end.error.is_some() {
            return Poll::Ready(Ok(()));
        }
        local::with(|world| world.net.deliver_deferred_ack(self.conn, self.side));
        let _on_host = OnHost::new(self.host);
        let socket = end.socket.as_mut().expect("a stream has its socket until it is dropped");
        Pin::new(socket).poll_shutdown(cx)
    }
}

impl Drop for WorldStream {
    fn drop(&mut self) {
        if local::try_with(|world| world.hosts.get_mut(self.host).sockets -= 1).is_none() {
            return;
        }
        let mut end = self.end.lock();
        let is_open = end.error.is_none();
        let holds_bytes = self.tampering.as_ref().is_some_and(|bytes| bytes.has_unread());
        let unread = is_open && (end.received > end.read || holds_bytes);
        if is_open {
            local::with(|world| world.net.deliver_deferred_ack(self.conn, self.side));
        }
        {
            let _on_host = OnHost::new(self.host);
            let mut thrown_away = BytesMut::new();
            if let Some(mut socket) = end.socket.take() {
                socket.drain(&mut thrown_away);
            }
        }
        end.dropped = true;
        end.saved.clear();
        drop(end);
        // At the end of the run, the runtime drops the tasks in an arbitrary order. That order is
        // not part of the history.
        if !thread::is_recording() {
            return;
        }
        local::with(|world| {
            if unread {
                world.net.abort(self.conn, self.side);
            }
            world.net.stream_dropped(self.conn, self.side);
        });
    }
}

/// Handles bytes that the user of an end wrote. If the run counts messages, finds the ends of the
/// messages. The dissector is code of the subject, so it is called while the world is not borrowed.
fn wrote(conn: ConnIndex, from: Side, bytes: &[u8]) {
    let reading = local::with(|world| {
        let dissector = world.net.wrote(conn, from, bytes.len());
        world.dissects.then(|| (dissector, world.subject.clone()))
    });
    let Some((dissector, subject)) = reading else { return };
    let mut dissector = dissector.unwrap_or_else(|| subject.dissector(from));
    let found = dissector.feed(bytes);
    local::with(|world| world.net.read(conn, from, dissector, found));
}

/// Resets a connection from the end that holds `stream`, like a process that closes it with a
/// linger time of zero.
pub(in crate::world) fn reset_by_hand(stream: &Stream) {
    let host = thread::current();
    local::with(|world| {
        let Some(conn) = world.net.index_of(stream.id()) else { return };
        let Some(side) = world.net.conns.get(conn).side_on(host) else { return };
        world.net.send_reset(conn, side);
        world.net.kill(conn, side, io::ErrorKind::ConnectionReset);
    });
}
