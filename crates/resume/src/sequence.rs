//! Numbered items that arrive in any order, with duplicates and gaps, and are released in order.
//!
//! A [`Sequence`] is the receiver's half of "resume after the last item that you saw". Items are
//! numbered from 1. It holds early items back until every lower one has been released, drops
//! duplicates, and always knows the number from which to request items again.
//!
//! It is bounded. The next item is always accepted, and no other item is dropped for it, because it
//! is released at once. When early items exceed the limits, the *furthest* are dropped: they would
//! be needed last, and a new request from [`published`](Sequence::published) returns them again.
//! The sequence remembers that they existed: [`is_behind`](Sequence::is_behind) stays true until
//! they have been released.
//!
//! It does not request items again (its owner does), and it does not decide that a gap is
//! permanent.

use std::collections::BTreeMap;

use super::Bounds;

/// The result of adding an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertOutcome {
    /// It is the next item, or is held back until all lower ones have arrived.
    Kept,
    /// It arrived before.
    Known,
    /// This item, or one further away, exceeded the limits and was dropped: request it again.
    Dropped,
}

/// Items by number. A prefix of them has been released.
#[derive(Debug)]
pub struct Sequence<T> {
    bounds: Bounds,
    /// The number of the last released item.
    published: u64,
    /// The greatest number seen so far.
    seen: u64,
    /// The waiting items, with their weights.
    pending: BTreeMap<u64, (T, usize)>,
    weight: usize,
}

