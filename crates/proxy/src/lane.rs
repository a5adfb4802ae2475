//! The condition of one direction of a connection.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::network::NetworkState;

/// How long a condition lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    Time(Instant),
    Forever,
}

impl Until {
    pub(crate) fn lasting(time: Option<Duration>) -> Self {
        time.map_or(Self::Forever, |time| Self::Time(Instant::now() + time))
    }

    fn is_over(self) -> bool {
        matches!(self, Self::Time(end) if end <= Instant::now())
    }
}

/// The effect of the faults so far on the bytes of one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Condition {
    /// Bytes wait.
    pub(crate) stall: Option<Until>,
    /// Bytes are lost.
    pub(crate) half_open: bool,
    /// Bytes arrive later by this time.
    pub(crate) delay: Option<(Duration, Until)>,
    /// The FIN or RST arrives later by this time.
    pub(crate) delay_close: Duration,
}

/// One direction: its own condition, and the state of the network.
pub(crate) struct Lane {
    condition: watch::Sender<Condition>,
    network: watch::Receiver<NetworkState>,
}

impl Lane {
    pub(crate) fn new(network: watch::Receiver<NetworkState>) -> Self {
        Self { condition: watch::Sender::default(), network }
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Condition)) {
        self.condition.send_modify(change);
    }

    pub(crate) fn now(&self) -> Condition {
        *self.condition.borrow()
    }

    /// Returns when bytes that enter now arrive.
    pub(crate) fn due(&self) -> Instant {
        let delay = self.now().delay.filter(|(_, until)| !until.is_over());
        Instant::now() + delay.map_or(Duration::ZERO, |(by, _)| by)
    }

    /// Waits until bytes may arrive.
    pub(crate) async fn opens(&self) {
        let (mut condition, mut network) = (self.condition.subscribe(), self.network.clone());
        loop {
            let stall = condition.borrow_and_update().stall.filter(|until| !until.is_over());
            let still = *network.borrow_and_update() == NetworkState::Still;
            let end = match stall {
                None if !still => return,
                Some(Until::Time(end)) => Some(end),
                _ => None,
            };
            tokio::select! {
                // Neither sender ends before this lane: an error would only look again.
                _ = condition.changed() => {}
                _ = network.changed() => {}
                () = sleep_until(end.unwrap_or_else(Instant::now)), if end.is_some() => {}
            }
        }
    }
}
