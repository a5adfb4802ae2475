//! A sweep runs one schedule once without a fault, and then once for every suitable fault at every
//! position of that run.
//!
//! - [`positions`]: the positions of a run. [`faults`]: the table of faults and where each is
//!   tried. [`outcome`]: the effect of a fault.
//!
//! A swept run is the original schedule plus one step. A violation in it therefore belongs to an
//! ordinary plan, which can be shrunk, saved and replayed. The extra step comes last, so the run is
//! identical to the plain run, to the packet, until it reaches its position. The horizon of all
//! runs is extended by the longest time that a client may need to recover, and events after the
//! file's own horizon are not positions. The consequences of the last fault are therefore judged
//! too.
//!
//! The result depends on the plan, never on the number of threads. A sweep ignores the expectations
//! of the file, because they apply to the run without a fault.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use crate::history::{EventKind, History, Time};
use crate::scenario::Expect;
use crate::schedule::{Plan, Step};
use crate::subject::DynSubject;
use crate::world::{Detail, Options, RunError};

use super::examine::{Checks, Examined, examine};
use super::judge::{Judged, JudgedRun, judge};
use super::pool::{MissingResult, Pool};
use super::summary::RunSummary;
use super::tally::{FailedRun, HuntError, ScenarioTally};

pub mod faults;
pub mod outcome;
pub mod positions;
#[cfg(test)]
mod tests;

pub use faults::{FAULTS, SweepFault};
pub use outcome::FaultOutcome;
pub use positions::{ConnSite, Position, PositionKind, PositionSite};

use outcome::{UserView, generations};

/// One fault at one position, or at several positions at the same moment and place.
#[derive(Clone, Debug)]
pub struct SweepTrial {
    /// The fault: a row of the table.
    pub fault: &'static SweepFault,
    /// The number of the position. If several positions share the trial, this is the first.
    pub position: usize,
    /// The step that injects the fault.
    pub step: Step,
    /// The outcome; `None` before the trial is run.
    pub outcome: Option<FaultOutcome>,
    /// The violated properties, each once.
    pub broken: Vec<&'static str>,
    /// The reason why the fault had no effect, if it had none.
    pub idle: Option<String>,
}

/// The state of a sweep so far.
#[derive(Debug)]
pub struct SweepProgress {
    /// The plan to which each run adds a step.
    pub plan: Plan,
    /// The positions of the plain run (the run without a fault), in order. Empty if the plain run
    /// has a violation.
    pub positions: Vec<Position>,
    /// The trials, in the order of the positions and of the table.
    pub trials: Vec<SweepTrial>,
    /// Number of trials run so far.
    pub done: usize,
    /// Number of runs with a violation.
    pub broke: u64,
    /// The sum of all runs, including the plain run. Its list of failed runs stays empty: each
    /// failed run is passed to the callback.
    pub tally: ScenarioTally,
}

/// A run of a sweep that has a violation.
#[derive(Debug)]
pub struct FailedTrial {
    /// The number of the trial; `None` for the plain run.
    pub trial: Option<usize>,
    /// The failed run.
    pub failed: FailedRun,
}

impl SweepProgress {
    /// Returns the number of trials of a fault that had this outcome.
    pub fn count_outcomes(&self, fault: &SweepFault, outcome: FaultOutcome) -> u64 {
        let these =
            |trial: &&SweepTrial| trial.fault.name == fault.name && trial.outcome == Some(outcome);
        self.trials.iter().filter(these).count() as u64
    }

    /// Returns the worst outcome at a position, which sets its colour. Returns `None` before the
    /// first trial there.
    pub fn worst(&self, position: &Position) -> Option<FaultOutcome> {
        position.trials.iter().filter_map(|trial| self.trials[*trial].outcome).max()
    }

    /// Returns the plan of a trial.
    pub fn plan_of(&self, trial: &SweepTrial) -> Plan {
        with(&self.plan, &trial.step)
    }
}

