//! What a property is, and what it is given.

use crate::history::History;
use crate::schedule::{MilestoneDoc, Plan};

use super::guarantees::Guarantees;
use super::violation::{Violation, ViolationKind};

/// What must hold over the history of a run.
#[derive(Clone, Copy)]
pub struct Property {
    /// Its name: `gap_free`.
    pub name: &'static str,
    /// What it says, in one sentence.
    pub doc: &'static str,
    /// The ways in which it can break.
    pub kinds: &'static [&'static ViolationKind],
    /// Everything in the evidence that breaks it.
    pub check: fn(&CheckContext<'_>) -> Vec<Violation>,
}

impl std::fmt::Debug for Property {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// What a property is given.
#[derive(Clone, Copy, Debug)]
pub struct CheckContext<'a> {
    /// The plan that was run.
    pub plan: &'a Plan,
    /// The record of the run.
    pub history: &'a History,
    /// What the subject guarantees under the limits of the plan.
    pub guarantees: &'a Guarantees,
    /// The subject's milestones.
    pub milestones: &'a [MilestoneDoc],
    /// Under the subject's own names of its server hosts.
    pub servers: &'a [&'static str],
    /// The record of the twin run, if there was one: the same plan, in which packets of an older generation are dropped
    /// once a newer one is installed.
    pub control: Option<&'a History>,
}
