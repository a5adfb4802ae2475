//! How a segment leaves: out of a host's kernel, and through the link model into the event queue.
//!
//! The network exchanges packets with the kernels. In between it stores only the segment and its
//! connection, because tens of thousands of segments may be in flight over a slow link.
//!
//! `turmoil-net` acknowledges thousands of small segments that arrive at once one by one. The
//! network keeps the last acknowledgement ([`keep_last_ack`]).

use turmoil_net::{Packet, TcpFlags, TcpSegment, Transport};

use crate::history::{ConnEnd, ConnIndex, EventKind, Fate, Flags, Side, Time};
use crate::schedule::fault::segment::{LinkEffects, SynFate};
use crate::world::thread::{self, HostIx, UNUSED};

use super::acks::{MOST_ACKS, is_bare_ack, keep_last_ack};
use super::conns::{PendingConnect, SharedEnd};
use super::link::{self, Segment};
use super::queue::Due;
use super::{SimNet, StaleSegments};

fn flags_of(segment: &TcpSegment) -> Flags {
    let TcpFlags { syn, ack, fin, rst, .. } = segment.flags;
    Flags { syn, ack, fin, rst }
}

impl SimNet {
    /// Sends everything that leaves at the end of a turn: the packets of the hosts' kernels,
    /// waiting segments, resets, and window updates.
    pub fn egress(&mut self) {
        self.take_sent();
        self.send_waiting();
        self.abort_connections();
        self.update_windows();
    }

    /// Collects and sends the packets of the hosts' kernels.
    pub fn take_sent(&mut self) {
        let mut packets = std::mem::take(&mut self.outbound);
        self.stack.egress(&mut packets);
        if packets.len() > MOST_ACKS {
            keep_last_ack(&mut packets);
        }
        packets.drain(..).for_each(|packet| self.sent(packet));
        self.outbound = packets;
    }

    /// Handles a segment that a kernel sent.
    fn sent(&mut self, packet: Packet) {
        let Packet { src, dst, payload: Transport::Tcp(tcp), .. } = packet else { return };
        let (Some(from), Some(to)) = (self.directory.at(src), self.directory.at(dst)) else {
            let is_unowned = src == self.directory.ip(UNUSED);
            return if is_unowned {
                thread::note_unowned(format!(
                    "a socket, {src}:{} to {dst}:{}",
                    tcp.src_port, tcp.dst_port
                ));
            };
        };
        let (from, to) = ((from, tcp.src_port), (to, tcp.dst_port));
        let opens = tcp.flags.syn && !tcp.flags.ack;
        let found = if opens { self.opened(from, to) } else { self.conns.of_segment(from, to) };
        let Some((conn, from)) = found else { return };
        if self.conns.get(conn).end(from).lock().error.is_some() {
            // The connection has ended with an error, so its kernel should have forgotten it.
            return;
        }
        if tcp.flags.fin && self.conns.get_mut(conn).from(from).aborts {
            return;
        }
        self.note_sequence(conn, from, &tcp);
        if self.conns.get(conn).foreign && (tcp.flags.fin || tcp.flags.rst) {
            self.record_conn_end(conn, from, ConnEnd::Closed);
        }
        if self.conns.get(conn).middleman {
            return self.answer_in_place(conn, Side::Server, &tcp);
        }
        let waits = self.settings.keeps_windows && !tcp.flags.syn && !tcp.flags.rst;
        if waits { self.queue_segment(conn, from, tcp) } else { self.transmit(conn, from, tcp) }
    }

    /// Handles a SYN that a client's kernel sent: opens a connection.
    fn opened(&mut self, from: (HostIx, u16), to: (HostIx, u16)) -> Option<(ConnIndex, Side)> {
        let asked =
            self.opening.iter().position(|(host, opening)| *host == from.0 && opening.to == to);
        let foreign = asked.is_none() && self.settings.keeps_windows;
        let opening = match asked {
            Some(at) => self.opening.remove(at).1,
            None if foreign => PendingConnect { to, label: None, end: SharedEnd::new() },
            None => return None,
        };
        let conn = self.conns.open(from.0, to.0, (from.1, to.1), opening.label, opening.end);
        self.conns.get_mut(conn).foreign = foreign;
        let described = self.conns.describe(conn, &self.directory, self.now());
        self.history.conns.push(described);
        self.record(Some(from.0), EventKind::ConnOpened { conn });
        if self.conns.get(conn).end(Side::Client).lock().dropped {
            // The user stopped waiting before the SYN had left.
            self.record_conn_end(conn, Side::Client, ConnEnd::Closed);
        }
        Some((conn, Side::Client))
    }

