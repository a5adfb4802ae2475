//! Validates the subject's own tables and operations against a JSON schema.
//!
//! It supports the subset of JSON Schema that `schemars` generates for plain data: types,
//! properties, items, enumerations, numeric bounds, references and alternatives. A string with the
//! `format` `duration` or `size` is validated as such. It is stricter in one point: a property that
//! the schema does not list is an error. It accepts anything that it does not support, because the
//! subject makes the final check.

use serde_json::Value as Json;

use crate::scenario::mistake::{MistakeAt, Parsed, unknown};
use crate::scenario::reader::{Node, Table};
use crate::scenario::verbs::{alternatives, enumerated, resolved, type_name, types};

/// Validates a value against a schema. References resolve in `root`. A table may also have the keys
/// in `besides`.
pub fn check(node: &Node<'_>, schema: &Json, root: &Json, besides: &[&str]) -> Parsed<()> {
    let Json::Object(_) = schema else { return Ok(()) };
    let schema = resolved(schema, root);
    match alternatives(schema, root).as_slice() {
        [alone] if std::ptr::eq(*alone, schema) => {}
        choices => return any(node, choices, root, besides),
    }
    if let Some(values) = enumerated(schema) {
        one_of(node, values)?;
    }
    match types(schema).as_slice() {
        [] => Ok(()),
        types if types.iter().any(|of| is(node, of)) => inside(node, schema, root, besides),
        types => {
            node.mistyped(&types.iter().map(|of| type_name(of)).collect::<Vec<_>>().join(" or "))
        }
    }
}

/// Validates a value against alternatives; one must match. If none does, a string is compared with
/// all allowed words; for other values, the error comes from the alternative that matched furthest.
fn any(node: &Node<'_>, choices: &[&Json], root: &Json, besides: &[&str]) -> Parsed<()> {
    let mut furthest = None;
    for choice in choices {
        match check(node, choice, root, besides) {
            Ok(()) => return Ok(()),
            Err(wrong) if furthest.as_ref().is_none_or(|best: &MistakeAt| wrong.at > best.at) => {
                furthest = Some(wrong)
            }
            Err(_) => {}
        }
    }
    let words: Vec<_> =
        choices.iter().filter_map(|choice| enumerated(choice)).flatten().cloned().collect();
    if node.is_text() && !words.is_empty() {
        return one_of(node, &words);
    }
    furthest.map_or(Ok(()), Err)
}

fn is(node: &Node<'_>, of: &str) -> bool {
    match (of, node.json()) {
        ("integer", Ok(value)) => value.is_u64() || value.is_i64(),
        ("number", Ok(value)) => value.is_number(),
        ("boolean", Ok(value)) => value.is_boolean(),
        ("string", _) => node.is_text(),
        ("array", _) => node.is_list(),
        ("object", _) => node.is_table(),
        _ => false,
    }
}

/// Checks that the value is one of these.
fn one_of(node: &Node<'_>, values: &[Json]) -> Parsed<()> {
    if values.contains(&node.json()?) {
        return Ok(());
    }
    let known: Vec<_> = values
        .iter()
        .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        .collect();
    let name = if node.is_text() { node.text()?.to_owned() } else { node.json()?.to_string() };
    node.wrong(unknown(
        &format!("a value of `{}`", node.label),
        &name,
        known.iter().map(String::as_str),
    ))
}

/// Validates the content of a value whose type is correct.
fn inside(node: &Node<'_>, schema: &Json, root: &Json, besides: &[&str]) -> Parsed<()> {
    if node.is_table() {
        return properties(node, schema, root, besides);
    }
    if node.is_list() {
        let items = schema.get("items").unwrap_or(&Json::Null);
        return node.list("a list")?.iter().try_for_each(|item| check(item, items, root, &[]));
    }
    if node.is_text() {
        return match schema.get("format").and_then(Json::as_str) {
            Some("duration") => node.duration().map(drop),
            Some("size") => node.size().map(drop),
            _ => Ok(()),
        };
    }
    node.json()?.as_f64().map_or(Ok(()), |number| bounded(node, number, schema))
}

/// Checks that a number is within the bounds of the schema.
pub fn bounded(node: &Node<'_>, number: f64, schema: &Json) -> Parsed<()> {
    let bound = |key| schema.get(key).and_then(Json::as_f64);
    match (bound("minimum"), bound("maximum")) {
        (Some(least), _) if number < least => {
            node.wrong(format!("`{}` is at least {least}, not {number}", node.label))
        }
        (_, Some(most)) if number > most => {
            node.wrong(format!("`{}` is at most {most}, not {number}", node.label))
        }
        _ => Ok(()),
    }
}

fn properties(node: &Node<'_>, schema: &Json, root: &Json, besides: &[&str]) -> Parsed<()> {
    let table = node.free_table()?;
    let properties = schema.get("properties").and_then(Json::as_object);
    let others = schema.get("additionalProperties").filter(|others| others.is_object());
    if let Some(properties) = properties.filter(|_| others.is_none()) {
        table.only(properties.keys().map(String::as_str).chain(besides.iter().copied()))?;
    } else if properties.is_none()
        && others.is_none()
        && schema.get("additionalProperties") == Some(&Json::Bool(false))
    {
        table.only(besides.iter().copied())?;
    }
    required(&table, schema)?;
    for entry in table.entries().filter(|entry| !besides.contains(&entry.label)) {
        let of = properties.and_then(|properties| properties.get(entry.label)).or(others);
        of.map_or(Ok(()), |of| check(&entry, of, root, &[]))?;
    }
    Ok(())
}

/// Checks that all required properties exist.
pub fn required(table: &Table<'_>, schema: &Json) -> Parsed<()> {
    for name in schema
        .get("required")
        .and_then(Json::as_array)
        .into_iter()
        .flatten()
        .filter_map(Json::as_str)
    {
        let of = schema
            .get("properties")
            .and_then(|properties| properties.get(name))
            .map(types)
            .unwrap_or_default();
        table.need(name, of.first().map_or("which is not there", |of| type_name(of)))?;
    }
    Ok(())
}
