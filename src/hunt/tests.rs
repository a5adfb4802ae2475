//! Many runs of a subject that can be made to violate the harness's rules, such as determinism.

use std::sync::Arc;
use std::time::Duration;

use crate::history::Class;
use crate::property::{Guarantees, WorkBounds};
use crate::report::sentence;
use crate::scenario::{Expect, ScenarioFile};
use crate::schedule::{Action, Limits, Operation, Plan, When};
use crate::subject::{DynSubject, HostContext, MilestoneDoc, OperationQueue, Operations, Subject};

use crate::world::{Engine, Options, RunError, Tick};

use super::verdict::ScenarioVerdict;
use super::{
    Check, Checks, Examined, FreshProcess, HuntError, JudgedRun, Pool, examine, fresh, judge, tally,
};

mod uploads;

/// A subject whose client answers each call itself.
struct EchoSubject;

/// The calls that it accepts.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Ask {
    /// The same answer in every run.
    Known {},
    /// A different answer in every run.
    Drawn {},
    /// An endless loop without an answer.
    Spin {},
}

impl Operations for Ask {
    fn class(&self) -> Class {
        Class::Durable
    }

    fn strategy(_: &Plan) -> proptest::strategy::BoxedStrategy<Self> {
        use proptest::strategy::{Just, Strategy};
        Just(Ask::Known {}).boxed()
    }
}

/// Returns a number that differs from run to run.
fn unseeded() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}

impl Subject for EchoSubject {
    type Operation = Ask;

    fn name(&self) -> &'static str {
        "oracle"
    }

    fn description(&self) -> &'static str {
        "answers by itself"
    }

    fn milestones(&self) -> &'static [MilestoneDoc] {
        &[MilestoneDoc {
            name: "oracle.client.asked",
            fields: &[],
            doc: "It was asked.",
            only: None,
        }]
    }

    async fn serve(&self, _: HostContext) {
        std::future::pending().await
    }

    async fn drive(&self, host: HostContext, mut operations: OperationQueue<Ask>) {
        while let Some((call, ask)) = operations.next().await {
            crate::milestone!("oracle.client.asked");
            match ask {
                Ask::Known {} => host.record.answered(call, "42"),
                Ask::Drawn {} => host.record.answered(call, unseeded().to_string()),
                Ask::Spin {} => loop {
                    std::thread::park();
                },
            }
        }
    }

    fn guarantees(&self, _: &Limits) -> Guarantees {
        Guarantees {
            work: WorkBounds { frames: 10, polls: 1000, ..Guarantees::default().work },
            ..Guarantees::default()
        }
    }
}

fn oracle() -> Arc<dyn DynSubject> {
    Arc::new(EchoSubject)
}

fn asking(verb: &str) -> Plan {
    let ask =
        Operation { verb: verb.into(), client: "client".into(), fields: serde_json::Map::new() };
    Plan::new("oracle").step(When::At(Duration::from_secs(1)), Action::Operation(ask))
}

fn all() -> Checks {
    Checks { check: Check::All, ..Checks::default() }
}

fn examined(plan: &Plan, checks: &Checks) -> Result<Examined, RunError> {
    examine(JudgedRun { subject: &oracle(), plan, expect: &Expect::default() }, checks)
}

#[test]
fn a_deterministic_run_has_no_violation() {
    let examined = examined(&asking("known"), &all()).unwrap();
    assert_eq!((examined.broken, examined.repeated), (vec![], true));
}

#[test]
fn a_nondeterministic_run_violates_same_digest_and_names_the_first_difference() {
    let examined = examined(&asking("drawn"), &all()).unwrap();
    let [broken] = &examined.broken[..] else { panic!("{:?}", examined.broken) };
    assert_eq!(broken.property, "same_digest");
    let start = "the run diverged when it was repeated: after ";
    assert!(sentence(broken).starts_with(start), "{broken:?}");
    assert!(
        sentence(broken).contains("the first run had `1.000 s client: call 1 answered: "),
        "{broken:?}"
    );
}

#[test]
fn about_one_run_in_32_is_repeated_and_the_choice_depends_only_on_the_run() {
    let repeated = |seed| {
        let plan = Plan { seed, ..asking("known") };
        examined(&plan, &Checks::default()).unwrap().repeated
    };
    let chosen: Vec<_> = (0..320).map(repeated).collect();
    assert_eq!(chosen, (0..320).map(repeated).collect::<Vec<_>>());
    let some = chosen.iter().filter(|repeated| **repeated).count();
    assert!((2..=25).contains(&some), "{some} of 320");
}

fn runs(plans: Vec<Plan>, pool: Pool) -> Result<super::ScenarioTally, HuntError> {
    let scenario = ScenarioFile::of_plan(Plan::new("oracle"), "Asked");
    tally(
        &oracle(),
        &scenario,
        plans,
        &Checks { check: Check::None, ..Checks::default() },
        &pool,
        |_| {},
    )
}

#[test]
fn runs_are_summed_up_the_same_way_on_any_number_of_threads() {
    let summed = |jobs| {
        let plans = (0..20).map(|seed| Plan { seed, ..asking("known") }).collect();
        let tally = runs(plans, Pool { jobs, ..Pool::default() }).unwrap();
        (tally.runs, tally.virtual_time, tally.milestones.clone(), tally.verdict(None))
    };
    let alone = summed(1);
    assert_eq!(alone, summed(4));
    assert_eq!((alone.0, &alone.3), (20, &ScenarioVerdict::Held));
    assert_eq!(alone.2.get("oracle.client.asked"), Some(&20));
}

