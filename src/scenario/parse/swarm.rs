//! `[swarm]`: weights and ranges from which schedules are drawn.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use super::names::Names;
use super::trigger::{Delay, trigger};
use super::values::{MOST_CLIENTS, number, one_of, read_number, seeds, span, within};
use super::{limits, puppet, template};
use crate::scenario::keys;
use crate::scenario::mistake::{MistakeAt, Parsed, unknown};
use crate::scenario::reader::{Node, Table};
use crate::scenario::verbs::verbs;
use crate::scenario::vocabulary::TOWARD;
use crate::schedule::FaultKind;
use crate::schedule::profile::{
    Aimed, Choice, Entries, FaultProfile, FaultShape, OperationAim, Profile, PuppetShare,
};
use crate::schedule::words::FieldType;
use crate::schedule::{Learns, Limit, LimitProfile, LimitValue, Trigger, units};
use crate::subject::DynSubject;

/// Top-level keys that a swarm does not allow.
const STRAYS: &[&str] = &[
    "seeds",
    "first-seed",
    "horizon",
    "heal",
    "clients",
    "latency",
    "order",
    "limits",
    "puppet",
    "step",
];

/// Returns a profile. Missing keys have the values of the subject's default profile.
pub fn profile(
    top: &Table<'_>,
    node: &Node<'_>,
    subject: &Arc<dyn DynSubject>,
    names: &Names<'_>,
    defects: &[String],
) -> Parsed<Profile> {
    let setup = subject.setup();
    let own = || setup.iter().map(|(key, _)| *key);
    if let Some(stray) = STRAYS.iter().copied().chain(own()).find_map(|key| top.get(key)) {
        let message = format!(
            "`{}` is not possible in a file with `[swarm]`; write the choice for it in `[swarm]`",
            stray.label
        );
        return Err(MistakeAt { at: stray.key_at, message });
    }
    let table = node.table(keys::SWARM.names().chain(own()))?;
    let without = Profile::of_schemas(&**subject);
    let horizon = table.get("horizon").map_or(Ok(without.horizon), |node| durations(&node))?;
    let (shortest, _) = horizon.ends();
    let limit_profile = limits::profile(top.get("profile"), names.subject)?;
    let mut limits = match table.get("limits") {
        Some(node) => limits::limits(Some(node), names.subject, limit)?,
        None => without.limits,
    };
    for (name, value) in limit_profile.into_iter().flat_map(LimitProfile::limits) {
        limits.entry(name.into_owned()).or_insert(Choice::Fixed(value));
    }
    let (operations, aims) = match table.get("operations") {
        Some(node) => operations(&node, names)?,
        None => (BTreeMap::new(), BTreeMap::new()),
    };
    Ok(Profile {
        subject: without.subject,
        runs: seeds(&table, "runs", without.runs)?,
        first_seed: number(&table, "first-seed", 0, without.first_seed)?,
        horizon,
        heal: table
            .get("heal")
            .map_or(Ok(without.heal.min(shortest)), |node| within(&node, shortest))?,
        defects: defects.to_vec(),
        clients: clients(node)?.unwrap_or(without.clients),
        limits,
        setup: entries(&table, &setup, without.setup)?,
        asks: numbers(&table, "asks", 0, without.asks)?,
        busy: table.get("busy").map_or(Ok(without.busy), |node| durations(&node))?,
        operations,
        aims,
        verbs: numbers(&table, "verbs", 1, without.verbs)?,
        faults: table.get("faults").map_or(Ok(without.faults), |node| faults(&node, names))?,
        latencies: table.get("latency").map_or(Ok(without.latencies), |node| latencies(&node))?,
        puppets: table.get("puppet").map_or(Ok(Vec::new()), |node| understudies(&node, names))?,
    })
}

/// Returns the maximum number of client hosts that a swarm can draw.
pub fn most_clients(node: &Node<'_>) -> Parsed<u32> {
    let choice = clients(node)?.unwrap_or(Choice::Range(1, 2));
    let (_, most) = choice.ends();
    match u32::try_from(most) {
        Ok(most) if most <= MOST_CLIENTS => Ok(most),
        _ => node.wrong(format!("there are at most {} clients, not {most}", MOST_CLIENTS)),
    }
}

