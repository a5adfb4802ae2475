//! How an end of a connection dies, closes, or is answered for: the places where the world is a better kernel than the simulated one.
//!
//! - A reset throws delivered, unread bytes away there; here they are rescued first ([`World::kill`]).
//! - Bytes that a process wrote before it dropped a stream with bytes unread are thrown away there; here they go first ([`World::abort`]).
//! - A host that starts again cannot bind a port there whose connections still say goodbye; here it can ([`World::forget_orphans`]).
//! - Somebody in the middle answers in the place of a server ([`World::refuse`], [`World::accept_and_close`]).

use std::io::ErrorKind;
use std::net::SocketAddr;

use bytes::Bytes;
use turmoil_net::{Packet, TcpFlags, TcpSegment, Transport};

use crate::history::{ConnEnd, ConnIndex, EventKind, Side};
use crate::net::Stream;

use super::local::{self, HostIx, NOBODY};
use super::state::World;

impl World {
    /// An end of a connection gets an error, and its kernel forgets the connection. What had arrived is still read first.
    pub(super) fn kill(&mut self, conn: ConnIndex, side: Side, kind: ErrorKind) {
        let state = self.conns.look(conn);
        // Linux: in CLOSE_WAIT a reset is a broken pipe to writers, and nothing to readers.
        let finished = state.directions[side.other() as usize].finished;
        let kind = if finished { ErrorKind::BrokenPipe } else { kind };
        let fresh = state.end(side).lock().error.is_none();
        if fresh {
            self.rescue(conn, side, &[]);
            let mut end = self.conns.look(conn).end(side).lock();
            end.error = Some(kind);
            end.wake();
        }
        self.reset_kernel(conn, side);
        if fresh {
            self.over(conn, side, ConnEnd::Error(kind));
        }
    }

    /// Takes what has arrived at an end out of its kernel, and `more` after it: its user reads that first.
    pub(super) fn rescue(&mut self, conn: ConnIndex, side: Side, more: &[u8]) {
        let (from, to) = (self.address(conn, side.other()), self.address(conn, side));
        let late = self.stack.take_back(from, to);
        let state = self.conns.look(conn);
        let mut end = state.end(side).lock();
        let end = &mut *end;
        let before = end.rescued.len();
        let early = std::mem::take(&mut end.early);
        end.rescued.extend_from_slice(&early);
        if let Some(socket) = &mut end.socket {
            self.stack.set_current(state.host(side));
            socket.drain(&mut end.rescued);
            self.stack.set_current(NOBODY);
        }
        late.iter().for_each(|bytes| end.rescued.extend_from_slice(bytes));
        end.rescued.extend_from_slice(more);
        end.read += (end.rescued.len() - before) as u64;
        if !more.is_empty() {
            end.wake();
        }
    }

    /// One end of a connection is over for its user. The first word counts.
    pub(super) fn over(&mut self, conn: ConnIndex, side: Side, how: ConnEnd) {
        let now = self.now();
        let state = self.conns.get(conn);
        let slot = &mut state.over[side as usize];
        if slot.is_some() {
            return;
        }
        *slot = Some(how);
        let host = state.host(side);
        let over = &mut self.history.conns[conn.0].over;
        match side {
            Side::Client => over.0 = Some(now),
            Side::Server => over.1 = Some(now),
        }
        local::note_of_world(host, local::Noted::Entry(EventKind::ConnOver { conn, side, how }));
        self.close_faults_of(conn);
    }

    /// An end's user dropped its stream.
    pub(super) fn dropped(&mut self, conn: ConnIndex, side: Side) {
        self.over(conn, side, ConnEnd::Closed);
        self.purge_if_over(conn);
    }

    /// An end's user dropped its stream with bytes unread: the connection ends with an RST, after what the user had written.
    ///
    /// The stack would throw away what was written in the same turn, which on Linux has left already.
    pub(super) fn abort(&mut self, conn: ConnIndex, side: Side) {
        self.conns.get(conn).from(side).aborts = true;
        self.aborting.push((conn, side));
    }

    pub(super) fn abort_connections(&mut self) {
        for (conn, side) in std::mem::take(&mut self.aborting) {
            self.send_reset(conn, side);
            self.reset_kernel(conn, side);
        }
    }

    /// A connection that was cut has nobody left to close it with: the kernels of ends whose users are gone forget it.
    pub(super) fn purge_if_over(&mut self, conn: ConnIndex) {
        if !self.conns.look(conn).dead {
            return;
        }
        for side in [Side::Client, Side::Server] {
            if self.conns.look(conn).end(side).lock().dropped {
                self.reset_kernel(conn, side);
            }
        }
    }

