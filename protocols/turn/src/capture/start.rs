//! The start of a turn: until it has an id, its notifications wait.

use reknit_seams::{defect, milestone};
use tokio::time::Instant;

use super::input::Raw;
use super::output::{Output, Phase, Progress};
use super::verdict::{Failure, Interruption, Verdict};
use super::{Capture, Interrupting, Stage};
use crate::wire::{Notification, StartAnswer};

/// Notifications that wait for the id of the turn.
#[derive(Default)]
pub(super) struct Held {
    raws: Vec<Raw>,
    bytes: usize,
    /// How many notifications came before the last unreadable line.
    unreadable: Option<usize>,
}

impl Capture {
    /// Takes the answer to the start request. Of a late one, or a second one, only the end of the turn
    /// counts.
    pub(super) fn answered(&mut self, answer: StartAnswer, now: Instant) {
        let StartAnswer { turn, review_thread_id } = answer;
        let is_over = turn.status.is_end();
        if matches!(self.stage, Stage::Running) {
            if is_over && !defect!(LateEndsAreLost) {
                self.reported(&turn);
            }
            return;
        }
        let is_first = matches!(self.stage, Stage::Starting(_));
        let is_awaited = matches!(self.interrupting, Interrupting::Owed(_));
        if !is_first && !is_awaited {
            return;
        }
        if is_over {
            self.interrupting = Interrupting::Done;
        }
        let review = review_thread_id.filter(|thread| !thread.is_empty());
        if let Some(thread) = &review
            && !defect!(ReviewMovesLate)
            && (is_first || !defect!(LateReviewsStayHere))
        {
            self.tree.move_to(thread.clone());
        }
        if is_first {
            self.clocks.touch(now);
            // The bug: the turn that was reported first counts more than the answer.
            let reported = defect!(EarlyReportsNameTheTurn).then(|| self.held_turn()).flatten();
            match reported.as_deref().or(turn.id()) {
                Some(id) => self.run(id.to_owned(), now),
                None => self.wait_for_id(now),
            }
        } else if let Some(id) = turn.id() {
            self.learn_id(id.to_owned());
        }
        // The bug: the thread of a review is known only now.
        if let Some(thread) = review.filter(|_| defect!(ReviewMovesLate)) {
            self.tree.move_to(thread);
        }
        // The bug: only a notification ends a turn.
        if is_over && is_first && !defect!(EndsInAnswersAreLost) {
            self.reported(&turn);
        }
    }

    /// Whether the server has reported the turn, although its start has no answer.
    pub fn has_begun(&self) -> bool {
        // The bug: only the answer counts.
        self.held_turn().is_some() && !defect!(RefusalHidesTheTurn)
    }

    /// Takes the refusal of the start request. There is nothing to interrupt. A turn that the server has
    /// reported has started: only its answer is lost.
    pub(super) fn refused(&mut self, code: i64, message: String, now: Instant) {
        if self.has_begun() {
            return self.not_answered(now);
        }
        if !matches!(self.stage, Stage::Starting(_)) && self.tree.turn().is_some() {
            return;
        }
        self.interrupting = Interrupting::Done;
        self.decide(if self.clocks.is_cancelled() {
            Verdict::Interrupted(Interruption::Cancelled)
        } else {
            Verdict::Failed(Failure::Refused { code, message })
        });
    }

    /// Takes the news that the start request gets no answer.
    pub(super) fn not_answered(&mut self, now: Instant) {
        if matches!(self.stage, Stage::Starting(_)) && !self.adopt_held_turn(now) {
            self.abandon(Failure::NoAnswer, now);
        }
    }

    /// Takes a notification in any state.
    pub(super) fn notified(&mut self, raw: Raw, now: Instant) {
        if matches!(self.stage, Stage::Running) {
            return self.apply(raw, now);
        }
        let Ok(notification) = Notification::parse(&raw.method, raw.params.as_deref()) else {
            return self.could_not_read(now);
        };
        let name = self.tree.name_in(&notification);
        if let Some(turn) = &name
            && matches!(self.interrupting, Interrupting::Owed(_))
        {
            self.ask_to_interrupt(Some(turn.clone()));
        }
        if self.verdict().is_some() {
            return self.apply(raw, now);
        }
        if notification.thread().is_none() {
            return self.outputs.push_back(Output::Foreign(raw));
        }
        if defect!(DropsThreadsAnnouncedEarly)
            && matches!(notification, Notification::ThreadStarted(_))
        {
            return;
        }
        self.hold(raw, now);
        if matches!(self.stage, Stage::Unnamed(_))
            && !defect!(WaitsForEverForATurnId)
            && let Some(turn) = name
        {
            self.run(turn, now);
        }
    }

