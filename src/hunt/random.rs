//! A hunt: random schedules of one profile, one after another, and what they came to.
//!
//! Plans are drawn as they are run, and thrown away unless they break something: a hunt of a million schedules fits into memory.
//! What it draws, finds and digests depends on the profile and the seeds, never on the number of threads.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::scenario::Expect;
use crate::schedule::{Plan, Profile, draw};
use crate::subject::DynSubject;
use crate::world::RunError;

use super::coverage::FaultCoverage;
use super::examine::{Checks, examine};
use super::judge::JudgedRun;
use super::pool::Pool;
use super::summary::RunSummary;
use super::tally::{FailedRun, HuntError, ScenarioTally};

/// What a hunt draws from.
#[derive(Clone)]
pub struct HuntTarget {
    /// The protocol under test.
    pub subject: Arc<dyn DynSubject>,
    /// The weights and ranges.
    pub profile: Arc<Profile>,
}

/// What a hunt came to. The tally's list of what failed stays empty: each was handed over as it came.
#[derive(Debug, Default)]
pub struct Hunted {
    /// All runs, summed up.
    pub tally: ScenarioTally,
    /// What their faults hit.
    pub coverage: FaultCoverage,
    /// How many of them broke something.
    pub broke: u64,
}

/// Runs the plans of these seeds, in order. `each` is told how it stands after each run, with the run itself where something broke
/// in it, and breaks off when it has enough.
///
/// # Errors
/// If a run could not be carried out: the first such run ends the whole.
pub fn hunt(
    target: &HuntTarget,
    seeds: impl Iterator<Item = u64> + Clone + Send + 'static,
    checks: &Checks,
    pool: &Pool,
    mut each: impl FnMut(&Hunted, Option<FailedRun>) -> ControlFlow<()>,
) -> Result<Hunted, HuntError> {
    let (mut hunted, mut hunt_error) = (Hunted::default(), None);
    let mut order = seeds.clone();
    let (worker, checks) = (target.clone(), checks.clone());
    let work = move |seed| worker.examine(seed, &checks);
    pool.run(seeds, work, |result| {
        let seed = order.next().expect("there is a result for each seed");
        let Hunted { coverage, tally, .. } = &mut hunted;
        let result = result.map(|ran| {
            ran.map(|(summary, its)| {
                coverage.add(&its);
                summary
            })
        });
        hunt_error = tally.take(seed, || target.plan(seed), result).err();
        if hunt_error.is_some() {
            return ControlFlow::Break(());
        }
        let failed = hunted.tally.failed.pop();
        hunted.broke += u64::from(failed.is_some());
        each(&hunted, failed)
    });
    hunt_error.map_or(Ok(hunted), Err)
}

impl HuntTarget {
    /// The plan of a seed.
    pub fn plan(&self, seed: u64) -> Plan {
        draw::plan(&self.profile, &*self.subject, seed)
    }

    /// The plan is not handed on with what it came to: where it is asked for, it is drawn again.
    fn examine(&self, seed: u64, checks: &Checks) -> Result<(RunSummary, FaultCoverage), RunError> {
        let plan = self.plan(seed);
        let examined = examine(
            JudgedRun { subject: &self.subject, plan: &plan, expect: &Expect::default() },
            checks,
        )?;
        let coverage = FaultCoverage::of(&*self.subject, &plan, &examined.history);
        Ok((examined.into(), coverage))
    }
}
