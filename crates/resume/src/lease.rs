//! A lease: how long a session or client is kept after its connection was lost. The end is fixed at
//! the moment of the loss.
//!
//! A lease is not a timer. Its end follows only from its start: checking it again, arming another
//! timer for it, or a step of the wall clock does not move it. A timer only determines when to
//! check. A task that wakes calls [`Lease::is_over`] on the *current* lease, which may be a newer
//! one, or none.

use std::time::Duration;

use tokio::time::Instant;

/// A wait that begins at the loss of a connection, with a fixed end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    since: Instant,
    lifetime: Duration,
}

impl Lease {
    /// Starts a lease for a loss at `since`.
    pub fn begin(since: Instant, lifetime: Duration) -> Self {
        Self { since, lifetime }
    }

    /// Returns the start.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// Returns the end.
    pub fn until(&self) -> Instant {
        self.since + self.lifetime
    }

    /// Whether it is over. It is over exactly at its end, not when a timer fires.
    pub fn is_over(&self, now: Instant) -> bool {
        self.until() <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_lease_ends_exactly_at_its_end() {
        let now = Instant::now();
        let lease = Lease::begin(now, Duration::from_secs(30));
        assert!(!lease.is_over(now + Duration::from_millis(29_999)));
        assert!(lease.is_over(now + Duration::from_secs(30)));
        assert_eq!((lease.since(), lease.until()), (now, now + Duration::from_secs(30)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_without_a_lifetime_is_over_at_once() {
        let now = Instant::now();
        assert!(Lease::begin(now, Duration::ZERO).is_over(now));
    }
}
