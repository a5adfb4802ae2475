//! Tests of shrinking without runs: a predicate over plans decides which plans still fail.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::schedule::{
    Action, Conn, Fault, Learns, LimitValue, MilestoneValue, Operation, Puppet, Step, TieOrder,
    Trigger, When, faults,
};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// An operation with an identifying number.
fn asked(client: &str, n: u64) -> Action {
    let fields = json!({ "number": n, "wait": "1234ms" }).as_object().cloned().unwrap();
    Action::Operation(Operation { verb: "ask".into(), client: client.into(), fields })
}

fn cut(learns: &[(&str, Learns)]) -> Action {
    let learns = learns.iter().map(|(host, learns)| ((*host).into(), *learns)).collect();
    Action::Fault(Fault::Cut(faults::Cut { conn: Conn::number("client", 1), learns }))
}

/// A plan with `count` operations of two clients, a second and some milliseconds apart.
fn many(count: u64) -> Plan {
    let client = |n| if n % 2 == 0 { "client" } else { "client2" };
    let steps = (0..count)
        .map(|n| Step { when: When::At(ms(1013 * (n + 1))), action: asked(client(n), n) });
    Plan {
        clients: 2,
        horizon: ms(180_000),
        heal: ms(60_000),
        steps: steps.collect(),
        ..Plan::new("t")
    }
}

/// Shrinks while `fails` returns `true`. Returns the smallest plan, and how many plans were tried.
fn shrunk(plan: Plan, seen: &RunObservations, fails: impl Fn(&Plan) -> bool) -> (Plan, usize) {
    assert!(fails(&plan), "what is shrunk must fail");
    let mut shrinker = Shrinker::new(plan, seen.clone(), Arc::new(|_| true));
    let mut tried = 0;
    while let Some(plan) = shrinker.propose() {
        tried += 1;
        if fails(plan) {
            shrinker.accept(seen.clone());
        }
    }
    (shrinker.best().clone(), tried)
}

fn numbers(plan: &Plan) -> Vec<u64> {
    let number = |step: &Step| match &step.action {
        Action::Operation(operation) => {
            operation.fields.get("number").and_then(serde_json::Value::as_u64)
        }
        Action::Fault(_) => None,
    };
    plan.steps.iter().filter_map(number).collect()
}

#[test]
fn unneeded_steps_are_removed_in_few_runs() {
    let (plan, tried) =
        shrunk(many(64), &RunObservations::default(), |plan| numbers(plan).contains(&41));
    assert_eq!(numbers(&plan), [41]);
    assert!(tried < 60, "{tried}");
}

#[test]
fn a_plan_that_fails_without_steps_loses_all_steps() {
    let (plan, _) = shrunk(many(20), &RunObservations::default(), |_| true);
    assert_eq!(plan, Plan { horizon: ms(1000), ..Plan::new("t") });
}

#[test]
fn steps_that_depend_on_each_other_are_removed_together() {
    let both_or_none = |plan: &Plan| {
        let numbers = numbers(plan);
        numbers.contains(&0) && numbers.contains(&1) == numbers.contains(&4)
    };
    let (plan, _) = shrunk(many(5), &RunObservations::default(), both_or_none);
    assert_eq!(numbers(&plan), [0]);
}

#[test]
fn a_client_is_removed_with_everything_that_names_it() {
    let mut plan = many(4).step(When::After(Trigger::milestone("m").on("client2")), cut(&[]));
    plan.puppets.insert("client2".into(), Puppet::default());
    let (plan, _) = shrunk(plan, &RunObservations::default(), |plan| {
        plan.steps.iter().any(|step| step.action == asked("client", 0))
    });
    assert_eq!((plan.clients, plan.puppets.len(), plan.steps.len()), (1, 0, 1));
}

