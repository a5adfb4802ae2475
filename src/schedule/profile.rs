//! Profiles: the weights and ranges from which schedules are drawn. A scenario file calls a profile
//! a swarm.
//!
//! A profile is plain data, like the plans that are drawn from it ([`draw`](super::draw)): a
//! profile and a seed determine a plan. An entry that a profile omits has no weight: a fault that
//! is left out is never drawn.
//!
//! - [`Choice`]: one value, one of several, or one of a range ([`choice`]).
//! - [`Template`]: the same for the subject's own tables, which reknit treats as JSON
//!   ([`template`]).
//! - [`OperationAim`]: the moments of operations, and the operations that follow them
//!   ([`operations`]).
//! - [`FaultProfile`], [`FaultShape`]: the kinds of faults, their number, and
//!   their targets ([`faults`]).
//!
//! Expectations over all runs together (`[expect]` of a swarm's file) are not part of a profile;
//! they belong to the scenario.

use std::collections::BTreeMap;
use std::time::Duration;

use super::limits::LimitValue;
use super::names::Host;
use super::puppet::Puppet;
use super::repertoire::Repertoire;

pub mod choice;
pub mod faults;
pub mod operations;
pub mod template;

pub use super::fault::shape::FaultShape;
pub use choice::{Between, Choice};
pub use faults::{Aimed, FaultProfile};
pub use operations::OperationAim;
pub use template::Template;

/// The weights and ranges from which a hunt draws its plans. A swarm file is a profile as text.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The name of the subject.
    pub subject: String,
    /// The default number of plans to draw.
    pub runs: u64,
    /// The seed of the first plan; the others have the following seeds.
    pub first_seed: u64,
    /// The horizon of a plan.
    pub horizon: Choice<Duration>,
    /// The length of the healed tail: no fault is active in this last part before the horizon, so
    /// outstanding items must arrive.
    pub heal: Duration,
    /// The defects that are on, by their names in files.
    pub defects: Vec<String>,
    /// The number of client hosts; at least 1.
    pub clients: Choice<u64>,
    /// The limits, by name; a limit that is left out has its default.
    pub limits: BTreeMap<String, Choice<LimitValue>>,
    /// The subject's own tables, by key (`stream`).
    pub setup: BTreeMap<String, Entries>,
    /// How many operations the user of each client requests.
    pub asks: Choice<u64>,
    /// The length of the first part of the run, in which operations are requested.
    pub busy: Choice<Duration>,
    /// The weight of each verb. A verb that is left out is drawn only if an aim
    /// lists it in `then`. If the map is empty, the
    /// subject's own strategy decides.
    pub operations: BTreeMap<String, u64>,
    /// The aims of verbs. A verb that is left out has none.
    pub aims: BTreeMap<String, OperationAim>,
    /// The number of different verbs in a run, not counting the first operation of each client.
    /// With few verbs per run, combinations that are otherwise rare occur more often.
    pub verbs: Choice<u64>,
    /// The faults.
    pub faults: FaultProfile,
    /// Ranges of one-way latency, both ends included. Each run uses one of them. Never empty.
    pub latencies: Vec<(Duration, Duration)>,
    /// Puppets that may replace a host.
    pub puppets: Vec<PuppetShare>,
}

/// The entries to draw for one key of the subject's own tables. They are named after the first
/// letter of the key (`s1`, `s2`, …).
#[derive(Clone, Debug, PartialEq)]
pub struct Entries {
    /// The number of entries for each client of the plan.
    pub count: Choice<u64>,
    /// The contents of an entry.
    pub template: Template,
}

/// A puppet that replaces a host in a share of the runs.
#[derive(Clone, Debug, PartialEq)]
pub struct PuppetShare {
    /// The share of the runs, from 0 to 1.
    pub chance: f64,
    /// The host.
    pub host: Host,
    /// The script. If two puppets are drawn for the same host in one run, the first is used.
    pub puppet: Puppet,
}

impl Profile {
    /// A profile without weights: one client that requests no operations, and a network without
    /// faults.
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
            aims: BTreeMap::new(),
            verbs: Choice::Range(1, 4),
            faults: FaultProfile::default(),
            latencies: vec![(Duration::from_millis(1), Duration::from_millis(20))],
            puppets: Vec::new(),
        }
    }

    /// The profile of a subject without a swarm: one or two clients, every fault, sizes that are
    /// sometimes at their least value, and table entries built from their schemas.
    pub fn of_schemas(subject: &dyn Repertoire) -> Self {
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

    /// The seeds of the runs.
    pub fn seeds(&self) -> impl Iterator<Item = u64> + use<> {
        let first = self.first_seed;
        (0..self.runs).map(move |n| first.wrapping_add(n))
    }
}

/// For counts and sizes: the default in three cases out of four, else the least value. Durations
/// keep their defaults: with the least value of a deadline nothing succeeds, so the run finds
/// little. Flags are drawn evenly.
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
