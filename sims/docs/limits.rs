//! Each limit of a built-in subject takes effect in a scenario file: without it, users see something
//! else.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reknit::scenario::{Body, ScenarioFile, Snapshot};
use reknit::schedule::Plan;
use reknit::subject::DynSubject;
use reknit::subjects::built_in;
use reknit::world::{Options, run};

/// The limits that take effect in no file yet. No operation puts a thousand files into the directory of
/// the jobs.
const WITHOUT: &[&str] = &["turn jobs.entries"];

/// Returns the plans of the first runs of a subject's schedules. Files in a folder `limits` come
/// first: each is written for one limit.
fn plans(subject: &Arc<dyn DynSubject>) -> Vec<Plan> {
    let folder = super::root().join("scenarios").join(subject.name());
    let mut files = files(&folder.join("limits"));
    files.extend(self::files(&folder));
    let scenarios = files.into_iter().map(|file| {
        ScenarioFile::load(&file, std::slice::from_ref(subject)).expect("a valid scenario file")
    });
    let schedules = scenarios.filter(|scenario| matches!(scenario.body, Body::Schedule(_)));
    schedules.filter_map(|scenario| scenario.plans().into_iter().next()).collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let paths = entries.map(|entry| entry.expect("a readable folder").path());
    let mut files: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|it| it == "toml")).collect();
    files.sort();
    files
}

fn shown(subject: &Arc<dyn DynSubject>, plan: &Plan) -> Snapshot {
    let outcome = run(subject, plan, &Options::default()).expect("the plan runs");
    Snapshot::of(&outcome.history)
}

fn takes_effect(subject: &Arc<dyn DynSubject>, limit: &str, plan: &Plan) -> bool {
    let mut without = plan.clone();
    without.limits.0.remove(limit).is_some() && shown(subject, plan) != shown(subject, &without)
}

#[test]
fn each_limit_takes_effect_in_a_scenario() {
    let known: BTreeSet<String> = WITHOUT.iter().map(|limit| (*limit).to_owned()).collect();
    let mut found = BTreeSet::new();
    for subject in built_in() {
        let plans = plans(&subject);
        for limit in subject.limits() {
            if !plans.iter().any(|plan| takes_effect(&subject, limit.name, plan)) {
                found.insert(format!("{} {}", subject.name(), limit.name));
            }
        }
    }
    assert_eq!(found, known, "the limits that take effect in no file");
}
