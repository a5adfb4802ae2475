//! What a test says that fails.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;

use crate::cli::{Drawn, PICTURES, colours, picture_file, quoted, width};
use crate::history::History;
use crate::hunt::{Failed, Tally};
use crate::report::{Failure, envelope, say, story};
use crate::scenario::Scenario;
use crate::schedule::Order;
use crate::subject::Erased;
use crate::world::Engine;

/// Says what is wrong with the runs of a scenario on an engine, if anything is.
pub fn unless_good(subject: &Arc<dyn Erased>, scenario: &Scenario, tally: &Tally, engine: Engine) -> Result<(), String> {
    let breaks = scenario.expect.breaks.as_deref();
    if tally.verdict(breaks).is_good() {
        return Ok(());
    }
    let draw = |failed: &Failed, replay: &str| {
        let Failed { plan, broken, history } = failed;
        // A run that got stuck has no record, and would get stuck again.
        history.as_ref()?;
        let path = picture_file(Path::new(PICTURES), plan, broken, &scenario.path);
        Some(Drawn { subject, plan, broken, engine, replay }.told(&path))
    };
    let manner = Manner { engine, width: width(), sealed: !std::io::stdout().is_terminal(), draw: &draw };
    Err(colours(&tell(scenario, tally, &manner)))
}

/// How a failure is told.
struct Manner<'a> {
    /// What carried the segments.
    engine: Engine,
    /// How wide a page is.
    width: usize,
    /// Whether the file of the first failing run stands in the text, between markers.
    sealed: bool,
    /// Draws a failure that this command replays; what the story says of the picture.
    draw: &'a dyn Fn(&Failed, &str) -> Option<String>,
}

/// The text.
fn tell(scenario: &Scenario, tally: &Tally, manner: &Manner<'_>) -> String {
    let path = scenario.path.display().to_string();
    let file = if path.is_empty() { path } else { path + ": " };
    let mut told: String = tally.unmet.iter().map(|unmet| format!("{file}{unmet}\n")).collect();
    if let Some(property) = &scenario.expect.breaks {
        if !tally.broke(property) {
            told += &format!("{file}{property} held in all {} runs, and must break\n", tally.runs);
        }
        return told;
    }
    if let Some(failed) = tally.failed.first() {
        told += &first(scenario, failed, manner);
    }
    if tally.failed.len() > 1 {
        let seeds: Vec<_> = tally.failed[1..].iter().take(12).map(|failed| failed.plan.seed.to_string()).collect();
        told += &format!("  {} broke, too: seed {}\n", say::count(tally.failed.len() as u64 - 1, "other run"), seeds.join(", "));
    }
    told
}

fn first(scenario: &Scenario, failed: &Failed, manner: &Manner<'_>) -> String {
    let Failed { plan, broken, history } = failed;
    let nothing = History::default();
    let history = history.as_ref().unwrap_or(&nothing);
    let file = if scenario.path.as_os_str().is_empty() { "-".into() } else { scenario.path.display().to_string() };
    let engine = if manner.engine == Engine::Turmoil { " --engine turmoil" } else { "" };
    let order = match plan.order {
        Order::PacketsFirst if scenario.both_orders => " --order packets-first",
        Order::TimersFirst if scenario.both_orders => " --order timers-first",
        _ => "",
    };
    let replay = format!("{} replay {} --seed {}{order}{engine}", program(), quoted(&file), plan.seed);
    let picture = (manner.draw)(failed, &replay);
    let failure = Failure { plan, history, broken, origin: None, replay: &replay, picture: picture.as_deref() };
    let mut told = story::failure(&failure, manner.width);
    if manner.sealed || file == "-" {
        told += "\n";
        told += &envelope::seal(&Scenario::of_plan(plan.clone(), scenario.title.clone()).to_toml());
    }
    told
}

/// How the command is called from the package whose tests run: another crate has a command of its own.
fn program() -> &'static str {
    let own = std::env::var("CARGO_PKG_NAME").is_ok_and(|package| package != env!("CARGO_PKG_NAME"));
    if own { "cargo run --" } else { "reknit" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hunt::Failed;
    use crate::report::story::tests::{a_gap, plain};
    use crate::scenario::Expect;

    #[test]
    fn a_failure_ends_with_the_file_of_its_run_where_nobody_watches() {
        let (plan, history, broken) = a_gap();
        let scenario = Scenario { path: "scenarios/counter/cut.toml".into(), ..Scenario::of_plan(plan.clone(), "A cut") };
        let tally = Tally { failed: vec![Failed { plan: plan.clone(), broken, history: Some(history) }], ..Tally::default() };
        let draw = |_: &Failed, _: &str| Some("target/reknit/cut.html".to_owned());
        let manner = |sealed| Manner { engine: Engine::Event, width: 100, sealed, draw: &draw };
        let watched = plain(&tell(&scenario, &tally, &manner(false)));
        let end = "replay   reknit replay scenarios/counter/cut.toml --seed 1\n  picture  target/reknit/cut.html\n";
        assert!(watched.ends_with(end), "{watched}");
        assert!(!watched.contains(envelope::BEGIN));
        let unwatched = plain(&tell(&scenario, &tally, &manner(true)));
        assert!(unwatched.starts_with(&watched));
        assert_eq!(envelope::open(&unwatched), Scenario::of_plan(plan, "A cut").to_toml());
    }

    #[test]
    fn a_canary_that_held_says_that_the_alarm_does_not_ring() {
        let expect = Expect { breaks: Some("gap_free".into()), ..Expect::default() };
        let scenario = Scenario { path: "canary.toml".into(), expect, ..Scenario::of_plan(a_gap().0, "A canary") };
        let tally = Tally { runs: 3, ..Tally::default() };
        let said = unless_good(&crate::subjects::counter(), &scenario, &tally, Engine::Event).unwrap_err();
        assert_eq!(said, "canary.toml: gap_free held in all 3 runs, and must break\n");
    }
}
