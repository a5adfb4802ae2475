//! Files without mistakes.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::schedule::FaultKind;
use crate::schedule::profile::{Choice, OperationAim, Template};
use crate::schedule::{
    Action, Conn, Fault, HoldEnd, Host, Learns, LimitValue, PuppetStep, TieOrder, Trigger, When,
    faults,
};

pub(super) const LATE_CLOSE: &str = r#"
format  = 1                       # an unknown format is refused, never guessed
subject = "ferry"
title   = "A late close of generation 1 does not detach generation 2"
source  = ["ferry.detach-own-only", "ferry.still-attached-is-retried"]
kills   = ["sender-cleared-after-unlock"]
seeds   = 20
horizon = "60s"

[process.p1]
print = { lines = 200, every = "50ms" }
exit  = 7

[[step]]
at    = "1s"
start = { client = "client", process = "p1" }

[[step]]                          # the client knows at once, the server 3 s later
at  = "2s"
cut = { conn = "client#1", learns = { client = "0ms", server = "3s" } }

[[step]]
after = { point = "ferry.server.detach.unlocked", conn = "client#1" }
hold  = { until = { milestone = "ferry.client.connected", generation = 2 }, then = "200ms", at-most = "5s" }

[expect]
reaches = [
  "ferry.server.refused-still-attached",
  { milestone = "ferry.client.connected", generation = 2 },
]
never = [{ milestone = "ferry.client.connected", generation = 3 }]

[expect.stream.p1]
ends      = "completed"
outcome   = "exit 7"
output    = "all"
within    = "10s"
live-from = 2
"#;

#[test]
fn a_schedule_has_steps_and_expectations() {
    let scenario = parse(LATE_CLOSE).unwrap();
    assert_eq!(scenario.title, "A late close of generation 1 does not detach generation 2");
    assert_eq!(
        (scenario.source.len(), scenario.kills.as_slice()),
        (2, &["sender-cleared-after-unlock".to_owned()][..])
    );
    let plan = plan(&scenario);
    assert_eq!(plan.setup["process"]["p1"]["print"]["every"], "50ms");
    let [start, cut, hold] = plan.steps.as_slice() else { panic!("three steps") };
    assert_eq!(start.when, When::At(Duration::from_secs(1)));
    let Action::Operation(operation) = &start.action else { panic!("an operation") };
    assert_eq!((operation.verb.as_str(), operation.client.as_str()), ("start", "client"));
    assert_eq!(operation.fields.keys().collect::<Vec<_>>(), ["process"]);
    let learns = [("client", Duration::ZERO), ("server", Duration::from_secs(3))];
    let learns = learns.map(|(host, after)| (Host::from(host), Learns::After(after)));
    assert_eq!(
        cut.action,
        Action::Fault(Fault::Cut(faults::Cut {
            conn: Conn::number("client", 1),
            learns: learns.into()
        }))
    );
    let until = Trigger::milestone("ferry.client.connected")
        .field("generation", 2)
        .delay(Duration::from_millis(200));
    let end = HoldEnd::Until { trigger: Box::new(until), at_most: Duration::from_secs(5) };
    assert_eq!(hold.action, Action::Fault(Fault::Hold(faults::Hold { end })));
    assert_eq!(scenario.expect.reaches.len(), 2);
    assert_eq!(scenario.expect.streams["p1"].live_from, Some(2));
}

#[test]
fn each_seed_gives_one_plan_or_two_for_both_orders() {
    let scenario = parse(LATE_CLOSE).unwrap();
    let seeds: Vec<_> = scenario.plans().iter().map(|plan| plan.seed).collect();
    assert_eq!(seeds, (1..=20).collect::<Vec<_>>());
    let both = after_head("order = \"both\"\nseeds = 2\nfirst-seed = 7\n");
    let plans: Vec<_> = both.plans().iter().map(|plan| (plan.seed, plan.order)).collect();
    let (packets, timers) = (TieOrder::PacketsFirst, TieOrder::TimersFirst);
    assert_eq!(plans, [(7, packets), (7, timers), (8, packets), (8, timers)]);
}

#[test]
fn missing_keys_have_the_values_of_an_empty_plan() {
    let scenario = after_head("");
    assert_eq!(plan(&scenario), &Plan::new("ferry"));
    assert_eq!(
        (scenario.seeds, scenario.engines.as_slice(), scenario.both_orders),
        (1, &[Engine::Event][..], false)
    );
}

#[test]
fn an_operation_runs_on_the_first_client_by_default() {
    let scenario = after_head(
        "clients = 2\n[[step]]\nat = \"1s\"\ndrop-handle = {}\n[[step]]\nat = \"1s\"\ndrop-handle = { client = \"client2\" }",
    );
    let hosts: Vec<_> = (plan(&scenario).steps.iter())
        .map(|step| match &step.action {
            Action::Operation(operation) => operation.client.to_string(),
            Action::Fault(_) => panic!("no fault"),
        })
        .collect();
    assert_eq!(hosts, ["client", "client2"]);
}

#[test]
fn a_puppet_plays_a_script() {
    let scenario = after_head(
        r#"
        [puppet.server]
        connections = 2
        script = [
            { expect = "hello" }, { send = "n {n}\n", times = 3, every = "10ms" }, { wait = "1s" }, { drain = true }, { reset = true },
        ]"#,
    );
    let puppet = &plan(&scenario).puppets[&Host::from("server")];
    assert_eq!((puppet.connections, puppet.script.len()), (Some(2), 5));
    let send =
        PuppetStep::Send { text: "n {n}\n".into(), times: 3, every: Duration::from_millis(10) };
    assert_eq!((&puppet.script[1], &puppet.script[4]), (&send, &PuppetStep::Reset));
}

