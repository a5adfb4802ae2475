//! Many runs of a subject that can be told to misbehave toward the harness.

use std::sync::Arc;
use std::time::Duration;

use crate::history::Class;
use crate::property::{Promise, Retention, Work};
use crate::report::Verdict;
use crate::scenario::Scenario;
use crate::schedule::{Action, Limit, Limits, Operation, Plan, When};
use crate::subject::{Erased, HostContext, MilestoneDoc, Operated, Operations, Subject};

use super::{Check, Checks, Pool, Trouble, examine, tally};

/// A subject whose client answers all by itself.
struct Oracle;

/// What it can be asked.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Ask {
    /// The same answer in every run.
    Known {},
    /// Another answer in every run.
    Drawn {},
    /// No answer, and no end.
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

/// A number that differs from run to run.
fn unseeded() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}

impl Subject for Oracle {
    type Operation = Ask;

    fn name(&self) -> &'static str {
        "oracle"
    }

    fn about(&self) -> &'static str {
        "answers by itself"
    }

    fn limits(&self) -> &'static [Limit] {
        &[]
    }

    fn milestones(&self) -> &'static [MilestoneDoc] {
        &[MilestoneDoc { name: "oracle.client.asked", fields: &[], doc: "It was asked.", only: None }]
    }

    async fn serve(&self, _: HostContext) {
        std::future::pending().await
    }

    async fn drive(&self, host: HostContext, mut operations: Operated<Ask>) {
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

    fn promise(&self, _: &Limits) -> Promise {
        let second = Duration::from_secs(1);
        Promise {
            detection: second,
            recovery: second,
            attempt: second,
            round_trips: 1,
            back_off: second,
            session: second,
            retention: Retention { items: None, bytes: None },
            closed_retention: second,
            work: Work { attempts: 10, frames: 10, polls: 1000 },
            memory: Vec::new(),
            settle: second,
        }
    }
}

fn oracle() -> Arc<dyn Erased> {
    Arc::new(Oracle)
}

fn asking(verb: &str) -> Plan {
    let ask = Operation { verb: verb.into(), client: "client".into(), fields: serde_json::Map::new() };
    Plan::new("oracle").step(When::At(Duration::from_secs(1)), Action::Operation(ask))
}

fn all() -> Checks {
    Checks { check: Check::All, ..Checks::default() }
}

#[test]
fn a_run_that_comes_out_the_same_is_not_accused() {
    let examined = examine(&oracle(), &asking("known"), &all()).unwrap();
    assert_eq!((examined.broken, examined.repeated), (vec![], true));
}

#[test]
fn a_run_that_comes_out_another_way_breaks_same_digest_and_the_first_difference_is_named() {
    let examined = examine(&oracle(), &asking("drawn"), &all()).unwrap();
    let [broken] = &examined.broken[..] else { panic!("{:?}", examined.broken) };
    assert_eq!(broken.property, "same_digest");
    let start = "the run came out another way when it was repeated: after ";
    assert!(broken.sentence.starts_with(start), "{}", broken.sentence);
    assert!(broken.sentence.contains("came `1.000 s client: call 1 answered: "), "{}", broken.sentence);
}

#[test]
fn which_runs_are_repeated_depends_on_the_run_alone_and_is_about_a_sixteenth() {
    let repeated = |seed| {
        let plan = Plan { seed, ..asking("known") };
        examine(&oracle(), &plan, &Checks::default()).unwrap().repeated
    };
    let chosen: Vec<_> = (0..160).map(repeated).collect();
    assert_eq!(chosen, (0..160).map(repeated).collect::<Vec<_>>());
    let some = chosen.iter().filter(|repeated| **repeated).count();
    assert!((1..=40).contains(&some), "{some} of 160");
}

fn runs(plans: Vec<Plan>, pool: Pool) -> Result<super::Tally, Trouble> {
    let scenario = Scenario::of_plan(Plan::new("oracle"), "Asked");
    tally(&oracle(), &scenario, plans, &Checks { check: Check::None, ..Checks::default() }, &pool, |_| {})
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
    assert_eq!((alone.0, &alone.3), (20, &Verdict::Held));
    assert_eq!(alone.2.get("oracle.client.asked"), Some(&20));
}

#[test]
fn a_run_that_blocks_its_thread_is_reported_with_its_seed_and_the_others_are_done() {
    let plans =
        vec![Plan { seed: 1, ..asking("known") }, Plan { seed: 2, ..asking("spin") }, Plan { seed: 3, ..asking("known") }];
    let tally = runs(plans, Pool { jobs: 1, patience: Duration::from_millis(400) }).unwrap();
    let [stuck] = &tally.failed[..] else { panic!("{:?}", tally.failed) };
    assert_eq!((tally.runs, stuck.plan.seed, stuck.broken[0].property), (3, 2, "no_livelock"));
}

#[test]
fn a_plan_that_the_subject_cannot_run_is_trouble_and_no_verdict() {
    let trouble = runs(vec![asking("sing")], Pool::default()).unwrap_err();
    assert!(matches!(trouble, Trouble::Run(_)), "{trouble}");
    assert!(!trouble.to_string().contains('\n'));
}
