//! The rules of resumption: what a follower does with answers, events, losses and the time.
//!
//! Its owner calls [`Core::step`], and does what it says: return an item, open a connection, or wait
//! for the next input. [`Core::due`] is the time until which it may wait; then it calls
//! [`Core::wake`].
//!
//! - `order`: the request of an attempt. `answers`: the head of an answer. `events`: the events of a
//!   stream. `recovery`: losses, pauses, and the budget.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use reknit_resume::{BackOff, Recovery};
use reknit_seams::defect;
use reknit_seams::env::Entropy;
use tokio::time::Instant;

use super::{Dialect, Failure, Loss};
use crate::limits::ClientLimits;
use crate::wire::{CommandId, Cursor, Ending, Gap, OutputStream, Record, RunCommand};

mod answers;
mod events;
mod order;
mod recovery;
#[cfg(test)]
mod tests;

pub(super) use order::{Ask, Order};

/// The items that a follower returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// Output of the command: at most one line, with its exact bytes. The items of both pipes come in
    /// the order in which the server read them.
    Output(OutputStream, Bytes),
    /// Events that are lost for good. The next item follows the last of them.
    Gap(Gap),
    /// The end of the command. Nothing follows.
    Ended {
        /// How it ended.
        ending: Ending,
        /// How long the command ran, in milliseconds.
        took: u64,
    },
}

/// The command to follow.
#[derive(Clone, Debug)]
pub(super) enum Target {
    /// A command whose start is not confirmed.
    Start(Box<RunCommand>),
    /// A command that the server has, or had.
    Known(CommandId),
}

/// The name of the client, and the dialect of its server.
pub(super) struct Names {
    pub(super) dialect: Dialect,
    /// The name of the client as the owner of streams.
    pub(super) client: String,
    pub(super) entropy: Arc<dyn Entropy>,
}

/// The next action of the owner of the core.
#[derive(Debug)]
pub(super) enum Step {
    /// Return this to the user.
    Return(Result<Option<Item>, Failure>),
    /// Open a connection, and send a request.
    Open(Order),
    /// Wait for an input, at most until [`Core::due`].
    Wait,
}

/// The state of a follower.
pub(super) struct Core {
    limits: ClientLimits,
    names: Names,
    target: Target,
    /// Whether the answer to the start only reports the start.
    background: bool,
    /// Whether the server has had the command.
    confirmed: bool,
    /// The place after the last item that the user has.
    cursor: Cursor,
    /// The position after which the user began.
    began: u64,
    /// The cursor at which the server left out events before.
    hole: Option<u64>,
    /// Whether the user has events without positions.
    unnumbered: bool,
    /// The number of the last attempt.
    attempt: u64,
    /// When the last attempt began.
    attempt_began: Instant,
    /// When the first attempt began whose request the server may have received.
    first_sent: Option<Instant>,
    back_off: BackOff,
    /// The budget, from a loss until progress.
    recovery: Option<Recovery>,
    /// Events that have arrived on the current connection.
    inbox: VecDeque<Record>,
    phase: Phase,
}

/// The stage of a follower.
#[derive(Debug)]
enum Phase {
    /// Waits for its next attempt. Contains the reason for the pause, if there was a loss.
    Pausing { until: Instant, after: Option<Loss> },
    /// Waits for the head of an answer. Contains the last loss, if there was one.
    Opening { until: Instant, after: Option<Loss> },
    /// Receives events.
    Streaming(Streaming),
    /// Has returned the ending, or has failed.
    Over(Result<(), Failure>),
}

/// A connection with a stream.
#[derive(Debug)]
struct Streaming {
    since: Instant,
    /// When the connection counts as dead.
    silent_at: Instant,
    /// Whether it brought a new event of the log.
    brought: bool,
    /// Whether it brought bytes that are not an event, after those in the inbox.
    unreadable: bool,
}

