//! A scenario file as data.

use std::path::PathBuf;
use std::sync::Arc;

use super::expect::Expect;
use crate::schedule::{Plan, Profile, TieOrder, draw};
use crate::subject::DynSubject;
use crate::world::Engine;

/// A scenario file.
#[derive(Clone, Debug, PartialEq)]
pub struct ScenarioFile {
    /// Where it was read from.
    pub path: PathBuf,
    /// The line there of each step of a schedule, from 1; empty where it was not read.
    pub step_lines: Vec<usize>,
    /// The protocol under test.
    pub subject: String,
    /// What it shows, in one line.
    pub title: String,
    /// The ids of the rules that it shows.
    pub source: Vec<String>,
    /// Defects: with each of them on, at least one seed must break.
    pub kills: Vec<String>,
    /// Defects that are on in every run.
    pub defects: Vec<String>,
    /// So many seeds of a schedule are run. A swarm's profile says how many of its own.
    pub seeds: u64,
    /// The first of them. A swarm's profile says its own.
    pub first_seed: u64,
    /// The engines that must show it.
    pub engines: Vec<Engine>,
    /// Why these engines, and not others.
    pub engines_because: Option<String>,
    /// Whether each seed is run in both orders of packets and timers, instead of the plan's.
    pub both_orders: bool,
    /// What is run.
    pub body: Body,
    /// What must come out, besides the properties.
    pub expect: Expect,
}

/// What a scenario runs.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant)] // one stands in each scenario, and most are schedules
pub enum Body {
    /// One schedule. Its `seed` is the scenario's first, its `defects` are the scenario's.
    Schedule(Plan),
    /// A swarm: schedules are drawn, one for each of its seeds. Its `defects` are the scenario's.
    Swarm(Box<Profile>),
}

impl ScenarioFile {
    /// Why it cannot be shown on an engine, if it says so: it names others, and why.
    pub fn not_on(&self, engine: Engine) -> Option<&str> {
        self.engines_because
            .as_deref()
            .filter(|_| !self.engines.iter().any(|known| known.is_like(engine)))
    }

    /// The plans of a schedule: one for each seed, or two where both orders are run. A swarm has none before they are
    /// [drawn](Self::drawn).
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

    /// The plans of a swarm, one for each seed, drawn as they are asked for. A schedule has none.
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

    /// What the schedules of a swarm are drawn from. A schedule has nothing like that.
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
