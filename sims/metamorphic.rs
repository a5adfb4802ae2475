//! Runs of `toolcall` that must come to the same, though not in the same way. Nobody says what they come to: what the host says of its
//! channels in the end, and each window of what it knows, is compared between two runs.
//!
//! - A drop that no lease notices changes nothing: each schedule is run in calm, and again with connections that are cut now and then.
//! - A replay and a snapshot come to the same: each is run with those cuts under a log that has all that was missed, and again under
//!   one that has never enough.
//!
//! The schedules are those of the scenario files and of the swarm, made into such whose end does not depend on when things happen:
//! no faults but these, nobody cancels or lets go, one turn a chat. Times, names that are given by counting, and which of several
//! windows ran a call do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reknit::history::{EventKind, History};
use reknit::scenario::ScenarioFile;
use reknit::schedule::keyed::below;
use reknit::schedule::{
    Action, Conn, Fault, Host, Learns, LimitValue, Limits, Operation, Plan, Profile, Step, When,
    draw,
};
use reknit::subject::DynSubject;
use reknit::subjects::Toolcall;
use reknit::subjects::toolcall::notes::OfChannel;
use reknit::world::{Options, run};
use serde_json::{Value, json};

const FOLDER: &str = "scenarios/toolcall";

/// So many schedules are drawn.
const DRAWN: u64 = 20;

/// When windows have moved in, and look at what they want to.
const SETTLED: Duration = Duration::from_secs(3);

/// Long enough for an agent to give up the last call of a turn.
const HORIZON: Duration = Duration::from_secs(5 * 60);

fn subject() -> Arc<dyn DynSubject> {
    Arc::new(Toolcall)
}

/// All schedules: those of files, with their names, and drawn ones.
fn schedules() -> Vec<(String, Plan)> {
    let subjects = [subject()];
    let mut files: Vec<_> =
        std::fs::read_dir(FOLDER).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|kind| kind == "toml"));
    files.sort();
    let load = |path: &Path| {
        ScenarioFile::load(path, &subjects).unwrap_or_else(|mistake| panic!("{mistake}"))
    };
    let of_files = files
        .iter()
        .filter_map(|path| Some((path.display().to_string(), load(path).plans().first()?.clone())));
    let profile = Profile::default_for(&*subjects[0]);
    let drawn =
        (0..DRAWN).map(|seed| (format!("seed {seed}"), draw::plan(&profile, &*subjects[0], seed)));
    of_files.chain(drawn).filter_map(|(name, plan)| Some((name, calm(plan)?))).collect()
}

/// The schedule without anything by which its end depends on when things happen; nothing where a puppet plays a part.
fn calm(mut plan: Plan) -> Option<Plan> {
    if !plan.puppets.is_empty() {
        return None;
    }
    plan.limits = Limits::default();
    (plan.horizon, plan.heal) = (HORIZON, Duration::ZERO);
    entries(&mut plan, "channel").for_each(|channel| channel["restores"] = json!("5ms"));
    entries(&mut plan, "tool").for_each(|tool| tool["takes"] = json!("5s"));
    for scene in
        entries(&mut plan, "turn").filter_map(|turn| turn["script"].as_array_mut()).flatten()
    {
        soon_over(scene);
    }
    let mut chats = BTreeSet::from([first_chat(&plan)]);
    let steps = std::mem::take(&mut plan.steps);
    let operations = steps.into_iter().filter_map(|step| match step.action {
        Action::Operation(operation) => Some((step.when, operation)),
        Action::Fault(_) => None,
    });
    let kept: Vec<Step> = operations
        .filter_map(|(when, operation)| keep(&plan, when, operation, &mut chats))
        .collect();
    plan.steps = kept;
    Some(plan)
}

/// Nothing that an agent does takes long.
fn soon_over(scene: &mut Value) {
    let Some((what, how)) = scene.as_object_mut().and_then(|scene| scene.iter_mut().next()) else {
        return;
    };
    match what.as_str() {
        "wait" => *how = json!("5s"),
        "say" => how["every"] = json!("200ms"),
        "call" => how["patience"] = json!("60s"),
        _ => {}
    }
}

fn entries<'p>(plan: &'p mut Plan, table: &str) -> impl Iterator<Item = &'p mut Value> {
    plan.setup
        .get_mut(table)
        .and_then(Value::as_object_mut)
        .into_iter()
        .flat_map(|entries| entries.values_mut())
}

/// An operation whose outcome does not depend on when it is carried out, at a time at which it can be.
fn keep(
    plan: &Plan,
    when: When,
    operation: Operation,
    chats: &mut BTreeSet<String>,
) -> Option<Step> {
    let at = match (when, operation.verb.as_str()) {
        // What is lost with its connection is asked for before any is cut.
        (_, "watch" | "open-second" | "close-second") => SETTLED - Duration::from_secs(1),
        (When::At(at), "start-turn" | "rename") => SETTLED + at,
        (When::After(_), "start-turn" | "rename") => SETTLED * 2,
        _ => return None,
    };
    let is_kept = match operation.verb.as_str() {
        // The last title is whose it was that came last.
        "rename" => operation.client == Host::client(1),
        "start-turn" => chats.insert(chat_of(plan, operation.fields["turn"].as_str()?)),
        _ => true,
    };
    is_kept.then_some(Step { when: When::At(at), action: Action::Operation(operation) })
}

