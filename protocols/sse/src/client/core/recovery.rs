//! Losses, pauses, and the budget.

use std::time::Duration;

use reknit_resume::Recovery;
use reknit_seams::{defect, milestone};
use tokio::time::Instant;

use super::{Core, Phase, Target};
use crate::client::{Dialect, Failure, Loss};
use crate::wire::Cursor;

impl Core {
    /// The attempt or the stream is over, and the command is not.
    pub(in crate::client) fn lost(&mut self, loss: Loss, now: Instant) {
        self.lost_until(loss, Duration::ZERO, now);
    }

    /// Does the same, with a pause of at least `at_least` before the next attempt.
    pub(super) fn lost_until(&mut self, loss: Loss, at_least: Duration, now: Instant) {
        if !self.has_connection() {
            return;
        }
        if loss == Loss::Silent && defect!(SilenceIsTolerated) {
            return self.user_returned(now); // waits for as long again
        }
        milestone!("sse.client.lost", attempt = self.attempt, why = %loss);
        // The bug: an attempt without a connection counts, too.
        if may_have_run(&loss) || loss == Loss::NotConnected && defect!(UnsentStartsAge) {
            if defect!(AgeCountsFromTheLast) {
                self.first_sent = None;
            }
            let sent = if defect!(AgeCountsFromTheLoss) { now } else { self.attempt_began };
            self.first_sent.get_or_insert(sent);
        }
        self.inbox.clear();
        if loss == Loss::EndedEarly && defect!(EndOfStreamIsSuccess) {
            self.phase = Phase::Over(Ok(()));
            return;
        }
        if let Some(failure) = self.is_final(&loss) {
            return self.fail(failure);
        }
        self.judge_connection(&loss, now);
        let deadline = self.budget(now);
        let random = self.names.entropy.below(u64::MAX);
        let pause = match loss {
            Loss::Detached(_) => Duration::ZERO,
            _ if defect!(NoPauses) => Duration::ZERO,
            _ if defect!(PausesDoNotGrow) => self.limits.min_pause / 2,
            _ if defect!(RetryTimeIsThePause) && !at_least.is_zero() => at_least,
            _ => self.back_off.next(random).max(at_least),
        };
        self.phase = Phase::Pausing { until: deadline.cap(now, pause), after: Some(loss) };
        self.check_budget(now);
    }

    /// Returns the failure, if another attempt could do harm.
    fn is_final(&self, loss: &Loss) -> Option<Failure> {
        if self.names.dialect == Dialect::Reknit {
            return None;
        }
        match &self.target {
            // The bug: an attempt without a connection may have started the command, too.
            Target::Start(_) if *loss != Loss::NotConnected || defect!(UnsentStartIsUnknown) => {
                Some(Failure::StartUnknown(loss.clone()))
            }
            Target::Known(_) if self.unnumbered => Some(Failure::NotResumable(loss.clone())),
            _ => None,
        }
    }

    /// A connection that was of use makes the next pauses shorter.
    fn judge_connection(&mut self, loss: &Loss, now: Instant) {
        let Phase::Streaming(stream) = &self.phase else { return };
        if stream.brought {
            // The bug: the pauses go on as if the connection had brought nothing.
            if !defect!(PausesOutliveProgress) {
                self.back_off.restart();
            }
            return;
        }
        self.back_off.connection_lasted(now.saturating_duration_since(stream.since));
        if *loss == Loss::Silent && self.names.dialect == Dialect::Execd {
            self.recovery = None; // an original execd is silent while its command is
        }
        if defect!(CursorForgottenWithoutEvents) {
            self.cursor = Cursor { after: 0, ..self.cursor };
        }
    }

    /// Returns the current budget. The first loss starts it.
    pub(super) fn budget(&mut self, now: Instant) -> Recovery {
        // The bug: the time counts from the last byte of a lost stream.
        let since = match &self.phase {
            Phase::Streaming(stream) if defect!(BudgetCountsFromTheLastByte) => {
                stream.silent_at - self.limits.silence
            }
            _ => now,
        };
        *self.recovery.get_or_insert_with(|| Recovery::begin(since, self.limits.budget))
    }

    /// Returns when the budget is over; `None` without a loss. A stream that has just begun still has the
    /// time of a silent connection, because the first sign of life of a quiet command takes that long.
    pub(super) fn budget_ends(&self) -> Option<Instant> {
        let deadline = self.recovery?.deadline();
        Some(match &self.phase {
            Phase::Streaming(stream) if !defect!(NewStreamsHaveNoTime) => {
                deadline.max(stream.since + self.limits.silence)
            }
            _ => deadline,
        })
    }

    /// Fails if the budget is over.
    pub(super) fn check_budget(&mut self, now: Instant) {
        if self.budget_ends().is_none_or(|ends| ends > now) {
            return;
        }
        let loss = match &self.phase {
            // The budget cuts the current attempt short, so the one before it says more.
            Phase::Pausing { after: Some(loss), .. } | Phase::Opening { after: Some(loss), .. } => {
                loss.clone()
            }
            Phase::Pausing { after: None, .. } => Loss::NotConnected,
            Phase::Opening { after: None, .. } => Loss::OpenTimeout,
            Phase::Streaming(_) => Loss::Silent,
            Phase::Over(_) => return,
        };
        self.fail(Failure::NoProgress(loss));
    }

    /// The stream has made progress: the budget is full again.
    pub(super) fn progress(&mut self) {
        self.hole = self.hole.filter(|after| *after == self.cursor.after);
        self.alive();
    }

    /// The server says that the command lives.
    pub(super) fn alive(&mut self) {
        if !defect!(BudgetNeverRefilled) {
            self.recovery = None;
        }
    }

    /// Ends for good.
    pub(super) fn fail(&mut self, failure: Failure) {
        milestone!("sse.client.failed", attempt = self.attempt, why = %failure);
        self.inbox.clear();
        self.phase = Phase::Over(Err(failure));
    }
}

/// Whether the server may have run the command of a start whose attempt ended like this. A refusal of a proxy
/// does not say whether the proxy passed the start on.
fn may_have_run(loss: &Loss) -> bool {
    match loss {
        Loss::NotConnected => false,
        // The bug: a server that does not answer in time has not received the start.
        Loss::OpenTimeout => !defect!(UnansweredStartsDidNotRun),
        Loss::Refused(refused) => {
            // The bug: a start that a full server refused counts as one that may have run.
            let may_have = !refused.no_effect || refused.status == 503 && defect!(RefusedStartsAge);
            may_have && !defect!(ProxyRefusalsHaveNoEffect)
        }
        _ => true,
    }
}
