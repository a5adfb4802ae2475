//! A sweep: one schedule, run once as it is, and then once more for every position that it has and every fault that makes sense
//! there.
//!
//! - [`positions`]: what positions a run has. [`faults`]: the table of what goes wrong at which. [`outcome`]: what came of it.
//!
//! A swept run is the schedule with one more step, so what breaks in it is a plan like any other: it can be made small, saved and
//! replayed. Because that step comes last, a run is the plain one, to the packet, until it reaches its position. All runs have
//! their horizon put off by as long as a client may need to recover, and what happens after the file's own horizon is no position:
//! so what the last fault does is judged, too.
//!
//! What it comes to depends on the plan, never on the number of threads. Nothing here looks at what a file expects: that is said of
//! the run without a fault.

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
pub use positions::{Position, PositionKind, PositionSite, Site};

use outcome::{UserView, generations};

/// One fault at one position, or at several that are the same moment of the same place.
#[derive(Clone, Debug)]
pub struct SweepTrial {
    /// The fault: a row of the table.
    pub fault: &'static SweepFault,
    /// The position, by number: the first of those that share it.
    pub position: usize,
    /// The step that brings it.
    pub step: Step,
    /// What came of it; `None` as long as it was not run.
    pub outcome: Option<FaultOutcome>,
    /// The properties that broke, each once.
    pub broken: Vec<&'static str>,
    /// Why the fault found nothing to do, where it did not.
    pub idle: Option<String>,
}

/// A sweep, as far as it is.
#[derive(Debug)]
pub struct SweepProgress {
    /// The plan to which each run adds a step.
    pub plan: Plan,
    /// The positions of the run without a fault, in order. A plain run that breaks something has none.
    pub positions: Vec<Position>,
    /// What there is to try, in the order of positions and of the table.
    pub trials: Vec<SweepTrial>,
    /// How many of these were run.
    pub done: usize,
    /// In how many runs something broke.
    pub broke: u64,
    /// All runs, the one without a fault among them, summed up. Its list of what failed stays empty: each was handed over as it came.
    pub tally: ScenarioTally,
}

/// A run of a sweep in which something broke.
#[derive(Debug)]
pub struct Caught {
    /// The trial, by number; `None` where the run without a fault broke by itself.
    pub trial: Option<usize>,
    /// The run.
    pub failed: FailedRun,
}

impl SweepProgress {
    /// How many trials of a fault came to an outcome.
    pub fn came_to(&self, fault: &SweepFault, outcome: FaultOutcome) -> u64 {
        let these =
            |trial: &&SweepTrial| trial.fault.name == fault.name && trial.outcome == Some(outcome);
        self.trials.iter().filter(these).count() as u64
    }

    /// The worst that came of a position: what it is coloured by. `None` where nothing was tried there yet.
    pub fn worst(&self, position: &Position) -> Option<FaultOutcome> {
        position.trials.iter().filter_map(|trial| self.trials[*trial].outcome).max()
    }

    /// The plan of a trial.
    pub fn plan_of(&self, trial: &SweepTrial) -> Plan {
        with(&self.plan, &trial.step)
    }
}

/// Sweeps a plan. `each` is told how it stands after the run without a fault, when it is known what there is to try, and after each
/// trial, with the run itself where something broke in it; it breaks off when it has enough. A plain run that breaks something is
/// the only one: what breaks anyway shows nothing of a fault.
///
/// # Errors
/// If a run could not be carried out: the first such run ends the whole.
pub fn sweep(
    subject: &Arc<dyn DynSubject>,
    plan: &Plan,
    checks: &Checks,
    pool: &Pool,
    mut each: impl FnMut(&SweepProgress, Option<Caught>) -> ControlFlow<()>,
) -> Result<SweepProgress, HuntError> {
    let long = put_off(subject, plan);
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
        swept.positions = positions::of(&**subject, plan, plain, swept_until(plan));
        swept.list_trials();
    }
    let caught = swept.caught(None);
    let go_on = each(&swept, caught);
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
            Ok(caught) => each(&swept, caught),
            Err(why) => {
                hunt_error = Some(why);
                ControlFlow::Break(())
            }
        },
    );
    hunt_error.map_or(Ok(swept), Err)
}