/// Sweeps a plan. Calls `each` after the plain run, when the trials are known, and after each
/// trial. The second argument is the run itself if it has a violation. Return `Break` from `each`
/// to stop the sweep. If the plain run has a violation, no trials follow: a failure with a fault
/// would then prove nothing about the fault.
///
/// # Errors
/// If a run could not be carried out. The first such run ends the sweep.
pub fn sweep(
    subject: &Arc<dyn DynSubject>,
    plan: &Plan,
    checks: &Checks,
    pool: &Pool,
    mut each: impl FnMut(&SweepProgress, Option<FailedTrial>) -> ControlFlow<()>,
) -> Result<SweepProgress, HuntError> {
    let long = extend_horizon(subject, plan);
    let mut swept = SweepProgress {
        plan: long,
        positions: Vec::new(),
        trials: Vec::new(),
        done: 0,
        broke: 0,
        tally: ScenarioTally::default(),
    };
    let plain = run_plain(subject, &mut swept, pool)?;
    if let Some(plain) = &plain {
        swept.positions = positions::of(&**subject, plan, plain, end_of_positions(plan));
        swept.list_trials();
    }
    let failed_trial = swept.failed_trial(None);
    let go_on = each(&swept, failed_trial);
    let Some(plain) = plain.filter(|_| go_on.is_continue()) else { return Ok(swept) };
    let worker = Worker {
        subject: subject.clone(),
        plan: swept.plan.clone(),
        checks: checks.clone(),
        generations: generations(&**subject, &plain),
        plain: UserView::of(&plain),
    };
    let steps: Vec<_> = swept.trials.iter().map(|trial| trial.step.clone()).collect();
    let mut hunt_error = None;
    pool.run(
        steps.into_iter(),
        move |step| worker.run(&step),
        |result| match swept.add(result) {
            Ok(failed_trial) => each(&swept, failed_trial),
            Err(why) => {
                hunt_error = Some(why);
                ControlFlow::Break(())
            }
        },
    );
    hunt_error.map_or(Ok(swept), Err)
}

/// Returns the plan with one more step. The step comes last, so that it changes nothing before it
/// takes effect.
fn with(plan: &Plan, step: &Step) -> Plan {
    plan.clone().step(step.when.clone(), step.action.clone())
}

/// Returns the plan with a later horizon. The extension covers the last consequence of a fault:
/// each end detects it on its own, the client tries to recover, and the streams and calls that
/// depend on the recovery end. A healed tail still begins at the same time.
fn extend_horizon(subject: &Arc<dyn DynSubject>, plan: &Plan) -> Plan {
    let guarantees = subject.guarantees(&plan.limits.over(subject.limits()));
    let more = guarantees.detection * 2
        + guarantees.recovery
        + guarantees.attempt
        + faults::LATE
        + Duration::from_secs(2);
    let heal = if plan.heal.is_zero() { Duration::ZERO } else { plan.heal + more };
    Plan { horizon: plan.horizon + more, heal, ..plan.clone() }
}

/// Returns the end of the range of positions: the file's horizon, or the start of its healed tail,
/// where no fault can be injected.
fn end_of_positions(plan: &Plan) -> Time {
    plan.horizon.saturating_sub(plan.heal).into()
}

/// Runs the plan without a fault. Returns `None` if the run has a violation.
fn run_plain(
    subject: &Arc<dyn DynSubject>,
    swept: &mut SweepProgress,
    pool: &Pool,
) -> Result<Option<History>, HuntError> {
    let (subject, plan, seed) = (subject.clone(), swept.plan.clone(), swept.plan.seed);
    let options = Options { detail: Detail::Full, ..Options::default() };
    let work = move |plan: Plan| {
        judge(
            JudgedRun { subject: &subject, plan: &plan, expect: &Expect::default() },
            &options,
            |_| true,
        )
    };
    let mut result = None;
    pool.alone().run(std::iter::once(plan), work, |only| {
        result = Some(only);
        ControlFlow::Break(())
    });
    let mut plain = None;
    let result = result.expect("there is a result for each plan").map(|ran| {
        ran.map(|Judged { history, broken, inconclusive, judging, .. }| {
            plain = broken.is_empty().then(|| history.clone());
            Examined { history, broken, inconclusive, repeated: false, judging }.into()
        })
    });
    swept.tally.take(seed, || swept.plan.clone(), result)?;
    Ok(plain)
}

