//! Windows, where the engine's sockets have none, or do not tell of them.
//!
//! Stock turmoil's know neither acknowledgements nor windows of bytes. The world is both kernels then. A segment leaves when its
//! receiver has room for it ([`World::leave_in_turn`]); what was delivered is acknowledged by a segment that goes through the link
//! model as any other ([`World::acknowledge`]); and a user writes no more than a send buffer holds ([`World::may_write`]). So a window
//! a round trip is what passes, on both engines.
//!
//! Segments cannot be split on that engine: a write is a segment. Where a link wants them small, writes are.
//!
//! The other engine's sockets have windows, and do not say that one has opened again: the world does ([`World::update_windows`]).

use bytes::BytesMut;
use turmoil_net::{TcpFlags, TcpSegment};

use crate::history::{ConnIndex, Flags, Side};

use super::Engine;
use super::link::Segment;
use super::state::World;

/// The receive buffer of the simulated kernel, and the largest segment that it sends.
const RECEIVE_BUFFER: u64 = 64 * 1024;
const SEGMENT: u16 = 1_460;

/// The send buffer of the simulated kernel.
const SEND_BUFFER: u64 = 64 * 1024;

impl World {
    /// Whether the windows are the world's to keep.
    pub(super) fn keeps_windows(&self) -> bool {
        self.options.engine.is_like(Engine::TURMOIL)
    }

    /// How much the user of an end may write now.
    pub(super) fn may_write(&self, conn: ConnIndex, from: Side) -> usize {
        if !self.keeps_windows() {
            return usize::MAX;
        }
        let direction = &self.conns.look(conn).directions[from as usize];
        let effects = self.effects(plain(conn, from));
        let least = [effects.segment, effects.window]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(u64::MAX)
            .max(1);
        SEND_BUFFER.saturating_sub(direction.written.saturating_sub(direction.acked)).min(least)
            as usize
    }

    /// A kernel sent a segment: it leaves after those before it, when there is room for it. What is written in one turn, and what
    /// waits, leaves in segments as large as may be.
    pub(super) fn leave_in_turn(&mut self, conn: ConnIndex, from: Side, tcp: TcpSegment) {
        let most = self
            .effects(plain(conn, from))
            .segment
            .map_or(usize::from(SEGMENT), |most| most as usize);
        let unsent = &mut self.conns.get(conn).from(from).unsent;
        let merged = unsent.back_mut().is_some_and(|last| merge(last, &tcp, most));
        if !merged {
            unsent.push_back(tcp);
        }
        if !self.leaving.contains(&(conn, from)) {
            self.leaving.push((conn, from));
        }
    }

    /// The turn in which kernels sent segments is over.
    pub(super) fn send_what_waits(&mut self) {
        for (conn, from) in std::mem::take(&mut self.leaving) {
            self.send_what_fits(conn, from);
        }
    }

    fn send_what_fits(&mut self, conn: ConnIndex, from: Side) {
        loop {
            let direction = self.conns.get(conn).from(from);
            let Some(len) = direction.unsent.front().map(|tcp| tcp.payload.len() as u64) else {
                return;
            };
            let in_flight = direction.left - direction.acked;
            // A segment that is larger than a small window goes alone: it cannot be split.
            let room = direction.room.unwrap_or(u16::MAX.into());
            let fits = len == 0 || in_flight + len <= room || in_flight == 0 && room > 0;
            let Some(tcp) = fits.then(|| direction.unsent.pop_front()).flatten() else { return };
            direction.left += len;
            self.transmit(conn, from, tcp);
        }
    }

    /// Acknowledges what was delivered to an end.
    pub(super) fn acknowledge(&mut self, conn: ConnIndex, of: Side) {
        let state = self.conns.look(conn);
        let unread = {
            let end = state.end(of).lock();
            // How much was read of a socket that nobody told the world of, nobody knows.
            if state.foreign { 0 } else { end.received.saturating_sub(end.read) }
        };
        let far = &state.directions[of.other() as usize];
        let ack = far.base.wrapping_add(far.delivered as u32);
        let window = RECEIVE_BUFFER.saturating_sub(unread).min(u64::from(u16::MAX)) as u16;
        let direction = self.conns.get(conn).from(of);
        (direction.ack, direction.window) = (ack, window);
        let ack = self.make(conn, of, |segment| {
            segment.window = window;
            TcpFlags { ack: true, ..TcpFlags::default() }
        });
        self.send(conn, of, ack);
    }

    /// An acknowledgement by an end has arrived: there may be room again.
    pub(super) fn acknowledged(&mut self, conn: ConnIndex, by: Side, tcp: &TcpSegment) {
        let from = by.other();
        let direction = self.conns.get(conn).from(from);
        let acked = u64::from(tcp.ack.wrapping_sub(direction.base));
        direction.acked = direction.acked.max(acked.min(direction.left));
        direction.room = Some(tcp.window.into());
        self.send_what_fits(conn, from);
        let writer = self.conns.look(conn).end(from).lock().writer.take();
        if let Some(writer) = writer {
            writer.wake();
        }
    }

    /// Receivers that have room again, after they had advertised less than a segment, say so: the persist timer of a real TCP.
    pub(super) fn update_windows(&mut self) {
        for (conn, side) in std::mem::take(&mut self.reopened) {
            let waiting = {
                let end = self.conns.look(conn).end(side).lock();
                end.received.saturating_sub(end.read)
            };
            let room = RECEIVE_BUFFER.saturating_sub(waiting).min(u64::from(u16::MAX)) as u16;
            let direction = self.conns.get(conn).from(side);
            if direction.window < SEGMENT && room >= SEGMENT {
                direction.window = room;
                let update = self.make(conn, side, |segment| {
                    segment.window = room;
                    TcpFlags { ack: true, ..TcpFlags::default() }
                });
                self.send(conn, side, update);
            }
        }
    }

    /// The user of an end read while little room was left: the window may have to be updated.
    pub(super) fn made_room(&mut self, conn: ConnIndex, side: Side) {
        if self.conns.get(conn).from(side).window < SEGMENT
            && !self.reopened.contains(&(conn, side))
        {
            self.reopened.push((conn, side));
        }
    }
}

/// A segment of a direction, as the link model sees one that carries bytes.
fn plain(conn: ConnIndex, from: Side) -> Segment {
    Segment { conn, from, flags: Flags::default(), len: 1, completes: false }
}

/// Puts a segment behind the one before it, if both fit into one of `most` bytes. Returns whether it did.
fn merge(last: &mut TcpSegment, next: &TcpSegment, most: usize) -> bool {
    if last.flags.fin || last.payload.len() + next.payload.len() > most {
        return false;
    }
    let mut payload = BytesMut::from(&last.payload[..]);
    payload.extend_from_slice(&next.payload);
    (last.payload, last.flags.fin) = (payload.freeze(), next.flags.fin);
    true
}
