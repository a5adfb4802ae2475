//! Runs of the built-in subject `counter`, shrunk.

use super::*;
use crate::property::About;
use crate::property::violation::sample_violation;
use crate::schedule::{Profile, draw};

fn counter() -> Arc<dyn DynSubject> {
    Arc::new(crate::subjects::Counter)
}

/// Finds the first random schedule under a defect that violates one of the properties that the
/// defect is declared to violate.
fn first_failing(defect: &str) -> (Plan, Violation) {
    let subject = counter();
    let breaks = subject
        .defects()
        .iter()
        .find(|it| it.name == defect)
        .expect("the defect is in the table")
        .breaks;
    let profile = Profile { defects: vec![defect.into()], ..Profile::of_schemas(&*subject) };
    let broken = |seed| {
        let plan = draw::plan(&profile, &*subject, seed);
        let case = JudgedRun { subject: &subject, plan: &plan, expect: &Expect::default() };
        let judged = judge(case, &Options::default(), |_| false).unwrap();
        let broken: Vec<_> =
            judged.broken.into_iter().filter(|broken| breaks.contains(&broken.property)).collect();
        Some((plan, main_problem(&broken)?.clone()))
    };
    (1..200).find_map(broken).expect("a swarm finds it")
}

fn small(plan: &Plan, broken: &Violation, expect: &Expect) -> Result<Shrunk, NotShrunk> {
    let case = JudgedRun { subject: &counter(), plan, expect };
    shrink(case, broken, &Budget::default(), |_| ControlFlow::Continue(()))
}

/// Checks that a random schedule under a defect shrinks to at most three steps, and to the same
/// steps both times. The result must violate the same property of the same stream after it is
/// written to a file and read back.
fn comes_down(defect: &str) {
    let (plan, broken) = first_failing(defect);
    let shrunk = small(&plan, &broken, &Expect::default()).unwrap();
    let steps = shrunk.plan.steps.len();
    assert!(
        steps <= 3 && steps <= plan.steps.len(),
        "{steps} steps of {}: {:#?}",
        plan.steps.len(),
        shrunk.plan.steps
    );
    assert_eq!(
        (shrunk.broken[0].property, shrunk.broken[0].stream()),
        (broken.property, broken.stream())
    );
    assert_eq!(shrunk.plan.defects, [defect]);
    let again = small(&plan, &broken, &Expect::default()).unwrap();
    assert_eq!(
        (&again.plan, again.runs, again.judged.statement()),
        (&shrunk.plan, shrunk.runs, shrunk.judged.statement())
    );
    let file = shrunk.scenario("kept").to_toml();
    let read = ScenarioFile::parse(&file, "-", &[counter()]).unwrap();
    assert_eq!(read.plans(), std::slice::from_ref(&shrunk.plan));
    assert!(shrunk.runs <= Budget::default().runs);
}

#[test]
fn a_gap_shrinks_to_a_few_steps() {
    comes_down("resumes-one-too-late");
}

#[test]
fn a_panic_shrinks_to_a_few_steps() {
    comes_down("panics-behind-retention");
}

#[test]
fn a_changing_reason_shrinks_to_a_few_steps() {
    comes_down("reason-changes");
}

#[test]
fn an_unjustified_failure_shrinks_to_a_few_steps() {
    comes_down("gives-up-at-first-reset");
}

#[test]
fn a_residue_shrinks_to_a_few_steps() {
    comes_down("session-never-expires");
}

