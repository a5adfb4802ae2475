//! The range of values that a subject's strategy draws. A shrunk operation stays in it: a run with a
//! value that the subject never draws says nothing about the subject.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value as Json;

use super::values::{TextValue, read};
use crate::schedule::{Action, Operation, Plan};

/// A text field with more values than this accepts any text.
const FEW: usize = 32;

/// The values of operations that were drawn, by verb and position in the operation.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    /// The smallest number, duration or size at each position.
    least: BTreeMap<String, Amount>,
    /// The other texts at each position.
    texts: BTreeMap<String, BTreeSet<String>>,
}

/// A value that has an order.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum Amount {
    Number(f64),
    Duration(Duration),
    Size(u64),
}

/// One value of an operation.
enum Leaf<'a> {
    Amount(Amount),
    Text(&'a str),
}

impl Ranges {
    /// The ranges of these operations, and of those in a plan.
    pub fn of(drawn: &[Operation], plan: &Plan) -> Self {
        let mut ranges = Self::default();
        for operation in drawn.iter().chain(operations(plan)) {
            visit(operation, &mut |position, leaf| {
                ranges.add(position, leaf);
                true
            });
        }
        ranges
    }

    fn add(&mut self, position: &str, leaf: Leaf<'_>) {
        match leaf {
            Leaf::Amount(amount) => {
                let least = self.least.entry(position.to_owned()).or_insert(amount);
                if amount < *least {
                    *least = amount;
                }
            }
            Leaf::Text(text) => {
                self.texts.entry(position.to_owned()).or_default().insert(text.to_owned());
            }
        }
    }

    /// Returns whether no operation of a plan has a value below its range.
    pub fn contain(&self, plan: &Plan) -> bool {
        operations(plan)
            .all(|operation| visit(operation, &mut |position, leaf| self.has(position, &leaf)))
    }

    fn has(&self, position: &str, leaf: &Leaf<'_>) -> bool {
        match leaf {
            Leaf::Amount(amount) => self.least.get(position).is_none_or(|least| amount >= least),
            Leaf::Text(text) => self
                .texts
                .get(position)
                .is_none_or(|texts| texts.len() > FEW || texts.contains(*text)),
        }
    }
}

fn operations(plan: &Plan) -> impl Iterator<Item = &Operation> {
    plan.steps.iter().filter_map(|step| match &step.action {
        Action::Operation(operation) => Some(operation),
        Action::Fault(_) => None,
    })
}

/// Calls `look` for the values of an operation until it returns `false`. Returns whether it returned
/// `true` for all.
fn visit(operation: &Operation, look: &mut dyn FnMut(&str, Leaf<'_>) -> bool) -> bool {
    operation
        .fields
        .iter()
        .all(|(name, value)| visit_value(&format!("{}.{name}", operation.verb), value, look))
}

/// The items of a list share one position.
fn visit_value(position: &str, value: &Json, look: &mut dyn FnMut(&str, Leaf<'_>) -> bool) -> bool {
    match value {
        Json::Object(fields) => fields
            .iter()
            .all(|(name, value)| visit_value(&format!("{position}.{name}"), value, look)),
        Json::Array(items) => items.iter().all(|item| visit_value(position, item, look)),
        Json::Number(number) => {
            number.as_f64().is_none_or(|n| look(position, Leaf::Amount(Amount::Number(n))))
        }
        Json::String(text) => look(
            position,
            match read(text) {
                TextValue::Duration(length) => Leaf::Amount(Amount::Duration(length)),
                TextValue::Size(bytes) => Leaf::Amount(Amount::Size(bytes)),
                TextValue::Other => Leaf::Text(text),
            },
        ),
        Json::Bool(_) | Json::Null => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::{Host, Step, When};

    fn operation(fields: Json) -> Operation {
        let Json::Object(fields) = fields else { panic!("{fields}") };
        Operation { verb: "add".into(), client: Host::client(1), fields }
    }

    fn plan(fields: Json) -> Plan {
        let action = Action::Operation(operation(fields));
        Plan { steps: vec![Step { when: When::At(Duration::ZERO), action }], ..Plan::new("t") }
    }

    #[test]
    fn a_value_below_those_drawn_is_out_of_range() {
        let drawn = [
            serde_json::json!({ "n": 3, "wait": "2s", "to": "a-counter-name", "list": [{ "size": "4KiB" }] }),
            serde_json::json!({ "n": 9, "wait": "1s", "to": "b-counter-name", "list": [] }),
        ];
        let ranges = Ranges::of(&drawn.map(operation), &plan(serde_json::json!({ "n": 2 })));
        let contain = |fields| ranges.contain(&plan(fields));
        assert!(contain(serde_json::json!({ "n": 2, "wait": "1s", "to": "b-counter-name" })));
        assert!(contain(serde_json::json!({ "list": [{ "size": "4KiB" }], "other": 0 })));
        for below in [
            serde_json::json!({ "n": 1 }),
            serde_json::json!({ "wait": "999ms" }),
            serde_json::json!({ "to": "a-coun" }),
            serde_json::json!({ "list": [{ "size": "4095B" }] }),
        ] {
            assert!(!contain(below.clone()), "{below}");
        }
    }

    #[test]
    fn a_text_field_with_many_values_accepts_any_text() {
        let drawn = (0..=FEW).map(|n| operation(serde_json::json!({ "to": format!("name-{n}") })));
        let ranges = Ranges::of(&Vec::from_iter(drawn), &plan(serde_json::json!({})));
        assert!(ranges.contain(&plan(serde_json::json!({ "to": "na" }))));
    }
}
