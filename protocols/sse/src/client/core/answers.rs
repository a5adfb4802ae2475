//! The head of an answer.

use std::time::Duration;

use reknit_seams::{defect, milestone};
use tokio::time::Instant;

use super::{Core, Phase, Streaming, Target};
use crate::client::{Dialect, Failure, Loss, Refused};
use crate::wire::{Epoch, RefusalBody};

/// Status codes of a server, or of a proxy before it, that has a problem at the moment.
const MAY_PASS: [u16; 5] = [408, 425, 502, 503, 504];

impl Core {
    /// A stream begins. `epoch`: the run that its positions count, if the server says it.
    pub(in crate::client) fn opened(&mut self, epoch: Option<Epoch>, now: Instant) {
        let Phase::Opening { .. } = self.phase else { return };
        let silent_at = now + self.limits.silence;
        let (brought, unreadable) = (false, false);
        self.phase = Phase::Streaming(Streaming { since: now, silent_at, brought, unreadable });
        milestone!("sse.client.streaming", attempt = self.attempt);
        if defect!(BudgetRefilledByConnecting) {
            self.recovery = None;
        }
        match epoch {
            Some(epoch) => self.run_is(epoch),
            None => self.confirmed |= matches!(self.target, Target::Known(_)),
        }
    }

    /// The server names the run of the command. Only a server that has the command can do this, so a
    /// start is confirmed.
    pub(super) fn run_is(&mut self, epoch: Epoch) {
        match self.cursor.epoch {
            Some(ours) if ours != epoch && !defect!(RunNotChecked) => {
                return self.fail(Failure::AnotherRun);
            }
            None if matches!(self.target, Target::Known(_)) && defect!(FollowersLearnNoRun) => {}
            _ => self.cursor.epoch = Some(epoch),
        }
        self.confirmed = true;
        if let Some(id) = self.id()
            && matches!(self.target, Target::Start(_))
        {
            milestone!("sse.client.started", command = id.as_str(), attempt = self.attempt);
            self.target = Target::Known(id);
            self.progress();
        }
    }

    /// The server has the command, and nothing follows the cursor. A user that has received events would
    /// have received the ending as one of them.
    pub(in crate::client) fn complete(&mut self) {
        let Phase::Opening { .. } = self.phase else { return };
        if self.cursor.after == 0 || self.cursor.after != self.began {
            return self.fail(Failure::Protocol("ends a command without an ending"));
        }
        milestone!("sse.client.complete", attempt = self.attempt);
        self.phase = Phase::Over(Ok(()));
    }

    /// The answer is not a success.
    pub(in crate::client) fn refused(&mut self, status: u16, body: RefusalBody, now: Instant) {
        let Phase::Opening { .. } = self.phase else { return };
        milestone!("sse.client.refused", attempt = self.attempt, status, code = &*body.code);
        let is_resume = matches!(self.target, Target::Known(_));
        let is_execd = self.names.dialect == Dialect::Execd;
        if status == 404 && is_resume && defect!(NotFoundIsSuccess) {
            self.phase = Phase::Over(Ok(()));
            return;
        }
        let at_least = body.retry_after_ms.map(Duration::from_millis);
        let passes = at_least.is_some()
            || MAY_PASS.contains(&status) && !(status == 502 && defect!(BadGatewayIsFatal))
            || is_execd && is_resume && status == 409;
        let refused = Refused::new(status, body);
        match (status, refused.code.as_str()) {
            (404, "COMMAND_EXPIRED") => self.fail(Failure::Expired),
            (404, "COMMAND_NOT_FOUND") => self.fail(Failure::NotFound),
            (404, _) if is_execd && is_resume => self.fail(Failure::NotFound),
            (400, "CURSOR_FOREIGN") => self.fail(Failure::AnotherRun),
            (409, _) if defect!(ConflictIsFatal) => self.fail(Failure::Refused(refused)),
            _ if passes => {
                let at_least = at_least.filter(|_| !defect!(RetryTimeIgnored));
                self.lost_until(Loss::Refused(refused), at_least.unwrap_or_default(), now);
            }
            _ => self.fail(Failure::Refused(refused)),
        }
    }
}
