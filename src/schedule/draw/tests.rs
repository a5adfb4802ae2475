//! Tests of conditions that every drawn plan must meet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::*;
use crate::history::Class;
use crate::property::Guarantees;
use crate::schedule::FaultKind;
use crate::schedule::profile::{Entries, OperationAim, PuppetShare, Template};
use crate::schedule::{
    Choice, Fault, HoldEnd, Learns, Limit, LimitValue, Limits, Puppet, TriggerMark, faults,
};
use crate::subject::{
    HostContext, MilestoneDoc, OperationQueue, Operations, PointDoc, Program, ProgramCode, Subject,
};

/// A subject that is never run: it only provides tables and operations for drawing.
struct Relay;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Ask {
    Watch { stream: String },
    Poke { times: u8 },
    Leave {},
    Call { times: u8 },
}

impl Operations for Ask {
    fn class(&self) -> Class {
        Class::Durable
    }

    fn strategy(plan: &Plan) -> BoxedStrategy<Self> {
        let streams: Vec<String> =
            plan.setup["stream"].as_object().unwrap().keys().cloned().collect();
        prop_oneof![
            6 => proptest::sample::select(streams).prop_map(|stream| Ask::Watch { stream }),
            3 => (0..9u8).prop_map(|times| Ask::Poke { times }),
            1 => Just(Ask::Leave {}),
        ]
        .boxed()
    }

    fn verb_strategies(_: &Plan) -> Vec<(&'static str, BoxedStrategy<Self>)> {
        vec![("call", (0..9u8).prop_map(|times| Ask::Call { times }).boxed())]
    }
}

impl Subject for Relay {
    type Operation = Ask;

    fn name(&self) -> &'static str {
        "relay"
    }

    fn description(&self) -> &'static str {
        "offers something to draw"
    }

    fn limits(&self) -> &'static [Limit] {
        &[Limit {
            name: "queue",
            default: LimitValue::Count(64),
            least: LimitValue::Count(1),
            doc: "",
        }]
    }

    fn milestones(&self) -> &'static [MilestoneDoc] {
        &[
            MilestoneDoc { name: "relay.up", fields: &[], doc: "", only: None },
            MilestoneDoc { name: "relay.down", fields: &[], doc: "", only: None },
            MilestoneDoc { name: "relay.wrong", fields: &[], doc: "", only: Some("goes-wrong") },
        ]
    }

    fn points(&self) -> &'static [PointDoc] {
        &[
            PointDoc { name: "relay.unlocked", doc: "", defect: None },
            PointDoc { name: "relay.torn", doc: "", defect: Some("goes-wrong") },
        ]
    }

    fn programs(&self) -> &'static [Program] {
        const DAEMON: Program = Program {
            name: "daemon",
            code: ProgramCode::Outside,
            run: |_| Box::pin(std::future::pending()),
        };
        &[DAEMON]
    }

    fn setup(&self) -> Vec<(&'static str, schemars::Schema)> {
        vec![("stream", schemars::json_schema!({ "examples": [{ "items": 3 }, { "items": 300 }] }))]
    }

    async fn serve(&self, _: HostContext) {}

    async fn drive(&self, _: HostContext, _: OperationQueue<Ask>) {}

    fn guarantees(&self, _: &Limits) -> Guarantees {
        Guarantees::default()
    }
}

fn relay() -> Arc<dyn Repertoire> {
    Arc::new(Relay)
}

fn profile() -> Profile {
    Profile::of_schemas(&Relay)
}

fn draw(profile: &Profile, seed: u64) -> Plan {
    plan(profile, &Relay, seed)
}

/// Enough plans for meaningful shares.
const MANY: u64 = 300;

fn draws(profile: &Profile) -> impl Iterator<Item = Plan> {
    (1..=MANY).map(move |seed| plan(profile, &Relay, seed))
}

fn faults(plan: &Plan) -> Vec<(&When, &Fault)> {
    (plan.steps.iter())
        .filter_map(|step| match &step.action {
            Action::Fault(fault) => Some((&step.when, fault)),
            Action::Operation(_) => None,
        })
        .collect()
}

