//! The tables of `exec`: milestones and points, defects, rules, resource counts.

use crate::subject::Gauge;
use reknit_exec::client;
use reknit_exec::server::Counts;

mod defects;
mod marks;
mod rules;

pub use defects::DEFECTS;
pub use marks::{MILESTONES, POINTS};
pub use rules::RULES;

/// The resource counts of a server of which each change is recorded.
pub const LEVELS: &[Gauge<Counts>] = &[
    ("sessions", |counts| counts.sessions),
    ("connections", |counts| counts.connections),
    ("known-processes", |counts| counts.processes),
    ("http-requests", |counts| counts.http_requests),
    ("file-requests", |counts| counts.file_requests),
    ("file-handles", |counts| counts.file_handles),
    ("write-ids", |counts| counts.most_write_ids),
];

/// The other resource counts of a server.
pub const RESOURCES: &[Gauge<Counts>] = &[
    ("starting", |counts| counts.starting),
    ("retained-bytes", |counts| counts.most_retained_bytes),
    ("retained-chunks", |counts| counts.most_retained_chunks),
    ("waiting-input", |counts| counts.most_waiting_input),
    ("unsent-events", |counts| counts.most_unsent_events),
];

/// The resource counts of a client of which each change is recorded.
pub const CLIENT_LEVELS: &[Gauge<client::ClientResources>] = &[
    ("calls", |resources| resources.calls as u64),
    ("followed-processes", |resources| resources.processes as u64),
    ("endings", |resources| resources.endings as u64),
    ("bodies", |resources| resources.bodies as u64),
];

/// The other resource counts of a client.
pub const CLIENT_RESOURCES: &[Gauge<client::ClientResources>] = &[
    ("held-back-events", |resources| resources.held_back_events as u64),
    ("held-back-bytes", |resources| resources.held_back_bytes as u64),
    ("kept-events", |resources| resources.kept_events as u64),
    ("kept-bytes", |resources| resources.kept_bytes as u64),
];
