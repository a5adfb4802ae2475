//! The queue of future events, ordered by time.

use std::collections::BTreeMap;

use turmoil_net::TcpSegment;

use crate::history::{ConnIndex, Side, Time};

use super::batch::SegmentBatch;
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

/// A segment batch in flight.
#[derive(Debug)]
pub(in crate::world) struct OnTheWay {
    pub conn: ConnIndex,
    pub from: Side,
    /// The number of its first segment in its direction.
    pub first: u64,
    pub batch: SegmentBatch,
    /// The arrival time and rank of each segment, in reverse order.
    pub arrivals: Vec<(Time, u32)>,
}

impl OnTheWay {
    /// Takes the first segment.
    fn next(&mut self) -> Option<Due> {
        self.arrivals.pop()?;
        let (conn, from, n) = (self.conn, self.from, self.first);
        self.first += 1;
        self.batch.next().map(|tcp| Due::Packet { conn, from, n, tcp })
    }
}

/// An entry of the queue.
enum Entry {
    One(Due),
    /// The next segment of a batch.
    Train(Box<OnTheWay>),
}

/// All future events, ordered by time, then by rank within a millisecond, then by the order in
/// which they were added.
#[derive(Default)]
pub(in crate::world) struct Queue {
    due: BTreeMap<(Time, u32, u64), Entry>,
    asked: u64,
}

impl Queue {
    /// Adds an event. Within one millisecond, lower ranks come first.
    pub fn push(&mut self, at: Time, rank: u32, due: Due) {
        self.insert(at, rank, Entry::One(due));
    }

    /// Adds the arrivals of a batch's segments, each at its own time.
    pub fn push_batch(&mut self, mut coming: OnTheWay) {
        match coming.arrivals[..] {
            [] => {}
            [(at, rank)] => coming.next().into_iter().for_each(|due| self.push(at, rank, due)),
            [.., (at, rank)] => self.insert(at, rank, Entry::Train(Box::new(coming))),
        }
    }

    fn insert(&mut self, at: Time, rank: u32, entry: Entry) {
        self.asked += 1;
        self.due.insert((at, rank, self.asked), entry);
    }

    /// Iterates over the segments in flight. The rest of a batch is one segment.
    pub fn packets(&self) -> impl Iterator<Item = (ConnIndex, &TcpSegment)> {
        self.due.values().filter_map(|entry| match entry {
            Entry::One(Due::Packet { conn, tcp, .. }) => Some((*conn, tcp)),
            Entry::Train(coming) => coming.batch.left().map(|left| (coming.conn, left)),
            Entry::One(_) => None,
        })
    }

    /// Takes back segments of a direction that are in flight, each batch with the number of its
    /// first segment. A batch is taken if the predicate accepts its next segment.
    pub fn take_packets(
        &mut self,
        conn: ConnIndex,
        from: Side,
        which: impl Fn(&TcpSegment) -> bool,
    ) -> Vec<(u64, SegmentBatch)> {
        let chosen = |_: &(Time, u32, u64), entry: &mut Entry| match entry {
            Entry::One(Due::Packet { conn: of, from: side, tcp, .. }) => {
                (*of, *side) == (conn, from) && which(tcp)
            }
            Entry::Train(coming) => {
                (coming.conn, coming.from) == (conn, from)
                    && coming.batch.left().is_some_and(&which)
            }
            Entry::One(_) => false,
        };
        let taken = self.due.extract_if(.., chosen).filter_map(|(_, entry)| match entry {
            Entry::One(Due::Packet { n, tcp, .. }) => Some((n, SegmentBatch::alone(tcp))),
            Entry::Train(coming) => Some((coming.first, coming.batch)),
            Entry::One(_) => None,
        });
        taken.collect()
    }

    /// Iterates over the times of all events, in order. An arrival of a single segment comes with
    /// that segment.
    pub fn iter(&self) -> impl Iterator<Item = (Time, Option<(ConnIndex, Side, &TcpSegment)>)> {
        self.due.iter().map(|(key, entry)| match entry {
            Entry::One(Due::Packet { conn, from, tcp, .. }) => (key.0, Some((*conn, *from, tcp))),
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
        let ((_, _, asked), mut coming) = match first.remove_entry() {
            (key, Entry::Train(coming)) => (key, coming),
            (_, Entry::One(due)) => return Some(due),
        };
        let due = coming.next();
        if let Some((at, rank)) = coming.arrivals.last() {
            self.due.insert((*at, *rank, asked), Entry::Train(coming));
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::super::batch::tests::last;
    use super::*;

    /// Returns segments 5 to 8 of a direction, `ab`, `cd`, `ef` and `g`, which arrive a millisecond
    /// apart.
    fn coming() -> OnTheWay {
        let arrivals = (10..14).rev().map(|at| (Time(at), 1)).collect();
        let batch = SegmentBatch::cut(last(100, "abcdefg"), 2);
        OnTheWay { conn: ConnIndex(0), from: Side::Client, first: 5, batch, arrivals }
    }

    fn describe((n, tcp): (u64, TcpSegment)) -> String {
        format!(
            "{n}: {} {}{}",
            tcp.seq,
            String::from_utf8_lossy(&tcp.payload),
            if tcp.flags.fin { " fin" } else { "" }
        )
    }

    fn popped(queue: &mut Queue, now: u64) -> Vec<String> {
        let all = std::iter::from_fn(|| queue.pop(Time(now)));
        all.map(|due| match due {
            Due::Packet { n, tcp, .. } => describe((n, tcp)),
            other => format!("{other:?}"),
        })
        .collect()
    }

    #[test]
    fn the_segments_of_a_batch_arrive_between_other_events() {
        let mut queue = Queue::default();
        queue.push_batch(coming());
        queue.push(Time(11), 2, Due::Heal);
        assert_eq!(queue.next(), Some(Time(10)));
        assert_eq!(popped(&mut queue, 9), [""; 0]);
        assert_eq!(popped(&mut queue, 12), ["5: 100 ab", "6: 102 cd", "Heal", "7: 104 ef"]);
        assert_eq!(queue.packets().map(|(_, tcp)| tcp.payload.len()).collect::<Vec<_>>(), [1]);
        assert_eq!(popped(&mut queue, 99), ["8: 106 g fin"]);
    }

    #[test]
    fn the_rest_of_a_batch_is_taken_back_together() {
        let mut queue = Queue::default();
        queue.push_batch(coming());
        assert_eq!(popped(&mut queue, 11), ["5: 100 ab", "6: 102 cd"]);
        let behind = |tcp: &TcpSegment| tcp.seq > 102;
        assert!(queue.take_packets(ConnIndex(0), Side::Server, behind).is_empty());
        let [(7, batch)] = &queue.take_packets(ConnIndex(0), Side::Client, behind)[..] else {
            panic!("it is one train, from 7 on")
        };
        let taken: Vec<_> = (7..).zip(batch.clone()).map(describe).collect();
        assert_eq!(taken, ["7: 104 ef", "8: 106 g fin"]);
        assert_eq!(queue.next(), None);
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