#[test]
fn a_run_that_blocks_its_thread_is_reported_with_its_seed_and_the_others_finish() {
    let plans = vec![
        Plan { seed: 1, ..asking("known") },
        Plan { seed: 2, ..asking("spin") },
        Plan { seed: 3, ..asking("known") },
    ];
    let tally = runs(plans, Pool { jobs: 1, patience: Duration::from_millis(400) }).unwrap();
    let [stuck] = &tally.failed[..] else { panic!("{:?}", tally.failed) };
    assert_eq!((tally.runs, stuck.plan.seed, stuck.broken[0].property), (3, 2, "no_livelock"));
}

#[test]
fn a_plan_that_the_subject_cannot_run_is_an_error_and_not_a_verdict() {
    let hunt_error = runs(vec![asking("sing")], Pool::default()).unwrap_err();
    assert!(matches!(hunt_error, HuntError::Run(_)), "{hunt_error}");
    assert!(!hunt_error.to_string().contains('\n'));
}

#[test]
fn plans_that_the_engine_does_not_support_are_left_out() {
    let subjects = crate::subjects::built_in();
    let plan = |name: &str| {
        let file = format!("scenarios/counter/{name}.toml");
        ScenarioFile::load(file.as_ref(), &subjects).unwrap().plans().remove(0)
    };
    let beyond = plan("refused-hung-and-closed-while-recovering");
    let plain = plan("short-cut-while-numbers-flow");
    let scenario = ScenarioFile::of_plan(plain.clone(), "Some plans");
    let checks = Checks { check: Check::None, engine: Engine::TURMOIL, ..Checks::default() };
    let runs = |plans: Vec<Plan>| {
        tally(&crate::subjects::counter(), &scenario, plans, &checks, &Pool::default(), |_| {})
    };
    let some = runs(vec![beyond.clone(), plain]).unwrap();
    assert_eq!((some.runs, some.unsupported, some.verdict(None)), (1, 1, ScenarioVerdict::Held));
    assert_eq!((some.totals(&[]).schedules, some.totals(&[]).unsupported), (1, 1));
    let none = runs(vec![beyond]).unwrap_err();
    assert!(matches!(none, HuntError::Run(RunError::Unsupported(_))), "{none}");
}

/// A run with a bug that no property detects without a control run. An expectation in the file does
/// detect it.
fn half_open() -> (Arc<dyn DynSubject>, Plan, Expect) {
    let subjects = crate::subjects::built_in();
    let scenario = ScenarioFile::load(
        "scenarios/counter/half-open-toward-the-client.toml".as_ref(),
        &subjects,
    )
    .unwrap();
    let mut plan = scenario.plans().remove(0);
    plan.defects.push("stale-close-disconnects".into());
    (crate::subjects::counter(), plan, scenario.expect)
}

/// Returns the verdict in this process, and the answer that a fresh process would give.
fn here_and_there(control: bool, expect: Expect) -> (Vec<&'static str>, String, String) {
    on_an_engine(Engine::Event, control, expect)
}

/// The same on any engine.
fn on_an_engine(
    engine: Engine,
    control: bool,
    expect: Expect,
) -> (Vec<&'static str>, String, String) {
    let (subject, plan, _) = half_open();
    let options = Options { engine, ..Options::default() };
    let here =
        judge(JudgedRun { subject: &subject, plan: &plan, expect: &expect }, &options, |_| control)
            .unwrap();
    let file = ScenarioFile { expect, ..ScenarioFile::of_plan(plan, "asked") }.to_toml();
    let how = fresh::how(engine, control);
    let how: Vec<_> = how.iter().map(String::as_str).collect();
    let mut broken: Vec<_> = here.broken.iter().map(|broken| broken.property).collect();
    broken.dedup();
    (broken, here.statement(), fresh::answer(&file, &how, &[subject]).unwrap())
}

#[test]
fn a_fresh_process_has_the_same_ticks() {
    let [fine, coarse] =
        [Engine::TURMOIL, Engine::Turmoil(Tick::of(Duration::from_millis(50)).unwrap())]
            .map(|engine| on_an_engine(engine, false, Expect::default()));
    assert_eq!((&fine.1, &coarse.1), (&fine.2, &coarse.2));
    assert_ne!(fine.1, coarse.1);
}

#[test]
fn a_fresh_process_finds_a_violation_that_needs_a_control_run() {
    let (broken, here, there) = here_and_there(true, Expect::default());
    assert_eq!((broken, &here), (vec!["stale_generation_inert"], &there));
    assert_eq!(here_and_there(false, Expect::default()).0, Vec::<&str>::new());
}

#[test]
fn a_fresh_process_finds_an_unmet_expectation() {
    let (broken, here, there) = here_and_there(false, half_open().2);
    assert_eq!((broken, here), (vec!["expect"], there));
}

#[test]
fn an_unmet_expectation_is_confirmed_in_a_fresh_process() {
    let (subject, plan, expect) = half_open();
    let checks =
        Checks { check: Check::None, fresh: Some(FreshProcess::of("false")), ..Checks::default() };
    let broken = examine(JudgedRun { subject: &subject, plan: &plan, expect: &expect }, &checks)
        .unwrap()
        .broken;
    let [expected, .., unlike] = &broken[..] else { panic!("{broken:?}") };
    assert_eq!((expected.property, unlike.property), ("expect", "same_digest"));
    let start = "the run could not be verified: a fresh process ";
    assert!(sentence(unlike).starts_with(start), "{unlike:?}");
}
