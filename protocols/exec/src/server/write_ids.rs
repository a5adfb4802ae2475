//! The ids of accepted writes to one process that their client may repeat.
//!
//! A client repeats a write only if it lost the connection before it received the answer. So the
//! server remembers an id until one of these is certain:
//!
//! - The client has received the answer. The server sends a numbered ping after its answers
//!   ([`Link::mark`](reknit_jsonrpc::Link::mark)); the pong proves that the client has read them.
//! - The client will not repeat the write any more. It repeats writes when it has a new connection.
//!   If one connection has lasted longer than a call may take, all writes of earlier connections
//!   were repeated over it, or never will be.
//!
//! Neither depends on how many other writes come between a write and its repetition. If the server
//! remembers too many ids, a new write waits until some of them are certain.

use std::collections::BTreeMap;

use reknit_seams::defect;
use reknit_seams::net::ConnId;

/// The answer to a write: the connection that carried it, and its number among the answers to
/// writes of that connection, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WriteAnswer {
    pub(super) conn: ConnId,
    pub(super) number: u64,
}

/// The ids of accepted writes, each with its last answer.
#[derive(Debug)]
pub(super) struct WriteIds {
    most: usize,
    answers: BTreeMap<String, WriteAnswer>,
}

impl WriteIds {
    /// Creates an empty set, with room for `most` ids.
    pub(super) fn new(most: usize) -> Self {
        Self { most, answers: BTreeMap::new() }
    }

    /// Whether a write with this id was accepted and may be repeated.
    pub(super) fn contains(&self, id: &str) -> bool {
        self.answers.contains_key(id)
    }

    /// Whether there is room for a new id.
    pub(super) fn has_room(&self) -> bool {
        self.answers.len() < self.most || defect!(WriteIdsForgotten) || defect!(WriteIdsUnbounded)
    }

    /// Remembers an id with its newest answer.
    pub(super) fn insert(&mut self, id: &str, answer: WriteAnswer) {
        if defect!(WriteIdsForgotten) && !self.contains(id) && self.answers.len() >= self.most {
            let oldest = self.answers.iter().min_by_key(|(_, answer)| **answer);
            oldest.map(|(id, _)| id.clone()).and_then(|id| self.answers.remove(&id));
        }
        self.answers.insert(id.to_owned(), answer);
    }

    /// Forgets one id.
    pub(super) fn forget(&mut self, id: &str) {
        self.answers.remove(id);
    }

    /// For a defect: forgets all ids.
    pub(super) fn forget_all(&mut self) {
        self.answers.clear();
    }

    /// Forgets the ids whose answers have reached the client: all those of the connection, up to
    /// this number.
    pub(super) fn reached(&mut self, last: WriteAnswer) {
        if !defect!(WriteIdsForgotten) {
            self.answers
                .retain(|_, answer| answer.conn != last.conn || answer.number > last.number);
        }
    }

    /// Forgets the ids of all connections but this one.
    pub(super) fn keep_only(&mut self, conn: ConnId) {
        if !defect!(WriteIdsForgotten) {
            self.answers.retain(|_, answer| (answer.conn == conn) != defect!(OwnWriteIdsForgotten));
        }
    }

    /// Returns the number of ids.
    pub(super) fn len(&self) -> usize {
        self.answers.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(conn: u64, number: u64) -> WriteAnswer {
        WriteAnswer { conn: ConnId(conn), number }
    }

    #[test]
    fn an_id_is_forgotten_when_its_answer_has_reached_the_client() {
        let mut ids = WriteIds::new(2);
        ids.insert("a", answer(1, 1));
        ids.insert("b", answer(1, 2));
        assert!(!ids.has_room());
        ids.reached(answer(1, 1));
        assert_eq!((ids.contains("a"), ids.contains("b"), ids.has_room()), (false, true, true));
    }

    #[test]
    fn answers_of_another_connection_prove_nothing() {
        let mut ids = WriteIds::new(2);
        ids.insert("a", answer(1, 1));
        ids.reached(answer(2, 9));
        assert!(ids.contains("a"));
        ids.insert("a", answer(2, 10)); // repeated over the next connection
        ids.reached(answer(1, 1));
        assert!(ids.contains("a"));
        ids.reached(answer(2, 10));
        assert_eq!(ids.len(), 0);
    }

    #[test]
    fn a_long_connection_ends_the_repetitions_of_the_earlier_ones() {
        let mut ids = WriteIds::new(4);
        ids.insert("a", answer(1, 1));
        ids.insert("b", answer(2, 1));
        ids.insert("c", answer(3, 1));
        ids.keep_only(ConnId(3));
        assert_eq!((ids.len(), ids.contains("c")), (1, true));
    }
}
