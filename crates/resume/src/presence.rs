//! Who is here, over however many connections: the attachment of somebody who may have several at once.
//!
//! An [`Attachment`](super::Attachment) is taken from nobody; here connections overlap. A window that reconnects is served over the
//! new connection before the end of the old one is noticed, and is gone only when the last of them is. So being here is a list
//! that is never empty, or a [`Lease`] since the last one ended: never both, never neither. The late end of an older connection
//! takes that connection out of the list, and says nothing about the others.

use std::time::Duration;

use tokio::time::Instant;

use super::Lease;

/// Somebody's connections, each known by a `K`; to each an `A` is owed.
#[derive(Debug)]
pub struct Presence<K, A> {
    /// In the order in which they came.
    connections: Vec<(K, A)>,
    /// Since when there is none; kept for as long as there is.
    away: Lease,
}

/// What the end of a connection meant.
#[derive(Debug, PartialEq, Eq)]
pub enum Left<A> {
    /// It was none of theirs, or not any more.
    Unknown,
    /// They are here by others; this was owed.
    Others(A),
    /// It was the last one: they are away; this was owed.
    Last(A),
}

impl<K: Eq + Copy, A> Presence<K, A> {
    /// Nobody is here, since `now`.
    pub fn away(now: Instant, lifetime: Duration) -> Self {
        Self { connections: Vec::new(), away: Lease::begin(now, lifetime) }
    }

    /// A connection more. One that is known already is not taken twice.
    pub fn attach(&mut self, by: K, owed: A) {
        if self.get(by).is_none() {
            self.connections.push((by, owed));
        }
    }

    /// A connection is over. If it was the last, a lease begins, and only then.
    pub fn detach(&mut self, by: K, now: Instant, lifetime: Duration) -> Left<A> {
        let Some(place) = self.connections.iter().position(|(key, _)| *key == by) else {
            return Left::Unknown;
        };
        let (_, owed) = self.connections.remove(place);
        if self.connections.is_empty() {
            self.away = Lease::begin(now, lifetime);
            return Left::Last(owed);
        }
        Left::Others(owed)
    }

    /// Whether any connection is here.
    pub fn is_here(&self) -> bool {
        !self.connections.is_empty()
    }

    /// Until when they are waited for; `None` while they are here.
    pub fn lease(&self) -> Option<Lease> {
        self.connections.is_empty().then_some(self.away)
    }

    /// Their connections, oldest first.
    pub fn connections(&self) -> impl DoubleEndedIterator<Item = K> + ExactSizeIterator + '_ {
        self.connections.iter().map(|(key, _)| *key)
    }

    /// The connection that came last.
    pub fn newest(&self) -> Option<K> {
        self.connections.last().map(|(key, _)| *key)
    }

    /// What is owed to a connection.
    pub fn get(&self, by: K) -> Option<&A> {
        self.connections.iter().find(|(key, _)| *key == by).map(|(_, owed)| owed)
    }

    /// The same, to change it.
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
    async fn nobody_is_away_while_an_older_connection_is_here() {
        let now = Instant::now();
        let mut presence = Presence::away(now, GRACE);
        presence.attach(1, 'a');
        presence.attach(2, 'b');
        assert_eq!(presence.detach(2, now + S, GRACE), Left::Others('b'));
        assert_eq!(
            (presence.is_here(), presence.lease(), presence.newest()),
            (true, None, Some(1))
        );
        assert_eq!(presence.detach(1, now + 2 * S, GRACE), Left::Last('a'));
        assert_eq!(presence.lease().unwrap().until(), now + 32 * S, "counted from the last one");
    }

    #[tokio::test(start_paused = true)]
    async fn the_late_end_of_an_older_connection_changes_nothing_for_the_newer() {
        let now = Instant::now();
        let mut presence = Presence::away(now, GRACE);
        presence.attach(1, 'a');
        presence.attach(2, 'b');
        assert_eq!(presence.detach(1, now, GRACE), Left::Others('a'));
        assert_eq!(presence.connections().collect::<Vec<_>>(), [2]);
        assert_eq!(presence.get(2), Some(&'b'));
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
    async fn who_came_back_has_no_lease_and_who_leaves_again_a_new_one() {
        let now = Instant::now();
        let mut presence = Presence::away(now, GRACE);
        presence.attach(1, 'a');
        presence.attach(1, 'x');
        assert_eq!((presence.lease(), presence.get_mut(1)), (None, Some(&mut 'a')));
        presence.detach(1, now + 5 * S, GRACE);
        assert_eq!(presence.lease().unwrap().since(), now + 5 * S);
    }
}
