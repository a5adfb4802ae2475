//! Many runs: carried out on threads, judged, checked for determinism, summed up.
//!
//! - [`judge`](mod@judge): one run, judged. [`examine`](mod@examine): a share of all runs is repeated, and those that could differ from a twin have one.
//! - [`fresh`]: a failing run is done again in a fresh process before it is believed.
//! - [`plans`]: which plans a scenario stands for.
//! - [`pool`]: runs on several threads, results in order, with a watchdog outside the worlds.
//! - [`shrink`](mod@shrink): a run that broke, made small.
//! - [`summary`]: what is left of a run. [`tally`](mod@tally): all runs of one scenario, summed up. [`verdict`]: what they come to.
//! - [`sweep`](mod@sweep): every position of one schedule, and every fault that makes sense there.
//! - [`random`]: a hunt through random schedules. [`coverage`]: what their faults hit. [`seed`]: a seed as a person is told it.
//! - [`kept`]: finds as files of a folder. [`matrix`]: which defects hunts find, and how soon.
//!
//! Nothing here prints: what a person reads is made in [`report`](crate::report).

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
pub use fresh::Fresh;
pub use judge::{Judged, JudgedRun, judge};
pub use pool::{MissingResult, Pool};
pub use shrink::{Budget, NotShrunk, ShrinkProgress, Shrunk, main_thing, shrink};
pub use summary::RunSummary;
pub use sweep::{SweepProgress, sweep};
pub use tally::{FailedRun, HuntError, ScenarioTally, tally};
pub use verdict::{Main, RunTotals, ScenarioVerdict};

#[cfg(test)]
mod tests;
