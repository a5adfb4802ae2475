//! `run`: scenario files, all their runs, a table, and the story of what broke.

use std::sync::Arc;
use std::time::Instant;

use crate::hunt::{self, Check, Checks, Failed, Pool, Tally};
use crate::property::Broken;
use crate::report::line::wrap;
use crate::report::{Failure, Row, Totals, json, say, story, table};
use crate::scenario::Scenario;
use crate::subject::Erased;

use super::args::{Format, Run};
use super::files;
use super::page::{Page, Stop};
use super::select::replay_command;

/// A scenario that was run.
struct Ran {
    scenario: Scenario,
    subject: Arc<dyn Erased>,
    tally: Tally,
    row: Row,
}

/// Runs scenario files; whether all is as it should be.
#[allow(clippy::disallowed_methods)] // a person wants to know how long it took
pub fn run(args: &Run, subjects: &[Arc<dyn Erased>], page: &mut Page<'_>) -> Result<bool, Stop> {
    let started = Instant::now();
    let mut all = Vec::new();
    for path in files::find(&args.files)? {
        let scenario = files::load(&path, subjects, page)?;
        let subject = files::subject(&scenario, subjects)?.clone();
        let plans = args.select.plans(&scenario, &subject, args.seeds)?;
        all.push((scenario, subject, plans));
    }
    let (mut ran, count) = (Vec::new(), all.len());
    for (n, (scenario, subject, plans)) in all.into_iter().enumerate() {
        let doing = format!("{}/{count}  {}", n + 1, scenario.path.display());
        let of = plans.len() as u64;
        let breaks = scenario.expect.breaks.as_deref();
        let fresh = page.fresh.clone().filter(|_| breaks.is_none());
        let progress = |done: u64| {
            if done.is_multiple_of((of / 100).max(1)) {
                page.progress(&format!("{doing}  {done}/{of}"));
            }
        };
        let tally = hunt::tally(&subject, &scenario, plans, &checks(args, fresh), &pool(args), progress)?;
        let row = row(&scenario, &subject, &tally);
        let done = Ran { scenario, subject, tally, row };
        if args.format == Format::Json {
            page.no_progress();
            page.say(&format!("{}\n", json::row(&done.row, done.subject.name(), &failures(&done.tally))))?;
        }
        ran.push(done);
    }
    page.no_progress();
    let totals = Totals { wall: started.elapsed(), ..totals(&ran) };
    match args.format {
        Format::Json => page.say(&format!("{}\n", json::totals(&totals)))?,
        Format::Text => tell(&ran, &totals, args, page)?,
    }
    Ok(ran.iter().all(|ran| ran.row.verdict.is_good()))
}

fn checks(args: &Run, fresh: Option<hunt::Fresh>) -> Checks {
    let check = if args.check { Check::All } else { Check::Share };
    Checks { check, engine: args.engine.into(), fresh }
}

/// More threads than this are nobody's wish.
const MOST_JOBS: u64 = 1024;

fn pool(args: &Run) -> Pool {
    let pool = Pool::default();
    Pool { jobs: args.jobs.map_or(pool.jobs, |jobs| jobs.min(MOST_JOBS) as usize), ..pool }
}

fn row(scenario: &Scenario, subject: &Arc<dyn Erased>, tally: &Tally) -> Row {
    let milestones = subject.milestones().iter().filter(|milestone| milestone.only.is_none());
    Row {
        scenario: scenario.path.display().to_string(),
        runs: tally.runs,
        virtual_time: tally.virtual_time,
        reached: milestones.clone().filter(|milestone| tally.milestones.contains_key(milestone.name)).count(),
        milestones: milestones.count(),
        verdict: tally.verdict(scenario.expect.breaks.as_deref()),
    }
}

fn failures(tally: &Tally) -> Vec<(u64, &[Broken])> {
    tally.failed.iter().map(|failed| (failed.plan.seed, failed.broken.as_slice())).collect()
}

/// What all scenarios come to; what is reached is counted by subject.
fn totals(ran: &[Ran]) -> Totals {
    let mut all = Tally::default();
    ran.iter().for_each(|ran| all.absorb(&ran.tally));
    let mut subjects: Vec<_> = ran.iter().map(|ran| &ran.subject).collect();
    subjects.dedup_by_key(|subject| subject.name());
    let mut unreached: Vec<_> = subjects.into_iter().flat_map(|subject| all.unreached(subject)).map(str::to_owned).collect();
    unreached.sort();
    unreached.dedup();
    Totals {
        schedules: all.runs,
        virtual_time: all.virtual_time,
        repeated: all.repeated,
        grey: all.grey,
        unreached,
        ..Totals::default()
    }
}

fn tell(ran: &[Ran], totals: &Totals, args: &Run, page: &mut Page<'_>) -> Result<(), Stop> {
    let rows: Vec<_> = ran.iter().map(|ran| ran.row.clone()).collect();
    page.say(&table::rows(&rows))?;
    let totals: String = table::totals(totals).lines().flat_map(|line| wrap(line, page.width)).map(|line| line + "\n").collect();
    page.say(&format!("\n{totals}"))?;
    for ran in ran.iter().filter(|ran| !ran.row.verdict.is_good()) {
        page.say(&format!("\n{}", failure(ran, args, page)))?;
    }
    Ok(())
}

/// The story of the first run of a scenario that broke, and which others did.
fn failure(ran: &Ran, args: &Run, page: &Page<'_>) -> String {
    let Ran { scenario, tally, .. } = ran;
    let mut told = match tally.failed.first().filter(|_| scenario.expect.breaks.is_none()) {
        None => format!("{}\n", scenario.path.display()),
        Some(failed) => {
            let replay = replay_command(&page.program, scenario, &failed.plan, args.engine.into(), &args.select);
            first(failed, &replay, page.width)
        }
    };
    if let Some(property) = scenario.expect.breaks.as_deref().filter(|property| !tally.broke(property)) {
        told += &format!("  {property} held in all runs, and must break: the alarm does not ring\n");
    }
    tally.unmet.iter().for_each(|unmet| told += &format!("  {unmet}\n"));
    if tally.failed.len() > 1 && scenario.expect.breaks.is_none() {
        told += &others(&tally.failed[1..]);
    }
    told
}

fn first(failed: &Failed, replay: &str, width: usize) -> String {
    let Failed { plan, broken, history } = failed;
    let nothing = crate::history::History::default();
    let history = history.as_ref().unwrap_or(&nothing);
    story::failure(&Failure { plan, history, broken, origin: None, replay }, width)
}

/// The most seeds that are listed.
const SEEDS: usize = 12;

fn others(failed: &[Failed]) -> String {
    let seeds: Vec<_> = failed.iter().take(SEEDS).map(|failed| failed.plan.seed.to_string()).collect();
    let more = if failed.len() > SEEDS { ", …" } else { "" };
    format!("  {} broke, too: seed {}{more}\n", say::count(failed.len() as u64, "other run"), seeds.join(", "))
}