fn operations(plan: &Plan) -> Vec<(&When, &Operation)> {
    (plan.steps.iter())
        .filter_map(|step| match &step.action {
            Action::Operation(operation) => Some((&step.when, operation)),
            Action::Fault(_) => None,
        })
        .collect()
}

/// The duration of a fault after its start, if its fields define one.
fn lasts(fault: &Fault) -> Option<Duration> {
    match fault {
        Fault::Partition(faults::Partition { lasts, .. })
        | Fault::Stall(faults::Stall { lasts, .. })
        | Fault::Blackhole(faults::Blackhole { lasts, .. })
        | Fault::Delay(faults::Delay { lasts, .. })
        | Fault::Slow(faults::Slow { lasts, .. })
        | Fault::Refuse(faults::Refuse { lasts, .. })
        | Fault::Hang(faults::Hang { lasts, .. })
        | Fault::AcceptThenClose(faults::AcceptThenClose { lasts, .. })
        | Fault::Crash(faults::Crash { lasts, .. })
        | Fault::StopChildren(faults::StopChildren { lasts, .. })
        | Fault::SlowChildren(faults::SlowChildren { lasts, .. })
        | Fault::DelayOutput(faults::DelayOutput { lasts, .. })
        | Fault::PowerLoss(faults::PowerLoss { lasts, .. }) => {
            Some(lasts.expect("what is drawn has an end"))
        }
        Fault::Hold(faults::Hold {
            end: HoldEnd::After(lasts) | HoldEnd::Until { at_most: lasts, .. },
        }) => Some(*lasts),
        Fault::Cut(faults::Cut { learns, .. }) => learns
            .values()
            .map(|learns| if let Learns::After(d) = learns { *d } else { Duration::ZERO })
            .max(),
        _ => None,
    }
}

#[test]
fn one_seed_gives_one_plan_and_other_seeds_give_other_plans() {
    assert_eq!(draw(&profile(), 7), draw(&profile(), 7));
    let different: BTreeSet<String> =
        draws(&profile()).map(|plan| format!("{:?}", plan.steps)).collect();
    assert!(
        different.len() as u64 > MANY * 95 / 100,
        "only {} of {MANY} plans differ",
        different.len()
    );
}

/// A profile with this many faults, none of which follows another fault.
fn apart(faults: u64, asks: u64) -> Profile {
    let mut profile = Profile { asks: Choice::Fixed(asks), clients: Choice::Fixed(2), ..profile() };
    (profile.faults.count, profile.faults.wakes) = (Choice::Fixed(faults), 0.0);
    profile
}

/// The same weight for each of these verbs.
fn verbs<const N: usize>(verbs: [&str; N]) -> BTreeMap<String, u64> {
    verbs.map(|verb| (verb.to_owned(), 1)).into()
}

#[test]
fn removing_an_operation_moves_no_other_operation() {
    for seed in 1..30 {
        let (more, less) = (draw(&apart(0, 5), seed), draw(&apart(0, 4), seed));
        let (more, mut less) = (operations(&more), operations(&less));
        assert_eq!(more.len(), less.len() + 2);
        less.retain(|operation| !more.contains(operation));
        assert_eq!(less, []);
    }
}

#[test]
fn removing_an_operation_moves_only_faults_that_followed_it() {
    let (mut moved, mut stayed) = (0, 0);
    for seed in 1..30 {
        let (more, less) = (draw(&apart(5, 5), seed), draw(&apart(5, 4), seed));
        let gone: Vec<_> = operations(&more)
            .into_iter()
            .filter(|asked| !operations(&less).contains(asked))
            .collect();
        let is_in_a_wake = |at: Duration| {
            gone.iter()
                .any(|(when, _)| matches!(when, When::At(of) if *of <= at && at <= *of + ms(3000)))
        };
        for (when, fault) in faults(&more) {
            if faults(&less).contains(&(when, fault)) {
                stayed += 1;
            } else {
                moved += 1;
                assert!(
                    matches!(when, When::At(at) if is_in_a_wake(*at)),
                    "seed {seed}: {fault:?} {when:?}"
                );
            }
        }
    }
    assert!(moved > 0 && stayed > moved * 3, "{moved} of {} moved", moved + stayed);
}

