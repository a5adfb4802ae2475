//! All runs of one scenario, summed up: what broke, what was reached, how much was exercised.
//!
//! Runs are thrown away as they come, but for the first few that failed: a hunt of a million schedules fits into memory.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use crate::history::{Digest, History};
use crate::property::{Violation, stuck};
use crate::scenario::{ScenarioFile, expect};
use crate::schedule::Plan;
use crate::subject::DynSubject;
use crate::world::RunError;

use super::examine::{Checks, Examined, examine};
use super::judge::JudgedRun;
use super::plans::{expected, is_swarm};
use super::pool::{MissingResult, Pool};
use super::shrink::main_thing;
use super::summary::RunSummary;
use super::verdict::{Main, RunTotals, ScenarioVerdict};

/// All runs of one scenario.
#[derive(Debug, Default)]
pub struct ScenarioTally {
    /// How many runs there were.
    pub runs: u64,
    /// Virtual time of all of them.
    pub virtual_time: Duration,
    /// The digests of all of them, chained in order; but of those that got stuck, which depends on real time.
    pub digest: Digest,
    /// In how many runs each milestone was reached.
    pub milestones: BTreeMap<&'static str, u64>,
    /// In how many runs each point was reached.
    pub points: BTreeMap<&'static str, u64>,
    /// How many runs were repeated.
    pub repeated: u64,
    /// How many runs had a failure that is neither surely justified nor surely not.
    pub inconclusive: u64,
    /// The runs in which something broke, in order.
    pub failed: Vec<FailedRun>,
    /// What all runs together did not show, and must: what a swarm expects, and steps of a schedule that did nothing.
    pub unmet: Vec<Violation>,
}

/// A run in which something broke.
#[derive(Debug)]
pub struct FailedRun {
    /// Its plan.
    pub plan: Plan,
    /// What broke.
    pub broken: Vec<Violation>,
    /// Its record: of the first few failed runs only, and of none that got stuck.
    pub history: Option<History>,
}

/// So many failed runs keep their record.
const KEPT: usize = 3;

/// Why a scenario's runs could not be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HuntError {
    /// A run could not.
    #[error("{0}")]
    Run(RunError),
    /// The harness made a mistake.
    #[error(
        "the harness panicked in a run with seed {seed}, which is a bug of reknit; please report it: {message}"
    )]
    Harness {
        /// The seed of the run.
        seed: u64,
        /// What the panic said.
        message: String,
    },
}

