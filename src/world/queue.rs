//! What is still to come, by time.

use std::collections::BTreeMap;
use std::io::ErrorKind;

use turmoil_net::TcpSegment;

use crate::history::{ConnIndex, Side, Time};

use super::local::HostIx;
use super::state::World;

/// Something that is to happen at a time.
#[derive(Debug)]
pub(super) enum Due {
    /// A step of the schedule.
    Step(usize),
    /// A segment arrives: the n-th of its direction.
    Packet { conn: ConnIndex, from: Side, n: u64, tcp: TcpSegment },
    /// An end of a connection that was cut learns of it.
    Learn { conn: ConnIndex, side: Side },
    /// The healed tail begins.
    Heal,
    /// The time of a fault is up.
    Expire(usize),
    /// What a fault held has arrived.
    Settled(usize),
    /// A task that is held at a point goes on: the hold of this number.
    Release(usize),
    /// A host that is down starts again; the fault that took it down.
    Restart(HostIx, Option<usize>),
    /// What an end sent stays unacknowledged for too long; with the moment when it was first lost.
    GiveUp { conn: ConnIndex, side: Side, since: Time },
}

/// All that is due, in order: by time, then within a millisecond by rank, then in the order of being asked for.
#[derive(Default)]
pub(super) struct Queue {
    due: BTreeMap<(Time, u32, u64), Due>,
    asked: u64,
}

impl Queue {
    /// Has something happen at a time. Within one millisecond, lower ranks come first.
    pub fn push(&mut self, at: Time, rank: u32, due: Due) {
        self.asked += 1;
        self.due.insert((at, rank, self.asked), due);
    }

    /// The segments that are on their way.
    pub fn packets(&self) -> impl Iterator<Item = (ConnIndex, &TcpSegment)> {
        self.due.values().filter_map(|due| match due {
            Due::Packet { conn, tcp, .. } => Some((*conn, tcp)),
            _ => None,
        })
    }

    /// Takes segments off their way, with their numbers.
    pub fn take_packets(&mut self, which: impl Fn(ConnIndex, Side, &TcpSegment) -> bool) -> Vec<(u64, TcpSegment)> {
        let chosen = |_: &(Time, u32, u64), due: &mut Due| match due {
            Due::Packet { conn, from, tcp, .. } => which(*conn, *from, tcp),
            _ => false,
        };
        let taken = self.due.extract_if(.., chosen).filter_map(|(_, due)| match due {
            Due::Packet { n, tcp, .. } => Some((n, tcp)),
            _ => None,
        });
        taken.collect()
    }

    /// All that is due, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Time, &Due)> {
        self.due.iter().map(|(key, due)| (key.0, due))
    }

    /// When the next thing is due.
    pub fn next(&self) -> Option<Time> {
        self.due.first_key_value().map(|(key, _)| key.0)
    }

    /// Takes the next thing that is due by `now`.
    pub fn pop(&mut self, now: Time) -> Option<Due> {
        (self.next()? <= now).then(|| self.due.pop_first().expect("there is a next").1)
    }
}

impl World {
    /// Does what is due.
    pub(super) fn act(&mut self, due: Due) {
        match due {
            Due::Step(step) => self.step(step),
            Due::Packet { conn, from, n, tcp } => self.arrive(conn, from, n, tcp),
            Due::Learn { conn, side } => self.kill(conn, side, ErrorKind::ConnectionReset),
            Due::Heal => self.heal(),
            Due::Expire(fault) => self.expire(fault),
            Due::Settled(fault) => self.end_fault(fault),
            Due::Release(fault) => self.release(fault),
            Due::Restart(host, fault) => self.restart(host, fault),
            Due::GiveUp { conn, side, since } => self.give_up(conn, side, since),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_time_then_rank_then_asking() {
        let mut queue = Queue::default();
        for (at, rank, step) in [(2, 0, 0), (1, 7, 1), (1, 3, 2), (1, 7, 3)] {
            queue.push(Time(at), rank, Due::Step(step));
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop(Time(1)))
            .map(|due| match due {
                Due::Step(n) => n,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(order, [2, 1, 3]);
        assert_eq!(queue.next(), Some(Time(2)));
    }
}
