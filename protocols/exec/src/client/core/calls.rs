//! The calls that wait for a connection, in the order in which they were made.
//!
//! A call in flight belongs to its connection, not to this table. [`Calls::put_back`] returns such
//! a call to its old position.

use std::collections::BTreeMap;

use reknit_seams::defect;
use tokio::time::Instant;

use crate::client::Failure;
use crate::client::command::Call;

/// The position of a call in the order of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

/// The calls that wait for a connection.
#[derive(Default)]
pub(super) struct Calls {
    waiting: BTreeMap<Ticket, Call>,
    last: u64,
}

impl Calls {
    /// Returns the number of waiting calls.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Adds a new call.
    pub(super) fn put(&mut self, call: Call) {
        self.last += 1;
        self.waiting.insert(Ticket(self.last), call);
    }

    /// Returns a call that was sent without success to its old position.
    pub(super) fn put_back(&mut self, ticket: Ticket, call: Call) {
        let place = if defect!(RetriedWritesSwap) { Ticket(u64::MAX - ticket.0) } else { ticket };
        self.waiting.insert(place, call);
    }

    /// Removes and returns the first call.
    pub(super) fn pop(&mut self) -> Option<(Ticket, Call)> {
        self.waiting.pop_first()
    }

    /// Removes and returns the calls that match, in order.
    pub(super) fn take(&mut self, fits: impl Fn(&Call) -> bool) -> Vec<Call> {
        let tickets: Vec<Ticket> =
            self.waiting.iter().filter(|(_, call)| fits(call)).map(|(ticket, _)| *ticket).collect();
        tickets.iter().filter_map(|ticket| self.waiting.remove(ticket)).collect()
    }

    /// Returns the earliest deadline of a waiting call.
    pub(super) fn due(&self) -> Option<Instant> {
        self.waiting.values().map(|call| call.until).min()
    }

    /// Fails all waiting calls with the same failure.
    pub(super) fn fail_all(&mut self, failure: &Failure) {
        std::mem::take(&mut self.waiting)
            .into_values()
            .for_each(|call| call.end(Err(failure.clone())));
    }
}
