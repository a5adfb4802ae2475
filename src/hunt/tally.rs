//! The tally of one scenario: what failed, what was reached, and how much was exercised in all its
//! runs.
//!
//! The histories of runs are dropped as results arrive, except those of the first few failed runs.
//! A hunt of a million schedules therefore fits into memory.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use crate::history::{Digest, History};
use crate::property::{GENERIC, Violation, stuck};
use crate::scenario::{ScenarioFile, Snapshot, expect};
use crate::schedule::Plan;
use crate::subject::DynSubject;
use crate::world::{Engine, RunError};

use super::examine::{Checks, Examined, examine};
use super::judge::JudgedRun;
use super::plans::{expected, is_swarm, of as plans_of_file};
use super::pool::{MissingResult, Pool};
use super::shrink::main_problem;
use super::summary::RunSummary;
use super::verdict::{MainProblem, RunTotals, ScenarioVerdict};

/// The sum of all runs of one scenario.
#[derive(Debug, Default)]
pub struct ScenarioTally {
    /// Number of runs.
    pub runs: u64,
    /// Total virtual time.
    pub virtual_time: Duration,
    /// The digests of all runs, chained in order. Stuck runs are left out, because they depend on
    /// real time.
    pub digest: Digest,
    /// Number of runs that reached each milestone.
    pub milestones: BTreeMap<&'static str, u64>,
    /// Number of runs that reached each point.
    pub points: BTreeMap<&'static str, u64>,
    /// Number of runs in which each property judged a case.
    pub judging: BTreeMap<&'static str, u64>,
    /// Number of runs that were repeated.
    pub repeated: u64,
    /// Number of runs with an inconclusive failure: either outcome would have been correct.
    pub inconclusive: u64,
    /// Number of plans that the engine does not support. They were not run.
    pub unsupported: u64,
    /// The runs with a violation, in order.
    pub failed: Vec<FailedRun>,
    /// The expectations that all runs together did not meet: those of a swarm, and steps of a
    /// schedule that did nothing in any run.
    pub unmet: Vec<Violation>,
    /// The observations of users on the event engine: in the first run of a schedule, in all runs of a swarm.
    pub snapshot: Option<Snapshot>,
    /// The first difference to the scenario's snapshot, if no run failed.
    pub changed: Option<Violation>,
}

/// A run with a violation.
#[derive(Debug)]
pub struct FailedRun {
    /// The plan of the run.
    pub plan: Plan,
    /// The violations.
    pub broken: Vec<Violation>,
    /// The history of the run. Only the first few failed runs keep it; a stuck run has none.
    pub history: Option<History>,
}

/// A property judges seldom if it judges a case in less than one of this many runs.
const SELDOM: u64 = 100;

/// The number of failed runs that keep their history.
const KEPT: usize = 3;

/// The reason why the runs of a scenario could not be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HuntError {
    /// A run could not be carried out.
    #[error("{0}")]
    Run(RunError),
    /// The harness panicked.
    #[error(
        "the harness panicked in a run with seed {seed}, which is a bug of reknit; please report it: {message}"
    )]
    Harness {
        /// The seed of the run.
        seed: u64,
        /// The panic message.
        message: String,
    },
}

