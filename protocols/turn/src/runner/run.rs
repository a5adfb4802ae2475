//! A process that runs the command of a job.

use std::future::Future;

use reknit_seams::{defect, milestone};
use tokio::sync::Notify;

use super::news::Recorder;
use crate::capture::{Interruption, Report, Verdict};
use crate::client::{Client, ClientError, News};
use crate::command::Order;
use crate::jobs::{Claim, Ending, Job, JobError, JobId, JobStore};

/// Runs commands as jobs of a store.
#[derive(Clone)]
pub struct JobRunner {
    store: JobStore,
    client: Client,
}

/// A job whose command has ended.
#[derive(Debug)]
pub struct JobRun {
    /// The report of the turn, or why there is none.
    pub result: Result<Report, ClientError>,
    /// The job with its end. An error if the end could not be recorded: usually, because the job was
    /// cancelled meanwhile, and that end stands.
    pub recorded: Result<Job, JobError>,
}

impl JobRun {
    /// Returns the exit status of the program that ran the job: 0 if and only if the turn completed,
    /// 130 if the user cancelled it, otherwise 1.
    pub fn exit_status(&self) -> i32 {
        match &self.result {
            // The bug: a worker that has a report is done.
            Ok(_) if defect!(WorkersExitWithZero) => 0,
            Ok(report) => report.exit_status(),
            Err(error) => error.exit_status(),
        }
    }
}

impl JobRunner {
    /// Creates a runner.
    pub fn new(store: JobStore, client: Client) -> Self {
        Self { store, client }
    }

    /// Does the work of a queued job, as its worker. When `cancel` completes, it interrupts the turn.
    ///
    /// # Errors
    /// If this process is not the worker of the job, because the job is cancelled or has another
    /// worker: then nothing was done. Also if the store fails.
    pub async fn work(
        &self,
        id: &JobId,
        cancel: impl Future<Output = ()>,
    ) -> Result<JobRun, JobError> {
        let claim = self.store.claim(id).await?;
        let job = self.store.read(id).await?;
        match job.order {
            Some(order) => Ok(self.run(&claim, order, cancel, |_| {}).await),
            // The bug: the job has no end.
            None if defect!(MissingOrdersAreIgnored) => Err(JobError::NoOrder(id.clone())),
            None => {
                let message = "its record contains no order".to_owned();
                self.store
                    .finish(&claim, Ending::Failed { message: message.clone() }, None)
                    .await?;
                Err(JobError::NoOrder(id.clone()))
            }
        }
    }

    /// Runs a command as a job that this process has claimed, and records news and the end. The turn
    /// is interrupted when `cancel` completes, or when another process has cancelled the job.
    ///
    /// The future must run to its end. If it is dropped, the job runs until this process ends.
    pub async fn run(
        &self,
        claim: &Claim,
        order: Order,
        cancel: impl Future<Output = ()>,
        mut news: impl FnMut(News),
    ) -> JobRun {
        let (recorder, lost) = (Recorder::default(), Notify::new());
        let cancel = async {
            tokio::select! {
                biased;
                () = cancel => {}
                () = lost.notified() => milestone!("turn.runner.lost", job = claim.id().as_str()),
            }
        };
        let take = |one: News| {
            recorder.take(&one);
            news(one);
        };
        let running = async {
            let result = self.client.run(order.command, order.settings, cancel, take).await;
            recorder.close();
            result
        };
        let (result, ()) =
            tokio::join!(running, recorder.record(&self.store, claim, || lost.notify_one()));
        let (ending, report) = ending(&result);
        let recorded = self.store.finish(claim, ending, report.as_deref()).await;
        JobRun { result, recorded }
    }
}

/// Returns the end of the job for the result of its command, and the text for the user.
fn ending(result: &Result<Report, ClientError>) -> (Ending, Option<String>) {
    match result {
        Ok(report) => {
            let ending = match &report.verdict {
                Verdict::Completed(_) => Ending::Completed,
                Verdict::Failed(_) | Verdict::Interrupted(Interruption::Other) => {
                    Ending::Failed { message: report.summary() }
                }
                // The bug: only an end that the server confirms is a cancel.
                Verdict::Interrupted(Interruption::CancelledUnconfirmed)
                    if defect!(UnconfirmedCancelsFail) =>
                {
                    Ending::Failed { message: report.summary() }
                }
                Verdict::Interrupted(_) => Ending::Cancelled,
            };
            (ending, Some(report.to_string()))
        }
        Err(ClientError::Cancelled { .. }) => (Ending::Cancelled, None),
        Err(error) => (Ending::Failed { message: error.to_string() }, None),
    }
}
