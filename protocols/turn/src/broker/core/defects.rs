//! The state of seeded bugs.

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