    fn note_sequence(&mut self, conn: ConnIndex, from: Side, segment: &TcpSegment) {
        let direction = self.conns.get_mut(conn).from(from);
        let flags = flags_of(segment);
        if flags.syn {
            direction.base = segment.seq.wrapping_add(1);
        }
        if !flags.rst {
            let occupied =
                segment.payload.len() as u32 + u32::from(flags.syn) + u32::from(flags.fin);
            direction.next = segment.seq.wrapping_add(occupied);
            direction.ack = segment.ack;
        }
        direction.closed |= flags.fin;
        if !flags.rst && !flags.fin {
            // A FIN may arrive late, so its window does not count as advertised.
            direction.window = segment.window;
        }
    }

    /// Returns the properties of a segment that the link model uses.
    pub fn facts(&self, conn: ConnIndex, from: Side, tcp: &TcpSegment) -> Segment {
        let flags = flags_of(tcp);
        let state = self.conns.get(conn);
        let completes = is_bare_ack(tcp)
            && from == Side::Client
            && !state.is_up(Side::Server)
            && tcp.seq == state.directions[0].base;
        Segment { conn, from, flags, len: tcp.payload.len(), completes }
    }

    /// Sends a segment, in pieces if a slow link limits the segment size. The pieces leave at the same
    /// moment, in order.
    pub fn transmit(&mut self, conn: ConnIndex, from: Side, mut rest: TcpSegment) {
        let most = self.effects(self.facts(conn, from, &rest)).segment;
        if let Some(most) = most.filter(|_| !self.settings.keeps_windows) {
            while let Some(piece) = split_front(&mut rest, most as usize) {
                self.send(conn, from, piece);
            }
        }
        self.send(conn, from, rest);
    }

    /// Sends a segment.
    pub fn send(&mut self, conn: ConnIndex, from: Side, tcp: TcpSegment) {
        if let Some((arrival, tcp)) = self.decide(conn, from, tcp) {
            self.schedule_arrival(conn, from, arrival, tcp);
        }
    }

    /// Applies the link model's decision about a segment. Returns the arrival time and the segment
    /// as it arrives, if it is in flight.
    fn decide(
        &mut self,
        conn: ConnIndex,
        from: Side,
        mut tcp: TcpSegment,
    ) -> Option<(Time, TcpSegment)> {
        let now = self.now();
        let segment = self.facts(conn, from, &tcp);
        let seq = tcp.seq;
        self.digest_packet(now, segment, seq);
        let lost = self.conns.get(conn).dead
            || self.is_dropped(conn, from, segment.len)
            || self.directory.is_dark(self.conns.get(conn).host(from));
        if lost {
            self.record_packet(segment, seq, Fate::Lost);
            return None;
        }
        let effects = self.effects_on_leaving(segment);
        if !effects.blocked && self.answer_syn_by_fault(segment, effects.opening, &tcp) {
            return None;
        }
        self.narrow_window(segment, &mut tcp);
        let waits = segment.in_order() && self.conns.get_mut(conn).from(from).lost_since.is_some();
        if effects.blocked || waits {
            self.record_packet(segment, seq, Fate::Held);
            self.hold_segment(segment, tcp);
            return None;
        }
        let arrival = self.arrival(segment, effects, now);
        self.record_packet(segment, seq, Fate::Arrives(arrival));
        Some((arrival, tcp))
    }

