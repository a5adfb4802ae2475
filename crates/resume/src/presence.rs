//! The presence of a client that may have several connections at once.
//!
//! An [`Attachment`](super::Attachment) never replaces its connection; here connections overlap. A
//! window that reconnects uses the new connection before the server notices the end of the old one,
//! and it is away only when the last connection has ended. So the presence is either a list of
//! connections that is never empty, or a [`Lease`] since the last one ended. It is always exactly
//! one of the two. The late end of an older connection removes that connection from the list, and
//! does not affect the others.

use std::time::Duration;

use reknit_seams::defect;
use tokio::time::Instant;

use super::Lease;

/// The connections of a client, each identified by a `K`, with the state `A` for each.
#[derive(Debug)]
pub struct Presence<K, A> {
    /// In the order of arrival.
    connections: Vec<(K, A)>,
    /// The lease since the last connection ended; not used while there is a connection.
    away: Lease,
}

/// The effect of the end of a connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Left<A> {
    /// The connection was unknown, or had been removed before.
    Unknown,
    /// The client has other connections; contains the state of the removed one.
    Others(A),
    /// It was the last connection, so the client is away; contains the state of the removed one.
    Last(A),
}

impl<K: Eq + Copy, A> Presence<K, A> {
    /// Creates a presence without connections, since `now`.
    pub fn away(now: Instant, lifetime: Duration) -> Self {
        Self { connections: Vec::new(), away: Lease::begin(now, lifetime) }
    }

    /// Adds a connection. Does nothing if it is known already.
    pub fn attach(&mut self, by: K, owed: A) {
        if self.get(by).is_none() {
            self.connections.push((by, owed));
        }
    }

    /// Removes a connection. A lease begins only if it was the last one.
    pub fn detach(&mut self, by: K, now: Instant, lifetime: Duration) -> Left<A> {
        let Some(place) = self.connections.iter().position(|(key, _)| *key == by) else {
            return Left::Unknown;
        };
        let (_, owed) = if defect!(OrderOfConnectionsIsLost) {
            self.connections.swap_remove(place)
        } else {
            self.connections.remove(place)
        };
        if self.connections.is_empty() {
            self.away = Lease::begin(now, lifetime);
            return Left::Last(owed);
        }
        Left::Others(owed)
    }

    /// Whether there is any connection.
    pub fn is_connected(&self) -> bool {
        !self.connections.is_empty()
    }

    /// Returns the lease; `None` while there is a connection.
    pub fn lease(&self) -> Option<Lease> {
        self.connections.is_empty().then_some(self.away)
    }

    /// Returns the connections, oldest first.
    pub fn connections(&self) -> impl DoubleEndedIterator<Item = K> + ExactSizeIterator + '_ {
        self.connections.iter().map(|(key, _)| *key)
    }

    /// Returns the connection that was added last.
    pub fn newest(&self) -> Option<K> {
        self.connections.last().map(|(key, _)| *key)
    }

    /// Returns the state of a connection.
    pub fn get(&self, by: K) -> Option<&A> {
        self.connections.iter().find(|(key, _)| *key == by).map(|(_, owed)| owed)
    }

    /// Returns the state of a connection, mutably.
    pub fn get_mut(&mut self, by: K) -> Option<&mut A> {
        self.connections.iter_mut().find(|(key, _)| *key == by).map(|(_, owed)| owed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(30);
    const S: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_client_with_an_older_connection_is_still_present() {
        let now = Instant::now();
        let mut presence = Presence::away(now, GRACE);
        presence.attach(1, 'a');
        presence.attach(2, 'b');
        assert_eq!(presence.detach(2, now + S, GRACE), Left::Others('b'));
        assert_eq!(
            (presence.is_connected(), presence.lease(), presence.newest()),
            (true, None, Some(1))
        );
        assert_eq!(presence.detach(1, now + 2 * S, GRACE), Left::Last('a'));
        assert_eq!(presence.lease().unwrap().until(), now + 32 * S, "counted from the last one");
    }

    #[tokio::test(start_paused = true)]
    async fn the_late_end_of_an_older_connection_keeps_the_newer() {
        let now = Instant::now();
        let mut presence = Presence::away(now, GRACE);
        presence.attach(1, 'a');
        presence.attach(2, 'b');
        assert_eq!(presence.detach(1, now, GRACE), Left::Others('a'));
        assert_eq!(presence.connections().collect::<Vec<_>>(), [2]);
        assert_eq!(presence.get(2), Some(&'b'));
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_any_connection_keeps_the_order_of_the_others() {
        let now = Instant::now();
        for (ends, left) in [(1, [2, 3, 4]), (2, [1, 3, 4]), (3, [1, 2, 4]), (4, [1, 2, 3])] {
            let mut presence = Presence::away(now, GRACE);
            (1..=4).for_each(|conn| presence.attach(conn, ()));
            assert_eq!(presence.detach(ends, now, GRACE), Left::Others(()));
            assert_eq!(presence.connections().collect::<Vec<_>>(), left);
            assert_eq!(presence.newest(), left.last().copied());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_end_of_a_connection_does_not_move_the_lease() {
        let now = Instant::now();
        let mut presence = Presence::away(now, GRACE);
        presence.attach(1, 'a');
        presence.detach(1, now, GRACE);
        assert_eq!(presence.detach(1, now + 9 * S, GRACE), Left::Unknown);
        assert_eq!(presence.lease().unwrap().since(), now);
    }

    #[tokio::test(start_paused = true)]
    async fn a_return_ends_the_lease_and_a_new_loss_starts_another() {
        let now = Instant::now();
        let mut presence = Presence::away(now, GRACE);
        presence.attach(1, 'a');
        presence.attach(1, 'x');
        assert_eq!((presence.lease(), presence.get_mut(1)), (None, Some(&mut 'a')));
        presence.detach(1, now + 5 * S, GRACE);
        assert_eq!(presence.lease().unwrap().since(), now + 5 * S);
    }
}
