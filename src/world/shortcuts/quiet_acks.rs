//! Quiet packets: packets without a visible effect, for which the engine wakes no task.
//!
//! Every data segment is answered by a bare acknowledgement. Most of these have no effect that a
//! task could see: no task waits for room, and no data waits to be sent. The driver sleeps past
//! them. They still arrive in order: before a task is polled after their time, and before any event
//! that is due later.
//!
//! Their delivery to the receiver's kernel is deferred until the receiver's user writes, because
//! only then the available room is visible. A later segment of the same direction usually arrives
//! first and carries the same acknowledgement. The kernel then never gets the earlier one.

use std::cell::Cell;

use turmoil_net::TcpSegment;

use crate::history::{ConnIndex, Side, Time};

use crate::world::network::SimNet;
use crate::world::network::queue::Due;

/// With fewer bytes than this in flight, the sender's buffer has room, because it is four times as
/// large.
const FEW: u32 = 16 * 1024;

/// The largest number of packets that the driver sleeps past. All of them are checked each time it
/// goes to sleep.
const MOST: usize = 4;

thread_local! {
    /// Whether there may be packets that the driver has slept past.
    static SLEEPS_PAST: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether the driver may have slept past packets since the last call.
pub(in crate::world) fn take_slept_past() -> bool {
    SLEEPS_PAST.replace(false)
}

impl SimNet {
    /// Returns the time of the next event that has a visible effect.
    pub fn next_noticed(&self) -> Option<Time> {
        for (n, (at, segment)) in self.timeline.queue.iter().enumerate() {
            if n == MOST || !self.is_quiet(segment) {
                return Some(at);
            }
            SLEEPS_PAST.set(true);
        }
        None
    }

    /// Handles the arrival of the packets that the driver has slept past. Returns the first other
    /// event that is overdue.
    pub fn deliver_passed(&mut self) -> Option<Due> {
        let now = self.now();
        while let Some(quiet) = self.has_passed(now) {
            match self.timeline.queue.pop(now) {
                Some(Due::Packet { conn, from, n, tcp }) if quiet => {
                    self.defer_ack(conn, from, n, tcp)
                }
                due => return due,
            }
        }
        None
    }

    /// Returns whether the next event is a quiet packet, or `None` if that event is not overdue. An
    /// event is overdue if it was due before now. A quiet packet that is due now is also overdue if
    /// packets come before timers.
    fn has_passed(&self, now: Time) -> Option<bool> {
        let (at, segment) = self.timeline.queue.iter().next().filter(|(at, _)| *at <= now)?;
        let quiet = self.is_quiet(segment);
        (at < now || quiet && self.packets_first(now)).then_some(quiet)
    }

    /// Stores an acknowledgement that arrives now and whose delivery to the kernel is deferred.
    /// Ignores one that a newer acknowledgement has overtaken.
    fn defer_ack(&mut self, conn: ConnIndex, from: Side, n: u64, mut tcp: TcpSegment) {
        let dropped = self.is_dropped(conn, from, 0);
        let direction = self.conns.get_mut(conn).from(from);
        let overtaken = direction.seen_ack.is_some_and(|(newest, ..)| newest > n);
        direction.update_overtaken_ack(n, &mut tcp);
        if !overtaken && !dropped {
            direction.owed = Some(tcp);
        }
    }

    /// Delivers the deferred acknowledgement to the kernel of an end, because its user writes or
    /// closes. The kernel still knows the connection: if it had been made to forget it, the end
    /// would have an error or no user.
    pub fn deliver_deferred_ack(&mut self, conn: ConnIndex, at: Side) {
        if let Some(tcp) = self.conns.get_mut(conn).from(at.other()).owed.take() {
            let packet = self.packet(conn, at.other(), tcp);
            self.stack.deliver(packet, true);
        }
    }

    /// Returns whether a future event has no visible effect: it is the arrival of a bare
    /// acknowledgement that changes nothing.
    fn is_quiet(&self, segment: Option<(ConnIndex, Side, &TcpSegment)>) -> bool {
        self.settings.quiet_acks
            && segment.is_some_and(|(conn, from, tcp)| {
                !self.facts(conn, from, tcp).in_order() && self.is_ack_redundant(conn, from)
            })
    }

    /// Returns whether an acknowledgement from an end changes nothing at the other end: no fault
    /// targets the connection, the connection is open, and all data that was written there has left
    /// and has room.
    fn is_ack_redundant(&self, conn: ConnIndex, from: Side) -> bool {
        let (state, to) = (self.conns.get(conn), from.other());
        let [behind, ahead] = [from, to].map(|side| &state.directions[side as usize]);
        let touched =
            || self.faults.active.iter().any(|fault| fault.target.holds(&self.conns, conn));
        if state.dead
            || state.foreign
            || ahead.closed
            || ahead.forgotten
            || !state.is_up(to)
            || touched()
        {
            return false;
        }
        let Some((_, acknowledged, window)) = behind.seen_ack else { return false };
        let on_the_way = ahead.next.wrapping_sub(acknowledged);
        let all_left = ahead.next.wrapping_sub(ahead.base) == ahead.written as u32;
        if !all_left
            || on_the_way >= FEW.min(window.into())
            || self.directory.is_dark(state.host(to))
        {
            return false;
        }
        let end = state.end(to).lock();
        end.socket.is_some() && end.error.is_none() && !end.dropped
    }
}
