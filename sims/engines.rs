//! The two engines agree: scenario files, random schedules, and defects get the same verdict on the
//! event engine and on stock turmoil. A verdict is the set of violated properties of a run,
//! compared with the expectation of its file.
//!
//! A run takes about a second on turmoil. So every test run executes only a sample, always the same
//! one, and a release executes everything: `cargo test --release --test engines -- --ignored`. A
//! file that stock turmoil cannot express has the keys `engines` and `engines-because`. There are
//! few such files, and `docs/engines.md` lists them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reknit::hunt::random::HuntTarget;
use reknit::hunt::{JudgedRun, Pool, judge, plans};
use reknit::report::sentence;
use reknit::scenario::{Expect, ScenarioFile};
use reknit::schedule::Plan;
use reknit::subject::DynSubject;
use reknit::subjects::built_in;
use reknit::world::{Engine, Options, RunError};

/// Every test run takes one of this many files, and one of `SHARE_OF_SCHEDULES` random schedules.
const SHARE: usize = 36;
const SHARE_OF_SCHEDULES: usize = 110;

/// The number of random schedules per subject.
const SCHEDULES: usize = 250;

/// The maximum number of seeds per file.
const SEEDS: usize = 3;

/// The number of files with a defect on: in a full run, and in every test run.
const KILLS: (usize, usize) = (20, 2);

/// At most one of this many files may be for the event engine only.
const ONE_IN: usize = 5;

/// A run that must get the same verdict on both engines.
struct Both {
    name: String,
    subject: Arc<dyn DynSubject>,
    plan: Plan,
    expect: Expect,
}

/// The violated properties on one engine, each with a sentence of the report.
type Broken = BTreeMap<&'static str, String>;

/// The result of a comparison.
enum Compared {
    /// The verdicts agree; contains the violated properties.
    Same(BTreeSet<&'static str>),
    /// The verdicts differ.
    Differs(String),
    /// The run contains something that stock turmoil cannot express.
    Beyond,
}

impl Both {
    fn on(&self, engine: Engine) -> Result<Broken, RunError> {
        let case = JudgedRun { subject: &self.subject, plan: &self.plan, expect: &self.expect };
        let judged = judge(case, &Options { engine, ..Options::default() }, |_| false)?;
        Ok(judged.broken.iter().map(|broken| (broken.property, sentence(broken))).collect())
    }

