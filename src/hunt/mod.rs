//! Many runs: executed on threads, judged, checked for determinism and summed up.
//!
//! - [`judge`](mod@judge): judges one run. [`examine`](mod@examine): repeats a share of all runs,
//!   and adds control runs.
//! - [`fresh`]: confirms a failing run in a fresh process.
//! - [`plans`]: the plans of a scenario.
//! - [`pool`]: runs on several threads, with results in order and a watchdog outside the worlds.
//! - [`shrink`](mod@shrink): shrinks a failing run.
//! - [`summary`]: the summary of one run. [`tally`](mod@tally): the sum of all runs of one
//!   scenario. [`verdict`]: the verdict on them.
//! - [`sweep`](mod@sweep): tries every suitable fault at every position of one schedule.
//! - [`random`]: a hunt through random schedules. [`coverage`]: what the faults hit. [`seed`]: the
//!   printed form of a seed.
//! - [`saved`]: saved findings, as files in a folder. [`matrix`]: which defects hunts find, and how
//!   soon.
//!
//! Nothing here prints; [`report`](crate::report) renders the output.

pub mod coverage;
pub mod examine;
pub mod fresh;
pub mod judge;
pub mod matrix;
pub mod plans;
pub mod pool;
pub mod random;
pub mod saved;
pub mod seed;
pub mod shrink;
pub mod summary;
pub mod sweep;
pub mod tally;
pub mod verdict;

pub use examine::{Check, Checks, Examined, examine};
pub use fresh::FreshProcess;
pub use judge::{Judged, JudgedRun, judge};
pub use pool::{MissingResult, Pool};
pub use shrink::{Budget, NotShrunk, ShrinkProgress, Shrunk, main_problem, shrink};
pub use summary::RunSummary;
pub use sweep::{SweepProgress, sweep};
pub use tally::{FailedRun, HuntError, ScenarioTally, tally};
pub use verdict::{MainProblem, RunTotals, ScenarioVerdict};

#[cfg(test)]
mod tests;
