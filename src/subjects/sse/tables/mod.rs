//! The tables of `sse`: milestones and points, defects and variants, rules, resource counts.

use crate::subject::Gauge;
use reknit_sse::server::Counts;

mod defects;
mod marks;
mod rules;

pub(super) use defects::is_execd;
pub use defects::{DEFECTS, VARIANTS};
pub use marks::{MILESTONES, POINTS};
pub use rules::RULES;

/// The resource counts of a server.
pub const RESOURCES: &[Gauge<Counts>] = &[
    ("connections", |counts| counts.connections as u64),
    ("commands", |counts| counts.commands as u64),
    ("running-commands", |counts| counts.running as u64),
    ("streams", |counts| counts.streams as u64),
    ("log-bytes", |counts| counts.log_bytes as u64),
];