#[test]
fn removing_a_fault_moves_nothing_else() {
    // The only operation of each client is its first, and the first operation follows no fault.
    for seed in 1..30 {
        let (more, less) = (draw(&apart(5, 1), seed), draw(&apart(4, 1), seed));
        assert_eq!(operations(&more), operations(&less));
        let (more, mut less) = (faults(&more), faults(&less));
        assert_eq!((more.len(), less.len()), (5, 4));
        less.retain(|fault| !more.contains(fault));
        assert_eq!(less, []);
    }
}

#[test]
fn adding_a_stream_does_not_change_earlier_streams() {
    let streams = |count| {
        let mut profile = profile();
        let template = Template::Numbers(0, 1 << 40);
        profile.setup.insert("stream".into(), Entries { count: Choice::Fixed(count), template });
        draw(&Profile { clients: Choice::Fixed(1), ..profile }, 3).setup["stream"].clone()
    };
    let (two, three) = (streams(2), streams(3));
    assert_eq!((&two["s1"], &two["s2"]), (&three["s1"], &three["s2"]));
    assert_eq!(three.as_object().unwrap().keys().collect::<Vec<_>>(), ["s1", "s2", "s3"]);
}

#[test]
fn the_subject_accepts_every_drawn_operation() {
    let subject = relay();
    let plans: Vec<Plan> = draws(&profile()).collect();
    for (plan, (_, operation)) in
        plans.iter().flat_map(|plan| operations(plan).into_iter().map(move |o| (plan, o)))
    {
        assert!(subject.accepts(operation));
        assert!(plan.client_hosts().any(|host| host == operation.client));
        if operation.verb == "watch" {
            assert!(
                plan.setup["stream"].get(operation.fields["stream"].as_str().unwrap()).is_some()
            );
        }
    }
}

#[test]
fn verbs_are_drawn_by_weight_regardless_of_the_strategy() {
    let weights = BTreeMap::from([("leave".to_owned(), 3), ("poke".to_owned(), 1)]);
    let (mut counts, mut firsts): (BTreeMap<String, u64>, u64) = Default::default();
    for plan in draws(&Profile { operations: weights, ..profile() }) {
        let operations = operations(&plan);
        operations
            .iter()
            .for_each(|(_, operation)| *counts.entry(operation.verb.clone()).or_default() += 1);
        firsts += operations
            .iter()
            .map(|(_, operation)| &operation.client)
            .collect::<BTreeSet<_>>()
            .len() as u64;
    }
    assert_eq!(counts.keys().collect::<Vec<_>>(), ["leave", "poke"]);
    // The first operation of each client has the verb with the most weight.
    let later = counts["leave"] - firsts;
    assert!((2.6..3.4).contains(&(later as f64 / counts["poke"] as f64)), "{later} of {counts:?}");
}

#[test]
fn a_verb_with_its_own_strategy_is_drawn_from_it() {
    // The strategy of all verbs never draws `call`.
    let weights = BTreeMap::from([("call".to_owned(), 1)]);
    let profile = Profile { operations: weights, ..profile() };
    let mut times = BTreeSet::new();
    for plan in draws(&profile) {
        for (_, operation) in operations(&plan) {
            assert_eq!(operation.verb, "call");
            times.insert(operation.fields["times"].as_u64().unwrap());
        }
    }
    assert!(times.into_iter().eq(0..9));
}

#[test]
fn every_fault_is_over_before_the_healed_tail() {
    let horizons = [Duration::from_secs(70), Duration::from_secs(90)];
    let short = Profile { horizon: Choice::one_of(horizons), ..profile() };
    let mut drawn = BTreeSet::new();
    for plan in draws(&short) {
        let tail = plan.horizon - plan.heal;
        for (when, fault) in faults(&plan) {
            let begins = if let When::At(at) = when { *at } else { Duration::ZERO };
            assert!(begins + lasts(fault).unwrap_or_default() <= tail, "{when:?} {fault:?}");
        }
        assert_eq!(plan.heal, short.heal);
        drawn.insert(plan.horizon);
    }
    assert!(drawn.into_iter().eq(horizons));
}

