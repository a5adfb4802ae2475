//! [`ScenarioFile`] → text, in the style of a handwritten file. [`parse`](super::parse) reads it
//! back as the same scenario.
//!
//! Top-level tables are sections with aligned keys, and everything below them is inline. Default
//! values are left out. Comments are lost: they are not part of a scenario.

use serde_json::{Map, Value as Json};

use super::expect::{
    CALL_ENDS, EXITS, Expect, ExpectCall, ExpectProcess, ExpectStream, OUTPUTS, PROCESS_ENDS,
    ProcessExit, STREAM_ENDS,
};
use super::file::{Body, ScenarioFile};
use super::vocabulary::{FORMAT, ORDERS, engine_name, name_of};
use crate::schedule::puppet::SPEAKS;
use crate::schedule::words::FieldValue;
use crate::schedule::{
    Action, Fault, Learns, LimitValue, MilestoneValue, Operation, Plan, Puppet, PuppetStep, Speaks,
    Step, Trigger, TriggerMark, When, units,
};
use crate::world::Engine;
use inline::{Inline, key, text};

mod inline;
mod swarm;

/// Returns the text of a file.
pub(super) fn file(scenario: &ScenarioFile) -> String {
    let mut file = File::default();
    file.head(scenario);
    match &scenario.body {
        Body::Schedule(plan) => file.schedule(plan, &scenario.expect),
        Body::Swarm(profile) => file.swarm(profile),
    }
    file.expect(&scenario.expect);
    file.text
}

/// The text of a file under construction.
#[derive(Default)]
struct File {
    text: String,
}

/// The keys of one section, with their values.
type Pairs = Vec<(String, Inline)>;

/// The maximum width of a list on one line.
const WIDTH: usize = 100;

impl File {
    /// Writes a section with aligned keys. A section without a title is the top of the file.
    fn section(&mut self, title: &str, pairs: Pairs) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        if !title.is_empty() {
            self.text += &format!("{title}\n");
        }
        let width = pairs.iter().map(|(key, _)| key.chars().count()).max().unwrap_or(0);
        for (key, value) in pairs {
            self.text += &format!("{key:width$} = {}\n", value.wrapped(WIDTH));
        }
    }

    fn head(&mut self, scenario: &ScenarioFile) {
        let mut head = Vec::new();
        put(&mut head, "format", Inline::raw(FORMAT));
        put(&mut head, "subject", text(&scenario.subject));
        put(&mut head, "title", text(&scenario.title));
        for (key, names) in [
            ("source", &scenario.source),
            ("kills", &scenario.kills),
            ("defects", &scenario.defects),
        ] {
            if !names.is_empty() {
                put(&mut head, key, Inline::list(names.iter().map(|name| text(name))));
            }
        }
        if let Body::Schedule(plan) = &scenario.body {
            schedule_head(&mut head, scenario, plan);
        }
        if scenario.engines != [Engine::Event] || scenario.engines_because.is_some() {
            put(
                &mut head,
                "engines",
                Inline::list(scenario.engines.iter().map(|engine| text(engine_name(*engine)))),
            );
        }
        put_some(&mut head, "engines-because", scenario.engines_because.as_deref().map(text));
        self.section("", head);
    }

    fn schedule(&mut self, plan: &Plan, expect: &Expect) {
        if !plan.limits.0.is_empty() {
            self.section(
                "[limits]",
                plan.limits.0.iter().map(|(name, value)| (key(name), limit(*value))).collect(),
            );
        }
        plan.setup.iter().for_each(|(name, entries)| self.own_table(name, entries));
        for (host, of) in &plan.puppets {
            self.section(&format!("[puppet.{}]", key(host.as_str())), puppet(of));
        }
        for (n, step) in plan.steps.iter().enumerate() {
            self.section("[[step]]", self::step(step, expect.may_miss.contains(&n)));
        }
    }

    /// Writes one of the subject's own tables: one section per entry.
    fn own_table(&mut self, name: &str, entries: &Json) {
        let Json::Object(entries) = entries else { return };
        for (entry, fields) in entries {
            let fields = fields.as_object().cloned().unwrap_or_default();
            let pairs =
                fields.iter().map(|(name, value)| (key(name), Inline::json(value))).collect();
            self.section(&format!("[{}.{}]", key(name), key(entry)), pairs);
        }
    }

    fn expect(&mut self, expect: &Expect) {
        let mut pairs = Vec::new();
        for (key, marks) in [("reaches", &expect.reaches), ("never", &expect.never)] {
            if !marks.is_empty() {
                put(&mut pairs, key, Inline::list(marks.iter().map(trigger)));
            }
        }
        put_some(&mut pairs, "breaks", expect.breaks.as_deref().map(text));
        if !expect.at_least.is_empty() {
            let shares = expect
                .at_least
                .iter()
                .map(|(mark, share)| (mark.name().to_owned(), Inline::number(*share)));
            put(&mut pairs, "at-least", Inline::table(shares));
        }
        if !pairs.is_empty() {
            self.section("[expect]", pairs);
        }
        for (name, stream) in &expect.streams {
            self.section(&format!("[expect.stream.{}]", key(name)), expect_stream(stream));
        }
        for (name, process) in &expect.processes {
            self.section(&format!("[expect.process.{}]", key(name)), expect_process(process));
        }
        for (number, call) in &expect.calls {
            self.section(&format!("[expect.call.{number}]"), expect_call(call));
        }
    }
}

