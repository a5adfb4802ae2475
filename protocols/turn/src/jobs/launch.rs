//! Starting the worker of a job in the background.

use reknit_seams::process::Detached;
use reknit_seams::{defect, point};

use super::error::JobError;
use super::id::JobId;
use super::record::{Job, NewJob};
use super::state::State;
use super::store::JobStore;

impl JobStore {
    /// Creates a queued job, and starts its worker, which outlives this process. `program` returns
    /// the program for a job.
    ///
    /// If the start fails, the job fails.
    ///
    /// # Errors
    /// The errors of [`create`](Self::create). Also if the program cannot be started.
    pub async fn launch(
        &self,
        new: NewJob,
        program: impl FnOnce(&JobId) -> Detached,
    ) -> Result<Job, JobError> {
        let id = self.draw_id(new.kind);
        let program = program(&id);
        if defect!(RecordsAfterTheStart) {
            return self.start_and_record(id, new, &program).await;
        }
        self.create_as(id.clone(), new).await?;
        match self.env.processes.launch_detached(&program).await {
            Ok(worker) => {
                point!("turn.jobs.launched").await;
                self.assign(&id, &worker).await
            }
            Err(error) => {
                let message = format!("the worker cannot be started: {error}");
                if !defect!(UnstartedJobStaysQueued) {
                    self.change(&id, |job, now| job.enter(State::Failed { message }, now)).await?;
                }
                Err(JobError::Processes(error))
            }
        }
    }
}
