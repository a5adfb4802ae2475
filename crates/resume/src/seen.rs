//! The ids of what took effect, so that a repetition does not.
//!
//! Bounded, first in, first out: whoever repeats an id after as many others gets its effect a second time. Whoever repeats
//! keeps fewer than that under way.

use std::collections::{BTreeMap, VecDeque};

/// The newest ids, each with what came of it, where a repetition is told.
#[derive(Debug)]
pub struct Seen<K, V = ()> {
    most: usize,
    known: BTreeMap<K, V>,
    order: VecDeque<K>,
}

impl<K: Ord + Clone> Seen<K> {
    /// Keeps an id. Returns whether it is new.
    pub fn insert(&mut self, id: K) -> bool {
        self.keep(id, ())
    }
}

impl<K: Ord + Clone, V> Seen<K, V> {
    /// None yet; at most `most` are kept.
    pub fn new(most: usize) -> Self {
        Self { most, known: BTreeMap::new(), order: VecDeque::new() }
    }

    /// Whether this id is known.
    pub fn contains(&self, id: &K) -> bool {
        self.known.contains_key(id)
    }

    /// What came of it, if it is known.
    pub fn get(&self, id: &K) -> Option<&V> {
        self.known.get(id)
    }

    /// Keeps an id with what came of it. Returns whether it is new; if not, what came of it first stays.
    pub fn keep(&mut self, id: K, value: V) -> bool {
        if self.known.contains_key(&id) {
            return false;
        }
        self.known.insert(id.clone(), value);
        self.order.push_back(id);
        if self.order.len() > self.most {
            let oldest = self.order.pop_front().expect("there is one more than at most");
            self.known.remove(&oldest);
        }
        true
    }

    /// Forgets an id, to keep it anew.
    pub fn forget(&mut self, id: &K) {
        if self.known.remove(id).is_some() {
            self.order.retain(|known| known != id);
        }
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
        assert_eq!(
            (seen.contains(&"a"), seen.contains(&"b"), seen.contains(&"c"), seen.len()),
            (false, true, true, 2)
        );
        assert!(seen.insert("a"));
    }

    #[test]
    fn who_keeps_none_knows_none() {
        let mut seen = Seen::new(0);
        assert!(seen.insert("a") && seen.insert("a") && seen.is_empty());
    }

    #[test]
    fn an_id_that_is_forgotten_is_new() {
        let mut seen = Seen::new(2);
        seen.insert(1);
        seen.insert(2);
        seen.forget(&1);
        assert!(seen.insert(1) && seen.len() == 2);
        seen.insert(3);
        assert_eq!(
            (seen.contains(&2), seen.contains(&1)),
            (false, true),
            "and younger than what stayed"
        );
    }

    #[test]
    fn what_came_of_an_id_first_is_what_a_repetition_is_told() {
        let mut seen = Seen::new(1);
        assert!(seen.keep(1, "done"));
        assert!(!seen.keep(1, "refused"));
        assert_eq!(seen.get(&1), Some(&"done"));
        seen.keep(2, "done");
        assert_eq!(seen.get(&1), None, "one is kept");
    }
}
