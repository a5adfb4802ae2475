//! The verdict on many runs.

use std::time::Duration;

use crate::property::Violation;

/// The verdict on the runs of one scenario.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ScenarioVerdict {
    /// All properties held.
    #[default]
    Held,
    /// A canary violated the property that it must violate.
    BrokeAsItShould(String),
    /// Properties were violated.
    Broke {
        /// The violated properties, each once.
        properties: Vec<String>,
        /// Number of runs with a violation.
        runs: u64,
    },
    /// No run had a violation, but the runs together did not meet an expectation.
    Vacuous(Box<Violation>),
    /// No run had a violation, but users saw something else than in the snapshot.
    Changed(Box<Violation>),
    /// A canary did not violate this property, which it must violate.
    DidNotBreak(String),
    /// The scenario could not be run, for this reason.
    NotRun(String),
}

impl ScenarioVerdict {
    /// Returns whether the scenario passed.
    pub fn is_good(&self) -> bool {
        matches!(self, ScenarioVerdict::Held | ScenarioVerdict::BrokeAsItShould(_))
    }

    /// Returns whether the scenario failed. A scenario that could not be run neither passed nor
    /// failed.
    pub fn is_bad(&self) -> bool {
        matches!(
            self,
            ScenarioVerdict::Broke { .. }
                | ScenarioVerdict::Vacuous(_)
                | ScenarioVerdict::Changed(_)
                | ScenarioVerdict::DidNotBreak(_)
        )
    }
}

/// The main problem of the runs of one scenario.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MainProblem<'t> {
    /// A run had this violation.
    Broke(&'t Violation),
    /// A canary did not violate this property.
    DidNotBreak(&'t str),
    /// All runs together did not meet this expectation, or the snapshot changed.
    Unmet(&'t Violation),
    /// There is no problem.
    Nothing,
}

/// The totals of all runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunTotals {
    /// Number of schedules run.
    pub schedules: u64,
    /// Total virtual time.
    pub virtual_time: Duration,
    /// Total real time.
    pub wall: Duration,
    /// Number of runs that were repeated with the same result.
    pub repeated: u64,
    /// Number of runs with an inconclusive failure: either outcome would have been correct.
    pub inconclusive: u64,
    /// Number of schedules that were left out, because the engine does not support them.
    pub unsupported: u64,
    /// Milestones and points that a correct subject reaches but no run reached.
    pub unreached: Vec<String>,
    /// Properties that judged a case in less than 1 % of the runs of a hunt, and in how many.
    pub seldom: Vec<(String, u64)>,
}

impl RunTotals {
    /// Returns the ratio of virtual time to real time.
    pub fn speed(&self) -> u64 {
        (self.virtual_time.as_secs_f64() / self.wall.as_secs_f64().max(1e-6)) as u64
    }
}
