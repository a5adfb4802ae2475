//! The data model of scenario files.

use std::path::PathBuf;
use std::sync::Arc;

use super::expect::Expect;
use super::snapshot::Snapshot;
use crate::schedule::{Plan, Profile, TieOrder, draw};
use crate::subject::DynSubject;
use crate::world::Engine;

/// A scenario file.
#[derive(Clone, Debug, PartialEq)]
pub struct ScenarioFile {
    /// The path that it was read from.
    pub path: PathBuf,
    /// The line of each step of a schedule, from 1; empty if the scenario was not read from a file.
    pub step_lines: Vec<usize>,
    /// The protocol under test.
    pub subject: String,
    /// One line that says what the scenario shows.
    pub title: String,
    /// The ids of the rules that it demonstrates.
    pub source: Vec<String>,
    /// Defects that the scenario detects: with each of them enabled, at least one seed must fail.
    pub kills: Vec<String>,
    /// Defects that are enabled in every run.
    pub defects: Vec<String>,
    /// The number of seeds of a schedule. The number of a swarm is in its profile.
    pub seeds: u64,
    /// The first seed of a schedule. The first seed of a swarm is in its profile.
    pub first_seed: u64,
    /// The engines that the scenario must run on.
    pub engines: Vec<Engine>,
    /// The reason for this choice of engines.
    pub engines_because: Option<String>,
    /// Whether each seed runs in both orders of packets and timers, instead of only the plan's
    /// order.
    pub both_orders: bool,
    /// The schedule or swarm to run.
    pub body: Body,
    /// The expectations, in addition to the properties.
    pub expect: Expect,
    /// The observations of users in the first run when the snapshot was taken; `None` if there is no snapshot.
    pub snapshot: Option<Snapshot>,
}

/// The content that a scenario runs.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant)] // each scenario has one body, and most are schedules
pub enum Body {
    /// One schedule. Its `seed` is the scenario's first seed, and its `defects` are the scenario's
    /// defects.
    Schedule(Plan),
    /// A swarm: one schedule is drawn for each seed. Its `defects` are the scenario's defects.
    Swarm(Box<Profile>),
}

impl ScenarioFile {
    /// Returns the reason why the scenario does not run on an engine, if the file excludes that
    /// engine.
    pub fn not_on(&self, engine: Engine) -> Option<&str> {
        self.engines_because
            .as_deref()
            .filter(|_| !self.engines.iter().any(|known| known.is_like(engine)))
    }

    /// The maximum number of runs of a file: all its plans are in memory at once.
    pub const MOST_SEEDS: u64 = 100_000;

    /// Returns the plans of a schedule: one for each seed, or two if both orders are run. Returns
    /// none for a swarm; see [`drawn`](Self::drawn).
    pub fn plans(&self) -> Vec<Plan> {
        let Body::Schedule(plan) = &self.body else { return Vec::new() };
        let orders = if self.both_orders {
            vec![TieOrder::PacketsFirst, TieOrder::TimersFirst]
        } else {
            vec![plan.order]
        };
        let seeds = (0..self.seeds).map(|n| self.first_seed.wrapping_add(n));
        seeds
            .flat_map(|seed| orders.iter().map(move |order| self.plan(plan, seed, *order)))
            .collect()
    }

    /// Returns the plans of a swarm, one for each seed. Each plan is drawn when the iterator
    /// reaches it. Returns none for a schedule.
    pub fn drawn<'s>(
        &'s self,
        subject: &'s Arc<dyn DynSubject>,
    ) -> impl Iterator<Item = Plan> + 's {
        let profile = match &self.body {
            Body::Swarm(profile) => Some(&**profile),
            Body::Schedule(_) => None,
        };
        profile.into_iter().flat_map(move |profile| {
            profile.seeds().map(move |seed| draw::plan(profile, &**subject, seed))
        })
    }

    /// Returns the profile of a swarm; `None` for a schedule.
    pub fn into_profile(self) -> Option<Profile> {
        match self.body {
            Body::Swarm(profile) => Some(Profile { defects: self.defects, ..*profile }),
            Body::Schedule(_) => None,
        }
    }

    fn plan(&self, plan: &Plan, seed: u64, order: TieOrder) -> Plan {
        Plan { seed, order, defects: self.defects.clone(), ..plan.clone() }
    }
}
