//! `sweep`: tries every applicable fault at every position of one schedule; saves and reports
//! violations.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use crate::hunt::sweep::FailedTrial;
use crate::hunt::{Checks, SweepProgress, sweep as run};
use crate::report::position;
use crate::scenario::ScenarioFile;
use crate::schedule::Plan;
use crate::subject::DynSubject;

use super::args::{Format, SweepArgs};
use super::ci::Ci;
use super::files;
use super::findings::Findings;
use super::outputs::OutputFile;
use super::page::{Page, UserError};

mod map;
mod summary;
#[cfg(test)]
mod tests;
mod trial;

/// Sweeps a file. Returns whether it found no violation.
#[allow(clippy::disallowed_methods)] // the elapsed real time is part of the output
pub fn sweep(
    args: &SweepArgs,
    subjects: &[Arc<dyn DynSubject>],
    page: &mut Page<'_>,
) -> Result<bool, UserError> {
    let (scenario, subject, plan) = load_input(args, subjects, page)?;
    let output = OutputFile::if_requested(args.html.as_ref(), "--html")?;
    if let Some(number) = args.trial {
        return trial::summarize(args, number, (&subject, &plan), output, page);
    }
    let ci = Ci::open(args.junit.as_ref(), page)?;
    let (started, fresh) = (Instant::now(), page.fresh.clone());
    let interrupted = page.interrupted();
    let mut findings = Findings::new(
        &subject,
        page.findings_folder(&plan.defects),
        "trials",
        interrupted.clone(),
        args.pool.pool(),
        args.format,
    );
    let mut stopped = Ok(());
    let each = |swept: &SweepProgress, failed_trial: Option<FailedTrial>| {
        if swept.done == 0 {
            page.progress.begin(Some(swept.trials.len() as u64));
        }
        if swept.done.is_multiple_of(16) {
            page.progress.at(swept.done as u64, format!("{} broke", swept.broke));
        }
        stopped = failed_trial.map_or(Ok(()), |failed_trial| {
            let origin = origin(&args.file, swept, failed_trial.trial);
            let number = failed_trial.trial.map_or(0, |trial| trial as u64 + 1);
            findings.add(failed_trial.failed, number, &origin, page)
        });
        if stopped.is_err() || interrupted.is_set() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let swept =
        run(&subject, &plan, &Checks { fresh, ..Checks::default() }, &args.pool.pool(), each);
    page.no_progress();
    page.unfinished = interrupted.is_set();
    stopped?;
    let swept = swept?;
    let (wall, file) = (started.elapsed(), args.file.display());
    let rendered = summary::summarize(&swept, &subject, wall, page.width)
        + &findings.summary(swept.broke, "run");
    match args.format {
        Format::Json => page.print(&summary::lines(&swept, &findings, &subject, args, wall))?,
        Format::Text if args.positions => {
            page.print(&format!("{}\n{rendered}", summary::positions(&swept)))?
        }
        Format::Text => page.print(&rendered)?,
    }
    if let Some(output) = output {
        let again = args.select.command(&page.program, "sweep", &args.file);
        output.write(&map::draw(&swept, &subject, &scenario.title, &again))?;
        page.print_note(
            &format!("\n  map  {}\n", args.html.as_deref().unwrap_or(Path::new("")).display()),
            args.format,
        )?;
    }
    ci.summarize(
        &findings.ci_report(
            format!("{} sweep {file}", page.program),
            &file.to_string(),
            &rendered,
            wall,
        ),
        page,
    )?;
    Ok(swept.broke == 0)
}

/// The input of a sweep: the file, its subject and its only plan.
type SweepInput = (ScenarioFile, Arc<dyn DynSubject>, Plan);

fn load_input(
    args: &SweepArgs,
    subjects: &[Arc<dyn DynSubject>],
    page: &mut Page<'_>,
) -> Result<SweepInput, UserError> {
    let scenario = files::load_schedule(&args.file, subjects, page)?;
    let subject = files::subject(&scenario, subjects)?;
    let (subject, plan) = (subject.clone(), args.select.plan(&scenario, subject)?);
    Ok((scenario, subject, plan))
}

/// Returns a text that says where the plan of a finding comes from.
fn origin(file: &Path, swept: &SweepProgress, trial: Option<usize>) -> String {
    let file = file.display();
    match trial {
        Some(trial) => {
            format!("swept from {file}: {}", position::trial(swept, &swept.trials[trial]))
        }
        None => format!("{file} without any more fault"),
    }
}
