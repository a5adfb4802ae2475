//! Values that several tables use.

use std::time::Duration;

use crate::scenario::ScenarioFile;
use crate::scenario::mistake::{Parsed, unknown};
use crate::scenario::reader::{Node, Table};
use crate::schedule::units;

/// The maximum number of client hosts in a file.
pub(super) const MOST_CLIENTS: u32 = 1000;

pub(super) fn number(table: &Table<'_>, key: &str, least: u64, without: u64) -> Parsed<u64> {
    table.get(key).map_or(Ok(without), |node| node.number(least))
}

/// Returns a number of seeds.
pub(super) fn seeds(table: &Table<'_>, key: &str, without: u64) -> Parsed<u64> {
    let seeds = number(table, key, 1, without)?;
    match table.get(key) {
        Some(node) if seeds > ScenarioFile::MOST_SEEDS => node.wrong(format!(
            "`{key}` must be at most {}; `reknit hunt` runs more",
            ScenarioFile::MOST_SEEDS
        )),
        _ => Ok(seeds),
    }
}

/// Returns one of the values in a table of names.
pub(super) fn one_of<T: Copy>(node: &Node<'_>, meanings: &[(&str, T)]) -> Parsed<T> {
    let name = node.text()?;
    let found = meanings.iter().find(|(known, _)| *known == name).map(|(_, meaning)| *meaning);
    let known = meanings.iter().map(|(known, _)| *known);
    found.map_or_else(
        || node.wrong(unknown(&format!("a value of `{}`", node.label), name, known)),
        Ok,
    )
}

/// Returns a duration that is not longer than the horizon.
pub(super) fn within(node: &Node<'_>, horizon: Duration) -> Parsed<Duration> {
    let duration = node.duration()?;
    if duration > horizon {
        let message = format!(
            "`{}` is past the horizon of {}; make `horizon` later",
            node.label,
            units::duration(horizon)
        );
        return node.wrong(message);
    }
    Ok(duration)
}

/// Returns a range of durations.
pub(super) fn span(node: &Node<'_>) -> Parsed<(Duration, Duration)> {
    node.read("a range like `\"1ms..20ms\"`", |text| units::read_range(text, units::read_duration))
}

pub(super) fn read_number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is not a whole number"))
}
