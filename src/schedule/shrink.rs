//! The one shrinker of plans: a plan that fails goes in, and smaller plans come out, one at a time. Whoever runs them says
//! which of them still fail.
//!
//! It is pure and deterministic: it runs nothing, draws nothing, and looks at no clock. A [`Shrinker`] is in one of its
//! [passes](PASSES), each a list of small changes; it [proposes](Shrinker::propose) the best plan so far with one of them, and goes
//! on from there where that is [accepted](Shrinker::accept). The passes are repeated until none of them helps.
//!
//! It ends, because every plan that it proposes is smaller by one [`Measure`]: fewer steps first, then fewer hosts, puppets, entries
//! and limits, then plainer steps, then shorter and rounder times, then smaller numbers.
//!
//! - [`measure`]: what is smaller. [`RunObservations`]: when things happened in the failing run, so that times can be told in another way.
//! - `steps`, `stage` (with `hosts`), `when`, `faults`, `values`: the passes. `plainer`: the numbers that they try.
//!
//! What it does not do: rename streams, or make a fault into another one.

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
mod stage;
mod steps;
#[cfg(test)]
mod tests;
mod values;
mod when;

use edit::Edit;
pub use edit::RunObservations;
pub use measure::Measure;

/// One pass: what it tries, strong changes first.
#[derive(Clone, Copy)]
pub struct Pass {
    /// Its name.
    pub name: &'static str,
    /// What it makes smaller.
    pub doc: &'static str,
    edits: fn(&Plan, &RunObservations) -> Vec<Edit>,
}

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The passes, cheap and strong first.
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

/// Whether a plan is one that could stand in a file.
pub type Fits = Arc<dyn Fn(&Plan) -> bool + Send + Sync>;

/// A plan that fails, and the smaller ones that may.
#[derive(Clone)]
pub struct Shrinker {
    best: Plan,
    seen: RunObservations,
    fits: Fits,
    proposed: Option<Plan>,
    /// Digests of all plans that were proposed: none is proposed twice.
    tried: BTreeSet<u64>,
    /// Which pass, and which of its changes comes next.
    at: (usize, usize),
    /// Whether the pass, and whether this round of all passes, has helped so far.
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
    /// Begins with a plan that fails. A smaller one that does not fit is never proposed.
    pub fn new(plan: Plan, seen: RunObservations, fits: Fits) -> Self {
        let tried = BTreeSet::from([digest(&plan)]);
        Self { best: plan, seen, fits, proposed: None, tried, at: (0, 0), helped: (false, false) }
    }

    /// The smallest plan so far that fails.
    pub fn best(&self) -> &Plan {
        &self.best
    }

    /// What was proposed last, where it was not accepted.
    pub fn proposed(&self) -> Option<&Plan> {
        self.proposed.as_ref()
    }

    /// The next smaller plan; what was proposed before, and not accepted, does not fail. `None` when nothing is left to try.
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

    /// What was proposed last still fails; this was seen in its run.
    pub fn accept(&mut self, seen: RunObservations) {
        let Some(plan) = self.proposed.take() else { return };
        self.best = plan;
        self.seen = seen;
        self.helped = (true, true);
        // In the list of the smaller plan, another change stands in the place of this one.
        self.at.1 = self.at.1.saturating_sub(1);
    }

    /// The best plan with a change, where that is smaller, fits, and is new.
    fn with(&mut self, edit: &Edit) -> Option<Plan> {
        let mut plan = self.best.clone();
        edit(&mut plan);
        let is_new =
            Measure::of(&plan) < Measure::of(&self.best) && self.tried.insert(digest(&plan));
        (is_new && (self.fits)(&plan)).then_some(plan)
    }

    /// A pass is repeated while it helps, and so are all of them together.
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
