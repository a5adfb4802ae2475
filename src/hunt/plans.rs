//! Which plans a scenario stands for, one for each seed of a schedule, or one drawn for each seed of a swarm; and what is
//! expected of each.

use std::sync::Arc;

use crate::scenario::{Body, Expect, ScenarioFile};
use crate::schedule::Plan;
use crate::subject::DynSubject;

/// Whether its plans are drawn; then what it expects, it expects of all its runs together.
pub fn is_swarm(scenario: &ScenarioFile) -> bool {
    matches!(scenario.body, Body::Swarm(_))
}

/// All its plans, in order.
pub fn of(scenario: &ScenarioFile, subject: &Arc<dyn DynSubject>) -> Vec<Plan> {
    match &scenario.body {
        Body::Schedule(_) => scenario.plans(),
        Body::Swarm(_) => scenario.drawn(subject).collect(),
    }
}

/// What is expected of each run by itself: all that a schedule expects, nothing that a swarm does.
pub fn expected(scenario: &ScenarioFile) -> Expect {
    if is_swarm(scenario) { Expect::default() } else { scenario.expect.clone() }
}

/// Changes which seeds it is run with: the first, and how many. What is `None` stays as the file says.
pub fn with_seeds(scenario: &mut ScenarioFile, first: Option<u64>, count: Option<u64>) {
    let (seed, seeds) = match &mut scenario.body {
        Body::Schedule(_) => (&mut scenario.first_seed, &mut scenario.seeds),
        Body::Swarm(profile) => (&mut profile.first_seed, &mut profile.runs),
    };
    *seed = first.unwrap_or(*seed);
    *seeds = count.unwrap_or(*seeds);
}
