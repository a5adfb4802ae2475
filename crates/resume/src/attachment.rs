//! Who is attached to a session, or until when it waits for somebody: never both, never neither.
//!
//! What a session owes to its connection (queues, cursors, a handle to wake it) is part of the attachment, so that it comes
//! and goes with the connection in one step: there is no moment in which one connection is attached and another is served.
//!
//! A session that is attached is taken from nobody: a resume before the old connection is known to be dead is refused, and
//! comes again. So an attach is a barrier: nothing of the connection before it can still happen.

use tokio::time::Instant;

use super::Lease;

/// A session's attachment: to a connection known by a `K`, to which the session owes an `A`.
#[derive(Debug)]
pub enum Attachment<K, A> {
    /// A connection is attached.
    Attached {
        /// Which.
        by: K,
        /// What the session owes to it.
        owed: A,
    },
    /// No connection is.
    Detached {
        /// Which was the last.
        by: K,
        /// How long the session waits for another.
        lease: Lease,
    },
}

/// Why a connection was not attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused<K> {
    /// Another one is. It may be dead, and not known to be: this passes.
    #[error("another connection is attached")]
    StillAttached(
        /// Which.
        K,
    ),
    /// The session was without a connection for too long. This does not pass.
    #[error("the session is over")]
    Expired,
}

impl<K: Eq + Copy, A> Attachment<K, A> {
    /// The attachment of a new session to the connection that asked for it.
    pub fn new(by: K, owed: A) -> Self {
        Self::Attached { by, owed }
    }

    /// Attaches a connection at `now`.
    ///
    /// # Errors
    /// [`Refused`]; then nothing has changed. A session is over at its deadline, not when some timer notices.
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

    /// A connection is over: if it is the one that is attached, the session waits for another by `lease`, and what was
    /// owed comes back. The end of any other changes nothing.
    pub fn detach(&mut self, by: K, lease: Lease) -> Option<A> {
        if self.by() != Some(by) {
            return None;
        }
        match std::mem::replace(self, Self::Detached { by, lease }) {
            Self::Attached { owed, .. } => Some(owed),
            Self::Detached { .. } => None,
        }
    }

    /// Which connection is attached.
    pub fn by(&self) -> Option<K> {
        match self {
            Self::Attached { by, .. } => Some(*by),
            Self::Detached { .. } => None,
        }
    }

    /// What is owed to the connection that is attached.
    pub fn owed(&self) -> Option<&A> {
        match self {
            Self::Attached { owed, .. } => Some(owed),
            Self::Detached { .. } => None,
        }
    }

    /// The same, to change it.
    pub fn owed_mut(&mut self) -> Option<&mut A> {
        match self {
            Self::Attached { owed, .. } => Some(owed),
            Self::Detached { .. } => None,
        }
    }

    /// When the session is over; `None` while somebody is attached.
    pub fn until(&self) -> Option<Instant> {
        match self {
            Self::Attached { .. } => None,
            Self::Detached { lease, .. } => Some(lease.until()),
        }
    }

    /// Whether the session is over. An attachment that is newer than the timer which asks is not.
    pub fn expired(&self, now: Instant) -> bool {
        self.until().is_some_and(|until| until <= now)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A wait that is over at `until`.
    fn until(until: Instant) -> Lease {
        Lease::begin(until, Duration::ZERO)
    }

    /// A session that connection 1 attached to and left, and that waits until `until`.
    fn left(at: Instant) -> Attachment<u64, &'static str> {
        let mut attachment = Attachment::new(1, "owed to 1");
        assert_eq!(attachment.detach(1, until(at)), Some("owed to 1"));
        attachment
    }

    #[test]
    fn nobody_is_attached_while_another_is() {
        let mut attachment = Attachment::new(1, "owed to 1");
        assert_eq!(
            attachment.attach(2, "owed to 2", Instant::now()),
            Err(Refused::StillAttached(1))
        );
        assert_eq!((attachment.by(), attachment.owed()), (Some(1), Some(&"owed to 1")));
    }

    #[test]
    fn what_is_owed_comes_with_the_connection() {
        let now = Instant::now();
        let mut attachment = left(now + MS);
        assert_eq!((attachment.by(), attachment.owed()), (None, None));
        attachment.attach(2, "owed to 2", now).unwrap();
        assert_eq!((attachment.by(), attachment.owed_mut()), (Some(2), Some(&mut "owed to 2")));
    }

    #[test]
    fn the_late_end_of_an_older_connection_changes_nothing() {
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
    fn a_session_is_over_at_its_deadline_and_not_before() {
        let now = Instant::now();
        let mut attachment = left(now + MS);
        assert!(!attachment.expired(now) && attachment.expired(now + MS));
        assert_eq!(attachment.attach(2, "owed to 2", now + MS), Err(Refused::Expired));
        attachment.attach(2, "owed to 2", now).unwrap();
    }

    #[test]
    fn the_timer_of_an_earlier_detachment_finds_an_attached_session_alive() {
        let now = Instant::now();
        let mut attachment = left(now + MS);
        attachment.attach(2, "owed to 2", now).unwrap();
        assert!(!attachment.expired(now + MS));
        attachment.detach(2, until(now + 5 * MS));
        assert!(!attachment.expired(now + MS) && attachment.expired(now + 5 * MS));
    }
}
