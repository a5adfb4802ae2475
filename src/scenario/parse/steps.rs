//! `[[step]]`: an action and its time or trigger.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::names::Names;
use super::shape;
use super::trigger::{Delay, trigger};
use super::values::within;
use crate::scenario::keys;
use crate::scenario::mistake::{MistakeAt, Parsed, ticked, unknown};
use crate::scenario::reader::{Node, Table};
use crate::scenario::verbs::{Verb, verbs};
use crate::schedule::faults::WORDS;
use crate::schedule::words::{FaultFields, FaultWord, FieldType, FieldValue};
use crate::schedule::{Action, Fault, Host, Learns, NameList, Operation, Step, TriggerMark, When};

/// The parsed steps of a file.
#[derive(Default)]
pub struct ParsedSteps {
    pub steps: Vec<Step>,
    /// The position of each step.
    pub at: Vec<usize>,
    /// The indices of the steps that may do nothing.
    pub may_miss: BTreeSet<usize>,
}

/// Returns all steps.
pub fn steps(node: Option<Node<'_>>, names: &Names<'_>, horizon: Duration) -> Parsed<ParsedSteps> {
    let mut all = ParsedSteps::default();
    let Some(node) = node else { return Ok(all) };
    let verbs = verbs(names.subject);
    let reader = Reader { names, horizon, verbs: &verbs };
    for (n, node) in node.list("a list of tables, each under `[[step]]`")?.iter().enumerate() {
        let (step, may_miss) = reader.step(node)?;
        all.steps.push(step);
        all.at.push(node.at);
        all.may_miss.extend(may_miss.then_some(n));
    }
    Ok(all)
}

struct Reader<'r> {
    names: &'r Names<'r>,
    horizon: Duration,
    verbs: &'r [Verb],
}

impl Reader<'_> {
    /// Returns a step, and whether it may do nothing.
    fn step(&self, node: &Node<'_>) -> Parsed<(Step, bool)> {
        let mut known: Vec<&str> = keys::STEP.names().collect();
        known.extend(WORDS.iter().map(|word| word.name));
        known.extend(self.verbs.iter().map(|verb| verb.name.as_str()));
        let table = node.table(known)?;
        let when = self.when(&table)?;
        let action = self.action(&table)?;
        if let Action::Fault(Fault::Hold { .. }) = action {
            at_a_point(&when).or_else(|message| {
                Err(MistakeAt { at: table.need("hold", "")?.key_at, message: message.into() })
            })?;
        }
        Ok((Step { when, action }, may_miss(&table)?))
    }

    fn when(&self, table: &Table<'_>) -> Parsed<When> {
        match (table.get("at"), table.get("after")) {
            (Some(at), None) => within(&at, self.horizon).map(When::At),
            (None, Some(after)) => trigger(&after, self.names, Delay::Allowed).map(When::After),
            (Some(_), Some(after)) => Err(MistakeAt {
                at: after.key_at,
                message: "a step has either `at` or `after`; leave one out".into(),
            }),
            (None, None) => table.wrong("a step needs `at = \"1s\"` or `after = \"…\"`"),
        }
    }

    fn action(&self, table: &Table<'_>) -> Parsed<Action> {
        let mut verbs =
            table.entries().filter(|entry| keys::STEP.names().all(|key| key != entry.label));
        let Some(verb) = verbs.next() else {
            let operations: Vec<_> = self.verbs.iter().map(|verb| verb.name.as_str()).collect();
            let message = format!(
                "a step needs a verb: a fault like `cut`, or an operation of {}: {}",
                self.names.subject.name(),
                ticked(&operations)
            );
            return table.wrong(message);
        };
        if let Some(second) = verbs.next() {
            let message =
                format!("a step has one verb; write a separate step for `{}`", second.label);
            return Err(MistakeAt { at: second.key_at, message });
        }
        match FaultWord::find(verb.label) {
            Some(word) => self.fault(word, &verb).map(Action::Fault),
            None => self.operation(&verb).map(Action::Operation),
        }
    }

    fn fault(&self, word: &'static FaultWord, node: &Node<'_>) -> Parsed<Fault> {
        let table = node.table(word.fields.iter().map(|field| field.name))?;
        let value = |field: &'static crate::schedule::words::Field| {
            table.get(field.name).map(|node| Ok((field.name, self.value(field.kind, &node)?)))
        };
        let fields = FaultFields(word.fields.iter().filter_map(value).collect::<Parsed<_>>()?);
        word.build(&fields).map_err(|unfit| {
            let at = unfit
                .field
                .and_then(|name| table.get(name))
                .map_or(node.key_at, |field| field.key_at);
            MistakeAt { at, message: unfit.message }
        })
    }

    fn value(&self, kind: FieldType, node: &Node<'_>) -> Parsed<FieldValue> {
        Ok(match kind {
            FieldType::Host => FieldValue::Host(self.names.host(node)?),
            FieldType::Hosts => self.hosts(node)?,
            FieldType::Conn => FieldValue::Conn(self.names.conn(node)?),
            FieldType::Duration => FieldValue::Duration(node.duration()?),
            FieldType::Jump => FieldValue::Jump(node.jump()?),
            FieldType::Size => FieldValue::Size(node.size()?),
            FieldType::Count => FieldValue::Count(node.number(0)?),
            FieldType::Learns => FieldValue::Learns(self.learns(node)?),
            FieldType::Name(list) => FieldValue::Name(list, one_of(node, kind, list)?),
            FieldType::Trigger => FieldValue::Trigger(trigger(
                node,
                self.names,
                Delay::Not("write `then` beside `until`"),
            )?),
        })
    }

    fn hosts(&self, node: &Node<'_>) -> Parsed<FieldValue> {
        let expected = "two hosts like `[\"client\", \"server\"]`";
        let list = node.list(expected)?;
        let [one, other] = list.as_slice() else {
            return node.wrong(format!("`hosts` must be {expected}, not {}", list.len()));
        };
        let (one_host, other_host) = (self.names.host(one)?, self.names.host(other)?);
        if one_host == other_host {
            return other
                .wrong(format!("`hosts` must be two hosts; `{other_host}` is listed twice"));
        }
        Ok(FieldValue::Hosts(one_host, other_host))
    }

    fn learns(&self, node: &Node<'_>) -> Parsed<BTreeMap<Host, Learns>> {
        let entry = |entry: Node<'_>| {
            Ok((self.names.host_called(entry.key_at, entry.label)?, learns(&entry)?))
        };
        node.free_table()?.entries().map(entry).collect()
    }

    fn operation(&self, node: &Node<'_>) -> Parsed<Operation> {
        let verb = self
            .verbs
            .iter()
            .find(|verb| verb.name == node.label)
            .expect("the step's keys are known");
        let table = node.free_table()?;
        shape::check(node, &verb.schema, &verb.root, &[CLIENT])?;
        let client =
            table.get(CLIENT).map_or(Ok(Host::client(1)), |node| self.names.client(&node))?;
        let fields = table.entries().filter(|entry| entry.label != CLIENT);
        let fields = fields
            .map(|entry| Ok((entry.label.to_owned(), entry.json()?)))
            .collect::<Parsed<_>>()?;
        let operation = Operation { verb: verb.name.clone(), client, fields };
        match self.names.subject.check(&operation) {
            Ok(_) => Ok(operation),
            Err(error) => Err(MistakeAt { at: place(node, &error.path), message: error.message }),
        }
    }
}

