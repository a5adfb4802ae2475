//! The text output of `run`.

use std::collections::BTreeSet;

use crate::frontend::{Drawn, Repeated, picture_file, place, plain};
use crate::history::History;
use crate::hunt::{FailedRun, main_problem};
use crate::hunt::{RunTotals, ScenarioVerdict};
use crate::property::Violation;
use crate::report::ci_report::{CaseFailure, CaseResult, CiCase, CiReport, main_sentence};
use crate::report::line::wrap;
use crate::report::{self, StoryFailure, phrases, story, table};

use super::args::Run;
use super::page::{Page, UserError};
use super::run::ScenarioRun;
use super::select::replay_command;

/// Returns a story for each scenario that failed, and `None` for each other one.
pub(super) fn stories(ran: &[ScenarioRun], args: &Run, page: &Page<'_>) -> Vec<Option<String>> {
    ran.iter().map(|ran| ran.row.verdict.is_bad().then(|| failure(ran, args, page))).collect()
}

/// Prints the totals and the stories. A failure with the same property and the same kind of
/// violation as an earlier one is printed as one line.
pub(super) fn summarize(
    ran: &[ScenarioRun],
    totals: &RunTotals,
    stories: &[Option<String>],
    page: &mut Page<'_>,
) -> Result<(), UserError> {
    let totals: String = table::totals(totals)
        .lines()
        .flat_map(|line| wrap(line, page.width))
        .map(|line| line + "\n")
        .collect();
    page.print(&format!("\n{totals}"))?;
    let (mut seen, mut again) = (BTreeSet::new(), String::new());
    for (ran, story) in ran.iter().zip(stories) {
        let Some(story) = story else { continue };
        let main = ran.main_violation();
        let like = main.map(|(main, _)| (ran.subject.name(), main.property, main.kind.name));
        match main {
            Some((main, seed)) if like.is_some_and(|like| !seen.insert(like)) => {
                let sentence = report::sentence(main);
                again += &format!("  {} --seed {seed}: {sentence}\n", ran.row.scenario);
            }
            _ => page.print(&format!("\n{story}"))?,
        }
    }
    if !again.is_empty() {
        page.print(&format!(
            "\nThe same property failed in the same way in these scenarios:\n{again}"
        ))?;
    }
    Ok(())
}

impl ScenarioRun {
    /// Returns the main violation of the first failing run, and the seed of that run. A canary must
    /// fail, so it has none.
    fn main_violation(&self) -> Option<(&Violation, u64)> {
        let failed = self.tally.failed.first().filter(|_| self.scenario.expect.breaks.is_none())?;
        Some((main_problem(&failed.broken)?, failed.plan.seed))
    }
}

/// Returns the CI report: one case per scenario.
pub(super) fn ci_report(
    ran: &[ScenarioRun],
    totals: &RunTotals,
    stories: &[Option<String>],
    args: &Run,
    page: &Page<'_>,
) -> CiReport {
    let title = format!("{} run", page.program);
    let mut ci_report =
        CiReport { title, totals: table::totals(totals), wall: totals.wall, ..CiReport::default() };
    for (ran, story) in ran.iter().zip(stories) {
        let result = match (&ran.row.verdict, story) {
            (ScenarioVerdict::NotRun(why), _) => CaseResult::NotRun(why.clone()),
            (_, Some(story)) => CaseResult::Failed(Box::new(broke(ran, story, args, page))),
            (_, None) => CaseResult::Passed,
        };
        let about = format!(
            "{}, {} of virtual time",
            phrases::count(ran.row.runs, "run"),
            phrases::span(ran.row.virtual_time)
        );
        ci_report.group(ran.subject.name()).cases.push(CiCase {
            name: ran.row.scenario.clone(),
            about,
            result,
        });
    }
    ci_report
}

fn broke(ran: &ScenarioRun, story: &str, args: &Run, page: &Page<'_>) -> CaseFailure {
    let ScenarioRun { scenario, tally, .. } = ran;
    let failed = tally.failed.first().filter(|_| scenario.expect.breaks.is_none());
    let broken = failed.map_or(&[][..], |failed| &failed.broken);
    let replay = failed.map(|it| {
        replay_command(&page.program, scenario, &it.plan, args.engine_option.0, &args.select)
    });
    let (property, sentence) = main_sentence(tally, scenario.expect.breaks.as_deref());
    let place = place(&scenario.path, broken, tally.unmet.first());
    CaseFailure {
        property,
        sentence,
        story: plain(story),
        replay: replay.unwrap_or_default(),
        place,
    }
}

/// Returns the story of a scenario's first failing run, and the seeds of its other failing runs.
fn failure(ran: &ScenarioRun, args: &Run, page: &Page<'_>) -> String {
    let ScenarioRun { scenario, tally, .. } = ran;
    let mut rendered = match tally.failed.first().filter(|_| scenario.expect.breaks.is_none()) {
        None => format!("{}\n", scenario.path.display()),
        Some(failed) => {
            let replay = replay_command(
                &page.program,
                scenario,
                &failed.plan,
                args.engine_option.0,
                &args.select,
            );
            first(ran, failed, &replay, args, page)
        }
    };
    if let Some(property) =
        scenario.expect.breaks.as_deref().filter(|property| !tally.broke(property))
    {
        rendered += &format!("  expected violation not detected: {property} held in all runs\n");
    }
    let unmet = tally.unmet.iter().chain(&tally.changed);
    unmet.for_each(|unmet| rendered += &format!("  {}\n", report::sentence(unmet)));
    if tally.failed.len() > 1 && scenario.expect.breaks.is_none() {
        rendered += &others(&tally.failed[1..]);
    }
    rendered
}

fn first(
    ran: &ScenarioRun,
    failed: &FailedRun,
    replay: &str,
    args: &Run,
    page: &Page<'_>,
) -> String {
    let FailedRun { plan, broken, history } = failed;
    let drawn = Drawn { subject: &ran.subject, plan, broken, engine: args.engine_option.0, replay };
    let path = page
        .pictures
        .as_deref()
        .map(|folder| picture_file(folder, plan, broken, &ran.scenario.path));
    let nothing = History::default();
    let Repeated { history: again, picture } = drawn.repeat(history.as_ref(), path.as_deref());
    let history = again.as_ref().or(history.as_ref()).unwrap_or(&nothing);
    story::failure(
        &StoryFailure { plan, history, broken, origin: None, replay, picture: picture.as_deref() },
        page.width,
    )
}

/// The maximum number of seeds to list.
const SEEDS: usize = 12;

fn others(failed: &[FailedRun]) -> String {
    let seeds: Vec<_> =
        failed.iter().take(SEEDS).map(|failed| failed.plan.seed.to_string()).collect();
    let more = if failed.len() > SEEDS { ", …" } else { "" };
    format!(
        "  {} failed, too: seed {}{more}\n",
        phrases::count(failed.len() as u64, "other run"),
        seeds.join(", ")
    )
}
