//! The end of a session of the user.

use reknit_seams::{Env, defect, milestone};

use super::cancel::finish;
use crate::broker::BrokerSearch;
use crate::jobs::{JobError, JobId, JobStore};
use crate::limits::CancelLimits;

/// The jobs that ended with their session.
#[derive(Debug, Default)]
pub struct SessionEnd {
    /// The jobs that are cancelled now.
    pub cancelled: Vec<JobId>,
    /// The jobs that could not be cancelled, or whose worker could not be ended.
    pub failed: Vec<(JobId, JobError)>,
}

/// Ends the jobs of a session that are not over: cancels each of them. It does not touch the jobs of
/// other sessions, nor the broker, which works for all sessions.
///
/// # Errors
/// If the jobs cannot be listed.
pub async fn end_session(
    store: &JobStore,
    env: &Env,
    broker: Option<&BrokerSearch>,
    session: &str,
    limits: CancelLimits,
) -> Result<SessionEnd, JobError> {
    // The bug: the end of one session ends the work of all.
    let of = Some(session).filter(|_| !defect!(EndsOtherSessions));
    let (mut end, mut plans) = (SessionEnd::default(), Vec::new());
    // All are cancelled before the first worker has to end, so that none of them starts a turn.
    for job in store.list(of).await?.jobs.into_iter().filter(|job| job.is_active()) {
        match store.cancel(&job.id).await {
            // The bug: the next job runs on until the worker of this one has ended.
            Ok(plan) if defect!(SessionsEndJobByJob) => {
                let ended = finish(env, broker, &plan, limits).await;
                end.cancelled.extend(ended.is_ok().then_some(plan.id));
            }
            Ok(plan) => plans.push(plan),
            Err(JobError::NotAllowed { .. } | JobError::Missing(_)) => {} // it is over
            // The bug: the user does not learn that the job runs on.
            Err(_) if defect!(SessionFailuresAreUnsaid) => {}
            Err(error) => end.failed.push((job.id, error)),
        }
    }
    for plan in plans {
        match finish(env, broker, &plan, limits).await {
            Ok(_) => end.cancelled.push(plan.id),
            Err(error) => end.failed.push((plan.id, error)),
        }
    }
    milestone!("turn.runner.session-ended", jobs = end.cancelled.len());
    Ok(end)
}
