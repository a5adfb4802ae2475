//! How an end of a connection dies, closes, or is answered for. In these cases the network corrects
//! the simulated kernel to match Linux:
//!
//! - The simulated kernel discards delivered but unread bytes on a reset. The network rescues them
//!   first ([`SimNet::kill`]).
//! - The simulated kernel discards bytes that a process wrote before it dropped a stream with
//!   unread bytes. The network sends them first ([`SimNet::abort`]).
//! - In the simulated kernel, a restarted host cannot bind a port whose old connections are still
//!   closing. In the network it can ([`SimNet::forget_orphans`]).
//! - A middlebox can answer instead of a server ([`SimNet::refuse`], [`SimNet::accept_and_close`]).

use std::io::ErrorKind;
use std::net::SocketAddr;

use bytes::Bytes;
use turmoil_net::{Packet, TcpFlags, TcpSegment, Transport};

use crate::history::{ConnEnd, ConnIndex, Side};
use crate::world::thread::{HostIx, UNUSED};

use super::SimNet;

impl SimNet {
    /// Ends one end of a connection with an error, and makes its kernel forget the connection. The
    /// user can still read the bytes that had arrived.
    pub fn kill(&mut self, conn: ConnIndex, side: Side, kind: ErrorKind) {
        let state = self.conns.get(conn);
        // As on Linux: in CLOSE_WAIT, writers see a reset as a broken pipe, and readers do not see
        // it.
        let finished = state.directions[side.other() as usize].finished;
        let kind = if finished { ErrorKind::BrokenPipe } else { kind };
        let fresh = state.end(side).lock().error.is_none();
        if fresh {
            self.save_received(conn, side, &[]);
            let mut end = self.conns.get(conn).end(side).lock();
            end.error = Some(kind);
            end.wake();
        }
        self.reset_kernel(conn, side);
        if fresh {
            self.record_conn_end(conn, side, ConnEnd::Error(kind));
        }
    }

    /// Takes the bytes that arrived at an end out of its kernel, and appends `more`. The user reads
    /// them before the error.
    pub fn save_received(&mut self, conn: ConnIndex, side: Side, more: &[u8]) {
        let (from, to) = (self.address(conn, side.other()), self.address(conn, side));
        let late = self.stack.take_back(from, to);
        let state = self.conns.get(conn);
        let mut end = state.end(side).lock();
        let end = &mut *end;
        let before = end.saved.len();
        let early = std::mem::take(&mut end.early);
        end.saved.extend_from_slice(&early);
        if let Some(socket) = &mut end.socket {
            self.stack.set_current(state.host(side));
            socket.drain(&mut end.saved);
            self.stack.set_current(UNUSED);
        }
        late.iter().for_each(|bytes| end.saved.extend_from_slice(bytes));
        end.saved.extend_from_slice(more);
        end.read += (end.saved.len() - before) as u64;
        if !more.is_empty() {
            end.wake();
        }
    }

    /// Handles that a connection could not be opened, or was reset during its handshake.
    pub fn not_opened(&mut self, conn: ConnIndex, kind: ErrorKind) {
        self.conns.get_mut(conn).end(Side::Client).lock().dropped = true;
        self.record_conn_end(conn, Side::Client, ConnEnd::NotOpened(kind));
        // The server's end is never notified, unless the server has accepted the connection.
        let far = self.conns.get(conn).end(Side::Server).lock();
        let accepted = far.socket.is_some() || far.dropped;
        drop(far);
        if !accepted {
            self.record_conn_end(conn, Side::Server, ConnEnd::NotOpened(kind));
        }
    }

    /// Handles that the user of an end dropped its stream.
    pub fn stream_dropped(&mut self, conn: ConnIndex, side: Side) {
        self.record_conn_end(conn, side, ConnEnd::Closed);
        self.purge_if_over(conn);
    }

    /// Handles that the user of an end dropped its stream with unread bytes: an RST ends the
    /// connection, after the data that the user had written.
    ///
    /// The stack would discard data that was written in the same turn. On Linux that data has
    /// already left.
    pub fn abort(&mut self, conn: ConnIndex, side: Side) {
        self.conns.get_mut(conn).from(side).aborts = true;
        self.aborting.push((conn, side));
    }

    pub fn abort_connections(&mut self) {
        for (conn, side) in std::mem::take(&mut self.aborting) {
            self.send_reset(conn, side);
            self.reset_kernel(conn, side);
        }
    }

    /// Cleans up a connection that was cut: the kernels of ends whose streams were dropped forget
    /// it, because no close can arrive any more.
    pub fn purge_if_over(&mut self, conn: ConnIndex) {
        if !self.conns.get(conn).dead {
            return;
        }
        for side in [Side::Client, Side::Server] {
            if self.conns.get(conn).end(side).lock().dropped {
                self.reset_kernel(conn, side);
            }
        }
    }

    /// Delivers an RST to the kernel of an end, so that it forgets the connection.
    ///
    /// Does nothing at a server's end that was never established. That end is removed with its
    /// listener. An RST would make the stack create a socket that cannot be closed and that keeps
    /// the port occupied.
    pub fn reset_kernel(&mut self, conn: ConnIndex, side: Side) {
        if side == Side::Server && !self.conns.get(conn).is_up(Side::Server) {
            return;
        }
        let rst = self.make(conn, side.other(), |_| TcpFlags { rst: true, ..TcpFlags::default() });
        let rst = self.packet(conn, side.other(), rst);
        self.stack.reset(rst);
    }

