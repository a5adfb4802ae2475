//! The attachment of a session: either a connection is attached, or the session waits for one until
//! a deadline. It is always exactly one of the two.
//!
//! The state that a session keeps for its connection (queues, cursors, a handle to wake it) is part
//! of the attachment, so it is added and removed together with the connection in one step. The
//! session never serves a connection other than the attached one.
//!
//! An attached connection is never replaced. A resume that arrives before the old connection is
//! known to be dead is refused, and the client retries. So an attach is a barrier: nothing from the
//! connection before can still happen.

use tokio::time::Instant;

use super::Lease;

/// The attachment of a session: to a connection identified by a `K`, with the state `A` that the
/// session keeps for it.
#[derive(Debug)]
pub enum Attachment<K, A> {
    /// A connection is attached.
    Attached {
        /// The connection.
        by: K,
        /// The state that the session keeps for the connection.
        owed: A,
    },
    /// No connection is attached.
    Detached {
        /// The last connection.
        by: K,
        /// How long the session waits for another connection.
        lease: Lease,
    },
}

/// The reason why a connection was not attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused<K> {
    /// Another connection is attached. It may be dead without being known to be. A retry may
    /// succeed.
    #[error("another connection is attached")]
    StillAttached(
        /// That connection.
        K,
    ),
    /// The session was without a connection for too long. A retry cannot succeed.
    #[error("the session is over")]
    Expired,
}

impl<K: Eq + Copy, A> Attachment<K, A> {
    /// Creates the attachment of a new session to the connection that created it.
    pub fn new(by: K, owed: A) -> Self {
        Self::Attached { by, owed }
    }

    /// Attaches a connection at `now`.
    ///
    /// # Errors
    /// [`Refused`]; nothing has changed then. A session is over at its deadline, not when a timer
    /// fires.
    pub fn attach(&mut self, by: K, owed: A, now: Instant) -> Result<(), Refused<K>> {
        match self {
            Self::Attached { by, .. } => Err(Refused::StillAttached(*by)),
            Self::Detached { lease, .. } if lease.is_over(now) => Err(Refused::Expired),
            Self::Detached { .. } => {
                *self = Self::Attached { by, owed };
                Ok(())
            }
        }
    }

    /// Handles the end of a connection. If it is the attached one, the session waits for another
    /// according to `lease`, and the connection's state is returned. The end of any other
    /// connection changes nothing.
    pub fn detach(&mut self, by: K, lease: Lease) -> Option<A> {
        if self.by() != Some(by) {
            return None;
        }
        match std::mem::replace(self, Self::Detached { by, lease }) {
            Self::Attached { owed, .. } => Some(owed),
            Self::Detached { .. } => None,
        }
    }

    /// Returns the attached connection.
    pub fn by(&self) -> Option<K> {
        match self {
            Self::Attached { by, .. } => Some(*by),
            Self::Detached { .. } => None,
        }
    }

    /// Returns the state for the attached connection.
    pub fn owed(&self) -> Option<&A> {
        match self {
            Self::Attached { owed, .. } => Some(owed),
            Self::Detached { .. } => None,
        }
    }

    /// Returns the state for the attached connection, mutably.
    pub fn owed_mut(&mut self) -> Option<&mut A> {
        match self {
            Self::Attached { owed, .. } => Some(owed),
            Self::Detached { .. } => None,
        }
    }

    /// Returns the time at which the session ends; `None` while a connection is attached.
    pub fn until(&self) -> Option<Instant> {
        match self {
            Self::Attached { .. } => None,
            Self::Detached { lease, .. } => Some(lease.until()),
        }
    }

    /// Whether the session is over. A stale timer of an earlier detach finds the new attachment,
    /// and `false`.
    pub fn expired(&self, now: Instant) -> bool {
        self.until().is_some_and(|until| until <= now)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Creates a lease that ends at `until`.
    fn until(until: Instant) -> Lease {
        Lease::begin(until, Duration::ZERO)
    }

    /// Creates a session whose connection 1 has detached, and which waits until `until`.
    fn left(at: Instant) -> Attachment<u64, &'static str> {
        let mut attachment = Attachment::new(1, "owed to 1");
        assert_eq!(attachment.detach(1, until(at)), Some("owed to 1"));
        attachment
    }

    #[test]
    fn a_second_connection_is_not_attached() {
        let mut attachment = Attachment::new(1, "owed to 1");
        assert_eq!(
            attachment.attach(2, "owed to 2", Instant::now()),
            Err(Refused::StillAttached(1))
        );
        assert_eq!((attachment.by(), attachment.owed()), (Some(1), Some(&"owed to 1")));
    }

    #[test]
    fn the_connection_state_moves_with_the_attachment() {
        let now = Instant::now();
        let mut attachment = left(now + MS);
        assert_eq!((attachment.by(), attachment.owed()), (None, None));
        attachment.attach(2, "owed to 2", now).unwrap();
        assert_eq!((attachment.by(), attachment.owed_mut()), (Some(2), Some(&mut "owed to 2")));
    }

    #[test]
    fn the_late_end_of_an_older_connection_is_ignored() {
        let now = Instant::now();
        let mut attachment = left(now + MS);
        attachment.attach(2, "owed to 2", now).unwrap();
        assert_eq!(attachment.detach(1, until(now)), None);
        assert_eq!((attachment.by(), attachment.expired(now + MS)), (Some(2), false));
    }

    #[test]
    fn a_second_end_of_the_same_connection_does_not_move_the_deadline() {
        let now = Instant::now();
        let mut attachment = left(now + MS);
        assert_eq!(attachment.detach(1, until(now + 9 * MS)), None);
        assert_eq!(attachment.until(), Some(now + MS));
    }

    #[test]
    fn a_session_ends_exactly_at_its_deadline() {
        let now = Instant::now();
        let mut attachment = left(now + MS);
        assert!(!attachment.expired(now) && attachment.expired(now + MS));
        assert_eq!(attachment.attach(2, "owed to 2", now + MS), Err(Refused::Expired));
        attachment.attach(2, "owed to 2", now).unwrap();
    }

    #[test]
    fn a_timer_of_an_earlier_detach_does_not_end_an_attached_session() {
        let now = Instant::now();
        let mut attachment = left(now + MS);
        attachment.attach(2, "owed to 2", now).unwrap();
        assert!(!attachment.expired(now + MS));
        attachment.detach(2, until(now + 5 * MS));
        assert!(!attachment.expired(now + MS) && attachment.expired(now + 5 * MS));
    }
}
