//! How long somebody who was lost is waited for: a promise whose end is known from the moment of the loss.
//!
//! A lease is not a timer. Its end follows from when it began and from nothing else: looking at it again, arming another timer for
//! it, or a wall clock that steps does not move it. A timer only says when to look: whoever is woken asks [`Lease::is_over`] of the
//! lease that is there *then*, which may be a newer one, or none.

use std::time::Duration;

use tokio::time::Instant;

/// A wait for somebody, from the moment of the loss to an end that does not move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    since: Instant,
    lifetime: Duration,
}

impl Lease {
    /// Somebody was lost at `since`, and is waited for.
    pub fn begin(since: Instant, lifetime: Duration) -> Self {
        Self { since, lifetime }
    }

    /// When it began.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// When it is over.
    pub fn until(&self) -> Instant {
        self.since + self.lifetime
    }

    /// Whether it is over: at its end it is, not when some timer notices.
    pub fn is_over(&self, now: Instant) -> bool {
        self.until() <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_is_over_at_its_end_and_not_before() {
        let now = Instant::now();
        let lease = Lease::begin(now, Duration::from_secs(30));
        assert!(!lease.is_over(now + Duration::from_millis(29_999)));
        assert!(lease.is_over(now + Duration::from_secs(30)));
        assert_eq!((lease.since(), lease.until()), (now, now + Duration::from_secs(30)));
    }

    #[tokio::test(start_paused = true)]
    async fn no_lifetime_is_over_at_once() {
        let now = Instant::now();
        assert!(Lease::begin(now, Duration::ZERO).is_over(now));
    }
}
