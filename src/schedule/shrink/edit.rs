//! Small changes of a plan, and the observations that a pass can use for them.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::schedule::Plan;

/// Observations from the run of the best plan so far. Without them, the shrinker only rounds and
/// shortens times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunObservations {
    /// The time of each step, by its number from 0. A step that did not happen has no entry.
    pub steps: BTreeMap<usize, Duration>,
    /// The milestones with their times, in order.
    pub milestones: Vec<(Duration, String)>,
}

/// A small change of a plan.
pub(super) type Edit = Box<dyn Fn(&mut Plan)>;