fn kinds(profile: &Profile, seeds: u64) -> BTreeSet<FaultKind> {
    let of = |seed| {
        faults(&plan(profile, &Relay, seed))
            .iter()
            .map(|(_, fault)| fault.kind())
            .collect::<Vec<_>>()
    };
    (1..=seeds).flat_map(of).collect()
}

#[test]
fn only_kinds_with_weight_are_drawn() {
    let all = kinds(&profile(), 1000);
    let drawn = |kind: &FaultKind| kind.drawn().is_some_and(|drawn| drawn.weight > 0);
    assert_eq!(all, FaultKind::ALL.iter().copied().filter(drawn).collect());
    let mut two = profile();
    two.faults.weights =
        [FaultKind::Stall, FaultKind::Crash].map(|kind| (kind, kind.shape(1))).into();
    two.faults.weights.insert(FaultKind::Cut, FaultKind::Cut.shape(0));
    assert_eq!(kinds(&two, 100), BTreeSet::from([FaultKind::Stall, FaultKind::Crash]));
}

#[test]
fn a_run_has_only_a_few_kinds() {
    let mut profile = profile();
    (profile.faults.count, profile.faults.kinds) = (Choice::Fixed(12), Choice::Fixed(2));
    for plan in draws(&profile) {
        let kinds: BTreeSet<FaultKind> =
            faults(&plan).iter().map(|(_, fault)| fault.kind()).collect();
        assert!(kinds.len() <= 2, "{kinds:?}");
    }
}

#[test]
fn later_faults_match_the_target_shares_and_holds_are_at_points() {
    let mut profile = profile();
    profile.faults.weights.remove(&FaultKind::Hold);
    let mut aimed = [0u64; 3];
    let what = |when: &When| match when {
        When::After(Trigger { mark: TriggerMark::Milestone(_), .. }) => 0,
        When::After(Trigger { mark: TriggerMark::Point(_), .. }) => 1,
        When::At(_) => 2,
    };
    profile.faults.wakes = 0.0;
    let mut first = BTreeSet::new();
    for seed in 1..=MANY {
        profile.faults.count = Choice::Fixed(1);
        first.extend(faults(&draw(&profile, seed)).iter().map(|(when, _)| what(when)));
        profile.faults.count = Choice::Fixed(6);
        faults(&draw(&profile, seed)).iter().for_each(|(when, _)| aimed[what(when)] += 1);
    }
    assert_eq!(first, BTreeSet::from([2]), "the first comes at a time");
    aimed[2] -= MANY;
    let total: u64 = aimed.iter().sum();
    let percent = aimed.map(|n| n * 100 / total);
    assert!(
        (55..65).contains(&percent[0])
            && (15..25).contains(&percent[1])
            && (15..25).contains(&percent[2]),
        "{percent:?}"
    );

    profile.faults.weights = BTreeMap::from([(FaultKind::Hold, FaultKind::Hold.shape(1))]);
    assert!(draws(&profile).all(|plan| faults(&plan).iter().all(|(when, _)| what(when) == 1)));
}

/// A fifth of them are drawn so. Some are at the moment of the operation before.
#[test]
fn later_operations_are_at_milestones_in_a_share_of_the_cases() {
    let (mut aimed, mut all) = (0u64, 0u64);
    for plan in draws(&apart(0, 6)) {
        for (when, _) in operations(&plan) {
            aimed += u64::from(matches!(when, When::After(_)));
            all += 1;
        }
    }
    let later = all - MANY * 2; // the first of each client comes at a time
    let percent = aimed * 100 / later;
    assert!((18..28).contains(&percent), "{percent}");
}

