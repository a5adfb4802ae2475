//! Looking at jobs: once, or again and again.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::notes::{Looks, Saw};
use super::{pages, store, tag};
use crate::history::{Call, Stream};
use crate::subject::HostContext;
use reknit_turn::jobs::{Job, JobError, JobId, JobStore};
use reknit_turn::runner;

/// How often a user looks at the jobs while operations begin.
const EVERY: Duration = Duration::from_secs(2);

/// How often a user looks at them later, when only the end of each job is due. A look reads all
/// records, so frequent looks would take a fifth of the real time of a run.
const EVERY_LATER: Duration = Duration::from_secs(5);

/// The number of lines of a log that a user sees.
const LINES: usize = 4000;

/// Returns the stream of a look that an operation asks for.
pub(super) fn stream(call: Call) -> Stream {
    Stream::from(format!("jobs-{}", call.0).as_str())
}

/// Looks at all jobs of the machine, and finds the active ones by their ids: each, or at most so many.
pub(super) async fn look(
    host: &HostContext,
    stream: &Stream,
    most: usize,
) -> Result<Saw, JobError> {
    let store = store(host).await?;
    host.record.observed(stream, Looks);
    let listing = store.list(None).await?;
    let mut saw = Saw::listing(&listing);
    for (job, seen) in listing.jobs.iter().zip(&mut saw.jobs).filter(|(job, _)| !job.is_active()) {
        seen.log = log(&store, job).await?;
    }
    for job in listing.jobs.iter().filter(|job| job.is_active()).take(most) {
        if let Err(JobError::Missing(_)) = store.find(job.id.as_str()).await {
            saw.not_found.push(tag(job).call);
        }
    }
    host.record.observed(stream, saw.clone());
    Ok(saw)
}

async fn log(store: &JobStore, job: &Job) -> Result<Vec<String>, JobError> {
    store.log(&job.id).tail(LINES).await
}

/// Looks at the jobs until this future is dropped.
pub async fn watch(host: HostContext) {
    let stream = Stream::from("jobs");
    let begun = Instant::now();
    loop {
        let is_early = begun.elapsed() < host.plan.horizon + EVERY_LATER;
        sleep(if is_early { EVERY } else { EVERY_LATER }).await;
        if let Err(error) = look(&host, &stream, 1).await {
            tracing::warn!(%error, "cannot look at the jobs");
        }
    }
}

/// Waits until the jobs of a turn are over, but at most so long for each. Returns their states.
pub(super) async fn wait(
    host: &HostContext,
    (call, turn): (Call, &str),
    at_most: Duration,
) -> Result<String, JobError> {
    let (store, stream) = (store(host).await?, stream(call));
    let mut states = Vec::new();
    for job in of_turn(&store, turn).await? {
        host.record.observed(&stream, Looks);
        let job = runner::wait(&store, &job, at_most).await?;
        let mut saw = Saw::job(&job);
        if let Some(seen) = saw.jobs.first_mut().filter(|_| !job.is_active()) {
            seen.log = log(&store, &job).await?;
        }
        host.record.observed(&stream, saw);
        pages::job_page(host, &store, call, &job).await?;
        states.push(job.state.name().to_string());
    }
    Ok(if states.is_empty() { "there is no job".to_owned() } else { states.join(", ") })
}

/// Returns the ids of the jobs of a turn, the oldest first.
async fn of_turn(store: &JobStore, turn: &str) -> Result<Vec<JobId>, JobError> {
    let listing = store.list(None).await?;
    let jobs = listing.jobs.into_iter().rev().filter(|job| tag(job).turn == turn);
    Ok(jobs.map(|job| job.id).collect())
}
