//! `[swarm.KEY]`: choices in the subject's own tables.
//!
//! A template may contain any value that the table's schema allows in one entry, and choices of
//! such values. A range is allowed only if the schema wants a value that has ranges: a number, a
//! duration or a size.

use serde_json::Value as Json;

use super::shape;
use super::values::read_number;
use crate::scenario::mistake::Parsed;
use crate::scenario::reader::Node;
use crate::scenario::verbs::{alternatives, enumerated, plain, types};
use crate::schedule::profile::Template;
use crate::schedule::units;

/// Returns the template of one entry.
pub fn entry(node: &Node<'_>, schema: &Json) -> Parsed<Template> {
    fields(node, schema, schema, false)
}

fn template(node: &Node<'_>, schema: &Json, root: &Json) -> Parsed<Template> {
    if node.is_list() && is_list_of_tables(node, schema, root) {
        let items = plain(schema, root).get("items").unwrap_or(&Json::Null);
        return node
            .list("a list")?
            .iter()
            .map(|item| template(item, items, root))
            .collect::<Parsed<_>>()
            .map(Template::List);
    }
    if node.is_list() && !is_itself(node, schema, root) {
        let list = node.list("a list")?;
        if list.is_empty() {
            return node.wrong(format!(
                "the choice of `{}` is empty; write at least one value",
                node.label
            ));
        }
        return list
            .iter()
            .map(|entry| template(entry, schema, root))
            .collect::<Parsed<_>>()
            .map(Template::OneOf);
    }
    if node.is_table() {
        return maybe(node, schema, root);
    }
    if let Some(range) = range(node, schema, root)? {
        return Ok(range);
    }
    shape::check(node, schema, root, &[])?;
    node.json().map(Template::Fixed)
}

/// Whether a list is one value, not a choice: the schema wants a list, and this is not a list of
/// such lists.
fn is_itself(node: &Node<'_>, schema: &Json, root: &Json) -> bool {
    let choice = |list: Vec<Node<'_>>| !list.is_empty() && list.iter().all(Node::is_list);
    types(plain(schema, root)).contains(&"array") && !node.list("a list").is_ok_and(choice)
}

/// Whether a list is one value whose entries are tables that may contain choices.
fn is_list_of_tables(node: &Node<'_>, schema: &Json, root: &Json) -> bool {
    let tables = |list: Vec<Node<'_>>| !list.is_empty() && list.iter().all(Node::is_table);
    is_itself(node, schema, root) && node.list("a list").is_ok_and(tables)
}

/// Returns a table, or a value that is present in a share of the cases.
fn maybe(node: &Node<'_>, schema: &Json, root: &Json) -> Parsed<Template> {
    let table = node.free_table()?;
    let Some(chance) = table.get("chance") else { return fields(node, schema, root, false) };
    let inner = match table.get("value") {
        Some(value) => {
            table.only(["chance", "value"])?;
            template(&value, schema, root)?
        }
        None => fields(node, schema, root, true)?,
    };
    Ok(Template::Maybe(chance.share()?, Box::new(inner)))
}

fn fields(node: &Node<'_>, schema: &Json, root: &Json, with_chance: bool) -> Parsed<Template> {
    let table = node.free_table()?;
    let schema = plain(schema, root);
    // If the table is one of several alternatives, the keys of all alternatives are accepted here.
    // The check below allows only one of them.
    let several = alternatives(schema, root);
    let properties: Vec<_> =
        several.iter().filter_map(|one| one.get("properties").and_then(Json::as_object)).collect();
    if !properties.is_empty() {
        let known = properties.iter().flat_map(|properties| properties.keys()).map(String::as_str);
        table.only(known.chain(with_chance.then_some("chance")))?;
    }
    let is_tagged =
        properties.len() > 1 && properties.iter().all(|properties| properties.len() == 1);
    if is_tagged && table.entries().count() != 1 {
        return node.wrong(format!("`{}` must have exactly one of its possible keys", node.label));
    }
    shape::required(&table, schema)?;
    let of = |name: &str| {
        properties.iter().find_map(|properties| properties.get(name)).unwrap_or(&Json::Null)
    };
    let entries = table.entries().filter(|entry| !(with_chance && entry.label == "chance"));
    let field =
        |entry: Node<'_>| Ok((entry.label.to_owned(), template(&entry, of(entry.label), root)?));
    entries.map(field).collect::<Parsed<_>>().map(Template::Table)
}

/// Returns a range of the value that the schema wants. Any other text is a plain value.
fn range(node: &Node<'_>, schema: &Json, root: &Json) -> Parsed<Option<Template>> {
    let Some(text) = node.text().ok().filter(|text| text.contains("..")) else { return Ok(None) };
    let ranges =
        alternatives(schema, root).into_iter().filter_map(|choice| range_of(node, text, choice));
    match ranges.reduce(Result::or) {
        Some(Err(wrong)) if shape::check(node, schema, root, &[]).is_err() => Err(wrong),
        found => Ok(found.and_then(Result::ok)),
    }
}

/// Returns a range of numbers, durations or sizes, if the schema wants such a value. A schema
/// without a type accepts all of them.
fn range_of(node: &Node<'_>, text: &str, schema: &Json) -> Option<Parsed<Template>> {
    let numbers = || {
        let (low, high) =
            units::read_range(text, read_number).or_else(|error| node.wrong(error))?;
        [low, high].into_iter().try_for_each(|end| shape::bounded(node, end as f64, schema))?;
        Ok(Template::Numbers(low, high))
    };
    let durations = || {
        let range =
            units::read_range(text, units::read_duration).or_else(|error| node.wrong(error));
        range.map(|(low, high)| Template::Durations(low, high))
    };
    let sizes = || {
        let range = units::read_range(text, units::read_size).or_else(|error| node.wrong(error));
        range.map(|(low, high)| Template::Sizes(low, high))
    };
    let of = types(schema);
    match schema.get("format").and_then(Json::as_str) {
        Some("duration") => Some(durations()),
        Some("size") => Some(sizes()),
        _ if of.contains(&"integer") || of.contains(&"number") => Some(numbers()),
        _ if of.is_empty() && enumerated(schema).is_none() => {
            numbers().or_else(|_| durations()).or_else(|_| sizes()).ok().map(Ok)
        }
        _ => None,
    }
}