/// The plan with a step more. It is the last, so that it changes nothing before its time.
fn with(plan: &Plan, step: &Step) -> Plan {
    plan.clone().step(step.when.clone(), step.action.clone())
}

/// The plan with its horizon put off, by as long as may pass until the last consequence of a fault is owed: each end notices by itself,
/// the client tries to recover, and what is bound to that ends. A healed tail begins when it did.
fn put_off(subject: &Arc<dyn DynSubject>, plan: &Plan) -> Plan {
    let guarantees = subject.guarantees(&plan.limits.over(subject.limits()));
    let more = guarantees.detection * 2
        + guarantees.recovery
        + guarantees.attempt
        + faults::LATE
        + Duration::from_secs(2);
    let heal = if plan.heal.is_zero() { Duration::ZERO } else { plan.heal + more };
    Plan { horizon: plan.horizon + more, heal, ..plan.clone() }
}

/// Positions come before this: before the file's horizon, and before its healed tail, where no fault can be.
fn swept_until(plan: &Plan) -> Time {
    plan.horizon.saturating_sub(plan.heal).into()
}

/// The run without a fault. `None` if it broke something.
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
        ran.map(|Judged { history, broken, inconclusive, .. }| {
            plain = broken.is_empty().then(|| history.clone());
            Examined { history, broken, inconclusive, repeated: false }.into()
        })
    });
    swept.tally.take(seed, || swept.plan.clone(), result)?;
    Ok(plain)
}

/// Who runs trials.
struct Worker {
    subject: Arc<dyn DynSubject>,
    plan: Plan,
    checks: Checks,
    plain: UserView,
    generations: u64,
}

/// A trial that was run.
struct Tried {
    summary: RunSummary,
    outcome: FaultOutcome,
    idle: Option<String>,
}

impl Worker {
    fn run(&self, step: &Step) -> Result<Tried, RunError> {
        let plan = with(&self.plan, step);
        let examined = examine(
            JudgedRun { subject: &self.subject, plan: &plan, expect: &Expect::default() },
            &self.checks,
        )?;
        let (outcome, idle) =
            (self.outcome(&examined), idle(&examined.history, self.plan.steps.len()));
        Ok(Tried { summary: examined.into(), outcome, idle })
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

/// Why a step did nothing, if it did nothing.
fn idle(history: &History, step: usize) -> Option<String> {
    let mut notes = history.events.iter().filter_map(|event| match &event.what {
        EventKind::Stepped { step: it, note } if *it == step => Some(note.clone()),
        _ => None,
    });
    // What a step came to stands behind it.
    notes.next_back().unwrap_or_else(|| Some("it was never reached".into()))
}

impl SweepProgress {
    /// What there is to try: for each position, each row of the table that makes sense there, unless the same step is there already.
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

    /// Takes the result of the next trial.
    fn add(
        &mut self,
        result: Result<Result<Tried, RunError>, MissingResult>,
    ) -> Result<Option<Caught>, HuntError> {
        let number = self.done;
        let plan = self.plan_of(&self.trials[number]);
        let trial = &mut self.trials[number];
        trial.outcome = Some(FaultOutcome::Broken); // where the run got stuck
        let result = result.map(|ran| {
            ran.map(|Tried { summary, outcome, idle }| {
                (trial.outcome, trial.idle) = (Some(outcome), idle);
                summary
            })
        });
        self.tally.take(plan.seed, || plan, result)?;
        self.done += 1;
        Ok(self.caught(Some(number)))
    }

    /// What broke in the run that was added last.
    fn caught(&mut self, trial: Option<usize>) -> Option<Caught> {
        let failed = self.tally.failed.pop()?;
        self.broke += 1;
        if let Some(trial) = trial {
            let broken = &mut self.trials[trial].broken;
            broken.extend(failed.broken.iter().map(|broken| broken.property));
            broken.dedup();
        }
        Some(Caught { trial, failed })
    }
}
