//! The notifications of a turn that has an id.

use reknit_seams::defect;
use tokio::time::Instant;

use super::input::Raw;
use super::output::{Output, Phase, Progress};
use super::tree::Relation;
use super::verdict::{Failure, Verdict};
use super::{Capture, FinalAnswer};
use crate::wire::{Item, Notification};

impl Capture {
    /// Applies a notification to a turn that has an id or a verdict.
    pub(super) fn apply(&mut self, raw: Raw, now: Instant) {
        let Ok(notification) = Notification::parse(&raw.method, raw.params.as_deref()) else {
            return self.could_not_read(now);
        };
        let relation = self.tree.take(&notification);
        let new = self.tree.take_new();
        if relation == Relation::Foreign {
            return self.outputs.push_back(Output::Foreign(raw));
        }
        if self.verdict().is_some() && !defect!(LaterEndReplacesTheVerdict) {
            return;
        }
        for thread in new {
            self.progress(Progress::Subagent { thread });
        }
        if relation == Relation::Main || !defect!(SubagentsAreSilent) {
            self.clocks.touch(now);
        }
        match relation {
            Relation::Main => self.apply_to_main(notification, now),
            _ => self.apply_to_subagent(notification, now),
        }
    }

    fn apply_to_main(&mut self, notification: Notification, now: Instant) {
        let thread = self.tree.main().to_owned();
        match notification {
            Notification::TurnCompleted { turn, .. } if !self.tree.is_inner(&turn) => {
                self.reported(&turn);
            }
            Notification::ItemStarted { item, .. } => {
                if !defect!(StartedItemsFollowNothing) {
                    self.clocks.followed();
                }
                self.main_item_started(&item);
                self.progress(Progress::ItemStarted { thread, item });
            }
            Notification::ItemCompleted { item, .. } => {
                self.clocks.followed();
                self.main_item_completed(&item, now);
                self.progress(Progress::ItemCompleted { thread, item });
            }
            Notification::Error { error, will_retry, .. } => {
                self.record.error(&error.message);
                if (!will_retry && !defect!(WaitsAfterAnError))
                    || (will_retry && defect!(GivesUpOnARetriedError))
                {
                    self.clocks.expect_follow_up(now);
                }
                self.progress(Progress::Error { thread, message: error.message, will_retry });
            }
            Notification::ThreadNameUpdated { name: Some(name), .. } => {
                self.progress(Progress::Named { thread, name });
            }
            _ => {}
        }
    }

    fn main_item_started(&mut self, item: &Item) {
        if let Some(phase) = Phase::of(item) {
            self.enter(phase);
        }
        let is_delegated = matches!(item, Item::CollabAgentToolCall { .. });
        if !item.is_work() || (!is_delegated && defect!(InfersWhileItemsAreOpen)) {
            return;
        }
        if self.final_answer == FinalAnswer::Last {
            self.final_answer = FinalAnswer::Passed;
        }
        if self.open.len() + usize::from(defect!(OneItemLessIsFollowed)) < self.limits.open_items {
            self.open.insert(item.id().to_owned());
        } else {
            self.open_is_full = true;
        }
    }

    fn main_item_completed(&mut self, item: &Item, now: Instant) {
        self.open.remove(item.id());
        let is_final = self.record.main_item(item);
        if is_final {
            self.final_answer = FinalAnswer::Last;
            self.enter(Phase::Finalizing);
        }
        // The bug: any message starts the wait for silence again.
        if is_final || item.is_work() || defect!(CommentsDelayTheEnd) {
            self.wait_for_silence(now);
        }
    }

    fn apply_to_subagent(&mut self, notification: Notification, now: Instant) {
        // The bug: the work of a subagent shows that the turn goes on after an error.
        if defect!(SubagentsFollowErrors) {
            self.clocks.followed();
        }
        match notification {
            Notification::TurnCompleted { .. }
            | Notification::ThreadStatusChanged { .. }
            | Notification::ThreadClosed { .. } => self.wait_for_silence(now),
            Notification::ThreadNameUpdated { thread, name: Some(name) } => {
                self.progress(Progress::Named { thread, name });
            }
            Notification::ItemStarted { scope, item } => {
                let thread = scope.thread_id.unwrap_or_default();
                self.progress(Progress::ItemStarted { thread, item });
            }
            Notification::ItemCompleted { scope, item } => {
                self.record.work(&item);
                let thread = scope.thread_id.unwrap_or_default();
                self.progress(Progress::ItemCompleted { thread, item });
            }
            Notification::Error { scope, error, will_retry } => {
                // The bug: the error of a subagent ends the turn.
                if !will_retry && defect!(SubagentErrorsEndTheTurn) {
                    self.clocks.expect_follow_up(now);
                }
                let thread = scope.thread_id.unwrap_or_default();
                self.progress(Progress::Error { thread, message: error.message, will_retry });
            }
            _ => {}
        }
    }

    /// Whether the turn is complete as far as its notifications show.
    pub(super) fn looks_complete(&self) -> bool {
        // The bug: items that are not followed are complete.
        let may_work = self.open_is_full && !defect!(FullListsAreQuiet);
        let is_quiet = self.open.is_empty() && !may_work && self.tree.is_quiet();
        self.final_answer != FinalAnswer::None && is_quiet
    }

    pub(super) fn may_infer(&self) -> bool {
        self.looks_complete()
            && self.final_answer == FinalAnswer::Last
            && !self.clocks.is_cancelled()
    }

    fn wait_for_silence(&mut self, now: Instant) {
        if self.may_infer() {
            self.clocks.infer(now);
        } else {
            self.clocks.infer_nothing();
        }
    }

    /// Work may have begun: silence proves nothing until the next final answer.
    pub(super) fn may_work(&mut self) {
        if self.final_answer == FinalAnswer::Last && !defect!(GarbledLinesAreNoWork) {
            self.final_answer = FinalAnswer::Passed;
        }
    }

    /// Takes an unreadable line. It may have been the start of work, so the server is not silent.
    pub(super) fn could_not_read(&mut self, now: Instant) {
        if self.verdict().is_some() {
            return;
        }
        if !defect!(UnreadableLinesAreSilence) {
            self.clocks.touch(now);
        }
        self.progress(Progress::Unreadable);
        self.unreadable += 1;
        self.hold_unreadable();
        self.may_work();
        // The bug: the line takes the final answer back, so the end of the server proves nothing either.
        if defect!(GarbledLinesTakeTheAnswerBack) {
            self.final_answer = FinalAnswer::None;
        }
        if defect!(EndsAtAnUnreadableLine) {
            return self
                .decide(Verdict::Failed(Failure::Disconnected { why: "unreadable".into() }));
        }
        if self.unreadable > self.limits.unreadable + usize::from(defect!(SkipsOneLineMore)) {
            self.abandon(Failure::Unreadable { lines: self.unreadable }, now);
        }
    }
}
