//! Segments that faults hold, and how TCP sends them again when the link is free.

use std::io::ErrorKind;

use turmoil_net::TcpSegment;

use crate::history::{ConnIndex, Fate, Side, Time};
use crate::schedule::fault::segment::retransmission_limit;

use super::SimNet;
use super::held::sort_by_sequence;
use super::link::{self, Segment};
use super::queue::Due;

impl SimNet {
    /// Holds a segment that cannot pass now. Of bare acknowledgements only the newest is kept,
    /// because they are not retransmitted.
    pub(super) fn hold_segment(&mut self, segment: Segment, tcp: TcpSegment) {
        let now = self.now();
        let direction = self.conns.get_mut(segment.conn).from(segment.from);
        if !segment.in_order() {
            direction.held.forget_acks();
        } else if direction.lost_since.is_none() {
            direction.lost_since = Some(now);
            let due = Due::GiveUp { conn: segment.conn, side: segment.from, since: now };
            self.schedule(now + retransmission_limit(segment.opens()), 0, due);
        }
        self.conns.get_mut(segment.conn).from(segment.from).held.push(tcp);
    }

    /// Retransmits held segments that are no longer held by any fault. Returns the arrival time of
    /// the last one.
    pub fn release_held(&mut self) -> Time {
        let mut last = self.now();
        for conn in self.conns.indices() {
            for from in [Side::Client, Side::Server] {
                let waited_for = self.conns.get(conn).is_waited_for(from);
                if let Some(arrival) = self.retransmit(conn, from).filter(|_| waited_for) {
                    last = last.max(arrival);
                }
            }
        }
        last
    }

    /// Sends the segments of a direction that faults held, at the next retransmission, if the link
    /// is free now. Later segments that are already in flight arrive after them, because the
    /// receiver keeps those until it has the missing segments. Returns the arrival time of the last
    /// held segment.
    pub fn retransmit(&mut self, conn: ConnIndex, from: Side) -> Option<Time> {
        let now = self.now();
        let direction = &self.conns.get(conn).directions[from as usize];
        let base = direction.base;
        let first =
            direction.held.lowest(base, |tcp| self.facts(conn, from, tcp).in_order())?.clone();
        if self.effects_on_leaving(self.facts(conn, from, &first)).blocked {
            return None;
        }
        let direction = self.conns.get_mut(conn).from(from);
        let mut segments: Vec<_> =
            direction.held.take().into_iter().map(|tcp| (None, tcp)).collect();
        let leaves = match direction.lost_since.take() {
            Some(lost) => {
                let behind = self.take_segments_after(conn, from, first.seq);
                segments.extend(behind.into_iter().map(|(n, tcp)| (Some(n), tcp)));
                link::next_try(lost, now, first.flags.syn && !first.flags.ack)
            }
            None => now,
        };
        sort_by_sequence(&mut segments, base);
        let mut last = leaves;
        for (on_its_way, tcp) in segments {
            match on_its_way {
                Some(n) => {
                    let arrival = self.conns.get_mut(conn).from(from).last_arrival;
                    let rank = self.rank(conn, from, arrival);
                    self.schedule(arrival, rank, Due::Packet { conn, from, n, tcp });
                }
                None => last = last.max(self.send_again(conn, from, tcp, leaves)),
            }
        }
        Some(last)
    }

    /// Sends a held segment at `leaves`, or now if it is an acknowledgement. Returns its arrival time.
    fn send_again(&mut self, conn: ConnIndex, from: Side, tcp: TcpSegment, leaves: Time) -> Time {
        let segment = self.facts(conn, from, &tcp);
        let effects = self.effects_on_leaving(segment);
        if self.answer_syn_by_fault(segment, effects.opening, &tcp) {
            return leaves;
        }
        let leaves = if segment.in_order() { leaves } else { self.now() };
        let arrival = self.arrival(segment, effects, leaves);
        self.record_packet(segment, tcp.seq, Fate::Arrives(arrival));
        self.schedule_arrival(conn, from, arrival, tcp);
        arrival
    }

    /// Takes back the segments in flight that must stay in order after this sequence number, each with
    /// its number in the direction.
    fn take_segments_after(
        &mut self,
        conn: ConnIndex,
        from: Side,
        seq: u32,
    ) -> Vec<(u64, TcpSegment)> {
        let mut queue = std::mem::take(&mut self.timeline.queue);
        let is_behind = |tcp: &TcpSegment| {
            tcp.seq.wrapping_sub(seq) < u32::MAX / 2 && self.facts(conn, from, tcp).in_order()
        };
        let behind = queue.take_packets(conn, from, is_behind);
        self.timeline.queue = queue;
        behind
    }

    /// Makes the kernel of an end give up the connection, because its data has been unacknowledged
    /// for too long.
    pub fn give_up(&mut self, conn: ConnIndex, side: Side, since: Time) {
        let direction = self.conns.get_mut(conn).from(side);
        if direction.lost_since == Some(since) {
            direction.lost_since = None;
            direction.held.clear();
            self.kill(conn, side, ErrorKind::TimedOut);
        }
    }
}