    /// Returns the address and port of an end.
    pub fn address(&self, conn: ConnIndex, side: Side) -> SocketAddr {
        let state = self.conns.get(conn);
        SocketAddr::new(self.directory.ip(state.host(side)), state.port(side))
    }

    /// Sends an RST from an end, after the segments that it has already sent.
    pub fn send_reset(&mut self, conn: ConnIndex, from: Side) {
        self.conns.get_mut(conn).from(from).unsent.clear();
        let rst =
            self.make(conn, from, |_| TcpFlags { rst: true, ack: true, ..TcpFlags::default() });
        self.send(conn, from, rst);
    }

    /// Wraps a segment of an end in a packet, as a kernel sends it.
    pub fn packet(&self, conn: ConnIndex, from: Side, tcp: TcpSegment) -> Packet {
        let [src, dst] =
            [from, from.other()].map(|side| self.directory.ip(self.conns.get(conn).host(side)));
        Packet { src, dst, ttl: 64, payload: Transport::Tcp(tcp) }
    }

    /// Creates a segment without payload, as the kernel of `from` would.
    pub fn make(
        &mut self,
        conn: ConnIndex,
        from: Side,
        flags: impl FnOnce(&mut TcpSegment) -> TcpFlags,
    ) -> TcpSegment {
        let state = self.conns.get(conn);
        let direction = &state.directions[from as usize];
        let mut segment = TcpSegment {
            src_port: state.port(from),
            dst_port: state.port(from.other()),
            seq: direction.next,
            ack: direction.ack,
            flags: TcpFlags::default(),
            window: 0,
            payload: Bytes::new(),
        };
        segment.flags = flags(&mut segment);
        segment
    }

    /// Answers data that has no reader with an RST, unless an RST is already in flight or held. A
    /// second RST would add nothing, because resets stay in order.
    pub fn answer_with_reset(&mut self, conn: ConnIndex, from: Side) {
        let held = self.conns.get(conn).directions[from as usize].held.has_reset();
        if !held && !self.timeline.queue.has_reset(conn, from) {
            self.send_reset(conn, from);
        }
    }

    /// Answers a SYN with an RST from a middlebox.
    pub fn refuse(&mut self, conn: ConnIndex, syn: &TcpSegment) {
        let rst = self.make(conn, Side::Server, |segment| {
            segment.ack = syn.seq.wrapping_add(1);
            TcpFlags { rst: true, ack: true, ..TcpFlags::default() }
        });
        self.record_conn_end(conn, Side::Server, ConnEnd::Closed);
        self.send(conn, Side::Server, rst);
    }

    /// Accepts a connection and closes it at once, as a middlebox would.
    pub fn accept_and_close(&mut self, conn: ConnIndex, syn: &TcpSegment) {
        let ack = syn.seq.wrapping_add(1);
        self.conns.get_mut(conn).middleman = true;
        self.record_conn_end(conn, Side::Server, ConnEnd::Closed);
        for (seq, flags) in [
            (0, TcpFlags { syn: true, ..TcpFlags::default() }),
            (1, TcpFlags { fin: true, ..TcpFlags::default() }),
        ] {
            let answer = self.make(conn, Side::Server, |segment| {
                (segment.seq, segment.ack, segment.window) = (seq, ack, u16::MAX);
                TcpFlags { ack: true, ..flags }
            });
            self.send(conn, Side::Server, answer);
        }
        self.conns.get_mut(conn).from(Side::Server).next = 2;
    }

    /// Answers a segment for an end that has already closed the connection: a FIN with an ACK, data
    /// with an RST.
    pub fn answer_in_place(&mut self, conn: ConnIndex, of: Side, tcp: &TcpSegment) {
        let after = tcp.seq.wrapping_add(tcp.payload.len() as u32);
        if !tcp.payload.is_empty() {
            self.answer_with_reset(conn, of);
        } else if tcp.flags.fin {
            let ack = self.make(conn, of, |segment| {
                (segment.ack, segment.window) = (after.wrapping_add(1), u16::MAX);
                TcpFlags { ack: true, ..TcpFlags::default() }
            });
            self.send(conn, of, ack);
        }
    }

    /// Makes the kernel of a host forget the connections at a port whose streams were dropped. If
    /// such a connection has not sent a FIN yet, the world sends an RST for it.
    pub fn forget_orphans(&mut self, host: HostIx, port: u16) {
        for conn in self.conns.indices() {
            let state = self.conns.get(conn);
            let Some(side) = state.side_on(host).filter(|side| state.port(*side) == port) else {
                continue;
            };
            if !state.end(side).lock().dropped {
                continue;
            }
            self.reset_kernel(conn, side);
            let direction = self.conns.get_mut(conn).from(side);
            let sent_goodbye =
                std::mem::replace(&mut direction.forgotten, true) || direction.closed;
            if !sent_goodbye {
                self.send_reset(conn, side);
            }
        }
    }
}
