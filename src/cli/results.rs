//! What a person reads of scenarios that were run.

use crate::history::History;
use crate::hunt::Failed;
use crate::report::line::wrap;
use crate::report::{Failure, Totals, say, story, table};

use super::args::Run;
use super::page::{Page, Stop};
use super::picture::{self, Drawn};
use super::run::Ran;
use super::select::replay_command;

/// Tells a person: the table, the totals, and a story of each scenario that is not as it should be.
pub(super) fn tell(ran: &[Ran], totals: &Totals, args: &Run, page: &mut Page<'_>) -> Result<(), Stop> {
    let rows: Vec<_> = ran.iter().map(|ran| ran.row.clone()).collect();
    page.say(&table::rows(&rows))?;
    let totals: String = table::totals(totals).lines().flat_map(|line| wrap(line, page.width)).map(|line| line + "\n").collect();
    page.say(&format!("\n{totals}"))?;
    for ran in ran.iter().filter(|ran| ran.row.verdict.is_bad()) {
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
            first(ran, failed, &replay, args, page)
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

fn first(ran: &Ran, failed: &Failed, replay: &str, args: &Run, page: &Page<'_>) -> String {
    let Failed { plan, broken, history } = failed;
    let nothing = History::default();
    // A run that got stuck has no record, and would get stuck again.
    let folder = page.pictures.as_deref().filter(|_| history.is_some());
    let drawn = Drawn { subject: &ran.subject, plan, broken, engine: args.engine.into(), replay };
    let picture = folder.map(|folder| drawn.told(&picture::file(folder, plan, broken, &ran.scenario.path)));
    let history = history.as_ref().unwrap_or(&nothing);
    story::failure(&Failure { plan, history, broken, origin: None, replay, picture: picture.as_deref() }, page.width)
}

/// The most seeds that are listed.
const SEEDS: usize = 12;

fn others(failed: &[Failed]) -> String {
    let seeds: Vec<_> = failed.iter().take(SEEDS).map(|failed| failed.plan.seed.to_string()).collect();
    let more = if failed.len() > SEEDS { ", …" } else { "" };
    format!("  {} broke, too: seed {}{more}\n", say::count(failed.len() as u64, "other run"), seeds.join(", "))
}
