//! Shrinks a failing run: the [shrinker](crate::schedule::shrink) proposes smaller plans, and this
//! module runs them to see which still fail.
//!
//! A smaller plan counts as failing only if it violates the same property, and the same stream if
//! the property concerns one stream. A stream whose name contains the number of its call gets
//! another name when earlier steps are left out, so numbers in names are not compared. It may violate other properties too. The expectations of the
//! file apply to smaller runs only if the original failure is an unmet expectation. A plan that
//! cannot be written to a file is never run, so the result can always be saved.
//!
//! Each run depends on the result of the one before. Runs therefore execute one after another, on
//! one worker of a [`Pool`]. The result does not depend on the number of cores, and a stuck run is
//! abandoned like any other.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::channel;

use crate::history::{EventKind, History, Stream};
use crate::property::{SAME_DIGEST, Violation};
use crate::scenario::expect::EXPECT;
use crate::scenario::{Expect, ScenarioFile};
use crate::schedule::draw;
use crate::schedule::shrink::{Fits, Ranges, RunObservations, Shrinker};
use crate::schedule::{Plan, Profile};
use crate::subject::DynSubject;
use crate::world::{Options, RunError};

use super::judge::{Judged, JudgedRun, judge};
use super::pool::{MissingResult, Pool};

/// Limits on the effort to shrink one run.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// The maximum number of runs. The initial run, which reproduces the failure, does not count.
    pub runs: u64,
    /// The pool that watches the runs. Only one thread is used, whatever its setting.
    pub pool: Pool,
}

impl Default for Budget {
    /// 1,500 runs.
    fn default() -> Self {
        Self { runs: 1500, pool: Pool::default() }
    }
}

/// The state of the shrinking so far.
#[derive(Clone, Copy, Debug)]
pub struct ShrinkProgress<'a> {
    /// The smallest failing plan so far.
    pub plan: &'a Plan,
    /// Number of steps in the original plan.
    pub from: usize,
    /// Number of runs so far.
    pub runs: u64,
}

/// A failing run after shrinking.
#[derive(Debug)]
pub struct Shrunk {
    /// The smallest failing plan found.
    pub plan: Plan,
    /// The expectations of that plan, besides the properties.
    pub expect: Expect,
    /// The violations in its run. The violation it was shrunk for comes first.
    pub broken: Vec<Violation>,
    /// The judged run of the plan.
    pub judged: Judged,
    /// Number of steps in the original plan.
    pub from: usize,
    /// Number of runs that shrinking took.
    pub runs: u64,
}

impl Shrunk {
    /// Returns whether the violation is visible only with a control run.
    pub fn has_control(&self) -> bool {
        self.judged.control.is_some()
    }

    /// Returns the scenario file to save.
    pub fn scenario(&self, title: impl Into<String>) -> ScenarioFile {
        ScenarioFile {
            expect: self.expect.clone(),
            ..ScenarioFile::of_plan(self.plan.clone(), title)
        }
    }
}

/// The reason why a run cannot be shrunk.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotShrunk {
    /// The run is not deterministic.
    #[error("{0} cannot be shrunk: the run is not the same when it is repeated")]
    NotTheSame(&'static str),
    /// The reported violation does not occur.
    #[error("{0} did not break when the run was repeated")]
    Held(&'static str),
    /// The plan cannot be written to a file.
    #[error("the plan cannot be written to a file: {0}")]
    Unwritable(String),
    /// The run could not be carried out.
    #[error("{0}")]
    Run(#[from] RunError),
    /// The run did not finish.
    #[error("{0}")]
    Lost(#[from] MissingResult),
}

/// Returns the violation that shrinking should preserve. Prefers a property to an unmet
/// expectation. Among the violations of the same property, prefers the stream with the shortest
/// name, which the fewest steps lead to.
pub fn main_problem(broken: &[Violation]) -> Option<&Violation> {
    let main = broken.iter().find(|broken| broken.property != EXPECT).or(broken.first())?;
    let of_property = broken.iter().filter(|broken| broken.property == main.property);
    of_property.min_by_key(|broken| broken.stream().map(|stream| (stream.0.len(), stream.clone())))
}

/// Shrinks a run while it keeps the given violation. Calls `progress` after each run. If `progress`
/// returns `Break`, the best plan so far is the result.
///
/// # Errors
/// If the failure cannot be reproduced or the plan cannot be shrunk.
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
    let drawn = draw::samples(&Profile::of_schemas(&*subject), &*subject);
    let ranges = Ranges::of(&drawn, &plan);
    let mut shrinker = Shrinker::new(plan, seen(&judged.history), fits(&subject, ranges));
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
            // A run that got stuck or could not be carried out is a different failure.
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
            // The worker blocks on this channel for the next plan; close it so that the worker
            // ends.
            propose = None;
            ControlFlow::Break(())
        },
    );
    let mut broken = judged.broken.clone();
    broken.sort_by_key(|broken| !target.is(broken));
    Ok(Shrunk { plan: shrinker.best().clone(), expect, broken, judged, from, runs })
}