#[test]
fn half_of_the_operations_with_a_target_are_at_it() {
    let mut profile = Profile { operations: verbs(["leave", "poke", "watch"]), ..apart(0, 6) };
    let target = Trigger::milestone("relay.up").nth(2);
    let at = vec![target.clone()];
    profile.aims.insert("leave".into(), OperationAim { at, then: Vec::new() });
    let (mut aimed, mut later) = (0u64, 0u64);
    for plan in draws(&profile) {
        let mut met = BTreeSet::new();
        for (when, operation) in operations(&plan) {
            let is_first = matches!(when, When::At(_)) && met.insert(operation.client.clone());
            if operation.verb != "leave" || is_first {
                continue;
            }
            let is_aimed = matches!(
                when,
                When::After(trigger) if trigger.clone().delay(Duration::ZERO) == target
            );
            aimed += u64::from(is_aimed);
            later += 1;
        }
    }
    // Other operations are at any milestone, rarely at this occurrence of this one.
    let percent = aimed * 100 / later;
    assert!(later > MANY && (40..65).contains(&percent), "{percent} of {later}");
}

#[test]
fn half_of_the_operations_are_followed_within_a_round_trip() {
    let mut profile = Profile { operations: verbs(["watch"]), ..apart(0, 4) };
    profile.latencies = vec![(ms(1), ms(20))];
    let then = vec!["poke".to_owned()];
    profile.aims.insert("watch".into(), OperationAim { at: Vec::new(), then });
    let (mut followed, mut all) = (0u64, 0u64);
    for plan in draws(&profile) {
        let operations = operations(&plan);
        let of =
            |verb: &str| operations.iter().filter(|(_, it)| it.verb == verb).collect::<Vec<_>>();
        let (watches, pokes) = (of("watch"), of("poke"));
        followed += pokes.len() as u64;
        all += watches.len() as u64;
        for (when, poke) in pokes {
            let is_soon = |watched: &When| match (watched, *when) {
                (When::At(watched), When::At(at)) => (*watched..=*watched + ms(40)).contains(at),
                (When::After(watched), When::After(after)) => watched.mark == after.mark,
                _ => false,
            };
            let mut own = watches.iter().filter(|(_, watch)| watch.client == poke.client);
            assert!(own.any(|(watched, _)| is_soon(watched)), "{when:?}");
        }
    }
    let percent = followed * 100 / all;
    assert!((43..57).contains(&percent), "{percent}");
}

#[test]
fn an_operation_that_follows_another_one_has_its_values_and_changes_nothing_else() {
    let mut profile = Profile { operations: verbs(["watch"]), ..apart(3, 4) };
    let without: Vec<Plan> = draws(&profile).collect();
    let then = vec!["watch".to_owned()];
    profile.aims.insert("watch".into(), OperationAim { at: Vec::new(), then });
    let mut longest = 0;
    for (more, less) in draws(&profile).zip(&without) {
        let (more, less) = (operations(&more), operations(less));
        assert!(less.iter().all(|asked| more.contains(asked)));
        let is_known = |operation: &Operation| {
            less.iter()
                .any(|(_, it)| it.client == operation.client && it.fields == operation.fields)
        };
        assert!(more.iter().all(|(_, operation)| is_known(operation)));
        longest = longest.max(more.len() - less.len());
    }
    assert!(longest >= 3, "{longest}");
}

#[test]
fn a_target_of_a_defect_is_used_only_with_that_defect() {
    let names = |profile: &Profile| -> BTreeSet<String> {
        let name = |when: &When| {
            if let When::After(trigger) = when {
                Some(trigger.mark.name().to_owned())
            } else {
                None
            }
        };
        draws(profile)
            .flat_map(|plan| {
                plan.steps.iter().filter_map(|step| name(&step.when)).collect::<Vec<_>>()
            })
            .collect()
    };
    let good = BTreeSet::from(["relay.down", "relay.unlocked", "relay.up"].map(str::to_owned));
    assert_eq!(names(&profile()), good);
    let bad = names(&Profile { defects: vec!["goes-wrong".into()], ..profile() });
    assert_eq!(bad.difference(&good).collect::<Vec<_>>(), ["relay.torn", "relay.wrong"]);
}

