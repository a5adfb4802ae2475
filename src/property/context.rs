//! The definition of a property, and its input.

use crate::history::{Event, EventKind, History};
use crate::schedule::{Limits, MilestoneDoc, Plan};

use super::guarantees::Guarantees;
use super::judgements::Judgements;
use super::violation::{Violation, ViolationKind};

/// A condition that must hold over the history of a run.
#[derive(Clone, Copy)]
pub struct Property {
    /// The name, for example `gap_free`.
    pub name: &'static str,
    /// The definition, in one sentence.
    pub doc: &'static str,
    /// The kinds of violations.
    pub kinds: &'static [&'static ViolationKind],
    /// Returns all violations in a run.
    pub check: fn(&CheckContext<'_>) -> Vec<Violation>,
}

impl std::fmt::Debug for Property {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// The input of a property.
#[derive(Clone, Copy, Debug)]
pub struct CheckContext<'a> {
    /// The plan that was run.
    pub plan: &'a Plan,
    /// The value of each limit of the subject's table.
    pub limits: &'a Limits,
    /// The history of the run.
    pub history: &'a History,
    /// The subject's guarantees under the limits of the plan.
    pub guarantees: &'a Guarantees,
    /// The subject's milestones.
    pub milestones: &'a [MilestoneDoc],
    /// The names of the subject's server hosts.
    pub servers: &'a [&'static str],
    /// The history of the control run, if there was one: the same plan, in which packets of an
    /// older generation are dropped once a newer one is installed.
    pub control: Option<&'a History>,
    /// How many cases each property has judged.
    pub judgements: &'a Judgements,
}

impl CheckContext<'_> {
    /// Whether every host did what its program says, and every message arrived as it was written.
    pub fn is_honest(&self) -> bool {
        self.plan.puppets.is_empty() && !self.was_tampered()
    }

    /// Whether a fault changed messages on their way.
    pub fn was_tampered(&self) -> bool {
        let is_change = |event: &Event| matches!(event.what, EventKind::Tampered { .. });
        self.plan.has_tampering() && self.history.events.iter().any(is_change)
    }

    /// Counts a case that a property judges: it compares something with what it demands, and no exemption applies.
    pub fn judges(&self, property: &'static str) {
        self.judgements.add(property);
    }
}
