//! The tables of `toolcall`: milestones and points, defects and variants, rules, census.

use crate::protocols::toolcall::client;
use crate::protocols::toolcall::host::Counts;

mod defects;
mod marks;
mod rules;
#[cfg(test)]
mod tests;

pub use defects::{DEFECTS, VARIANTS};
pub use marks::{MILESTONES, POINTS};
pub use rules::RULES;

/// One row of [`CENSUS`].
pub type Gauge = (&'static str, fn(&Counts) -> u64);

/// What a host is asked to count. Sessions stay, and so do the newest actions.
pub const CENSUS: &[Gauge] = &[
    ("connections", |counts| counts.connections),
    ("clients", |counts| counts.clients),
    ("holds", |counts| counts.holds),
    ("causes", |counts| counts.causes),
    ("waits", |counts| counts.waits),
    ("turns", |counts| counts.turns),
    ("questions", |counts| counts.questions),
];

/// One row of [`CLIENT_CENSUS`].
pub type ClientGauge = (&'static str, fn(&client::Census) -> u64);

/// What a client is asked to count.
pub const CLIENT_CENSUS: &[ClientGauge] = &[
    ("channels", |census| census.channels),
    ("unconfirmed", |census| census.unconfirmed),
    ("in-flight", |census| census.in_flight),
    ("held", |census| census.held),
    ("running", |census| census.running),
];
