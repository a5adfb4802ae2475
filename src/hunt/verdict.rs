//! What many runs come to.

use std::time::Duration;

use crate::property::Violation;

/// What the runs of one scenario come to.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ScenarioVerdict {
    /// All held.
    #[default]
    Held,
    /// A canary broke what it was to break.
    BrokeAsItShould(String),
    /// Properties broke, in so many runs.
    Broke {
        /// Which, each once.
        properties: Vec<String>,
        /// In how many runs.
        runs: u64,
    },
    /// No run broke, but all together did not show what they must.
    TooTame(Box<Violation>),
    /// A canary did not break this property, which it must break.
    DidNotBreak(String),
    /// It could not be run, for this reason.
    NotRun(String),
}

impl ScenarioVerdict {
    /// Whether it is as it should be.
    pub fn is_good(&self) -> bool {
        matches!(self, ScenarioVerdict::Held | ScenarioVerdict::BrokeAsItShould(_))
    }

    /// Whether it is not as it should be. What could not be run is neither good nor bad.
    pub fn is_bad(&self) -> bool {
        matches!(
            self,
            ScenarioVerdict::Broke { .. }
                | ScenarioVerdict::TooTame(_)
                | ScenarioVerdict::DidNotBreak(_)
        )
    }
}

/// What is not as it should be, in short.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Main<'t> {
    /// This broke in a run.
    Broke(&'t Violation),
    /// A canary did not break this property.
    DidNotBreak(&'t str),
    /// All runs together did not show what they must.
    Unmet(&'t Violation),
    /// Nothing is wrong.
    Nothing,
}

/// What all runs come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunTotals {
    /// How many schedules were run.
    pub schedules: u64,
    /// Virtual time of all of them.
    pub virtual_time: Duration,
    /// Real time.
    pub wall: Duration,
    /// How many runs were repeated, and came out the same.
    pub repeated: u64,
    /// How many runs ended in a failure that is neither surely justified nor surely not.
    pub inconclusive: u64,
    /// Milestones and points that no run reached, and that a good subject reaches.
    pub unreached: Vec<String>,
}

impl RunTotals {
    /// How many times faster than a clock on the wall.
    pub fn speed(&self) -> u64 {
        (self.virtual_time.as_secs_f64() / self.wall.as_secs_f64().max(1e-6)) as u64
    }
}
