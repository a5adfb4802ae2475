//! What the director sleeps with.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

use super::MILLISECOND;

/// Two timers, of which the second is a millisecond later, and wakes nobody.
///
/// tokio does not go to sleep at once where a timer was set that is due before all that it knew of: it parks twice. When the first of
/// these two has fired, the second is what it knows of, and whatever is set then is due no sooner.
pub(super) struct Alarm {
    first: Pin<Box<Sleep>>,
    second: Pin<Box<Sleep>>,
}

impl Alarm {
    /// One that is not set. Must be made inside the runtime.
    pub fn new() -> Self {
        let [first, second] = [0, 1].map(|_| Box::pin(sleep(Duration::MAX)));
        Self { first, second }
    }

    /// Has it ring at this moment instead.
    pub fn set(&mut self, at: Instant) {
        self.first.as_mut().reset(at);
        self.second.as_mut().reset(at + MILLISECOND);
    }

    /// Whether it is still to ring, and whoever asks will be woken by it.
    pub fn is_set(&mut self, cx: &mut Context<'_>) -> bool {
        self.first.as_mut().poll(cx).is_pending()
    }
}
