//! Jobs: commands that run in the background of a client's machine.
//!
//! - [`worker`]: the program that does a job, a process of product code.
//! - `asks`: what a user does with jobs. `watch`: a user who looks at the jobs again and again.
//!   `pages`: the pages that a user reads. `signals`: which processes get signals from a command.
//! - [`notes`]: what workers and users record.
//! - [`tables`], [`limits`]: milestones, points, defects, rules; sizes and deadlines.
//! - `story`, `properties`, `ends`, `logs`, `records`: the facts of a run, and the properties that judge them.
//!
//! A user has jobs if the plan has a command with `background = true`. Otherwise nothing of this runs.

use super::notes::Tag;
use crate::schedule::{Action, Operation, Plan};
use crate::subject::HostContext;
use reknit_turn::jobs::{Job, JobError, JobStore};

pub(super) mod asks;
pub(super) mod ends;
pub mod limits;
pub(super) mod logs;
pub mod notes;
mod pages;
pub(super) mod properties;
pub(super) mod records;
mod signals;
pub(super) mod story;
pub mod tables;
pub(super) mod watch;
pub mod worker;

/// The directory of the job records of a machine.
const DIRECTORY: &str = "/jobs";

/// Opens the job records of a machine.
async fn store(host: &HostContext) -> Result<JobStore, JobError> {
    JobStore::open(&host.env, DIRECTORY, limits::jobs(&host.limits)).await
}

/// Returns the turn and the operation of a job.
fn tag(job: &Job) -> Tag {
    Tag::find(&job.title).unwrap_or_default()
}

/// Whether an operation starts a job.
pub(super) fn starts(operation: &Operation) -> bool {
    operation.fields.get("background").and_then(|is| is.as_bool()).unwrap_or(false)
}

/// Whether a plan has jobs.
pub(super) fn has_jobs(plan: &Plan) -> bool {
    plan.steps.iter().any(|step| match &step.action {
        Action::Operation(operation) => starts(operation),
        Action::Fault(_) => false,
    })
}
