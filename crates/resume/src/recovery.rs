//! How long to try to get a connection back, and how long to pause between two attempts.
//!
//! A [`Recovery`] is one budget, counted from the moment at which the loss was noticed: a deadline that caps every pause and
//! every attempt, so that giving up happens at that moment exactly, never a pause later. A [`BackOff`] belongs to the client
//! and outlives its recoveries: a connection that comes up and dies at once makes the next pause longer, so that a peer which
//! accepts and hangs up is not met with a storm.
//!
//! What it does not do: sleep, draw random numbers, or know which errors are worth another attempt.

use std::time::Duration;

use tokio::time::Instant;

/// Pauses that double up to a limit, with jitter: of a pause, half is fixed and half is drawn, so that many clients that lost
/// one server do not come back in step.
#[derive(Clone, Debug)]
pub struct BackOff {
    min: Duration,
    max: Duration,
    pause: Duration,
}

impl BackOff {
    /// No pause at first, then from `min` on, up to `max`.
    pub fn new(min: Duration, max: Duration) -> Self {
        Self { min, max: max.max(min), pause: Duration::ZERO }
    }

    /// The pause before the next attempt; `random` is any number. Those after it are longer.
    pub fn next(&mut self, random: u64) -> Duration {
        let pause = self.pause;
        self.pause = (pause * 2).clamp(self.min, self.max);
        let half = pause.as_millis() as u64 / 2;
        pause / 2 + Duration::from_millis(random % (half + 1))
    }

    /// A connection was up for so long: where that is at least the longest pause, pauses start small again.
    pub fn lived(&mut self, lived: Duration) {
        if lived >= self.max {
            self.pause = Duration::ZERO;
        }
    }
}

/// One budget of time for all attempts together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    deadline: Instant,
}

impl Recovery {
    /// The loss was noticed now.
    pub fn begin(now: Instant, budget: Duration) -> Self {
        Self { deadline: now + budget }
    }

    /// When it is over.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whether it is over: at its deadline it is.
    pub fn is_over(&self, now: Instant) -> bool {
        now >= self.deadline
    }

    /// The end of something that takes `at_most`, and no longer than the budget.
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
    fn pauses_double_from_nothing_to_the_limit() {
        let mut back_off = BackOff::new(millis(100), millis(1000));
        let longest: Vec<_> = (0..7).map(|_| back_off.clone().longest_of(&mut back_off)).collect();
        assert_eq!(longest, [0, 100, 200, 400, 800, 1000, 1000].map(millis));
    }

    impl BackOff {
        /// The longest pause that a draw could give; then really takes one.
        fn longest_of(self, taken: &mut Self) -> Duration {
            taken.next(0);
            (0..=1000).map(|random| self.clone().next(random)).max().unwrap()
        }
    }

    #[test]
    fn half_of_a_pause_is_fixed() {
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
    fn only_a_connection_that_lived_makes_pauses_small_again() {
        let mut back_off = BackOff::new(millis(100), millis(1000));
        (0..9).for_each(|_| _ = back_off.next(0));
        back_off.lived(millis(999));
        assert_eq!(back_off.next(0), millis(500));
        back_off.lived(millis(1000));
        assert_eq!(back_off.next(0), millis(0));
    }

    #[test]
    fn limits_the_wrong_way_round_are_the_least() {
        let mut back_off = BackOff::new(millis(100), millis(1));
        back_off.next(0);
        assert_eq!((back_off.next(0), back_off.next(50)), (millis(50), millis(100)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_budget_caps_what_begins_within_it_and_is_over_at_its_end() {
        let now = Instant::now();
        let recovery = Recovery::begin(now, millis(25_000));
        assert_eq!(recovery.cap(now, millis(10_000)), now + millis(10_000));
        assert_eq!(recovery.cap(now + millis(20_000), millis(10_000)), recovery.deadline());
        assert!(!recovery.is_over(now + millis(24_999)));
        assert!(recovery.is_over(now + millis(25_000)));
    }

    #[tokio::test(start_paused = true)]
    async fn no_budget_is_over_at_once() {
        let now = Instant::now();
        assert!(Recovery::begin(now, Duration::ZERO).is_over(now));
    }
}