fn put(pairs: &mut Pairs, name: &str, value: Inline) {
    pairs.push((key(name), value));
}

fn put_some(pairs: &mut Pairs, name: &str, value: Option<Inline>) {
    pairs.extend(value.map(|value| (key(name), value)));
}

/// Adds the fields of a plan to the top of the file, if they differ from the defaults.
fn schedule_head(head: &mut Pairs, scenario: &ScenarioFile, plan: &Plan) {
    let without = Plan::new("");
    let differs = |differs: bool, value: Inline| differs.then_some(value);
    put_some(head, "seeds", differs(scenario.seeds != 1, Inline::raw(scenario.seeds)));
    put_some(
        head,
        "first-seed",
        differs(scenario.first_seed != 1, Inline::raw(scenario.first_seed)),
    );
    put(head, "horizon", Inline::duration(plan.horizon));
    put_some(head, "heal", differs(plan.heal != without.heal, Inline::duration(plan.heal)));
    put_some(head, "clients", differs(plan.clients != 1, Inline::raw(plan.clients)));
    put_some(head, "latency", differs(plan.latency != without.latency, span(plan.latency)));
    let order = if scenario.both_orders { None } else { Some(plan.order) };
    put_some(head, "order", differs(order != Some(without.order), text(name_of(&ORDERS, &order))));
}

fn span(range: (std::time::Duration, std::time::Duration)) -> Inline {
    text(&units::range(range, units::duration))
}

pub(super) fn limit(value: LimitValue) -> Inline {
    match value {
        LimitValue::Duration(_) | LimitValue::Bytes(_) => text(&value.to_string()),
        LimitValue::Count(_) | LimitValue::Flag(_) => Inline::raw(value),
    }
}

fn puppet(puppet: &Puppet) -> Pairs {
    let mut pairs = Vec::new();
    put_some(&mut pairs, "connections", puppet.connections.map(Inline::raw));
    let speaks =
        SPEAKS.iter().find(|(_, speaks)| *speaks == puppet.speaks && *speaks != Speaks::default());
    put_some(&mut pairs, "speaks", speaks.map(|(word, _)| text(word)));
    let lines = |script: &[PuppetStep]| Inline::list(script.iter().map(line)).broken();
    put(&mut pairs, "script", lines(&puppet.script));
    put_some(&mut pairs, "again", puppet.again.as_deref().map(lines));
    pairs
}

fn line(step: &PuppetStep) -> Inline {
    let one = |verb: &str, value| Inline::table([(verb.to_owned(), value)]);
    match step {
        PuppetStep::Expect { text: wanted } => one("expect", text(wanted)),
        PuppetStep::Wait { lasts } => one("wait", Inline::duration(*lasts)),
        PuppetStep::Drain => one("drain", Inline::raw(true)),
        PuppetStep::Close => one("close", Inline::raw(true)),
        PuppetStep::Reset => one("reset", Inline::raw(true)),
        PuppetStep::Send { text: sent, times, every } => {
            let times = (*times != 1).then(|| ("times".to_owned(), Inline::raw(*times)));
            let every = (!every.is_zero()).then(|| ("every".to_owned(), Inline::duration(*every)));
            Inline::table([("send".to_owned(), text(sent))].into_iter().chain(times).chain(every))
        }
    }
}

fn step(step: &Step, may_miss: bool) -> Pairs {
    let mut pairs = Vec::new();
    match &step.when {
        When::At(at) => put(&mut pairs, "at", Inline::duration(*at)),
        When::After(after) => put(&mut pairs, "after", trigger(after)),
    }
    match &step.action {
        Action::Operation(operation) => {
            put(&mut pairs, &operation.verb, self::operation(operation))
        }
        Action::Fault(fault) => put(&mut pairs, fault.word().name, self::fault(fault)),
    }
    put_some(&mut pairs, "may-miss", may_miss.then(|| Inline::raw(true)));
    pairs
}

fn operation(operation: &Operation) -> Inline {
    let asked = (operation.client.as_str() != "client")
        .then(|| ("client".to_owned(), text(operation.client.as_str())));
    Inline::table(
        asked.into_iter().chain(
            operation.fields.iter().map(|(name, value)| (name.clone(), Inline::json(value))),
        ),
    )
}

/// Returns the fields of a fault.
fn fault(fault: &Fault) -> Inline {
    Inline::table(
        fault.fields().into_iter().map(|(name, value)| (name.to_owned(), self::value(&value))),
    )
}

