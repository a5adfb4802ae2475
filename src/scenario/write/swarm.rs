//! `[swarm]`: a profile as text. Every section is written, because a missing section means the
//! subject's default.

use std::time::Duration;

use super::inline::{Inline, key, text};
use super::{File, Pairs, learns, limit, puppet, put, put_some, span, trigger};
use crate::scenario::keys::several;
use crate::scenario::parse;
use crate::scenario::vocabulary::{TOWARD, name_of};
use crate::schedule::FaultKind;
use crate::schedule::profile::{Choice, FaultProfile, FaultShape, OperationAim, Profile, Template};
use crate::schedule::words::FieldType;
use crate::schedule::{Learns, LimitValue, units};

impl File {
    pub(super) fn swarm(&mut self, profile: &Profile) {
        let mut head = Vec::new();
        put(&mut head, "runs", Inline::raw(profile.runs));
        put(&mut head, "first-seed", Inline::raw(profile.first_seed));
        put(&mut head, "horizon", durations(&profile.horizon));
        put(&mut head, "heal", Inline::duration(profile.heal));
        let one = |range: &(Duration, Duration)| span(*range);
        put(
            &mut head,
            "latency",
            match profile.latencies.as_slice() {
                [only] => one(only),
                several => Inline::list(several.iter().map(one)),
            },
        );
        put(&mut head, "asks", numbers(&profile.asks));
        put(&mut head, "busy", durations(&profile.busy));
        put(&mut head, "verbs", numbers(&profile.verbs));
        self.section("[swarm]", head);

        let counts = profile
            .setup
            .iter()
            .map(|(name, entries)| (key(&several(name)), numbers(&entries.count)));
        self.section(
            "[swarm.hosts]",
            [("clients".to_owned(), numbers(&profile.clients))].into_iter().chain(counts).collect(),
        );
        self.section(
            "[swarm.limits]",
            profile.limits.iter().map(|(name, value)| (key(name), limits(value))).collect(),
        );
        for (name, entries) in &profile.setup {
            let Template::Table(fields) = &entries.template else { continue };
            self.section(
                &format!("[swarm.{}]", key(name)),
                fields.iter().map(|(name, field)| (key(name), template(field))).collect(),
            );
        }
        let no_aim = OperationAim::default();
        let verbs = profile.operations.iter().map(|(verb, weight)| {
            (key(verb), operation(*weight, profile.aims.get(verb).unwrap_or(&no_aim)))
        });
        self.section("[swarm.operations]", verbs.collect());
        self.faults(&profile.faults);
        for understudy in &profile.puppets {
            let mut pairs = vec![("chance".to_owned(), Inline::number(understudy.chance))];
            put(&mut pairs, "host", text(understudy.host.as_str()));
            pairs.extend(puppet(&understudy.puppet));
            self.section("[[swarm.puppet]]", pairs);
        }
    }

    fn faults(&mut self, faults: &FaultProfile) {
        let aimed = [
            ("milestone", faults.aimed.milestone),
            ("point", faults.aimed.point),
            ("time", faults.aimed.time),
        ];
        let mut pairs = Vec::new();
        put(&mut pairs, "count", numbers(&faults.count));
        put(&mut pairs, "kinds", numbers(&faults.kinds));
        put(
            &mut pairs,
            "aimed",
            Inline::table(aimed.map(|(name, share)| (name.to_owned(), Inline::number(share)))),
        );
        put(&mut pairs, "wakes", Inline::number(faults.wakes));
        self.section("[swarm.faults]", pairs);
        if !faults.at.is_empty() {
            self.section(
                "[swarm.faults.at]",
                faults.at.iter().map(|(name, weight)| (key(name), Inline::raw(weight))).collect(),
            );
        }
        let weights = faults
            .weights
            .iter()
            .map(|(kind, shape)| (kind.to_string(), self::shape(*kind, shape)));
        self.section("[swarm.faults.weights]", weights.collect());
    }
}

fn choice<T: Clone + PartialEq>(
    choice: &Choice<T>,
    one: &dyn Fn(T) -> Inline,
    end: &dyn Fn(T) -> String,
) -> Inline {
    match choice {
        Choice::Fixed(value) => one(value.clone()),
        Choice::Range(low, high) => text(&format!("{}..{}", end(low.clone()), end(high.clone()))),
        Choice::OneOf(choices) => {
            Inline::list(choices.iter().map(|inner| self::choice(inner, one, end)))
        }
    }
}

fn numbers(of: &Choice<u64>) -> Inline {
    choice(of, &|n| Inline::raw(n), &|n| n.to_string())
}

fn durations(of: &Choice<Duration>) -> Inline {
    choice(of, &Inline::duration, &units::duration)
}

