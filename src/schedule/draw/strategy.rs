//! Plans for `proptest!`: a strategy whose seed is the plan's seed, and a tree that shrinks a plan by taking steps out of it.

use std::fmt;
use std::sync::Arc;

use proptest::strategy::{NewTree, Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use super::plan;
use crate::schedule::{Plan, Profile, Step};
use crate::subject::Erased;

/// Plans of a profile, as a proptest strategy.
pub fn strategy(profile: &Profile, subject: &Arc<dyn Erased>) -> Plans {
    Plans { profile: Arc::new(profile.clone()), subject: subject.clone() }
}

/// See [`strategy`].
#[derive(Clone)]
pub struct Plans {
    profile: Arc<Profile>,
    subject: Arc<dyn Erased>,
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
        Ok(PlanTree::new(plan(&self.profile, &self.subject, seed)))
    }
}

/// A plan that can be shrunk: takes out half of its steps, then quarters, down to single steps, and keeps what is needed.
#[derive(Clone, Debug)]
pub struct PlanTree {
    plan: Plan,
    /// How many steps are taken out at once.
    chunk: usize,
    /// Where the next ones are taken out.
    at: usize,
    /// What was taken out last, from `at`.
    out: Vec<Step>,
}

impl PlanTree {
    /// The tree of this plan.
    pub fn new(plan: Plan) -> Self {
        Self { chunk: plan.steps.len().div_ceil(2), at: 0, out: Vec::new(), plan }
    }

    /// Takes the next steps out; `false` where every single one was tried.
    fn take(&mut self) -> bool {
        if self.at >= self.plan.steps.len() {
            if self.chunk <= 1 {
                return false;
            }
            (self.chunk, self.at) = (self.chunk.div_ceil(2), 0);
        }
        let end = (self.at + self.chunk).min(self.plan.steps.len());
        self.out = self.plan.steps.drain(self.at..end).collect();
        !self.out.is_empty()
    }
}

impl ValueTree for PlanTree {
    type Value = Plan;

    fn current(&self) -> Plan {
        self.plan.clone()
    }

    /// The plan still fails: what is out stays out.
    fn simplify(&mut self) -> bool {
        self.out.clear();
        self.take()
    }

    /// The plan does not fail any more: puts back what was taken out last, and takes out what stands behind it.
    fn complicate(&mut self) -> bool {
        if self.out.is_empty() {
            return false;
        }
        let (at, count) = (self.at, self.out.len());
        self.plan.steps.splice(at..at, self.out.drain(..));
        self.at += count;
        self.take()
    }
}
