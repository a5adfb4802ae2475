//! The format version, and the names of values in files. The reader, the writer and the keys share
//! them.

use crate::history::Side;
use crate::schedule::TieOrder;
use crate::world::Engine;

/// The format version. A file with another version is rejected.
pub const FORMAT: u64 = 1;

/// The orders of packets and timers, by their names in files. `both` has no order value.
pub(super) const ORDERS: [(&str, Option<TieOrder>); 4] = [
    ("drawn", Some(TieOrder::Drawn)),
    ("packets-first", Some(TieOrder::PacketsFirst)),
    ("timers-first", Some(TieOrder::TimersFirst)),
    ("both", None),
];

/// The engines, by their names in files.
pub(super) const ENGINES: [(&str, Engine); 2] =
    [("event", Engine::Event), ("turmoil", Engine::TURMOIL)];

/// The directions that a swarm draws from, by their names in files.
pub(super) const TOWARD: [(&str, Option<Side>); 3] =
    [("client", Some(Side::Client)), ("server", Some(Side::Server)), ("both", None)];

/// Returns the name of a value in a table of names.
pub(super) fn name_of<T: PartialEq>(table: &[(&'static str, T)], value: &T) -> &'static str {
    let row = table.iter().find(|(_, meaning)| meaning == value);
    row.expect("every value has its row").0
}

/// Returns the name of an engine. A file does not contain the engine's tick.
pub(super) fn engine_name(engine: Engine) -> &'static str {
    ENGINES.iter().find(|(_, known)| known.is_like(engine)).expect("every engine has its row").0
}
