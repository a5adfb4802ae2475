//! Scenario files: TOML ↔ schedule. A person adds a file, and the suite runs it; a hunt keeps what broke in the same form.
//!
//! - [`Scenario`]: a file as data. [`Scenario::load`] and [`Scenario::parse`] read one, [`Scenario::to_toml`] writes one.
//! - [`Expect`]: what must come out of it, besides the properties.
//! - [`Mistake`]: what a person got wrong, with file, line and column.
//! - [`keys`]: the keys of a file. With the fault table ([`crate::schedule::words`]) and a subject's own tables, they are all
//!   that can stand in one; [`parse`](Scenario::parse), [`schema()`], [`reference()`] and [`starter()`] are drawn from them.
//!
//! Reading is strict everywhere: an unknown key, a wrong type, a wrong unit, an unknown name is a mistake, never ignored.
//! Nothing is run here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::history::Side;
use crate::schedule::{Order, Plan, Profile, draw};
use crate::subject::Erased;
use crate::world::Engine;

pub mod expect;
pub mod keys;
pub mod mistake;
mod parse;
mod reader;
pub mod reference;
pub mod schema;
pub mod starter;
#[cfg(test)]
mod tests;
mod verbs;
mod write;

pub use expect::{CallEnds, Expect, ExpectCall, ExpectProcess, ExpectStream, Idle, Output, ProcessExit, StreamEnds, Tally};
pub use mistake::Mistake;
pub use parse::limits::read_limit;
pub use reference::reference;
pub use schema::schema;
pub use starter::starter;

/// The version of the form. A file of another one is refused, never guessed.
pub const FORMAT: u64 = 1;

/// A scenario file.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
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

/// The orders of packets and timers by their names in files; `both` is none of its own.
const ORDERS: [(&str, Option<Order>); 4] = [
    ("drawn", Some(Order::Drawn)),
    ("packets-first", Some(Order::PacketsFirst)),
    ("timers-first", Some(Order::TimersFirst)),
    ("both", None),
];

/// The engines by their names in files.
const ENGINES: [(&str, Engine); 2] = [("event", Engine::Event), ("turmoil", Engine::TURMOIL)];

/// The directions that a swarm draws from, by their names in files.
const TOWARD: [(&str, Option<Side>); 3] = [("client", Some(Side::Client)), ("server", Some(Side::Server)), ("both", None)];

/// The name of a value in a table of names.
fn name_of<T: PartialEq>(table: &[(&'static str, T)], value: &T) -> &'static str {
    let row = table.iter().find(|(_, meaning)| meaning == value);
    row.expect("every value has its row").0
}

/// The name of an engine; a file says nothing of its ticks.
fn engine_name(engine: Engine) -> &'static str {
    ENGINES.iter().find(|(_, known)| known.is_like(engine)).expect("every engine has its row").0
}

impl Scenario {
    /// Reads a file. `subjects` are those that it may be about.
    ///
    /// # Errors
    /// If it cannot be read, or not understood: one line that says where, and what to do.
    pub fn load(path: &Path, subjects: &[Arc<dyn Erased>]) -> Result<Self, Mistake> {
        let file = path.display().to_string();
        if path.is_dir() {
            return Err(Mistake::whole(file, "this is a folder; name a scenario file in it"));
        }
        let text = std::fs::read_to_string(path).map_err(|error| Mistake::whole(file.as_str(), unreadable(&error)))?;
        Self::parse(&text, &file, subjects)
    }

    /// Reads the text of a file that is called `file`. `subjects` are those that it may be about.
    ///
    /// # Errors
    /// If it is not understood: one line that says where, and what to do.
    pub fn parse(text: &str, file: &str, subjects: &[Arc<dyn Erased>]) -> Result<Self, Mistake> {
        parse::file(text, file, subjects)
    }

    /// The file's text: what [`parse`](Self::parse) reads back as the same scenario. Comments are not kept.
    pub fn to_toml(&self) -> String {
        write::file(self)
    }

    /// A scenario of one plan, as a hunt keeps it: its seed is the only one, and nothing is expected but the properties.
    pub fn of_plan(mut plan: Plan, title: impl Into<String>) -> Self {
        write::drop_nulls(&mut plan);
        Self {
            path: PathBuf::new(),
            step_lines: Vec::new(),
            subject: plan.subject.clone(),
            title: title.into(),
            source: Vec::new(),
            kills: Vec::new(),
            defects: plan.defects.clone(),
            seeds: 1,
            first_seed: plan.seed,
            engines: vec![Engine::Event],
            engines_because: None,
            both_orders: false,
            body: Body::Schedule(plan),
            expect: Expect::default(),
        }
    }

    /// Why it cannot be shown on an engine, if it says so: it names others, and why.
    pub fn not_on(&self, engine: Engine) -> Option<&str> {
        self.engines_because.as_deref().filter(|_| !self.engines.iter().any(|known| known.is_like(engine)))
    }

    /// The plans of a schedule: one for each seed, or two where both orders are run. A swarm has none before they are
    /// [drawn](Self::drawn).
    pub fn plans(&self) -> Vec<Plan> {
        let Body::Schedule(plan) = &self.body else { return Vec::new() };
        let orders = if self.both_orders { vec![Order::PacketsFirst, Order::TimersFirst] } else { vec![plan.order] };
        let seeds = (0..self.seeds).map(|n| self.first_seed.wrapping_add(n));
        seeds.flat_map(|seed| orders.iter().map(move |order| self.plan(plan, seed, *order))).collect()
    }

    /// The plans of a swarm, one for each seed, drawn as they are asked for. A schedule has none.
    pub fn drawn<'s>(&'s self, subject: &'s Arc<dyn Erased>) -> impl Iterator<Item = Plan> + 's {
        let profile = match &self.body {
            Body::Swarm(profile) => Some(&**profile),
            Body::Schedule(_) => None,
        };
        profile.into_iter().flat_map(move |profile| profile.seeds().map(move |seed| draw::plan(profile, &**subject, seed)))
    }

    /// What the schedules of a swarm are drawn from. A schedule has nothing like that.
    pub fn into_profile(self) -> Option<Profile> {
        match self.body {
            Body::Swarm(profile) => Some(Profile { defects: self.defects, ..*profile }),
            Body::Schedule(_) => None,
        }
    }

    fn plan(&self, plan: &Plan, seed: u64, order: Order) -> Plan {
        Plan { seed, order, defects: self.defects.clone(), ..plan.clone() }
    }
}

fn unreadable(error: &std::io::Error) -> String {
    use std::io::ErrorKind::{InvalidData, NotFound, PermissionDenied};
    match error.kind() {
        NotFound => "there is no such file; `reknit new SUBJECT` writes one to begin with".into(),
        PermissionDenied => "this file may not be read; change its permissions".into(),
        InvalidData => "this file is not UTF-8 text".into(),
        _ => format!("this file cannot be read: {error}"),
    }
}

/// Names in a stable order, for tables that are keyed by them.
type Named<T> = BTreeMap<String, T>;
