//! A run that broke, made small: the [shrinker](crate::schedule::shrink) proposes plans, and runs say which of them still fail.
//!
//! A smaller plan fails only if it breaks the same property, and of the same stream where the property is about one; it may break
//! others, too. What a file expects is asked of the smaller runs only where it is what broke. A plan that could not stand in a
//! file is never run, so that whatever comes out can be kept.
//!
//! One run follows from the one before, so they are carried out one after the other, by one worker of a [`Pool`]: what comes out
//! does not depend on the number of cores, and a run that gets stuck is given up like any other.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::channel;

use crate::history::{EventKind, History};
use crate::property::{SAME_DIGEST, Violation};
use crate::scenario::expect::EXPECT;
use crate::scenario::{Expect, ScenarioFile};
use crate::schedule::Plan;
use crate::schedule::shrink::{Fits, RunObservations, Shrinker};
use crate::subject::DynSubject;
use crate::world::{Options, RunError};

use super::judge::{Judged, JudgedRun, judge};
use super::pool::{MissingResult, Pool};

/// How much may be spent on making one run small.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// The most runs, without the first, which shows that there is something to shrink.
    pub runs: u64,
    /// How they are watched. Whatever it says, one thread works.
    pub pool: Pool,
}

impl Default for Budget {
    /// 1,500 runs.
    fn default() -> Self {
        Self { runs: 1500, pool: Pool::default() }
    }
}

/// How far the work is.
#[derive(Clone, Copy, Debug)]
pub struct ShrinkProgress<'a> {
    /// The smallest plan so far that fails.
    pub plan: &'a Plan,
    /// How many steps there were in the beginning.
    pub from: usize,
    /// How many runs were needed so far.
    pub runs: u64,
}

/// A run that broke, made small.
#[derive(Debug)]
pub struct Shrunk {
    /// The smallest plan that was found.
    pub plan: Plan,
    /// What is expected of it, besides the properties.
    pub expect: Expect,
    /// What broke in its run, first of all what it was shrunk for.
    pub broken: Vec<Violation>,
    /// Its run, judged.
    pub judged: Judged,
    /// How many steps there were in the beginning.
    pub from: usize,
    /// How many runs it took.
    pub runs: u64,
}

impl Shrunk {
    /// Whether it takes a twin to see what broke.
    pub fn has_control(&self) -> bool {
        self.judged.control.is_some()
    }

    /// The file to keep.
    pub fn scenario(&self, title: impl Into<String>) -> ScenarioFile {
        ScenarioFile {
            expect: self.expect.clone(),
            ..ScenarioFile::of_plan(self.plan.clone(), title)
        }
    }
}

