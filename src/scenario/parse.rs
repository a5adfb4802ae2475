//! Text → [`ScenarioFile`]: the top level of a file. Submodules parse the tables.
//!
//! - [`names`]: the names that a file may use: hosts, milestones, points, defects, rules,
//!   properties.
//! - [`steps`], [`trigger`], [`limits`], [`puppet`], [`expect`], [`swarm`], [`template`]: one table
//!   each.
//! - [`values`]: values that several tables use.
//! - [`shape`]: validates the subject's own tables and operations against their JSON schemas.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value as Json};
use toml::de::DeTable;

use super::expect::Expect;
use super::file::{Body, ScenarioFile};
use super::keys;
use super::mistake::{Mistake, MistakeAt, Parsed, place, unknown};
use super::reader::{Node, Table};
use super::vocabulary::{ENGINES, FORMAT, ORDERS};
use crate::schedule::{Host, LimitProfile, Limits, Plan, Puppet, TieOrder};
use crate::subject::DynSubject;
use crate::world::Engine;
use names::Names;
use steps::ParsedSteps;
use values::{MOST_CLIENTS, number, one_of, seeds, span, within};

mod expect;
pub mod limits;
mod names;
mod puppet;
pub(super) mod shape;
mod steps;
pub(super) mod swarm;
mod template;
mod trigger;
mod values;

/// Parses the text of a file.
pub(super) fn file(
    text: &str,
    file: &str,
    subjects: &[Arc<dyn DynSubject>],
) -> Result<ScenarioFile, Mistake> {
    let wrong = |wrong| Mistake::at(file, text, wrong);
    let document = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        wrong(MistakeAt {
            at,
            message: format!("invalid TOML: {}", error.message().replace('\n', " ")),
        })
    })?;
    let top = Table::open("", 0, document.get_ref());
    scenario(&top, text, subjects)
        .map(|scenario| ScenarioFile { path: PathBuf::from(file), ..scenario })
        .map_err(wrong)
}

fn scenario(top: &Table<'_>, text: &str, subjects: &[Arc<dyn DynSubject>]) -> Parsed<ScenarioFile> {
    format(top)?;
    let subject = subject(top, subjects)?;
    let setup = subject.setup();
    top.only(keys::FILE.names().chain(setup.iter().map(|(key, _)| *key)))?;
    let defects_of =
        |key: &str, names: &Names<'_>| names.list(top.get(key), |entry| names.defect(entry));

    let clients = match top.get("swarm") {
        Some(swarm) => swarm::most_clients(&swarm)?,
        None => clients(top)?,
    };
    let names = Names::new(&**subject, clients);
    let defects = defects_of("defects", &names)?;
    let order = top.get("order").map(|node| order(&node)).transpose()?;
    let first_seed = number(top, "first-seed", 0, 1)?;
    let (body, step_lines, may_miss) = match top.get("swarm") {
        Some(swarm) => {
            let profile = swarm::profile(top, &swarm, subject, &names, &defects)?;
            (Body::Swarm(Box::new(profile)), Vec::new(), BTreeSet::new())
        }
        None => {
            let order = order.flatten().unwrap_or_default();
            let plan = plan(top, &names, &setup)?;
            let ParsedSteps { steps, at, may_miss } =
                steps::steps(top.get("step"), &names, plan.horizon)?;
            let plan = Plan { order, seed: first_seed, defects: defects.clone(), steps, ..plan };
            (Body::Schedule(plan), at.into_iter().map(|at| place(text, at).0).collect(), may_miss)
        }
    };
    Ok(ScenarioFile {
        path: PathBuf::new(),
        subject: subject.name().to_owned(),
        title: top
            .need("title", "a string: what the scenario shows, in one line")?
            .text()?
            .to_owned(),
        source: names.list(top.get("source"), |entry| names.rule(entry))?,
        kills: defects_of("kills", &names)?,
        defects,
        seeds: seeds(top, "seeds", 1)?,
        first_seed,
        engines: engines(top)?,
        engines_because: top
            .get("engines-because")
            .map(|node| node.text().map(str::to_owned))
            .transpose()?,
        both_orders: order == Some(None),
        expect: Expect { may_miss, ..expect::expect(top.get("expect"), &body, &names)? },
        body,
        step_lines,
        snapshot: None,
    })
}

