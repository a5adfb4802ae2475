//! Smaller values of operations and of the subject's own tables. This pass knows only their form:
//! numbers, durations and sizes, long texts, lists, and fields that can be left out.
//! [`Fits`](super::Fits) rejects values that violate the subject's schema.

use std::time::Duration;

use serde_json::Value as Json;

use super::edit::{Edit, RunObservations};
use super::plainer::{lengths, numbers};
use crate::schedule::units;
use crate::schedule::{Action, Plan};

/// The meaning of a text in a file.
pub enum TextValue {
    /// A duration.
    Duration(Duration),
    /// A number of bytes.
    Size(u64),
    /// Anything else.
    Other,
}

/// Reads a text as a duration or a size, if it is one.
pub fn read(text: &str) -> TextValue {
    let duration = units::read_duration(text).map(TextValue::Duration);
    duration.or_else(|_| units::read_size(text).map(TextValue::Size)).unwrap_or(TextValue::Other)
}

/// Makes one value a little smaller.
pub fn smaller(plan: &Plan, _: &RunObservations) -> Vec<Edit> {
    let mut edits: Vec<Edit> = Vec::new();
    for (n, step) in plan.steps.iter().enumerate() {
        let Action::Operation(operation) = &step.action else { continue };
        for fields in less(&Json::Object(operation.fields.clone())) {
            edits.push(Box::new(move |plan| {
                if let (Action::Operation(operation), Json::Object(fields)) =
                    (&mut plan.steps[n].action, &fields)
                {
                    operation.fields = fields.clone();
                }
            }));
        }
    }
    for (table, entries) in &plan.setup {
        for (name, entry) in entries.as_object().into_iter().flatten() {
            for entry in less(entry) {
                let (table, name) = (table.clone(), name.clone());
                edits.push(Box::new(move |plan| plan.setup[&table][&name] = entry.clone()));
            }
        }
    }
    edits
}

/// Texts longer than this are cut in half; shorter ones are probably names.
const NAME: usize = 12;

/// Returns variants of this value that are smaller in one place.
fn less(value: &Json) -> Vec<Json> {
    match value {
        Json::Object(fields) => less_fields(fields),
        Json::Array(items) => less_items(items),
        Json::Number(number) => number.as_u64().map_or_else(
            || number.as_i64().map(|_| Json::from(0)).into_iter().collect(),
            |n| numbers(n).into_iter().map(Json::from).collect(),
        ),
        Json::String(text) => match read(text) {
            TextValue::Duration(length) => std::iter::once(Duration::ZERO)
                .chain(lengths(length))
                .map(|length| Json::from(units::duration(length)))
                .collect(),
            TextValue::Size(bytes) => {
                numbers(bytes).into_iter().map(|bytes| Json::from(units::size(bytes))).collect()
            }
            TextValue::Other if text.chars().count() > NAME => {
                vec![text.chars().take(text.chars().count() / 2).collect::<String>().into()]
            }
            TextValue::Other => Vec::new(),
        },
        Json::Bool(_) | Json::Null => Vec::new(),
    }
}

fn less_fields(fields: &serde_json::Map<String, Json>) -> Vec<Json> {
    let mut all = Vec::new();
    for name in fields.keys() {
        let mut fewer = fields.clone();
        fewer.shift_remove(name);
        all.push(fewer);
    }
    for (name, value) in fields {
        for value in less(value) {
            let mut other = fields.clone();
            other.insert(name.clone(), value);
            all.push(other);
        }
    }
    all.into_iter().map(Json::Object).collect()
}

fn less_items(items: &[Json]) -> Vec<Json> {
    let mut all = vec![items[..items.len() / 2].to_vec(), items[items.len() / 2..].to_vec()];
    for (n, item) in items.iter().enumerate() {
        all.push(
            items
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != n)
                .map(|(_, item)| item.clone())
                .collect(),
        );
        for item in less(item) {
            let mut other = items.to_vec();
            other[n] = item;
            all.push(other);
        }
    }
    all.into_iter().map(Json::Array).collect()
}
