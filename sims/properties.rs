//! Property tests in Rust: `proptest!` draws plans of each subject, runs the protocol in a world,
//! and shrinks a failing plan. Regression files are in `sims/proptest-regressions`.

use proptest::prelude::*;
use proptest::test_runner::{FileFailurePersistence, RngAlgorithm, TestError, TestRng, TestRunner};
use reknit::subjects::{Counter, Exec, Toolcall};
use reknit::suite::{check, plans};

/// A few plans, after the saved ones of this regression file.
fn with_regressions(file: &'static str) -> ProptestConfig {
    ProptestConfig {
        cases: 40,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(file))),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(with_regressions("sims/proptest-regressions/counter.txt"))]
    #[test]
    fn counter_is_gap_free_or_fails_explicitly(plan in plans(Counter)) {
        check(Counter, &plan)?;
    }
}

proptest! {
    #![proptest_config(with_regressions("sims/proptest-regressions/exec.txt"))]
    #[test]
    fn exec_is_gap_free_or_fails_explicitly(plan in plans(Exec)) {
        check(Exec, &plan)?;
    }
}

proptest! {
    #![proptest_config(with_regressions("sims/proptest-regressions/toolcall.txt"))]
    #[test]
    fn toolcall_is_gap_free_or_fails_explicitly(plan in plans(Toolcall)) {
        check(Toolcall, &plan)?;
    }
}

/// proptest finds a seeded bug, shrinks the plan to at most three steps, and prints its story.
#[test]
fn a_seeded_bug_is_found_and_shrunk() {
    let config =
        ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() };
    let with_bug = plans(Counter).prop_map(|mut plan| {
        plan.defects = ["resumes-one-too-late".into()].into_iter().collect();
        plan
    });
    // How far a plan shrinks depends on the draw, so the draw is the same every time.
    let draw = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let found = TestRunner::new_with_rng(config, draw).run(&with_bug, |plan| check(Counter, &plan));
    let Err(TestError::Fail(reason, plan)) = found else { panic!("{found:?}") };
    assert!(plan.steps.len() <= 3, "{plan:?}");
    assert!(reason.message().contains("FAIL  counter  gap_free"), "{reason}");
    assert!(reason.message().contains("[[step]]"), "{reason}");
}
