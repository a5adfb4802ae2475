//! `sweep`: every position of one schedule, and every fault that makes sense there; what broke is kept and told.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use crate::hunt::sweep::Caught;
use crate::hunt::{Checks, Swept, sweep as run};
use crate::schedule::Plan;
use crate::subject::Erased;

use super::args::{Format, Sweep};
use super::ci::Ci;
use super::files;
use super::finds::Finds;
use super::interrupt::Interrupted;
use super::page::{Page, Stop};

mod summary;

/// Sweeps a file; whether nothing broke.
#[allow(clippy::disallowed_methods)] // a person wants to know how long it took
pub fn sweep(args: &Sweep, subjects: &[Arc<dyn Erased>], page: &mut Page<'_>) -> Result<bool, Stop> {
    let (subject, plan) = wanted(args, subjects, page)?;
    let ci = Ci::open(args.junit.as_ref(), page)?;
    let (started, fresh) = (Instant::now(), page.fresh.clone());
    let interrupted = if page.live { Interrupted::listen() } else { Interrupted::default() };
    let mut finds = Finds::new(&subject, &plan.defects, interrupted.clone(), args.pool.pool(), args.format);
    let mut stopped = Ok(());
    let each = |swept: &Swept, caught: Option<Caught>| {
        if swept.done.is_multiple_of(16) {
            page.progress(&format!("{}/{} runs, {} broke", swept.done, swept.trials.len(), swept.broke));
        }
        stopped = caught.map_or(Ok(()), |caught| {
            let origin = origin(&args.file, swept, caught.trial);
            finds.look_at(caught.failed, &origin, page)
        });
        if stopped.is_err() || interrupted.is_set() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let swept = run(&subject, &plan, &Checks { fresh, ..Checks::default() }, &args.pool.pool(), each);
    page.no_progress();
    stopped?;
    let swept = swept?;
    let (wall, file) = (started.elapsed(), args.file.display());
    let told = summary::tell(&swept, &subject, wall, page.width) + &finds.summary(swept.broke, "run");
    match args.format {
        Format::Json => page.say(&summary::lines(&swept, &finds, &subject, args, wall))?,
        Format::Text if args.positions => page.say(&format!("{}\n{told}", summary::positions(&swept)))?,
        Format::Text => page.say(&told)?,
    }
    ci.tell(&finds.account(format!("{} sweep {file}", page.program), &file.to_string(), &told, wall), page)?;
    Ok(swept.broke == 0)
}

/// The subject, and the one plan of the file that is swept.
fn wanted(args: &Sweep, subjects: &[Arc<dyn Erased>], page: &mut Page<'_>) -> Result<(Arc<dyn Erased>, Plan), Stop> {
    let scenario = files::load_schedule(&args.file, subjects, page)?;
    let subject = files::subject(&scenario, subjects)?;
    Ok((subject.clone(), args.select.plan(&scenario, subject)?))
}

/// Where the plan of a find comes from.
fn origin(file: &Path, swept: &Swept, trial: Option<usize>) -> String {
    let file = file.display();
    match trial {
        Some(trial) => format!("swept from {file}: {}", swept.name(&swept.trials[trial])),
        None => format!("{file} without any more fault"),
    }
}