/// Runs all plans of a scenario, and sums up. `progress` is told how many are done.
///
/// # Errors
/// If a run could not be carried out: the first such run ends the whole.
pub fn tally(
    subject: &Arc<dyn DynSubject>,
    scenario: &ScenarioFile,
    plans: Vec<Plan>,
    checks: &Checks,
    pool: &Pool,
    mut progress: impl FnMut(u64),
) -> Result<ScenarioTally, HuntError> {
    let (subject, checks, expect) = (subject.clone(), checks.clone(), expected(scenario));
    let work = move |plan: Plan| {
        examine(JudgedRun { subject: &subject, plan: &plan, expect: &expect }, &checks)
    };
    let (mut tally, mut hunt_error) = (ScenarioTally::default(), None);
    let mut over_all = is_swarm(scenario).then(|| expect::SwarmTally::new(&scenario.expect));
    // A part of a schedule's runs, or other runs than the file's own, may well leave a step idle.
    let mut idle =
        (over_all.is_none() && plans == scenario.plans()).then(|| expect::Idle::new(scenario));
    let mut order = plans.clone().into_iter();
    pool.run(plans.into_iter(), work, |result| {
        let plan = order.next().expect("there is a result for each plan");
        if let Ok(Ok(Examined { history, .. })) = &result {
            over_all.iter_mut().for_each(|over_all| over_all.add(history));
            idle.iter_mut().for_each(|idle| idle.add(history));
        }
        hunt_error =
            tally.take(plan.seed, || plan, result.map(|ran| ran.map(RunSummary::from))).err();
        progress(tally.runs);
        if hunt_error.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    tally.unmet = over_all
        .map(|over_all| over_all.unmet())
        .or(idle.map(|idle| idle.unmet()))
        .unwrap_or_default();
    hunt_error.map_or(Ok(tally), Err)
}

impl ScenarioTally {
    /// Takes what came of the run of this seed; its plan is asked for where it has one.
    ///
    /// # Errors
    /// If it could not be carried out.
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
        let RunSummary { lasted, digest, milestones, points, repeated, inconclusive, broke } =
            summary;
        self.runs += 1;
        self.virtual_time += lasted;
        self.digest.number(digest.value());
        self.repeated += u64::from(repeated);
        self.inconclusive += u64::from(inconclusive);
        milestones.into_iter().for_each(|name| *self.milestones.entry(name).or_default() += 1);
        points.into_iter().for_each(|name| *self.points.entry(name).or_default() += 1);
        if let Some((broken, history)) = broke {
            let history = (self.failed.len() < KEPT).then_some(history);
            self.failed.push(FailedRun { plan: plan(), broken, history });
        }
    }

    fn add_stuck(&mut self, plan: Plan, patience: Duration) {
        self.runs += 1;
        self.failed.push(FailedRun { plan, broken: vec![stuck(patience)], history: None });
    }

    /// What the runs come to; `breaks` is the property that a canary must break.
    pub fn verdict(&self, breaks: Option<&str>) -> ScenarioVerdict {
        let tame = self.unmet.first().map(|unmet| ScenarioVerdict::TooTame(unmet.clone().into()));
        match breaks {
            Some(property) if self.broke(property) => {
                return tame
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
        tame.unwrap_or(ScenarioVerdict::Held)
    }

    /// What is not as it should be, in short. `breaks` is what a canary must break.
    pub fn main<'t>(&'t self, breaks: Option<&'t str>) -> Main<'t> {
        let main = self
            .failed
            .first()
            .filter(|_| breaks.is_none())
            .and_then(|failed| main_thing(&failed.broken));
        match (main, breaks.filter(|property| !self.broke(property))) {
            (_, Some(property)) => Main::DidNotBreak(property),
            (Some(main), None) => Main::Broke(main),
            (None, None) => self.unmet.first().map_or(Main::Nothing, Main::Unmet),
        }
    }

    /// Whether a property broke in any run.
    pub fn broke(&self, property: &str) -> bool {
        self.failed
            .iter()
            .any(|failed| failed.broken.iter().any(|broken| broken.property == property))
    }

    /// The milestones and points that a good subject reaches, and that no run of these reached.
    pub fn unreached(&self, subject: &Arc<dyn DynSubject>) -> Vec<&'static str> {
        let milestones =
            subject.milestones().iter().filter(|it| it.only.is_none()).map(|it| it.name);
        let points = subject.points().iter().filter(|it| it.defect.is_none()).map(|it| it.name);
        let milestones = milestones.filter(|name| !self.milestones.contains_key(name));
        milestones.chain(points.filter(|name| !self.points.contains_key(name))).collect()
    }

    /// What a person is told of all runs, with what none of them reached; it has no real time yet.
    pub fn totals(&self, unreached: &[&'static str]) -> RunTotals {
        RunTotals {
            schedules: self.runs,
            virtual_time: self.virtual_time,
            wall: Duration::ZERO,
            repeated: self.repeated,
            inconclusive: self.inconclusive,
            unreached: unreached.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    /// Adds what the runs of another scenario reached and how much they exercised; not what broke in them, nor their digest.
    pub fn absorb(&mut self, other: &ScenarioTally) {
        self.runs += other.runs;
        self.virtual_time += other.virtual_time;
        self.repeated += other.repeated;
        self.inconclusive += other.inconclusive;
        other
            .milestones
            .iter()
            .for_each(|(name, runs)| *self.milestones.entry(name).or_default() += runs);
        other.points.iter().for_each(|(name, runs)| *self.points.entry(name).or_default() += runs);
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
    fn a_canary_that_breaks_nothing_is_no_canary() {
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
    fn a_canary_with_a_step_that_does_nothing_is_too_tame() {
        let tally = ScenarioTally {
            failed: vec![failed("gap_free")],
            unmet: vec![unmet()],
            ..ScenarioTally::default()
        };
        assert_eq!(tally.verdict(Some("gap_free")), ScenarioVerdict::TooTame(unmet().into()));
    }

    #[test]
    fn what_a_swarm_never_showed_makes_it_too_tame() {
        let tally = ScenarioTally { unmet: vec![unmet()], ..ScenarioTally::default() };
        assert_eq!(tally.verdict(None), ScenarioVerdict::TooTame(unmet().into()));
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
