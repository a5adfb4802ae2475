//! The request of an attempt.

use reknit_seams::{defect, milestone};
use tokio::time::Instant;

use super::{Core, Phase, Step, Target};
use crate::client::Dialect;
use crate::wire::{CommandId, Cursor, RunCommand, StreamOwner};

/// A request to send on a new connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::client) struct Order {
    /// The number of the attempt, from 1.
    pub(in crate::client) attempt: u64,
    pub(in crate::client) ask: Ask,
    pub(in crate::client) owner: Option<StreamOwner>,
    /// When the first attempt of a start began, if this is a repetition.
    pub(in crate::client) repeats: Option<Instant>,
}

/// The purpose of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::client) enum Ask {
    /// To run a command.
    Start(Box<RunCommand>),
    /// To continue its stream.
    Resume(CommandId, Cursor),
}

impl Core {
    /// Begins the next attempt, unless the budget is over.
    pub(super) fn open(&mut self, now: Instant) -> Step {
        let recovery = self.budget(now);
        self.check_budget(now);
        if let Phase::Over(verdict) = &self.phase {
            return Step::Return(verdict.clone().map(|()| None));
        }
        self.attempt += 1;
        self.attempt_began = now;
        let after = match &mut self.phase {
            Phase::Pausing { after, .. } => after.take(),
            _ => None,
        };
        self.phase = Phase::Opening { until: recovery.cap(now, self.limits.open_timeout), after };
        let (ask, owner, repeats) = (self.ask(), self.owner(), self.repeats());
        let order = Order { attempt: self.attempt, ask, owner, repeats };
        milestone!("sse.client.attempt", attempt = self.attempt, after = self.cursor.after);
        Step::Open(order)
    }

    fn ask(&self) -> Ask {
        match &self.target {
            Target::Start(request) if defect!(StartWithoutId) => {
                Ask::Start(Box::new(RunCommand { operation_id: None, ..(**request).clone() }))
            }
            Target::Start(request) => Ask::Start(request.clone()),
            Target::Known(id) => Ask::Resume(id.clone(), self.wire_cursor()),
        }
    }

    /// Returns the cursor as the server understands it. An original execd takes an epoch for a
    /// malformed number, and a malformed number for zero.
    fn wire_cursor(&self) -> Cursor {
        if self.names.dialect == Dialect::Execd || defect!(RunNotChecked) {
            return Cursor { epoch: None, ..self.cursor };
        }
        self.cursor
    }

    /// Returns when the first attempt of a start began, if this is a repetition.
    fn repeats(&self) -> Option<Instant> {
        let is_start = matches!(self.target, Target::Start(_));
        self.first_sent.filter(|_| is_start && self.names.dialect == Dialect::Reknit)
    }

    fn owner(&self) -> Option<StreamOwner> {
        let attempt = if defect!(AttemptsNotNumbered) { 1 } else { self.attempt };
        let owner = || StreamOwner::new(self.names.client.clone(), attempt).ok();
        (self.names.dialect == Dialect::Reknit).then(owner).flatten()
    }
}
