//! The notifications of threads that no turn has claimed yet.
//!
//! The app-server may report a thread before the broker can know whose it is: the thread of a detached
//! review before the answer that names it, or the thread of a subagent before the item that names it.
//! If more than one turn can own the thread, the broker holds its notifications until one of these turns
//! claims it. Their order stays, also between threads: the end of a turn must not overtake the work of its
//! subagents. The memory is bounded: the broker drops the thread that has waited longest.

use std::collections::VecDeque;

use reknit_seams::defect;
use serde_json::value::RawValue;

/// A notification of the app-server.
pub(super) struct News {
    pub method: String,
    pub params: Option<Box<RawValue>>,
}

impl News {
    fn weight(&self) -> usize {
        self.method.len() + self.params.as_ref().map_or(0, |params| params.get().len())
    }
}

/// The notifications of one thread, in order, each with its place in the order of all.
struct Thread {
    id: String,
    news: Vec<(u64, News)>,
    bytes: usize,
}

/// The held notifications, with the thread first that has waited longest.
pub(super) struct Unclaimed {
    threads: VecDeque<Thread>,
    /// How many notifications were held so far.
    held: u64,
    most_threads: usize,
    most_bytes: usize,
}

impl Unclaimed {
    /// Creates an empty store for up to `most_threads` threads, and `most_bytes` bytes of notifications.
    pub fn new(most_threads: usize, most_bytes: usize) -> Self {
        Self { threads: VecDeque::new(), held: 0, most_threads, most_bytes }
    }

    pub fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// Whether notifications of this thread are held.
    pub fn holds(&self, thread: &str) -> bool {
        self.threads.iter().any(|held| held.id == thread)
    }

    /// Returns the bytes of all held notifications.
    pub fn bytes(&self) -> usize {
        self.threads.iter().map(|thread| thread.bytes).sum()
    }

    /// Holds a notification of this thread. Returns how many notifications were dropped instead.
    pub fn hold(&mut self, thread: &str, news: News) -> usize {
        let weight = news.weight();
        self.held += 1;
        let news = (self.held, news);
        match self.threads.iter_mut().find(|held| held.id == thread) {
            Some(held) => {
                held.bytes += weight;
                held.news.push(news);
            }
            None => {
                let id = thread.to_owned();
                self.threads.push_back(Thread { id, news: vec![news], bytes: weight });
            }
        }
        let mut dropped = 0;
        let is_large =
            |held: &Self| held.bytes() > held.most_bytes && !defect!(UnclaimedNewsHaveNoLimit);
        while self.threads.len() > self.most_threads || is_large(self) {
            // The bug: the thread that has waited for the shortest time makes room.
            let thread = match defect!(NewThreadsMakeRoom) {
                true => self.threads.pop_back(),
                false => self.threads.pop_front(),
            };
            dropped += thread.map_or(0, |thread| thread.news.len());
        }
        dropped
    }

    /// Takes the notifications of all threads that are claimed, each with its place in the order of all.
    pub fn take(&mut self, is_claimed: impl Fn(&str) -> bool) -> Vec<(u64, News)> {
        let threads = std::mem::take(&mut self.threads);
        let (claimed, others): (VecDeque<Thread>, _) =
            threads.into_iter().partition(|thread| is_claimed(&thread.id));
        self.threads = others;
        claimed.into_iter().flat_map(|thread| thread.news).collect()
    }

    /// Drops everything. Returns how many notifications there were.
    pub fn clear(&mut self) -> usize {
        self.threads.drain(..).map(|thread| thread.news.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn news(method: &str) -> News {
        News { method: method.to_owned(), params: None }
    }

    fn taken(unclaimed: &mut Unclaimed, threads: &[&str]) -> Vec<(u64, String)> {
        let news = unclaimed.take(|id| threads.contains(&id));
        news.into_iter().map(|(place, news)| (place, news.method)).collect()
    }

    #[test]
    fn a_claimed_thread_gets_its_notifications_in_order() {
        let mut unclaimed = Unclaimed::new(9, 100);
        for (thread, method) in [("a", "1"), ("b", "2"), ("a", "3")] {
            assert_eq!(unclaimed.hold(thread, news(method)), 0);
        }
        assert_eq!(unclaimed.bytes(), 3);
        assert_eq!(taken(&mut unclaimed, &["c"]), []);
        assert_eq!(taken(&mut unclaimed, &["a"]), [(1, "1".to_owned()), (3, "3".to_owned())]);
        assert_eq!(unclaimed.clear(), 1);
        assert!(unclaimed.is_empty());
    }

    #[test]
    fn claimed_notifications_have_their_places_in_the_order_of_all() {
        let mut unclaimed = Unclaimed::new(9, 100);
        for (thread, method) in [("a", "1"), ("b", "2"), ("c", "3"), ("a", "4")] {
            assert_eq!(unclaimed.hold(thread, news(method)), 0);
        }
        let mut all = taken(&mut unclaimed, &["a", "b"]);
        all.sort();
        let methods: Vec<&str> = all.iter().map(|(_, method)| method.as_str()).collect();
        assert_eq!(methods, ["1", "2", "4"]);
        assert_eq!(taken(&mut unclaimed, &["a", "b"]), []);
        assert_eq!(unclaimed.clear(), 1);
    }

    #[test]
    fn the_thread_that_has_waited_longest_makes_room() {
        let mut unclaimed = Unclaimed::new(2, 100);
        assert_eq!(unclaimed.hold("a", news("1")) + unclaimed.hold("b", news("2")), 0);
        assert_eq!(unclaimed.hold("a", news("3")), 0);
        assert_eq!(unclaimed.hold("c", news("4")), 2);
        assert_eq!(taken(&mut unclaimed, &["a"]), []);
        let mut small = Unclaimed::new(9, 5);
        assert_eq!(small.hold("a", news("123")) + small.hold("b", news("45")), 0);
        assert_eq!(small.hold("b", news("6")), 1);
        assert_eq!(small.hold("c", news("123456")), 3, "it is larger than the room");
        assert_eq!(small.bytes(), 0);
    }
}