/// Runs all plans of a scenario and sums up the results. Calls `progress` with the number of
/// finished runs.
///
/// # Errors
/// If a run could not be carried out. The first such run ends the scenario. Plans that the engine does
/// not support are left out: this is an error only if the other runs say nothing. Without all runs,
/// expectations on all of them are not checked.
pub fn tally(
    subject: &Arc<dyn DynSubject>,
    scenario: &ScenarioFile,
    plans: Vec<Plan>,
    checks: &Checks,
    pool: &Pool,
    mut progress: impl FnMut(u64),
) -> Result<ScenarioTally, HuntError> {
    let on_event_engine = checks.engine == Engine::Event;
    let (tested, checks, expect) = (subject.clone(), checks.clone(), expected(scenario));
    let work = move |plan: Plan| {
        examine(JudgedRun { subject: &tested, plan: &plan, expect: &expect }, &checks)
    };
    let (mut tally, mut hunt_error, mut unsupported) = (ScenarioTally::default(), None, None);
    let mut over_all = is_swarm(scenario).then(|| expect::SwarmTally::new(&scenario.expect));
    // Idle steps are checked only if exactly the file's own runs are made: other runs, or only some
    // of them, may leave a step idle.
    let own = plans_of_file(scenario, subject);
    let mut idle = (over_all.is_none() && plans == own).then(|| expect::Idle::new(scenario));
    // A snapshot shows the first run of a schedule, and all runs of a swarm.
    let shown = match (on_event_engine, is_swarm(scenario)) {
        (true, true) => own.as_slice(),
        (true, false) => own.get(..1).unwrap_or_default(),
        (false, _) => &[],
    };
    let (mut order, mut taken) = (plans.clone().into_iter(), Vec::new());
    pool.run(plans.into_iter(), work, |result| {
        let plan = order.next().expect("there is a result for each plan");
        if let Ok(Err(error @ RunError::Unsupported(_))) = result {
            tally.unsupported += 1;
            unsupported.get_or_insert(HuntError::Run(error));
            return ControlFlow::Continue(());
        }
        if let Ok(Ok(Examined { history, .. })) = &result {
            over_all.iter_mut().for_each(|over_all| over_all.add(history));
            idle.iter_mut().for_each(|idle| idle.add(history));
            if shown.get(taken.len()).is_some_and(|shown| is_same_run(shown, &plan)) {
                taken.push((plan.seed, Snapshot::of(history)));
            }
        }
        hunt_error =
            tally.take(plan.seed, || plan, result.map(|ran| ran.map(RunSummary::from))).err();
        progress(tally.runs);
        if hunt_error.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    if let Some(error) = unsupported {
        (over_all, idle) = (None, None);
        let breaks = scenario.expect.breaks.as_deref();
        if tally.runs == 0 || breaks.is_some_and(|property| !tally.broke(property)) {
            hunt_error = hunt_error.or(Some(error));
        }
    }
    tally.unmet = over_all
        .map(|over_all| over_all.unmet())
        .or(idle.map(|idle| idle.unmet()))
        .unwrap_or_default();
    let all_taken = !taken.is_empty() && taken.len() == shown.len();
    let snapshot = all_taken.then(|| match is_swarm(scenario) {
        true => Snapshot::of_runs(taken),
        false => taken.swap_remove(0).1,
    });
    // A violation explains why users saw something else.
    let known = scenario.snapshot.as_ref().filter(|_| tally.failed.is_empty());
    tally.changed = known.zip(snapshot.as_ref()).and_then(|(known, now)| known.changed(now));
    tally.snapshot = snapshot;
    hunt_error.map_or(Ok(tally), Err)
}

/// Returns whether two plans differ at most in their seeded bugs.
fn is_same_run(one: &Plan, other: &Plan) -> bool {
    let without = |plan: &Plan| Plan { defects: Vec::new(), ..plan.clone() };
    without(one) == without(other)
}

impl ScenarioTally {
    /// Adds the result of the run of this seed. Calls `plan` only if the plan is needed.
    ///
    /// # Errors
    /// If the run could not be carried out.
    pub(super) fn take(
        &mut self,
        seed: u64,
        plan: impl FnOnce() -> Plan,
        result: Result<Result<RunSummary, RunError>, MissingResult>,
    ) -> Result<(), HuntError> {
        match result {
            Ok(Ok(summary)) => self.add(plan, summary),
            Ok(Err(error)) => return Err(HuntError::Run(error)),
            Err(MissingResult::Panicked(message)) => {
                return Err(HuntError::Harness { seed, message });
            }
            Err(MissingResult::Stuck(patience)) => self.add_stuck(plan(), patience),
        }
        Ok(())
    }

    fn add(&mut self, plan: impl FnOnce() -> Plan, summary: RunSummary) {
        let RunSummary {
            lasted,
            digest,
            milestones,
            points,
            judging,
            repeated,
            inconclusive,
            broke,
        } = summary;
        self.runs += 1;
        self.virtual_time += lasted;
        self.digest.number(digest.value());
        self.repeated += u64::from(repeated);
        self.inconclusive += u64::from(inconclusive);
        milestones.into_iter().for_each(|name| *self.milestones.entry(name).or_default() += 1);
        points.into_iter().for_each(|name| *self.points.entry(name).or_default() += 1);
        judging.into_iter().for_each(|name| *self.judging.entry(name).or_default() += 1);
        if let Some((broken, history)) = broke {
            let history = (self.failed.len() < KEPT).then_some(history);
            self.failed.push(FailedRun { plan: plan(), broken, history });
        }
    }

    fn add_stuck(&mut self, plan: Plan, patience: Duration) {
        self.runs += 1;
        self.failed.push(FailedRun { plan, broken: vec![stuck(patience)], history: None });
    }

    /// Returns the verdict on the runs. `breaks` is the property that a canary must violate.
    pub fn verdict(&self, breaks: Option<&str>) -> ScenarioVerdict {
        let unmet_by_all =
            self.unmet.first().map(|unmet| ScenarioVerdict::Vacuous(unmet.clone().into()));
        let changed = self.changed.clone().map(|changed| ScenarioVerdict::Changed(changed.into()));
        match breaks {
            Some(property) if self.broke(property) => {
                return unmet_by_all
                    .unwrap_or_else(|| ScenarioVerdict::BrokeAsItShould(property.to_owned()));
            }
            Some(property) => return ScenarioVerdict::DidNotBreak(property.to_owned()),
            None => {}
        }
        if !self.failed.is_empty() {
            let mut properties: Vec<_> = self
                .failed
                .iter()
                .flat_map(|it| &it.broken)
                .map(|it| it.property.to_owned())
                .collect();
            properties.sort_unstable();
            properties.dedup();
            return ScenarioVerdict::Broke { properties, runs: self.failed.len() as u64 };
        }
        unmet_by_all.or(changed).unwrap_or(ScenarioVerdict::Held)
    }

    /// Returns the main problem of the runs. `breaks` is the property that a canary must violate.
    pub fn main<'t>(&'t self, breaks: Option<&'t str>) -> MainProblem<'t> {
        let main = self
            .failed
            .first()
            .filter(|_| breaks.is_none())
            .and_then(|failed| main_problem(&failed.broken));
        match (main, breaks.filter(|property| !self.broke(property))) {
            (_, Some(property)) => MainProblem::DidNotBreak(property),
            (Some(main), None) => MainProblem::Broke(main),
            (None, None) => {
                let unmet = self.unmet.first().or(self.changed.as_ref());
                unmet.map_or(MainProblem::Nothing, MainProblem::Unmet)
            }
        }
    }

    /// Returns whether a property was violated in any run.
    pub fn broke(&self, property: &str) -> bool {
        self.failed
            .iter()
            .any(|failed| failed.broken.iter().any(|broken| broken.property == property))
    }

    /// Returns the milestones and points that a correct subject reaches but none of these runs
    /// reached.
    pub fn unreached(&self, subject: &Arc<dyn DynSubject>) -> Vec<&'static str> {
        let milestones =
            subject.milestones().iter().filter(|it| it.only.is_none()).map(|it| it.name);
        let points = subject.points().iter().filter(|it| it.defect.is_none()).map(|it| it.name);
        let milestones = milestones.filter(|name| !self.milestones.contains_key(name));
        milestones.chain(points.filter(|name| !self.points.contains_key(name))).collect()
    }

    /// Returns the properties that judged a case in less than 1 % of the runs, and in how many. Fewer than 100 runs
    /// show nothing.
    pub fn seldom(&self, subject: &Arc<dyn DynSubject>) -> Vec<(String, u64)> {
        let names = GENERIC.iter().chain(subject.properties()).map(|property| property.name);
        let counted = names.map(|name| (name, self.judging.get(name).copied().unwrap_or_default()));
        let seldom = counted.filter(|(_, runs)| runs * SELDOM < self.runs);
        seldom.filter(|_| self.runs >= SELDOM).map(|(name, runs)| (name.to_owned(), runs)).collect()
    }

    /// Returns the totals to report of a subject. The real time is not filled in.
    pub fn totals_of(&self, subject: &Arc<dyn DynSubject>) -> RunTotals {
        RunTotals { seldom: self.seldom(subject), ..self.totals(&self.unreached(subject)) }
    }

    /// Returns the totals to report, including what no run reached. The real time is not filled in.
    pub fn totals(&self, unreached: &[&'static str]) -> RunTotals {
        RunTotals {
            schedules: self.runs,
            virtual_time: self.virtual_time,
            repeated: self.repeated,
            inconclusive: self.inconclusive,
            unsupported: self.unsupported,
            unreached: unreached.iter().map(|name| (*name).to_owned()).collect(),
            ..RunTotals::default()
        }
    }

    /// Adds the counts, the milestones and the points of another scenario's runs. Does not add
    /// their violations or their digest.
    pub fn absorb(&mut self, other: &ScenarioTally) {
        self.runs += other.runs;
        self.virtual_time += other.virtual_time;
        self.repeated += other.repeated;
        self.inconclusive += other.inconclusive;
        self.unsupported += other.unsupported;
        other
            .milestones
            .iter()
            .for_each(|(name, runs)| *self.milestones.entry(name).or_default() += runs);
        other.points.iter().for_each(|(name, runs)| *self.points.entry(name).or_default() += runs);
        let judging = other.judging.iter();
        judging.for_each(|(name, runs)| *self.judging.entry(name).or_default() += runs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Time;
    use crate::property::About;
    use crate::property::violation::sample_violation;

    fn unmet() -> Violation {
        sample_violation("expect", About::Run, Time::ZERO, "step 2 did nothing")
    }

    fn failed(property: &'static str) -> FailedRun {
        let broken = sample_violation(property, About::Run, Time(1), "it broke");
        FailedRun { plan: Plan::new("x"), broken: vec![broken], history: None }
    }

    #[test]
    fn a_verdict_names_each_property_once() {
        let tally = ScenarioTally {
            failed: vec![failed("one_ending"), failed("gap_free"), failed("gap_free")],
            ..ScenarioTally::default()
        };
        let properties = vec!["gap_free".to_owned(), "one_ending".to_owned()];
        assert_eq!(tally.verdict(None), ScenarioVerdict::Broke { properties, runs: 3 });
    }

    #[test]
    fn a_canary_without_its_violation_fails() {
        let tally =
            ScenarioTally { failed: vec![failed("one_ending")], ..ScenarioTally::default() };
        assert_eq!(
            tally.verdict(Some("one_ending")),
            ScenarioVerdict::BrokeAsItShould("one_ending".into())
        );
        assert!(!tally.verdict(Some("gap_free")).is_good());
        assert!(!ScenarioTally::default().verdict(Some("gap_free")).is_good());
    }

    #[test]
    fn a_canary_with_a_step_that_does_nothing_is_vacuous() {
        let tally = ScenarioTally {
            failed: vec![failed("gap_free")],
            unmet: vec![unmet()],
            ..ScenarioTally::default()
        };
        assert_eq!(tally.verdict(Some("gap_free")), ScenarioVerdict::Vacuous(unmet().into()));
    }

    #[test]
    fn a_swarm_with_an_unmet_expectation_is_vacuous() {
        let tally = ScenarioTally { unmet: vec![unmet()], ..ScenarioTally::default() };
        assert_eq!(tally.verdict(None), ScenarioVerdict::Vacuous(unmet().into()));
        assert!(ScenarioTally::default().verdict(None).is_good());
    }

    #[test]
    fn a_stuck_run_is_a_verdict() {
        let mut tally = ScenarioTally::default();
        tally.add_stuck(Plan::new("x"), Duration::from_secs(10));
        assert_eq!(
            tally.verdict(None),
            ScenarioVerdict::Broke { properties: vec!["no_livelock".into()], runs: 1 }
        );
        assert_eq!(tally.failed[0].broken, [stuck(Duration::from_secs(10))]);
    }
}
