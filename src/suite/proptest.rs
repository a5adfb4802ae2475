//! Property tests in Rust: plans for `proptest!`, and the verdict over one plan.
//!
//! ```no_run
//! use proptest::prelude::*;
//! use reknit::subjects::Counter;
//! use reknit::suite::{check, plans};
//!
//! proptest! {
//!     #[test]
//!     fn every_item_is_delivered_once(plan in plans(Counter)) {
//!         check(Counter, &plan)?;
//!     }
//! }
//! ```
//!
//! proptest draws the seed of each plan, shrinks a failing plan to a few steps, and saves its own
//! seed in a regression file. It repeats the saved seeds first in the next run.

use std::sync::Arc;

use ::proptest::test_runner::TestCaseError;
use anstream::adapter::strip_str;

use crate::frontend::Drawn;
use crate::hunt::random::HuntTarget;
use crate::hunt::{Checks, JudgedRun, examine};
use crate::report::story::{StoryFailure, failure};
use crate::scenario::{Expect, ScenarioFile};
use crate::schedule::draw::{Plans, strategy};
use crate::schedule::{Plan, Repertoire};
use crate::subject::{DynSubject, Subject};
use crate::world::Engine;

/// Columns of a story in the message of a failed test.
const WIDTH: usize = 100;

/// Returns a proptest strategy for the plans of a subject: the ones that `reknit hunt` draws.
///
/// # Panics
/// If the subject's own [swarm](Subject::swarm) is not a valid swarm file.
pub fn plans(subject: impl Subject) -> Plans {
    let subject: Arc<dyn DynSubject> = Arc::new(subject);
    let target = HuntTarget::default_for(&subject).unwrap_or_else(|mistake| panic!("{mistake}"));
    let repertoire: Arc<dyn Repertoire> = subject;
    strategy(&target.profile, &repertoire)
}

/// Runs a plan and checks every property of the subject.
///
/// # Errors
/// If a property is violated, with the story of the run and its scenario file; if the plan cannot
/// be run, with the reason.
pub fn check(subject: impl Subject, plan: &Plan) -> Result<(), TestCaseError> {
    let subject: Arc<dyn DynSubject> = Arc::new(subject);
    let case = JudgedRun { subject: &subject, plan, expect: &Expect::default() };
    let run = examine(case, &Checks::default())
        .map_err(|error| TestCaseError::fail(error.to_string()))?;
    if run.broken.is_empty() {
        return Ok(());
    }
    let replay = "reknit replay FILE, with the scenario file below";
    let broken = &run.broken;
    let drawn = Drawn { subject: &subject, plan, broken, engine: Engine::Event, replay };
    let again = drawn.repeat(Some(&run.history), None);
    let history = again.history.as_ref().unwrap_or(&run.history);
    let story = StoryFailure { plan, history, broken, origin: None, replay, picture: None };
    let file = ScenarioFile::of_plan(plan.clone(), "A plan that a property test drew").to_toml();
    let story = failure(&story, WIDTH);
    // proptest prints the message without change, also where there is no terminal.
    Err(TestCaseError::fail(format!("\n{}\n{file}", strip_str(&story))))
}