fn may_miss(table: &Table<'_>) -> Parsed<bool> {
    match table.get("may-miss") {
        Some(node) if !node.flag()? => {
            node.wrong("`may-miss` must be `true`; leave it out instead")
        }
        node => Ok(node.is_some()),
    }
}

/// Checks the trigger of a step that holds a task: the task is held at a point, so the step must
/// wait for a point and have no delay.
fn at_a_point(when: &When) -> Result<(), &'static str> {
    match when {
        When::After(trigger) if matches!(trigger.mark, TriggerMark::Milestone(_)) => {
            Err(NEEDS_A_POINT)
        }
        When::At(_) => Err(NEEDS_A_POINT),
        When::After(trigger) if !trigger.delay.is_zero() => {
            Err("a `hold` begins when the task reaches the point; leave `delay` out")
        }
        When::After(_) => Ok(()),
    }
}

const NEEDS_A_POINT: &str = "a `hold` needs a point: `after = { point = \"…\" }`";

/// The field that reknit adds to every operation: the client that performs it.
const CLIENT: &str = "client";

/// Returns when an end learns of a cut: after a duration, or never.
pub fn learns(node: &Node<'_>) -> Parsed<Learns> {
    node.read("a duration like `\"3s\"`, or `\"never\"`", read_learns)
}

pub fn read_learns(text: &str) -> Result<Learns, String> {
    if text == "never" {
        return Ok(Learns::Never);
    }
    crate::schedule::units::read_duration(text).map(Learns::After).map_err(|error| {
        if text.chars().all(char::is_alphabetic) {
            unknown("a duration", text, ["never"])
        } else {
            error.to_string()
        }
    })
}

/// Returns the name in a list that a text repeats.
fn one_of(node: &Node<'_>, kind: FieldType, list: &'static NameList) -> Parsed<&'static str> {
    node.read(&kind.written(), |text| {
        let found = list.names.iter().find(|name| **name == text).copied();
        found.ok_or_else(|| unknown(list.what, text, list.names.iter().copied()))
    })
}

/// Returns the position of a path of fields, starting at the verb, as far as the path exists.
fn place(verb: &Node<'_>, path: &[String]) -> usize {
    let mut node = *verb;
    for name in path.iter().skip_while(|name| *name == verb.label) {
        let inner = node
            .is_table()
            .then(|| node.free_table().ok())
            .flatten()
            .and_then(|table| table.get(name));
        let Some(inner) = inner else { break };
        node = inner;
    }
    if node.at == verb.at { verb.key_at } else { node.at }
}