    /// Runs the turn that the server reported on the thread before the answer came. Returns whether
    /// it did.
    pub(super) fn adopt_held_turn(&mut self, now: Instant) -> bool {
        let held = self.held_turn();
        let is_held = held.is_some();
        if let Some(turn) = held {
            self.run(turn, now);
        }
        is_held
    }

    /// Returns the id of the turn that the server reported on the thread, if it did, and the turn
    /// does not run yet.
    pub(super) fn held_turn(&self) -> Option<String> {
        let (Stage::Starting(held) | Stage::Unnamed(held)) = &self.stage else { return None };
        held.raws.iter().find_map(|raw| {
            let parsed = Notification::parse(&raw.method, raw.params.as_deref());
            parsed.ok().and_then(|notification| self.tree.name_in(&notification))
        })
    }

    /// Gives the notifications of other threads back to the caller.
    pub(super) fn give_back(&mut self, held: Held) {
        for raw in held.raws {
            let parsed = Notification::parse(&raw.method, raw.params.as_deref());
            if parsed.is_ok_and(|notification| notification.thread() != Some(self.tree.main())) {
                self.outputs.push_back(Output::Foreign(raw));
            }
        }
    }

    fn wait_for_id(&mut self, now: Instant) {
        if defect!(WaitsForEverForATurnId) || !self.adopt_held_turn(now) {
            if !defect!(WaitsForEverForATurnId) {
                self.clocks.expect_follow_up(now);
            }
            if let Stage::Starting(held) = &mut self.stage {
                self.stage = Stage::Unnamed(std::mem::take(held));
            }
        }
    }

    /// The turn has an id: applies what waited for it.
    fn run(&mut self, turn: String, now: Instant) {
        let (Stage::Starting(held) | Stage::Unnamed(held)) =
            std::mem::replace(&mut self.stage, Stage::Running)
        else {
            return;
        };
        self.clocks.followed();
        self.learn_id(turn);
        self.enter(Phase::Investigating);
        milestone!("turn.client.running", held = held.raws.len());
        for (n, raw) in held.raws.into_iter().enumerate() {
            self.apply(raw, now);
            if held.unreadable == Some(n + 1) {
                self.may_work();
            }
        }
    }

    /// Learns the id of the turn, and interrupts the turn if that is owed.
    fn learn_id(&mut self, turn: String) {
        self.tree.name(turn.clone());
        let thread = self.tree.main().to_owned();
        self.progress(Progress::Started { thread, turn: turn.clone() });
        if matches!(self.interrupting, Interrupting::Owed(_)) {
            self.ask_to_interrupt(Some(turn));
        }
    }

    /// Notes the place of an unreadable line among the notifications that wait.
    pub(super) fn hold_unreadable(&mut self) {
        if let Stage::Starting(held) | Stage::Unnamed(held) = &mut self.stage
            && !defect!(EarlyGarbledLinesAreForgotten)
        {
            held.unreadable = Some(held.raws.len());
        }
    }

    fn hold(&mut self, raw: Raw, now: Instant) {
        let (Stage::Starting(held) | Stage::Unnamed(held)) = &mut self.stage else { return };
        held.bytes += raw.weight();
        held.raws.push(raw);
        // The bug: the notifications that wait may be of any length.
        let is_large = held.bytes > self.limits.text_bytes && !defect!(EarlyNewsHaveAnyLength);
        // The bugs: one notification less than the limit may wait, or one more.
        let count = held.raws.len() + usize::from(defect!(OneLessIsKept));
        let is_long = count > self.limits.buffered + usize::from(defect!(OneMoreIsKept));
        if is_long || is_large {
            self.abandon(Failure::TooMuchBuffered, now);
        }
    }
}
