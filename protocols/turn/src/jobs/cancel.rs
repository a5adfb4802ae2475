//! Cancelling a job.

use std::io;
use std::time::Duration;

use reknit_seams::process::{Identity, KILL, ProcessTable, Reach, TERMINATE};
use reknit_seams::{defect, milestone};
use tokio::time::{Instant, sleep};

use super::error::JobError;
use super::id::JobId;
use super::record::Job;
use super::state::State;
use super::store::JobStore;
use crate::capture::Interrupt;

/// The work that is left after a job was cancelled. The caller sends the interrupt, and then calls
/// [`CancelPlan::stop_worker`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelPlan {
    /// The job, which is cancelled now.
    pub id: JobId,
    /// The turn to interrupt. `None` if the job has no thread, so that nothing runs at the server
    /// that is known. A thread without a turn: the turn was about to start. The app-server 0.169.0
    /// then interrupts whatever runs on the thread.
    pub interrupt: Option<Interrupt>,
    /// The worker to stop. `None` if the job was queued: the worker will find that it is cancelled.
    pub worker: Option<Identity>,
}

/// How a worker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// There was none, or it had ended already.
    Already,
    /// It ended after it was asked to.
    Asked,
    /// It did not end in time, and was killed.
    Killed,
}

/// How often a caller checks whether a worker has ended.
const POLL: Duration = Duration::from_millis(20);

impl JobStore {
    /// Cancels a job. The state is recorded first, so a worker that claims the job afterwards, or
    /// reports its end, gets an error.
    ///
    /// # Errors
    /// [`JobError::NotAllowed`] if the job is over. Also the errors of [`assign`](Self::assign).
    pub async fn cancel(&self, id: &JobId) -> Result<CancelPlan, JobError> {
        if defect!(CancelPlansEarly) {
            return self.cancel_as_planned(id).await;
        }
        self.read(id).await?; // a dead worker's job has failed
        let mut plan = None;
        self.change(id, |job, now| {
            // The bug: a job that no worker has claimed runs later.
            if matches!(job.state, State::Queued { .. }) && defect!(QueuedJobsAreSpared) {
                return Ok(());
            }
            plan = Some(CancelPlan::of(job));
            job.enter(State::Cancelled, now)
        })
        .await?;
        milestone!("turn.jobs.cancelled", job = id.as_str());
        plan.ok_or_else(|| JobError::Missing(id.to_string()))
    }
}

impl CancelPlan {
    /// Makes the plan of an active job.
    pub(super) fn of(job: &Job) -> Self {
        let worker = match &job.state {
            State::Running { worker } => Some(worker.clone()),
            _ => None,
        };
        let thread = job.thread.clone().filter(|_| worker.is_some());
        let interrupt = thread.map(|thread| Interrupt { thread, turn: job.turn.clone() });
        let interrupt = interrupt
            .filter(|interrupt| interrupt.turn.is_some() || !defect!(InterruptsOnlyKnownTurns));
        Self { id: job.id.clone(), interrupt, worker }
    }

    /// Asks the worker to end, so that it interrupts its turn itself, and kills it if it has not ended
    /// after `grace`. Signals go to its process group if it leads one, and never to another process.
    ///
    /// # Errors
    /// If the process table fails.
    pub async fn stop_worker(
        &self,
        processes: &dyn ProcessTable,
        grace: Duration,
    ) -> io::Result<Stopped> {
        let Some(worker) = &self.worker else { return Ok(Stopped::Already) };
        if !signal(processes, worker, TERMINATE)? {
            return Ok(Stopped::Already);
        }
        let deadline = Instant::now() + grace;
        while processes.is_alive(worker)? {
            if Instant::now() >= deadline {
                // The bug: the worker runs on.
                if defect!(StubbornWorkersAreSpared) {
                    return Ok(Stopped::Asked);
                }
                let was_alive = signal(processes, worker, KILL)?;
                return Ok(if was_alive { Stopped::Killed } else { Stopped::Asked });
            }
            sleep(POLL).await;
        }
        Ok(Stopped::Asked)
    }
}

/// Sends a signal to a process; returns whether it was alive.
fn signal(processes: &dyn ProcessTable, process: &Identity, number: i32) -> io::Result<bool> {
    let mut process = process.clone();
    if defect!(SignalsAnyProcessWithTheId)
        && let Some(stranger) = processes.find(process.pid)?
    {
        process = stranger;
    }
    match processes.signal(&process, number, Reach::Group) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        sent => sent.map(|()| true),
    }
}
