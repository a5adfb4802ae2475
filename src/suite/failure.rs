//! The output of a failing test.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;

use crate::frontend::{
    Drawn, PICTURES, Repeated, colours, picture_file, place, plain, quoted, width, words_for,
};
use crate::history::History;
use crate::hunt::{FailedRun, ScenarioTally};
use crate::report::ci_report::{CaseFailure, SourceLine, main_sentence};
use crate::report::{self, StoryFailure, envelope, phrases, story};
use crate::scenario::ScenarioFile;
use crate::schedule::TieOrder;
use crate::subject::DynSubject;
use crate::world::Engine;

/// The reason why a test failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TestFailure {
    /// The text that the test prints.
    pub text: String,
    /// The same failure for the CI report.
    pub it: Box<CaseFailure>,
}

impl From<String> for TestFailure {
    /// Keeps the whole text of a failure that has no story. An error in a file begins with its
    /// position: `scenarios/a.toml:3:1: …`.
    fn from(text: String) -> Self {
        let mut parts = text.splitn(4, ':');
        let place = match (parts.next(), parts.next().map(str::parse), parts.next()) {
            (Some(file), Some(Ok(line)), Some(_)) => {
                Some(SourceLine { file: file.to_owned(), line })
            }
            _ => None,
        };
        let sentence = text.lines().next().unwrap_or_default().to_owned();
        let story = if text.lines().count() > 1 { text.clone() } else { String::new() };
        Self {
            it: Box::new(CaseFailure {
                property: "suite".into(),
                sentence,
                story,
                replay: String::new(),
                place,
            }),
            text,
        }
    }
}

/// Returns the failure of a scenario's runs on an engine, if there is one; otherwise a summary of
/// the runs.
pub fn unless_good(
    subject: &Arc<dyn DynSubject>,
    scenario: &ScenarioFile,
    tally: &ScenarioTally,
    engine: Engine,
) -> Result<String, TestFailure> {
    let breaks = scenario.expect.breaks.as_deref();
    if tally.verdict(breaks).is_good() {
        return Ok(format!(
            "{}, {} of virtual time",
            phrases::count(tally.runs, "run"),
            phrases::span(tally.virtual_time)
        ));
    }
    let draw = |failed: &FailedRun, replay: &str| {
        let FailedRun { plan, broken, history } = failed;
        let path = picture_file(Path::new(PICTURES), plan, broken, &scenario.path);
        Drawn { subject, plan, broken, engine, replay }.repeat(history.as_ref(), Some(&path))
    };
    let manner = FailureOptions {
        engine,
        width: width(),
        sealed: !std::io::stdout().is_terminal(),
        draw: &draw,
    };
    let summary = summarize(scenario, tally, &manner);
    let failed = tally.failed.first().filter(|_| breaks.is_none());
    let (property, sentence) = main_sentence(tally, breaks);
    let place =
        place(&scenario.path, failed.map_or(&[], |failed| &failed.broken), tally.unmet.first());
    let replay = failed.map_or(String::new(), |failed| replay(scenario, failed, engine).1);
    let story = plain(summary.split(envelope::BEGIN).next().unwrap_or_default());
    Err(TestFailure {
        text: colours(&summary),
        it: Box::new(CaseFailure { property, sentence, story, replay, place }),
    })
}

/// Options for rendering a failure.
struct FailureOptions<'a> {
    /// The engine that carried the segments.
    engine: Engine,
    /// The page width in columns.
    width: usize,
    /// Whether the text includes the file of the first failing run, between markers.
    sealed: bool,
    /// Repeats and draws a failure. The second argument is the replay command.
    draw: &'a dyn Fn(&FailedRun, &str) -> Repeated,
}

/// Renders the text of the failure.
fn summarize(
    scenario: &ScenarioFile,
    tally: &ScenarioTally,
    manner: &FailureOptions<'_>,
) -> String {
    let path = scenario.path.display().to_string();
    let file = if path.is_empty() { path } else { path + ": " };
    let unmet = tally.unmet.iter().chain(&tally.changed);
    let mut rendered: String =
        unmet.map(|unmet| format!("{file}{}\n", report::sentence(unmet))).collect();
    if let Some(property) = &scenario.expect.breaks {
        if !tally.broke(property) {
            rendered += &format!(
                "{file}{property} held in all {} runs, but must be violated\n",
                tally.runs
            );
        }
        return rendered;
    }
    if let Some(failed) = tally.failed.first() {
        rendered += &first(scenario, failed, manner);
    }
    if tally.failed.len() > 1 {
        let seeds: Vec<_> =
            tally.failed[1..].iter().take(12).map(|failed| failed.plan.seed.to_string()).collect();
        rendered += &format!(
            "  {} failed, too: seed {}\n",
            phrases::count(tally.failed.len() as u64 - 1, "other run"),
            seeds.join(", ")
        );
    }
    rendered
}

