//! `defects`: the kill matrix of a subject.

use std::sync::Arc;

use crate::hunt::Checks;
use crate::hunt::matrix::{Kill, kill};
use crate::hunt::seed::DEFAULT;
use crate::report::say;
use crate::subject::Erased;

use super::args::{Changes, Defects};
use super::page::{Page, Stop};
use super::{files, hunt, select};

/// Hunts each defect, or those that were named; whether all were found.
pub fn defects(args: &Defects, subjects: &[Arc<dyn Erased>], page: &mut Page<'_>) -> Result<bool, Stop> {
    let subject = files::named(&args.subject, subjects)?;
    args.defect.iter().try_for_each(|name| select::defect(name, subject))?;
    let name = args.profile.as_ref().map_or(DEFAULT.to_owned(), |path| path.display().to_string());
    let ground = hunt::ground(subject, &name, &Changes::default(), subjects)?;
    let wanted = subject.defects().iter().map(|defect| defect.name);
    let wanted: Vec<_> = wanted.filter(|name| args.defect.is_empty() || args.defect.iter().any(|named| named == name)).collect();
    let wide = wanted.iter().map(|name| name.len()).max().unwrap_or(0).max("defect".len());
    page.say(&format!("{:wide$}  {:>9}  {:>5}  {:>5}  property\n", "defect", "schedules", "drawn", "steps"))?;
    let mut kills = Vec::new();
    for (n, defect) in wanted.iter().enumerate() {
        page.progress(&format!("{}/{}  {defect}", n + 1, wanted.len()));
        let kill = kill(&ground, defect, args.runs, &Checks::default(), &args.pool.pool())?;
        page.no_progress();
        page.say(&row(&kill, wide))?;
        kills.push(kill);
    }
    page.say(&format!("\n{}\n", summary(&kills)))?;
    Ok(kills.iter().all(|kill| kill.found.is_some()))
}

fn row(kill: &Kill, wide: usize) -> String {
    let Kill { defect, schedules, found } = kill;
    let (drawn, steps, property) = match found {
        None => ("-".to_owned(), "-".to_owned(), "not found"),
        Some(found) => {
            let steps = found.steps.map_or("-".to_owned(), |steps| steps.to_string());
            (found.drawn.to_string(), steps, found.property)
        }
    };
    format!("{defect:wide$}  {schedules:>9}  {drawn:>5}  {steps:>5}  {property}\n")
}

fn summary(kills: &[Kill]) -> String {
    let found: Vec<_> = kills.iter().filter_map(|kill| kill.found.as_ref().map(|found| (kill.schedules, found))).collect();
    let soon = found.iter().filter(|(schedules, _)| *schedules <= 100).count();
    let mut steps: Vec<_> = found.iter().filter_map(|(_, found)| found.steps).collect();
    steps.sort_unstable();
    let of = |at: usize| steps.get(at).map_or("none".to_owned(), |steps| say::count(*steps as u64, "step"));
    format!(
        "{} of {} found, {soon} of them within 100 schedules; made small: median {}, at most {}",
        found.len(),
        say::count(kills.len() as u64, "defect"),
        of(steps.len() / 2),
        of(steps.len().saturating_sub(1))
    )
}
