//! The shortcuts of a world have no visible effect: with all shortcuts off, each file and each random schedule
//! gets the same verdict, and users see the same at the same times.
//!
//! `cargo test` runs a sample. A release runs everything: `cargo test --release --test shortcuts --
//! --ignored`.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reknit::history::History;
use reknit::hunt::random::HuntTarget;
use reknit::hunt::{JudgedRun, Pool, judge, plans};
use reknit::scenario::{Expect, ScenarioFile};
use reknit::schedule::Plan;
use reknit::subject::DynSubject;
use reknit::subjects::built_in;
use reknit::world::{Options, Shortcuts};

/// A run that must not depend on shortcuts.
struct Run {
    name: String,
    subject: Arc<dyn DynSubject>,
    plan: Plan,
    expect: Expect,
}

/// The results of a run: the violated properties, and the observations of users with their times.
type Shown = (Vec<&'static str>, Vec<String>);

/// Returns what the users of a run saw, and when.
fn seen(history: &History) -> Vec<String> {
    let of_users = history.events.iter().filter(|event| event.what.is_of_user());
    of_users.map(|event| format!("{} {:?} {:?}", event.at, event.host, event.what)).collect()
}

impl Run {
    fn shown(&self, shortcuts: Shortcuts) -> Shown {
        let case = JudgedRun { subject: &self.subject, plan: &self.plan, expect: &self.expect };
        let options = Options { shortcuts, ..Options::default() };
        let judged = judge(case, &options, |_| false).expect("it can be run");
        let broken = judged.broken.iter().map(|broken| broken.property).collect();
        (broken, seen(&judged.history))
    }

    /// Returns the first difference between a run with shortcuts and one without.
    fn difference(&self) -> Option<String> {
        let (with, without) = (self.shown(Shortcuts::ALL), self.shown(Shortcuts::NONE));
        if with == without {
            return None;
        }
        let lines = with.1.iter().zip(&without.1).find(|(with, without)| with != without);
        let (name, seed) = (&self.name, self.plan.seed);
        Some(format!("{name}, seed {seed}: {:?} and {:?}; first: {lines:?}\n", with.0, without.0))
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios")
}

/// Returns the scenario files of a folder and its folders.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let found = paths.into_iter().flat_map(|path| match path.is_dir() {
        true => files(&path),
        false => vec![path],
    });
    found.filter(|path| path.extension().is_some_and(|it| it == "toml")).collect()
}

/// Returns the first run of each scenario file.
fn of_files() -> Vec<Run> {
    let mut runs = Vec::new();
    for subject in built_in() {
        for path in &files(&folder().join(subject.name())) {
            let scenario = ScenarioFile::load(path, std::slice::from_ref(&subject)).unwrap();
            let Some(plan) = plans::of(&scenario, &subject).into_iter().next() else { continue };
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let expect = plans::expected(&scenario);
            runs.push(Run { name, subject: subject.clone(), plan, expect });
        }
    }
    runs
}

/// Returns this many random schedules of each subject.
fn random(each: u64) -> Vec<Run> {
    let mut runs = Vec::new();
    for subject in built_in() {
        let target = HuntTarget::default_for(&subject).unwrap();
        runs.extend((1..=each).map(|seed| Run {
            name: format!("a random schedule of {}", subject.name()),
            subject: subject.clone(),
            plan: target.plan(seed),
            expect: Expect::default(),
        }));
    }
    runs
}

fn agree(runs: Vec<Run>) {
    let (mut differ, all) = (Vec::new(), runs.len());
    assert!(all > 100, "there are {all} runs");
    Pool::default().run(
        runs.into_iter(),
        |run| run.difference(),
        |found| {
            differ.extend(found.expect("no run is lost"));
            ControlFlow::Continue(())
        },
    );
    assert!(differ.is_empty(), "{} of {all} differ:\n{}", differ.len(), differ.concat());
}

#[test]
fn a_sample_of_files_and_schedules_does_not_depend_on_shortcuts() {
    agree(of_files().into_iter().step_by(16).chain(random(20)).collect());
}

#[test]
#[ignore = "it takes minutes, in a release"]
fn no_file_and_no_schedule_depends_on_shortcuts() {
    agree(of_files().into_iter().chain(random(4_000)).collect());
}