#[test]
fn the_only_needed_client_is_renamed_to_the_first() {
    let learns = [("client2", Learns::Never)];
    let plan = many(2).step(When::After(Trigger::milestone("m").on("client2")), cut(&learns));
    let needed = |plan: &Plan| {
        let [one, other] = &plan.steps[..] else { return plan.steps.len() > 2 };
        let asks = matches!(&one.action, Action::Operation(operation) if operation.fields.get("number") == Some(&1.into()));
        asks && matches!(&other.action, Action::Fault(Fault::Cut(faults::Cut { learns, .. })) if learns.len() == 1)
    };
    let (plan, _) = shrunk(plan, &RunObservations::default(), needed);
    let Action::Operation(asked) = &plan.steps[0].action else { panic!("{plan:?}") };
    assert_eq!((plan.clients, asked.client.as_str()), (2, "client2"), "the cut is one of client#1");
    let learns = [("client2", Learns::Never)];
    let own = Action::Fault(Fault::Cut(faults::Cut {
        conn: Conn::last("client2"),
        learns: learns.map(|(host, learns)| (host.into(), learns)).into(),
    }));
    let plan = Plan {
        steps: vec![plan.steps[0].clone(), Step { when: When::At(ms(2000)), action: own }],
        ..plan
    };
    let (plan, _) = shrunk(plan, &RunObservations::default(), needed);
    let renamed = Fault::Cut(faults::Cut {
        conn: Conn::last("client"),
        learns: [("client".into(), Learns::Never)].into(),
    });
    assert_eq!((plan.clients, &plan.steps[1].action), (1, &Action::Fault(renamed)));
}

#[test]
fn settings_that_are_not_needed_return_to_their_defaults() {
    let mut plan = Plan { order: TieOrder::TimersFirst, latency: (ms(3), ms(4)), ..many(1) };
    plan.limits.set("a", LimitValue::Count(1));
    plan.limits.set("b", LimitValue::Count(1));
    plan.defects = vec!["x".into(), "y".into()];
    plan.setup = json!({ "stream": { "s1": { "numbers": 7 }, "s2": {} }, "file": { "f": {} } })
        .as_object()
        .cloned()
        .unwrap();
    let needed = |plan: &Plan| {
        plan.limits.0.contains_key("b")
            && plan.defects.contains(&"y".into())
            && plan.entry::<serde_json::Value>("stream", "s1").is_some()
    };
    let (plan, _) = shrunk(plan, &RunObservations::default(), needed);
    assert_eq!((plan.order, plan.latency), (TieOrder::Drawn, Plan::new("t").latency));
    assert_eq!((plan.limits.0.len(), plan.defects.len()), (1, 1));
    assert_eq!(serde_json::Value::from(plan.setup.clone()), json!({ "stream": { "s1": {} } }));
}

#[test]
fn a_trigger_shrinks_to_a_first_occurrence_without_delay_or_to_a_round_time() {
    let busy = Trigger {
        host: Some("client".into()),
        fields: [("n".into(), MilestoneValue::Number(2))].into(),
        ..Trigger::milestone("m")
    };
    let plan = Plan::new("t").step(When::After(busy.nth(7).delay(ms(1234))), cut(&[]));
    let seen = RunObservations { steps: [(0, ms(4321))].into(), milestones: Vec::new() };
    let triggered =
        |plan: &Plan| matches!(plan.steps.first(), Some(Step { when: When::After(_), .. }));
    assert_eq!(
        shrunk(plan.clone(), &seen, triggered).0.steps[0].when,
        When::After(Trigger::milestone("m"))
    );
    let late = |plan: &Plan| {
        matches!(plan.steps.first().map(|step| &step.when), Some(When::At(at)) if *at >= ms(4100))
            || triggered(plan)
    };
    assert_eq!(shrunk(plan, &seen, late).0.steps[0].when, When::At(ms(5000)));
}

#[test]
fn a_time_that_must_be_exact_is_replaced_by_a_trigger() {
    let plan = Plan::new("t").step(When::At(ms(3412)), cut(&[]));
    let seen = RunObservations {
        steps: [(0, ms(3412))].into(),
        milestones: vec![(ms(20), "m".into()), (ms(3400), "m".into()), (ms(5000), "n".into())],
    };
    let in_time = |plan: &Plan| match plan.steps.first().map(|step| &step.when) {
        Some(When::At(at)) => *at == ms(3412),
        Some(When::After(trigger)) => trigger.nth == 2,
        None => false,
    };
    assert_eq!(
        shrunk(plan, &seen, in_time).0.steps[0].when,
        When::After(Trigger::milestone("m").nth(2))
    );
}

