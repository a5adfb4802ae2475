//! One simulated run.

use crate::history::History;
use crate::schedule::Plan;
use crate::subject::Erased;
use std::sync::Arc;

pub mod process;

/// How a run is carried out. Nothing of it changes what happens, but `twin`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// How much is kept in the history.
    pub detail: Detail,
    /// What carries the segments.
    pub engine: Engine,
    /// Whether packets of an older generation are dropped once a newer one is installed.
    pub twin: bool,
    /// Whether the subject's own tracing output is collected.
    pub log: bool,
}

/// How much of a run is kept in its history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// What properties need.
    #[default]
    Verdict,
    /// Every packet and message, too.
    Full,
}

/// What carries the segments of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// Event-driven, on `turmoil-net`: virtual time jumps to the next thing that happens.
    #[default]
    Event,
    /// Stock `turmoil`, in ticks of a millisecond.
    Turmoil,
}

/// What a run left behind besides its history.
#[derive(Debug)]
pub struct Outcome {
    /// The record.
    pub history: History,
    /// The subject's own tracing output, with virtual times and hosts, where it was asked for.
    pub log: Vec<String>,
}

/// Runs a plan. Properties are not checked here.
///
/// # Errors
/// If the run could not be carried out at all (milestones cannot be heard in this build, a poll took 10 s of real time).
pub fn run(_subject: &Arc<dyn Erased>, _plan: &Plan, _options: &Options) -> Result<Outcome, RunError> {
    Err(RunError::Deaf)
}

/// Why a run could not be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// Milestones do not arrive.
    #[error(
        "the world does not hear milestones: a `release_max_level_*` or `max_level_*` feature of `tracing` is on somewhere; take it out"
    )]
    Deaf,
}
