//! A subject's test suite: one test for each scenario file, and tests that look at all files
//! together.
//!
//! [`tests!`](crate::tests) makes it a test target without the standard harness (`harness = false`
//! in Cargo.toml):
//!
//! | test | what it checks |
//! |---|---|
//! | `counter::short-cut` | every seed of the file holds and meets the file's expectations, each step has an effect with at least one seed, and the first run shows what its snapshot shows; a canary fails |
//! | `counter::short-cut::kills::late-resume` | with this defect switched on, at least one seed fails |
//! | `counter::short-cut::turmoil` | the same on stock turmoil, if the file asks for it |
//! | `counter::ledger` | every rule of the subject has a scenario that shows it and that detects a defect, if the subject has defects |
//! | `counter::snapshots` | if any file has a snapshot: every file has one, and every snapshot has a scenario |
//! | `counter::reached` | the files together reach every milestone and point of the product |
//! | `counter::swarm` | random schedules hold, drawn as `reknit hunt` draws them: `REKNIT_RUNS` is their number, `REKNIT_SEED` the first seed |
//! | `counter::same_digest` | runs are deterministic |
//!
//! A failing test prints its story. If standard output is not a terminal, it also prints the file
//! of the failing run between markers; `reknit replay -` can read that file from the log. In a
//! GitHub Actions job, each failure is annotated at its line, and the job summary lists all of
//! them. The tests run in the root folder of their package. Test names, `--list`, filters and
//! cargo-nextest work as usual.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use crate::frontend::{Github, answer, scenario_files};
use crate::hunt::random::HuntTarget;
use crate::hunt::{self, Checks, FreshProcess, Pool, ScenarioTally, plans as hunt_plans};
use crate::scenario::{Body, ScenarioFile};
use crate::schedule::Plan;
use crate::schedule::profile::Profile;
use crate::subject::DynSubject;

use diary::ResultLog;

pub use self::proptest::{check, plans};

mod diary;
mod failure;
mod proptest;
pub mod runner;
mod trials;

/// Makes the `main` of a test target that runs the whole suite of these subjects.
///
/// ```no_run
/// reknit::tests!(reknit::subjects::Counter);
/// ```
#[macro_export]
macro_rules! tests {
    ($($subject:expr),+ $(,)?) => {
        fn main() -> ::std::process::ExitCode {
            $crate::suite::main(
                ::std::vec![$(::std::sync::Arc::new($subject) as ::std::sync::Arc<dyn $crate::subject::DynSubject>),+],
                ::std::env!("CARGO_MANIFEST_DIR"),
            )
        }
    };
}

/// Runs the suites of the subjects, in the root folder of their package. [`tests!`](crate::tests)
/// expands to a call of this function.
pub fn main(subjects: Vec<Arc<dyn DynSubject>>, root: &str) -> ExitCode {
    let args: Vec<_> = std::env::args_os().collect();
    if let Some(status) = answer(&args, &subjects) {
        return status;
    }
    let root =
        std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(root), PathBuf::from);
    let diary = Arc::new(ResultLog::new(Github::of_this_process()));
    let trials = std::env::set_current_dir(&root)
        .map_err(|error| format!("{}: {error}", root.display()))
        .and_then(|()| {
            let asked = EnvSettings::of(|name| std::env::var(name).ok())?;
            Github::of_this_process().open()?;
            let suites = subjects
                .iter()
                .map(|subject| Suite::new(subject.clone(), &subjects, asked, diary.clone()));
            suites.collect::<Result<Vec<_>, _>>()
        });
    let done = trials.and_then(|suites| {
        let status = runner::main(suites.iter().flat_map(trials::of).collect())?;
        print!("{}", diary.summarize(std::env::var_os("NEXTEST").is_some())?);
        Ok(status)
    });
    done.unwrap_or_else(|why| {
        eprintln!("{why}");
        ExitCode::from(2)
    })
}

/// Settings from environment variables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct EnvSettings {
    /// `REKNIT_RUNS`: the number of random schedules.
    runs: Option<u64>,
    /// `REKNIT_SEED`: the first seed of the random schedules.
    seed: Option<u64>,
}

impl EnvSettings {
    fn of(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let number = |name: &str| match variable(name) {
            None => Ok(None),
            Some(text) => text
                .trim()
                .parse()
                .map(Some)
                .map_err(|_| format!("{name}={text}: write a whole number")),
        };
        let runs = number("REKNIT_RUNS")?;
        if runs == Some(0) {
            return Err("REKNIT_RUNS=0: no run shows nothing; write 1 or more".into());
        }
        Ok(Self { runs, seed: number("REKNIT_SEED")? })
    }
}

/// A scenario file of the suite.
struct File {
    /// The name of its test, for example `counter::short-cut`.
    name: String,
    /// The parsed file, or the error in it.
    scenario: Result<ScenarioFile, String>,
    /// The results of its runs. Computed on first use, by the file's own test or by a test that
    /// looks at all files.
    tally: OnceLock<Result<Arc<ScenarioTally>, String>>,
}

/// The suite of one subject.
struct Suite {
    subject: Arc<dyn DynSubject>,
    files: Vec<File>,
    /// Random schedules from the default profile, without a file.
    swarm: File,
    asked: EnvSettings,
    /// The results of the suite's tests.
    diary: Arc<ResultLog>,
}

