//! The clock of a world and its queue of future events.

use std::cell::Cell;
use std::task::Waker;
use std::time::Duration;

use crate::history::Time;

use super::queue::{Due, Queue};

/// Returns the virtual time that has passed in an engine.
pub(in crate::world) type Clock = Box<dyn Fn() -> Duration>;

/// The virtual time, and what happens at later times.
pub(in crate::world) struct Timeline {
    clock: Clock,
    /// The virtual time that has passed, until the clock moves.
    passed: Cell<Option<Duration>>,
    pub queue: Queue,
    /// Wakes the driver.
    pub driver: Option<Waker>,
}

impl Timeline {
    /// Creates a timeline without events.
    pub fn new(clock: Clock) -> Self {
        Self { clock, passed: Cell::new(None), queue: Queue::default(), driver: None }
    }

    /// Returns the virtual time, rounded up to whole milliseconds.
    pub fn now(&self) -> Time {
        let passed = self.passed();
        Time(passed.as_secs() * 1_000 + u64::from(passed.subsec_nanos().div_ceil(1_000_000)))
    }

    /// Returns whether the clock is at a whole millisecond.
    pub fn is_whole(&self) -> bool {
        self.passed().subsec_nanos().is_multiple_of(1_000_000)
    }

    /// Returns the virtual time that has passed.
    pub fn passed(&self) -> Duration {
        let passed = self.passed.get().unwrap_or_else(&self.clock);
        self.passed.set(Some(passed));
        passed
    }

    /// Reads the clock again at the next question, because the clock is about to move.
    pub fn forget_time(&self) {
        self.passed.set(None);
    }

    /// Schedules an event. Within one millisecond, lower ranks come first.
    pub fn schedule(&mut self, at: Time, rank: u32, due: Due) {
        self.queue.push(at, rank, due);
    }

    /// Makes the driver check the queue again.
    pub fn wake_driver(&mut self) {
        if let Some(waker) = self.driver.take() {
            waker.wake();
        }
    }
}