/// Runs trials.
struct Worker {
    subject: Arc<dyn DynSubject>,
    plan: Plan,
    checks: Checks,
    plain: UserView,
    generations: u64,
}

/// The result of a trial.
struct TrialResult {
    summary: RunSummary,
    outcome: FaultOutcome,
    idle: Option<String>,
}

impl Worker {
    fn run(&self, step: &Step) -> Result<TrialResult, RunError> {
        let plan = with(&self.plan, step);
        let examined = examine(
            JudgedRun { subject: &self.subject, plan: &plan, expect: &Expect::default() },
            &self.checks,
        )?;
        let (outcome, idle) =
            (self.outcome(&examined), idle(&examined.history, self.plan.steps.len()));
        Ok(TrialResult { summary: examined.into(), outcome, idle })
    }

    fn outcome(&self, examined: &Examined) -> FaultOutcome {
        let record = UserView::of(&examined.history);
        let again = generations(&*self.subject, &examined.history) > self.generations;
        match () {
            () if !examined.broken.is_empty() => FaultOutcome::Broken,
            () if record == self.plain && !again => FaultOutcome::Untouched,
            () if record.has_all_of(&self.plain) => FaultOutcome::Recovered,
            () => FaultOutcome::Failed,
        }
    }
}

/// Returns the reason why a step had no effect, if it had none.
fn idle(history: &History, step: usize) -> Option<String> {
    let mut notes = history.events.iter().filter_map(|event| match &event.what {
        EventKind::Stepped { step: it, note } if *it == step => Some(note.clone()),
        _ => None,
    });
    // If a step did nothing, a second entry with a note follows its first entry, so take the last
    // one.
    notes.next_back().unwrap_or_else(|| Some("it was never reached".into()))
}

impl SweepProgress {
    /// Lists the trials: at each position, each suitable row of the table. A step that is already
    /// listed for the same moment is shared.
    fn list_trials(&mut self) {
        let mut same_moment: BTreeMap<Time, Vec<usize>> = BTreeMap::new();
        for (number, position) in self.positions.iter_mut().enumerate() {
            let there = same_moment.entry(position.at).or_default();
            for fault in FAULTS {
                let Some(step) = fault.step(position) else { continue };
                let known =
                    there.iter().copied().find(|trial: &usize| self.trials[*trial].step == step);
                position.trials.push(known.unwrap_or_else(|| {
                    there.push(self.trials.len());
                    let trial = SweepTrial {
                        fault,
                        position: number,
                        step,
                        outcome: None,
                        broken: Vec::new(),
                        idle: None,
                    };
                    self.trials.push(trial);
                    self.trials.len() - 1
                }));
            }
        }
    }

    /// Adds the result of the next trial.
    fn add(
        &mut self,
        result: Result<Result<TrialResult, RunError>, MissingResult>,
    ) -> Result<Option<FailedTrial>, HuntError> {
        let number = self.done;
        let plan = self.plan_of(&self.trials[number]);
        let trial = &mut self.trials[number];
        trial.outcome = Some(FaultOutcome::Broken); // where the run got stuck
        let result = result.map(|ran| {
            ran.map(|TrialResult { summary, outcome, idle }| {
                (trial.outcome, trial.idle) = (Some(outcome), idle);
                summary
            })
        });
        self.tally.take(plan.seed, || plan, result)?;
        self.done += 1;
        Ok(self.failed_trial(Some(number)))
    }

    /// Takes the failed run that was added last, if it failed.
    fn failed_trial(&mut self, trial: Option<usize>) -> Option<FailedTrial> {
        let failed = self.tally.failed.pop()?;
        self.broke += 1;
        if let Some(trial) = trial {
            let broken = &mut self.trials[trial].broken;
            broken.extend(failed.broken.iter().map(|broken| broken.property));
            broken.dedup();
        }
        Some(FailedTrial { trial, failed })
    }
}
