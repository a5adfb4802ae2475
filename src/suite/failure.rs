//! What a test says that fails.

use std::io::IsTerminal;

use crate::cli::{colours, width};
use crate::history::History;
use crate::hunt::{Failed, Tally};
use crate::report::{Failure, envelope, say, story};
use crate::scenario::Scenario;

/// Says what is wrong with the runs of a scenario, if anything is. `options` are those of the command line that were in force.
pub fn unless_good(scenario: &Scenario, tally: &Tally, options: &[String]) -> Result<(), String> {
    let breaks = scenario.expect.breaks.as_deref();
    if tally.verdict(breaks).is_good() {
        return Ok(());
    }
    let text = tell(scenario, tally, options, width(), !std::io::stdout().is_terminal());
    Err(colours(&text))
}

/// The text. With `sealed`, the file of the first failing run stands in it, between markers.
fn tell(scenario: &Scenario, tally: &Tally, options: &[String], width: usize, sealed: bool) -> String {
    if let Some(property) = &scenario.expect.breaks {
        return format!("{}: {property} held in all {} runs, and must break\n", scenario.path.display(), tally.runs);
    }
    let mut told: String = tally.unmet.iter().map(|unmet| format!("{unmet}\n")).collect();
    if let Some(failed) = tally.failed.first() {
        told += &first(scenario, failed, options, width, sealed);
    }
    if tally.failed.len() > 1 {
        let seeds: Vec<_> = tally.failed[1..].iter().take(12).map(|failed| failed.plan.seed.to_string()).collect();
        told += &format!("  {} broke, too: seed {}\n", say::count(tally.failed.len() as u64 - 1, "other run"), seeds.join(", "));
    }
    told
}

fn first(scenario: &Scenario, failed: &Failed, options: &[String], width: usize, sealed: bool) -> String {
    let Failed { plan, broken, history } = failed;
    let nothing = History::default();
    let history = history.as_ref().unwrap_or(&nothing);
    let file = if scenario.path.as_os_str().is_empty() { "-".into() } else { scenario.path.display().to_string() };
    let options: String = options.iter().map(|option| format!(" {option}")).collect();
    let replay = format!("reknit replay {file} --seed {}{options}", plan.seed);
    let mut told = story::failure(&Failure { plan, history, broken, origin: None, replay: &replay }, width);
    if sealed || file == "-" {
        told += "\n";
        told += &envelope::seal(&Scenario::of_plan(plan.clone(), scenario.title.clone()).to_toml());
    }
    told
}
