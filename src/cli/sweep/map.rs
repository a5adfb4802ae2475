//! The map of a sweep, with stories of the violations and of one run per fault without a violation.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::frontend::plain;
use crate::hunt::sweep::{FAULTS, FaultOutcome};
use crate::hunt::{Judged, JudgedRun, Pool, SweepProgress, judge};
use crate::report::line::set;
use crate::report::map::{Map, html};
use crate::report::rendering::short;
use crate::report::sentence;
use crate::scenario::Expect;
use crate::schedule::Plan;
use crate::subject::DynSubject;
use crate::world::{Options, RunError};

/// The maximum number of failing runs with a story on the map. Each story has some thousand
/// characters.
const BROKEN: usize = 24;

/// The width of a story on the map, in characters.
const WIDTH: usize = 130;

/// Draws the map. The runs with a story are made again.
pub(super) fn draw(
    swept: &SweepProgress,
    subject: &Arc<dyn DynSubject>,
    title: &str,
    again: &str,
) -> String {
    let numbers = trials_with_story(swept);
    let plans: Vec<_> =
        numbers.iter().map(|number| swept.plan_of(&swept.trials[*number])).collect();
    let stories = numbers.into_iter().zip(stories(plans, subject));
    let stories: BTreeMap<_, _> =
        stories.filter_map(|(number, story)| Some((number, story?))).collect();
    html(&Map { swept, title, again, stories: &stories })
}

/// Returns the trials that have a story.
fn trials_with_story(swept: &SweepProgress) -> Vec<usize> {
    let of = |outcome| move |number: &usize| swept.trials[*number].outcome == Some(outcome);
    let all = 0..swept.trials.len();
    let mut numbers: Vec<_> = all.clone().filter(of(FaultOutcome::Broken)).take(BROKEN).collect();
    for outcome in [FaultOutcome::Failed, FaultOutcome::Recovered] {
        let of_fault = FAULTS.iter().map(|fault| {
            let mut these = all
                .clone()
                .filter(of(outcome))
                .filter(|number| swept.trials[*number].fault.name == fault.name);
            these.next()
        });
        numbers.extend(of_fault.flatten());
    }
    numbers
}

/// Returns the stories of these plans; `None` for a run that got stuck.
fn stories(plans: Vec<Plan>, subject: &Arc<dyn DynSubject>) -> Vec<Option<String>> {
    let (subject, mut stories) = (subject.clone(), Vec::new());
    let work = move |plan: Plan| {
        let case = JudgedRun { subject: &subject, plan: &plan, expect: &Expect::default() };
        let Judged { history, broken, .. } = judge(case, &Options::default(), |_| true)?;
        let sentences: String = broken
            .iter()
            .take(3)
            .map(|broken| format!("{}: {}\n", broken.property, sentence(broken)))
            .collect();
        Ok(plain(&format!("{sentences}{}", set(&short(&plan, &history, &broken), WIDTH))))
    };
    Pool::default().run(plans.into_iter(), work, |story: Result<Result<_, RunError>, _>| {
        stories.push(story.ok().and_then(Result::ok));
        ControlFlow::Continue(())
    });
    stories
}