#[test]
fn stopping_early_returns_the_smallest_plan_so_far() {
    let (plan, broken) = first_failing("resumes-one-too-late");
    let case = JudgedRun { subject: &counter(), plan: &plan, expect: &Expect::default() };
    let five_runs = |so_far: ShrinkProgress<'_>| {
        if so_far.runs < 5 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let interrupted = shrink(case, &broken, &Budget::default(), five_runs).unwrap();
    let budget = Budget { runs: 5, ..Budget::default() };
    let poor = shrink(case, &broken, &budget, |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((interrupted.runs, poor.runs, &interrupted.plan), (5, 5, &poor.plan));
    let nothing =
        shrink(case, &broken, &Budget { runs: 0, ..budget }, |_| ControlFlow::Continue(()))
            .unwrap();
    assert_eq!(
        (nothing.runs, nothing.plan.steps.len(), nothing.from),
        (0, plan.steps.len(), plan.steps.len())
    );
}

/// A run with a bug that no property detects without a control run. An expectation in the file does
/// detect it.
fn half_open() -> (Plan, Expect) {
    let subjects = [counter()];
    let scenario = ScenarioFile::load(
        "scenarios/counter/half-open-toward-the-client.toml".as_ref(),
        &subjects,
    )
    .unwrap();
    let mut plan = scenario.plans().remove(0);
    plan.defects.push("stale-close-disconnects".into());
    (plan, scenario.expect)
}

fn all_broken(plan: &Plan, expect: &Expect) -> Vec<Violation> {
    judge(JudgedRun { subject: &counter(), plan, expect }, &Options::default(), |_| true)
        .unwrap()
        .broken
}

#[test]
fn a_violation_seen_only_with_a_control_run_shrinks_with_control_runs() {
    let (plan, _) = half_open();
    let [broken, ..] = &all_broken(&plan, &Expect::default())[..] else { panic!("it must break") };
    let shrunk = small(&plan, broken, &Expect::default()).unwrap();
    assert_eq!((shrunk.broken[0].property, shrunk.has_control()), ("stale_generation_inert", true));
}

#[test]
fn a_shrunk_unmet_expectation_keeps_its_expectation_in_the_file() {
    let (plan, expect) = half_open();
    let broken: Vec<_> =
        all_broken(&plan, &expect).into_iter().filter(|broken| broken.property == EXPECT).collect();
    let broken = main_problem(&broken).expect("something is expected in vain").clone();
    let shrunk = small(&plan, &broken, &expect).unwrap();
    let read = ScenarioFile::parse(&shrunk.scenario("kept").to_toml(), "-", &[counter()]).unwrap();
    assert_eq!((shrunk.has_control(), &read.expect), (false, &shrunk.expect));
    assert_eq!(
        all_broken(&read.plans()[0], &read.expect).iter().find(|it| it.property == EXPECT),
        shrunk.broken.first()
    );
}

#[test]
fn a_run_without_the_violation_cannot_be_shrunk() {
    let (plan, broken) = first_failing("resumes-one-too-late");
    let good = Plan { defects: Vec::new(), ..plan.clone() };
    assert_eq!(small(&good, &broken, &Expect::default()).unwrap_err(), NotShrunk::Held("gap_free"));
    let unlike = Violation { property: "same_digest", ..broken };
    assert_eq!(
        small(&plan, &unlike, &Expect::default()).unwrap_err(),
        NotShrunk::NotTheSame("same_digest")
    );
}

#[test]
fn the_main_violation_is_of_a_property_and_of_its_shortest_stream_name() {
    let broken = |property, stream: Option<&str>| {
        let subject = stream.map_or(About::Run, |stream| About::Stream(stream.into()));
        sample_violation(property, subject, crate::history::Time::ZERO, "it broke")
    };
    let all = [
        broken(EXPECT, None),
        broken("gap_free", Some("s1.4")),
        broken("gap_free", Some("s2")),
        broken("one_ending", Some("s")),
    ];
    assert_eq!(main_problem(&all), Some(&all[2]));
    assert_eq!((main_problem(&all[..1]), main_problem(&[])), (Some(&all[0]), None));
}

#[test]
fn numbers_in_the_names_of_streams_are_not_compared() {
    let like = |one: &str, other: &str| is_like(Some(&one.into()), Some(&other.into()));
    assert!(like("read-12", "read-3") && like("call 7 of s1", "call 10 of s2") && like("7", "12"));
    assert!(!like("read-1", "write-1") && !like("s1", "p1"));
    assert!(is_like(None, None) && !is_like(Some(&"s1".into()), None));
}