fn clients(node: &Node<'_>) -> Parsed<Option<Choice<u64>>> {
    let Some(hosts) = node.free_table()?.get("hosts") else { return Ok(None) };
    let Some(clients) = hosts.free_table()?.get("clients") else { return Ok(None) };
    choice(
        &clients,
        "a number like `2`, or a range like `\"1..3\"`",
        &|node| node.number(1),
        &read_number,
    )
    .map(Some)
}

/// Returns a choice: one value, a range, or a list of choices.
fn choice<T, E>(
    node: &Node<'_>,
    expected: &str,
    one: &dyn Fn(&Node<'_>) -> Parsed<T>,
    end: &dyn Fn(&str) -> Result<T, E>,
) -> Parsed<Choice<T>>
where
    T: PartialOrd + Clone,
    E: Display,
{
    if node.is_list() {
        let list = node.list(expected)?;
        if list.is_empty() {
            return node
                .wrong(format!("the choice of `{}` is empty; write {expected}", node.label));
        }
        return list
            .iter()
            .map(|entry| choice(entry, expected, one, end))
            .collect::<Parsed<_>>()
            .map(Choice::OneOf);
    }
    if node.is_text() && node.text()?.contains("..") {
        return node
            .read(expected, |text| units::read_range(text, end))
            .map(|(low, high)| Choice::Range(low, high));
    }
    one(node).map(Choice::Fixed)
}

fn numbers(table: &Table<'_>, key: &str, least: u64, without: Choice<u64>) -> Parsed<Choice<u64>> {
    let Some(node) = table.get(key) else { return Ok(without) };
    choice(
        &node,
        "a number like `2`, or a range like `\"1..3\"`",
        &|node| node.number(least),
        &read_number,
    )
}

fn durations(node: &Node<'_>) -> Parsed<Choice<Duration>> {
    choice(
        node,
        "a duration like `\"5s\"`, or a range like `\"0ms..5s\"`",
        &|node| node.duration(),
        &units::read_duration,
    )
}

fn sizes(node: &Node<'_>) -> Parsed<Choice<u64>> {
    choice(
        node,
        "a size like `\"1KiB\"`, or a range like `\"1B..64KiB\"`",
        &|node| node.size(),
        &units::read_size,
    )
}

/// Returns a range of latencies, or a list of such ranges.
fn latencies(node: &Node<'_>) -> Parsed<Vec<(Duration, Duration)>> {
    if !node.is_list() {
        return span(node).map(|range| vec![range]);
    }
    let list = node.list("a list of ranges")?;
    if list.is_empty() {
        node.wrong("the choice of `latency` is empty; write a range like `\"1ms..20ms\"`")
    } else {
        list.iter().map(span).collect()
    }
}

fn limit(limit: &Limit, node: &Node<'_>) -> Parsed<Choice<LimitValue>> {
    let expected = format!("a value like `{}`, or a range", limit.default);
    choice(node, &expected, &|node| limits::value(limit, node), &|text| {
        limits::read_limit(limit, text)
    })
}

/// Returns the number of entries and their template, for each of the subject's own tables.
fn entries(
    table: &Table<'_>,
    setup: &[(&'static str, schemars::Schema)],
    mut without: BTreeMap<String, Entries>,
) -> Parsed<BTreeMap<String, Entries>> {
    let counts: Vec<_> = setup.iter().map(|(key, _)| keys::several(key)).collect();
    let known = keys::SWARM_HOSTS.names().chain(counts.iter().map(String::as_str));
    let hosts = table.get("hosts").map(|node| node.table(known)).transpose()?;
    for ((key, schema), count) in setup.iter().zip(&counts) {
        let Some(entries) = without.get_mut(*key) else { continue };
        if let Some(hosts) = &hosts {
            entries.count = numbers(hosts, count, 0, entries.count.clone())?;
        }
        if let Some(node) = table.get(key) {
            entries.template = template::entry(&node, schema.as_value())?;
        }
    }
    Ok(without)
}

/// The weights of operations, and their aims, by verb.
type DrawnVerbs = (BTreeMap<String, u64>, BTreeMap<String, OperationAim>);

fn operations(node: &Node<'_>, names: &Names<'_>) -> Parsed<DrawnVerbs> {
    let verbs = verbs(names.subject);
    let known = || verbs.iter().map(|verb| verb.name.as_str());
    let (mut weights, mut aims) = (BTreeMap::new(), BTreeMap::new());
    for entry in node.table(known())?.entries() {
        let verb = entry.label.to_owned();
        if !entry.is_table() {
            weights.insert(verb, entry.number(0)?);
            continue;
        }
        let table = entry.table(keys::SWARM_OPERATION.names())?;
        let weight = table.need("weight", "a number from 0")?.number(0)?;
        let targets = |node: Node<'_>| -> Parsed<Vec<Trigger>> {
            let list = node.list("a list of milestone names or tables")?;
            list.iter().map(|entry| trigger(entry, names, Delay::Allowed)).collect()
        };
        let following = |entry: &Node<'_>| -> Parsed<String> {
            let name = entry.text()?;
            match known().any(|known| known == name) {
                true => Ok(name.to_owned()),
                false => entry.wrong(unknown("an operation", name, known())),
            }
        };
        let aim = OperationAim {
            at: table.get("at").map_or(Ok(Vec::new()), targets)?,
            then: names.list(table.get("then"), following)?,
        };
        weights.insert(verb.clone(), weight);
        if aim != OperationAim::default() {
            aims.insert(verb, aim);
        }
    }
    Ok((weights, aims))
}

/// Returns names with their weights.
fn weights<'k>(
    node: &Node<'_>,
    known: impl IntoIterator<Item = &'k str>,
) -> Parsed<BTreeMap<String, u64>> {
    node.table(known)?
        .entries()
        .map(|entry| Ok((entry.label.to_owned(), entry.number(0)?)))
        .collect()
}

