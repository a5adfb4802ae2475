//! Numbered items that come in any order, more than once, or not at all, and go out in order.
//!
//! A [`Sequence`] is the receiver's half of "resume after the last one that you saw". Items are numbered from 1. It holds early
//! ones back until every lower one has gone out, drops what it knows already, and can always say from where to ask again.
//!
//! It is bounded. An item that is next is always taken, and nothing is let go for it, for it does not stay. When early ones exceed the bounds, the *furthest*
//! are let go: they are the last to be of use, and whoever asks again from [`published`](Sequence::published) gets them once
//! more. That they were there is not forgotten: [`is_behind`](Sequence::is_behind) stays true until they went out.
//!
//! What it does not do: ask again (its owner knows how), or decide that a hole is there for good.

use std::collections::BTreeMap;

use super::Bounds;

/// What became of an item that came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is next, or is held back until all lower ones are there.
    Kept,
    /// It was there before, or went out before.
    Known,
    /// It, or one further away, exceeded the bounds and was let go: ask again.
    Dropped,
}

/// Items by their numbers, of which a prefix has gone out.
#[derive(Debug)]
pub struct Sequence<T> {
    bounds: Bounds,
    /// The number of the last item that went out.
    published: u64,
    /// The greatest number that was ever seen.
    seen: u64,
    /// What waits, with its weight.
    pending: BTreeMap<u64, (T, usize)>,
    weight: usize,
}

