//! Pairs of `toolcall` runs that must end in the same state in different ways. No test predicts
//! that state: it compares, between two runs, the host's final channels and each window's final
//! view of them.
//!
//! - Losses that end before a lease does change nothing: each schedule runs without faults, and
//!   again with occasional lost connections.
//! - A replay and a snapshot give the same state: each schedule runs with such losses and a log
//!   that keeps every missed action, and again with a log that is always too short.
//!
//! The schedules come from the scenario files and the swarm. They are changed so that their end
//! does not depend on timing: no other faults, no cancelled turns, no unsubscriptions, and one turn
//! per chat. The comparison ignores times, generated names, and which of several windows ran a
//! call.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reknit::history::{EventKind, History};
use reknit::hunt::random::HuntTarget;
use reknit::scenario::ScenarioFile;
use reknit::schedule::keyed::below;
use reknit::schedule::{
    Action, Conn, Fault, Host, Learns, LimitValue, Limits, Operation, Plan, Step, When, faults,
};
use reknit::subject::DynSubject;
use reknit::subjects::Toolcall;
use reknit::subjects::toolcall::notes::OfChannel;
use reknit::world::{Options, run};
use serde_json::{Value, json};

const FOLDER: &str = "scenarios/toolcall";

/// The number of random schedules.
const DRAWN: u64 = 20;

/// The time by which the windows have joined and subscribed.
const SETTLED: Duration = Duration::from_secs(3);

/// Long enough for an agent to give up the last call of a turn.
const HORIZON: Duration = Duration::from_secs(5 * 60);

fn subject() -> Arc<dyn DynSubject> {
    Arc::new(Toolcall)
}

/// Returns all schedules with their names: those of files, and random ones.
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
    let target = HuntTarget::default_for(&subjects[0]).unwrap();
    let drawn = (0..DRAWN).map(|seed| (format!("seed {seed}"), target.plan(seed)));
    let calm = of_files.chain(drawn).filter_map(|(name, plan)| Some((name, calm(plan)?)));
    // Many files differ only in what `calm` removes.
    let mut known = BTreeSet::new();
    calm.filter(|(_, plan)| known.insert(format!("{:?}", Plan { seed: 0, ..plan.clone() })))
        .collect()
}

/// Removes everything that makes the end of a schedule depend on timing; `None` if the schedule has
/// a puppet.
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

