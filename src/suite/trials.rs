//! The tests of one suite.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::hunt::{Check, Checks, ScenarioTally, plans};
use crate::report::phrases;
use crate::scenario::expect::EXPECT;
use crate::scenario::{ScenarioFile, Snapshot};
use crate::world::Engine;

use super::failure::{self, TestFailure};
use super::runner::TestCase;
use super::{File, Suite};

/// Returns all tests of a suite. Slow tests come first: a slow test at the end would leave the
/// other threads idle. Tests that look at all files come last, when the runs of the files are done.
pub fn of(suite: &Arc<Suite>) -> Vec<TestCase> {
    let of_all = |what: &str| format!("{}::{what}", suite.subject.name());
    let mut trials = vec![
        test(suite, of_all("same_digest"), same_digest),
        test(suite, suite.swarm.name.clone(), |suite| holds(suite, &suite.swarm)),
    ];
    let mut files: Vec<_> = suite.files.iter().enumerate().collect();
    files.sort_by_key(|(_, file)| !file.scenario.as_ref().is_ok_and(plans::is_swarm));
    for (n, file) in files {
        trials.push(test(suite, file.name.clone(), move |suite| holds(suite, &suite.files[n])));
        let Ok(scenario) = &file.scenario else { continue };
        for defect in scenario.kills.clone() {
            let name = format!("{}::kills::{defect}", file.name);
            trials.push(test(suite, name, move |suite| kills(suite, &suite.files[n], &defect)));
        }
        if scenario.engines.iter().any(|engine| engine.is_like(Engine::TURMOIL)) {
            let name = format!("{}::turmoil", file.name);
            trials.push(test(suite, name, move |suite| holds_on_turmoil(suite, &suite.files[n])));
        }
    }
    trials.push(test(suite, of_all("ledger"), ledger));
    trials.push(test(suite, of_all("snapshots"), snapshots));
    trials.push(test(suite, of_all("reached"), reached));
    trials
}

/// The result of a test: a summary of the runs, or the failure.
type Tested = Result<String, TestFailure>;

fn test(
    suite: &Arc<Suite>,
    name: String,
    check: impl FnOnce(&Suite) -> Tested + Send + 'static,
) -> TestCase {
    let suite = suite.clone();
    TestCase::new(name.clone(), move || {
        let tested = check(&suite);
        suite.diary.enter(suite.subject.name(), name, &tested);
        tested.map(drop).map_err(|wrong| wrong.text)
    })
}

/// Checks that every seed of a file holds; a canary must fail.
fn holds(suite: &Suite, file: &File) -> Tested {
    let tally = suite.tally(file)?;
    let scenario = file.scenario.as_ref().map_err(Clone::clone)?;
    failure::unless_good(&suite.subject, scenario, &tally, Engine::Event)
}

/// The number of runs of a file on stock turmoil: each takes seconds there, but milliseconds on the
/// event engine.
const ON_TURMOIL: usize = 1;

/// Checks the same on stock turmoil.
fn holds_on_turmoil(suite: &Suite, file: &File) -> Tested {
    let scenario = file.scenario.as_ref().map_err(Clone::clone)?;
    let checks = Checks { engine: Engine::TURMOIL, ..suite.checks(scenario) };
    let mut plans = plans::of(scenario, &suite.subject);
    plans.truncate(ON_TURMOIL);
    let tally = suite.run(scenario, plans, checks)?;
    failure::unless_good(&suite.subject, scenario, &tally, Engine::TURMOIL)
}

/// The properties that a single run cannot check.
const SHOWN_BY_REPEATING: [&str; 2] = ["same_digest", "stale_generation_inert"];

/// Checks that at least one seed of the file fails with the defect switched on.
fn kills(suite: &Suite, file: &File, defect: &str) -> Tested {
    let scenario = file.scenario.as_ref().map_err(Clone::clone)?;
    let mut plans = plans::of(scenario, &suite.subject);
    plans.iter_mut().for_each(|plan| plan.defects.push(defect.to_owned()));
    let known = suite.subject.defects().iter().find(|known| known.name == defect);
    let by_repeating = known.is_none_or(|known| {
        known.breaks.iter().any(|property| SHOWN_BY_REPEATING.contains(property))
    });
    let check = if by_repeating { Check::All } else { Check::None };
    let checks = Checks { check, fresh: None, ..suite.checks(scenario) };
    // Counts only the properties that the defect is declared to violate. The file's own expectations are
    // called `expect`.
    let breaks = |property: &str| known.is_none_or(|known| known.breaks.contains(&property));
    let runs = plans.len();
    // One failed run is enough. A swarm's expectations apply to all its runs together, so a swarm
    // runs as one chunk.
    let at_once = if plans::is_swarm(scenario) { runs.max(1) } else { 1 };
    for some in plans.chunks(at_once) {
        let tally = suite.run(scenario, some.to_vec(), checks.clone())?;
        if tally
            .failed
            .iter()
            .flat_map(|failed| &failed.broken)
            .any(|broken| breaks(broken.property))
            || (!tally.unmet.is_empty() && breaks(EXPECT))
        {
            return Ok(format!("found in {} at most", phrases::count(runs as u64, "run")));
        }
    }
    let file = scenario.path.display();
    Err(TestFailure::from(format!(
        "with `{defect}` enabled, none of {runs} runs of {file} violated a property that the defect breaks"
    )))
}

