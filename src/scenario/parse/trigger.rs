//! `after`, and all other keys that wait for, or look for, a milestone or a point.

use std::time::Duration;

use super::names::Names;
use crate::scenario::keys;
use crate::scenario::mistake::{MistakeAt, Parsed};
use crate::scenario::reader::{Node, Table};
use crate::schedule::{MilestoneValue, Trigger};

/// Whether a delay is allowed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Delay {
    Allowed,
    /// Not allowed; contains the suggested alternative.
    Not(&'static str),
}

/// Returns a trigger: the name of a milestone, or a table of [`keys::AFTER`] and fields.
pub fn trigger(node: &Node<'_>, names: &Names<'_>, delay: Delay) -> Parsed<Trigger> {
    if node.is_text() {
        return names.milestone(node).map(|milestone| Trigger::milestone(milestone.name));
    }
    if !node.is_table() {
        return node.mistyped("a milestone name, or a table like `{ milestone = \"…\", nth = 2 }`");
    }
    let table = node.free_table()?;
    let trigger = mark(&table, names)?;
    if let (Some(node), Delay::Not(instead)) = (table.get("delay"), delay) {
        return Err(MistakeAt {
            at: node.key_at,
            message: format!("`delay` is not possible here; {instead}"),
        });
    }
    Ok(Trigger {
        host: table.get("host").map(|node| names.host(&node)).transpose()?,
        conn: table.get("conn").map(|node| names.conn(&node)).transpose()?,
        nth: table.get("nth").map_or(Ok(1), |node| node.number(1))?,
        delay: table.get("delay").map_or(Ok(Duration::ZERO), |node| node.duration())?,
        fields: (table.entries())
            .filter(|entry| keys::AFTER.names().all(|known| known != entry.label))
            .map(|entry| Ok((entry.label.to_owned(), field(&entry)?)))
            .collect::<Parsed<_>>()?,
        ..trigger
    })
}

/// Returns the milestone or point to wait for, after all other keys were parsed.
fn mark(table: &Table<'_>, names: &Names<'_>) -> Parsed<Trigger> {
    match (table.get("milestone"), table.get("point")) {
        (Some(node), None) => {
            let milestone = names.milestone(&node)?;
            table.only(keys::AFTER.names().chain(milestone.fields.iter().copied()))?;
            Ok(Trigger::milestone(milestone.name))
        }
        // The table of points does not list their fields, so any key may be a field.
        (None, Some(node)) => names.point(&node).map(|point| Trigger::point(point.name)),
        (Some(_), Some(point)) => Err(MistakeAt {
            at: point.key_at,
            message: "a trigger has either `milestone` or `point`; leave one out".into(),
        }),
        (None, None) => {
            table.wrong(format!("`{}` needs exactly one of `milestone` and `point`", table.label))
        }
    }
}

fn field(node: &Node<'_>) -> Parsed<MilestoneValue> {
    match node.json()? {
        serde_json::Value::String(text) => Ok(MilestoneValue::Text(text)),
        serde_json::Value::Bool(flag) => Ok(MilestoneValue::Number(u64::from(flag))),
        _ => node.number(0).map(MilestoneValue::Number),
    }
}
