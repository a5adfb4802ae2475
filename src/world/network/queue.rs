//! The queue of future events, ordered by time.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use turmoil_net::TcpSegment;

use crate::history::{ConnIndex, Side, Time};

use crate::world::thread::HostIx;

/// A future event.
#[derive(Debug)]
pub(in crate::world) enum Due {
    /// A step of the schedule.
    Step(usize),
    /// A segment arrives: the n-th of its direction.
    Packet { conn: ConnIndex, from: Side, n: u64, tcp: TcpSegment },
    /// One end of a cut connection detects the cut.
    Learn { conn: ConnIndex, side: Side },
    /// The healed tail begins.
    Heal,
    /// The time of a fault is up.
    Expire(usize),
    /// The segments that a fault held or delayed have arrived.
    Settled(usize),
    /// A task that is held at a point continues. Contains the number of the hold's fault.
    Release(usize),
    /// A host that is down restarts. Contains the fault that took it down, if known.
    Restart(HostIx, Option<usize>),
    /// Data of an end has been unacknowledged for too long. `since` is the time when it was first
    /// lost.
    GiveUp { conn: ConnIndex, side: Side, since: Time },
}

impl Due {
    /// Returns the direction of a reset that arrives.
    fn reset(&self) -> Option<(ConnIndex, Side)> {
        match self {
            Self::Packet { conn, from, tcp, .. } if tcp.flags.rst => Some((*conn, *from)),
            _ => None,
        }
    }
}

/// All future events, ordered by time, then by rank within a millisecond, then by the order in
/// which they were added.
#[derive(Default)]
pub(in crate::world) struct Queue {
    due: BTreeMap<(Time, u32, u64), Due>,
    asked: u64,
    /// The number of resets in flight, by direction. A direction without any has no entry. A search through
    /// all segments in flight would be slow.
    resets: BTreeMap<(ConnIndex, Side), usize>,
}

impl Queue {
    /// Adds an event. Within one millisecond, lower ranks come first.
    pub fn push(&mut self, at: Time, rank: u32, due: Due) {
        self.asked += 1;
        if let Some(direction) = due.reset() {
            *self.resets.entry(direction).or_default() += 1;
        }
        self.due.insert((at, rank, self.asked), due);
    }

    /// Iterates over the segments in flight.
    pub fn packets(&self) -> impl Iterator<Item = (ConnIndex, &TcpSegment)> {
        self.iter().filter_map(|(_, segment)| segment.map(|(conn, _, tcp)| (conn, tcp)))
    }

    /// Takes back segments of a direction that are in flight, each with its number in the direction.
    pub fn take_packets(
        &mut self,
        conn: ConnIndex,
        from: Side,
        which: impl Fn(&TcpSegment) -> bool,
    ) -> Vec<(u64, TcpSegment)> {
        let chosen = |_: &(Time, u32, u64), due: &mut Due| match due {
            Due::Packet { conn: of, from: side, tcp, .. } => {
                (*of, *side) == (conn, from) && which(tcp)
            }
            _ => false,
        };
        let taken: Vec<Due> = self.due.extract_if(.., chosen).map(|(_, due)| due).collect();
        taken.iter().for_each(|due| self.forget_reset(due));
        let segments = taken.into_iter().filter_map(|due| match due {
            Due::Packet { n, tcp, .. } => Some((n, tcp)),
            _ => None,
        });
        segments.collect()
    }

    /// Returns whether a reset of a direction is in flight.
    pub fn has_reset(&self, conn: ConnIndex, from: Side) -> bool {
        self.resets.contains_key(&(conn, from))
    }

    fn forget_reset(&mut self, due: &Due) {
        let Some(direction) = due.reset() else { return };
        if let Entry::Occupied(mut resets) = self.resets.entry(direction) {
            *resets.get_mut() -= 1;
            if *resets.get() == 0 {
                resets.remove();
            }
        }
    }

    /// Iterates over the times of all events, in order. The arrival of a segment comes with that
    /// segment.
    pub fn iter(&self) -> impl Iterator<Item = (Time, Option<(ConnIndex, Side, &TcpSegment)>)> {
        self.due.iter().map(|(key, due)| match due {
            Due::Packet { conn, from, tcp, .. } => (key.0, Some((*conn, *from, tcp))),
            _ => (key.0, None),
        })
    }

    /// Returns the time of the next event.
    pub fn next(&self) -> Option<Time> {
        self.due.first_key_value().map(|(key, _)| key.0)
    }

    /// Takes the next event that is due by `now`.
    pub fn pop(&mut self, now: Time) -> Option<Due> {
        let first = self.due.first_entry().filter(|entry| entry.key().0 <= now)?;
        let due = first.remove();
        self.forget_reset(&due);
        Some(due)
    }
}

#[cfg(test)]
mod tests {
    use super::super::held::tests::segment;
    use super::*;

    #[test]
    fn segments_of_a_direction_are_taken_back() {
        let mut queue = Queue::default();
        for (n, (from, seq)) in
            (5..).zip([(Side::Client, 100), (Side::Client, 102), (Side::Server, 104)])
        {
            let due = Due::Packet { conn: ConnIndex(0), from, n, tcp: segment(seq, "ab") };
            queue.push(Time(n), 1, due);
        }
        let behind = |tcp: &TcpSegment| tcp.seq > 100;
        let taken = queue.take_packets(ConnIndex(0), Side::Client, behind);
        assert_eq!(taken.iter().map(|(n, tcp)| (*n, tcp.seq)).collect::<Vec<_>>(), [(6, 102)]);
        let left: Vec<_> = queue.packets().map(|(_, tcp)| tcp.seq).collect();
        assert_eq!(left, [100, 104]);
    }

    #[test]
    fn resets_in_flight_are_known() {
        let mut queue = Queue::default();
        let conn = ConnIndex(0);
        for n in 0..3 {
            let mut tcp = segment(100, "");
            tcp.flags.rst = n > 0;
            queue.push(Time(n), 1, Due::Packet { conn, from: Side::Client, n, tcp });
        }
        assert!(!queue.has_reset(conn, Side::Server));
        assert!(queue.pop(Time(0)).is_some() && queue.pop(Time(1)).is_some());
        assert!(queue.has_reset(conn, Side::Client));
        assert_eq!(queue.take_packets(conn, Side::Client, |tcp| tcp.flags.rst).len(), 1);
        assert!(!queue.has_reset(conn, Side::Client));
    }

    #[test]
    fn events_are_ordered_by_time_then_rank_then_insertion() {
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
