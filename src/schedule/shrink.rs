//! The shrinker of plans: it takes a failing plan and proposes smaller plans, one at a time. The
//! caller runs them and reports which of them still fail.
//!
//! The shrinker is pure and deterministic: it runs nothing, draws nothing, and reads no clock. A
//! [`Shrinker`] works through its [passes](PASSES), each a list of small changes. It
//! [proposes](Shrinker::propose) the best plan so far with one change applied, and continues from
//! that plan if the caller [accepts](Shrinker::accept) it. The passes are repeated until none of
//! them helps.
//!
//! It terminates, because every proposed plan is smaller by one [`Measure`]: fewer steps first,
//! then fewer hosts, puppets, entries and limits, then simpler steps, then shorter and rounder
//! times, then smaller numbers.
//!
//! - [`measure`]: the order of plans by size. [`RunObservations`]: the times of events in the
//!   failing run, so that a trigger can replace a time, or a time a trigger.
//! - [`Ranges`]: the values that a subject draws, which a [check](Fits) of the caller can demand.
//! - `steps`, `stage` (with `hosts`), `when`, `faults`, `values`: the passes. `plainer`: the
//!   numbers that they try.
//!
//! It does not rename streams, or replace a fault by another kind.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use super::Plan;
use crate::digest::Digest;

mod edit;
mod faults;
mod hosts;
pub mod measure;
mod plainer;
mod range;
mod stage;
mod steps;
#[cfg(test)]
mod tests;
mod values;
mod when;

use edit::Edit;
pub use edit::RunObservations;
pub use measure::Measure;
pub use range::Ranges;

/// A pass: a kind of change, with the changes that remove most first.
#[derive(Clone, Copy)]
pub struct Pass {
    /// The name of the pass.
    pub name: &'static str,
    /// The part of a plan that it reduces.
    pub doc: &'static str,
    edits: fn(&Plan, &RunObservations) -> Vec<Edit>,
}

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The passes; those that are cheap and remove most come first.
pub const PASSES: &[Pass] = &[
    Pass {
        name: "steps",
        doc: "fewer steps: halves, quarters, …, single ones",
        edits: steps::fewer,
    },
    Pass {
        name: "stage",
        doc: "fewer clients, puppets, entries, limits and defects; default latency and order",
        edits: stage::plainer,
    },
    Pass { name: "pairs", doc: "two steps less, where few are left", edits: steps::pairs },
    Pass { name: "fields", doc: "optional fields of faults left out", edits: faults::fewer_fields },
    Pass { name: "when", doc: "first occurrences, no delays, round times", edits: when::plainer },
    Pass {
        name: "lengths",
        doc: "shorter and rounder faults, healed tail and horizon",
        edits: faults::shorter,
    },
    Pass {
        name: "values",
        doc: "smaller values of operations and of the subject's own tables",
        edits: values::smaller,
    },
];

/// Checks whether a plan would be valid in a scenario file.
pub type Fits = Arc<dyn Fn(&Plan) -> bool + Send + Sync>;

/// Shrinks a failing plan.
#[derive(Clone)]
pub struct Shrinker {
    best: Plan,
    seen: RunObservations,
    fits: Fits,
    proposed: Option<Plan>,
    /// Digests of all proposed plans, so that none is proposed twice.
    tried: BTreeSet<u64>,
    /// The current pass, and the index of its next change.
    at: (usize, usize),
    /// Whether the current pass, and the current round of all passes, has helped so far.
    helped: (bool, bool),
}

impl fmt::Debug for Shrinker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shrinker")
            .field("best", &self.best)
            .field("proposed", &self.proposed)
            .finish_non_exhaustive()
    }
}

impl Shrinker {
    /// Starts with a failing plan. A plan that `fits` rejects is never proposed.
    pub fn new(plan: Plan, seen: RunObservations, fits: Fits) -> Self {
        let tried = BTreeSet::from([digest(&plan)]);
        Self { best: plan, seen, fits, proposed: None, tried, at: (0, 0), helped: (false, false) }
    }

    /// Returns the smallest failing plan so far.
    pub fn best(&self) -> &Plan {
        &self.best
    }

    /// Returns the last proposed plan, unless it was accepted.
    pub fn proposed(&self) -> Option<&Plan> {
        self.proposed.as_ref()
    }

    /// Proposes the next smaller plan. If the previous proposal was not accepted, it counts as not
    /// failing. Returns `None` if there is nothing left to try.
    pub fn propose(&mut self) -> Option<&Plan> {
        self.proposed = None;
        while self.proposed.is_none() {
            let edits = (PASSES.get(self.at.0)?.edits)(&self.best, &self.seen);
            for edit in edits.into_iter().skip(self.at.1) {
                self.at.1 += 1;
                self.proposed = self.with(&edit);
                if self.proposed.is_some() {
                    return self.proposed.as_ref();
                }
            }
            self.next_pass();
        }
        None
    }

    /// Accepts the last proposal: it still fails. `seen` are the observations of its run.
    pub fn accept(&mut self, seen: RunObservations) {
        let Some(plan) = self.proposed.take() else { return };
        self.best = plan;
        self.seen = seen;
        self.helped = (true, true);
        // The list of changes for the smaller plan has a different change at this index, so try
        // this index again.
        self.at.1 = self.at.1.saturating_sub(1);
    }

    /// Applies a change to the best plan. Returns the result if it is smaller, fits, and is new.
    fn with(&mut self, edit: &Edit) -> Option<Plan> {
        let mut plan = self.best.clone();
        edit(&mut plan);
        let is_new =
            Measure::of(&plan) < Measure::of(&self.best) && self.tried.insert(digest(&plan));
        (is_new && (self.fits)(&plan)).then_some(plan)
    }

    /// Moves to the next pass, or repeats the pass if it helped. After the last pass, starts a new
    /// round if the round helped.
    fn next_pass(&mut self) {
        if !std::mem::take(&mut self.helped.0) {
            self.at.0 += 1;
        }
        self.at.1 = 0;
        if self.at.0 == PASSES.len() && std::mem::take(&mut self.helped.1) {
            self.at.0 = 0;
        }
    }
}

fn digest(plan: &Plan) -> u64 {
    let mut digest = Digest::default();
    digest.bytes(format!("{plan:?}").as_bytes());
    digest.value()
}
