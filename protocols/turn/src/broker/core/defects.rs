//! The state of seeded bugs, and what they do that needs more than a line.

use super::BrokerCore;
use super::forwarded::Forwarded;
use super::outside::ClientId;

/// The state of seeded bugs.
#[derive(Default)]
pub(super) struct Defects {
    /// The owner of the only slot for requests, which is free after the first answer.
    slot: Option<ClientId>,
}

impl Defects {
    pub fn slot(&self) -> Option<ClientId> {
        self.slot
    }

    pub fn takes_the_slot(&mut self, client: ClientId) {
        self.slot = Some(client);
    }

    pub fn leaves_the_slot(&mut self, client: Option<ClientId>) {
        self.slot.take_if(|owner| Some(*owner) == client);
    }
}

impl BrokerCore {
    /// Whether the app-server has a request of a client, and has not answered it.
    pub(super) fn is_at_the_app_server(&self, of: ClientId) -> bool {
        let is_of = |forwarded: &Forwarded| matches!(forwarded, Forwarded::Client { client: Some(client), .. } if *client == of);
        self.forwarded.values().any(is_of)
    }
}