fn first(scenario: &ScenarioFile, failed: &FailedRun, manner: &FailureOptions<'_>) -> String {
    let FailedRun { plan, broken, history } = failed;
    let nothing = History::default();
    let (file, replay) = replay(scenario, failed, manner.engine);
    let Repeated { history: again, picture } = (manner.draw)(failed, &replay);
    let history = again.as_ref().or(history.as_ref()).unwrap_or(&nothing);
    let failure = StoryFailure {
        plan,
        history,
        broken,
        origin: None,
        replay: &replay,
        picture: picture.as_deref(),
    };
    let mut rendered = story::failure(&failure, manner.width);
    if manner.sealed || file == "-" {
        rendered += "\n";
        rendered +=
            &envelope::seal(&ScenarioFile::of_plan(plan.clone(), scenario.title.clone()).to_toml());
    }
    rendered
}

/// Returns the scenario's file as a command-line argument, and the command that replays a failed
/// run.
fn replay(scenario: &ScenarioFile, failed: &FailedRun, engine: Engine) -> (String, String) {
    let file = if scenario.path.as_os_str().is_empty() {
        "-".into()
    } else {
        scenario.path.display().to_string()
    };
    let engine = words_for(engine);
    let order = match failed.plan.order {
        TieOrder::PacketsFirst if scenario.both_orders => " --order packets-first",
        TieOrder::TimersFirst if scenario.both_orders => " --order timers-first",
        _ => "",
    };
    let replay = format!(
        "{} replay {} --seed {}{order}{engine}",
        program(),
        quoted(&file),
        failed.plan.seed
    );
    (file, replay)
}

/// Returns the command that starts the program from the package under test. Another crate has its
/// own command. If the tests were built without the command line, that crate provides its command
/// behind its feature `cli`.
fn program() -> &'static str {
    let own =
        std::env::var("CARGO_PKG_NAME").is_ok_and(|package| package != env!("CARGO_PKG_NAME"));
    match (own, cfg!(feature = "cli")) {
        (false, _) => "reknit",
        (true, true) => "cargo run --",
        (true, false) => "cargo run --features cli --",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hunt::FailedRun;
    use crate::report::story::tests::{a_gap, plain};
    use crate::scenario::Expect;

    #[test]
    fn a_failure_without_a_terminal_ends_with_the_file_of_its_run() {
        let (plan, history, broken) = a_gap();
        let scenario = ScenarioFile {
            path: "scenarios/counter/cut.toml".into(),
            ..ScenarioFile::of_plan(plan.clone(), "A cut")
        };
        let tally = ScenarioTally {
            failed: vec![FailedRun { plan: plan.clone(), broken, history: Some(history) }],
            ..ScenarioTally::default()
        };
        let picture = || Some("target/reknit/cut.html".to_owned());
        let draw = |_: &FailedRun, _: &str| Repeated { picture: picture(), history: None };
        let manner =
            |sealed| FailureOptions { engine: Engine::Event, width: 100, sealed, draw: &draw };
        let watched = plain(&summarize(&scenario, &tally, &manner(false)));
        let end = "replay   reknit replay scenarios/counter/cut.toml --seed 1\n  picture  target/reknit/cut.html\n";
        assert!(watched.ends_with(end), "{watched}");
        assert!(!watched.contains(envelope::BEGIN));
        let unwatched = plain(&summarize(&scenario, &tally, &manner(true)));
        assert!(unwatched.starts_with(&watched));
        assert_eq!(envelope::open(&unwatched), ScenarioFile::of_plan(plan, "A cut").to_toml());
    }

    #[test]
    fn a_canary_that_holds_is_a_failure() {
        let expect = Expect { breaks: Some("gap_free".into()), ..Expect::default() };
        let scenario = ScenarioFile {
            path: "canary.toml".into(),
            expect,
            ..ScenarioFile::of_plan(a_gap().0, "A canary")
        };
        let tally = ScenarioTally { runs: 3, ..ScenarioTally::default() };
        let failure =
            unless_good(&crate::subjects::counter(), &scenario, &tally, Engine::Event).unwrap_err();
        assert_eq!(
            failure.text,
            "canary.toml: gap_free held in all 3 runs, but must be violated\n"
        );
        assert_eq!(
            (failure.it.property.as_str(), failure.it.place.map(|place| place.line)),
            ("gap_free", Some(1))
        );
    }

    #[test]
    fn an_error_in_a_file_has_a_source_line() {
        let wrong = TestFailure::from("scenarios/a.toml:3:1: `steep` is not a key".to_owned());
        assert_eq!(wrong.it.place, Some(SourceLine { file: "scenarios/a.toml".into(), line: 3 }));
        let wrong = TestFailure::from("no scenario covers these rules:\n  a.b: c".to_owned());
        assert_eq!(
            (wrong.it.place, wrong.it.sentence.as_str()),
            (None, "no scenario covers these rules:")
        );
        assert_eq!(wrong.it.story, wrong.text);
    }
}
