//! `defects`: the kill matrix of a subject.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::frontend::quoted;
use crate::hunt::Checks;
use crate::hunt::matrix::{DefectKill, is_for_random_schedules, kill, kill_by_sweep};
use crate::hunt::seed::DEFAULT;
use crate::report::matrix::{MatrixRow, MatrixView, html};
use crate::report::{json, phrases};
use crate::schedule::Plan;
use crate::subject::{DefectDoc, DynSubject};

use super::args::{Changes, Defects, Format};
use super::outputs::OutputFile;
use super::page::{Page, UserError};
use super::{files, hunt, select};

/// Hunts each defect that random schedules can find, or only the named ones, and sweeps for it.
/// Returns whether each defect was found by a hunt or by a sweep.
pub fn defects(
    args: &Defects,
    subjects: &[Arc<dyn DynSubject>],
    page: &mut Page<'_>,
) -> Result<bool, UserError> {
    let subject = files::named(&args.subject, subjects)?;
    args.defect.iter().try_for_each(|name| select::defect(name, subject))?;
    let name = args.swarm.as_ref().map_or(DEFAULT.to_owned(), |path| path.display().to_string());
    let target = hunt::target(subject, &name, &Changes::default(), subjects)?;
    let output = OutputFile::if_requested(args.html.as_ref(), "--html")?;
    let plans = plans(args, subject, subjects, page)?;
    let is_wanted = |defect: &&DefectDoc| match args.defect.as_slice() {
        [] => is_for_random_schedules(defect),
        named => named.iter().any(|name| name == defect.name),
    };
    let wanted: Vec<_> = subject.defects().iter().filter(is_wanted).collect();
    let wide = wanted.iter().map(|defect| defect.name.len()).max().unwrap_or(0).max("defect".len());
    let (checks, pool) = (Checks::default(), args.pool.pool());
    let by_sweep = if plans.is_empty() { "" } else { "by sweep" };
    let head = format!(
        "{:wide$}  {:>9}  {:>5}  {:>5}  {:22}  {by_sweep}",
        "defect", "schedules", "drawn", "steps", "property"
    );
    let is_text = args.format == Format::Text;
    page.print(&if is_text { format!("{}\n", head.trim_end()) } else { String::new() })?;
    page.progress.begin(Some(wanted.len() as u64));
    let mut rows: Vec<MatrixRow<'_>> = Vec::new();
    for (n, defect) in wanted.into_iter().enumerate() {
        page.progress.at(n as u64, defect.name.to_owned());
        let kill = kill(&target, defect, args.runs, &checks, &pool)?;
        let swept = match plans.is_empty() {
            true => None,
            false => Some(kill_by_sweep(subject, &plans, defect, &checks, &pool)?),
        };
        let row = MatrixRow { kill, swept, doc: defect.doc };
        page.print(&match args.format {
            Format::Text => format!("{}\n", line(&row, wide).trim_end()),
            Format::Json => json::kill(subject.name(), &row.kill, row.swept).text(),
        })?;
        rows.push(row);
    }
    page.no_progress();
    let missed = rows.iter().filter(|row| !row.is_found()).count();
    page.print(&match args.format {
        Format::Text => format!("\n{}\n", summary(&rows)),
        Format::Json => {
            let (by_chance, by_sweep) = (
                rows.iter().filter(|row| row.kill.found.is_some()),
                rows.iter().filter(|row| row.is_swept()),
            );
            json::matrix(subject.name(), rows.len(), by_chance.count(), by_sweep.count(), missed)
                .text()
        }
    })?;
    if let Some(output) = output {
        let Defects { runs, .. } = *args;
        output.write(&html(&MatrixView {
            subject: subject.name(),
            again: &again(args, &page.program),
            most: runs,
            rows: &rows,
        }))?;
        page.print_note(
            &format!("\n  matrix  {}\n", args.html.as_deref().unwrap_or(Path::new("")).display()),
            args.format,
        )?;
    }
    Ok(missed == 0)
}

/// Returns the command that produces the matrix again.
fn again(args: &Defects, program: &str) -> String {
    let file =
        |option: &str, path: &PathBuf| format!(" {option} {}", quoted(&path.display().to_string()));
    let defects = args.defect.iter().map(|name| format!(" --defect {name}"));
    let (swarm, sweep) = (
        args.swarm.iter().map(|it| file("--swarm", it)),
        args.sweep.iter().map(|it| file("--sweep", it)),
    );
    let more: String = defects.chain(swarm).chain(sweep).collect();
    format!("{program} defects {}{more} --runs {}", args.subject, args.runs)
}

/// Returns the schedules to sweep.
fn plans(
    args: &Defects,
    subject: &Arc<dyn DynSubject>,
    subjects: &[Arc<dyn DynSubject>],
    page: &mut Page<'_>,
) -> Result<Vec<Plan>, UserError> {
    let plan = |path: &PathBuf| {
        let (scenario, file) = (files::load_schedule(path, subjects, page)?, path.display());
        if scenario.subject != subject.name() {
            return Err(UserError(format!(
                "{file}: this schedule is for {}, not for {}",
                scenario.subject,
                subject.name()
            )));
        }
        Ok(scenario.plans().swap_remove(0))
    };
    args.sweep.iter().map(plan).collect()
}

fn line(row: &MatrixRow<'_>, wide: usize) -> String {
    let DefectKill { defect, schedules, found } = &row.kill;
    let (drawn, steps, property) = match found {
        None => ("-".to_owned(), "-".to_owned(), "not found"),
        Some(found) => {
            let steps = found.steps.map_or("-".to_owned(), |steps| steps.to_string());
            (found.drawn.to_string(), steps, found.property)
        }
    };
    let swept = row.swept.map_or(String::new(), |swept| match swept.found {
        Some(property) => format!("{property}, in run {}", swept.runs),
        None => format!("not in {} runs, {} positions", swept.runs, swept.positions),
    });
    format!("{defect:wide$}  {schedules:>9}  {drawn:>5}  {steps:>5}  {property:22}  {swept}")
}

fn summary(rows: &[MatrixRow<'_>]) -> String {
    let kills = rows.iter().map(|row| &row.kill);
    let found: Vec<_> =
        kills.filter_map(|kill| kill.found.as_ref().map(|found| (kill.schedules, found))).collect();
    let soon = found.iter().filter(|(schedules, _)| *schedules <= 100).count();
    let swept = rows.iter().filter(|row| row.is_swept()).count();
    let mut steps: Vec<_> = found.iter().filter_map(|(_, found)| found.steps).collect();
    steps.sort_unstable();
    let of = |at: usize| {
        steps.get(at).map_or("none".to_owned(), |steps| phrases::count(*steps as u64, "step"))
    };
    let by_sweep = if rows.iter().any(|row| row.swept.is_some()) {
        format!("; {swept} found by sweeps")
    } else {
        String::new()
    };
    format!(
        "{} of {} found, {soon} of them within 100 schedules; shrunk: median {}, at most {}{by_sweep}",
        found.len(),
        phrases::count(rows.len() as u64, "defect"),
        of(steps.len() / 2),
        of(steps.len().saturating_sub(1))
    )
}