#[test]
fn limits_clients_and_latency_come_from_the_profile() {
    let latencies = [(ms(1), ms(20)), (ms(200), ms(300))];
    let profile =
        Profile { clients: Choice::Range(1, 3), latencies: latencies.to_vec(), ..profile() };
    let (mut clients, mut queues, mut latency) =
        (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for plan in draws(&profile) {
        clients.insert(plan.clients);
        queues.insert(plan.limits.over(Subject::limits(&Relay)).count("queue"));
        latency.insert(plan.latency);
    }
    assert_eq!((clients, queues, latency), ([1, 2, 3].into(), [1, 64].into(), latencies.into()));
}

#[test]
fn a_puppet_gets_no_operations() {
    let understudy = PuppetShare { chance: 0.5, host: Host::client(1), puppet: Puppet::default() };
    let profile = Profile { puppets: vec![understudy], ..profile() };
    let played = draws(&profile).filter(|plan| plan.puppets.contains_key(&Host::client(1)));
    let quiet = |plan: Plan| {
        operations(&plan).iter().all(|(_, operation)| !plan.puppets.contains_key(&operation.client))
    };
    let played = played.map(|plan| assert!(quiet(plan))).count() as u64;
    assert!((MANY * 4 / 10..MANY * 6 / 10).contains(&played), "{played}");
}

#[test]
fn shrinking_keeps_the_steps_that_are_needed_and_no_others() {
    let many = Profile { asks: Choice::Fixed(9), clients: Choice::Fixed(2), ..profile() };
    let plan = draw(&many, 5);
    let needed = [plan.steps[3].clone(), plan.steps[11].clone()];
    let fails = |plan: &Plan| needed.iter().all(|step| plan.steps.contains(step));
    let mut tree = PlanTree::new(plan, &relay(), &samples(&profile(), &*relay()));
    let (mut tried, mut more) = (0, tree.simplify());
    while more {
        tried += 1;
        more = if fails(&tree.current()) { tree.simplify() } else { tree.complicate() };
    }
    assert_eq!(tree.current().steps, needed);
    assert!(tried < 80, "{tried}");
}

#[test]
fn a_plan_without_steps_shrinks_quickly_to_the_simplest_plan() {
    let mut tree = PlanTree::new(Plan::new("relay"), &relay(), &[]);
    let tries = (1..100).find(|_| !tree.simplify());
    assert!(tries.is_some() && !tree.complicate());
    assert!(
        tree.current().steps.is_empty() && tree.current().horizon <= Plan::new("relay").horizon
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// The plan that `proptest!` draws equals the generator's plan for the seed in that plan.
    #[test]
    fn a_drawn_plan_can_be_redrawn_from_its_seed(drawn in strategy(&profile(), &relay())) {
        prop_assert_eq!(&drawn, &draw(&profile(), drawn.seed));
    }
}

#[test]
fn faults_follow_the_previous_fault() {
    let wakes = |share| {
        let mut profile = apart(2, 1);
        profile.faults.weights.remove(&FaultKind::Hold);
        profile.faults.wakes = share;
        let is_close = |plan: &Plan| match faults(plan)[..] {
            [(When::At(one), _), (When::At(other), _)] => *other - *one <= ms(3000),
            _ => false,
        };
        draws(&profile).filter(is_close).count() as u64
    };
    assert_eq!(wakes(1.0), MANY);
    assert!(wakes(0.0) < MANY / 2);
}

#[test]
fn a_target_without_weight_is_not_used() {
    let mut profile = profile();
    profile.faults.at = BTreeMap::from([
        ("relay.up".to_owned(), 3),
        ("relay.unlocked".to_owned(), 1),
        ("relay.down".to_owned(), 0),
    ]);
    let mut aimed = BTreeSet::new();
    for plan in draws(&profile) {
        aimed.extend(plan.steps.iter().filter_map(|step| match &step.when {
            When::After(trigger) => Some(trigger.mark.name().to_owned()),
            When::At(_) => None,
        }));
    }
    assert_eq!(aimed, BTreeSet::from(["relay.unlocked", "relay.up"].map(str::to_owned)));
}
