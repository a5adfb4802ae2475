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

/// The resource counts of a host. Sessions and the newest actions are never released.
pub const RESOURCES: &[Gauge<Counts>] = &[
    ("connections", |counts| counts.connections),
    ("clients", |counts| counts.clients),
    ("holds", |counts| counts.holds),
    ("causes", |counts| counts.causes),
    ("waits", |counts| counts.waits),
    ("turns", |counts| counts.turns),
    ("questions", |counts| counts.questions),
    ("owed", |counts| counts.owed),
    ("chats", |counts| counts.chats),
    ("outcomes", |counts| counts.outcomes),
    ("restores", |counts| counts.restores),
    ("left", |counts| counts.left),
];

/// The resource counts of a client.
pub const CLIENT_RESOURCES: &[Gauge<client::ClientResources>] = &[
    ("channels", |resources| resources.channels),
    ("unconfirmed", |resources| resources.unconfirmed),
    ("in-flight", |resources| resources.in_flight),
    ("held", |resources| resources.held),
    ("running", |resources| resources.running),
];
