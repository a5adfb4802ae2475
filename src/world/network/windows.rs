//! Windows, for engines whose sockets have none, or whose sockets send no window updates.
//!
//! The sockets of stock turmoil have neither acknowledgements nor byte windows. With this engine,
//! the network does the work of both kernels. A segment leaves when its receiver has room for it
//! ([`SimNet::queue_segment`]). Delivered data is acknowledged by a segment that passes the link
//! model like any other ([`SimNet::acknowledge`]). A user can write only as much as a send buffer
//! holds ([`SimNet::may_write`]). So at most one window passes per round trip, on both engines.
//!
//! Segments cannot be split on that engine: one write is one segment. If a link limits the segment
//! size, the network limits the size of writes.
//!
//! The sockets of the other engine have windows, but do not announce that a window has opened
//! again. The network does this ([`SimNet::update_windows`]).

use bytes::BytesMut;
use turmoil_net::{TcpFlags, TcpSegment};

use crate::history::{ConnIndex, Flags, Side};

use super::SimNet;
use super::link::Segment;

/// The receive buffer of the simulated kernel, and the largest segment that it sends.
const RECEIVE_BUFFER: u64 = 64 * 1024;
const SEGMENT: u16 = 1_460;

/// The send buffer of the simulated kernel.
const SEND_BUFFER: u64 = 64 * 1024;

impl SimNet {
    /// Returns how many bytes the user of an end may write now.
    pub fn may_write(&self, conn: ConnIndex, from: Side) -> usize {
        if !self.settings.keeps_windows {
            return usize::MAX;
        }
        let direction = &self.conns.get(conn).directions[from as usize];
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

    /// Queues a segment that a kernel sent: it leaves after those before it, when there is room for
    /// it. Data that is written in one turn, and data that waits, is merged into segments that are
    /// as large as possible.
    pub fn queue_segment(&mut self, conn: ConnIndex, from: Side, tcp: TcpSegment) {
        let most = self
            .effects(plain(conn, from))
            .segment
            .map_or(usize::from(SEGMENT), |most| most as usize);
        let unsent = &mut self.conns.get_mut(conn).from(from).unsent;
        let merged = unsent.back_mut().is_some_and(|last| merge(last, &tcp, most));
        if !merged {
            unsent.push_back(tcp);
        }
        if !self.leaving.contains(&(conn, from)) {
            self.leaving.push((conn, from));
        }
    }

    /// Sends the waiting segments that fit, at the end of the turn in which kernels sent segments.
    pub fn send_waiting(&mut self) {
        for (conn, from) in std::mem::take(&mut self.leaving) {
            self.send_fitting(conn, from);
        }
    }

    fn send_fitting(&mut self, conn: ConnIndex, from: Side) {
        loop {
            let direction = self.conns.get_mut(conn).from(from);
            let Some(len) = direction.unsent.front().map(|tcp| tcp.payload.len() as u64) else {
                return;
            };
            let in_flight = direction.left - direction.acked;
            // A segment that is larger than a small window goes alone, because it cannot be split.
            let room = direction.room.unwrap_or(u16::MAX.into());
            let fits = len == 0 || in_flight + len <= room || in_flight == 0 && room > 0;
            let Some(tcp) = fits.then(|| direction.unsent.pop_front()).flatten() else { return };
            direction.left += len;
            self.transmit(conn, from, tcp);
        }
    }

    /// Acknowledges the data that was delivered to an end.
    pub fn acknowledge(&mut self, conn: ConnIndex, of: Side) {
        let state = self.conns.get(conn);
        let unread = {
            let end = state.end(of).lock();
            // The world does not know how much was read from a socket that it did not open.
            if state.foreign { 0 } else { end.received.saturating_sub(end.read) }
        };
        let far = &state.directions[of.other() as usize];
        let ack = far.base.wrapping_add(far.delivered as u32);
        let window = RECEIVE_BUFFER.saturating_sub(unread).min(u64::from(u16::MAX)) as u16;
        let direction = self.conns.get_mut(conn).from(of);
        (direction.ack, direction.window) = (ack, window);
        let ack = self.make(conn, of, |segment| {
            segment.window = window;
            TcpFlags { ack: true, ..TcpFlags::default() }
        });
        self.send(conn, of, ack);
    }

    /// Handles an acknowledgement from an end: there may be room for more segments.
    pub fn acknowledged(&mut self, conn: ConnIndex, by: Side, tcp: &TcpSegment) {
        let from = by.other();
        let direction = self.conns.get_mut(conn).from(from);
        let acked = u64::from(tcp.ack.wrapping_sub(direction.base));
        direction.acked = direction.acked.max(acked.min(direction.left));
        direction.room = Some(tcp.window.into());
        self.send_fitting(conn, from);
        let writer = self.conns.get(conn).end(from).lock().writer.take();
        if let Some(writer) = writer {
            writer.wake();
        }
    }

    /// Sends a window update for each receiver that had advertised less than a segment and has room
    /// again. In a real TCP, the persist timer solves this.
    pub fn update_windows(&mut self) {
        for (conn, side) in std::mem::take(&mut self.reopened) {
            let waiting = {
                let end = self.conns.get(conn).end(side).lock();
                end.received.saturating_sub(end.read)
            };
            let room = RECEIVE_BUFFER.saturating_sub(waiting).min(u64::from(u16::MAX)) as u16;
            let direction = self.conns.get_mut(conn).from(side);
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

    /// Notes that the user of an end could write again, after it had waited for room.
    pub fn unblocked(&mut self, conn: ConnIndex, side: Side) {
        let now = self.now();
        let unblocked = &mut self.history.conns[conn.0].unblocked;
        match side {
            Side::Client => unblocked.0 = Some(now),
            Side::Server => unblocked.1 = Some(now),
        }
    }

    /// Handles a read by the user of an end that had little room: its window may need an update.
    pub fn receive_buffer_read(&mut self, conn: ConnIndex, side: Side) {
        if self.conns.get_mut(conn).from(side).window < SEGMENT
            && !self.reopened.contains(&(conn, side))
        {
            self.reopened.push((conn, side));
        }
    }
}

/// Returns a segment of a direction that carries data, for the link model.
fn plain(conn: ConnIndex, from: Side) -> Segment {
    Segment { conn, from, flags: Flags::default(), len: 1, completes: false }
}

/// Appends a segment to the one before it, if both together fit into `most` bytes. Returns whether
/// they were merged.
fn merge(last: &mut TcpSegment, next: &TcpSegment, most: usize) -> bool {
    if last.flags.fin || last.payload.len() + next.payload.len() > most {
        return false;
    }
    let mut payload = BytesMut::from(&last.payload[..]);
    payload.extend_from_slice(&next.payload);
    (last.payload, last.flags.fin) = (payload.freeze(), next.flags.fin);
    true
}
