//! `diff`: where two runs part.

use std::path::Path;
use std::sync::Arc;

use crate::history::History;
use crate::report::parting::{Side, tell};
use crate::schedule::Plan;
use crate::subject::Erased;
use crate::world::{self, Detail, Options};

use super::args::Diff;
use super::files;
use super::page::{Page, Stop};

/// Runs two files, and shows the first entry that is not the same in both.
pub fn diff(args: &Diff, subjects: &[Arc<dyn Erased>], page: &mut Page<'_>) -> Result<bool, Stop> {
    let a = one(&args.a, args, subjects, page)?;
    let b = one(&args.b, args, subjects, page)?;
    let names = [&args.a, &args.b].map(|path| path.display().to_string());
    let side = |name, (plan, history)| Side { name, plan, history };
    let told = tell(side(&names[0], (&a.0, &a.1)), side(&names[1], (&b.0, &b.1)), page.width);
    page.say(&told)?;
    Ok(true)
}

fn one(path: &Path, args: &Diff, subjects: &[Arc<dyn Erased>], page: &mut Page<'_>) -> Result<(Plan, History), Stop> {
    let scenario = files::load(path, subjects, page)?;
    let subject = files::subject(&scenario, subjects)?;
    let plan = args.select.plan(&scenario, subject)?;
    let history = world::run(subject, &plan, &Options { detail: Detail::Full, ..Options::default() })?.history;
    Ok((plan, history))
}
