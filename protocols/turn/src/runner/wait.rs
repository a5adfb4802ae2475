//! Waiting for a job of another process.

use std::time::Duration;

use reknit_seams::defect;
use tokio::time::{Instant, sleep_until};

use crate::jobs::{Job, JobError, JobId, JobStore};

/// How often the record is read.
const POLL: Duration = Duration::from_millis(200);

/// Waits until a job is over, but at most for this long. Returns the job in its state at that time.
///
/// # Errors
/// The errors of [`JobStore::read`].
pub async fn wait(store: &JobStore, id: &JobId, at_most: Duration) -> Result<Job, JobError> {
    let until = Instant::now() + at_most;
    loop {
        let job = store.read(id).await?;
        let now = Instant::now();
        // The bug: the first look decides.
        if !job.is_active() || now >= until || defect!(WaitEndsAtOnce) {
            return Ok(job);
        }
        sleep_until((now + POLL).min(until)).await;
    }
}
