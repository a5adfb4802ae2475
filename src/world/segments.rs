//! The path of a segment: out of a host's kernel, through the link model, into the other host's
//! kernel.
//!
//! The world exchanges packets with the kernels. In between it stores only the segment and its
//! connection, because tens of thousands of segments may be in flight over a slow link.
//!
//! On the way, the world corrects some behavior of `turmoil-net` to match Linux (see also `ends`):
//! - `turmoil-net` does not answer a write to a peer that has closed. The world answers with an RST
//!   ([`World::arrive`]).
//! - `turmoil-net` sends no window update when a slow reader makes room in small steps. The world
//!   does (`windows`).
//! - In `turmoil-net`, an old acknowledgement can widen the window again. The world replaces it
//!   with the newest one ([`update_overtaken_ack`]).
//! - `turmoil-net` acknowledges thousands of small segments that arrive at once one by one. The
//!   world keeps the last acknowledgement ([`keep_last_ack`]).

use std::io::ErrorKind;
use std::task::Waker;
use std::time::Duration;

use turmoil_net::{Packet, TcpFlags, TcpSegment, Transport};

use crate::history::{ConnEnd, ConnIndex, EventKind, Fate, Flags, Side, Time};

use super::Engine;
use super::acks::{MOST_ACKS, is_bare_ack, keep_last_ack, update_overtaken_ack};
use super::batch::{SegmentBatch, by_sequence};
use super::conns::SharedEnd;
use super::engine::DeliveryResult;
use super::link::{self, Segment, SynFate};
use super::local::{self, HostIx, NOBODY};
use super::queue::{Due, OnTheWay};
use super::state::World;

fn flags_of(segment: &TcpSegment) -> Flags {
    let TcpFlags { syn, ack, fin, rst, .. } = segment.flags;
    Flags { syn, ack, fin, rst }
}

impl World {
    /// Sends everything that leaves at the end of a turn: the packets of the hosts' kernels,
    /// waiting segments, resets, and window updates.
    pub(super) fn egress(&mut self) {
        self.take_sent();
        self.send_waiting();
        self.abort_connections();
        self.update_windows();
    }