fn chat_of(plan: &Plan, turn: &str) -> String {
    let chat = plan
        .entries("turn")
        .find(|(name, _)| *name == turn)
        .and_then(|(_, entry)| entry.get("chat"));
    chat.and_then(Value::as_str).unwrap_or("c1").to_owned()
}

/// The chat of the turn that is under way at the start.
fn first_chat(plan: &Plan) -> String {
    let first = plan.entries("turn").next().map_or("t1", |(name, _)| name);
    chat_of(plan, first)
}

/// The same schedule with drops that no lease notices: each is over long before a grace is.
fn with_drops(mut plan: Plan, first: Duration, every: Duration) -> Plan {
    let hosts: Vec<Host> = plan.client_hosts().collect();
    for n in 0..5_u32 {
        let drawn = |what: &str, most: u64| below(plan.seed, what, &[u64::from(n)], most);
        let host = hosts[drawn("whose", hosts.len() as u64) as usize].clone();
        let late = Learns::After(Duration::from_millis(drawn("late", 3_000)));
        let conn = Conn::last(host.clone());
        let learns = |who: Host| BTreeMap::from([(who, late)]);
        let fault = match drawn("how", 4) {
            0 => Fault::Cut { conn, learns: BTreeMap::new() },
            1 => Fault::Cut { conn, learns: learns(host) },
            2 => Fault::Cut { conn, learns: learns(Host::from("server")) },
            _ => Fault::Reset { conn, toward: None },
        };
        let at =
            first + every * n + Duration::from_millis(drawn("when", every.as_millis() as u64 / 2));
        plan.steps.push(Step { when: When::At(at), action: Action::Fault(fault) });
    }
    plan
}

/// What a run came to.
struct Came {
    /// What is known of each channel: by the host, and by each window that looks at it.
    to: BTreeMap<(String, String), String>,
    /// How often each milestone was reached.
    reached: BTreeMap<&'static str, u64>,
}

fn come(plan: &Plan) -> Came {
    let outcome = run(&subject(), plan, &Options::default()).unwrap();
    Came { to: known(plan, &outcome.history), reached: reached(plan, &outcome.history) }
}

impl Came {
    /// Whether the host and a window came to something. In some schedules no turn begins once they are calm.
    fn is_comparable(&self) -> bool {
        self.to.keys().any(|(host, _)| host == "server") && self.to.len() > 2
    }

    fn times(&self, milestone: &str) -> u64 {
        self.reached.get(milestone).copied().unwrap_or(0)
    }
}

/// The last word of everybody about each channel, as far as it does not depend on times.
fn known(plan: &Plan, history: &History) -> BTreeMap<(String, String), String> {
    let judged = history.events.iter().take_while(|event| event.at <= plan.horizon.into());
    let mut known = BTreeMap::new();
    for event in judged {
        let (EventKind::Saw { stream, saw }, Some(host)) = (&event.what, &event.host) else {
            continue;
        };
        let key = (host.as_str().to_owned(), stream.0.to_string());
        match saw.downcast_ref() {
            Some(OfChannel::Stirs) => drop(known.insert(key, "not at rest".to_owned())),
            Some(OfChannel::LetGo | OfChannel::Gone) => drop(known.remove(&key)),
            Some(OfChannel::Settles { second: false, digest }) => {
                known.extend(digest.split_once('-').map(|(_, plain)| (key, plain.to_owned())));
            }
            _ => {}
        }
    }
    known
}

fn reached(plan: &Plan, history: &History) -> BTreeMap<&'static str, u64> {
    let mut reached = BTreeMap::new();
    for event in history.events.iter().take_while(|event| event.at <= plan.horizon.into()) {
        if let EventKind::Milestone { name, .. } = event.what {
            *reached.entry(name).or_default() += 1;
        }
    }
    reached
}

/// What two runs of a schedule came to, where they did not come to the same.
fn unlike(name: &str, one: &Came, other: &Came, plan: &Plan) -> Option<String> {
    let keys: BTreeSet<_> = one.to.keys().chain(other.to.keys()).collect();
    let reported =
        |came: &Came, key| came.to.get(key).map_or_else(|| "nothing".to_owned(), Clone::clone);
    let differ = keys.into_iter().filter(|key| one.to.get(*key) != other.to.get(*key));
    let differ = differ.map(|key| {
        format!("  {} at {}: {}, and {}\n", key.1, key.0, reported(one, key), reported(other, key))
    });
    let differ: String = differ.collect();
    let file = || ScenarioFile::of_plan(plan.clone(), format!("{name}, with drops")).to_toml();
    (!differ.is_empty()).then(|| format!("{name}: it came to something else\n{differ}\n{}", file()))
}

