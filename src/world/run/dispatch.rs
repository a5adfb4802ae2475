//! Handles the events that are due.

use std::io::ErrorKind;

use crate::world::network::queue::Due;
use crate::world::state::World;

impl World {
    /// Handles an event that is due.
    pub(in crate::world) fn act(&mut self, due: Due) {
        match due {
            Due::Step(step) => self.step(step),
            Due::Packet { conn, from, n, tcp } => self.net.arrive(conn, from, n, tcp),
            Due::Learn { conn, side } => self.net.kill(conn, side, ErrorKind::ConnectionReset),
            Due::Heal => self.heal(),
            Due::Expire(fault) => self.expire(fault),
            Due::Settled(fault) => self.net.end_fault(fault),
            Due::Release(fault) => self.release(fault),
            Due::Restart(host, fault) => self.restart(host, fault),
            Due::GiveUp { conn, side, since } => self.net.give_up(conn, side, since),
        }
    }

    /// Handles the packets that the driver has slept past, and everything else that is overdue.
    pub(in crate::world) fn deliver_passed(&mut self) {
        while let Some(due) = self.net.deliver_passed() {
            self.act(due);
        }
    }
}