impl Suite {
    /// Loads the suite of a subject from the files in `scenarios/<subject>`.
    fn new(
        subject: Arc<dyn DynSubject>,
        subjects: &[Arc<dyn DynSubject>],
        asked: EnvSettings,
        diary: Arc<ResultLog>,
    ) -> Result<Arc<Self>, String> {
        let folder = Path::new("scenarios").join(subject.name());
        let mut paths = Vec::new();
        if folder.is_dir() {
            scenario_files(&folder, &mut paths)?;
        }
        let files = paths.into_iter().map(|path| File {
            name: name(&subject, &folder, &path),
            scenario: ScenarioFile::load(&path, subjects).map_err(|mistake| mistake.to_string()),
            tally: OnceLock::new(),
        });
        let files = files.collect();
        let swarm = File {
            name: format!("{}::swarm", subject.name()),
            scenario: random(&subject),
            tally: OnceLock::new(),
        };
        Ok(Arc::new(Self { subject, files, swarm, asked, diary }))
    }

    /// Returns the results of all runs of a file. The runs are made only once per process, on first
    /// use.
    fn tally(&self, file: &File) -> Result<Arc<ScenarioTally>, String> {
        let scenario = file.scenario.as_ref().map_err(Clone::clone)?;
        let run = || {
            let mut scenario = scenario.clone();
            if hunt_plans::is_swarm(&scenario) {
                hunt_plans::with_seeds(&mut scenario, self.asked.seed, self.asked.runs);
            }
            let plans = hunt_plans::of(&scenario, &self.subject);
            self.run(&scenario, plans, self.checks(&scenario)).map(Arc::new)
        };
        file.tally.get_or_init(run).clone()
    }

    /// Returns the checks for the runs of a scenario. A canary needs no second opinion.
    fn checks(&self, scenario: &ScenarioFile) -> Checks {
        let fresh =
            if scenario.expect.breaks.is_none() { FreshProcess::this_program() } else { None };
        Checks { fresh, ..Checks::default() }
    }

    /// Runs plans under the expectations of a scenario.
    fn run(
        &self,
        scenario: &ScenarioFile,
        plans: Vec<Plan>,
        checks: Checks,
    ) -> Result<ScenarioTally, String> {
        let pool = Pool::default().alone();
        hunt::tally(&self.subject, scenario, plans, &checks, &pool, |_| {})
            .map_err(|hunt_error| hunt_error.to_string())
    }
}

/// Returns a scenario of random schedules of a subject. Its seeds follow those of the subject's own
/// swarm, which may be one of the files.
fn random(subject: &Arc<dyn DynSubject>) -> Result<ScenarioFile, String> {
    let own = HuntTarget::default_for(subject)?.profile;
    let first_seed = own.first_seed.wrapping_add(own.runs);
    let body = Body::Swarm(Box::new(Profile { first_seed, ..(*own).clone() }));
    Ok(ScenarioFile {
        body,
        ..ScenarioFile::of_plan(Plan::new(subject.name()), "Random schedules")
    })
}

/// Returns the name of a file's test: the subject, then the path relative to the subject's folder.
fn name(subject: &Arc<dyn DynSubject>, folder: &Path, path: &Path) -> String {
    let way = path.strip_prefix(folder).unwrap_or(path).with_extension("");
    let parts = way.components().map(|part| part.as_os_str().to_string_lossy().into_owned());
    std::iter::once(subject.name().to_owned()).chain(parts).collect::<Vec<_>>().join("::")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_variables_must_be_whole_numbers() {
        let of = |runs: &'static str| {
            EnvSettings::of(move |name| {
                (name == "REKNIT_RUNS" && !runs.is_empty()).then(|| runs.to_owned())
            })
        };
        assert_eq!(of(""), Ok(EnvSettings::default()));
        assert_eq!(of(" 20000 "), Ok(EnvSettings { runs: Some(20_000), seed: None }));
        assert_eq!(of("many"), Err("REKNIT_RUNS=many: write a whole number".into()));
    }

    #[test]
    fn a_file_is_a_test_of_its_own_name() {
        let subject: Arc<dyn DynSubject> = Arc::new(crate::subjects::Counter);
        let folder = Path::new("scenarios/counter");
        assert_eq!(name(&subject, folder, &folder.join("late.toml")), "counter::late");
        assert_eq!(name(&subject, folder, &folder.join("found/a.b.toml")), "counter::found::a.b");
    }

    #[test]
    fn the_built_in_suite_has_a_test_for_each_file_and_each_killed_defect() {
        let subjects = crate::subjects::built_in();
        let suite = {
            let diary = Arc::new(ResultLog::new(Github::default()));
            Suite::new(subjects[0].clone(), &subjects, EnvSettings::default(), diary).unwrap()
        };
        let names: Vec<_> =
            trials::of(&suite).iter().map(|trial| trial.name().to_owned()).collect();
        for file in &suite.files {
            let scenario = file.scenario.as_ref().unwrap();
            assert!(names.contains(&file.name), "{}", file.name);
            assert!(
                scenario
                    .kills
                    .iter()
                    .all(|defect| names.contains(&format!("{}::kills::{defect}", file.name))),
                "{}",
                file.name
            );
        }
        for what in ["ledger", "reached", "snapshots", "same_digest", "swarm"] {
            assert!(names.contains(&format!("counter::{what}")), "{what}");
        }
    }
}
