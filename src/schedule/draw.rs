//! The generator of plans: a [`Profile`] and a seed determine a [`Plan`].
//!
//! Each draw has a key for its purpose: the seventh operation of `client2`, the duration of the
//! third fault. So a profile with one operation fewer gives the same plan without that operation,
//! and only the faults and operations that followed it change.
//!
//! A plan is busy first and quiet later. Operations are requested in the busy part: at a fixed
//! time, at a milestone, after a fault, or behind another operation. Faults follow operations or
//! other faults, or are triggered at milestones and points. No fault is active in the healed tail. A
//! run uses only a few kinds of faults and a few verbs, so that rare combinations occur more often.
//!
//! - [`plan`]: one plan. [`samples`]: operations alone. [`strategy`](strategy()): plans for `proptest!`.
//!
//! This module does not read profiles from files, run plans, or [shrink](super::shrink) them.

use std::ops::Range;
use std::time::Duration;

use proptest::strategy::{BoxedStrategy, Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::RngCore;
use serde_json::{Map, Value};

use super::keyed::{keyed, mixed};
use super::profile::choice::{Between, Choice, below, happens, pick, pick_weighted, upto};
use super::{Action, Host, Operation, Plan, Profile, Repertoire, Step, Trigger, When};
use crate::digest::Digest;

mod aims;
mod faults;
mod strategy;
#[cfg(test)]
mod tests;

pub use strategy::{PlanTree, Plans, strategy};

/// How many plans show the operations that a profile draws.
const SAMPLES: u64 = 32;

/// The version of the generator. It is part of every printed seed, because another version may draw
/// a different plan from the same seed.
pub const GENERATOR: u32 = 10;

/// Draws operations that show the range of values in the plans of a profile.
pub fn samples(profile: &Profile, subject: &dyn Repertoire) -> Vec<Operation> {
    let of_plan = |seed| {
        let plan = plan(profile, subject, seed);
        let mut values = Values::new(subject, &plan);
        values.begin(mixed(seed, "sample", &[]));
        let asked = plan.steps.into_iter().filter_map(|step| match step.action {
            Action::Operation(operation) => Some(operation),
            Action::Fault(_) => None,
        });
        asked.chain(values.of_each_verb()).collect::<Vec<_>>()
    };
    (0..SAMPLES).flat_map(of_plan).collect()
}

/// Draws the plan for this seed.
pub fn plan(profile: &Profile, subject: &dyn Repertoire, seed: u64) -> Plan {
    let drawing = Drawing::new(profile, subject, seed);
    let mut plan = drawing.stage();
    let asked = drawing.operations(&plan);
    let faults =
        drawing.faults(&plan, &asked.iter().filter_map(DrawnOperation::at).collect::<Vec<_>>());
    let mut steps: Vec<Step> =
        asked.into_iter().map(|asked| drawing.step(asked, &faults)).collect();
    steps.extend(faults.into_iter().map(|(_, fault)| fault));
    // Steps with a time come first, in order of time; steps with a trigger follow, in the order in
    // which they were drawn.
    steps.sort_by_key(|step| match step.when {
        When::At(at) => at,
        When::After(_) => Duration::MAX,
    });
    plan.steps = steps;
    plan
}

/// How many operations a search draws from the strategy of all verbs.
const TRIES: u64 = 64;

/// Weights, out of ten, for the time of an operation that is not the first of its client, and is not
/// aimed: at a milestone, after a fault, together with the previous operation, and at a separate time.
const ASKED: [u64; 4] = [2, 3, 2, 3];

/// Weights, out of eight, for the delay of a step that follows another one: none, up to one round
/// trip, up to 100 ms, and up to 3 s.
const WAKE: [u64; 4] = [3, 2, 1, 2];

/// A value with its key. Other draws that pick among such values use the key.
type Numbered<T> = ([u64; 2], T);

/// An operation that a user requests.
#[derive(Clone)]
struct DrawnOperation {
    /// The time or trigger; `None` if the operation follows a fault.
    when: Option<When>,
    /// The delay behind that moment.
    behind: Duration,
    /// The number of the client, and the number of the operation. An operation that follows another one
    /// has the key of that one.
    key: [u64; 2],
    operation: Operation,
}

impl DrawnOperation {
    /// Returns the time, if it is fixed. An operation with a fixed time is certain to be requested.
    fn at(&self) -> Option<Numbered<Duration>> {
        match self.when {
            Some(When::At(at)) => Some((self.key, at)),
            _ => None,
        }
    }
}

/// The verbs of a run, with their weights.
struct Verbs<'a> {
    /// The verbs for the first operation of each client.
    heaviest: Vec<(&'a str, u64)>,
    /// The verbs for the other operations.
    few: Vec<(&'a str, u64)>,
}

/// The inputs of all draws.
struct Drawing<'a> {
    profile: &'a Profile,
    subject: &'a dyn Repertoire,
    seed: u64,
    horizon: Duration,
    latency: (Duration, Duration),
}

impl<'a> Drawing<'a> {
    fn new(profile: &'a Profile, subject: &'a dyn Repertoire, seed: u64) -> Self {
        let horizon = profile.horizon.draw(&mut keyed(seed, "horizon", &[]));
        let latency = pick(&profile.latencies, &mut keyed(seed, "latency", &[]))
            .expect("a profile has a range of latency");
        Self { profile, subject, seed, horizon, latency: *latency }
    }

    /// The random generator for one key.
    fn rng(&self, what: &str, which: &[u64]) -> ChaCha8Rng {
        keyed(self.seed, what, which)
    }

    /// Picks one of several values, each with equal probability. If a value is removed, only the
    /// draws that had picked it change.
    fn one_of<'t, T>(&self, from: &'t [Numbered<T>], what: &str, which: [u64; 2]) -> Option<&'t T> {
        let rank = |own: &[u64; 2]| mixed(self.seed, what, &[which[0], which[1], own[0], own[1]]);
        from.iter().min_by_key(|(own, _)| rank(own)).map(|(_, value)| value)
    }

    /// Draws a few of many values by weight, each at most once.
    fn few<T>(
        &self,
        mut left: Vec<(T, u64)>,
        count: &Choice<u64>,
        what: [&str; 2],
    ) -> Vec<(T, u64)> {
        let mut few = Vec::new();
        for slot in 0..count.draw(&mut self.rng(what[0], &[])).min(left.len() as u64) {
            let weights: Vec<u64> = left.iter().map(|(_, weight)| *weight).collect();
            let Some(at) = pick_weighted(&weights, &mut self.rng(what[1], &[slot])) else { break };
            few.push(left.remove(at));
        }
        few
    }

    /// Draws the plan without its steps: hosts, limits, the outside world, the network.
    fn stage(&self) -> Plan {
        let profile = self.profile;
        let clients = profile.clients.draw(&mut self.rng("clients", &[])).clamp(1, 1000) as u32;
        let mut plan = Plan {
            clients,
            defects: profile.defects.clone(),
            latency: self.latency,
            horizon: self.horizon,
            heal: profile.heal,
            seed: self.seed,
            setup: self.setup(clients),
            ..Plan::new(self.subject.name())
        };
        for (name, choice) in &profile.limits {
            plan.limits.set(name.clone(), choice.draw(&mut self.rng("limit", &[number_of(name)])));
        }
        for (n, understudy) in profile.puppets.iter().enumerate() {
            if happens(understudy.chance, &mut self.rng("puppet", &[n as u64])) {
                plan.puppets
                    .entry(understudy.host.clone())
                    .or_insert_with(|| understudy.puppet.clone());
            }
        }
        plan
    }

    /// Draws the subject's own tables. Each entry is named after the first letter of its table.
    fn setup(&self, clients: u32) -> Map<String, Value> {
        let mut setup = Map::new();
        for (key, entries) in &self.profile.setup {
            let table = number_of(key);
            let count: u64 = (1..=u64::from(clients))
                .map(|c| entries.count.draw(&mut self.rng("entries", &[table, c])))
                .sum();
            let letter = key.chars().next().unwrap_or('x');
            let entry = |n| {
                let drawn = entries.template.draw(&mut self.rng("entry", &[table, n]));
                (format!("{letter}{n}"), drawn.unwrap_or_else(|| Value::Object(Map::new())))
            };
            setup.insert(key.clone(), (1..=count).map(entry).collect());
        }
        setup
    }

    /// The part of the run in which a fault may be active.
    fn active(&self) -> Duration {
        self.horizon.saturating_sub(self.profile.heal)
    }

    /// The part of the run in which operations are requested.
    fn busy(&self) -> Duration {
        self.profile.busy.draw(&mut self.rng("busy", &[])).min(self.active())
    }

    /// Draws the operations of all users.
    fn operations(&self, plan: &Plan) -> Vec<DrawnOperation> {
        let busy = self.busy();
        let weights: Vec<(&str, u64)> =
            self.profile.operations.iter().map(|(verb, weight)| (verb.as_str(), *weight)).collect();
        let most = weights.iter().map(|(_, weight)| *weight).max().unwrap_or(0);
        let verbs = Verbs {
            heaviest: weights.iter().copied().filter(|(_, weight)| *weight == most).collect(),
            few: self.few(weights, &self.profile.verbs, ["verbs", "verbs.slot"]),
        };
        let mut values = Values::new(self.subject, plan);
        let mut all = Vec::new();
        for (client, host) in (1..).zip(plan.client_hosts()) {
            if plan.puppets.contains_key(&host) {
                continue;
            }
            values.begin(mixed(self.seed, "operation", &[client]));
            let (mut before, first) = (None, self.first(busy, client));
            let mut own = Vec::new();
            for n in 0..self.profile.asks.draw(&mut self.rng("asks", &[client])) {
                let Some(operation) = self.operation(&mut values, &verbs, client, n) else {
                    continue;
                };
                let aimed = self.aim_of(&operation.verb, client, n).map(When::After);
                let when = match (n, aimed) {
                    (0, _) => Some(When::At(first)),
                    (_, Some(aimed)) => Some(aimed),
                    (_, None) => self.asked(first..busy, before.take(), client, n),
                };
                before.clone_from(&when);
                own.push(DrawnOperation {
                    when,
                    behind: Duration::ZERO,
                    key: [client, n],
                    operation: Operation { client: host.clone(), ..operation },
                });
            }
            // Following operations are drawn last, so that they change no values of the others.
            for asked in own {
                let following = self.following(&mut values, &asked);
                all.push(asked);
                all.extend(following);
            }
        }
        all
    }

    /// Draws the time of a client's first operation: at once, or within a second, so that there is
    /// early activity to disturb.
    fn first(&self, busy: Duration, client: u64) -> Duration {
        let mut rng = self.rng("asked.first", &[client]);
        let latest =
            if below(2, &mut rng) == 0 { Duration::ZERO } else { busy.min(Duration::from_secs(1)) };
        ms(upto(millis(latest), &mut rng))
    }

    /// Draws the time of a later operation; `None` if it follows a fault. A separate time is never
    /// before the first operation.
    fn asked(
        &self,
        busy: Range<Duration>,
        before: Option<When>,
        client: u64,
        n: u64,
    ) -> Option<When> {
        let mut rng = self.rng("asked", &[client, n]);
        let some_time = When::At(ms(u64::between(
            &millis(busy.start.min(busy.end)),
            &millis(busy.end),
            &mut rng,
        )));
        match pick_weighted(&ASKED, &mut rng) {
            Some(0) => Some(self.milestone(&mut rng).map_or(some_time, When::After)),
            Some(1) => None,
            Some(2) => Some(before.unwrap_or(some_time)),
            _ => Some(some_time),
        }
    }

    /// Converts an operation to a step. If it should follow a fault but there is none, it gets a
    /// random time.
    fn step(&self, asked: DrawnOperation, faults: &[Numbered<Step>]) -> Step {
        let DrawnOperation { when, behind, key, operation } = asked;
        let mut rng = self.rng("asked.wake", &key);
        let when = when.unwrap_or_else(|| match self.one_of(faults, "asked.fault", key) {
            Some(fault) => self.in_the_wake(&fault.when, &mut rng),
            None => When::At(ms(upto(millis(self.busy()), &mut rng))),
        });
        let when = match when {
            When::At(at) => When::At((at + behind).min(self.active())),
            When::After(trigger) => {
                let delay = trigger.delay + behind;
                When::After(trigger.delay(delay))
            }
        };
        Step { when, action: Action::Operation(operation) }
    }

    /// Draws a client's n-th operation. Its verb is drawn by weight; the first operation has the
    /// verb with the most weight, so that there is activity to disturb. Its values come from the
    /// strategy of the verb. If the subject has none, the generator searches the draws of all verbs.
    /// If the search fails, it accepts another verb with weight.
    fn operation(
        &self,
        values: &mut Values,
        verbs: &Verbs<'_>,
        client: u64,
        n: u64,
    ) -> Option<Operation> {
        let weights = &self.profile.operations;
        if weights.is_empty() {
            return values.find(|_| true);
        }
        let of = if n == 0 { &verbs.heaviest } else { &verbs.few };
        let heavy: Vec<u64> = of.iter().map(|(_, weight)| *weight).collect();
        let (verb, _) =
            pick_weighted(&heavy, &mut self.rng("verb", &[client, n])).map(|at| of[at])?;
        let has_weight =
            |operation: &Operation| weights.get(&operation.verb).is_some_and(|weight| *weight > 0);
        values.of_verb(verb).or_else(|| values.find(has_weight))
    }

    /// Draws a trigger at a milestone that can be reached, by the profile's weights. If the profile
    /// has no weights, half of the milestones are ones that every connection reaches, because most
    /// of the others are rare.
    fn milestone(&self, rng: &mut impl RngCore) -> Option<Trigger> {
        let within_reach: Vec<_> = self
            .subject
            .milestones()
            .iter()
            .filter(|doc| self.reachable(doc.only))
            .map(|doc| doc.name)
            .collect();
        if !self.profile.faults.at.is_empty() {
            return self
                .weighed(&within_reach, rng)
                .map(|name| self.sometime(Trigger::milestone(name), rng));
        }
        let common = [self.subject.catch_up_milestone(), self.subject.generation_milestone()];
        let common: Vec<_> = common.into_iter().flatten().collect();
        if below(2, rng) == 0
            && let Some(name) = pick(&common, rng)
        {
            return Some(self.sometime(Trigger::milestone(*name), rng));
        }
        pick(&within_reach, rng).map(|name| self.sometime(Trigger::milestone(*name), rng))
    }

    /// Draws a trigger at a point that can be reached, by the profile's weights. The points that
    /// exist only with a defect are together as likely as all others.
    fn point(&self, rng: &mut impl RngCore) -> Option<Trigger> {
        let within_reach = || self.subject.points().iter().filter(|doc| self.reachable(doc.defect));
        let only_here: Vec<_> =
            within_reach().filter(|doc| doc.defect.is_some()).map(|doc| doc.name).collect();
        let names: Vec<_> = within_reach().map(|doc| doc.name).collect();
        let name = if !only_here.is_empty() && below(2, rng) == 0 {
            pick(&only_here, rng).copied()
        } else if self.profile.faults.at.is_empty() {
            pick(&names, rng).copied()
        } else {
            self.weighed(&names, rng)
        };
        name.map(|name| self.sometime(Trigger::point(name), rng))
    }

    /// Picks one of these names by the profile's weights.
    fn weighed(&self, names: &[&'static str], rng: &mut impl RngCore) -> Option<&'static str> {
        let weights: Vec<u64> = names
            .iter()
            .map(|name| self.profile.faults.at.get(*name).copied().unwrap_or(0))
            .collect();
        pick_weighted(&weights, rng).map(|at| names[at])
    }

    /// Draws the occurrence and the delay of a trigger: mostly the first or second occurrence and a
    /// short delay, sometimes a much later occurrence.
    fn sometime(&self, trigger: Trigger, rng: &mut impl RngCore) -> Trigger {
        let nth = match pick_weighted(&TIMES, rng) {
            Some(3) => u64::between(&4, &20, rng),
            few => few.unwrap_or(0) as u64 + 1,
        };
        trigger.nth(nth).delay(self.wake(rng))
    }

    /// Draws a moment at or shortly after another one. If the time is known, it is at most the end
    /// of the part in which faults may be active.
    fn in_the_wake(&self, of: &When, rng: &mut impl RngCore) -> When {
        match of {
            When::At(at) => When::At((*at + self.wake(rng)).min(self.active())),
            When::After(trigger) => {
                When::After(trigger.clone().delay(trigger.delay + self.wake(rng)))
            }
        }
    }

    fn wake(&self, rng: &mut impl RngCore) -> Duration {
        let there_and_back = millis(self.latency.1 * 2);
        let (least, most) = [(0, 0), (1, there_and_back.max(1)), (1, 100), (1, 3000)]
            [pick_weighted(&WAKE, rng).unwrap_or(0)];
        ms(u64::between(&least, &most, rng))
    }

    /// Whether a milestone or point can be reached: either it belongs to no defect, or its defect
    /// is on.
    fn reachable(&self, only: Option<&str>) -> bool {
        only.is_none_or(|defect| self.profile.defects.iter().any(|on| on == defect))
    }
}

/// Weights, out of 16, for the occurrence of a milestone or point: the first, the second, the
/// third, and a later one.
const TIMES: [u64; 4] = [8, 6, 1, 1];

/// The operations of one client, drawn from the subject's strategies.
struct Values {
    /// The strategy of all verbs.
    of_all: BoxedStrategy<Operation>,
    /// Verbs with their own strategies.
    of_verbs: Vec<(&'static str, BoxedStrategy<Operation>)>,
    draws: Draws,
    /// Operations that a search drew but did not want.
    spare: Vec<Operation>,
}

impl Values {
    fn new(subject: &dyn Repertoire, plan: &Plan) -> Self {
        Self {
            of_all: subject.strategy(plan),
            of_verbs: subject.verb_strategies(plan),
            draws: Draws::default(),
            spare: Vec::new(),
        }
    }

    /// Starts the operations of another client.
    fn begin(&mut self, seed: u64) {
        (self.draws.seed, self.draws.count) = (seed, 0);
        self.spare.clear();
    }

    /// Draws an operation with this verb. If the verb has no strategy, searches the draws of all verbs.
    fn of_verb(&mut self, verb: &str) -> Option<Operation> {
        let is_wanted = |operation: &Operation| operation.verb == verb;
        match self.of_verbs.iter().find(|(own, _)| *own == verb) {
            Some((_, strategy)) => self.draws.next(strategy).filter(is_wanted),
            None => self.find(is_wanted),
        }
    }

    /// Returns the first wanted operation among the unused ones and the next [`TRIES`] draws.
    fn find(&mut self, is_wanted: impl Fn(&Operation) -> bool) -> Option<Operation> {
        if let Some(at) = self.spare.iter().position(&is_wanted) {
            return Some(self.spare.remove(at));
        }
        for _ in 0..TRIES {
            match self.draws.next(&self.of_all) {
                Some(operation) if is_wanted(&operation) => return Some(operation),
                other => self.spare.extend(other),
            }
        }
        None
    }

    /// Draws an operation of each verb that has a strategy.
    fn of_each_verb(&mut self) -> Vec<Operation> {
        self.of_verbs.iter().filter_map(|(_, strategy)| self.draws.next(strategy)).collect()
    }
}

/// Draws from strategies, each draw with a separate seed.
struct Draws {
    runner: TestRunner,
    /// The seed of this client.
    seed: u64,
    /// How many operations were drawn.
    count: u64,
}

impl Default for Draws {
    fn default() -> Self {
        // Environment variables can change proptest's defaults. The settings that affect values
        // must be the same everywhere.
        let config = Config {
            failure_persistence: None,
            max_default_size_range: 100,
            max_local_rejects: 65_536,
            ..Config::default()
        };
        Self { runner: TestRunner::new_with_rng(config, rng(0)), seed: 0, count: 0 }
    }
}

impl Draws {
    /// Draws the next operation; `None` if the strategy rejects the draw.
    fn next(&mut self, strategy: &BoxedStrategy<Operation>) -> Option<Operation> {
        *self.runner.rng() = rng(mixed(self.seed, "value", &[self.count]));
        self.count += 1;
        strategy.new_tree(&mut self.runner).ok().map(|tree| tree.current())
    }
}

fn rng(seed: u64) -> TestRng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRng::from_seed(RngAlgorithm::ChaCha, &bytes)
}

/// Maps a name to a number for use in a key.
fn number_of(name: &str) -> u64 {
    let mut digest = Digest::default();
    digest.bytes(name.as_bytes());
    digest.value()
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn millis(duration: Duration) -> u64 {
    duration.as_millis() as u64
}

/// Returns the hosts that open connections, and the hosts that accept them.
fn ends<'a>(subject: &'a dyn Repertoire, plan: &'a Plan) -> (Vec<Host>, Vec<Host>) {
    let servers: Vec<Host> = subject.servers().iter().map(|name| Host::from(*name)).collect();
    let mut openers: Vec<Host> = plan.client_hosts().collect();
    if servers.len() > 1 {
        openers.extend(servers.iter().cloned()); // a server in the middle opens connections, too
    }
    (openers, servers)
}
