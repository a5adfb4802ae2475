//! A written scenario is read back as the same scenario.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::history::Side;
use crate::schedule::FaultKind;
use crate::schedule::faults::WORDS;
use crate::schedule::profile::{Choice, Entries, FaultShape, OperationAim, Template};
use crate::schedule::words::{FaultFields, FieldType, FieldValue, Need};
use crate::schedule::{
    Action, Conn, Host, Learns, LimitValue, Limits, MilestoneValue, Operation, Profile, Puppet,
    PuppetStep, Speaks, Step, TieOrder, Trigger, TriggerMark, When, Which, draw,
};

const CONNECTED: &str = "ferry.client.connected";
const UNLOCKED: &str = "ferry.server.detach.unlocked";

fn duration() -> impl Strategy<Value = Duration> + Clone {
    prop_oneof![0..2000u64, (0..100u64).prop_map(|s| s * 1000)].prop_map(Duration::from_millis)
}

fn host() -> impl Strategy<Value = Host> {
    select(vec!["client", "client2", "server"]).prop_map(Host::from)
}

fn conn() -> impl Strategy<Value = Conn> {
    let which = prop_oneof![
        (1..9u32).prop_map(Which::Number),
        (0..9u64).prop_map(Which::Generation),
        Just(Which::Last)
    ];
    (host(), proptest::option::of("[a-z]{1,5}"), which).prop_map(|(host, label, which)| Conn {
        host,
        label,
        which,
    })
}

fn trigger(delay: impl Strategy<Value = Duration>) -> impl Strategy<Value = Trigger> {
    let milestone = (
        Just(TriggerMark::Milestone(CONNECTED.into())),
        proptest::collection::btree_map(Just("generation".to_owned()), field(), 0..2),
    );
    let point = (
        Just(TriggerMark::Point(UNLOCKED.into())),
        proptest::collection::btree_map("[a-z]{1,2}", field(), 0..3),
    );
    let mark = prop_oneof![milestone.prop_map(|both| both), point.prop_map(|both| both)];
    (mark, proptest::option::of(host()), proptest::option::of(conn()), 1..4u64, delay).prop_map(
        |((mark, fields), host, conn, nth, delay)| Trigger { mark, host, conn, fields, nth, delay },
    )
}

fn field() -> impl Strategy<Value = MilestoneValue> {
    prop_oneof![
        any::<u64>().prop_map(MilestoneValue::Number),
        any::<String>().prop_map(MilestoneValue::Text)
    ]
}

fn learns() -> impl Strategy<Value = Learns> {
    prop_oneof![duration().prop_map(Learns::After), Just(Learns::Never)]
}

fn value(kind: FieldType) -> BoxedStrategy<FieldValue> {
    match kind {
        FieldType::Host => host().prop_map(FieldValue::Host).boxed(),
        FieldType::Hosts => Just(FieldValue::Hosts("client".into(), "server".into())).boxed(),
        FieldType::Conn => conn().prop_map(FieldValue::Conn).boxed(),
        FieldType::Duration => duration().prop_map(FieldValue::Duration).boxed(),
        FieldType::Jump => (-9999..9999i64).prop_map(FieldValue::Jump).boxed(),
        FieldType::Size => (0..1u64 << 40).prop_map(FieldValue::Size).boxed(),
        FieldType::Count => any::<u64>().prop_map(FieldValue::Count).boxed(),
        FieldType::Learns => proptest::collection::btree_map(host(), learns(), 1..3)
            .prop_map(FieldValue::Learns)
            .boxed(),
        FieldType::Name(list) => {
            select(list.names).prop_map(move |name| FieldValue::Name(list, name)).boxed()
        }
        FieldType::Trigger => trigger(Just(Duration::ZERO)).prop_map(FieldValue::Trigger).boxed(),
    }
}

/// A fault of any word, with any valid combination of its fields.
fn fault() -> impl Strategy<Value = (bool, Action)> {
    let word = select(WORDS.iter().collect::<Vec<_>>());
    word.prop_flat_map(|word| {
        let fields: Vec<_> = word
            .fields
            .iter()
            .map(|field| (Just(field), any::<bool>(), value(field.kind)))
            .collect();
        (Just(word), fields, any::<prop::sample::Index>())
    })
    .prop_map(|(word, drawn, one)| {
        let one_of: Vec<_> = word
            .fields
            .iter()
            .filter(|field| field.need == Need::OneOf)
            .map(|field| field.name)
            .collect();
        let chosen = if one_of.is_empty() { "" } else { one_of[one.index(one_of.len())] };
        let some_of = word
            .fields
            .iter()
            .find(|field| field.need == Need::SomeOf)
            .map_or("", |field| field.name);
        let there = |field: &crate::schedule::words::Field, likes: bool| match field.need {
            Need::Always => true,
            Need::OneOf => field.name == chosen,
            Need::SomeOf => likes || field.name == some_of,
            Need::Else(_) => likes,
            Need::With(other) => other == chosen,
            // The writer leaves out these optional fields if they are zero.
            Need::WithElse(..) => false,
        };
        let fields = drawn
            .into_iter()
            .filter(|(field, likes, _)| there(field, *likes))
            .map(|(field, _, value)| (field.name, value));
        (word.name == "hold", Action::Fault(word.build(&FaultFields(fields.collect())).unwrap()))
    })
}