    /// Collects and sends the packets of the hosts' kernels.
    pub(super) fn take_sent(&mut self) {
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
        let (Some(from), Some(to)) = (self.hosts.at(src), self.hosts.at(dst)) else {
            let from_nobody = src == self.hosts.get(NOBODY).ip;
            return if from_nobody {
                local::note_unowned(format!(
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
        let waits = self.keeps_windows() && !tcp.flags.syn && !tcp.flags.rst;
        if waits { self.queue_segment(conn, from, tcp) } else { self.transmit(conn, from, tcp) }
    }

    /// Handles a SYN that a client's kernel sent: opens a connection.
    fn opened(&mut self, from: (HostIx, u16), to: (HostIx, u16)) -> Option<(ConnIndex, Side)> {
        let asked =
            self.opening.iter().position(|(host, opening)| *host == from.0 && opening.to == to);
        let foreign = asked.is_none() && self.options.engine.is_like(Engine::TURMOIL);
        let opening = match asked {
            Some(at) => self.opening.remove(at).1,
            None if foreign => {
                super::state::PendingConnect { to, label: None, end: SharedEnd::new() }
            }
            None => return None,
        };
        let conn = self.conns.open(from.0, to.0, (from.1, to.1), opening.label, opening.end);
        self.conns.get_mut(conn).foreign = foreign;
        let described = self.conns.describe(conn, &self.hosts, self.now());
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
    pub(super) fn facts(&self, conn: ConnIndex, from: Side, tcp: &TcpSegment) -> Segment {
        let flags = flags_of(tcp);
        let state = self.conns.get(conn);
        let completes = is_bare_ack(tcp)
            && from == Side::Client
            && !state.is_up(Side::Server)
            && tcp.seq == state.directions[0].base;
        Segment { conn, from, flags, len: tcp.payload.len(), completes }
    }

    /// Sends a segment, in pieces if a slow link limits the segment size.
    pub(super) fn transmit(&mut self, conn: ConnIndex, from: Side, mut whole: TcpSegment) {
        let most =
            self.effects(self.facts(conn, from, &whole)).segment.filter(|_| !self.keeps_windows());
        let Some(each) = most.map(|most| most as usize).filter(|most| *most < whole.payload.len())
        else {
            return self.send(conn, from, whole);
        };
        // The pieces leave at the same moment, in order. Either all of them are in flight, or none.
        let first = self.conns.get_mut(conn).from(from).sent + 1;
        let mut arrivals = Vec::new();
        for piece in SegmentBatch::cut(whole.clone(), each) {
            let Some((arrival, piece)) = self.decide(conn, from, piece) else { continue };
            arrivals.push(arrival);
            whole.window = piece.window;
        }
        debug_assert!(
            arrivals.is_empty()
                || first + arrivals.len() as u64 == self.conns.get_mut(conn).from(from).sent + 1
        );
        self.schedule_batch(conn, from, first, SegmentBatch::cut(whole, each), arrivals);
    }

    /// Sends a segment.
    pub(super) fn send(&mut self, conn: ConnIndex, from: Side, tcp: TcpSegment) {
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
            || self.is_dropped(conn)
            || self.hosts.get(self.conns.get(conn).host(from)).dark;
        if lost {
            self.record_packet(segment, seq, Fate::Lost);
            return None;
        }
        let effects = self.effects(segment);
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
    fn answer_syn_by_fault(
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

    /// Returns whether the segments of a connection are dropped because it is stale.
    pub(super) fn is_dropped(&self, conn: ConnIndex) -> bool {
        self.options.control && self.conns.get(conn).stale
    }

    /// Computes the arrival time of a segment that leaves at `leaves`.
    fn arrival(&mut self, segment: Segment, effects: link::Effects, leaves: Time) -> Time {
        let (seed, range) = (self.seed(), self.plan.latency);
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
    fn schedule_arrival(&mut self, conn: ConnIndex, from: Side, arrival: Time, tcp: TcpSegment) {
        let n = self.conns.get_mut(conn).from(from).sent;
        let rank = self.rank(conn, from, arrival);
        self.schedule(arrival, rank, Due::Packet { conn, from, n, tcp });
    }

    /// Schedules the arrivals of a batch, whose first segment has the number `first` in its
    /// direction.
    fn schedule_batch(
        &mut self,
        conn: ConnIndex,
        from: Side,
        first: u64,
        batch: SegmentBatch,
        arrivals: Vec<Time>,
    ) {
        debug_assert!(arrivals.is_empty() || arrivals.len() == batch.len());
        let mut arrivals: Vec<_> =
            arrivals.into_iter().map(|at| (at, self.rank(conn, from, at))).collect();
        arrivals.reverse();
        self.queue.push_batch(OnTheWay { conn, from, first, batch, arrivals });
    }

    fn rank(&self, conn: ConnIndex, from: Side, arrival: Time) -> u32 {
        link::rank(self.seed(), conn, from, arrival)
    }

    /// Reduces the window that this segment advertises to the limit of a slow link.
    fn narrow_window(&self, segment: Segment, tcp: &mut TcpSegment) {
        let reverse = Segment { from: segment.from.other(), ..segment };
        if let Some(most) = self.effects(reverse).window {
            tcp.window = tcp.window.min(u16::try_from(most.max(1)).unwrap_or(u16::MAX));
        }
    }

    /// Holds a segment that cannot pass now. Of bare acknowledgements only the newest is kept,
    /// because they are not retransmitted.
    fn hold_segment(&mut self, segment: Segment, tcp: TcpSegment) {
        let now = self.now();
        let direction = self.conns.get_mut(segment.conn).from(segment.from);
        if !segment.in_order() {
            direction.held.forget_acks();
        } else if direction.lost_since.is_none() {
            direction.lost_since = Some(now);
            let due = Due::GiveUp { conn: segment.conn, side: segment.from, since: now };
            self.schedule(now + link::retransmission_limit(segment.opens()), 0, due);
        }
        self.conns.get_mut(segment.conn).from(segment.from).held.push(tcp);
    }

    /// Sends the segments of a direction that faults held, at the next retransmission, if the link
    /// is free now. Later segments that are already in flight arrive after them, because the
    /// receiver keeps those until it has the missing segments. Returns the arrival time of the last
    /// held segment.
    pub(super) fn retransmit(&mut self, conn: ConnIndex, from: Side) -> Option<Time> {
        let now = self.now();
        let direction = &self.conns.get(conn).directions[from as usize];
        let base = direction.base;
        let first =
            direction.held.lowest(base, |tcp| self.facts(conn, from, tcp).in_order())?.clone();
        if self.effects(self.facts(conn, from, &first)).blocked {
            return None;
        }
        let direction = self.conns.get_mut(conn).from(from);
        let mut batches: Vec<_> = direction.held.take().map(|batch| (None, batch)).collect();
        let leaves = match direction.lost_since.take() {
            Some(lost) => {
                batches.extend(
                    self.take_segments_after(conn, from, first.seq)
                        .into_iter()
                        .map(|(n, batch)| (Some(n), batch)),
                );
                link::next_try(lost, now, first.flags.syn && !first.flags.ack)
            }
            None => now,
        };
        let mut last = leaves;
        for (on_its_way, batch) in by_sequence(batches, base) {
            match on_its_way {
                Some(n) => {
                    let arrival = self.conns.get_mut(conn).from(from).last_arrival;
                    let arrivals = vec![arrival; batch.len()];
                    self.schedule_batch(conn, from, n, batch, arrivals);
                }
                None => last = last.max(self.send_again(conn, from, batch, leaves)),
            }
        }
        Some(last)
    }

    /// Sends held segments at `leaves`, except acknowledgements, which leave now. Returns the last
    /// arrival time.
    fn send_again(
        &mut self,
        conn: ConnIndex,
        from: Side,
        batch: SegmentBatch,
        leaves: Time,
    ) -> Time {
        let first = self.conns.get_mut(conn).from(from).sent + 1;
        let mut arrivals = Vec::with_capacity(batch.len());
        for tcp in batch.clone() {
            let segment = self.facts(conn, from, &tcp);
            let effects = self.effects(segment);
            if self.answer_syn_by_fault(segment, effects.opening, &tcp) {
                return leaves;
            }
            let arrival = self.arrival(
                segment,
                effects,
                if segment.in_order() { leaves } else { self.now() },
            );
            self.record_packet(segment, tcp.seq, Fate::Arrives(arrival));
            arrivals.push(arrival);
        }
        debug_assert_eq!(
            first + arrivals.len() as u64,
            self.conns.get_mut(conn).from(from).sent + 1
        );
        let last = arrivals.iter().copied().max().unwrap_or(leaves);
        self.schedule_batch(conn, from, first, batch, arrivals);
        last
    }

    /// Takes back the segments in flight that must stay in order after this sequence number. Each
    /// batch comes with the number of its first segment.
    fn take_segments_after(
        &mut self,
        conn: ConnIndex,
        from: Side,
        seq: u32,
    ) -> Vec<(u64, SegmentBatch)> {
        let mut queue = std::mem::take(&mut self.queue);
        let is_behind = |tcp: &TcpSegment| {
            tcp.seq.wrapping_sub(seq) < u32::MAX / 2 && self.facts(conn, from, tcp).in_order()
        };
        let behind = queue.take_packets(conn, from, is_behind);
        self.queue = queue;
        behind
    }

    /// Makes the kernel of an end give up the connection, because its data has been unacknowledged
    /// for too long.
    pub(super) fn give_up(&mut self, conn: ConnIndex, side: Side, since: Time) {
        let direction = self.conns.get_mut(conn).from(side);
        if direction.lost_since == Some(since) {
            direction.lost_since = None;
            direction.held.clear();
            self.kill(conn, side, ErrorKind::TimedOut);
        }
    }

    /// Handles the arrival of a segment.
    pub(super) fn arrive(&mut self, conn: ConnIndex, from: Side, n: u64, mut tcp: TcpSegment) {
        let segment = self.facts(conn, from, &tcp);
        let to = from.other();
        if self.conns.get(conn).dead || self.is_dropped(conn) {
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
        update_overtaken_ack(direction, n, &mut tcp);
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
        if self.keeps_windows() && is_bare_ack(&tcp) {
            return self.acknowledged(conn, from, &tcp);
        }
        let readable = len > 0 || tcp.flags.fin;
        self.conns.get_mut(conn).arrived |= segment.opens();
        let packet = self.packet(conn, from, tcp);
        match self.stack.deliver(packet, held) {
            DeliveryResult::Taken => {}
            DeliveryResult::Closed => return self.answer_with_reset(conn, to),
            DeliveryResult::Part(bytes) => self.save_received(conn, to, &bytes),
        }
        if readable {
            self.conns.get(conn).end(to).lock().reader.take().into_iter().for_each(Waker::wake);
        }
        if self.keeps_windows() && len > 0 {
            self.acknowledge(conn, to);
        }
        if foreign && segment.flags.syn {
            // The world is not notified when the connection is accepted.
            self.mark_established(conn, Side::Server);
            self.mark_established(conn, Side::Client);
        }
    }

    /// Returns whether the world wakes readers at this end itself. The reader's socket then does
    /// not have to be polled before, and does not have to store its waker.
    pub(super) fn wakes_readers(&self, conn: ConnIndex, at: Side) -> bool {
        !self.keeps_windows() && !self.conns.get(conn).directions[at.other() as usize].finished
    }

    /// Marks an end as established: it is attached to a stream, or its kernel has received the SYN
    /// of a connection that the world did not open.
    pub(super) fn mark_established(&mut self, conn: ConnIndex, side: Side) {
        let state = self.conns.get_mut(conn);
        if !std::mem::replace(&mut state.up[side as usize], true) {
            local::note_on(state.host(side), local::Noted::Entry(EventKind::ConnUp { conn, side }));
        }
    }
}
