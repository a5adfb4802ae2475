//! The plans of a scenario, and what each run is expected to show. A schedule has one plan for each
//! seed; a swarm draws one plan for each seed.

use std::sync::Arc;

use crate::scenario::{Body, Expect, ScenarioFile};
use crate::schedule::Plan;
use crate::subject::DynSubject;

/// Returns whether the scenario is a swarm: its plans are drawn, and its expectations apply to all
/// runs together.
pub fn is_swarm(scenario: &ScenarioFile) -> bool {
    matches!(scenario.body, Body::Swarm(_))
}

/// Returns all plans of the scenario, in order.
pub fn of(scenario: &ScenarioFile, subject: &Arc<dyn DynSubject>) -> Vec<Plan> {
    match &scenario.body {
        Body::Schedule(_) => scenario.plans(),
        Body::Swarm(_) => scenario.drawn(subject).collect(),
    }
}

/// Returns the number of plans of the scenario, without making them.
pub fn count(scenario: &ScenarioFile) -> u64 {
    match &scenario.body {
        Body::Schedule(_) if scenario.both_orders => scenario.seeds.saturating_mul(2),
        Body::Schedule(_) => scenario.seeds,
        Body::Swarm(profile) => profile.runs,
    }
}

/// Returns the expectations of each single run: all of those of a schedule, none of those of a
/// swarm.
pub fn expected(scenario: &ScenarioFile) -> Expect {
    if is_swarm(scenario) { Expect::default() } else { scenario.expect.clone() }
}

/// Changes the first seed and the number of seeds. `None` keeps the value from the file. If the
/// snapshot shows other runs, it is dropped.
pub fn with_seeds(scenario: &mut ScenarioFile, first: Option<u64>, count: Option<u64>) {
    if first.is_some() || (count.is_some() && is_swarm(scenario)) {
        scenario.snapshot = None;
    }
    let (seed, seeds) = match &mut scenario.body {
        Body::Schedule(_) => (&mut scenario.first_seed, &mut scenario.seeds),
        Body::Swarm(profile) => (&mut profile.first_seed, &mut profile.runs),
    };
    *seed = first.unwrap_or(*seed);
    *seeds = count.unwrap_or(*seeds);
}
