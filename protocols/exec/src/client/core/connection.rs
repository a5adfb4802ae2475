//! The requests in flight on one connection. This table is dropped with its connection, so a reply
//! from another connection finds no entry.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use tokio::time::Instant;

use super::calls::Ticket;
use crate::client::command::{Call, Key, RetryPolicy};
use crate::client::defects::ConnectionDefects;
use crate::client::generation::Generation;
use crate::wire::flow::FlowReports;
use crate::wire::{DirectoryForm, Message, RequestId};

/// A request in flight, by the purpose of its answer.
pub(super) enum InFlight {
    /// The handshake.
    Initialize,
    /// A read that fetches missing events of a process.
    Reading(Key),
    /// The termination of a leftover process.
    Ending(Arc<str>),
    /// A report of what was consumed.
    Report,
    /// The last report about a process, which the client no longer follows.
    Release(Arc<str>),
    /// A call of the user.
    Call(Ticket, Call),
}

/// A connection, and the requests in flight on it.
pub(super) struct Connection {
    pub(super) generation: Generation,
    /// Its number in the network.
    pub(super) conn: u64,
    in_flight: BTreeMap<i64, InFlight>,
    last_id: i64,
    /// The form of directories that the server reads; known once the handshake is over.
    pub(super) directories: DirectoryForm,
    /// How often the server needs reports, if it controls the flow; known once the handshake is
    /// over.
    pub(super) flow: Option<FlowReports>,
    /// How many events were published because of this connection.
    pub(super) brought_events: u64,
    pub(super) defects: ConnectionDefects,
}

impl Connection {
    pub(super) fn new(generation: Generation) -> Self {
        Self {
            generation,
            conn: 0,
            in_flight: BTreeMap::new(),
            last_id: 0,
            directories: DirectoryForm::default(),
            flow: None,
            brought_events: 0,
            defects: ConnectionDefects::default(),
        }
    }

    /// Registers a request and returns its message. Ids count from 1 on each connection.
    pub(super) fn request(
        &mut self,
        method: &str,
        params: &impl Serialize,
        in_flight: InFlight,
    ) -> Message {
        self.last_id += 1;
        self.in_flight.insert(self.last_id, in_flight);
        Message::request(self.last_id, method, params)
    }

    /// Registers a call and returns its message.
    pub(super) fn call(&mut self, ticket: Ticket, call: Call) -> Message {
        self.last_id += 1;
        let (id, params) = (RequestId::Number(self.last_id), Some(call.params.clone()));
        let message = Message::Request { id, method: call.method.to_owned(), params };
        self.in_flight.insert(self.last_id, InFlight::Call(ticket, call));
        message
    }

    /// Registers a call again, as still in flight: the answer to it was about the connection, not
    /// about the call.
    pub(super) fn put_back(&mut self, ticket: Ticket, call: Call) {
        self.last_id += 1;
        self.in_flight.insert(self.last_id, InFlight::Call(ticket, call));
    }

    /// Removes and returns the request that an answer with this id belongs to, or `None` if there
    /// is no such request (any more).
    pub(super) fn take_request(&mut self, id: &RequestId) -> Option<InFlight> {
        if let RequestId::Number(id) = id { self.in_flight.remove(id) } else { None }
    }

    /// Removes and returns all requests in flight, in the order in which they were sent.
    pub(super) fn drain(&mut self) -> BTreeMap<i64, InFlight> {
        std::mem::take(&mut self.in_flight)
    }

    /// Returns the number of the user's calls in flight.
    pub(super) fn calls(&self) -> usize {
        self.in_flight.values().filter(|in_flight| matches!(in_flight, InFlight::Call(..))).count()
    }

    /// Removes and returns the calls that match.
    pub(super) fn take_calls(&mut self, fits: impl Fn(&Call) -> bool) -> Vec<Call> {
        let fits =
            |in_flight: &InFlight| matches!(in_flight, InFlight::Call(_, call) if fits(call));
        let ids: Vec<i64> = self
            .in_flight
            .iter()
            .filter(|(_, in_flight)| fits(in_flight))
            .map(|(id, _)| *id)
            .collect();
        let taken = ids.iter().filter_map(|id| self.in_flight.remove(id));
        taken
            .filter_map(
                |in_flight| if let InFlight::Call(_, call) = in_flight { Some(call) } else { None },
            )
            .collect()
    }

    /// Whether the start of this process is in flight.
    pub(super) fn has_start_of(&self, key: &Key) -> bool {
        let starts = |call: &Call| {
            call.kind == RetryPolicy::Start
                && call.process.as_ref().is_some_and(|(other, _)| other == key)
        };
        self.in_flight
            .values()
            .any(|in_flight| matches!(in_flight, InFlight::Call(_, call) if starts(call)))
    }

    /// Returns the earliest deadline of a call in flight.
    pub(super) fn due(&self) -> Option<Instant> {
        let until = |in_flight: &InFlight| {
            if let InFlight::Call(_, call) = in_flight { Some(call.until) } else { None }
        };
        self.in_flight.values().filter_map(until).min()
    }
}