fn faults(node: &Node<'_>, names: &Names<'_>) -> Parsed<FaultProfile> {
    let table = node.table(keys::SWARM_FAULTS.names())?;
    let without = FaultProfile::every();
    Ok(FaultProfile {
        count: numbers(&table, "count", 0, without.count)?,
        kinds: numbers(&table, "kinds", 0, without.kinds)?,
        aimed: table.get("aimed").map_or(Ok(without.aimed), |node| aimed(&node))?,
        at: table.get("at").map_or(Ok(without.at), |node| marks(&node, names))?,
        wakes: table.get("wakes").map_or(Ok(without.wakes), |node| node.share())?,
        weights: match table.get("weights") {
            None => without.weights,
            Some(node) => {
                let table = node.table(FaultKind::drawable().map(|kind| kind.word().name))?;
                table.entries().map(|entry| shape(&entry, names)).collect::<Parsed<_>>()?
            }
        },
    })
}

fn aimed(node: &Node<'_>) -> Parsed<Aimed> {
    let table = node.table(keys::SWARM_AIMED.names())?;
    let share = |key| table.get(key).map_or(Ok(0.0), |node| node.weight("a number from 0"));
    Ok(Aimed { milestone: share("milestone")?, point: share("point")?, time: share("time")? })
}

/// Returns milestones and points with their weights.
fn marks(node: &Node<'_>, names: &Names<'_>) -> Parsed<BTreeMap<String, u64>> {
    let subject = names.subject;
    weights(
        node,
        subject
            .milestones()
            .iter()
            .map(|doc| doc.name)
            .chain(subject.points().iter().map(|doc| doc.name)),
    )
}

