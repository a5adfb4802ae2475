//! How a segment arrives: it is delivered to the kernel of its receiver, or answered.
//!
//! The network corrects some behavior of `turmoil-net` to match Linux (see also `ends`):
//! - `turmoil-net` does not answer a write to a peer that has closed. The network answers with an
//!   RST ([`SimNet::arrive`]).
//! - In `turmoil-net`, an old acknowledgement can widen the window again. The network replaces it
//!   with the newest one ([`update_overtaken_ack`](super::conns::Direction::update_overtaken_ack)).

use std::io::ErrorKind;
use std::time::Duration;

use turmoil_net::TcpSegment;

use crate::history::{ConnEnd, ConnIndex, EventKind, Side};
use crate::world::thread;

use super::SimNet;
use super::acks::is_bare_ack;
use super::link::Segment;
use super::stack::DeliveryResult;

impl SimNet {
    /// Handles the arrival of a segment.
    pub fn arrive(&mut self, conn: ConnIndex, from: Side, n: u64, mut tcp: TcpSegment) {
        let segment = self.facts(conn, from, &tcp);
        let to = from.other();
        if self.conns.get(conn).dead || self.is_dropped(conn, from, segment.len) {
            return;
        }
        self.history.stale += u64::from(self.conns.get(conn).stale && segment.in_order());
        if self.effects(segment).blocked {
            return self.hold_segment(segment, tcp);
        }
        if self.conns.get_mut(conn).from(to).forgotten {
            return self.answer_in_place(conn, to, &tcp);
        }
        let foreign = self.conns.get(conn).foreign;
        if segment.flags.rst && foreign {
            self.record_conn_end(conn, to, ConnEnd::Error(ErrorKind::ConnectionReset));
            return self.deliver(segment, n, tcp);
        }
        if segment.flags.rst {
            let refused = !self.conns.get(conn).is_up(to);
            return self.kill(
                conn,
                to,
                if refused { ErrorKind::ConnectionRefused } else { ErrorKind::ConnectionReset },
            );
        }
        let (dropped, broken, unseen) = {
            let end = self.conns.get(conn).end(to).lock();
            (end.dropped, end.error.is_some(), end.socket.is_none() && !foreign)
        };
        if segment.flags.fin && to == Side::Client && unseen && !dropped && !broken {
            // If a close arrives before its client has noticed that the connection is up, the stack
            // treats it as a refusal.
            let later = self.now() + Duration::from_millis(1);
            self.conns.get_mut(conn).from(from).last_arrival = later;
            return self.schedule_arrival(conn, from, later, tcp);
        }
        if broken || dropped && segment.len > 0 {
            self.answer_with_reset(conn, to);
            return self.reset_kernel(conn, to);
        }
        let cut_short = self.shorten(conn, from, &mut tcp);
        self.deliver(segment, n, tcp);
        if cut_short {
            self.cut_exhausted();
        }
    }

    /// Shortens a segment to the length that a `cut-after` lets pass. Returns whether the
    /// connection dies of it.
    fn shorten(&mut self, conn: ConnIndex, from: Side, tcp: &mut TcpSegment) -> bool {
        let Some(allowed) = self.allowance(conn, from) else { return false };
        let dies = tcp.payload.len() as u64 >= allowed;
        if tcp.payload.len() as u64 > allowed {
            tcp.payload.truncate(allowed as usize);
            tcp.flags.fin = false;
        }
        dies
    }

    /// Delivers a segment to the kernel of its receiver.
    fn deliver(&mut self, segment: Segment, n: u64, mut tcp: TcpSegment) {
        let (conn, from, to) = (segment.conn, segment.from, segment.from.other());
        let now = self.now();
        let len = tcp.payload.len() as u64;
        let direction = self.conns.get_mut(conn).from(from);
        direction.update_overtaken_ack(n, &mut tcp);
        direction.owed = None; // this segment carries that acknowledgement, too
        direction.delivered += len;
        if len > 0 {
            let received = &mut self.history.conns[conn.0].received;
            match to {
                Side::Client => received.0 = Some(now),
                Side::Server => received.1 = Some(now),
            }
        }
        direction.finished |= tcp.flags.fin;
        let delivered = direction.delivered;
        for message in direction
            .messages
            .iter_mut()
            .filter(|message| message.delivered.is_none() && message.end <= delivered)
        {
            message.delivered = Some(now);
        }
        let foreign = self.conns.get(conn).foreign;
        let held = {
            let mut end = self.conns.get(conn).end(to).lock();
            end.received += len;
            if to == Side::Server && end.socket.is_none() && !foreign {
                end.early.extend_from_slice(&tcp.payload);
            }
            !end.dropped
        };
        let up = (segment.flags.syn && segment.flags.ack && to == Side::Client)
            || (to == Side::Server
                && segment.flags.ack
                && !self.conns.get(conn).is_up(Side::Server));
        if up {
            let host = self.conns.get(conn).host(to);
            self.conns.get_mut(conn).up[to as usize] = true;
            self.record(Some(host), EventKind::ConnUp { conn, side: to });
        }
        if self.settings.keeps_windows && is_bare_ack(&tcp) {
            return self.acknowledged(conn, from, &tcp);
        }
        self.conns.get_mut(conn).arrived |= segment.opens();
        let packet = self.packet(conn, from, tcp);
        match self.stack.deliver(packet, held) {
            DeliveryResult::Taken => {}
            DeliveryResult::Closed => return self.answer_with_reset(conn, to),
            DeliveryResult::Part(bytes) => self.save_received(conn, to, &bytes),
        }
        if self.settings.keeps_windows && len > 0 {
            self.acknowledge(conn, to);
        }
        if foreign && segment.flags.syn {
            // The world is not notified when the connection is accepted.
            self.mark_established(conn, Side::Server);
            self.mark_established(conn, Side::Client);
        }
    }

    /// Marks an end as established: it is attached to a stream, or its kernel has received the SYN
    /// of a connection that the world did not open.
    pub fn mark_established(&mut self, conn: ConnIndex, side: Side) {
        let state = self.conns.get_mut(conn);
        if !std::mem::replace(&mut state.up[side as usize], true) {
            thread::note_on(
                state.host(side),
                thread::Noted::Entry(EventKind::ConnUp { conn, side }),
            );
        }
    }
}