    /// Has the kernel of an end forget the connection: it is handed an RST.
    ///
    /// A server's end that never came up stays with its listener, and goes with it: of an RST the stack would make a socket
    /// that nobody can close, and that holds the port for ever.
    pub(super) fn reset_kernel(&mut self, conn: ConnIndex, side: Side) {
        if side == Side::Server && !self.conns.look(conn).is_up(Side::Server) {
            return;
        }
        let rst = self.make(conn, side.other(), |_| TcpFlags { rst: true, ..TcpFlags::default() });
        let rst = self.packet(conn, side.other(), rst);
        self.stack.reset(rst);
    }

    /// The address and port of an end.
    pub(super) fn address(&self, conn: ConnIndex, side: Side) -> SocketAddr {
        let state = self.conns.look(conn);
        SocketAddr::new(self.hosts.get(state.host(side)).ip, state.port(side))
    }

    /// Sends an RST from an end, after what it sent before.
    pub(super) fn send_reset(&mut self, conn: ConnIndex, from: Side) {
        self.conns.get(conn).from(from).unsent.clear();
        let rst =
            self.make(conn, from, |_| TcpFlags { rst: true, ack: true, ..TcpFlags::default() });
        self.send(conn, from, rst);
    }

    /// A segment of an end, as kernels hand it on.
    pub(super) fn packet(&self, conn: ConnIndex, from: Side, tcp: TcpSegment) -> Packet {
        let [src, dst] =
            [from, from.other()].map(|side| self.hosts.get(self.conns.look(conn).host(side)).ip);
        Packet { src, dst, ttl: 64, payload: Transport::Tcp(tcp) }
    }

    /// Makes a segment without payload, as the kernel of `from` would.
    pub(super) fn make(
        &mut self,
        conn: ConnIndex,
        from: Side,
        flags: impl FnOnce(&mut TcpSegment) -> TcpFlags,
    ) -> TcpSegment {
        let state = self.conns.look(conn);
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

    /// Answers data that nobody will read with an RST, unless one is on its way: they stay in order, and a second would say nothing new.
    pub(super) fn answer_with_reset(&mut self, conn: ConnIndex, from: Side) {
        let held = self.conns.look(conn).directions[from as usize].held.has_reset();
        let on_the_way = self.queue.iter().filter_map(|(_, segment)| segment);
        let of_this_end = on_the_way.filter(|(of, side, _)| (*of, *side) == (conn, from));
        if !held && !of_this_end.into_iter().any(|(.., tcp)| tcp.flags.rst) {
            self.send_reset(conn, from);
        }
    }

    /// A middleman answers a SYN with an RST.
    pub(super) fn refuse(&mut self, conn: ConnIndex, syn: &TcpSegment) {
        let rst = self.make(conn, Side::Server, |segment| {
            segment.ack = syn.seq.wrapping_add(1);
            TcpFlags { rst: true, ack: true, ..TcpFlags::default() }
        });
        self.over(conn, Side::Server, ConnEnd::Closed);
        self.send(conn, Side::Server, rst);
    }

    /// A middleman accepts a connection, and closes it at once.
    pub(super) fn accept_and_close(&mut self, conn: ConnIndex, syn: &TcpSegment) {
        let ack = syn.seq.wrapping_add(1);
        self.conns.get(conn).middleman = true;
        self.over(conn, Side::Server, ConnEnd::Closed);
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
        self.conns.get(conn).from(Side::Server).next = 2;
    }

    /// Answers what comes on a connection in the place of an end that has closed it: a FIN with its acknowledgement, data with an RST.
    pub(super) fn answer_in_place(&mut self, conn: ConnIndex, of: Side, tcp: &TcpSegment) {
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

    /// Has the kernel of a host forget the connections at a port that nobody holds any more. The world says goodbye in its place.
    pub(super) fn forget_orphans(&mut self, host: HostIx, port: u16) {
        for conn in self.conns.indices() {
            let state = self.conns.look(conn);
            let Some(side) = state.side_on(host).filter(|side| state.port(*side) == port) else {
                continue;
            };
            if !state.end(side).lock().dropped {
                continue;
            }
            self.reset_kernel(conn, side);
            let direction = self.conns.get(conn).from(side);
            let sent_goodbye =
                std::mem::replace(&mut direction.forgotten, true) || direction.closed;
            if !sent_goodbye {
                self.send_reset(conn, side);
            }
        }
    }
}

/// Resets a connection from the end that holds `stream`, as a process does that closes it with a linger time of zero.
pub(super) fn reset_by_hand(stream: &Stream) {
    let host = local::current();
    local::with(|world| {
        let Some(conn) = world.index_of(stream.id()) else { return };
        let Some(side) = world.conns.look(conn).side_on(host) else { return };
        world.send_reset(conn, side);
        world.kill(conn, side, ErrorKind::ConnectionReset);
    });
}