/// Returns the fields of a kind of fault that a swarm can draw, with their types.
pub(in crate::scenario) fn drawable(
    kind: FaultKind,
) -> impl Iterator<Item = (&'static str, FieldType)> {
    let fixed = ["conn", "hosts", "until", "then", "at-most", "pipe"];
    let fields = kind.word().fields.iter().map(|field| (field.name, field.kind));
    fields.filter(move |(name, _)| !fixed.contains(name))
}

/// Returns a weight, or a table with a weight and choices.
fn shape(node: &Node<'_>, names: &Names<'_>) -> Parsed<(FaultKind, FaultShape)> {
    let kind: FaultKind = node.label.parse().expect("the table's keys are known");
    if !node.is_table() {
        return Ok((kind, kind.shape(node.number(0)?)));
    }
    let fields = || drawable(kind).map(|(name, _)| name);
    let table = node.table(std::iter::once("weight").chain(fields()))?;
    let mut shape = kind.shape(table.need("weight", "a number from 0")?.number(0)?);
    for (name, of) in drawable(kind) {
        let Some(field) = table.get(name) else { continue };
        match of {
            FieldType::Duration | FieldType::Jump => {
                shape.durations.insert(name, durations(&field)?);
            }
            FieldType::Count => {
                let usual = shape.numbers.get(name).cloned().unwrap_or(Choice::Fixed(0));
                shape.numbers.insert(name, numbers(&table, name, 0, usual)?);
            }
            FieldType::Size => {
                shape.numbers.insert(name, sizes(&field)?);
            }
            FieldType::Learns => learns(&field, &mut shape)?,
            FieldType::Host if name == "toward" => {
                shape.toward = one_or_more(&field, |entry| one_of(entry, &TOWARD))?;
            }
            FieldType::Host => shape.hosts = one_or_more(&field, |entry| names.host(entry))?,
            FieldType::Hosts | FieldType::Conn | FieldType::Name(_) | FieldType::Trigger => {}
        }
    }
    Ok((kind, shape))
}

fn one_or_more<T>(node: &Node<'_>, one: impl Fn(&Node<'_>) -> Parsed<T>) -> Parsed<Vec<T>> {
    if node.is_list() {
        node.texts()?.iter().map(one).collect()
    } else {
        one(node).map(|only| vec![only])
    }
}

fn learns(node: &Node<'_>, shape: &mut FaultShape) -> Parsed<()> {
    let table = node.table(["client", "server"])?;
    let expected = "a duration like `\"3s\"`, `\"never\"`, or a range like `\"0ms..12s\"`";
    // `never` sorts after every duration.
    let end = |text: &str| match super::steps::read_learns(text)? {
        Learns::After(time) => Ok(time),
        Learns::Never => Ok::<_, String>(Duration::MAX),
    };
    let one = |node: &Node<'_>| node.read(expected, end);
    let back = |time| if time == Duration::MAX { Learns::Never } else { Learns::After(time) };
    for (side, place) in
        [("client", &mut shape.learns_client), ("server", &mut shape.learns_server)]
    {
        if let Some(node) = table.get(side) {
            *place = map(choice(&node, expected, &one, &end)?, &back);
        }
    }
    Ok(())
}

fn map<T, U>(choice: Choice<T>, with: &impl Fn(T) -> U) -> Choice<U> {
    match choice {
        Choice::Fixed(value) => Choice::Fixed(with(value)),
        Choice::Range(low, high) => Choice::Range(with(low), with(high)),
        Choice::OneOf(choices) => {
            Choice::OneOf(choices.into_iter().map(|choice| map(choice, with)).collect())
        }
    }
}

fn understudies(node: &Node<'_>, names: &Names<'_>) -> Parsed<Vec<PuppetShare>> {
    let understudy = |node: &Node<'_>| {
        let table = node.table(keys::SWARM_PUPPET.names())?;
        Ok(PuppetShare {
            chance: table.need("chance", "a number from 0 to 1")?.share()?,
            host: names.host(&table.need("host", "a host")?)?,
            puppet: puppet::parts(&table)?,
        })
    };
    node.list("a list of tables, each under `[[swarm.puppet]]`")?.iter().map(understudy).collect()
}