impl Core {
    pub(super) fn new(
        limits: ClientLimits,
        names: Names,
        target: Target,
        cursor: Cursor,
        now: Instant,
    ) -> Self {
        let background = matches!(&target, Target::Start(request) if request.background);
        Self {
            limits,
            names,
            target,
            background,
            confirmed: false,
            cursor,
            began: cursor.after,
            hole: None,
            unnumbered: false,
            attempt: 0,
            attempt_began: now,
            first_sent: None,
            back_off: BackOff::new(limits.min_pause, limits.max_pause),
            recovery: None,
            inbox: VecDeque::new(),
            phase: Phase::Pausing { until: now, after: None },
        }
    }

    /// Returns the place after the last item that the user has.
    pub(super) fn cursor(&self) -> Cursor {
        let arrived = self.inbox.iter().filter_map(|record| record.position).max();
        match arrived {
            Some(after) if defect!(CursorBeforeDelivery) => Cursor { after, ..self.cursor },
            _ => self.cursor,
        }
    }

    /// Returns the id of the command, if it is known.
    pub(super) fn id(&self) -> Option<CommandId> {
        match &self.target {
            Target::Start(request) => request.id().ok().flatten(),
            Target::Known(id) => Some(id.clone()),
        }
    }

    /// Whether the server has confirmed that it has the command.
    pub(super) fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    /// Whether a connection is open, or being opened.
    pub(super) fn has_connection(&self) -> bool {
        matches!(self.phase, Phase::Opening { .. } | Phase::Streaming(_))
    }

    /// Returns when [`wake`](Self::wake) is due; `None` after the end.
    pub(super) fn due(&self) -> Option<Instant> {
        let own = match &self.phase {
            Phase::Pausing { until, .. } | Phase::Opening { until, .. } => *until,
            Phase::Streaming(stream) => stream.silent_at,
            Phase::Over(_) => return None,
        };
        Some(self.budget_ends().map_or(own, |ends| own.min(ends)))
    }

    /// Returns what to do next.
    pub(super) fn step(&mut self, now: Instant) -> Step {
        loop {
            if let Some(step) = self.handle(now) {
                return step;
            }
        }
    }

    /// Handles at most one event. Returns what to do next; `None` if more events may follow.
    pub(super) fn handle(&mut self, now: Instant) -> Option<Step> {
        if let Some(record) = self.inbox.pop_front() {
            return Some(Step::Return(Ok(Some(self.event(record, now)?))));
        }
        Some(self.after_events(now))
    }

    fn after_events(&mut self, now: Instant) -> Step {
        if matches!(&self.phase, Phase::Streaming(stream) if stream.unreadable) {
            self.lost(Loss::Unreadable, now);
        }
        match &self.phase {
            Phase::Over(verdict) => {
                let result = verdict.clone().map(|()| None);
                // The bug: the next call tries again.
                if result.is_err() && defect!(FailedFollowersGoOn) {
                    self.recovery = None;
                    self.phase = Phase::Pausing { until: now, after: None };
                }
                Step::Return(result)
            }
            Phase::Pausing { until, .. } if *until <= now => self.open(now),
            _ => Step::Wait,
        }
    }

    /// The user waits again after a pause, in which nothing was read from the connection.
    pub(super) fn user_returned(&mut self, now: Instant) {
        let silent_at = self.silent_at(now);
        if let Phase::Streaming(stream) = &mut self.phase {
            stream.silent_at = silent_at;
        }
    }

    /// Returns when a connection that brings nothing more from now on counts as dead.
    fn silent_at(&self, now: Instant) -> Instant {
        // The bug: a connection that has brought something has twice the time.
        let times = if defect!(SilenceLastsTwice) { 2 } else { 1 };
        now + self.limits.silence * times
    }

    /// Time has passed.
    pub(super) fn wake(&mut self, now: Instant) {
        // First, because the budget also cuts the current attempt short.
        if !defect!(TimeoutBeforeBudget) {
            self.check_budget(now);
        }
        match &self.phase {
            Phase::Opening { until, .. } if *until <= now => self.lost(Loss::OpenTimeout, now),
            Phase::Streaming(stream) if stream.silent_at <= now => self.lost(Loss::Silent, now),
            _ => {}
        }
    }
}
