//! Templates: choices in the subject's own tables. reknit only assumes that these tables are JSON.

use std::time::Duration;

use indexmap::IndexMap;
use rand_chacha::rand_core::RngCore;
use serde_json::{Map, Value};

use super::choice::{Between, happens, pick};
use crate::schedule::LimitValue;
use crate::schedule::keyed::keyed;

/// The source of a JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Template {
    /// Always this value.
    Fixed(Value),
    /// One of these, each with equal probability. Never empty.
    OneOf(Vec<Template>),
    /// A whole number between these, both included.
    Numbers(u64, u64),
    /// A duration between these, both included, as text: `50ms`.
    Durations(Duration, Duration),
    /// A size between these, both included, as text: `64KiB`.
    Sizes(u64, u64),
    /// A list of these, in order.
    List(Vec<Template>),
    /// A table with these fields.
    Table(IndexMap<String, Template>),
    /// A field that is present with this probability, from 0 to 1.
    Maybe(f64, Box<Template>),
}

impl Template {
    /// A table without fields.
    pub fn empty() -> Self {
        Self::Table(IndexMap::new())
    }

    /// Draws a value; `None` for an optional field that is absent this time.
    pub fn draw(&self, rng: &mut impl RngCore) -> Option<Value> {
        Some(match self {
            Template::Fixed(value) => value.clone(),
            Template::OneOf(templates) => {
                pick(templates, rng).expect("a choice has something to choose from").draw(rng)?
            }
            Template::Numbers(low, high) => u64::between(low, high, rng).into(),
            Template::Durations(low, high) => {
                LimitValue::Duration(Duration::between(low, high, rng)).to_string().into()
            }
            Template::Sizes(low, high) => {
                LimitValue::Bytes(u64::between(low, high, rng)).to_string().into()
            }
            Template::List(items) => {
                let item = |(n, item): (usize, &Template)| {
                    item.draw(&mut keyed(rng.next_u64(), "item", &[n as u64]))
                };
                Value::Array(items.iter().enumerate().filter_map(item).collect())
            }
            Template::Table(fields) => {
                let mut table = Map::new();
                for (name, field) in fields {
                    // Each field takes exactly one number from the generator of its table, so its draws
                    // do not affect the next field.
                    let mut own = keyed(rng.next_u64(), name, &[]);
                    table.extend(field.draw(&mut own).map(|value| (name.clone(), value)));
                }
                Value::Object(table)
            }
            Template::Maybe(chance, template) => {
                return if happens(*chance, rng) { template.draw(rng) } else { None };
            }
        })
    }

    /// Builds a template from a JSON schema: one of its examples. If the schema has no examples,
    /// the template is a table with a value for each required property, based on examples,
    /// enumeration, default, or the bounds of a number. A property without any of these is left
    /// out, so the subject must check whether the entry is valid.
    pub fn of_schema(schema: &Value) -> Self {
        Self::try_of_schema(schema).unwrap_or_else(Self::empty)
    }

    fn try_of_schema(schema: &Value) -> Option<Self> {
        let list =
            |key| schema.get(key).and_then(Value::as_array).filter(|values| !values.is_empty());
        if let Some(values) = list("examples").or_else(|| list("enum")) {
            return Some(Self::OneOf(values.iter().cloned().map(Self::Fixed).collect()));
        }
        if let Some(default) = schema.get("default") {
            return Some(Self::Fixed(default.clone()));
        }
        let bound = |key, or| schema.get(key).and_then(Value::as_u64).unwrap_or(or);
        match schema.get("type").and_then(Value::as_str)? {
            "object" => {
                let properties = schema.get("properties").and_then(Value::as_object);
                let required = |name: &str| {
                    list("required").is_some_and(|names| names.iter().any(|n| n == name))
                };
                let fields = properties.into_iter().flatten().filter(|(name, _)| required(name));
                Some(Self::Table(
                    fields
                        .filter_map(|(name, of)| Some((name.clone(), Self::try_of_schema(of)?)))
                        .collect(),
                ))
            }
            "integer" | "number" => Some(Self::Numbers(
                bound("minimum", 0),
                bound("maximum", 100.max(bound("minimum", 0))),
            )),
            "boolean" => {
                Some(Self::OneOf(vec![Self::Fixed(false.into()), Self::Fixed(true.into())]))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn table(fields: impl IntoIterator<Item = (&'static str, Template)>) -> Template {
        Template::Table(
            fields.into_iter().map(|(name, template)| (name.to_owned(), template)).collect(),
        )
    }

    fn draw(template: &Template, n: u64) -> Value {
        template.draw(&mut keyed(1, "test", &[n])).unwrap()
    }

    #[test]
    fn durations_and_sizes_are_text_as_in_a_file() {
        let template = table([
            ("every", Template::Durations(Duration::from_millis(50), Duration::from_millis(50))),
            ("bytes", Template::Sizes(4096, 4096)),
            ("lines", Template::Numbers(3, 3)),
        ]);
        assert_eq!(draw(&template, 1), json!({ "every": "50ms", "bytes": "4KiB", "lines": 3 }));
    }

    #[test]
    fn an_optional_field_is_sometimes_present_and_does_not_change_other_fields() {
        let wide = || Template::Numbers(0, 1 << 40);
        let template = |chance| {
            table([("late", Template::Maybe(chance, Box::new(wide()))), ("lines", wide())])
        };
        let drawn: Vec<_> = (0..1000).map(|n| draw(&template(0.1), n)).collect();
        let there = drawn.iter().filter(|value| value.get("late").is_some()).count();
        assert!((60..140).contains(&there), "{there}");
        for (n, value) in drawn.iter().enumerate() {
            assert_eq!(value["lines"], draw(&template(0.0), n as u64)["lines"]);
        }
    }

    #[test]
    fn the_entries_of_a_list_are_drawn_independently() {
        let list = Template::List(vec![
            Template::Numbers(0, 1 << 40),
            Template::Fixed(7.into()),
            Template::Numbers(0, 1 << 40),
        ]);
        let drawn = draw(&list, 1);
        assert_eq!((drawn.as_array().unwrap().len(), &drawn[1]), (3, &json!(7)));
        assert_ne!(drawn[0], drawn[2]);
    }

    #[test]
    fn a_template_follows_the_schema_of_an_entry() {
        let schema = json!({
            "type": "object",
            "properties": {
                "items": { "type": "integer", "minimum": 5, "maximum": 6 },
                "every": { "type": "string", "examples": ["50ms"] },
                "exit": { "type": "integer" },
                "whatever": { "type": "string" },
            },
            "required": ["items", "every", "whatever"],
        });
        let drawn = draw(&Template::of_schema(&schema), 1);
        assert!(matches!(drawn["items"].as_u64(), Some(5 | 6)));
        assert_eq!(drawn["every"], "50ms");
        assert_eq!(drawn.as_object().unwrap().len(), 2);
        assert_eq!(
            draw(&Template::of_schema(&json!({ "examples": [{ "items": 9 }] })), 1),
            json!({ "items": 9 })
        );
    }
}