fn value(value: &FieldValue) -> Inline {
    match value {
        FieldValue::Host(host) => text(host.as_str()),
        FieldValue::Hosts(one, other) => Inline::list([text(one.as_str()), text(other.as_str())]),
        FieldValue::Conn(conn) => text(&conn.to_string()),
        FieldValue::Duration(duration) => Inline::duration(*duration),
        FieldValue::Jump(ms) => text(&units::jump(*ms)),
        FieldValue::Size(bytes) => text(&units::size(*bytes)),
        FieldValue::Count(n) => Inline::raw(n),
        FieldValue::Learns(ends) => Inline::table(
            ends.iter().map(|(host, learns)| (host.as_str().to_owned(), self::learns(*learns))),
        ),
        FieldValue::Name(_, name) => text(name),
        FieldValue::Trigger(until) => trigger(until),
    }
}

fn learns(learns: Learns) -> Inline {
    match learns {
        Learns::After(time) => Inline::duration(time),
        Learns::Never => text("never"),
    }
}

/// Returns the name of a milestone if that is sufficient, else a table.
fn trigger(trigger: &Trigger) -> Inline {
    let mark = match &trigger.mark {
        TriggerMark::Milestone(name) => ("milestone", text(name)),
        TriggerMark::Point(name) => ("point", text(name)),
    };
    let mut pairs: Pairs = vec![(mark.0.to_owned(), mark.1)];
    let mut add = |name: &str, value: Option<Inline>| {
        pairs.extend(value.map(|value| (name.to_owned(), value)))
    };
    add("nth", (trigger.nth != 1).then(|| Inline::raw(trigger.nth)));
    add("host", trigger.host.as_ref().map(|host| text(host.as_str())));
    add("conn", trigger.conn.as_ref().map(|conn| text(&conn.to_string())));
    for (name, value) in &trigger.fields {
        let value = match value {
            MilestoneValue::Number(n) => Inline::raw(n),
            MilestoneValue::Text(value) => text(value),
        };
        add(name, Some(value));
    }
    add("delay", (!trigger.delay.is_zero()).then(|| Inline::duration(trigger.delay)));
    match (&trigger.mark, pairs.len()) {
        (TriggerMark::Milestone(name), 1) => text(name),
        _ => Inline::table(pairs),
    }
}

fn expect_stream(expect: &ExpectStream) -> Pairs {
    let mut pairs = Vec::new();
    put_some(&mut pairs, "ends", expect.ends.map(|ends| text(name_of(&STREAM_ENDS, &ends))));
    put_some(&mut pairs, "outcome", expect.outcome.as_deref().map(text));
    put_some(&mut pairs, "reason", expect.reason.as_deref().map(text));
    put_some(&mut pairs, "output", expect.output.map(|output| text(name_of(&OUTPUTS, &output))));
    put_some(&mut pairs, "says", expect.says.as_deref().map(text));
    let shows =
        (!expect.shows.is_empty()).then(|| Inline::list(expect.shows.iter().map(|it| text(it))));
    put_some(&mut pairs, "shows", shows);
    put_some(&mut pairs, "within", expect.within.map(Inline::duration));
    put_some(&mut pairs, "live-from", expect.live_from.map(Inline::raw));
    pairs
}

fn expect_process(expect: &ExpectProcess) -> Pairs {
    let exit = |exit| match exit {
        ProcessExit::Code(code) => Inline::raw(code),
        ProcessExit::Signal => text(name_of(&EXITS, &exit)),
    };
    let mut pairs = Vec::new();
    put_some(&mut pairs, "ends", expect.ends.map(|ends| text(name_of(&PROCESS_ENDS, &ends))));
    put_some(&mut pairs, "exit", expect.exit.map(exit));
    put_some(&mut pairs, "reason", expect.reason.as_deref().map(text));
    put_some(&mut pairs, "output", expect.output.map(|output| text(name_of(&OUTPUTS, &output))));
    put_some(&mut pairs, "within", expect.within.map(Inline::duration));
    put_some(&mut pairs, "live-from", expect.live_from.map(Inline::raw));
    put_some(&mut pairs, "really-ends", expect.really_ends.map(span));
    pairs
}

fn expect_call(expect: &ExpectCall) -> Pairs {
    let mut pairs = Vec::new();
    put_some(&mut pairs, "ends", expect.ends.map(|ends| text(name_of(&CALL_ENDS, &ends))));
    put_some(&mut pairs, "result", expect.result.as_deref().map(text));
    put_some(&mut pairs, "says", expect.says.as_deref().map(text));
    put_some(&mut pairs, "reason", expect.reason.as_deref().map(text));
    put_some(&mut pairs, "takes", expect.takes.map(span));
    pairs
}

/// Removes null fields, because TOML has no null. A missing field has the same meaning.
pub(super) fn drop_nulls(plan: &mut Plan) {
    fields_without_nulls(&mut plan.setup);
    for step in &mut plan.steps {
        if let Action::Operation(operation) = &mut step.action {
            fields_without_nulls(&mut operation.fields);
        }
    }
}

fn fields_without_nulls(fields: &mut Map<String, Json>) {
    fields.retain(|_, value| !value.is_null());
    fields.values_mut().for_each(without_nulls);
}

fn without_nulls(value: &mut Json) {
    match value {
        Json::Object(fields) => fields_without_nulls(fields),
        Json::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}
