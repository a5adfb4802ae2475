//! Resource counts of a broker.

use super::BrokerCore;
use super::forwarded::Forwarded;

/// The counts at one moment; all zero if the broker no longer exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BrokerCounts {
    /// Connected clients.
    pub clients: usize,
    /// Requests of clients without an answer: on their way to the app-server, held, or sent before the
    /// app-server was initialized. A client may have disconnected meanwhile.
    pub requests: usize,
    /// The bytes that these requests take.
    pub request_bytes: usize,
    /// Interrupts of the broker that the app-server has not answered.
    pub interrupts: usize,
    /// Starts of turns that the app-server did not answer in time. The broker interrupts the turn if the
    /// answer comes nevertheless. Each start belongs to a finished turn or to a turn.
    pub late_starts: usize,
    /// Turns that run, or that the broker interrupts.
    pub turns: usize,
    /// Finished turns that the broker remembers: at most 64.
    pub finished_turns: usize,
    /// Threads with a known owner.
    pub threads: usize,
    /// The bytes of the notifications that wait until a turn claims their thread.
    pub unclaimed_bytes: usize,
    /// The bytes of the messages that wait for clients.
    pub outbox_bytes: usize,
}

impl BrokerCore {
    /// Returns the resource counts.
    pub fn counts(&self) -> BrokerCounts {
        let early = self.clients.values().map(|client| client.early.len()).sum::<usize>();
        let count = |of: fn(&Forwarded) -> bool| {
            self.forwarded.values().filter(|forwarded| of(forwarded)).count()
        };
        let asked = count(|forwarded| matches!(forwarded, Forwarded::Client { .. }));
        let finished_turns = self.turns.values().filter(|turn| turn.is_finished()).count();
        BrokerCounts {
            clients: self.clients.len(),
            requests: asked + self.held.len() + early,
            request_bytes: self.request_bytes(),
            interrupts: count(|forwarded| matches!(forwarded, Forwarded::Interrupt { .. })),
            late_starts: count(|forwarded| matches!(forwarded, Forwarded::LateStart { .. })),
            turns: self.turns.len() - finished_turns,
            finished_turns,
            threads: self.threads.len(),
            unclaimed_bytes: self.unclaimed.bytes(),
            outbox_bytes: self.clients.values().map(|client| client.outbox_bytes()).sum(),
        }
    }
}
