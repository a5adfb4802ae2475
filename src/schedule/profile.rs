//! Profiles: the weights and ranges from which schedules are drawn. In a file a profile is called a swarm.
//!
//! A profile is plain data, like the plans that are drawn from it ([`draw`](super::draw)): one profile and one seed determine
//! one plan. What a profile does not give has no weight: a fault that is left out never comes.
//!
//! - [`Choice`]: one value, one of several, or one of a range ([`choice`]).
//! - [`Template`]: the same for the subject's own tables, which are JSON to us ([`template`]).
//! - [`FaultProfile`], [`DrawableFault`], [`FaultShape`]: which faults, how many, aimed at what ([`faults`]).
//!
//! What must come out of all runs together (`[expect]` of a swarm's file) is no part of it: that is the scenario's.

use std::collections::BTreeMap;
use std::time::Duration;

use super::limits::LimitValue;
use super::names::Host;
use super::puppet::Puppet;
use super::repertoire::Repertoire;

pub mod choice;
pub mod faults;
pub mod template;

pub use choice::{Between, Choice};
pub use faults::{Aimed, DrawableFault, FaultProfile, FaultShape};
pub use template::Template;

/// Weights and ranges from which plans are drawn: a swarm.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The subject's name.
    pub subject: String,
    /// How many plans are drawn where nobody asks for another number.
    pub runs: u64,
    /// The seed of the first of them; the others follow it, one by one.
    pub first_seed: u64,
    /// The horizon of a plan.
    pub horizon: Choice<Duration>,
    /// The healed tail: no fault is in force in this last part before the horizon, and what is owed must arrive.
    pub heal: Duration,
    /// The defects that are on, by their names in files.
    pub defects: Vec<String>,
    /// How many client hosts there are; at least 1.
    pub clients: Choice<u64>,
    /// The limits, by name; those that are left out have their defaults.
    pub limits: BTreeMap<String, Choice<LimitValue>>,
    /// The subject's own tables, by key (`stream`).
    pub setup: BTreeMap<String, Entries>,
    /// How many operations the user of each client asks for.
    pub asks: Choice<u64>,
    /// The part of the run, from its start, in which they are asked for.
    pub busy: Choice<Duration>,
    /// The weight of each verb. A verb that is left out never comes; where there is none at all, the subject's own strategy
    /// decides.
    pub operations: BTreeMap<String, u64>,
    /// Of how many verbs the operations of a run are, besides the first of each client. A run with a few only gives room to pairs that
    /// are rare among many.
    pub verbs: Choice<u64>,
    /// The faults.
    pub faults: FaultProfile,
    /// Ranges of one-way latency, both ends included, one of which is in force in a run; never empty.
    pub latencies: Vec<(Duration, Duration)>,
    /// Puppets that may take the place of a host.
    pub puppets: Vec<Understudy>,
}

/// What is drawn for one key of the subject's own tables: entries named after the key's first letter (`s1`, `s2`, …).
#[derive(Clone, Debug, PartialEq)]
pub struct Entries {
    /// How many entries there are for each client of the plan.
    pub count: Choice<u64>,
    /// What stands in each.
    pub template: Template,
}

/// A puppet that takes the place of a host in a share of the runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Understudy {
    /// The share of the runs in which it does, from 0 to 1.
    pub chance: f64,
    /// The host.
    pub host: Host,
    /// What it plays. Of two for the same host in one run, the first plays.
    pub puppet: Puppet,
}

impl Profile {
    /// A profile without any weight: one client that is asked for nothing, and a network without faults.
    pub fn new(subject: impl Into<String>) -> Self {
        Self {
            subject: subject.into(),
            runs: 100,
            first_seed: 1,
            horizon: Choice::Fixed(Duration::from_secs(180)),
            heal: Duration::from_secs(60),
            defects: Vec::new(),
            clients: Choice::Fixed(1),
            limits: BTreeMap::new(),
            setup: BTreeMap::new(),
            asks: Choice::Fixed(0),
            busy: Choice::Range(Duration::from_secs(1), Duration::from_secs(30)),
            operations: BTreeMap::new(),
            verbs: Choice::Range(1, 4),
            faults: FaultProfile::default(),
            latencies: vec![(Duration::from_millis(1), Duration::from_millis(20))],
            puppets: Vec::new(),
        }
    }

    /// The profile of a subject for which nobody wrote a swarm: one or two clients, every fault, sizes that are now and then
    /// the least ones, and entries of its tables made of what their schemas tell.
    pub fn default_for(subject: &dyn Repertoire) -> Self {
        Self {
            clients: Choice::Range(1, 2),
            limits: subject
                .limits()
                .iter()
                .filter_map(|limit| Some((limit.name.to_owned(), tight(limit)?)))
                .collect(),
            setup: (subject.setup().into_iter())
                .map(|(key, schema)| {
                    let template = Template::of_schema(schema.as_value());
                    (key.to_owned(), Entries { count: Choice::Range(1, 3), template })
                })
                .collect(),
            asks: Choice::Range(1, 8),
            faults: FaultProfile::every(),
            ..Self::new(subject.name())
        }
    }

    /// The seeds of its runs.
    pub fn seeds(&self) -> impl Iterator<Item = u64> + use<> {
        let first = self.first_seed;
        (0..self.runs).map(move |n| first.wrapping_add(n))
    }
}

/// The default three times out of four, else the least size. Durations keep their defaults: the least of a deadline lets
/// nothing succeed, and says little.
fn tight(limit: &super::Limit) -> Option<Choice<LimitValue>> {
    match limit.default {
        LimitValue::Bytes(_) | LimitValue::Count(_) => {
            Some(Choice::one_of([limit.default, limit.default, limit.default, limit.least]))
        }
        LimitValue::Flag(_) => {
            Some(Choice::one_of([LimitValue::Flag(false), LimitValue::Flag(true)]))
        }
        LimitValue::Duration(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_of_a_profile_follow_each_other() {
        let profile = Profile { runs: 3, first_seed: u64::MAX - 1, ..Profile::new("relay") };
        assert_eq!(profile.seeds().collect::<Vec<_>>(), [u64::MAX - 1, u64::MAX, 0]);
    }
}
