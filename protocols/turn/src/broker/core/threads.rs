//! The threads that the broker has seen, with their owners.

use std::collections::BTreeMap;

use super::outside::ClientId;
use super::turn::TurnToken;

/// To whom the notifications of a thread belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThreadOwner {
    /// The last client that used the thread.
    Client(ClientId),
    /// A turn: the thread is one of its subagents.
    Turn(TurnToken),
    /// A client that has disconnected.
    Gone,
}

/// The threads that the broker remembers.
pub(super) struct Threads {
    owners: BTreeMap<String, (ThreadOwner, u64)>,
    most: usize,
    uses: u64,
}

impl Threads {
    /// Creates an empty table that remembers up to `most` threads.
    pub fn new(most: usize) -> Self {
        Self { owners: BTreeMap::new(), most, uses: 0 }
    }

    pub fn len(&self) -> usize {
        self.owners.len()
    }

    pub fn owner(&self, thread: &str) -> Option<ThreadOwner> {
        self.owners.get(thread).map(|(owner, _)| *owner)
    }

    /// Sets the owner of a thread. Forgets the thread that was unused for longest, if there are too
    /// many.
    pub fn set(&mut self, thread: &str, owner: ThreadOwner) {
        self.uses += 1;
        self.owners.insert(thread.to_owned(), (owner, self.uses));
        if self.owners.len() > self.most {
            let oldest = self.owners.iter().min_by_key(|(_, (_, used))| *used);
            if let Some(oldest) = oldest.map(|(thread, _)| thread.clone()) {
                self.owners.remove(&oldest);
            }
        }
    }

    /// Handles that a client has disconnected.
    pub fn leave(&mut self, client: ClientId) {
        for (owner, _) in self.owners.values_mut() {
            if *owner == ThreadOwner::Client(client) {
                *owner = ThreadOwner::Gone;
            }
        }
    }
}
