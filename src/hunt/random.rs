//! A hunt: runs random schedules of one profile, one after another, and sums up the results.
//!
//! Each plan is drawn when it is run, and dropped unless its run fails. A hunt of a million
//! schedules therefore fits into memory. The plans, violations and digests depend on the profile
//! and the seeds, never on the number of threads.

use std::ops::ControlFlow;
use std::slice;
use std::sync::Arc;

use crate::scenario::{Expect, ScenarioFile};
use crate::schedule::{Plan, Profile, draw};
use crate::subject::DynSubject;
use crate::world::RunError;

use super::coverage::FaultCoverage;
use super::examine::{Checks, examine};
use super::judge::JudgedRun;
use super::pool::Pool;
use super::summary::RunSummary;
use super::tally::{FailedRun, HuntError, ScenarioTally};

/// The target of a hunt.
#[derive(Clone)]
pub struct HuntTarget {
    /// The protocol under test.
    pub subject: Arc<dyn DynSubject>,
    /// The weights and ranges from which schedules are drawn.
    pub profile: Arc<Profile>,
}

/// The results of a hunt. The tally's list of failed runs stays empty: each failed run is passed to
/// the callback.
#[derive(Debug, Default)]
pub struct Hunted {
    /// The sum of all runs.
    pub tally: ScenarioTally,
    /// The connections and points that faults hit.
    pub coverage: FaultCoverage,
    /// Number of runs with a violation.
    pub broke: u64,
}

/// Runs the plans of these seeds, in order. Calls `each` after every run, with the results so far,
/// and with the run itself if it failed. Return `Break` from `each` to stop the hunt.
///
/// # Errors
/// If a run could not be carried out. The first such run ends the hunt.
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
    /// Returns the target of a hunt without a swarm file. Its profile is the subject's own
    /// [swarm](crate::subject::Subject::swarm), or one built from the subject's tables and schemas.
    ///
    /// # Errors
    /// If the subject's own swarm is not a valid swarm file. The message is one line.
    pub fn default_for(subject: &Arc<dyn DynSubject>) -> Result<Self, String> {
        let profile = match subject.swarm() {
            None => Profile::of_schemas(&**subject),
            Some(text) => {
                let name = format!("the swarm of {}", subject.name());
                ScenarioFile::parse(text, &name, slice::from_ref(subject))
                    .map_err(|mistake| mistake.to_string())?
                    .into_profile()
                    .ok_or_else(|| format!("{name} has steps; a swarm file has a `[swarm]`"))?
            }
        };
        Ok(Self { subject: subject.clone(), profile: Arc::new(profile) })
    }

    /// Draws the plan of a seed.
    pub fn plan(&self, seed: u64) -> Plan {
        draw::plan(&self.profile, &*self.subject, seed)
    }

    /// Runs one seed. The plan is not part of the result: it is drawn again if needed.
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
