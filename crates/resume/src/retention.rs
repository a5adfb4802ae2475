//! The newest items of a numbered sequence, within limits.
//!
//! Each item keeps its number, and there may be gaps: some members of a sequence may be stored
//! elsewhere. A reader asks by number, and must itself notice that an item is no longer available.

use std::collections::VecDeque;

/// The limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The maximum number of items.
    pub items: usize,
    /// The maximum total weight, usually in bytes.
    pub weight: usize,
}

/// The newest items of a sequence. The newest item always stays, whatever its weight.
#[derive(Debug)]
pub struct Retention<T> {
    bounds: Bounds,
    kept: VecDeque<RetainedItem<T>>,
    weight: usize,
}

#[derive(Debug)]
struct RetainedItem<T> {
    number: u64,
    weight: usize,
    item: T,
}

impl<T> Retention<T> {
    /// Creates an empty retention.
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, kept: VecDeque::new(), weight: 0 }
    }

    /// Adds the item with this number, and removes the oldest items if the limits are exceeded.
    /// Returns the number of the newest removed item.
    ///
    /// # Panics
    /// If `number` is not greater than the number of every earlier item.
    pub fn push(&mut self, number: u64, weight: usize, item: T) -> Option<u64> {
        assert!(self.newest().is_none_or(|newest| newest < number), "numbers ascend");
        let goes = self.would_evict(weight);
        while self.kept.front().is_some_and(|kept| Some(kept.number) <= goes) {
            self.weight -= self.kept.pop_front().map_or(0, |kept| kept.weight);
        }
        self.weight += weight;
        self.kept.push_back(RetainedItem { number, weight, item });
        goes
    }

    /// Returns the number of the newest item that a push with this weight would remove.
    pub fn would_evict(&self, weight: usize) -> Option<u64> {
        self.would_evict_for(&[weight])
    }

    /// Returns the number of the newest item that pushes with these weights, one after the other, would
    /// remove. Only the items that are there now count.
    pub fn would_evict_for(&self, weights: &[usize]) -> Option<u64> {
        let mut items = self.kept.len() + weights.len();
        let mut total = self.weight + weights.iter().sum::<usize>();
        let mut goes = None;
        for kept in &self.kept {
            if items <= self.bounds.items && total <= self.bounds.weight {
                break;
            }
            (items, total) = (items - 1, total - kept.weight);
            goes = Some(kept.number);
        }
        goes
    }

    /// Returns the items from `number` on, in order.
    pub fn since(
        &self,
        number: u64,
    ) -> impl DoubleEndedIterator<Item = (u64, &T)> + ExactSizeIterator {
        let first = self.kept.partition_point(|kept| kept.number < number);
        self.kept.range(first..).map(|kept| (kept.number, &kept.item))
    }

    /// Returns the items up to `number`, in order.
    pub fn up_to(
        &self,
        number: u64,
    ) -> impl DoubleEndedIterator<Item = (u64, &T)> + ExactSizeIterator {
        let end = self.kept.partition_point(|kept| kept.number <= number);
        self.kept.range(..end).map(|kept| (kept.number, &kept.item))
    }

    /// Returns the number of the oldest item.
    pub fn oldest(&self) -> Option<u64> {
        self.kept.front().map(|kept| kept.number)
    }

    /// Returns the number of the newest item.
    pub fn newest(&self) -> Option<u64> {
        self.kept.back().map(|kept| kept.number)
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Returns the total weight.
    pub fn weight(&self) -> usize {
        self.weight
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pushes items with these weights, numbered from 1, and returns the numbers that are kept.
    fn numbers(items: usize, weight: usize, weights: &[usize]) -> Vec<u64> {
        let mut retention = Retention::new(Bounds { items, weight });
        for (number, weight) in (1..).zip(weights) {
            retention.push(number, *weight, ());
        }
        retention.since(0).map(|(number, ())| number).collect()
    }

    #[test]
    fn items_that_just_fit_are_kept() {
        assert_eq!(numbers(3, 6, &[1, 2, 3]), [1, 2, 3]);
        assert_eq!(numbers(2, 6, &[1, 2, 3]), [2, 3]);
        assert_eq!(numbers(3, 5, &[1, 2, 3]), [2, 3]);
    }

    #[test]
    fn one_heavy_item_removes_many_light_ones() {
        assert_eq!(numbers(9, 5, &[1, 1, 1, 1, 1, 4]), [5, 6]);
    }

    #[test]
    fn the_newest_item_stays_at_any_weight() {
        assert_eq!(numbers(9, 5, &[1, 100]), [2]);
        assert_eq!(numbers(0, 0, &[1, 1]), [2]);
        assert_eq!(numbers(9, 5, &[100, 5]), [2]);
    }

    #[test]
    fn would_evict_predicts_what_push_removes() {
        let mut retention = Retention::new(Bounds { items: 3, weight: 10 });
        assert_eq!(retention.would_evict(99), None);
        retention.push(2, 4, 'a');
        retention.push(5, 4, 'b');
        assert_eq!(
            (retention.would_evict(2), retention.would_evict(3), retention.would_evict(7)),
            (None, Some(2), Some(5))
        );
        let for_both = |weights: [usize; 2]| retention.would_evict_for(&weights);
        assert_eq!(
            (for_both([1, 1]), for_both([1, 9]), for_both([99, 1])),
            (Some(2), Some(5), Some(5))
        );
        assert_eq!((retention.len(), retention.weight()), (2, 8));
        assert_eq!(retention.push(6, 7, 'c'), Some(5));
        assert_eq!(
            (retention.len(), retention.weight(), retention.oldest(), retention.newest()),
            (1, 7, Some(6), Some(6))
        );
    }

    #[test]
    fn readers_use_numbers_and_gaps_are_allowed() {
        let mut retention = Retention::new(Bounds { items: 9, weight: 9 });
        assert!(retention.is_empty() && retention.since(0).len() == 0);
        retention.push(2, 1, 'a');
        retention.push(5, 1, 'b');
        let since = |number| {
            retention.since(number).map(|(number, item)| (number, *item)).collect::<Vec<_>>()
        };
        assert_eq!(since(1), [(2, 'a'), (5, 'b')]);
        assert_eq!((since(3), since(5), since(6)), (vec![(5, 'b')], vec![(5, 'b')], vec![]));
        let up_to = |number| {
            retention.up_to(number).map(|(number, item)| (number, *item)).collect::<Vec<_>>()
        };
        assert_eq!(up_to(1), []);
        assert_eq!((up_to(2), up_to(4)), (vec![(2, 'a')], vec![(2, 'a')]));
        assert_eq!(up_to(5), [(2, 'a'), (5, 'b')]);
    }

    #[test]
    #[should_panic(expected = "numbers ascend")]
    fn a_number_is_used_once() {
        let mut retention = Retention::new(Bounds { items: 9, weight: 9 });
        retention.push(2, 1, ());
        retention.push(2, 1, ());
    }
}
