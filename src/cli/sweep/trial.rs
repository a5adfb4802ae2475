//! One run of a sweep, by its number on the map: prints its full story.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::hunt::{Checks, JudgedRun, SweepProgress, judge, sweep};
use crate::report::picture::html;
use crate::report::{Picture, RenderOptions, position, story};
use crate::scenario::Expect;
use crate::schedule::Plan;
use crate::subject::DynSubject;
use crate::world::{Detail, Options};

use super::super::args::SweepArgs;
use super::super::outputs::OutputFile;
use super::super::page::{Page, UserError};

/// Prints the story, and draws the picture if the user named a file. Returns whether the run held.
pub(super) fn summarize(
    args: &SweepArgs,
    number: u64,
    (subject, plan): (&Arc<dyn DynSubject>, &Plan),
    output: Option<OutputFile>,
    page: &mut Page<'_>,
) -> Result<bool, UserError> {
    // The run without a fault is enough to list all trials.
    let swept =
        sweep(subject, plan, &Checks::default(), &args.pool.pool(), |_, _| ControlFlow::Break(()))?;
    let trial = usize::try_from(number - 1).ok().and_then(|number| swept.trials.get(number));
    let trial = trial.ok_or_else(|| no_such_trial(number, &swept))?;
    let plan = swept.plan_of(trial);
    let case = JudgedRun { subject, plan: &plan, expect: &Expect::default() };
    let judged = judge(case, &Options { detail: Detail::Full, ..Options::default() }, |_| true)?;
    page.print(&format!("{}\n", position::trial(&swept, trial)))?;
    let options = RenderOptions::default();
    page.print(&story::run(&plan, &judged.history, &judged.broken, options, page.width))?;
    if let (Some(output), Some(path)) = (output, &args.html) {
        let replay = &format!(
            "{} --trial {number}",
            args.select.command(&page.program, "sweep", &args.file)
        );
        output.write(&html(&Picture {
            plan: &plan,
            history: &judged.history,
            broken: &judged.broken,
            replay,
        }))?;
        page.print(&format!("\n  picture  {}\n", path.display()))?;
    }
    Ok(judged.broken.is_empty())
}

fn no_such_trial(number: u64, swept: &SweepProgress) -> UserError {
    let why = match (swept.trials.len(), swept.broke) {
        (0, 0) => "no position is suitable for a fault".to_owned(),
        (0, _) => "a property is violated without an added fault, so nothing is swept".to_owned(),
        (last, _) => format!("they are numbered from 1 to {last}"),
    };
    UserError(format!("--trial {number}: no such trial; {why}"))
}
