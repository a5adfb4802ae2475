//! What is in flight on one connection. It dies with the connection: a reply that comes over another one finds nothing here.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use tokio::time::Instant;

use super::calls::Ticket;
use crate::client::command::{Call, Key, RetryPolicy};
use crate::client::generation::Generation;
use crate::wire::{Message, RequestId};

/// A request that was sent, by what its answer is for.
pub(super) enum Flying {
    /// The handshake.
    Initialize,
    /// The reading of what a process told.
    Reading(Key),
    /// The end of what is left of a process.
    Ending(Arc<str>),
    /// What the user asked for.
    Call(Ticket, Call),
}

/// A connection, and what is in flight on it.
pub(super) struct Connection {
    pub(super) generation: Generation,
    /// Its number in the network.
    pub(super) conn: u64,
    flying: BTreeMap<i64, Flying>,
    last_id: i64,
    /// Whether its end will never be looked at: only a defect makes one.
    pub(super) is_corpse: bool,
}

impl Connection {
    pub(super) fn new(generation: Generation) -> Self {
        Self { generation, conn: 0, flying: BTreeMap::new(), last_id: 0, is_corpse: false }
    }

    /// Takes note of a request, and says how it goes out. Ids count up from 1 on each connection.
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

    /// Takes note of a call, and says how it goes out.
    pub(super) fn call(&mut self, ticket: Ticket, call: Call) -> Message {
        self.last_id += 1;
        let (id, params) = (RequestId::Number(self.last_id), Some(call.params.clone()));
        let message = Message::Request { id, method: call.method.to_owned(), params };
        self.flying.insert(self.last_id, Flying::Call(ticket, call));
        message
    }

    /// A call was answered, and the answer is not its own: it is in flight still.
    pub(super) fn put_back(&mut self, ticket: Ticket, call: Call) {
        self.last_id += 1;
        self.flying.insert(self.last_id, Flying::Call(ticket, call));
    }

    /// What an answer with this id is for; `None` where nobody waits for it (any more).
    pub(super) fn land(&mut self, id: &RequestId) -> Option<Flying> {
        if let RequestId::Number(id) = id { self.flying.remove(id) } else { None }
    }

    /// Everything that is in flight, by its ids, in the order in which it was sent; nothing is, after this.
    pub(super) fn drain(&mut self) -> BTreeMap<i64, Flying> {
        std::mem::take(&mut self.flying)
    }

    /// How many calls of the user's are in flight.
    pub(super) fn calls(&self) -> usize {
        self.flying.values().filter(|flying| matches!(flying, Flying::Call(..))).count()
    }

    /// Takes out the calls that fit.
    pub(super) fn take_calls(&mut self, fits: impl Fn(&Call) -> bool) -> Vec<Call> {
        let fits = |flying: &Flying| matches!(flying, Flying::Call(_, call) if fits(call));
        let ids: Vec<i64> =
            self.flying.iter().filter(|(_, flying)| fits(flying)).map(|(id, _)| *id).collect();
        let taken = ids.iter().filter_map(|id| self.flying.remove(id));
        taken
            .filter_map(|flying| if let Flying::Call(_, call) = flying { Some(call) } else { None })
            .collect()
    }

    /// The start of this process, if it is in flight.
    pub(super) fn has_start_of(&self, key: &Key) -> bool {
        let starts = |call: &Call| {
            call.kind == RetryPolicy::Start
                && call.process.as_ref().is_some_and(|(other, _)| other == key)
        };
        self.flying.values().any(|flying| matches!(flying, Flying::Call(_, call) if starts(call)))
    }

    /// When the first call in flight has waited too long.
    pub(super) fn due(&self) -> Option<Instant> {
        let until = |flying: &Flying| {
            if let Flying::Call(_, call) = flying { Some(call.until) } else { None }
        };
        self.flying.values().filter_map(until).min()
    }
}
