//! The connections that are not initialized yet. Until then they belong to no session, and the
//! limit of sessions does not bound them.
//!
//! Each has a deadline. If there are too many connections, a new one takes the place of the oldest
//! one of the host that has the most connections here. So a host that opens many connections and
//! says nothing takes places only from itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use reknit_seams::defect;
use tokio::sync::Notify;

use super::peer::Peer;

/// The connections that are not initialized yet, in the order of their arrival.
pub(super) struct Lobby {
    /// The maximum number of connections, including those that have left.
    most: usize,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    arrivals: u64,
    connections: BTreeMap<u64, (Peer, Arc<Notify>)>,
}

/// The place of one connection. Dropping it leaves the lobby.
pub(super) struct LobbyPlace {
    lobby: Arc<Lobby>,
    arrival: u64,
    peer: Peer,
    taken: Arc<Notify>,
}

impl Lobby {
    pub(super) fn new(most: usize) -> Self {
        Self { most, waiting: Mutex::default() }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("nothing panics under the lock")
    }

    /// Adds a connection of a host, if there is room or another connection can be closed. There are
    /// `count` connections so far.
    pub(super) fn enter(self: &Arc<Self>, peer: Peer, count: usize) -> Option<LobbyPlace> {
        let mut waiting = self.waiting();
        if count >= self.most {
            let (_, taken) = waiting.oldest_of_the_largest()?;
            if !defect!(SilentConnectionStays) {
                taken.notify_one();
            }
        }
        waiting.arrivals += 1;
        let (arrival, taken) = (waiting.arrivals, Arc::new(Notify::new()));
        waiting.connections.insert(arrival, (peer, taken.clone()));
        Some(LobbyPlace { lobby: self.clone(), arrival, peer, taken })
    }
}

impl Waiting {
    /// Removes and returns the oldest connection of the host that has the most.
    fn oldest_of_the_largest(&mut self) -> Option<(Peer, Arc<Notify>)> {
        let mut counts: BTreeMap<Peer, usize> = BTreeMap::new();
        self.connections.values().for_each(|(peer, _)| *counts.entry(*peer).or_default() += 1);
        let (largest, _) = counts.into_iter().max_by_key(|(_, count)| *count)?;
        let oldest = self.connections.iter().find(|(_, (peer, _))| *peer == largest);
        let arrival = oldest.map(|(arrival, _)| *arrival)?;
        self.connections.remove(&arrival)
    }
}

impl LobbyPlace {
    /// Returns the host of the connection.
    pub(super) fn peer(&self) -> Peer {
        self.peer
    }

    /// Completes when another connection takes this place. Cancel safe: dropping the future loses
    /// nothing.
    pub(super) async fn taken(&self) {
        // No wake-up is lost before this wait: only the task of the connection waits, so `Notify`
        // stores the permit. A dropped future that has the permit gives it back.
        self.taken.notified().await;
    }
}

impl Drop for LobbyPlace {
    fn drop(&mut self) {
        self.lobby.waiting().connections.remove(&self.arrival);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether another connection has taken the place.
    fn is_taken(place: &LobbyPlace) -> bool {
        !place.lobby.waiting().connections.contains_key(&place.arrival)
    }

    #[test]
    fn the_host_with_the_most_connections_loses_its_oldest_one() {
        let lobby = Arc::new(Lobby::new(3));
        let [one, two] = [1, 2].map(Peer::number);
        let places: Vec<_> =
            [two, one, one].map(|peer| lobby.enter(peer, 0).unwrap()).into_iter().collect();
        let newest = lobby.enter(two, 3).unwrap();
        assert_eq!(places.iter().map(is_taken).collect::<Vec<_>>(), [false, true, false]);
        assert!(!is_taken(&newest));
    }

    #[test]
    fn without_a_connection_to_close_a_new_one_is_refused() {
        let lobby = Arc::new(Lobby::new(1));
        drop(lobby.enter(Peer::number(1), 0)); // initialized
        assert!(lobby.enter(Peer::number(2), 1).is_none());
        assert!(lobby.enter(Peer::number(2), 0).is_some());
    }
}