impl<T> Sequence<T> {
    /// Creates an empty sequence. The next item has the number 1.
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, published: 0, seen: 0, pending: BTreeMap::new(), weight: 0 }
    }

    /// Returns the number of the last released item; 0 before the first.
    pub fn published(&self) -> u64 {
        self.published
    }

    /// Returns the greatest number seen so far; 0 before the first.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Whether some item was seen that cannot be released yet, because an earlier one is missing.
    pub fn is_behind(&self) -> bool {
        self.published < self.seen && !self.has(self.next())
    }

    /// Whether an item with this number waits.
    pub fn has(&self, seq: u64) -> bool {
        self.pending.contains_key(&seq)
    }

    /// Returns the item with this number, if it waits.
    pub fn get(&self, seq: u64) -> Option<&T> {
        self.pending.get(&seq).map(|(item, _)| item)
    }

    /// Returns the waiting items, in order.
    pub fn waiting(&self) -> impl Iterator<Item = (u64, &T)> {
        self.pending.iter().map(|(seq, (item, _))| (*seq, item))
    }

    /// Returns the total weight of the waiting items.
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Adds the item with number `seq`.
    pub fn insert(&mut self, seq: u64, item: T, weight: usize) -> InsertOutcome {
        if seq <= self.published || self.has(seq) {
            return InsertOutcome::Known;
        }
        self.seen = self.seen.max(seq);
        self.weight += weight;
        self.pending.insert(seq, (item, weight));
        if seq == self.next() { InsertOutcome::Kept } else { self.drop_excess() }
    }

    /// Drops the furthest items until the limits hold, but never the next one.
    fn drop_excess(&mut self) -> InsertOutcome {
        let (mut taken, next) = (InsertOutcome::Kept, self.next());
        while self.pending.len() > self.bounds.items || self.weight > self.bounds.weight {
            let Some(furthest) = self.pending.last_entry().filter(|entry| *entry.key() != next)
            else {
                break;
            };
            self.weight -= furthest.remove().1;
            taken = InsertOutcome::Dropped;
        }
        taken
    }

    /// Releases the next item, if it has arrived.
    pub fn pop(&mut self) -> Option<(u64, T)> {
        let next = self.next();
        let (item, weight) = self.pending.remove(&next)?;
        self.weight -= weight;
        self.published = next;
        Some((next, item))
    }

    /// Drops the waiting items. The released ones stay released.
    pub fn clear(&mut self) {
        self.pending.clear();
        self.weight = 0;
        self.seen = self.published;
    }

    fn next(&self) -> u64 {
        self.published.saturating_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(items: usize, weight: usize) -> Sequence<char> {
        Sequence::new(Bounds { items, weight })
    }

    fn drain(sequence: &mut Sequence<char>) -> String {
        std::iter::from_fn(|| sequence.pop()).map(|(_, item)| item).collect()
    }

    #[test]
    fn items_arrive_in_any_order_and_leave_in_order() {
        let mut sequence = sequence(9, 9);
        for (seq, item) in [(4, 'd'), (1, 'a'), (3, 'c')] {
            assert_eq!(sequence.insert(seq, item, 1), InsertOutcome::Kept);
        }
        assert_eq!(
            (drain(&mut sequence).as_str(), sequence.published(), sequence.is_behind()),
            ("a", 1, true)
        );
        assert_eq!(sequence.insert(2, 'b', 1), InsertOutcome::Kept);
        assert!(!sequence.is_behind(), "nothing is missing, it only has to go out");
        assert_eq!(
            (drain(&mut sequence).as_str(), sequence.published(), sequence.is_behind()),
            ("bcd", 4, false)
        );
        assert_eq!((sequence.weight(), sequence.seen()), (0, 4));
    }

    #[test]
    fn a_duplicate_is_dropped_and_the_first_item_stays() {
        let mut sequence = sequence(9, 9);
        sequence.insert(1, 'a', 1);
        drain(&mut sequence);
        assert_eq!(sequence.insert(1, 'x', 1), InsertOutcome::Known);
        sequence.insert(3, 'c', 1);
        assert_eq!(sequence.insert(3, 'x', 1), InsertOutcome::Known);
        assert_eq!((sequence.get(3), sequence.get(2), sequence.weight()), (Some(&'c'), None, 1));
        assert_eq!(sequence.insert(0, 'x', 1), InsertOutcome::Known, "there is no number 0");
    }

    #[test]
    fn over_the_limit_the_furthest_items_are_dropped_but_remembered() {
        let mut sequence = sequence(2, 9);
        sequence.insert(3, 'c', 1);
        sequence.insert(5, 'e', 1);
        assert_eq!(sequence.insert(4, 'd', 1), InsertOutcome::Dropped, "5 had to go for it");
        assert_eq!(sequence.waiting().map(|(seq, _)| seq).collect::<Vec<_>>(), [3, 4]);
        assert_eq!(sequence.insert(6, 'f', 1), InsertOutcome::Dropped, "it is itself the furthest");
        sequence.insert(2, 'b', 1);
        sequence.insert(1, 'a', 1);
        assert_eq!(
            (drain(&mut sequence).as_str(), sequence.is_behind(), sequence.seen()),
            ("abc", true, 6)
        );
    }

    #[test]
    fn the_next_item_is_accepted_over_the_limit() {
        let mut sequence = sequence(0, 0);
        assert_eq!(sequence.insert(1, 'a', 100), InsertOutcome::Kept);
        assert_eq!(sequence.insert(2, 'b', 100), InsertOutcome::Dropped);
        assert_eq!(drain(&mut sequence), "a");
        assert_eq!(sequence.insert(2, 'b', 100), InsertOutcome::Kept);
        assert_eq!(
            (drain(&mut sequence).as_str(), sequence.weight(), sequence.is_behind()),
            ("b", 0, false)
        );
    }

    #[test]
    fn weight_is_limited_like_the_number_of_items() {
        let mut sequence = sequence(9, 10);
        assert_eq!(sequence.insert(2, 'b', 6), InsertOutcome::Kept);
        assert_eq!(sequence.insert(3, 'c', 4), InsertOutcome::Kept);
        assert_eq!(sequence.insert(4, 'd', 1), InsertOutcome::Dropped);
        assert_eq!(sequence.weight(), 10);
        assert_eq!(sequence.insert(2, 'x', 1), InsertOutcome::Known);
        assert_eq!(
            sequence.insert(1, 'a', 6),
            InsertOutcome::Kept,
            "nothing has to go for what goes out at once"
        );
        assert_eq!(
            (drain(&mut sequence).as_str(), sequence.weight(), sequence.is_behind()),
            ("abc", 0, true)
        );
    }

    #[test]
    fn cleared_items_are_not_expected_any_more() {
        let mut sequence = sequence(9, 9);
        sequence.insert(1, 'a', 1);
        sequence.insert(7, 'g', 1);
        drain(&mut sequence);
        sequence.clear();
        assert_eq!((sequence.published(), sequence.is_behind(), sequence.weight()), (1, false, 0));
    }

    #[test]
    fn the_greatest_number_causes_no_overflow() {
        let mut sequence = sequence(9, 9);
        assert_eq!(sequence.insert(u64::MAX, 'z', 1), InsertOutcome::Kept);
        assert_eq!((sequence.pop(), sequence.is_behind()), (None, true));
    }
}
