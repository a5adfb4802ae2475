//! The notifications of threads that no turn has claimed yet.
//!
//! The app-server may report a thread before the broker can know whose it is: the thread of a detached
//! review before the answer that names it, or the thread of a subagent before the item that names it.
//! If more than one turn can own the thread, the broker holds its notifications until one of these turns
//! claims it. The memory is bounded: the broker drops the thread that has waited longest.

use std::collections::VecDeque;

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

/// The notifications of one thread, in order.
struct Thread {
    id: String,
    news: Vec<News>,
    bytes: usize,
}

/// The held notifications, with the thread first that has waited longest.
pub(super) struct Unclaimed {
    threads: VecDeque<Thread>,
    most_threads: usize,
    most_bytes: usize,
}

impl Unclaimed {
    /// Creates an empty store for up to `most_threads` threads, and `most_bytes` bytes of notifications.
    pub fn new(most_threads: usize, most_bytes: usize) -> Self {
        Self { threads: VecDeque::new(), most_threads, most_bytes }
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
        while self.threads.len() > self.most_threads || self.bytes() > self.most_bytes {
            dropped += self.threads.pop_front().map_or(0, |thread| thread.news.len());
        }
        dropped
    }

    /// Takes the notifications of the first thread that is claimed.
    pub fn take(&mut self, is_claimed: impl Fn(&str) -> bool) -> Option<Vec<News>> {
        let at = self.threads.iter().position(|thread| is_claimed(&thread.id))?;
        self.threads.remove(at).map(|thread| thread.news)
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

    fn taken(unclaimed: &mut Unclaimed, thread: &str) -> Option<Vec<String>> {
        let news = unclaimed.take(|id| id == thread)?;
        Some(news.into_iter().map(|news| news.method).collect())
    }

    #[test]
    fn a_claimed_thread_gets_its_notifications_in_order() {
        let mut unclaimed = Unclaimed::new(9, 100);
        for (thread, method) in [("a", "1"), ("b", "2"), ("a", "3")] {
            assert_eq!(unclaimed.hold(thread, news(method)), 0);
        }
        assert_eq!(unclaimed.bytes(), 3);
        assert_eq!(taken(&mut unclaimed, "c"), None);
        assert_eq!(taken(&mut unclaimed, "a"), Some(vec!["1".to_owned(), "3".to_owned()]));
        assert_eq!(unclaimed.clear(), 1);
        assert!(unclaimed.is_empty());
    }

    #[test]
    fn the_thread_that_has_waited_longest_makes_room() {
        let mut unclaimed = Unclaimed::new(2, 100);
        assert_eq!(unclaimed.hold("a", news("1")) + unclaimed.hold("b", news("2")), 0);
        assert_eq!(unclaimed.hold("a", news("3")), 0);
        assert_eq!(unclaimed.hold("c", news("4")), 2);
        assert_eq!(taken(&mut unclaimed, "a"), None);
        let mut small = Unclaimed::new(9, 5);
        assert_eq!(small.hold("a", news("123")) + small.hold("b", news("45")), 0);
        assert_eq!(small.hold("b", news("6")), 1);
        assert_eq!(small.hold("c", news("123456")), 3, "it is larger than the room");
        assert_eq!(small.bytes(), 0);
    }
}
