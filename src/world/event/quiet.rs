//! Packets that nobody could notice: nothing is woken for them.
//!
//! Every segment with data is answered by a bare acknowledgement, and most of these change nothing that a task could see: nobody
//! waits for room, and nothing waits to be sent. The director sleeps past them. They arrive in their place all the same: before a task
//! is polled after their time, and before anything that is due later.
//!
//! Nor need the receiver's kernel be given them then: it owes them until its user writes, and could notice how much room there is. What
//! comes behind an acknowledgement in its direction mostly comes before that, and says the same: then the kernel is spared it.

use std::cell::Cell;

use turmoil_net::TcpSegment;

use crate::history::{ConnIndex, Side, Time};
use crate::world::acks::freshen;
use crate::world::link::packets_first;
use crate::world::local;
use crate::world::queue::Due;
use crate::world::state::World;

/// With fewer bytes than this on their way, the sender's buffer has room left: it is four times as large.
const FEW: u32 = 16 * 1024;

/// How many packets the director sleeps past at most: each is looked at whenever it goes to sleep.
const MOST: usize = 4;

thread_local! {
    /// Whether there may be packets that the director has slept past.
    static SLEEPS_PAST: Cell<bool> = const { Cell::new(false) };
}

/// A task is about to be polled: what has come in the meantime is there.
pub(super) fn before_poll() {
    if SLEEPS_PAST.replace(false) {
        local::try_with(World::deliver_passed);
    }
}

impl World {
    /// When the next thing is due that somebody could notice.
    pub(super) fn next_noticed(&self) -> Option<Time> {
        for (n, (at, segment)) in self.queue.iter().enumerate() {
            if n == MOST || !self.is_quiet(segment) {
                return Some(at);
            }
            SLEEPS_PAST.set(true);
        }
        None
    }

    /// Has what the director has slept past arrive.
    pub(super) fn deliver_passed(&mut self) {
        let now = self.now();
        while let Some(quiet) = self.has_passed(now) {
            match self.queue.pop(now) {
                Some(Due::Packet { conn, from, n, tcp }) if quiet => self.owe(conn, from, n, tcp),
                due => due.into_iter().for_each(|due| self.act(due)),
            }
        }
    }

    /// Whether the next thing is quiet, if it was due before this moment, or in it and before its timers.
    fn has_passed(&self, now: Time) -> Option<bool> {
        let (at, segment) = self.queue.iter().next().filter(|(at, _)| *at <= now)?;
        let quiet = self.is_quiet(segment);
        (at < now || quiet && packets_first(self.seed(), self.plan.order, now)).then_some(quiet)
    }

    /// An acknowledgement arrives, which its receiver's kernel need not be given yet. One that was overtaken says nothing.
    fn owe(&mut self, conn: ConnIndex, from: Side, n: u64, mut tcp: TcpSegment) {
        let dropped = self.is_dropped(conn);
        let direction = self.conns.get(conn).from(from);
        let overtaken = direction.seen_ack.is_some_and(|(newest, ..)| newest > n);
        freshen(direction, n, &mut tcp);
        if !overtaken && !dropped {
            direction.owed = Some(tcp);
        }
    }

    /// The user of an end writes, or closes: its kernel is given what it is owed. It knows the connection still: where it was made to
    /// forget it, the end has an error or no user.
    pub(in crate::world) fn settle(&mut self, conn: ConnIndex, at: Side) {
        if let Some(tcp) = self.conns.get(conn).from(at.other()).owed.take() {
            let packet = self.packet(conn, at.other(), tcp);
            self.stack.deliver(packet, true);
        }
    }

    /// Whether nobody could notice what is due: a bare acknowledgement, and no more than that.
    fn is_quiet(&self, segment: Option<(ConnIndex, Side, &TcpSegment)>) -> bool {
        segment.is_some_and(|(conn, from, tcp)| {
            !self.facts(conn, from, tcp).in_order() && self.is_at_ease(conn, from)
        })
    }

    /// Whether an acknowledgement from an end changes nothing at the other: no fault has to do with the connection, which is open,
    /// and all that was written there has left, and has room.
    fn is_at_ease(&self, conn: ConnIndex, from: Side) -> bool {
        let (state, to) = (self.conns.look(conn), from.other());
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
        if !all_left || on_the_way >= FEW.min(window.into()) || self.hosts.get(state.host(to)).dark
        {
            return false;
        }
        let end = state.end(to).lock();
        end.socket.is_some() && end.error.is_none() && !end.dropped
    }
}
