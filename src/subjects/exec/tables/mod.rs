//! The tables of `exec`: milestones and points, defects, rules, census.

use crate::protocols::exec::client;
use crate::protocols::exec::server::Census;

mod defects;
mod marks;
mod rules;

pub use defects::DEFECTS;
pub use marks::{MILESTONES, POINTS};
pub use rules::RULES;

/// One row of [`CENSUS`].
pub type Gauge = (&'static str, fn(&Census) -> u64);

/// What a server is asked to count.
pub const CENSUS: &[Gauge] = &[
    ("sessions", Census::sessions),
    ("connections", Census::connections),
    ("known-processes", Census::processes),
    ("starting", Census::starting),
    ("retained-bytes", Census::most_retained_bytes),
    ("retained-chunks", Census::most_retained_chunks),
    ("waiting-input", Census::most_waiting_input),
    ("http-requests", Census::http_requests),
];

/// One row of [`CLIENT_CENSUS`].
pub type ClientGauge = (&'static str, fn(&client::Census) -> u64);

/// What a client is asked to count.
pub const CLIENT_CENSUS: &[ClientGauge] = &[
    ("calls", |census| census.calls as u64),
    ("followed-processes", |census| census.processes as u64),
    ("endings", |census| census.endings as u64),
    ("held-back-events", |census| census.held_back_events as u64),
    ("held-back-bytes", |census| census.held_back_bytes as u64),
];
