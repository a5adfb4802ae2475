//! How readers notice that the process of a job has died.

use reknit_seams::{defect, milestone};

use super::error::JobError;
use super::record::Job;
use super::state::State;
use super::store::JobStore;

impl JobStore {
    /// Returns the job in its real state: if its process is dead, it failed. Records that, if
    /// possible.
    ///
    /// A process that the table cannot see, in another namespace, counts as alive.
    pub(super) async fn reconcile(&self, job: Job) -> Result<Job, JobError> {
        if !self.lost_its_process(&job) {
            return Ok(job);
        }
        // The process may have recorded an end after the record was read. Now it is dead, so the
        // record changes no more, except by other readers.
        let is_lost = |job: &Job| self.lost_its_process(job) || defect!(ReaderLooksOnce);
        let failed = self.change(&job.id, |job, now| match is_lost(job) {
            true => job.enter(failure(job), now),
            false => Ok(()),
        });
        match failed.await {
            Ok(job) => {
                milestone!("turn.jobs.reconciled", job = job.id.as_str());
                Ok(job)
            }
            Err(error @ (JobError::Missing(_) | JobError::Broken(_))) => Err(error),
            Err(error) => {
                tracing::warn!(%error, job = %job.id, "cannot record that a process has died");
                let mut job = self.folder.read(&job.id).await?;
                if self.lost_its_process(&job) && !defect!(LockedRecordsBelieveTheDead) {
                    job.enter(failure(&job), self.now())?;
                }
                Ok(job)
            }
        }
    }

    fn lost_its_process(&self, job: &Job) -> bool {
        let process = job.state.process().filter(|_| !defect!(BelievesTheDead));
        process.is_some_and(|process| matches!(self.env.processes.is_alive(process), Ok(false)))
    }
}

fn failure(job: &Job) -> State {
    let message = match job.state {
        State::Queued { .. } => "the job's process died before the job started",
        _ => "the worker of the job died",
    };
    State::Failed { message: message.to_owned() }
}