impl<T> Sequence<T> {
    /// Nothing went out yet: the next item is number 1.
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, published: 0, seen: 0, pending: BTreeMap::new(), weight: 0 }
    }

    /// The number of the last item that went out; 0 before the first.
    pub fn published(&self) -> u64 {
        self.published
    }

    /// The greatest number that was ever seen; 0 before the first.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Whether something was seen that could not go out yet, as something before it is missing.
    pub fn is_behind(&self) -> bool {
        self.published < self.seen && !self.has(self.next())
    }

    /// Whether an item of this number waits.
    pub fn has(&self, seq: u64) -> bool {
        self.pending.contains_key(&seq)
    }

    /// The item of this number, if it waits.
    pub fn get(&self, seq: u64) -> Option<&T> {
        self.pending.get(&seq).map(|(item, _)| item)
    }

    /// What waits, in order.
    pub fn waiting(&self) -> impl Iterator<Item = (u64, &T)> {
        self.pending.iter().map(|(seq, (item, _))| (*seq, item))
    }

    /// How much all that waits weighs.
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Takes in the item number `seq`, which weighs so much.
    pub fn insert(&mut self, seq: u64, item: T, weight: usize) -> Taken {
        if seq <= self.published || self.has(seq) {
            return Taken::Known;
        }
        self.seen = self.seen.max(seq);
        self.weight += weight;
        self.pending.insert(seq, (item, weight));
        if seq == self.next() { Taken::Kept } else { self.let_go() }
    }

    /// Lets the furthest items go until the bounds are kept, but never the next one.
    fn let_go(&mut self) -> Taken {
        let (mut taken, next) = (Taken::Kept, self.next());
        while self.pending.len() > self.bounds.items || self.weight > self.bounds.weight {
            let Some(furthest) = self.pending.last_entry().filter(|entry| *entry.key() != next)
            else {
                break;
            };
            self.weight -= furthest.remove().1;
            taken = Taken::Dropped;
        }
        taken
    }

    /// The next item, if it is there: it has gone out with this.
    pub fn pop(&mut self) -> Option<(u64, T)> {
        let next = self.next();
        let (item, weight) = self.pending.remove(&next)?;
        self.weight -= weight;
        self.published = next;
        Some((next, item))
    }

    /// Throws away what waits; what went out stays so.
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
    fn what_comes_in_any_order_goes_out_in_order() {
        let mut sequence = sequence(9, 9);
        for (seq, item) in [(4, 'd'), (1, 'a'), (3, 'c')] {
            assert_eq!(sequence.insert(seq, item, 1), Taken::Kept);
        }
        assert_eq!(
            (drain(&mut sequence).as_str(), sequence.published(), sequence.is_behind()),
            ("a", 1, true)
        );
        assert_eq!(sequence.insert(2, 'b', 1), Taken::Kept);
        assert!(!sequence.is_behind(), "nothing is missing, it only has to go out");
        assert_eq!(
            (drain(&mut sequence).as_str(), sequence.published(), sequence.is_behind()),
            ("bcd", 4, false)
        );
        assert_eq!((sequence.weight(), sequence.seen()), (0, 4));
    }

    #[test]
    fn what_is_known_is_dropped_and_the_first_one_stays() {
        let mut sequence = sequence(9, 9);
        sequence.insert(1, 'a', 1);
        drain(&mut sequence);
        assert_eq!(sequence.insert(1, 'x', 1), Taken::Known);
        sequence.insert(3, 'c', 1);
        assert_eq!(sequence.insert(3, 'x', 1), Taken::Known);
        assert_eq!((sequence.get(3), sequence.get(2), sequence.weight()), (Some(&'c'), None, 1));
        assert_eq!(sequence.insert(0, 'x', 1), Taken::Known, "there is no number 0");
    }

    #[test]
    fn too_many_let_the_furthest_go_and_are_not_forgotten() {
        let mut sequence = sequence(2, 9);
        sequence.insert(3, 'c', 1);
        sequence.insert(5, 'e', 1);
        assert_eq!(sequence.insert(4, 'd', 1), Taken::Dropped, "5 had to go for it");
        assert_eq!(sequence.waiting().map(|(seq, _)| seq).collect::<Vec<_>>(), [3, 4]);
        assert_eq!(sequence.insert(6, 'f', 1), Taken::Dropped, "it is itself the furthest");
        sequence.insert(2, 'b', 1);
        sequence.insert(1, 'a', 1);
        assert_eq!(
            (drain(&mut sequence).as_str(), sequence.is_behind(), sequence.seen()),
            ("abc", true, 6)
        );
    }

    #[test]
    fn the_next_one_is_taken_even_beyond_the_bounds() {
        let mut sequence = sequence(0, 0);
        assert_eq!(sequence.insert(1, 'a', 100), Taken::Kept);
        assert_eq!(sequence.insert(2, 'b', 100), Taken::Dropped);
        assert_eq!(drain(&mut sequence), "a");
        assert_eq!(sequence.insert(2, 'b', 100), Taken::Kept);
        assert_eq!(
            (drain(&mut sequence).as_str(), sequence.weight(), sequence.is_behind()),
            ("b", 0, false)
        );
    }

    #[test]
    fn weight_is_bounded_as_items_are() {
        let mut sequence = sequence(9, 10);
        assert_eq!(sequence.insert(2, 'b', 6), Taken::Kept);
        assert_eq!(sequence.insert(3, 'c', 4), Taken::Kept);
        assert_eq!(sequence.insert(4, 'd', 1), Taken::Dropped);
        assert_eq!(sequence.weight(), 10);
        assert_eq!(sequence.insert(2, 'x', 1), Taken::Known);
        assert_eq!(
            sequence.insert(1, 'a', 6),
            Taken::Kept,
            "nothing has to go for what goes out at once"
        );
        assert_eq!(
            (drain(&mut sequence).as_str(), sequence.weight(), sequence.is_behind()),
            ("abc", 0, true)
        );
    }

    #[test]
    fn what_is_cleared_is_no_longer_owed() {
        let mut sequence = sequence(9, 9);
        sequence.insert(1, 'a', 1);
        sequence.insert(7, 'g', 1);
        drain(&mut sequence);
        sequence.clear();
        assert_eq!((sequence.published(), sequence.is_behind(), sequence.weight()), (1, false, 0));
    }

    #[test]
    fn the_greatest_number_overflows_nothing() {
        let mut sequence = sequence(9, 9);
        assert_eq!(sequence.insert(u64::MAX, 'z', 1), Taken::Kept);
        assert_eq!((sequence.pop(), sequence.is_behind()), (None, true));
    }
}
