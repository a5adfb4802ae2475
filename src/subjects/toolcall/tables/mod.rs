//! The tables of `toolcall`: milestones and points, defects and variants, rules, resource counts.

use crate::subject::Gauge;
use reknit_toolcall::client;
use reknit_toolcall::host::Counts;

mod defects;
mod marks;
mod rules;

pub use defects::{DEFECTS, VARIANTS};
pub use marks::{MILESTONES, POINTS};
pub use rules::RULES;

/// The resource counts of a host of which each change is recorded.
pub const LEVELS: &[Gauge<Counts>] = &[
    ("connections", |counts| counts.connections),
    ("clients", |counts| counts.clients),
    ("subscriptions", |counts| counts.subscriptions),
    ("chats", |counts| counts.chats),
    ("turns", |counts| counts.turns),
    ("outcomes", |counts| counts.outcomes),
];

/// The other resource counts of a host. Sessions and the newest actions are never released.
pub const RESOURCES: &[Gauge<Counts>] = &[
    ("holds", |counts| counts.holds),
    ("causes", |counts| counts.causes),
    ("waits", |counts| counts.waits),
    ("questions", |counts| counts.questions),
    ("owed", |counts| counts.owed),
    ("restores", |counts| counts.restores),
    ("left", |counts| counts.left),
];

/// The resource counts of a client of which each change is recorded.
pub const CLIENT_LEVELS: &[Gauge<client::ClientResources>] = &[
    ("channels", |resources| resources.channels),
    ("unconfirmed", |resources| resources.unconfirmed),
    ("held", |resources| resources.held),
    ("running", |resources| resources.running),
];

/// The other resource counts of a client.
pub const CLIENT_RESOURCES: &[Gauge<client::ClientResources>] =
    &[("in-flight", |resources| resources.in_flight)];