    /// Answers a SYN if a fault refuses new connections at its host. Returns whether it did.
    pub(super) fn answer_syn_by_fault(
        &mut self,
        segment: Segment,
        opening: SynFate,
        syn: &TcpSegment,
    ) -> bool {
        let answer = match opening {
            SynFate::Passes => return false,
            SynFate::Refused => Self::refuse,
            SynFate::AcceptedThenClosed => Self::accept_and_close,
        };
        self.record_packet(segment, syn.seq, Fate::Lost);
        answer(self, segment.conn, syn);
        true
    }

    /// Returns whether a segment with this number of bytes of data is dropped because its connection
    /// is stale.
    pub fn is_dropped(&self, conn: ConnIndex, from: Side, len: usize) -> bool {
        let is_request = from == Side::Client && len > 0;
        let is_dropped = match self.settings.stale {
            StaleSegments::Delivered => false,
            StaleSegments::DroppedExceptRequests => !is_request,
            StaleSegments::Dropped => true,
        };
        is_dropped && self.conns.get(conn).stale
    }

    /// Computes the arrival time of a segment that leaves at `leaves`.
    pub(super) fn arrival(&mut self, segment: Segment, effects: LinkEffects, leaves: Time) -> Time {
        let (seed, range) = (self.settings.seed, self.settings.latency);
        let direction = self.conns.get_mut(segment.conn).from(segment.from);
        direction.sent += 1;
        let mut passed = leaves;
        if effects.bandwidth.is_some() && segment.len > 0 {
            let starts = direction.busy_until.max(leaves.0 * 1_000);
            let through = link::through(&self.faults.active, &self.conns, segment, starts);
            self.conns.get_mut(segment.conn).from(segment.from).busy_until = through;
            passed = Time(through.div_ceil(1_000));
        }
        let direction = self.conns.get_mut(segment.conn).from(segment.from);
        let arrival = passed
            + link::latency(seed, range, segment.conn, segment.from, direction.sent)
            + effects.extra;
        if !segment.in_order() {
            return arrival;
        }
        direction.last_arrival = direction.last_arrival.max(arrival);
        direction.last_arrival
    }

    /// Schedules the arrival of the newest segment of its direction.
    pub(super) fn schedule_arrival(
        &mut self,
        conn: ConnIndex,
        from: Side,
        arrival: Time,
        tcp: TcpSegment,
    ) {
        let n = self.conns.get_mut(conn).from(from).sent;
        let rank = self.rank(conn, from, arrival);
        self.schedule(arrival, rank, Due::Packet { conn, from, n, tcp });
    }

    pub(super) fn rank(&self, conn: ConnIndex, from: Side, arrival: Time) -> u32 {
        link::rank(self.settings.seed, conn, from, arrival)
    }

    /// Reduces the window that this segment advertises to the limit of a slow link.
    fn narrow_window(&self, segment: Segment, tcp: &mut TcpSegment) {
        let reverse = Segment { from: segment.from.other(), ..segment };
        if let Some(most) = self.effects(reverse).window {
            tcp.window = tcp.window.min(u16::try_from(most.max(1)).unwrap_or(u16::MAX));
        }
    }
}

/// Splits off the first `most` bytes of a segment, or returns `None` if it has no more than that.
fn split_front(rest: &mut TcpSegment, most: usize) -> Option<TcpSegment> {
    let most = most.max(1);
    if rest.payload.len() <= most {
        return None;
    }
    let mut front = TcpSegment { payload: rest.payload.split_to(most), ..rest.clone() };
    front.flags.fin = false;
    rest.seq = rest.seq.wrapping_add(most as u32);
    Some(front)
}

#[cfg(test)]
mod tests {
    use super::super::held::tests::segment;
    use super::*;

    #[test]
    fn the_last_piece_of_a_segment_has_its_fin() {
        let mut rest = segment(u32::MAX, "abcde");
        rest.flags.fin = true;
        let mut pieces: Vec<_> = std::iter::from_fn(|| split_front(&mut rest, 2)).collect();
        pieces.push(rest);
        let pieces = pieces.iter().map(|tcp| (tcp.seq, &tcp.payload[..], tcp.flags.fin));
        assert_eq!(
            pieces.collect::<Vec<_>>(),
            [(u32::MAX, &b"ab"[..], false), (1, b"cd", false), (3, b"e", true)]
        );
    }
}
