//! One turn, from the start request to its verdict, without sockets and clocks.
//!
//! A [`Capture`] gets [`Input`]s and the current time, and gives [`Output`]s and one [`Verdict`]. The
//! caller creates it before it sends the start request, hands in everything that the server sends
//! afterwards, and calls [`Capture::wake`] when [`Capture::due`] has come.
//!
//! # Which input decides
//!
//! The first verdict stands. These inputs give one:
//!
//! 1. **Report.** `turn/completed` of this turn, or an answer to the start request, also a late one, that
//!    says that the turn is over. It decides in every state, also after [`Input::Cancel`], and also while
//!    subagents work: the server ends a turn without waiting for them.
//! 2. **Cancel.** After it, the capture infers nothing. It asks for an interrupt, and waits for the
//!    report, for the end of the server, or for [`interrupt`](TurnLimits::interrupt). If the turn ends
//!    by itself first, the report says so, and counts.
//! 3. **No start.** A refusal, or no answer. If there is no answer, but the server reported the start
//!    of a turn on the thread, that turn counts.
//! 4. **End of the server.** It comes after everything that the server sent. With a final answer and no
//!    open work, the turn completed. Otherwise it failed.
//! 5. **Silence.** A final answer came, no work is open, and no work began on the main thread after the
//!    answer. Then the turn completed after [`inference`](TurnLimits::inference). Each final answer, each
//!    end of work and each end of a subagent's turn starts this time again.
//! 6. **Deadlines.** An error that the server does not retry or an answer without a turn id, and then
//!    nothing for [`follow_up`](TurnLimits::follow_up); nothing at all for [`idle`](TurnLimits::idle);
//!    [`absolute`](TurnLimits::absolute). The turn failed, and the capture asks for an interrupt.
//!
//! Inputs come before deadlines: what is handed in before the capture looks at the clock counts, even
//! if a deadline has passed. Of two deadlines at one instant, the first in the list above counts.
//! A report that contradicts a verdict comes too late and changes nothing, also after silence.
//!
//! # What counts
//!
//! - A **final answer** is a complete message of the main thread, with text, in the phase
//!   `final_answer`; for a review also the review itself. An empty message and a message without a phase
//!   are no final answers: with such a server, only a report completes a turn.
//! - **Open work** is an item of the main thread that is [work](crate::wire::Item::is_work), and a turn
//!   of a subagent. The turn of a subagent is over with its `turn/completed`, which can come
//!   before its `turn/started`, with the next turn on its thread, or when its thread becomes idle. If its
//!   end is lost nevertheless, the capture infers no success: the end of the server then means failure.
//! - The **answer** is the last final answer, not a later message. Without phases, it is the last
//!   message.
//! - An **unreadable line** may have been the start of work. So silence proves nothing until the next
//!   final answer, and the server is not idle. More than [`unreadable`](TurnLimits::unreadable) of them fail the turn.
//! - After the verdict, the turn's own notifications are dropped, and foreign ones go back to the caller.
//!   If the turn has no id yet and has to be interrupted, the capture waits for its id. It is
//!   [over](Capture::is_over) only then.

mod clocks;
mod end;
mod events;
mod input;
mod output;
mod record;
mod report;
mod start;
mod tree;
mod verdict;

#[cfg(test)]
mod tests;

pub use input::{Input, Raw, TurnKind};
pub use output::{Interrupt, Output, Phase, Progress};
pub use report::{CommandRun, EditedFile, Report};
pub use verdict::{Evidence, Failure, Interruption, Verdict};

use std::collections::{BTreeSet, VecDeque};

use tokio::time::Instant;

use crate::limits::TurnLimits;
use clocks::Clocks;
use record::Record;
use start::Held;
use tree::Tree;

/// The state of a turn.
enum Stage {
    /// The start request has no answer.
    Starting(Held),
    /// The answer had no turn id.
    Unnamed(Held),
    /// The turn has an id.
    Running,
    /// The turn has a verdict.
    Over(Verdict),
}

/// Whether the turn is interrupted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Interrupting {
    No,
    /// It has to be, once its id is known, but no later than this.
    Owed(Instant),
    /// The output is given, or there is nothing to interrupt any more.
    Done,
}

