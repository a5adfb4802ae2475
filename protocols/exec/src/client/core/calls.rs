//! The calls that wait for a connection, in the order in which they were asked.
//!
//! What is in flight belongs to its connection, not to this table; [`Calls::put_back`] takes a call from there to its old place.

use std::collections::BTreeMap;

use reknit_seams::defect;
use tokio::time::Instant;

use crate::client::Failure;
use crate::client::command::Call;

/// The place of a call in the order of asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

/// Calls that wait for a connection.
#[derive(Default)]
pub(super) struct Calls {
    waiting: BTreeMap<Ticket, Call>,
    last: u64,
}

impl Calls {
    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// A call was asked for.
    pub(super) fn put(&mut self, call: Call) {
        self.last += 1;
        self.waiting.insert(Ticket(self.last), call);
    }

    /// A call was sent in vain, and has its old place again.
    pub(super) fn put_back(&mut self, ticket: Ticket, call: Call) {
        let place = if defect!(RetriedWritesSwap) { Ticket(u64::MAX - ticket.0) } else { ticket };
        self.waiting.insert(place, call);
    }

    /// The first one.
    pub(super) fn pop(&mut self) -> Option<(Ticket, Call)> {
        self.waiting.pop_first()
    }

    /// Takes out those that fit, in order.
    pub(super) fn take(&mut self, fits: impl Fn(&Call) -> bool) -> Vec<Call> {
        let tickets: Vec<Ticket> =
            self.waiting.iter().filter(|(_, call)| fits(call)).map(|(ticket, _)| *ticket).collect();
        tickets.iter().filter_map(|ticket| self.waiting.remove(ticket)).collect()
    }

    /// When the first one has waited too long.
    pub(super) fn due(&self) -> Option<Instant> {
        self.waiting.values().map(|call| call.until).min()
    }

    /// All end with the same failure.
    pub(super) fn fail_all(&mut self, failure: &Failure) {
        std::mem::take(&mut self.waiting)
            .into_values()
            .for_each(|call| call.end(Err(failure.clone())));
    }
}