    fn compared(&self) -> Compared {
        let ticks = match self.on(Engine::TURMOIL) {
            Ok(ticks) => ticks,
            Err(RunError::Unsupported(_)) => return Compared::Beyond,
            Err(error) => {
                return Compared::Differs(format!(
                    "{}, seed {}: {error}\n",
                    self.name, self.plan.seed
                ));
            }
        };
        let event = self.on(Engine::Event).expect("what runs on turmoil runs on the event engine");
        let broken: BTreeSet<_> = event.keys().copied().collect();
        if broken == ticks.keys().copied().collect() {
            return Compared::Same(broken);
        }
        let mut text = format!("{}, seed {}, {:?}:\n", self.name, self.plan.seed, self.plan.order);
        for (engine, broken) in [("event", event), ("turmoil", ticks)] {
            writeln!(text, "  {engine}: {broken:?}").expect("a string takes all");
        }
        Compared::Differs(text)
    }
}

/// The total of many comparisons.
#[derive(Default)]
struct Sum {
    same: usize,
    broke: usize,
    beyond: usize,
    differ: Vec<String>,
}

/// At most one of this many random schedules may contain what stock turmoil cannot express.
const ONE_BEYOND_IN: usize = 10;

/// Compares all of these, on as many threads as there are cores.
fn compare(all: Vec<Both>) -> Sum {
    let mut sum = Sum::default();
    let mut names: Vec<_> = all.iter().rev().map(|both| both.name.clone()).collect();
    let pool = Pool::default();
    pool.run(
        all.into_iter(),
        |both| both.compared(),
        |compared| {
            let name = names.pop().expect("each run has a name");
            match compared {
                Ok(Compared::Same(broken)) => {
                    sum.same += 1;
                    sum.broke += usize::from(!broken.is_empty());
                }
                Ok(Compared::Beyond) => sum.beyond += 1,
                Ok(Compared::Differs(text)) => {
                    eprint!("{text}");
                    sum.differ.push(text);
                }
                Err(lost) => sum.differ.push(format!("{name}: {lost}\n")),
            }
            ControlFlow::Continue(())
        },
    );
    println!(
        "{} the same ({} of them break), {} beyond turmoil, {} differ",
        sum.same,
        sum.broke,
        sum.beyond,
        sum.differ.len()
    );
    sum
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns all scenario files, with their subjects.
fn files() -> Vec<(ScenarioFile, Arc<dyn DynSubject>)> {
    let subjects = built_in();
    let mut paths: Vec<PathBuf> = Vec::new();
    for subject in &subjects {
        let folder = root().join("scenarios").join(subject.name());
        let there = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
        paths.extend(
            there.filter(|path| path.extension().is_some_and(|extension| extension == "toml")),
        );
    }
    paths.sort();
    let read = |path: &PathBuf| {
        let scenario = ScenarioFile::load(path, &subjects).unwrap();
        let subject =
            subjects.iter().find(|subject| subject.name() == scenario.subject).unwrap().clone();
        (scenario, subject)
    };
    paths.iter().map(read).collect()
}

fn name(scenario: &ScenarioFile) -> String {
    scenario.path.strip_prefix(root()).unwrap_or(&scenario.path).display().to_string()
}

/// Whether a file is for the event engine only.
fn is_exempt(scenario: &ScenarioFile) -> bool {
    scenario.not_on(Engine::TURMOIL).is_some()
}

/// Returns the runs of the files that are for both engines.
fn runs_of_files(seeds: usize) -> Vec<Both> {
    let mut all = Vec::new();
    for (scenario, subject) in files().into_iter().filter(|(scenario, _)| !is_exempt(scenario)) {
        for plan in plans::of(&scenario, &subject).into_iter().take(seeds) {
            let expect = plans::expected(&scenario);
            all.push(Both { name: name(&scenario), subject: subject.clone(), plan, expect });
        }
    }
    all
}

/// Returns random schedules of each subject, as a hunt draws them.
fn random(each: usize) -> Vec<Both> {
    let mut all = Vec::new();
    for subject in built_in() {
        let target = HuntTarget::default_for(&subject).unwrap();
        for seed in 1..=each as u64 {
            let name = format!("a random schedule of {}", subject.name());
            all.push(Both {
                name,
                subject: subject.clone(),
                plan: target.plan(seed),
                expect: Expect::default(),
            });
        }
    }
    all
}

/// Returns files with a defect on: for each, one seed with a violation on the event engine. Leaves out
/// defects that spin: an engine needs seconds of real time to notice that, and the pool waits no longer.
fn kills(most: usize) -> Vec<Both> {
    let mut all = Vec::new();
    for (scenario, subject) in files()
        .into_iter()
        .filter(|(scenario, _)| !is_exempt(scenario) && !plans::is_swarm(scenario))
    {
        let spins = |name: &&String| {
            let mut rows = subject.defects().iter();
            rows.any(|row| row.name == name.as_str() && row.breaks.contains(&"no_livelock"))
        };
        let Some(defect) = scenario.kills.first().filter(|defect| !spins(defect)) else { continue };
        for mut plan in plans::of(&scenario, &subject) {
            plan.defects.push(defect.clone());
            let expect = plans::expected(&scenario);
            let both = Both {
                name: format!("{} with {defect}", name(&scenario)),
                subject: subject.clone(),
                plan,
                expect,
            };
            if both.on(Engine::Event).is_ok_and(|broken| !broken.is_empty()) {
                all.push(both);
                break;
            }
        }
        if all.len() == most {
            break;
        }
    }
    all
}

fn hold(sum: &Sum) {
    assert!(sum.differ.is_empty(), "{} runs differ:\n{}", sum.differ.len(), sum.differ.concat());
}

fn hold_random(all: Vec<Both>) {
    let count = all.len();
    let sum = compare(all);
    hold(&sum);
    assert!(sum.beyond * ONE_BEYOND_IN <= count, "{} of {count} are beyond turmoil", sum.beyond);
}

#[test]
fn a_sample_of_the_files_agrees_on_both_engines() {
    let sum = compare(runs_of_files(1).into_iter().step_by(SHARE).collect());
    hold(&sum);
    assert_eq!(sum.beyond, 0, "a file that stock turmoil cannot run says so");
}

#[test]
fn some_random_schedules_agree_on_both_engines() {
    hold_random(random(SCHEDULES).into_iter().step_by(SHARE_OF_SCHEDULES).collect());
}

#[test]
fn some_defects_violate_the_same_properties_on_both_engines() {
    let sum = compare(kills(KILLS.1));
    hold(&sum);
    assert_eq!(sum.broke, sum.same);
}

#[test]
#[ignore = "it takes minutes, in a release"]
fn every_file_agrees_on_both_engines() {
    let sum = compare(runs_of_files(SEEDS));
    hold(&sum);
    assert_eq!(sum.beyond, 0, "a file that stock turmoil cannot run says so");
}

#[test]
#[ignore = "it takes minutes, in a release"]
fn random_schedules_agree_on_both_engines() {
    hold_random(random(SCHEDULES));
}

#[test]
#[ignore = "it takes minutes, in a release"]
fn defects_violate_the_same_properties_on_both_engines() {
    let sum = compare(kills(KILLS.0));
    hold(&sum);
    assert_eq!((sum.broke, sum.same), (KILLS.0, KILLS.0));
}

/// The page lists the files that are for the event engine only. With REKNIT_BLESS, the test writes
/// the list.
#[test]
fn the_page_lists_the_files_that_stock_turmoil_cannot_run() {
    const MARKS: (&str, &str) =
        ("<!-- drawn: REKNIT_BLESS=1 cargo test --test engines -->\n", "<!-- end -->\n");
    let files = files();
    let exempt: Vec<_> = files.iter().filter(|(scenario, _)| is_exempt(scenario)).collect();
    assert!(exempt.len() * ONE_IN <= files.len(), "{} of {} files", exempt.len(), files.len());
    let mut table = format!(
        "{} of {} files are for the event engine only:\n\n| file | why |\n|---|---|\n",
        exempt.len(),
        files.len()
    );
    for (scenario, _) in exempt {
        let why = scenario.not_on(Engine::TURMOIL).unwrap();
        writeln!(table, "| `{}` | {why} |", name(scenario)).expect("a string takes all");
    }
    let path = root().join("docs/engines.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(MARKS.0).expect("the page has a place for it");
    let (there, after) = rest.split_once(MARKS.1).expect("which has an end");
    if std::env::var_os("REKNIT_BLESS").is_some() {
        fs::write(&path, [before, MARKS.0, &table, MARKS.1, after].concat()).unwrap();
    } else {
        assert_eq!(there, table, "REKNIT_BLESS=1 cargo test --test engines writes it anew");
    }
}