/// Why a run cannot be made small.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotShrunk {
    /// It is not the same when it is run again.
    #[error("{0} cannot be shrunk: the run is not the same when it is repeated")]
    NotTheSame(&'static str),
    /// What is said to break does not.
    #[error("{0} did not break when the run was repeated")]
    Held(&'static str),
    /// It cannot stand in a file.
    #[error("the plan cannot be written to a file: {0}")]
    Unwritable(String),
    /// It could not be carried out.
    #[error("{0}")]
    Run(#[from] RunError),
    /// It did not come to its end.
    #[error("{0}")]
    Lost(#[from] MissingResult),
}

/// What of all that broke is worth being kept while all else gets smaller: a property rather than what a file expects, and of the
/// streams that it is about the one with the plainest name, which the fewest steps lead to.
pub fn main_thing(broken: &[Violation]) -> Option<&Violation> {
    let main = broken.iter().find(|broken| broken.property != EXPECT).or(broken.first())?;
    let of_property = broken.iter().filter(|broken| broken.property == main.property);
    of_property.min_by_key(|broken| broken.stream().map(|stream| (stream.0.len(), stream.clone())))
}

/// Makes the run of a case small, so that it still breaks what it broke. `progress` is told of every run, and may break off: then
/// the best so far is what comes out.
///
/// # Errors
/// If there is nothing to shrink.
pub fn shrink(
    case: JudgedRun<'_>,
    broken: &Violation,
    budget: &Budget,
    mut progress: impl FnMut(ShrinkProgress<'_>) -> ControlFlow<()>,
) -> Result<Shrunk, NotShrunk> {
    let target = Target::of(broken)?;
    let (subject, from) = (case.subject.clone(), case.plan.steps.len());
    let expect = if target.is_expected() {
        Expect { may_miss: Default::default(), ..case.expect.clone() }
    } else {
        Expect::default()
    };
    let plan = written(case.plan, &subject).map_err(NotShrunk::Unwritable)?;
    let (mut judged, control) = first(
        JudgedRun { subject: &subject, plan: &plan, expect: &expect },
        &target,
        &budget.pool,
    )?;
    let mut shrinker = Shrinker::new(plan, seen(&judged.history), fits(&subject));
    let mut runs = 0;
    let (propose, proposed) = channel();
    let mut propose = shrinker.propose().filter(|_| budget.runs > 0).cloned().map(|plan| {
        propose.send(plan).ok();
        propose
    });
    let work = {
        let (subject, expect) = (subject.clone(), expect.clone());
        move |plan: Plan| {
            judge(
                JudgedRun { subject: &subject, plan: &plan, expect: &expect },
                &Options::default(),
                |_| control,
            )
        }
    };
    budget.pool.alone().run(
        proposed.into_iter(),
        work,
        |result: Result<Result<Judged, RunError>, MissingResult>| {
            runs += 1;
            // A run that got stuck, or could not be carried out, fails in another way.
            if let Ok(Ok(run)) = result
                && target.is_in(&run.broken)
            {
                shrinker.accept(seen(&run.history));
                judged = run;
            }
            let go_on = progress(ShrinkProgress { plan: shrinker.best(), from, runs })
                .is_continue()
                && runs < budget.runs;
            let next = shrinker.propose().filter(|_| go_on).cloned();
            let sent = next.zip(propose.as_ref()).map(|(plan, propose)| propose.send(plan).is_ok());
            if sent == Some(true) {
                return ControlFlow::Continue(());
            }
            // The worker waits for a plan, and must not do so any longer.
            propose = None;
            ControlFlow::Break(())
        },
    );
    let mut broken = judged.broken.clone();
    broken.sort_by_key(|broken| !target.is(broken));
    Ok(Shrunk { plan: shrinker.best().clone(), expect, broken, judged, from, runs })
}

/// The run with which it begins: with a twin only if what broke is not seen without.
fn first(case: JudgedRun<'_>, target: &Target, pool: &Pool) -> Result<(Judged, bool), NotShrunk> {
    let (subject, plan, expect) = (case.subject.clone(), case.plan.clone(), case.expect.clone());
    let work = move |control| {
        judge(
            JudgedRun { subject: &subject, plan: &plan, expect: &expect },
            &Options::default(),
            |_| control,
        )
    };
    let (mut twins, mut found) =
        ([false, true].into_iter(), Err(NotShrunk::Held(target.broken.property)));
    pool.alone().run(
        twins.clone(),
        work,
        |result: Result<Result<Judged, RunError>, MissingResult>| {
            let control = twins.next().unwrap_or(true);
            found = match result {
                Ok(Ok(judged)) if target.is_in(&judged.broken) => Ok((judged, control)),
                Ok(Ok(_)) => return ControlFlow::Continue(()),
                Ok(Err(error)) => Err(error.into()),
                Err(lost) => Err(lost.into()),
            };
            ControlFlow::Break(())
        },
    );
    found
}

/// What a smaller plan must break.
struct Target {
    broken: Violation,
}

impl Target {
    fn of(broken: &Violation) -> Result<Self, NotShrunk> {
        if broken.property == SAME_DIGEST.0 {
            return Err(NotShrunk::NotTheSame(broken.property));
        }
        Ok(Self { broken: broken.clone() })
    }

    /// Whether it is something that the file expects, and no property.
    fn is_expected(&self) -> bool {
        self.broken.property == EXPECT
    }

    fn is_in(&self, broken: &[Violation]) -> bool {
        broken.iter().any(|broken| self.is(broken))
    }

    /// The same property of the same stream. A file expects many things under one name: there, it must be about the same thing, and
    /// break in the same way.
    fn is(&self, broken: &Violation) -> bool {
        let same =
            broken.property == self.broken.property && broken.stream() == self.broken.stream();
        same && (!self.is_expected() || broken.is_like(&self.broken))
    }
}

/// What the shrinker is told of a run.
fn seen(history: &History) -> RunObservations {
    let mut seen = RunObservations::default();
    for event in &history.events {
        let at = event.at.since(crate::history::Time::ZERO);
        match &event.what {
            EventKind::Stepped { step, .. } => drop(seen.steps.entry(*step).or_insert(at)),
            EventKind::Milestone { name, .. } => seen.milestones.push((at, (*name).to_owned())),
            _ => {}
        }
    }
    seen
}

/// A plan fits if a file can say it.
fn fits(subject: &Arc<dyn DynSubject>) -> Fits {
    let subject = subject.clone();
    Arc::new(move |plan| written(plan, &subject).is_ok_and(|read| read == *plan))
}

/// The plan as it is when it was written to a file and read again.
fn written(plan: &Plan, subject: &Arc<dyn DynSubject>) -> Result<Plan, String> {
    let file = ScenarioFile::of_plan(plan.clone(), "shrunk").to_toml();
    let read = ScenarioFile::parse(&file, "-", std::slice::from_ref(subject))
        .map_err(|mistake| mistake.to_string())?;
    read.plans().into_iter().next().ok_or_else(|| "it has no run".into())
}

#[cfg(test)]
mod tests;
