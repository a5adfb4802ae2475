//! The wish of the user to end the command.

use std::future::{Future, pending};
use std::pin::Pin;
use std::time::Duration;

use reknit_seams::{defect, milestone};
use tokio::time::{Instant, sleep_until};

/// The wish of the user to end the command.
pub(super) struct Cancel<'a, C> {
    wish: Pin<&'a mut C>,
    /// How long something may take after the wish.
    patience: Duration,
    /// When the patience ends, once the wish has come.
    until: Option<Instant>,
}

/// The user cancelled the command, and the patience is over.
pub(super) struct OutOfPatience;

impl<'a, C: Future<Output = ()>> Cancel<'a, C> {
    pub fn new(wish: Pin<&'a mut C>, patience: Duration) -> Self {
        Self { wish, patience, until: None }
    }

    /// Whether the wish has come.
    pub fn has_come(&self) -> bool {
        self.until.is_some()
    }

    /// Waits for the wish. After it has come once, this waits forever.
    pub async fn wait(&mut self) {
        if self.has_come() {
            return pending().await;
        }
        self.wish.as_mut().await;
        milestone!("turn.client.cancelled");
        self.until = Some(Instant::now() + self.patience);
    }

    /// Waits for `work`, after the wish only until the patience is over.
    pub async fn patiently<T>(
        &mut self,
        work: impl Future<Output = T>,
    ) -> Result<T, OutOfPatience> {
        let mut work = std::pin::pin!(work);
        loop {
            // The bug: a command that is cancelled waits for the answer.
            let until = self.until.filter(|_| !defect!(PatienceHasNoEnd));
            tokio::select! {
                biased;
                done = &mut work => return Ok(done),
                () = self.wait() => {}
                () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => {
                    return Err(OutOfPatience);
                }
            }
        }
    }
}
