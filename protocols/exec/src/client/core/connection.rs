//! The requests in flight on one connection. This table is dropped with its connection, so a reply
//! from another connection finds no entry.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use tokio::time::Instant;

use super::calls::Ticket;
use crate::client::command::{Call, Key, RetryPolicy};
use crate::client::generation::Generation;
use crate::wire::{Message, RequestId};

/// A request in flight, by the purpose of its answer.
pub(super) enum Flying {
    /// The handshake.
    Initialize,
    /// A read that fetches missing events of a process.
    Reading(Key),
    /// The termination of a leftover process.
    Ending(Arc<str>),
    /// A call of the user.
    Call(Ticket, Call),
}

/// A connection, and the requests in flight on it.
pub(super) struct Connection {
    pub(super) generation: Generation,
    /// Its number in the network.
    pub(super) conn: u64,
    flying: BTreeMap<i64, Flying>,
    last_id: i64,
    /// Whether the core ignores the end of this connection. Only a defect sets this.
    pub(super) is_corpse: bool,
}

impl Connection {
    pub(super) fn new(generation: Generation) -> Self {
        Self { generation, conn: 0, flying: BTreeMap::new(), last_id: 0, is_corpse: false }
    }

    /// Registers a request and returns its message. Ids count from 1 on each connection.
    pub(super) fn request(
        &mut self,
        method: &str,
        params: &impl Serialize,
        flying: Flying,
    ) -> Message {
        self.last_id += 1;
        self.flying.insert(self.last_id, flying);
        Message::request(self.last_id, method, params)
    }

    /// Registers a call and returns its message.
    pub(super) fn call(&mut self, ticket: Ticket, call: Call) -> Message {
        self.last_id += 1;
        let (id, params) = (RequestId::Number(self.last_id), Some(call.params.clone()));
        let message = Message::Request { id, method: call.method.to_owned(), params };
        self.flying.insert(self.last_id, Flying::Call(ticket, call));
        message
    }

    /// Registers a call again, as still in flight: the answer to it was about the connection, not
    /// about the call.
    pub(super) fn put_back(&mut self, ticket: Ticket, call: Call) {
        self.last_id += 1;
        self.flying.insert(self.last_id, Flying::Call(ticket, call));
    }

    /// Removes and returns the request that an answer with this id belongs to, or `None` if there
    /// is no such request (any more).
    pub(super) fn land(&mut self, id: &RequestId) -> Option<Flying> {
        if let RequestId::Number(id) = id { self.flying.remove(id) } else { None }
    }

    /// Removes and returns all requests in flight, in the order in which they were sent.
    pub(super) fn drain(&mut self) -> BTreeMap<i64, Flying> {
        std::mem::take(&mut self.flying)
    }

    /// Returns the number of the user's calls in flight.
    pub(super) fn calls(&self) -> usize {
        self.flying.values().filter(|flying| matches!(flying, Flying::Call(..))).count()
    }

    /// Removes and returns the calls that match.
    pub(super) fn take_calls(&mut self, fits: impl Fn(&Call) -> bool) -> Vec<Call> {
        let fits = |flying: &Flying| matches!(flying, Flying::Call(_, call) if fits(call));
        let ids: Vec<i64> =
            self.flying.iter().filter(|(_, flying)| fits(flying)).map(|(id, _)| *id).collect();
        let taken = ids.iter().filter_map(|id| self.flying.remove(id));
        taken
            .filter_map(|flying| if let Flying::Call(_, call) = flying { Some(call) } else { None })
            .collect()
    }

    /// Whether the start of this process is in flight.
    pub(super) fn has_start_of(&self, key: &Key) -> bool {
        let starts = |call: &Call| {
            call.kind == RetryPolicy::Start
                && call.process.as_ref().is_some_and(|(other, _)| other == key)
        };
        self.flying.values().any(|flying| matches!(flying, Flying::Call(_, call) if starts(call)))
    }

    /// Returns the earliest deadline of a call in flight.
    pub(super) fn due(&self) -> Option<Instant> {
        let until = |flying: &Flying| {
            if let Flying::Call(_, call) = flying { Some(call.until) } else { None }
        };
        self.flying.values().filter_map(until).min()
    }
}