/// Limits the duration of an agent's step.
fn soon_over(scene: &mut Value) {
    let Some((what, how)) = scene.as_object_mut().and_then(|scene| scene.iter_mut().next()) else {
        return;
    };
    match what.as_str() {
        "wait" => *how = json!("5s"),
        "say" => how["every"] = json!("200ms"),
        "call" => how["patience"] = json!("60s"),
        // Why a question has no answer depends on its connection.
        "ask" => how["tells"] = json!(false),
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

/// Keeps an operation if its outcome does not depend on its time, and moves it to a time at which
/// it is possible.
fn keep(
    plan: &Plan,
    when: When,
    operation: Operation,
    chats: &mut BTreeSet<String>,
) -> Option<Step> {
    let at = match (when, operation.verb.as_str()) {
        // An operation that would be lost with its connection runs before the first loss.
        (_, "watch" | "open-second" | "close-second") => SETTLED - Duration::from_secs(1),
        (When::At(at), "start-turn" | "rename") => SETTLED + at,
        (When::After(_), "start-turn" | "rename") => SETTLED * 2,
        _ => return None,
    };
    let is_kept = match operation.verb.as_str() {
        // The last title depends on the order of the clients, so only one client renames.
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

/// Returns the chat of the turn that is in progress at the start.
fn first_chat(plan: &Plan) -> String {
    let first = plan.entries("turn").next().map_or("t1", |(name, _)| name);
    chat_of(plan, first)
}

/// Adds losses of connections that no lease notices: each is much shorter than the grace period.
fn with_drops(mut plan: Plan, first: Duration, every: Duration) -> Plan {
    let hosts: Vec<Host> = plan.client_hosts().collect();
    for n in 0..5_u32 {
        let drawn = |what: &str, most: u64| below(plan.seed, what, &[u64::from(n)], most);
        let host = hosts[drawn("whose", hosts.len() as u64) as usize].clone();
        let late = Learns::After(Duration::from_millis(drawn("late", 3_000)));
        let conn = Conn::last(host.clone());
        let learns = |who: Host| BTreeMap::from([(who, late)]);
        let fault = match drawn("how", 4) {
            0 => Fault::Cut(faults::Cut { conn, learns: BTreeMap::new() }),
            1 => Fault::Cut(faults::Cut { conn, learns: learns(host) }),
            2 => Fault::Cut(faults::Cut { conn, learns: learns(Host::from("server")) }),
            _ => Fault::Reset(faults::Reset { conn, toward: None }),
        };
        let at =
            first + every * n + Duration::from_millis(drawn("when", every.as_millis() as u64 / 2));
        plan.steps.push(Step { when: When::At(at), action: Action::Fault(fault) });
    }
    plan
}

/// The result of a run.
struct RunResult {
    /// The state of each channel at the end: at the host, and at each window that subscribes to it.
    to: BTreeMap<(String, String), String>,
    /// The number of times that each milestone was reached.
    reached: BTreeMap<&'static str, u64>,
}

fn run_plan(plan: &Plan) -> RunResult {
    let outcome = run(&subject(), plan, &Options::default()).unwrap();
    RunResult { to: known(plan, &outcome.history), reached: reached(plan, &outcome.history) }
}

impl RunResult {
    /// Whether the host and a window have any state. Some schedules start no turn after their
    /// faults are removed.
    fn is_comparable(&self) -> bool {
        self.to.keys().any(|(host, _)| host == "server") && self.to.len() > 2
    }

    fn times(&self, milestone: &str) -> u64 {
        self.reached.get(milestone).copied().unwrap_or(0)
    }
}

/// Returns the last recorded state of each channel at each host, without the parts that depend on
/// times.
fn known(plan: &Plan, history: &History) -> BTreeMap<(String, String), String> {
    let judged = history.events.iter().take_while(|event| event.at <= plan.horizon.into());
    let mut known = BTreeMap::new();
    for event in judged {
        let (EventKind::Observed { stream, saw }, Some(host)) = (&event.what, &event.host) else {
            continue;
        };
        let key = (host.as_str().to_owned(), stream.0.to_string());
        match saw.downcast_ref() {
            Some(OfChannel::Changed) => drop(known.insert(key, "not at rest".to_owned())),
            Some(OfChannel::Unsubscribed | OfChannel::Removed) => drop(known.remove(&key)),
            Some(OfChannel::Stable { second: false, digest, .. }) => {
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

/// Describes the differences between two runs of a schedule, if there are any.
fn unlike(name: &str, one: &RunResult, other: &RunResult, plan: &Plan) -> Option<String> {
    let keys: BTreeSet<_> = one.to.keys().chain(other.to.keys()).collect();
    let state_of =
        |came: &RunResult, key| came.to.get(key).map_or_else(|| "nothing".to_owned(), Clone::clone);
    let differ = keys.into_iter().filter(|key| one.to.get(*key) != other.to.get(*key));
    let differ = differ.map(|key| {
        format!("  {} at {}: {}, and {}\n", key.1, key.0, state_of(one, key), state_of(other, key))
    });
    let differ: String = differ.collect();
    let file = || ScenarioFile::of_plan(plan.clone(), format!("{name}, with drops")).to_toml();
    (!differ.is_empty()).then(|| format!("{name}: it came to something else\n{differ}\n{}", file()))
}

/// The totals over several schedules.
#[derive(Default)]
struct Shown {
    /// The number of compared schedules.
    schedules: usize,
    /// How often the compared event occurred in them.
    times: u64,
}

/// A relation between two runs of a schedule: returns a description if they end in different
/// states, and counts the comparisons.
type Relation = fn(&str, &Plan, &mut Shown) -> Option<String>;

/// Compares the runs with and without losses; counts the losses.
fn drops_change(name: &str, plan: &Plan, shown: &mut Shown) -> Option<String> {
    let dropped = with_drops(plan.clone(), SETTLED, Duration::from_secs(9));
    let (one, other) = (run_plan(plan), run_plan(&dropped));
    assert_eq!(one.times("toolcall.client.lost"), 0, "{name}: the calm run is calm");
    if !one.is_comparable() {
        return None;
    }
    shown.schedules += 1;
    shown.times += other.times("toolcall.client.lost");
    unlike(name, &one, &other, &dropped)
}

/// Lets an agent first send many messages, so that a disconnected client misses more than a small
/// log keeps.
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
    // A client that starts its turn late would see a different state.
    plan.steps.retain(|step| !matches!(&step.action, Action::Operation(operation) if operation.verb == "start-turn"));
    plan
}

/// Compares replays with snapshots; counts the snapshots that took the place of replays.
fn snapshots_change(name: &str, plan: &Plan, shown: &mut Shown) -> Option<String> {
    let plan = with_drops(talkative(plan.clone()), SETTLED, Duration::from_secs(3));
    let with_log = |actions: u64| {
        let mut plan = plan.clone();
        plan.limits.set("host.log-actions", LimitValue::Count(actions));
        plan
    };
    let (large, small) = (with_log(10_000), with_log(32));
    let (one, other) = (run_plan(&large), run_plan(&small));
    assert_eq!(one.times("toolcall.client.reseated"), 0, "{name}: the large log has everything");
    if !one.is_comparable() {
        return None;
    }
    shown.schedules += 1;
    shown.times +=
        one.times("toolcall.client.replayed").min(other.times("toolcall.client.reseated"));
    unlike(name, &one, &other, &small)
}

/// Checks a relation for these schedules, and returns the totals. At most one in 10 may have
/// nothing to compare.
fn holds(relation: Relation, schedules: &[(String, Plan)]) -> Shown {
    let mut shown = Shown::default();
    let unlike: Vec<String> =
        schedules.iter().filter_map(|(name, plan)| relation(name, plan, &mut shown)).collect();
    assert!(unlike.is_empty(), "{} of {}:\n{}", unlike.len(), schedules.len(), unlike.join("\n"));
    assert!(
        shown.schedules * 10 >= schedules.len() * 9,
        "{} of {} were compared",
        shown.schedules,
        schedules.len()
    );
    shown
}

/// A defect must violate the relation. Otherwise the relation proves nothing.
fn is_broken_by(relation: Relation, defect: &str) {
    let broken = schedules().into_iter().any(|(name, mut plan)| {
        plan.defects.push(defect.to_owned());
        relation(&name, &plan, &mut Shown::default()).is_some()
    });
    assert!(broken, "with `{defect}` on, all came to the same");
}

/// Returns one of so many schedules.
fn one_of(many: usize) -> Vec<(String, Plan)> {
    schedules().into_iter().step_by(many).collect()
}

fn drops_change_nothing(among: &[(String, Plan)]) {
    let Shown { schedules, times } = holds(drops_change, among);
    assert!(times >= 3 * schedules as u64, "{times} drops in {schedules} schedules");
}

fn snapshots_change_nothing(among: &[(String, Plan)]) {
    let Shown { schedules, times } = holds(snapshots_change, among);
    assert!(times >= 2 * schedules as u64, "{times} snapshots in {schedules} schedules");
}

#[test]
fn resets_shorter_than_a_lease_change_nothing() {
    drops_change_nothing(&one_of(3));
}

#[test]
fn a_replay_and_a_snapshot_give_the_same_state() {
    // These schedules send many messages, and take long.
    snapshots_change_nothing(&one_of(9));
}

#[test]
#[ignore = "takes minutes: .ci/nightly runs it"]
fn all_resets_shorter_than_a_lease_change_nothing() {
    drops_change_nothing(&schedules());
}

#[test]
#[ignore = "takes minutes: .ci/nightly runs it"]
fn every_replay_and_its_snapshot_give_the_same_state() {
    snapshots_change_nothing(&schedules());
}

#[test]
fn defects_that_make_a_reset_visible_are_detected() {
    for defect in ["replay-not-applied", "lease-survives-return"] {
        is_broken_by(drops_change, defect);
    }
}

#[test]
fn defects_that_make_a_snapshot_differ_from_a_replay_are_detected() {
    for defect in ["only-the-root-is-reseated", "replay-not-applied"] {
        is_broken_by(snapshots_change, defect);
    }
}
