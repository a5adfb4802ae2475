//! The state and code of seeded bugs that affect a client.

use std::time::Duration;

use reknit_resume::EVER;

/// State that only seeded bugs use.
#[derive(Default)]
pub(super) struct SeededState {
    /// `AttemptsRunOut`: the number of attempts since the client was last connected.
    pub(super) attempts: u32,
}

impl SeededState {
    /// `AttemptsRunOut`: the pause before the next attempt; there is none after ten.
    pub(super) fn last_pause(&mut self, pause: Duration) -> Duration {
        self.attempts += 1;
        if self.attempts > 10 { EVER } else { pause }
    }
}