/// The final answer, as far as it proves the end of the turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FinalAnswer {
    None,
    /// It came, and work began afterwards or may have begun.
    Passed,
    /// It came, and nothing happened afterwards.
    Last,
}

/// The state machine of one turn.
pub struct Capture {
    limits: TurnLimits,
    stage: Stage,
    tree: Tree,
    record: Record,
    clocks: Clocks,
    interrupting: Interrupting,
    final_answer: FinalAnswer,
    /// The items of the main thread that are work and not complete.
    open: BTreeSet<String>,
    /// Whether there were more of them than the limit.
    open_is_full: bool,
    unreadable: usize,
    phase: Phase,
    outputs: VecDeque<Output>,
}

impl Capture {
    /// Creates the capture of a turn that is about to start on this thread.
    pub fn new(kind: TurnKind, thread: String, limits: TurnLimits, now: Instant) -> Self {
        Self {
            limits,
            stage: Stage::Starting(Held::default()),
            tree: Tree::new(thread, limits.threads),
            record: Record::new(kind, limits.text_bytes),
            clocks: Clocks::new(limits, now),
            interrupting: Interrupting::No,
            final_answer: FinalAnswer::None,
            open: BTreeSet::new(),
            open_is_full: false,
            unreadable: 0,
            phase: Phase::Starting,
            outputs: VecDeque::new(),
        }
    }

    /// Takes an input.
    pub fn handle(&mut self, input: Input, now: Instant) {
        match input {
            Input::Answer(answer) => self.answered(answer, now),
            Input::Refused { code, message } => self.refused(code, message, now),
            Input::NoAnswer => self.not_answered(now),
            Input::Notification(raw) => self.notified(raw, now),
            Input::Unreadable => self.could_not_read(now),
            Input::End { why } => self.server_ended(why, now),
            Input::Cancel => self.cancel(now),
        }
        self.wake(now);
    }

    /// Returns when [`Capture::wake`] must be called. `None` if the capture is over.
    pub fn due(&self) -> Option<Instant> {
        let owed = match self.interrupting {
            Interrupting::Owed(at) => Some(at),
            Interrupting::No | Interrupting::Done => None,
        };
        let alarm = self.verdict().is_none().then(|| self.clocks.next().0);
        [owed, alarm].into_iter().flatten().min()
    }

    /// Looks at the clock.
    pub fn wake(&mut self, now: Instant) {
        if matches!(self.interrupting, Interrupting::Owed(at) if at <= now) {
            self.ask_to_interrupt(None);
        }
        while self.verdict().is_none() {
            let (due, alarm) = self.clocks.next();
            if due > now {
                break;
            }
            self.ring(alarm, now);
        }
    }

    /// Returns the next output.
    pub fn output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Returns the verdict, if there is one.
    pub fn verdict(&self) -> Option<&Verdict> {
        match &self.stage {
            Stage::Over(verdict) => Some(verdict),
            _ => None,
        }
    }

    /// Whether the turn has a verdict, and needs no interrupt any more.
    pub fn is_over(&self) -> bool {
        self.verdict().is_some() && !matches!(self.interrupting, Interrupting::Owed(_))
    }

    /// Returns the thread of the turn.
    pub fn thread(&self) -> &str {
        self.tree.main()
    }

    /// Returns the id of the turn, if it is known.
    pub fn turn(&self) -> Option<&str> {
        self.tree.turn()
    }

    /// Returns what the turn produced, if it has a verdict.
    pub fn into_report(self) -> Option<Report> {
        let Stage::Over(verdict) = self.stage else { return None };
        let turn = self.tree.turn().map(str::to_owned);
        Some(self.record.into_report(self.tree.main().to_owned(), turn, verdict))
    }

    /// Enters a phase of the work.
    fn enter(&mut self, phase: Phase) {
        if self.phase != phase {
            self.phase = phase;
            self.progress(Progress::Phase(phase));
        }
    }

    fn progress(&mut self, progress: Progress) {
        self.outputs.push_back(Output::Progress(progress));
    }
}