/// Checks the format before anything else, and rejects an unknown one.
fn format(top: &Table<'_>) -> Parsed<()> {
    let Some(node) = top.get("format") else {
        return top
            .wrong(format!("a scenario file needs its format version: write `format = {FORMAT}`"));
    };
    match node.number(0)? {
        FORMAT => Ok(()),
        other => node.wrong(format!(
            "format {other} is unknown; this version of reknit reads format {FORMAT}"
        )),
    }
}

fn subject<'s>(
    top: &Table<'_>,
    subjects: &'s [Arc<dyn DynSubject>],
) -> Parsed<&'s Arc<dyn DynSubject>> {
    let node = top.need("subject", "the name of the protocol under test")?;
    let name = node.text()?;
    let known = || subjects.iter().map(|subject| subject.name());
    subjects
        .iter()
        .find(|subject| subject.name() == name)
        .map_or_else(|| node.wrong(unknown("a subject", name, known())), Ok)
}

fn clients(top: &Table<'_>) -> Parsed<u32> {
    top.get("clients").map_or(Ok(1), |node| node.small_number(1)).and_then(
        |clients| match clients {
            0..=MOST_CLIENTS => Ok(clients),
            _ => top
                .need("clients", "")?
                .wrong(format!("at most {MOST_CLIENTS} clients are possible, not {clients}")),
        },
    )
}

/// Returns the order, or `None` for both orders.
fn order(node: &Node<'_>) -> Parsed<Option<TieOrder>> {
    one_of(node, &ORDERS)
}

fn engines(top: &Table<'_>) -> Parsed<Vec<Engine>> {
    let Some(node) = top.get("engines") else {
        return match top.get("engines-because") {
            Some(because) => Err(MistakeAt {
                at: because.key_at,
                message: "`engines-because` needs `engines`; add `engines`".into(),
            }),
            None => Ok(vec![Engine::Event]),
        };
    };
    let engines =
        node.texts()?.iter().map(|entry| one_of(entry, &ENGINES)).collect::<Parsed<Vec<_>>>()?;
    if engines.is_empty() {
        node.wrong("`engines` is empty; leave it out, or name an engine")
    } else {
        Ok(engines)
    }
}

/// Returns the plan without its steps, and the other fields of the scenario.
fn plan(
    top: &Table<'_>,
    names: &Names<'_>,
    setup: &[(&'static str, schemars::Schema)],
) -> Parsed<Plan> {
    let without = Plan::new(names.subject.name());
    let horizon = match top.get("horizon") {
        Some(node) if node.duration()?.is_zero() => {
            return node.wrong("`horizon` must be longer than `0ms`");
        }
        Some(node) => node.duration()?,
        None => without.horizon,
    };
    let heal = top.get("heal").map_or(Ok(Duration::ZERO), |node| within(&node, horizon))?;
    let latency = top.get("latency").map_or(Ok(without.latency), |node| span(&node))?;
    let profile = limits::profile(top.get("profile"), names.subject)?;
    let mut values: BTreeMap<_, _> = profile.into_iter().flat_map(LimitProfile::limits).collect();
    let own = limits::limits(top.get("limits"), names.subject, limits::value)?;
    values.extend(own.into_iter().map(|(name, value)| (name.into(), value)));
    Ok(Plan {
        clients: names.clients,
        limits: Limits(values),
        setup: own_tables(top, setup)?,
        puppets: puppets(top, names)?,
        latency,
        horizon,
        heal,
        ..without
    })
}

/// Returns the subject's own tables: the entries by name, for each key.
fn own_tables(
    top: &Table<'_>,
    setup: &[(&'static str, schemars::Schema)],
) -> Parsed<Map<String, Json>> {
    let mut tables = Map::new();
    for (key, schema) in setup {
        let Some(node) = top.get(key) else { continue };
        let schema = schema.as_value();
        let entries = node.free_table()?;
        entries.entries().try_for_each(|entry| shape::check(&entry, schema, schema, &[]))?;
        tables.insert((*key).to_owned(), node.json()?);
    }
    Ok(tables)
}

fn puppets(top: &Table<'_>, names: &Names<'_>) -> Parsed<BTreeMap<Host, Puppet>> {
    let Some(node) = top.get("puppet") else { return Ok(BTreeMap::new()) };
    let table = node.free_table()?;
    table
        .entries()
        .map(|entry| Ok((names.host_called(entry.key_at, entry.label)?, puppet::puppet(&entry)?)))
        .collect()
}
