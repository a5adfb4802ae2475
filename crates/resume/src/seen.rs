//! The ids of requests that took effect, so that a repetition has no effect.
//!
//! It is bounded, first in, first out. If a client repeats an id after that many others, the
//! request takes effect a second time. So a client that repeats requests must keep fewer of them in
//! flight.

use std::collections::{BTreeMap, VecDeque};

/// The newest ids, each with its outcome, if a repetition receives the outcome.
#[derive(Debug)]
pub struct SeenIds<K, V = ()> {
    most: usize,
    known: BTreeMap<K, V>,
    order: VecDeque<K>,
}

impl<K: Ord + Clone> SeenIds<K> {
    /// Adds an id. Returns whether it is new.
    pub fn insert(&mut self, id: K) -> bool {
        self.keep(id, ())
    }
}

impl<K: Ord + Clone, V> SeenIds<K, V> {
    /// Creates an empty set that keeps at most `most` ids.
    pub fn new(most: usize) -> Self {
        Self { most, known: BTreeMap::new(), order: VecDeque::new() }
    }

    /// Whether this id is known.
    pub fn contains(&self, id: &K) -> bool {
        self.known.contains_key(id)
    }

    /// Returns the outcome of an id, if the id is known.
    pub fn get(&self, id: &K) -> Option<&V> {
        self.known.get(id)
    }

    /// Returns the ids with their outcomes, the newest first.
    pub fn newest_first(&self) -> impl Iterator<Item = (&K, &V)> {
        self.order.iter().rev().filter_map(|id| self.known.get_key_value(id))
    }

    /// Adds an id with its outcome. Returns whether it is new; otherwise the first outcome stays.
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

    /// Removes an id, so that it can be added again.
    pub fn forget(&mut self, id: &K) {
        if self.known.remove(id).is_some() {
            self.order.retain(|known| known != id);
        }
    }

    /// Returns the number of ids.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there are no ids.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_new_once() {
        let mut seen = SeenIds::new(2);
        assert!(seen.is_empty() && !seen.contains(&"a"));
        assert!(seen.insert("a"));
        assert!(seen.contains(&"a") && !seen.insert("a"));
        assert_eq!(seen.len(), 1);
    }

    /// A repetition does not move an id: the order is the order of the effects.
    #[test]
    fn the_oldest_id_is_removed_first() {
        let mut seen = SeenIds::new(2);
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
    fn a_limit_of_zero_keeps_no_id() {
        let mut seen = SeenIds::new(0);
        assert!(seen.insert("a") && seen.insert("a") && seen.is_empty());
    }

    #[test]
    fn a_forgotten_id_is_new() {
        let mut seen = SeenIds::new(2);
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
        let ids: Vec<i32> = seen.newest_first().map(|(id, ())| *id).collect();
        assert_eq!(ids, [3, 1]);
    }

    #[test]
    fn a_repetition_gets_the_first_outcome() {
        let mut seen = SeenIds::new(1);
        assert!(seen.keep(1, "done"));
        assert!(!seen.keep(1, "refused"));
        assert_eq!(seen.get(&1), Some(&"done"));
        seen.keep(2, "done");
        assert_eq!(seen.get(&1), None, "one is kept");
    }
}