/// Checks that every rule has a scenario that shows it. If the subject has defects, one of these
/// scenarios must detect a defect.
fn ledger(suite: &Suite) -> Tested {
    let scenarios = || suite.files.iter().flat_map(|file| &file.scenario);
    let has_defects = !suite.subject.defects().is_empty();
    let shown = |rule: &str| {
        scenarios().any(|it| {
            it.source.iter().any(|id| id == rule) && !(has_defects && it.kills.is_empty())
        })
    };
    let rules = suite.subject.rules().iter().filter(|rule| !shown(rule.id));
    let missing: Vec<_> = rules.map(|rule| format!("  {}: {}", rule.id, rule.doc)).collect();
    if missing.is_empty() {
        return Ok(phrases::count(suite.subject.rules().len() as u64, "rule"));
    }
    let what = if has_defects { "no scenario with `kills` covers" } else { "no scenario covers" };
    Err(format!("{what} these rules:\n{}", missing.join("\n")).into())
}

/// Checks that no file lacks a snapshot if another one has one, and that each snapshot has a
/// scenario.
fn snapshots(suite: &Suite) -> Tested {
    let scenarios: Vec<_> =
        suite.files.iter().filter_map(|file| file.scenario.as_ref().ok()).collect();
    let known = scenarios.iter().filter(|it| it.snapshot.is_some()).count();
    if known == 0 {
        return Ok("no snapshots".into());
    }
    let paths: BTreeSet<PathBuf> = scenarios.iter().map(|it| Snapshot::path(&it.path)).collect();
    let folders: BTreeSet<&Path> = paths.iter().filter_map(|path| path.parent()).collect();
    let files = folders.into_iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
    let orphans = files.flatten().map(|file| file.path()).filter(|path| !paths.contains(path));
    let orphans = orphans.map(|path| format!("{}: it has no scenario; delete it", path.display()));
    let can_have = |it: &&&ScenarioFile| {
        it.snapshot.is_none() && it.expect.breaks.is_none() && it.not_on(Engine::Event).is_none()
    };
    let missing = scenarios.iter().filter(can_have).map(|it| {
        let file = it.path.display();
        format!("{file}: it has no snapshot; `reknit run {file} --update-snapshots` takes one")
    });
    let wrong: Vec<_> = orphans.chain(missing).collect();
    match wrong.is_empty() {
        true => Ok(phrases::count(known as u64, "snapshot")),
        false => Err(wrong.join("\n").into()),
    }
}

/// Checks that the files together reach every milestone and point of the product. Without files,
/// random schedules must reach them.
fn reached(suite: &Suite) -> Tested {
    let mut all = ScenarioTally::default();
    let alone = suite.files.is_empty().then_some(&suite.swarm);
    for file in suite.files.iter().chain(alone) {
        all.absorb(&*suite.tally(file)?);
    }
    let unreached = all.unreached(&suite.subject);
    match unreached.is_empty() {
        true => Ok(phrases::count(all.runs, "run")),
        false => Err(format!("no run reached these:\n  {}", unreached.join("\n  ")).into()),
    }
}

/// The number of repeated seeds per file, and of repeated random schedules. Each is repeated with
/// its control run, so one run costs four. Of all other runs, a share is repeated in the tests that
/// run them.
const REPEATED: (u64, u64) = (1, 15);

/// Checks that runs are deterministic.
fn same_digest(suite: &Suite) -> Tested {
    let mut runs = 0;
    for file in suite.files.iter().chain([&suite.swarm]) {
        let Ok(scenario) = &file.scenario else { continue };
        let mut scenario = scenario.clone();
        let (seed, seeds) = match plans::is_swarm(&scenario) {
            true => (suite.asked.seed, suite.asked.runs.unwrap_or(REPEATED.1)),
            false => (None, REPEATED.0.min(scenario.seeds)),
        };
        plans::with_seeds(&mut scenario, seed, Some(seeds));
        if scenario.expect.breaks.as_deref() == Some("same_digest") {
            continue;
        }
        let plans = plans::of(&scenario, &suite.subject);
        let mut tally =
            suite.run(&scenario, plans, Checks { check: Check::All, ..suite.checks(&scenario) })?;
        tally.unmet.clear();
        tally
            .failed
            .retain(|failed| failed.broken.iter().any(|broken| broken.property == "same_digest"));
        scenario.expect.breaks = None;
        failure::unless_good(&suite.subject, &scenario, &tally, Engine::Event)?;
        runs += tally.runs;
    }
    Ok(format!("{}, each repeated", phrases::count(runs, "run")))
}
