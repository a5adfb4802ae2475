//! The inputs that end a turn, and its interruption.

use reknit_seams::{defect, milestone};
use tokio::time::Instant;

use super::clocks::Alarm;
use super::output::{Interrupt, Output, Progress};
use super::verdict::{Evidence, Failure, Interruption, Verdict};
use super::{Capture, Interrupting, Stage};
use crate::wire::{Turn, TurnStatus};

impl Capture {
    /// Takes the turn as the server reports it at its end.
    pub(super) fn reported(&mut self, turn: &Turn) {
        self.record.end(turn);
        let reason = turn.error.as_ref().map(|error| error.message.as_str());
        let verdict = match &turn.status {
            TurnStatus::Completed => Verdict::Completed(Evidence::Reported),
            TurnStatus::Failed => {
                // The bug: the reason of the server is lost.
                let reason = reason.filter(|reason| !reason.is_empty() && !defect!(LosesTheReason));
                let last = self.record.last_error().filter(|_| !defect!(LastErrorsAreNoReasons));
                let message = reason.or(last).unwrap_or("no reason given");
                Verdict::Failed(Failure::Turn { message: message.to_owned() })
            }
            TurnStatus::Interrupted if self.clocks.is_cancelled() => {
                Verdict::Interrupted(Interruption::Cancelled)
            }
            TurnStatus::Interrupted => Verdict::Interrupted(Interruption::Other),
            // The bug: what the client does not know counts as success.
            TurnStatus::Other(_) if defect!(UnknownEndsComplete) => {
                Verdict::Completed(Evidence::Reported)
            }
            status @ (TurnStatus::InProgress | TurnStatus::Other(_)) => {
                Verdict::Failed(Failure::UnknownStatus { status: status.as_str().to_owned() })
            }
        };
        // The turn is over at the server, so an interrupt would do nothing.
        self.interrupting = Interrupting::Done;
        self.decide(verdict);
    }

    pub(super) fn server_ended(&mut self, why: String, now: Instant) {
        if defect!(IgnoresTheEndOfTheServer) {
            return;
        }
        self.interrupting = Interrupting::Done;
        self.adopt_held_turn(now);
        // The bug: an answer counts more than the cancel after it.
        let is_answered = defect!(AnswersHideTheCancel) && self.looks_complete();
        let verdict = if self.clocks.is_cancelled() && !is_answered {
            Verdict::Interrupted(Interruption::CancelledUnconfirmed)
        } else if self.looks_complete() && !defect!(FailsAtEveryEndOfTheServer) {
            Verdict::Completed(Evidence::EndOfServer)
        } else {
            Verdict::Failed(Failure::Disconnected { why })
        };
        self.decide(verdict);
    }

    pub(super) fn cancel(&mut self, now: Instant) {
        if self.verdict().is_none() && !self.clocks.is_cancelled() {
            self.clocks.cancel(now);
            self.interrupt(now);
            self.progress(Progress::Cancelling);
        }
    }

    pub(super) fn ring(&mut self, alarm: Alarm, now: Instant) {
        match alarm {
            Alarm::Inference if self.may_infer() || defect!(NeverTestsAgain) => {
                self.decide(Verdict::Completed(Evidence::Silence));
            }
            Alarm::Inference => self.clocks.infer_nothing(),
            Alarm::Cancelled => {
                self.decide(Verdict::Interrupted(Interruption::CancelledUnconfirmed));
            }
            Alarm::FollowUp => self.abandon(self.what_is_missing(), now),
            Alarm::Idle => self.abandon(Failure::Idle(self.limits.idle), now),
            Alarm::Absolute => self.abandon(Failure::TooLong(self.limits.absolute), now),
        }
    }

    fn what_is_missing(&self) -> Failure {
        match &self.stage {
            Stage::Unnamed(_) => Failure::NoTurnId,
            _ => {
                let message = self.record.last_error().unwrap_or_default().to_owned();
                Failure::Error { message }
            }
        }
    }

    /// Gives up on a turn that may run on. A turn that the user cancelled is cancelled.
    pub(super) fn abandon(&mut self, failure: Failure, now: Instant) {
        if !defect!(AbandonsWithoutAnInterrupt) {
            self.interrupt(now);
        }
        // The bug: a deadline that passes after the cancel counts.
        let verdict = if self.clocks.is_cancelled() && !defect!(DeadlinesHideTheCancel) {
            Verdict::Interrupted(Interruption::CancelledUnconfirmed)
        } else {
            Verdict::Failed(failure)
        };
        self.decide(verdict);
    }

    fn interrupt(&mut self, now: Instant) {
        if self.interrupting != Interrupting::No {
            return;
        }
        match self.tree.turn().map(str::to_owned).or_else(|| self.held_turn()) {
            Some(turn) => self.ask_to_interrupt(Some(turn)),
            None if defect!(InterruptsOnlyKnownTurns) => self.interrupting = Interrupting::Done,
            None => self.interrupting = Interrupting::Owed(now + self.limits.interrupt),
        }
    }

    pub(super) fn ask_to_interrupt(&mut self, turn: Option<String>) {
        self.interrupting = Interrupting::Done;
        let thread = self.tree.main().to_owned();
        milestone!("turn.client.interrupting", known = turn.is_some());
        self.outputs.push_back(Output::Interrupt(Interrupt { thread, turn }));
    }

    /// Gives the verdict, unless there is one.
    pub(super) fn decide(&mut self, verdict: Verdict) {
        if self.verdict().is_some() && !defect!(LaterEndReplacesTheVerdict) {
            return;
        }
        let (thread, turn) = (self.tree.main(), self.tree.turn().unwrap_or_default());
        milestone!("turn.client.decided", thread, turn, verdict = verdict.name());
        let before = std::mem::replace(&mut self.stage, Stage::Over(verdict));
        if let Stage::Starting(held) | Stage::Unnamed(held) = before {
            self.give_back(held);
        }
    }
}
