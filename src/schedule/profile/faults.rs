//! The faults of a profile: their number, kinds, targets and durations.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::choice::Choice;
use crate::schedule::FaultKind;
use crate::schedule::fault::shape::FaultShape;

/// The faults to draw: their kinds, number and targets.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultProfile {
    /// The number of faults in a plan.
    pub count: Choice<u64>,
    /// The number of different kinds in a plan. With few kinds per run, combinations that are
    /// otherwise rare occur more often.
    pub kinds: Choice<u64>,
    /// The targets of the faults.
    pub aimed: Aimed,
    /// How often each milestone and point is a target of faults and of operations with a trigger,
    /// by name. A name that is left out is never a target. If the map is empty, all are targets,
    /// and half of the milestone targets are ones that every connection reaches.
    pub at: BTreeMap<String, u64>,
    /// The share of faults, from 0 to 1, that follow the previous fault: at the same moment, or up
    /// to three seconds later.
    pub wakes: f64,
    /// The kinds that can be drawn, each with its weight and its fields.
    pub weights: BTreeMap<FaultKind, FaultShape>,
}

/// The shares of faults that are aimed at a milestone, at a point, and at a time. Only their ratios
/// matter. If a subject has no milestones or no points, that share is 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aimed {
    /// When a milestone is reached.
    pub milestone: f64,
    /// When a point is reached.
    pub point: f64,
    /// At a time.
    pub time: f64,
}

impl Default for Aimed {
    fn default() -> Self {
        Self { milestone: 0.6, point: 0.2, time: 0.2 }
    }
}

impl Default for FaultProfile {
    /// No faults.
    fn default() -> Self {
        Self {
            count: Choice::Fixed(0),
            kinds: Choice::Range(1, 3),
            aimed: Aimed::default(),
            at: BTreeMap::new(),
            wakes: 0.4,
            weights: BTreeMap::new(),
        }
    }
}

impl FaultProfile {
    /// Up to six faults per plan, of all kinds with a weight, with up to three kinds in one plan.
    pub fn every() -> Self {
        Self {
            count: Choice::Range(0, 6),
            weights: FaultKind::ALL
                .iter()
                .filter_map(|kind| Some((*kind, kind.drawn()?.weight)))
                .filter(|(_, weight)| *weight > 0)
                .map(|(kind, weight)| (kind, kind.shape(weight)))
                .collect(),
            ..Self::default()
        }
    }
}

/// The error for a name that no drawable fault has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a fault that a swarm can draw")]
pub struct NotAKind(pub String);

impl FromStr for FaultKind {
    type Err = NotAKind;

    fn from_str(name: &str) -> Result<Self, NotAKind> {
        let kind = FaultKind::drawable().find(|kind| kind.word().name == name);
        kind.ok_or_else(|| NotAKind(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_drawable_kind_has_a_name_that_can_be_read_back() {
        for kind in FaultKind::drawable() {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        assert_eq!("restart".parse::<FaultKind>(), Err(NotAKind("restart".into())));
    }
}
