//! The deadlines of one turn.

use reknit_seams::defect;
use tokio::time::Instant;

use crate::limits::TurnLimits;

/// A deadline that has passed. At one instant, the first in this list counts first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Alarm {
    /// The turn that the user cancelled has not ended.
    Cancelled,
    /// The server said nothing more after the final answer.
    Inference,
    /// Something that has to follow did not come.
    FollowUp,
    /// The server is silent.
    Idle,
    /// The turn takes too long.
    Absolute,
}

/// The deadlines. `None` is a deadline that does not run.
pub(super) struct Clocks {
    limits: TurnLimits,
    cancelled: Option<Instant>,
    inference: Option<Instant>,
    follow_up: Option<Instant>,
    idle: Instant,
    absolute: Instant,
}

impl Clocks {
    pub fn new(limits: TurnLimits, now: Instant) -> Self {
        Self {
            limits,
            cancelled: None,
            inference: None,
            follow_up: None,
            idle: now + limits.idle,
            absolute: now + limits.absolute,
        }
    }

    /// The server did something for this turn.
    pub fn touch(&mut self, now: Instant) {
        self.idle = now + self.limits.idle;
    }

    /// Something has to follow.
    pub fn expect_follow_up(&mut self, now: Instant) {
        // The bug: each error starts the wait again.
        self.follow_up = self.follow_up.filter(|_| !defect!(EachErrorWaitsAnew));
        self.follow_up.get_or_insert(now + self.limits.follow_up);
    }

    /// It followed.
    pub fn followed(&mut self) {
        // The bug: the turn has its whole time again.
        if self.follow_up.take().is_some() && defect!(ErrorsRenewTheTime) {
            self.absolute += self.limits.absolute;
        }
    }

    /// Starts the wait for silence again.
    pub fn infer(&mut self, now: Instant) {
        self.inference = Some(now + self.limits.inference);
    }

    /// Silence proves nothing now.
    pub fn infer_nothing(&mut self) {
        self.inference = None;
    }

    /// The user cancelled the turn: from now on, only its end counts.
    pub fn cancel(&mut self, now: Instant) {
        // The bug: a cancelled turn waits for its end as long as any other.
        let waits = match defect!(CancelHasNoDeadline) {
            true => self.limits.absolute,
            false => self.limits.interrupt,
        };
        self.cancelled.get_or_insert(now + waits);
        self.inference = None;
    }

    pub fn is_cancelled(&self) -> bool {
        self.cancelled.is_some()
    }

    /// Returns the next alarm, and its time.
    pub fn next(&self) -> (Instant, Alarm) {
        let alarms = [
            (self.cancelled, Alarm::Cancelled),
            (self.inference, Alarm::Inference),
            (self.follow_up, Alarm::FollowUp),
            (Some(self.idle), Alarm::Idle),
        ];
        let running = alarms.into_iter().filter_map(|(due, alarm)| Some((due?, alarm)));
        running
            .min()
            .unwrap_or((self.absolute, Alarm::Absolute))
            .min((self.absolute, Alarm::Absolute))
    }
}
