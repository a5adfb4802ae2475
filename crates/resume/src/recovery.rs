//! How long to try to reconnect, and how long to pause between attempts.
//!
//! A [`Recovery`] is one budget that starts when the loss is noticed. It is a deadline for every
//! pause and every attempt, so the client gives up exactly at that time, and not one pause later. A
//! [`BackOff`] belongs to the client and outlives its recoveries: a connection that opens and dies
//! at once makes the next pause longer, so that a peer that accepts and closes does not cause a
//! storm of attempts. A connection that was of use makes it shorter again.
//!
//! They do not sleep, do not generate random numbers, and do not decide which errors justify
//! another attempt.

use std::time::Duration;

use tokio::time::Instant;

/// Pauses that double up to a limit, with jitter. Half of each pause is fixed and half is random,
/// so that many clients that lost one server do not reconnect at the same time.
#[derive(Clone, Debug)]
pub struct BackOff {
    min: Duration,
    max: Duration,
    pause: Duration,
}

impl BackOff {
    /// The first pause is zero, the next is `min`, and the longest is `max`.
    pub fn new(min: Duration, max: Duration) -> Self {
        Self { min, max: max.max(min), pause: Duration::ZERO }
    }

    /// Returns the pause before the next attempt; `random` is any number. Later pauses are longer.
    pub fn next(&mut self, random: u64) -> Duration {
        let pause = self.pause;
        self.pause = (pause * 2).clamp(self.min, self.max);
        let half = pause.as_millis() as u64 / 2;
        pause / 2 + Duration::from_millis(random % (half + 1))
    }

    /// Records how long a connection was up. If that is at least the longest pause, the pauses
    /// start from the beginning.
    pub fn connection_lasted(&mut self, lasted: Duration) {
        if lasted >= self.max {
            self.restart();
        }
    }

    /// Starts the pauses from the beginning, after a connection that was of use.
    pub fn restart(&mut self) {
        self.pause = Duration::ZERO;
    }

    /// Limits the next pause to the shortest one, after a connection that was of some use.
    pub fn shorten(&mut self) {
        self.pause = self.pause.min(self.min);
    }
}

/// One time budget for all attempts together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    deadline: Instant,
}

impl Recovery {
    /// Starts a budget for a loss that was noticed now.
    pub fn begin(now: Instant, budget: Duration) -> Self {
        Self { deadline: now + budget }
    }

    /// Returns the end of the budget.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whether the budget is over. It is over exactly at its deadline.
    pub fn is_over(&self, now: Instant) -> bool {
        now >= self.deadline
    }

    /// Returns the end of a step that may take `at_most`, limited by the budget.
    pub fn cap(&self, now: Instant, at_most: Duration) -> Instant {
        (now + at_most).min(self.deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn pauses_double_from_zero_to_the_limit() {
        let mut back_off = BackOff::new(millis(100), millis(1000));
        let longest: Vec<_> = (0..7).map(|_| back_off.clone().longest_of(&mut back_off)).collect();
        assert_eq!(longest, [0, 100, 200, 400, 800, 1000, 1000].map(millis));
    }

    impl BackOff {
        /// Returns the longest possible pause, and then really takes one.
        fn longest_of(self, taken: &mut Self) -> Duration {
            taken.next(0);
            (0..=1000).map(|random| self.clone().next(random)).max().unwrap()
        }
    }

    #[test]
    fn half_of_each_pause_is_fixed() {
        let mut back_off = BackOff::new(millis(100), millis(100));
        back_off.next(0);
        let pauses: Vec<_> = (0..=200).map(|random| back_off.clone().next(random)).collect();
        assert_eq!(
            (pauses.iter().min(), pauses.iter().max()),
            (Some(&millis(50)), Some(&millis(100)))
        );
        back_off.next(u64::MAX);
    }

    #[test]
    fn only_a_long_connection_resets_the_pauses() {
        let mut back_off = BackOff::new(millis(100), millis(1000));
        (0..9).for_each(|_| _ = back_off.next(0));
        back_off.connection_lasted(millis(999));
        assert_eq!(back_off.next(0), millis(500));
        back_off.connection_lasted(millis(1000));
        assert_eq!(back_off.next(0), millis(0));
    }

    #[test]
    fn a_connection_of_use_shortens_the_pauses() {
        let mut back_off = BackOff::new(millis(100), millis(1000));
        (0..9).for_each(|_| _ = back_off.next(0));
        back_off.shorten();
        assert_eq!((back_off.next(0), back_off.next(0)), (millis(50), millis(100)));
        back_off.restart();
        assert_eq!((back_off.next(0), back_off.next(0)), (millis(0), millis(50)));
        let mut fresh = BackOff::new(millis(100), millis(1000));
        fresh.shorten();
        assert_eq!(fresh.next(0), millis(0), "no pause becomes longer");
    }

    #[test]
    fn swapped_limits_use_the_smaller_one() {
        let mut back_off = BackOff::new(millis(100), millis(1));
        back_off.next(0);
        assert_eq!((back_off.next(0), back_off.next(50)), (millis(50), millis(100)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_budget_limits_each_wait_and_ends_exactly() {
        let now = Instant::now();
        let recovery = Recovery::begin(now, millis(25_000));
        assert_eq!(recovery.cap(now, millis(10_000)), now + millis(10_000));
        assert_eq!(recovery.cap(now + millis(20_000), millis(10_000)), recovery.deadline());
        assert!(!recovery.is_over(now + millis(24_999)));
        assert!(recovery.is_over(now + millis(25_000)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_zero_budget_is_over_at_once() {
        let now = Instant::now();
        assert!(Recovery::begin(now, Duration::ZERO).is_over(now));
    }
}
