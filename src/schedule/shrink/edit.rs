//! Small changes of a plan, and what a pass knows when it makes them.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::schedule::Plan;

/// What the shrinker is told of the run of the best plan so far. Without it, times are only rounded and made shorter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunObservations {
    /// When each step happened, by its number from 0; a step that did not is not there.
    pub steps: BTreeMap<usize, Duration>,
    /// The milestones in order, with their times.
    pub milestones: Vec<(Duration, String)>,
}

/// A small change of a plan.
pub(super) type Edit = Box<dyn Fn(&mut Plan)>;