/// Reproduces the failure. Uses a control run only if the violation does not appear without one.
fn first(case: JudgedRun<'_>, target: &Target, pool: &Pool) -> Result<(Judged, bool), NotShrunk> {
    let (subject, plan, expect) = (case.subject.clone(), case.plan.clone(), case.expect.clone());
    let work = move |control| {
        judge(
            JudgedRun { subject: &subject, plan: &plan, expect: &expect },
            &Options::default(),
            |_| control,
        )
    };
    let (mut with_control, mut found) =
        ([false, true].into_iter(), Err(NotShrunk::Held(target.broken.property)));
    pool.alone().run(
        with_control.clone(),
        work,
        |result: Result<Result<Judged, RunError>, MissingResult>| {
            let control = with_control.next().unwrap_or(true);
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

/// The violation that a smaller plan must keep.
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

    /// Returns whether the violation is an unmet expectation of the file rather than a property.
    fn is_expected(&self) -> bool {
        self.broken.property == EXPECT
    }

    fn is_in(&self, broken: &[Violation]) -> bool {
        broken.iter().any(|broken| self.is(broken))
    }

    /// Returns whether a violation has the same property and the same stream as the target, whatever
    /// the numbers in the name of the stream. All unmet expectations share one property name, so they must also concern the same thing and
    /// fail in the same way.
    fn is(&self, broken: &Violation) -> bool {
        let same = broken.property == self.broken.property
            && is_like(broken.stream(), self.broken.stream());
        same && (!self.is_expected() || broken.is_like(&self.broken))
    }
}

/// Returns whether two streams have the same name, whatever the numbers in it.
fn is_like(one: Option<&Stream>, other: Option<&Stream>) -> bool {
    fn words(stream: &Stream) -> impl Iterator<Item = &str> {
        stream.0.split(|char: char| char.is_ascii_digit()).filter(|word| !word.is_empty())
    }
    match (one, other) {
        (Some(one), Some(other)) => words(one).eq(words(other)),
        (one, other) => one.is_none() && other.is_none(),
    }
}

/// Extracts the observations of a run that the shrinker uses.
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

/// Accepts a plan only if a scenario file can express it and its operations are in the range of
/// those in the plans of the default profile.
fn fits(subject: &Arc<dyn DynSubject>, ranges: Ranges) -> Fits {
    let subject = subject.clone();
    Arc::new(move |plan| {
        ranges.contain(plan) && written(plan, &subject).is_ok_and(|read| read == *plan)
    })
}

/// Returns the plan after it is written to a file and read back.
fn written(plan: &Plan, subject: &Arc<dyn DynSubject>) -> Result<Plan, String> {
    let file = ScenarioFile::of_plan(plan.clone(), "shrunk").to_toml();
    let read = ScenarioFile::parse(&file, "-", std::slice::from_ref(subject))
        .map_err(|mistake| mistake.to_string())?;
    read.plans().into_iter().next().ok_or_else(|| "it has no run".into())
}

#[cfg(test)]
mod tests;
