//! The kill matrix. For each defect of a subject, it records how many random schedules a hunt needs
//! to find it and how far the failing schedule shrinks. It also records whether sweeps of plain
//! schedules find the defect.
//!
//! A violation counts only if its property is one that the defect is declared to violate, and if the
//! property holds with the defect switched off.
//!
//! Every random hunt starts cold: from the first seed of the profile, without a scenario file. A
//! defect that is not found shows a gap in the harness: in what it draws, or in what it checks.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::property::Violation;
use crate::scenario::Expect;
use crate::scenario::expect::EXPECT;
use crate::schedule::{Plan, Profile};
use crate::subject::{DefectDoc, DynSubject};
use crate::world::Options;

use super::examine::Checks;
use super::judge::{JudgedRun, judge};
use super::pool::Pool;
use super::random::{HuntTarget, hunt};
use super::shrink::{Budget, main_problem, shrink};
use super::sweep::sweep;
use super::tally::{FailedRun, HuntError};

/// The effort that it took to find a defect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefectKill {
    /// The defect.
    pub defect: &'static str,
    /// Number of schedules run, including the failing one.
    pub schedules: u64,
    /// The first violation that counts; `None` if there was none.
    pub found: Option<FirstViolation>,
}

/// The first violation of a hunt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstViolation {
    /// The violated property.
    pub property: &'static str,
    /// The seed of the schedule.
    pub seed: u64,
    /// Number of steps in the schedule as drawn.
    pub drawn: usize,
    /// Number of steps after shrinking; `None` if the schedule could not be shrunk.
    pub steps: Option<usize>,
}

/// Returns whether a random schedule can find a defect. A defect that violates only the expectations
/// of scenario files needs such a file, because a random schedule expects nothing.
pub fn is_for_random_schedules(defect: &DefectDoc) -> bool {
    defect.breaks.iter().any(|property| *property != EXPECT)
}

/// Hunts for one defect, with at most `most` schedules.
///
/// # Errors
/// If a run could not be carried out.
pub fn kill(
    target: &HuntTarget,
    defect: &DefectDoc,
    most: u64,
    checks: &Checks,
    pool: &Pool,
) -> Result<DefectKill, HuntError> {
    let mut profile = Profile::clone(&target.profile);
    profile.defects.push(defect.name.to_owned());
    let first = profile.first_seed;
    let target = HuntTarget { subject: target.subject.clone(), profile: Arc::new(profile) };
    let mut first_violation = None;
    let seeds = (0..most).map(move |n| first.wrapping_add(n));
    let hunted = hunt(&target, seeds, checks, pool, |_, failed| {
        first_violation = failed.and_then(|failed| its_doing(&target, failed, defect));
        if first_violation.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(DefectKill {
        defect: defect.name,
        schedules: hunted.tally.runs,
        found: first_violation.map(|failed| look_at(&target, &failed, pool)),
    })
}

/// The result of sweeps that look for a defect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BySweep {
    /// Number of positions in all swept schedules.
    pub positions: usize,
    /// Number of runs, including the failing one.
    pub runs: u64,
    /// The first violated property that counts; `None` if there was none.
    pub found: Option<&'static str>,
}

/// Sweeps the plans in order, with one defect switched on, until a property that it is declared to
/// violate is violated.
///
/// # Errors
/// If a run could not be carried out.
pub fn kill_by_sweep(
    subject: &Arc<dyn DynSubject>,
    plans: &[Plan],
    defect: &DefectDoc,
    checks: &Checks,
    pool: &Pool,
) -> Result<BySweep, HuntError> {
    let mut result = BySweep::default();
    for plan in plans {
        let mut plan = plan.clone();
        plan.defects.push(defect.name.to_owned());
        let swept = sweep(subject, &plan, checks, pool, |_, first_violation| {
            result.found = first_violation.and_then(|first_violation| {
                Some(main_problem(&named(&first_violation.failed.broken, defect))?.property)
            });
            if result.found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        result.positions += swept.positions.len();
        result.runs += swept.tally.runs;
        if result.found.is_some() {
            break;
        }
    }
    Ok(result)
}

/// A failed run, with its main violation among those that the defect is declared to cause.
struct Caused {
    failed: FailedRun,
    main: Violation,
}

/// Returns a failed run if the defect caused it: the main violation is one that the defect is declared
/// to cause, and the property holds when the defect is switched off.
fn its_doing(target: &HuntTarget, failed: FailedRun, defect: &DefectDoc) -> Option<Caused> {
    let main = main_problem(&named(&failed.broken, defect))?.clone();
    let mut plan = failed.plan.clone();
    plan.defects.retain(|on| on != defect.name);
    let case = JudgedRun { subject: &target.subject, plan: &plan, expect: &Expect::default() };
    let without = judge(case, &Options::default(), |_| true);
    let also = without.map_or_else(|_| Vec::new(), |judged| judged.broken);
    also.iter().all(|other| other.property != main.property).then_some(Caused { failed, main })
}

/// Returns the violations of properties that the defect is declared to violate.
fn named(broken: &[Violation], defect: &DefectDoc) -> Vec<Violation> {
    broken.iter().filter(|broken| defect.breaks.contains(&broken.property)).cloned().collect()
}

fn look_at(target: &HuntTarget, Caused { failed, main }: &Caused, pool: &Pool) -> FirstViolation {
    let case =
        JudgedRun { subject: &target.subject, plan: &failed.plan, expect: &Expect::default() };
    let budget = Budget { pool: *pool, ..Budget::default() };
    let shrunk = shrink(case, main, &budget, |_| ControlFlow::Continue(()));
    FirstViolation {
        property: main.property,
        seed: failed.plan.seed,
        drawn: failed.plan.steps.len(),
        steps: shrunk.ok().map(|shrunk| shrunk.plan.steps.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only a sample: the whole matrix takes minutes.
    #[test]
    fn a_random_hunt_finds_a_defect_and_shrinks_the_schedule() {
        let subject = crate::subjects::counter();
        let target = HuntTarget { profile: Arc::new(Profile::of_schemas(&*subject)), subject };
        for defect in ["resumes-one-too-late", "eof-is-completion", "lost-wake-up"] {
            let known = target.subject.defects().iter().find(|known| known.name == defect).unwrap();
            let kill = kill(&target, known, 500, &Checks::default(), &Pool::default()).unwrap();
            let found = kill.found.unwrap_or_else(|| {
                panic!("{defect} was not found in {} schedules", kill.schedules)
            });
            assert!(known.breaks.contains(&found.property), "{defect}: {found:?}");
            assert!(found.steps.is_some_and(|steps| steps <= 3), "{defect}: {found:?}");
        }
    }
}