fn sizes(of: &Choice<u64>) -> Inline {
    choice(of, &|bytes| text(&units::size(bytes)), &units::size)
}

fn limits(of: &Choice<LimitValue>) -> Inline {
    choice(of, &limit, &|value| value.to_string())
}

fn ends(of: &Choice<Learns>) -> Inline {
    let end = |end| match end {
        Learns::After(time) => units::duration(time),
        Learns::Never => "never".into(),
    };
    choice(of, &learns, &end)
}

fn template(of: &Template) -> Inline {
    let range = |low: String, high: String| text(&format!("{low}..{high}"));
    match of {
        Template::Fixed(value) => Inline::json(value),
        Template::OneOf(templates) => Inline::list(templates.iter().map(template)),
        Template::Numbers(low, high) => range(low.to_string(), high.to_string()),
        Template::Durations(low, high) => range(units::duration(*low), units::duration(*high)),
        Template::Sizes(low, high) => range(units::size(*low), units::size(*high)),
        Template::List(items) => Inline::list(items.iter().map(template)),
        Template::Table(fields) => {
            Inline::table(fields.iter().map(|(name, field)| (name.clone(), template(field))))
        }
        Template::Maybe(chance, inner) => {
            let chance = ("chance".to_owned(), Inline::number(*chance));
            match (&**inner, template(inner)) {
                (Template::Table(_), Inline::Table(fields)) => {
                    Inline::table([chance].into_iter().chain(fields))
                }
                (_, value) => Inline::table([chance, ("value".to_owned(), value)]),
            }
        }
    }
}

/// Returns the weight alone if the operation has no aim.
fn operation(weight: u64, aim: &OperationAim) -> Inline {
    if *aim == OperationAim::default() {
        return Inline::raw(weight);
    }
    let mut pairs = vec![("weight".to_owned(), Inline::raw(weight))];
    let at = (!aim.at.is_empty()).then(|| Inline::list(aim.at.iter().map(trigger)));
    let then = (!aim.then.is_empty()).then(|| Inline::list(aim.then.iter().map(|verb| text(verb))));
    put_some(&mut pairs, "at", at);
    put_some(&mut pairs, "then", then);
    Inline::Table(pairs)
}

/// Returns the weight alone if only the weight differs from the default.
fn shape(kind: FaultKind, shape: &FaultShape) -> Inline {
    let usual = kind.shape(shape.weight);
    if *shape == usual {
        return Inline::raw(shape.weight);
    }
    let mut pairs = vec![("weight".to_owned(), Inline::raw(shape.weight))];
    for (name, of) in parse::swarm::drawable(kind) {
        put_some(&mut pairs, name, field(name, of, shape, &usual));
    }
    Inline::Table(pairs)
}

/// Adds the choice of a field, if it differs from the default.
fn field(name: &str, of: FieldType, shape: &FaultShape, usual: &FaultShape) -> Option<Inline> {
    fn own<T: PartialEq>(value: T, usual: T, write: impl Fn(T) -> Inline) -> Option<Inline> {
        (value != usual).then(|| write(value))
    }
    match of {
        FieldType::Duration | FieldType::Jump => {
            own(shape.durations.get(name)?, usual.durations.get(name)?, durations)
        }
        FieldType::Count => own(shape.numbers.get(name)?, usual.numbers.get(name)?, numbers),
        FieldType::Size => own(shape.numbers.get(name)?, usual.numbers.get(name)?, sizes),
        FieldType::Learns => learns_of(shape, usual),
        FieldType::Host if name == "toward" => own(&shape.toward, &usual.toward, |sides| {
            one_or_more(sides.iter().map(|side| text(name_of(&TOWARD, side))))
        }),
        FieldType::Host => own(&shape.hosts, &usual.hosts, |hosts| {
            one_or_more(hosts.iter().map(|host| text(host.as_str())))
        }),
        FieldType::Hosts | FieldType::Conn | FieldType::Name(_) | FieldType::Trigger => None,
    }
}

fn learns_of(shape: &FaultShape, usual: &FaultShape) -> Option<Inline> {
    let mut pairs: Pairs = Vec::new();
    put_some(
        &mut pairs,
        "client",
        (shape.learns_client != usual.learns_client).then(|| ends(&shape.learns_client)),
    );
    put_some(
        &mut pairs,
        "server",
        (shape.learns_server != usual.learns_server).then(|| ends(&shape.learns_server)),
    );
    (!pairs.is_empty()).then_some(Inline::Table(pairs))
}

fn one_or_more(entries: impl Iterator<Item = Inline>) -> Inline {
    let mut entries: Vec<_> = entries.collect();
    if entries.len() == 1 { entries.remove(0) } else { Inline::List(entries) }
}