#[test]
fn limits_have_the_kinds_of_their_defaults() {
    let scenario = after_head(
        "[limits]\n\"client.recovery-deadline\" = \"3s\"\n\"server.retained-bytes\" = \"4KiB\"\n\"client.event-queue\" = 2\n\"client.retry-writes\" = true\n",
    );
    let values: Vec<_> = plan(&scenario).limits.0.values().copied().collect();
    assert_eq!(
        values,
        [
            LimitValue::Count(2),
            LimitValue::secs(3),
            LimitValue::Flag(true),
            LimitValue::Bytes(4096)
        ]
    );
}

#[test]
fn a_profile_sets_limits_and_a_table_changes_them() {
    let scenario =
        after_head("profile = \"seed\"\n[limits]\n\"client.recovery-deadline\" = \"3s\"\n");
    let limits = plan(&scenario).limits.0.clone();
    assert_eq!(
        Vec::from_iter(limits),
        [
            ("client.event-queue".into(), LimitValue::Count(16)),
            ("client.recovery-deadline".into(), LimitValue::secs(3))
        ]
    );
}

#[test]
fn a_swarm_may_use_a_profile_of_limits() {
    let of = |text: &str| {
        let Body::Swarm(profile) = parse(text).unwrap().body else { panic!("a swarm") };
        profile.limits
    };
    let with = SWARM.replace("\n[swarm]", "profile = \"seed\"\n\n[swarm]");
    let (limits, before) = (of(&with), of(SWARM));
    let fixed = Choice::Fixed(LimitValue::Count(16));
    assert_eq!(limits["client.event-queue"], fixed, "the profile sets it");
    assert_eq!(limits["client.recovery-deadline"], before["client.recovery-deadline"]);
    assert_eq!(limits.len(), before.len() + 1);
}

pub(super) const SWARM: &str = r#"
format  = 1
subject = "ferry"
title   = "Two clients, busy processes, all faults, tight limits: work completes or fails with a justified reason"

[swarm]
runs       = 300
first-seed = 5
horizon    = "3m"
heal       = "60s"

[swarm.hosts]
clients   = "1..2"
processes = "1..4"              # for each client

[swarm.limits]
"client.recovery-deadline" = ["25s", "25s", "3s"]
"server.retained-bytes"    = ["1MiB", "4KiB", "1B..100B"]
"client.retry-writes"      = [false, true]

[swarm.process]
print = { lines = "0..400", every = "0ms..200ms" }
exit  = [0, 7]
late-output = { chance = 0.1, value = true }

[swarm.operations]
start       = 5
drop-handle = { weight = 1, at = ["ferry.client.recovering", { milestone = "ferry.client.recovering", nth = 2 }], then = ["start"] }

[swarm.faults]
count = "0..6"
kinds = "1..3"
aimed = { milestone = 0.6, point = 0.2, time = 0.2 }

[swarm.faults.weights]
cut        = { weight = 10, learns = { client = "0ms..12s", server = ["0ms", "0ms..12s", "never"] } }
partition  = { weight = 5, lasts = ["0ms..5s", "24s..26s"], toward = ["both", "client"] }
crash      = { weight = 1, host = "server", lasts = "0ms..5s" }
clock-jump = { weight = 1, by = "1s..2h" }
reset      = 3

[expect]
reaches  = ["ferry.client.recovering"]
at-least = { "ferry.client.recovering" = 0.25, "ferry.server.detach.unlocked" = 0.3 }
"#;

#[test]
fn a_swarm_has_choices() {
    let scenario = parse(SWARM).unwrap();
    let Body::Swarm(profile) = &scenario.body else { panic!("a swarm") };
    let horizon = Choice::Fixed(Duration::from_secs(180));
    assert_eq!((profile.runs, profile.first_seed, &profile.horizon), (300, 5, &horizon));
    assert_eq!(profile.setup["process"].count, Choice::Range(1, 4));
    let Template::Table(fields) = &profile.setup["process"].template else { panic!("a table") };
    assert_eq!(fields["late-output"], Template::Maybe(0.1, Box::new(Template::Fixed(true.into()))));
    let cut = &profile.faults.weights[&FaultKind::Cut];
    let never = Choice::Fixed(Learns::Never);
    assert!(matches!(&cut.learns_server, Choice::OneOf(choices) if choices.last() == Some(&never)));
    assert_eq!(
        profile.faults.weights[&FaultKind::ClockJump].durations["by"],
        Choice::Range(Duration::from_secs(1), Duration::from_secs(7200))
    );
    assert_eq!(profile.faults.weights.len(), 5);
    assert_eq!((profile.operations.len(), profile.operations["drop-handle"]), (2, 1));
    let once = Trigger::milestone("ferry.client.recovering");
    let aim = OperationAim { at: vec![once.clone(), once.nth(2)], then: vec!["start".into()] };
    assert_eq!(profile.aims, BTreeMap::from([("drop-handle".to_owned(), aim)]));
}

#[test]
fn a_swarm_draws_a_plan_for_each_of_its_seeds() {
    let scenario = parse(SWARM).unwrap();
    let ferry = subject::ferry();
    let drawn: Vec<_> = scenario.drawn(&ferry).take(20).collect();
    assert_eq!(drawn.iter().map(|plan| plan.seed).collect::<Vec<_>>(), (5..25).collect::<Vec<_>>());
    assert!(scenario.plans().is_empty(), "plans of a swarm are drawn");
}
