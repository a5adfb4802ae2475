//! The end of a job that its user cancels, from another process.

use reknit_seams::{Env, defect, milestone, point};
use tokio::time::timeout;

use crate::broker::BrokerSearch;
use crate::capture::Interrupt;
use crate::jobs::{CancelPlan, JobError, JobId, JobStore, Stopped};
use crate::limits::CancelLimits;
use crate::wire::{TurnInterruptParams, method};

/// The steps of a cancel. The job is cancelled in any case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cancelled {
    /// The result of the interrupt through the broker.
    pub interrupted: Interrupted,
    /// How the worker ended.
    pub worker: Stopped,
}

/// The result of the interrupt of a turn through the broker. The worker interrupts its turn itself,
/// too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interrupted {
    /// The job had no thread yet, so there is nothing to interrupt.
    NotNeeded,
    /// No broker answers.
    NoBroker,
    /// The app-server accepted it.
    Accepted,
    /// The app-server refused it, or did not answer in time: the turn runs elsewhere, or is over.
    Refused {
        /// Why.
        why: String,
    },
}

/// Cancels a job: records that, interrupts its turn through the broker, if there is one, and ends the
/// worker. Starts no broker.
///
/// # Errors
/// [`JobError::NotAllowed`] if the job is over. Also if the store or the process table fails.
pub async fn cancel(
    store: &JobStore,
    env: &Env,
    broker: Option<&BrokerSearch>,
    id: &JobId,
    limits: CancelLimits,
) -> Result<Cancelled, JobError> {
    let plan = store.cancel(id).await?;
    point!("turn.runner.cancelled").await;
    finish(env, broker, &plan, limits).await
}

/// Does what is left after a job was cancelled.
pub(super) async fn finish(
    env: &Env,
    broker: Option<&BrokerSearch>,
    plan: &CancelPlan,
    limits: CancelLimits,
) -> Result<Cancelled, JobError> {
    // The bug: the worker is killed at once, and nothing interrupts its turn.
    let grace = if defect!(KillsWithoutAnInterrupt) { Default::default() } else { limits.grace };
    let interrupted = match &plan.interrupt {
        Some(turn) if !defect!(KillsWithoutAnInterrupt) => {
            interrupt(env, broker, turn, limits).await
        }
        _ => Interrupted::NotNeeded,
    };
    // The bug: without a broker, the worker is left to itself.
    let worker = if interrupted == Interrupted::NoBroker && defect!(CancelsNeedABroker) {
        Stopped::Already
    } else {
        let stopped = plan.stop_worker(&*env.processes, grace).await;
        stopped.map_err(JobError::Processes)?
    };
    milestone!("turn.runner.stopped", job = plan.id.as_str());
    Ok(Cancelled { interrupted, worker })
}

async fn interrupt(
    env: &Env,
    broker: Option<&BrokerSearch>,
    turn: &Interrupt,
    limits: CancelLimits,
) -> Interrupted {
    let Some(broker) = broker else { return Interrupted::NoBroker };
    let asked = async {
        let Some(mut upstream) = broker.connect(env).await else { return Interrupted::NoBroker };
        // The app-server takes the empty id for the turn that runs on the thread.
        let params = TurnInterruptParams {
            thread_id: turn.thread.clone(),
            turn_id: turn.turn.clone().unwrap_or_default(),
        };
        let params = serde_json::value::to_raw_value(&params).ok();
        let answer = upstream.call(method::TURN_INTERRUPT, params).await;
        upstream.finish().await;
        match answer {
            Ok(_) => Interrupted::Accepted,
            Err(failure) => Interrupted::Refused { why: failure.to_string() },
        }
    };
    let late = || Interrupted::Refused { why: "no answer in time".to_owned() };
    timeout(limits.interrupt, asked).await.unwrap_or_else(|_| late())
}
