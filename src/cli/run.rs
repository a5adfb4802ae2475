//! `run`: runs scenario files and prints a table, and a story for each failure.

use std::sync::Arc;
use std::time::Instant;

use crate::hunt::{self, Check, Checks, HuntError, ScenarioTally};
use crate::hunt::{RunTotals, ScenarioVerdict};
use crate::property::Violation;
use crate::report::table::Table;
use crate::report::{TableRow, json};
use crate::scenario::{ScenarioFile, Snapshot};
use crate::subject::DynSubject;
use crate::world::{Engine, RunError};

use super::args::{Format, Run};
use super::ci::Ci;
use super::files::{self, FoundFile};
use super::page::{Page, UserError};
use super::results;

/// A scenario to run.
struct Job {
    found: FoundFile,
    scenario: ScenarioFile,
    subject: Arc<dyn DynSubject>,
    /// The number of its plans. They are made when the scenario runs: those of all files need too much memory.
    count: u64,
}

/// A scenario that was run or could not be run.
pub(super) struct ScenarioRun {
    pub found: FoundFile,
    pub scenario: ScenarioFile,
    pub subject: Arc<dyn DynSubject>,
    pub tally: ScenarioTally,
    pub row: TableRow,
}

/// Runs scenario files. Returns whether all of them passed.
#[allow(clippy::disallowed_methods)] // the elapsed real time is part of the output
pub fn run(
    args: &Run,
    subjects: &[Arc<dyn DynSubject>],
    page: &mut Page<'_>,
) -> Result<bool, UserError> {
    let (started, ci) = (Instant::now(), Ci::open(args.junit.as_ref(), page)?);
    let jobs = files::find(&args.files)?.into_iter().map(|found| job(found, args, subjects, page));
    let jobs = jobs.collect::<Result<Vec<_>, _>>()?;
    page.progress.begin(Some(jobs.iter().map(|job| job.count).sum()));
    let table = Table::new(jobs.iter().map(|job| job.scenario.path.to_str().unwrap_or_default()));
    let (mut ran, mut before, mut broke) = (Vec::<ScenarioRun>::new(), 0, 0);
    for job in jobs {
        let (of, file) = (job.count, job.found.path.display());
        let doing = if broke == 0 { file.to_string() } else { format!("{broke} broke  {file}") };
        let mut done = carry_out(job, args, (before, &doing), page)?;
        if args.update_snapshots {
            update_snapshot(&mut done)?;
        }
        before += of;
        broke += u64::from(done.row.verdict.is_bad());
        ran.push(done);
        match args.format {
            Format::Json => {
                let Some(ScenarioRun { row, subject, tally, .. }) = ran.last() else { continue };
                page.print(&json::scenario(row, subject.name(), &failures(tally)).text())?;
            }
            Format::Text => page.print(&rows(&table, &ran))?,
        }
    }
    page.no_progress();
    let cannot = cannot_run(&ran);
    if !ran.iter().all(ScenarioRun::is_not_run) {
        let totals = RunTotals { wall: started.elapsed(), ..totals(&ran, args) };
        let is_text = args.format == Format::Text;
        let stories = if is_text || ci.listens(page) {
            results::stories(&ran, args, page)
        } else {
            Vec::new()
        };
        match args.format {
            Format::Json => page.print(&json::totals(&totals).text())?,
            Format::Text => results::summarize(&ran, &totals, &stories, page)?,
        }
        ci.summarize(&results::ci_report(&ran, &totals, &stories, args, page), page)?;
    }
    cannot.map_or_else(|| Ok(!ran.iter().any(|ran| ran.row.verdict.is_bad())), Err)
}

/// Writes the snapshot of a scenario that held.
fn update_snapshot(done: &mut ScenarioRun) -> Result<(), UserError> {
    let may_change =
        matches!(done.row.verdict, ScenarioVerdict::Held | ScenarioVerdict::Changed(_));
    let Some(snapshot) = done.tally.snapshot.as_ref().filter(|_| may_change) else { return Ok(()) };
    let path = Snapshot::path(&done.scenario.path);
    let written = path
        .parent()
        .map_or(Ok(()), std::fs::create_dir_all)
        .and_then(|()| std::fs::write(&path, snapshot.to_text()));
    written.map_err(|error| {
        UserError(format!("{}: the snapshot cannot be written: {error}", path.display()))
    })?;
    done.row.verdict = ScenarioVerdict::Held;
    done.tally.changed = None;
    Ok(())
}

/// Returns the lines of the table for the last scenario. Scenarios that could not be run are shown
/// once another one ran: if none can, an error is all that the command prints.
fn rows(table: &Table, ran: &[ScenarioRun]) -> String {
    let Some((last, before)) = ran.split_last() else { return String::new() };
    let shown = before.iter().any(|ran| !ran.is_not_run());
    match (shown, last.is_not_run()) {
        (true, _) => table.row(&last.row),
        (false, true) => String::new(),
        (false, false) => {
            table.head() + &ran.iter().map(|ran| table.row(&ran.row)).collect::<String>()
        }
    }
}

