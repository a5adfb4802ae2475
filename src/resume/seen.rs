//! The ids of what took effect, so that a repetition does not.
//!
//! Bounded, first in, first out: whoever repeats an id after as many others gets its effect a second time. Whoever repeats
//! keeps fewer than that under way.

use std::collections::{BTreeSet, VecDeque};

/// The newest ids.
#[derive(Debug)]
pub struct Seen<K> {
    most: usize,
    known: BTreeSet<K>,
    order: VecDeque<K>,
}

impl<K: Ord + Clone> Seen<K> {
    /// None yet; at most `most` are kept.
    pub fn new(most: usize) -> Self {
        Self { most, known: BTreeSet::new(), order: VecDeque::new() }
    }

    /// Whether this id is known.
    pub fn contains(&self, id: &K) -> bool {
        self.known.contains(id)
    }

    /// Keeps an id. Returns whether it is new.
    pub fn insert(&mut self, id: K) -> bool {
        if !self.known.insert(id.clone()) {
            return false;
        }
        self.order.push_back(id);
        if self.order.len() > self.most {
            let oldest = self.order.pop_front().expect("there is one more than at most");
            self.known.remove(&oldest);
        }
        true
    }

    /// How many are kept.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_new_once() {
        let mut seen = Seen::new(2);
        assert!(seen.is_empty() && !seen.contains(&"a"));
        assert!(seen.insert("a"));
        assert!(seen.contains(&"a") && !seen.insert("a"));
        assert_eq!(seen.len(), 1);
    }

    /// A repetition does not make an id younger: the order is that of the effects.
    #[test]
    fn the_oldest_goes_first() {
        let mut seen = Seen::new(2);
        for id in ["a", "b", "a", "c"] {
            seen.insert(id);
        }
        assert_eq!((seen.contains(&"a"), seen.contains(&"b"), seen.contains(&"c"), seen.len()), (false, true, true, 2));
        assert!(seen.insert("a"));
    }

    #[test]
    fn who_keeps_none_knows_none() {
        let mut seen = Seen::new(0);
        assert!(seen.insert("a") && seen.insert("a") && seen.is_empty());
    }
}