fn operation() -> impl Strategy<Value = (bool, Action)> {
    let start =
        any::<String>().prop_map(|process| ("start", serde_json::json!({ "process": process })));
    let write = (any::<String>(), any::<String>(), any::<u8>());
    let write = write.prop_map(|(process, text, times)| {
        ("write", serde_json::json!({ "process": process, "text": text, "times": times }))
    });
    let client = select(vec!["client", "client2"]);
    (prop_oneof![start, write, Just(("drop-handle", serde_json::json!({})))], client).prop_map(
        |((verb, fields), client)| {
            let fields = fields.as_object().unwrap().clone();
            (
                false,
                Action::Operation(Operation { verb: verb.into(), client: client.into(), fields }),
            )
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let when = prop_oneof![
        (0..60_000u64).prop_map(|ms| When::At(Duration::from_millis(ms))),
        trigger(duration()).prop_map(When::After)
    ];
    (when, prop_oneof![2 => fault(), 1 => operation()]).prop_map(|(when, (hold, action))| {
        let when = if hold { When::After(Trigger::point(UNLOCKED).nth(2)) } else { when };
        Step { when, action }
    })
}

fn puppet() -> impl Strategy<Value = Puppet> {
    let line =
        prop_oneof![
            "[ -~]{1,9}".prop_map(|text| PuppetStep::Expect { text }),
            (any::<String>(), 1..9u64, duration())
                .prop_map(|(text, times, every)| PuppetStep::Send { text, times, every }),
            duration().prop_map(|lasts| PuppetStep::Wait { lasts }),
            select(vec![PuppetStep::Drain, PuppetStep::Close, PuppetStep::Reset]),
        ];
    let speaks = select(vec![Speaks::Bytes, Speaks::WebSocket]);
    let script = proptest::collection::vec(line, 0..4);
    (proptest::option::of(1..9u64), speaks, script.clone(), proptest::option::of(script)).prop_map(
        |(connections, speaks, script, again)| Puppet { connections, speaks, script, again },
    )
}

fn limits() -> impl Strategy<Value = Limits> {
    let of = |name: &'static str, value: BoxedStrategy<LimitValue>| {
        value.prop_map(move |value| (name.to_owned(), value))
    };
    let value = prop_oneof![
        of(
            "client.recovery-deadline",
            duration().prop_map(|d| LimitValue::Duration(d + Duration::from_millis(1))).boxed()
        ),
        of("server.retained-bytes", (1..1u64 << 40).prop_map(LimitValue::Bytes).boxed()),
        of("client.event-queue", (1..u64::MAX).prop_map(LimitValue::Count).boxed()),
        of("client.retry-writes", any::<bool>().prop_map(LimitValue::Flag).boxed()),
    ];
    proptest::collection::vec(value, 0..5).prop_map(|values| {
        Limits(values.into_iter().map(|(name, value)| (name.into(), value)).collect())
    })
}

fn a_plan() -> impl Strategy<Value = Plan> {
    let order = select(vec![TieOrder::Drawn, TieOrder::PacketsFirst, TieOrder::TimersFirst]);
    let print = proptest::option::of((any::<u32>(), duration()));
    let process = (any::<String>(), print, any::<i32>(), any::<bool>());
    let puppets = proptest::collection::btree_map(host(), puppet(), 0..2);
    let network = (duration(), duration(), order, duration());
    (proptest::collection::vec(step(), 0..6), process, puppets, limits(), network).prop_map(
        |(steps, process, puppets, limits, network)| {
            let (name, print, exit, late) = process;
            let mut entry = serde_json::json!({ "exit": exit, "late-output": late, "words": ["a\"b", "\u{7f}"] });
            if let Some((lines, every)) = print {
                entry["print"] = serde_json::json!({ "lines": lines, "every": crate::schedule::units::duration(every) });
            }
            let (low, high, order, heal) = network;
            let setup = serde_json::json!({ "process": { name: entry } }).as_object().unwrap().clone();
            let heal = heal.min(Duration::from_secs(60));
            Plan {
                steps,
                setup,
                puppets,
                limits,
                clients: 2,
                latency: (low.min(high), high.max(low)),
                order,
                heal,
                ..Plan::new("ferry")
            }
        },
    )
}

fn expect() -> impl Strategy<Value = Expect> {
    let sights = || proptest::collection::vec(trigger(Just(Duration::ZERO)), 0..4);
    let stream = prop_oneof![
        any::<String>().prop_map(|outcome| ExpectStream {
            ends: Some(StreamEnds::Completed),
            outcome: Some(outcome),
            ..Default::default()
        }),
        any::<String>().prop_map(|says| ExpectStream { says: Some(says), ..Default::default() }),
        duration().prop_map(|within| ExpectStream {
            within: Some(within),
            output: Some(ExpectedOutput::Prefix),
            ..Default::default()
        }),
        (1..9u64).prop_map(|from| ExpectStream {
            ends: Some(StreamEnds::Open),
            live_from: Some(from),
            ..Default::default()
        }),
    ];
    let exit = prop_oneof![any::<u8>().prop_map(ProcessExit::Code), Just(ProcessExit::Signal)];
    let process = prop_oneof![
        exit.prop_map(|exit| ExpectProcess {
            ends: Some(StreamEnds::Completed),
            exit: Some(exit),
            ..Default::default()
        }),
        (any::<String>(), duration()).prop_map(|(reason, within)| ExpectProcess {
            ends: Some(StreamEnds::Failed),
            reason: Some(reason),
            within: Some(within),
            ..Default::default()
        }),
        (1..9u64).prop_map(|from| ExpectProcess {
            live_from: Some(from),
            output: Some(ExpectedOutput::All),
            ..Default::default()
        }),
    ];
    let processes = proptest::collection::btree_map(any::<String>(), process, 0..3);
    let call = any::<String>().prop_map(|reason| ExpectCall {
        ends: Some(CallEnds::Failed),
        reason: Some(reason),
        ..Default::default()
    });
    let streams = proptest::collection::btree_map(any::<String>(), stream, 0..3);
    let calls = proptest::collection::btree_map(1..99u64, call, 0..2);
    (sights(), sights(), any::<bool>(), streams, processes, calls).prop_map(
        |(reaches, never, canary, streams, processes, calls)| {
            let breaks = canary.then(|| "ferry_whole".to_owned());
            Expect { reaches, never, breaks, streams, processes, calls, ..Expect::default() }
        },
    )
}

fn scenario() -> impl Strategy<Value = ScenarioFile> {
    (a_plan(), expect(), any::<String>(), 1..99u64, any::<u64>(), any::<bool>()).prop_map(
        |(mut plan, mut expect, title, seeds, first, both)| {
            plan.seed = first;
            expect.may_miss =
                (0..plan.steps.len()).filter(|n| (first >> (n % 64)) & 1 == 1).collect();
            if both {
                plan.order = TieOrder::Drawn;
            }
            ScenarioFile {
                path: "f.toml".into(),
                source: vec!["ferry.detach-own-only".into()],
                kills: vec!["stale-close-detaches".into()],
                seeds,
                both_orders: both,
                engines: vec![Engine::Event, Engine::TURMOIL],
                engines_because: Some("both \"carry\" it".into()),
                expect,
                ..ScenarioFile::of_plan(plan, title)
            }
        },
    )
}

fn read_back(scenario: &ScenarioFile) -> Result<(), TestCaseError> {
    let text = scenario.to_toml();
    match parse(&text) {
        Ok(read) => {
            prop_assert_eq!(&ScenarioFile { step_lines: vec![], ..read }, scenario, "{}", text)
        }
        Err(mistake) => prop_assert!(false, "{}\n{}", mistake, text),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_schedule_survives_being_written_and_read(scenario in scenario()) {
        read_back(&scenario)?;
    }

    #[test]
    fn a_plan_that_was_drawn_can_be_kept_as_a_file(seed in any::<u64>()) {
        let ferry = subject::ferry();
        let plan = draw::plan(&Profile::of_schemas(&*ferry), &*ferry, seed);
        read_back(&ScenarioFile { path: "f.toml".into(), ..ScenarioFile::of_plan(plan, "kept") })?;
    }

    #[test]
    fn a_swarm_survives_being_written_and_read(profile in profile()) {
        let body = Body::Swarm(Box::new(profile));
        let expect = Expect { at_least: vec![(TriggerMark::Milestone(CONNECTED.into()), 0.25)], ..Expect::default() };
        read_back(&ScenarioFile { path: "f.toml".into(), body, expect, ..ScenarioFile::of_plan(Plan::new("ferry"), "t") })?;
    }
}

fn choice<T: Clone + PartialOrd + std::fmt::Debug + 'static>(
    one: impl Strategy<Value = T> + Clone + 'static,
) -> BoxedStrategy<Choice<T>> {
    let range = (one.clone(), one.clone())
        .prop_map(|(a, b)| if a <= b { Choice::Range(a, b) } else { Choice::Range(b, a) });
    let leaf = prop_oneof![one.prop_map(Choice::Fixed), range];
    leaf.prop_recursive(2, 8, 3, |inner| {
        proptest::collection::vec(inner, 1..4).prop_map(Choice::OneOf)
    })
    .boxed()
}

fn template() -> impl Strategy<Value = Template> {
    let number = prop_oneof![
        (0..9u64).prop_map(|n| Template::Fixed(n.into())),
        (0..9u64, 9..99u64).prop_map(|(a, b)| Template::Numbers(a, b))
    ];
    let every = (duration(), duration()).prop_map(|(a, b)| Template::Durations(a.min(b), a.max(b)));
    let table = |fields: Vec<(&str, Template)>| {
        Template::Table(fields.into_iter().map(|(name, field)| (name.to_owned(), field)).collect())
    };
    (number, every, 0.0..1.0f64).prop_map(move |(number, every, chance)| {
        let print = table(vec![("lines", number.clone()), ("every", every)]);
        let late = Template::Maybe(chance, Box::new(Template::Fixed(true.into())));
        let exit = Template::OneOf(vec![Template::Fixed((-1).into()), number]);
        table(vec![
            ("print", Template::Maybe(chance, Box::new(print))),
            ("exit", exit),
            ("late-output", late),
        ])
    })
}

fn shape() -> impl Strategy<Value = (FaultKind, FaultShape)> {
    let kind = select(FaultKind::drawable().collect::<Vec<_>>());
    (kind, 0..9u64, choice(duration()), choice(0..1u64 << 40), choice(0..99u64), any::<bool>())
        .prop_map(|(kind, weight, times, sizes, counts, toward)| {
            let mut shape = kind.shape(weight);
            for (field, of) in crate::scenario::parse::swarm::drawable(kind) {
                match of {
                    FieldType::Duration | FieldType::Jump => {
                        shape.durations.insert(field, times.clone());
                    }
                    FieldType::Learns => {
                        shape.learns_client = Choice::OneOf(vec![
                            Choice::Fixed(Learns::Never),
                            Choice::Range(Learns::After(Duration::ZERO), Learns::Never),
                        ])
                    }
                    FieldType::Count => drop(shape.numbers.insert(field, counts.clone())),
                    FieldType::Size => drop(shape.numbers.insert(field, sizes.clone())),
                    FieldType::Host if field == "host" => shape.hosts = vec!["server".into()],
                    FieldType::Host if toward => shape.toward = vec![None, Some(Side::Client)],
                    _ => {}
                }
            }
            (kind, shape)
        })
}

fn profile() -> impl Strategy<Value = Profile> {
    let faults = (choice(0..9u64), proptest::collection::vec(shape(), 0..6));
    (template(), choice(0..9u64), choice(duration()), faults, choice(1..9u64)).prop_map(
        |(template, count, busy, (kinds, shapes), clients)| {
            let mut profile = Profile {
                setup: BTreeMap::from([("process".to_owned(), Entries { count, template })]),
                busy,
                clients,
                ..Profile::new("ferry")
            };
            profile.faults.kinds = kinds;
            profile.faults.weights = shapes.into_iter().collect();
            profile.limits = BTreeMap::from([(
                "client.event-queue".to_owned(),
                Choice::Range(LimitValue::Count(1), LimitValue::Count(9)),
            )]);
            profile.latencies.push((Duration::ZERO, Duration::from_millis(7)));
            profile.operations =
                BTreeMap::from([("drop-handle".to_owned(), 1), ("start".to_owned(), 3)]);
            let lost = Trigger::milestone("ferry.client.recovering");
            let at = vec![lost.clone(), lost.nth(2).delay(Duration::from_millis(3))];
            let aim = OperationAim { at, then: vec!["start".to_owned()] };
            profile.aims = BTreeMap::from([("drop-handle".to_owned(), aim)]);
            profile
        },
    )
}