#[test]
fn faults_become_short_and_simple() {
    let learns = [("client", Learns::After(ms(417))), ("server", Learns::After(ms(2345)))];
    let stall = Fault::Stall(faults::Stall {
        conn: Conn::number("client", 1),
        toward: "client".into(),
        lasts: Some(ms(8765)),
    });
    let plan = Plan::new("t")
        .step(When::At(ms(1000)), cut(&learns))
        .step(When::At(ms(2000)), Action::Fault(stall));
    let fails = |plan: &Plan| {
        let [
            Step { action: Action::Fault(Fault::Cut(faults::Cut { learns, .. })), .. },
            Step {
                action: Action::Fault(Fault::Stall(faults::Stall { lasts: Some(lasts), .. })),
                ..
            },
        ] = &plan.steps[..]
        else {
            return false;
        };
        matches!(learns.get(&"server".into()), Some(Learns::After(late)) if *late > ms(1500))
            && *lasts >= ms(3000)
    };
    let (plan, _) = shrunk(plan, &RunObservations::default(), fails);
    assert_eq!(plan.steps[0].action, cut(&[("server", Learns::After(ms(2000)))]));
    let Action::Fault(Fault::Stall(faults::Stall { lasts, .. })) = &plan.steps[1].action else {
        panic!("{plan:?}")
    };
    assert_eq!(*lasts, Some(ms(3000)));
}

#[test]
fn values_shrink_if_the_subject_accepts_the_result() {
    let mut plan = Plan::new("t").step(When::At(ms(1000)), asked("client", 100));
    plan.setup =
        json!({ "stream": { "s1": { "numbers": 700, "every": "1234ms", "size": "8KiB" } } })
            .as_object()
            .cloned()
            .unwrap();
    let fails = |plan: &Plan| {
        let of =
            |name: &str| plan.setup.get("stream").and_then(|table| table["s1"].get(name)).cloned();
        let enough = of("numbers").and_then(|n| n.as_u64()).is_some_and(|n| n >= 20);
        enough
            && of("every").is_some()
            && of("size").is_some()
            && numbers(plan).first().is_some_and(|n| *n >= 10)
    };
    let (plan, _) = shrunk(plan, &RunObservations::default(), fails);
    assert_eq!(
        serde_json::Value::from(plan.setup.clone()),
        json!({ "stream": { "s1": { "numbers": 20, "every": "0ms", "size": "0B" } } })
    );
    assert_eq!(numbers(&plan), [10]);
}

#[test]
fn a_plan_that_does_not_fit_is_not_proposed() {
    let fits: Fits = Arc::new(|plan| plan.steps.len() >= 3);
    let mut shrinker = Shrinker::new(many(9), RunObservations::default(), fits);
    while let Some(plan) = shrinker.propose() {
        assert!(plan.steps.len() >= 3);
        shrinker.accept(RunObservations::default());
    }
    assert_eq!(shrinker.best().steps.len(), 3);
}

#[test]
fn every_pass_has_a_name_and_a_description() {
    assert!(PASSES.iter().all(|pass| !pass.name.is_empty() && !pass.doc.is_empty()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// All needed steps stay, no others stay, the measure decreases with every proposal, and
    /// shrinking terminates.
    #[test]
    fn shrinking_ends_with_the_needed_steps(count in 1..24_u64, needs in proptest::collection::btree_set(0..24_u64, 0..5)) {
        let plan = many(count);
        let needs: Vec<u64> = needs.into_iter().filter(|n| *n < count).collect();
        let fails = |plan: &Plan| needs.iter().all(|need| numbers(plan).contains(need));
        let mut shrinker = Shrinker::new(plan, RunObservations::default(), Arc::new(|_| true));
        let mut tried = 0;
        loop {
            let before = Measure::of(shrinker.best());
            let Some(plan) = shrinker.propose() else { break };
            tried += 1;
            prop_assert!(Measure::of(plan) < before);
            if fails(plan) {
                shrinker.accept(RunObservations::default());
            }
        }
        prop_assert!(fails(shrinker.best()));
        prop_assert_eq!(numbers(shrinker.best()), needs);
        prop_assert!(tried < 1000, "{}", tried);
    }
}
