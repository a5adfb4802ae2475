//! The code of seeded bugs that need more than a line.

use reknit_seams::process::Detached;
use reknit_seams::{milestone, point};

use super::cancel::CancelPlan;
use super::error::JobError;
use super::files::Folder;
use super::id::JobId;
use super::record::{Job, NewJob};
use super::state::State;
use super::store::JobStore;

impl JobStore {
    /// Cancels a job. The remaining steps depend on the record from before the lock.
    pub(super) async fn cancel_as_planned(&self, id: &JobId) -> Result<CancelPlan, JobError> {
        let plan = CancelPlan::of(&self.read(id).await?);
        self.change(id, |job, now| job.enter(State::Cancelled, now)).await?;
        milestone!("turn.jobs.cancelled", job = id.as_str());
        Ok(plan)
    }

    /// Starts a worker before its job is recorded.
    pub(super) async fn start_and_record(
        &self,
        id: JobId,
        new: NewJob,
        program: &Detached,
    ) -> Result<Job, JobError> {
        self.env.processes.launch_detached(program).await.map_err(JobError::Processes)?;
        tokio::task::yield_now().await; // a worker can be faster than its launcher
        self.create_as(id, new).await
    }
}

impl Folder {
    /// Writes a record that lacks its report, if it has one.
    pub(super) async fn write_without_report(&self, job: &Job) -> Result<(), JobError> {
        if job.report.is_some() {
            Box::pin(self.write(&Job { report: None, ..job.clone() })).await?;
            point!("turn.jobs.half-written").await;
        }
        Ok(())
    }
}