fn job(
    found: FoundFile,
    args: &Run,
    subjects: &[Arc<dyn DynSubject>],
    page: &mut Page<'_>,
) -> Result<Job, UserError> {
    let scenario = files::load(&found.path, subjects, page)?;
    let subject = files::subject(&scenario, subjects)?.clone();
    let count = args.select.count(&scenario, &subject, args.seeds)?;
    Ok(Job { found, scenario, subject, count })
}

/// Executes all runs of a scenario. A plan that the engine does not support is an error only for a
/// file that the user named; other files are skipped.
fn carry_out(
    job: Job,
    args: &Run,
    (before, doing): (u64, &str),
    page: &mut Page<'_>,
) -> Result<ScenarioRun, UserError> {
    let Job { found, scenario, subject, count: of } = job;
    if let Some(why) = scenario.not_on(args.engine_option.0) {
        let engine = if args.engine_option.0.is_like(Engine::TURMOIL) {
            "turmoil"
        } else {
            "the event engine"
        };
        let verdict = ScenarioVerdict::NotRun(format!("not on {engine}: {why}"));
        let tally = ScenarioTally::default();
        let row = row(&scenario, &subject, &tally, verdict);
        return Ok(ScenarioRun { found, scenario, subject, tally, row });
    }
    let plans = args.select.plans(&scenario, &subject, args.seeds)?;
    let fresh = page.fresh.clone().filter(|_| scenario.expect.breaks.is_none());
    let progress = |done: u64| {
        if done.is_multiple_of((of / 100).max(1)) {
            page.progress.at(before + done, doing.to_owned());
        }
    };
    let (tally, verdict) = match hunt::tally(
        &subject,
        &scenario,
        plans,
        &checks(args, fresh),
        &args.pool.pool(),
        progress,
    ) {
        Ok(tally) => {
            let verdict = tally.verdict(scenario.expect.breaks.as_deref());
            (tally, verdict)
        }
        Err(HuntError::Run(RunError::Unsupported(why))) => {
            (ScenarioTally::default(), ScenarioVerdict::NotRun(format!("not on turmoil: {why}")))
        }
        Err(error) => return Err(error.into()),
    };
    let row = row(&scenario, &subject, &tally, verdict);
    Ok(ScenarioRun { found, scenario, subject, tally, row })
}

/// Returns why the command failed: the user named a file that cannot run here, or no file can run.
fn cannot_run(ran: &[ScenarioRun]) -> Option<UserError> {
    let not_run = |ran: &&ScenarioRun| ran.is_not_run();
    let named = ran.iter().filter(not_run).find(|ran| ran.found.named);
    let none = ran.iter().all(ScenarioRun::is_not_run).then(|| ran.first()).flatten();
    let ScenarioRun { row, .. } = named.or(none)?;
    let ScenarioVerdict::NotRun(why) = &row.verdict else { return None };
    Some(UserError(format!("{}: {why}", row.scenario)))
}

impl ScenarioRun {
    fn is_not_run(&self) -> bool {
        matches!(self.row.verdict, ScenarioVerdict::NotRun(_))
    }
}

fn checks(args: &Run, fresh: Option<hunt::FreshProcess>) -> Checks {
    let check = if args.check { Check::All } else { Check::Share };
    Checks { check, engine: args.engine_option.0, fresh }
}

fn row(
    scenario: &ScenarioFile,
    subject: &Arc<dyn DynSubject>,
    tally: &ScenarioTally,
    verdict: ScenarioVerdict,
) -> TableRow {
    let milestones = subject.milestones().iter().filter(|milestone| milestone.only.is_none());
    TableRow {
        scenario: scenario.path.display().to_string(),
        runs: tally.runs,
        virtual_time: tally.virtual_time,
        digest: tally.digest,
        reached: milestones
            .clone()
            .filter(|milestone| tally.milestones.contains_key(milestone.name))
            .count(),
        milestones: milestones.count(),
        verdict,
    }
}

fn failures(tally: &ScenarioTally) -> Vec<(u64, &[Violation])> {
    tally.failed.iter().map(|failed| (failed.plan.seed, failed.broken.as_slice())).collect()
}

/// Returns the totals of all scenarios. Reached milestones and points are counted per subject.
/// Unreached ones are informative only for a folder of scenarios; for a single file they are listed
/// only on request or in JSON.
fn totals(ran: &[ScenarioRun], args: &Run) -> RunTotals {
    let mut all = ScenarioTally::default();
    ran.iter().for_each(|ran| all.absorb(&ran.tally));
    let asked = args.unreached || args.format == Format::Json;
    let listed = ran.iter().filter(|ran| asked || !ran.found.named).map(|ran| &ran.subject);
    let mut unreached: Vec<_> = listed.flat_map(|subject| all.unreached(subject)).collect();
    unreached.sort();
    unreached.dedup();
    all.totals(&unreached)
}