/// What schedules showed.
#[derive(Default)]
struct Shown {
    /// How many were compared.
    schedules: usize,
    /// How often what the relation is about happened in them.
    times: u64,
}

/// A relation between runs: says where a schedule comes to something else in the two ways; counts what was compared.
type Relation = fn(&str, &Plan, &mut Shown) -> Option<String>;

/// Whether drops change what a schedule comes to; counts drops.
fn drops_change(name: &str, plan: &Plan, shown: &mut Shown) -> Option<String> {
    let dropped = with_drops(plan.clone(), SETTLED, Duration::from_secs(9));
    let (one, other) = (come(plan), come(&dropped));
    assert_eq!(one.times("toolcall.client.lost"), 0, "{name}: the calm run is calm");
    if !one.is_comparable() {
        return None;
    }
    shown.schedules += 1;
    shown.times += other.times("toolcall.client.lost");
    unlike(name, &one, &other, &dropped)
}

/// How much an agent says first, so that a client that is away misses more than a small log has.
fn talkative(mut plan: Plan) -> Plan {
    let talk = json!({ "say": { "times": 1000, "every": "20ms" } });
    let first = plan.entries("turn").next().map_or("t1", |(name, _)| name).to_owned();
    let turns = plan.setup.entry("turn").or_insert_with(|| json!({}));
    let turn = turns.as_object_mut().expect("a table").entry(first).or_insert_with(|| json!({}));
    turn["at-start"] = json!(true);
    turn["chat"] = json!("c1");
    match turn.get_mut("script").and_then(Value::as_array_mut) {
        Some(script) => script.insert(0, talk),
        None => turn["script"] = json!([talk, { "call": {} }]),
    }
    // Who comes late to it would look at something else.
    plan.steps.retain(|step| !matches!(&step.action, Action::Operation(operation) if operation.verb == "start-turn"));
    plan
}

/// Whether it makes a difference that what was missed is told as snapshots; counts snapshots instead of replays.
fn snapshots_change(name: &str, plan: &Plan, shown: &mut Shown) -> Option<String> {
    let plan = with_drops(talkative(plan.clone()), SETTLED, Duration::from_secs(3));
    let with_log = |actions: u64| {
        let mut plan = plan.clone();
        plan.limits.set("host.log-actions", LimitValue::Count(actions));
        plan
    };
    let (large, small) = (with_log(10_000), with_log(32));
    let (one, other) = (come(&large), come(&small));
    assert_eq!(one.times("toolcall.client.reseated"), 0, "{name}: the large log has everything");
    if !one.is_comparable() {
        return None;
    }
    shown.schedules += 1;
    shown.times +=
        one.times("toolcall.client.replayed").min(other.times("toolcall.client.reseated"));
    unlike(name, &one, &other, &small)
}

/// What schedules showed, in each of which both ways come to the same. Few have nothing to compare.
fn holds(relation: Relation, schedules: &[(String, Plan)]) -> Shown {
    let mut shown = Shown::default();
    let unlike: Vec<String> =
        schedules.iter().filter_map(|(name, plan)| relation(name, plan, &mut shown)).collect();
    assert!(unlike.is_empty(), "{} of {}:\n{}", unlike.len(), schedules.len(), unlike.join("\n"));
    assert!(
        shown.schedules * 20 >= schedules.len() * 19,
        "{} of {} were compared",
        shown.schedules,
        schedules.len()
    );
    shown
}

/// A relation that a bug does not break says nothing.
fn is_broken_by(relation: Relation, defect: &str) {
    let broken = schedules().into_iter().any(|(name, mut plan)| {
        plan.defects.push(defect.to_owned());
        relation(&name, &plan, &mut Shown::default()).is_some()
    });
    assert!(broken, "with `{defect}` on, all came to the same");
}

#[test]
fn drops_that_no_lease_notices_change_nothing() {
    let Shown { schedules, times } = holds(drops_change, &schedules());
    assert!(
        schedules >= 70 && times >= 3 * schedules as u64,
        "{times} drops in {schedules} schedules"
    );
}

#[test]
fn a_replay_and_a_snapshot_come_to_the_same() {
    // These talk much, and take long.
    let some: Vec<_> = schedules().into_iter().step_by(3).collect();
    let Shown { schedules, times } = holds(snapshots_change, &some);
    assert!(
        schedules >= 20 && times >= 2 * schedules as u64,
        "{times} snapshots in {schedules} schedules"
    );
}

#[test]
fn bugs_by_which_a_drop_changes_something_are_seen() {
    for defect in ["replay-not-applied", "lease-survives-return"] {
        is_broken_by(drops_change, defect);
    }
}

#[test]
fn bugs_by_which_a_snapshot_is_no_replay_are_seen() {
    for defect in ["only-the-root-is-reseated", "replay-not-applied"] {
        is_broken_by(snapshots_change, defect);
    }
}
