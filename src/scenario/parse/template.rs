//! `[swarm.KEY]`: choices in the subject's own tables.

use serde_json::Value as Json;

use super::shape;
use crate::scenario::mistake::Parsed;
use crate::scenario::reader::Node;
use crate::scenario::verbs::plain;
use crate::schedule::profile::Template;
use crate::schedule::units;

/// The template of one entry.
pub fn entry(node: &Node<'_>, schema: &Json) -> Parsed<Template> {
    fields(node, schema, schema, false)
}

fn template(node: &Node<'_>, schema: &Json, root: &Json) -> Parsed<Template> {
    if node.is_list() {
        let list = node.list("a list")?;
        if list.is_empty() {
            return node.wrong(format!("`{}` has nothing to choose from; write at least one value", node.label));
        }
        return list.iter().map(|entry| template(entry, schema, root)).collect::<Parsed<_>>().map(Template::OneOf);
    }
    if node.is_table() {
        return maybe(node, schema, root);
    }
    if let Some(range) = node.text().ok().and_then(range) {
        return Ok(range);
    }
    shape::check(node, schema, root, &[])?;
    node.json().map(Template::Fixed)
}

/// A table, or a value that is there in a share of the cases.
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
    let properties = schema.get("properties").and_then(Json::as_object);
    if let Some(properties) = properties {
        table.only(properties.keys().map(String::as_str).chain(with_chance.then_some("chance")))?;
    }
    shape::required(&table, schema)?;
    let of = |name: &str| properties.and_then(|properties| properties.get(name)).unwrap_or(&Json::Null);
    let entries = table.entries().filter(|entry| !(with_chance && entry.label == "chance"));
    let field = |entry: Node<'_>| Ok((entry.label.to_owned(), template(&entry, of(entry.label), root)?));
    entries.map(field).collect::<Parsed<_>>().map(Template::Table)
}

/// A range of numbers, durations or sizes; any other text is itself.
fn range(text: &str) -> Option<Template> {
    if !text.contains("..") {
        return None;
    }
    let numbers = units::read_range(text, |end| end.parse::<u64>());
    let numbers = numbers.map(|(low, high)| Template::Numbers(low, high));
    let durations = || units::read_range(text, units::read_duration).map(|(low, high)| Template::Durations(low, high));
    let sizes = || units::read_range(text, units::read_size).map(|(low, high)| Template::Sizes(low, high));
    numbers.or_else(|_| durations()).or_else(|_| sizes()).ok()
}
