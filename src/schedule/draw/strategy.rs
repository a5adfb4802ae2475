//! Plans for `proptest!`: a strategy that draws the plan's seed, and a value tree that shrinks
//! plans with the common shrinker ([`shrink`](crate::schedule::shrink)).

use std::fmt;
use std::sync::Arc;

use proptest::strategy::{NewTree, Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use super::{plan, samples};
use crate::schedule::shrink::{Fits, Ranges, RunObservations, Shrinker};
use crate::schedule::{
    Action, Fault, Operation, Plan, Profile, Repertoire, Step, TriggerMark, When,
};

/// Returns a proptest strategy for plans of a profile.
pub fn strategy(profile: &Profile, subject: &Arc<dyn Repertoire>) -> Plans {
    let drawn = samples(profile, &**subject).into();
    Plans { profile: Arc::new(profile.clone()), subject: subject.clone(), drawn }
}

/// See [`strategy`].
#[derive(Clone)]
pub struct Plans {
    profile: Arc<Profile>,
    subject: Arc<dyn Repertoire>,
    /// Operations that show the range of values in the plans of the profile.
    drawn: Arc<[Operation]>,
}

impl fmt::Debug for Plans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plans").field("profile", &self.profile).finish_non_exhaustive()
    }
}

impl Strategy for Plans {
    type Tree = PlanTree;
    type Value = Plan;

    fn new_tree(&self, runner: &mut TestRunner) -> NewTree<Self> {
        let seed = proptest::num::u64::ANY.new_tree(runner)?.current();
        let plan = plan(&self.profile, &*self.subject, seed);
        Ok(PlanTree::new(plan, &self.subject, &self.drawn))
    }
}

/// A value tree for a plan. proptest reports only whether a run failed, without the times of its
/// events, so this shrinker cannot convert between times and triggers.
#[derive(Clone, Debug)]
pub struct PlanTree(Shrinker);

impl PlanTree {
    /// The tree for this plan of a subject. `drawn` are operations that show the range of values.
    pub fn new(plan: Plan, subject: &Arc<dyn Repertoire>, drawn: &[Operation]) -> Self {
        let fits = fits(&plan, subject, drawn);
        Self(Shrinker::new(plan, RunObservations::default(), fits))
    }
}

/// Returns a check for shrunk plans: the subject must accept every operation, its values must be in
/// the range of those drawn, and every hold must be at a point. Entries of the subject's own tables may be removed but not changed, because the
/// subject cannot check them here.
fn fits(plan: &Plan, subject: &Arc<dyn Repertoire>, drawn: &[Operation]) -> Fits {
    let (setup, subject) = (plan.setup.clone(), subject.clone());
    let ranges = Ranges::of(drawn, plan);
    Arc::new(move |plan| {
        let checked = |step: &Step| match &step.action {
            Action::Operation(operation) => subject.accepts(operation),
            Action::Fault(Fault::Hold { .. }) => is_at_a_point(&step.when),
            Action::Fault(_) => true,
        };
        let as_drawn = |(table, entries): (&String, &serde_json::Value)| {
            let drawn = setup.get(table);
            let same = |(name, entry): (&String, _)| {
                drawn.and_then(|drawn| drawn.get(name)) == Some(entry)
            };
            entries.as_object().is_some_and(|entries| entries.iter().all(same))
        };
        plan.steps.iter().all(checked) && ranges.contain(plan) && plan.setup.iter().all(as_drawn)
    })
}

/// Whether a step waits for a point, so that a task can be held there.
fn is_at_a_point(when: &When) -> bool {
    matches!(when, When::After(trigger) if matches!(trigger.mark, TriggerMark::Point(_)) && trigger.delay.is_zero())
}

impl ValueTree for PlanTree {
    type Value = Plan;

    fn current(&self) -> Plan {
        self.0.proposed().unwrap_or(self.0.best()).clone()
    }

    /// The current plan still fails: shrinks further from it.
    fn simplify(&mut self) -> bool {
        self.0.accept(RunObservations::default());
        self.0.propose().is_some()
    }

    /// The current plan does not fail: returns to the previous one and tries another change.
    fn complicate(&mut self) -> bool {
        self.0.proposed().is_some() && self.0.propose().is_some()
    }
}
