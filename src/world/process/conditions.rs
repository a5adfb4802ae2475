//! The conditions under which the child processes of a host run: faults stop them, slow them down, or
//! affect their pipes.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use crate::schedule::Pipe;

/// The conditions of all child processes of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// Whether they take no step.
    pub stopped: bool,
    /// The pause before each step.
    pub slow: Option<Duration>,
    /// The additional delay of their output.
    pub output_delay: Duration,
    /// The pipes that were closed, in order. A pipe is closed for the processes that run then.
    pub closed: Vec<Pipe>,
}

/// The conditions of a host, as its processes follow them. Without faults of child processes in the
/// plan, they never change.
#[derive(Clone, Debug)]
pub(super) struct Followed(Option<watch::Receiver<Conditions>>);

impl Followed {
    /// Follows conditions that change.
    pub(super) fn changing(conditions: watch::Receiver<Conditions>) -> Self {
        Self(Some(conditions))
    }

    /// Follows conditions that never change.
    pub(super) fn usual() -> Self {
        Self(None)
    }

    /// Returns whether the conditions can change.
    pub(super) fn can_change(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the conditions now.
    pub(super) fn now(&mut self) -> Conditions {
        self.0.as_mut().map(|conditions| conditions.borrow_and_update().clone()).unwrap_or_default()
    }

    /// Waits for the next change since [`now`](Self::now).
    pub(super) async fn changed(&mut self) {
        let changed = match &mut self.0 {
            Some(conditions) => conditions.changed().await.is_ok(),
            None => false,
        };
        if !changed {
            pending().await
        }
    }
}

/// Runs a process under these conditions: polls it only while it is not stopped, and pauses before
/// each poll while it is slow.
pub(super) async fn paced<T>(process: impl Future<Output = T>, mut conditions: Followed) -> T {
    if !conditions.can_change() {
        return process.await;
    }
    let mut process = pin!(process);
    loop {
        let now = conditions.now();
        if now.stopped {
            conditions.changed().await;
            continue;
        }
        if let Some(pause) = now.slow {
            tokio::select! {
                biased;
                () = conditions.changed() => continue,
                () = sleep(pause) => {}
            }
        }
        // Without a pause, the process runs until the conditions change. With a pause, it takes one
        // step, and the next one when it was woken.
        let mut steps = 0;
        let step = poll_fn(|cx| {
            if now.slow.is_some() && steps == 1 {
                return Poll::Ready(None);
            }
            steps += 1;
            process.as_mut().poll(cx).map(Some)
        });
        tokio::select! {
            biased;
            () = conditions.changed() => {}
            ended = step => if let Some(ended) = ended { return ended },
        }
    }
}
