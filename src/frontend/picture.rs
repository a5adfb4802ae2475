//! Failures shown to a person: repeated with every message recorded, and drawn.
//!
//! A picture must never hide a failure. If a picture cannot be made, the story is still printed,
//! with the reason on its picture line.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::history::History;
use crate::hunt::saved::write_whole;
use crate::hunt::{Pool, main_problem};
use crate::property::Violation;
use crate::report::Picture;
use crate::report::picture::html;
use crate::schedule::Plan;
use crate::subject::DynSubject;
use crate::world::{Detail, Engine, Options, RunError, run};

/// The folder for pictures of failures, and for findings of hunts with a defect switched on. These
/// files are temporary.
pub(crate) const FOLDER: &str = "target/reknit";

/// A failure to draw.
pub(crate) struct Drawn<'a> {
    /// The protocol under test.
    pub subject: &'a Arc<dyn DynSubject>,
    /// The plan that was run.
    pub plan: &'a Plan,
    /// The violations in the run; at least one.
    pub broken: &'a [Violation],
    /// The engine that carried the segments.
    pub engine: Engine,
    /// The command that replays this run.
    pub replay: &'a str,
}

/// A failed run, repeated with every message recorded.
#[derive(Debug, Default)]
pub(crate) struct Repeated {
    /// The history with all messages; `None` if the run could not be repeated or went differently.
    pub history: Option<History>,
    /// The picture line of the story: the path, or the reason why there is no picture; `None` if no
    /// picture was requested.
    pub picture: Option<String>,
}

impl Drawn<'_> {
    /// Repeats the run, and draws it into this file if there is one. `first` is the history of the
    /// first run. A run that got stuck has no history; it would get stuck again, so it is not
    /// repeated.
    pub fn repeat(&self, first: Option<&History>, path: Option<&Path>) -> Repeated {
        let Some(first) = first else { return Repeated::default() };
        let history = self.detailed();
        let picture = path.map(|path| {
            let drawn = history.as_ref().map_err(String::clone);
            match drawn.and_then(|history| self.draw(history, path)) {
                Ok(()) => path.display().to_string(),
                Err(why) => format!("none: {why}"),
            }
        });
        Repeated { history: history.ok().filter(|again| again.digest == first.digest), picture }
    }

    /// Repeats the run with every message recorded. The run may get stuck, so the watchdog observes
    /// it as before.
    fn detailed(&self) -> Result<History, String> {
        let (subject, engine) = (self.subject.clone(), self.engine);
        let options = Options { detail: Detail::Full, engine, ..Options::default() };
        let work = move |plan: Plan| Ok(run(&subject, &plan, &options)?.history);
        let mut history = Err("the run was not repeated".to_owned());
        Pool::default().alone().run(
            std::iter::once(self.plan.clone()),
            work,
            |again: Result<Result<History, RunError>, _>| {
                history = again
                    .map_err(|lost| lost.to_string())
                    .and_then(|again| again.map_err(|error| error.to_string()));
                ControlFlow::Continue(())
            },
        );
        history
    }

    fn draw(&self, history: &History, path: &Path) -> Result<(), String> {
        let Self { plan, broken, replay, .. } = *self;
        let page = html(&Picture { plan, history, broken, replay });
        let why = |error| format!("{}: this picture cannot be written: {error}", path.display());
        write_whole(path, &page).map_err(why)
    }
}

/// Returns the path of a failure's picture: `SUBJECT-PROPERTY-SEED.html`. If the run came from a
/// scenario file, that file's name comes before the seed, because the same seed is a different run
/// in another file.
pub(crate) fn file(folder: &Path, plan: &Plan, broken: &[Violation], of: &Path) -> PathBuf {
    let property = main_problem(broken).map_or("held", |broken| broken.property).replace('_', "-");
    let of = of.file_stem().map_or(String::new(), |stem| format!("{}-", stem.to_string_lossy()));
    folder.join(format!("{}-{property}-{of}{}.html", plan.subject, plan.seed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Time;
    use crate::property::About;
    use crate::property::violation::sample_violation;

    fn failure(test: impl FnOnce(&Drawn<'_>)) {
        let subjects = crate::subjects::built_in();
        let scenario = crate::scenario::ScenarioFile::load(
            Path::new("scenarios/counter/short-cut-while-numbers-flow.toml"),
            &subjects,
        );
        let mut plan = scenario.unwrap().plans().remove(0);
        plan.defects = vec!["resumes-one-too-late".into()];
        let broken = [sample_violation("gap_free", About::Run, Time(21_027), "a < b")];
        let subject = &subjects[0];
        test(&Drawn {
            subject,
            plan: &plan,
            broken: &broken,
            engine: Engine::Event,
            replay: "reknit replay x",
        });
    }

    #[test]
    fn a_failure_is_drawn_with_its_messages() {
        let folder = std::env::temp_dir().join(format!("reknit-picture-{}", std::process::id()));
        failure(|drawn| {
            let path =
                file(&folder, drawn.plan, drawn.broken, Path::new("scenarios/counter/a.b.toml"));
            assert_eq!(path, folder.join("counter-gap-free-a.b-1.html"));
            assert_eq!(
                drawn.repeat(Some(&History::default()), Some(&path)).picture.unwrap(),
                path.display().to_string()
            );
            let page = std::fs::read_to_string(&path).unwrap();
            assert!(page.contains("class=\"message ") && page.contains("a &lt; b"));
        });
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_picture_without_a_scenario_file_is_named_by_its_seed() {
        failure(|drawn| {
            let path = file(Path::new("x"), drawn.plan, drawn.broken, Path::new(""));
            assert_eq!(path, Path::new("x/counter-gap-free-1.html"));
        });
    }

    #[test]
    fn the_reason_for_a_missing_picture_is_one_line() {
        failure(|drawn| {
            let why = drawn
                .repeat(Some(&History::default()), Some(Path::new("/dev/null/pictures/a.html")))
                .picture
                .unwrap();
            assert!(
                why.starts_with(
                    "none: /dev/null/pictures/a.html: this picture cannot be written: "
                ),
                "{why}"
            );
            assert!(!why.contains('\n'), "{why}");
        });
    }
}
