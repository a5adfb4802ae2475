//! Runs the ticker under reknit's faults and properties, on stock turmoil.
use std::path::Path;
use std::sync::Arc;

use reknit::hunt::{JudgedRun, judge, plans, random::HuntTarget};
use reknit::report::sentence;
use reknit::scenario::{Expect, ScenarioFile};
use reknit::schedule::{Plan, Profile};
use reknit::subject::DynSubject;
use reknit::world::{Engine, Options, RunError};
use turmoil_ticker::subject::Ticker;

fn ticker(hasty: bool) -> Arc<dyn DynSubject> {
    Arc::new(Ticker { hasty })
}

/// Returns the violations of a run as `property: sentence`, or `None` if stock turmoil does not
/// support the plan.
fn broken(subject: &Arc<dyn DynSubject>, plan: &Plan, expect: &Expect) -> Option<Vec<String>> {
    let options = Options { engine: Engine::TURMOIL, ..Options::default() };
    match judge(JudgedRun { subject, plan, expect }, &options, |_| false) {
        Ok(judged) => Some(
            judged
                .broken
                .iter()
                .map(|broken| format!("{}: {}", broken.property, sentence(broken)))
                .collect(),
        ),
        Err(RunError::Unsupported(_)) => None,
        Err(error) => panic!("{error}"),
    }
}

/// Returns the violations of a scenario file.
fn of_file(name: &str, hasty: bool) -> Vec<String> {
    let (path, subject) = (Path::new("scenarios/ticker").join(name), ticker(hasty));
    let scenario = ScenarioFile::load(&path, std::slice::from_ref(&subject)).unwrap();
    let plan = plans::of(&scenario, &subject).remove(0);
    broken(&subject, &plan, &plans::expected(&scenario)).unwrap()
}

#[test]
fn an_outage_of_the_server_loses_no_number() {
    assert_eq!(of_file("out-of-reach.toml", false), [""; 0]);
}

#[test]
fn a_client_that_is_hasty_misses_a_number() {
    let broken = of_file("out-of-reach.toml", true);
    assert!(
        broken.iter().any(|broken| broken.starts_with("gap_free: client-count: ")),
        "{broken:?}"
    );
}

#[test]
fn a_restarted_server_has_another_count() {
    assert_eq!(of_file("another-count.toml", false), [""; 0]);
}

#[test]
fn random_schedules_hold() {
    let subject = ticker(false);
    let ground =
        HuntTarget { profile: Arc::new(Profile::of_schemas(&*subject)), subject: subject.clone() };
    let runs = (1..=8).map(|seed| (seed, broken(&subject, &ground.plan(seed), &Expect::default())));
    let runs: Vec<_> = runs.filter_map(|(seed, broken)| Some((seed, broken?))).collect();
    assert!(runs.len() >= 4, "most schedules can be said on stock turmoil");
    runs.iter().for_each(|(seed, broken)| assert!(broken.is_empty(), "seed {seed}: {broken:?}"));
}
