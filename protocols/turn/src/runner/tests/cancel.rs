//! Cancels from another process, and the end of a session.

use reknit_seams::process::{KILL, TERMINATE};

use super::*;
use crate::broker::BrokerSearch;
use crate::jobs::{JobError, Stopped};
use crate::limits::{CancelLimits, ConnectionLimits, StartLimits};
use crate::wire::ClientInfo;

fn no_broker() -> BrokerSearch {
    BrokerSearch {
        directory: "/broker".into(),
        account: String::new(),
        program: Default::default(),
        client: ClientInfo { name: "t".into(), title: None, version: "1".into() },
        connection: ConnectionLimits::default(),
        limits: StartLimits::default(),
    }
}

async fn cancel_job(machine: &Machine, id: &JobId) -> Result<Cancelled, JobError> {
    let (store, process) = machine.process().await;
    let (env, limits) = (machine.env(&process), CancelLimits::default());
    cancel(&store, &env, Some(&no_broker()), id, limits).await
}

fn signals(machine: &Machine) -> Vec<i32> {
    machine.table.signals().iter().map(|(_, number, _)| *number).collect()
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_does_not_end_is_killed_after_the_grace() {
    let machine = Machine::default();
    let (id, _) = machine.running("s").await;
    let before = tokio::time::Instant::now();
    let cancelled = cancel_job(&machine, &id).await.unwrap();
    assert_eq!(cancelled.interrupted, Interrupted::NoBroker);
    assert_eq!(cancelled.worker, Stopped::Killed);
    assert_eq!(signals(&machine), [TERMINATE, KILL]);
    let (took, grace) = (before.elapsed(), CancelLimits::default().grace);
    assert!(took >= grace && took < grace + S, "{took:?}");
    assert_eq!(machine.table.launches().len(), 0, "it starts no broker");
    let again = cancel_job(&machine, &id).await.unwrap_err();
    assert!(matches!(again, JobError::NotAllowed { from: StateName::Cancelled, .. }));

    let _on = defect_on("KillsWithoutAnInterrupt");
    let (id, _) = machine.running("s").await;
    let before = tokio::time::Instant::now();
    let cancelled = cancel_job(&machine, &id).await.unwrap();
    assert_eq!(cancelled.interrupted, Interrupted::NotNeeded);
    assert!(before.elapsed() < S, "the worker has no time to interrupt its turn");
}

#[tokio::test(start_paused = true)]
async fn a_queued_job_has_nothing_to_interrupt_and_no_worker_to_end() {
    let machine = Machine::default();
    let id = machine.job(None).await;
    let cancelled = cancel_job(&machine, &id).await.unwrap();
    let nothing = Cancelled { interrupted: Interrupted::NotNeeded, worker: Stopped::Already };
    assert_eq!(cancelled, nothing);
    assert_eq!(machine.read(&id).await.state, State::Cancelled);
    assert!(signals(&machine).is_empty());
}

/// Ends the session `one` of two, each of which has a running job. Returns both states.
async fn end_one_of_two_sessions() -> [StateName; 2] {
    let machine = Machine::default();
    let (ours, theirs) = (machine.running("one").await.0, machine.running("two").await.0);
    let over = machine.running("one").await.0;
    cancel_job(&machine, &over).await.unwrap();
    let (store, process) = machine.process().await;
    let (env, limits) = (machine.env(&process), CancelLimits::default());
    let end = end_session(&store, &env, None, "one", limits).await.unwrap();
    assert!(
        end.failed.is_empty() && end.cancelled.contains(&ours) && !end.cancelled.contains(&over)
    );
    [machine.read(&ours).await.state.name(), machine.read(&theirs).await.state.name()]
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_session_leaves_the_jobs_of_others() {
    assert_eq!(end_one_of_two_sessions().await, [StateName::Cancelled, StateName::Running]);
    let _on = defect_on("EndsOtherSessions");
    assert_eq!(end_one_of_two_sessions().await, [StateName::Cancelled; 2]);
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_with_the_job_or_at_the_deadline() {
    let machine = Machine::default();
    let (id, worker) = machine.running("s").await;
    let (store, _) = machine.process().await;
    let before = tokio::time::Instant::now();
    assert!(wait(&store, &id, 7 * S).await.unwrap().is_active());
    assert_eq!(before.elapsed(), 7 * S);
    let dies = async {
        tokio::time::sleep(3 * S).await;
        machine.table.end(&worker);
    };
    let (job, ()) = tokio::join!(wait(&store, &id, 60 * S), dies);
    assert_eq!(job.unwrap().state.name(), StateName::Failed);
    assert!(before.elapsed() < 11 * S);
}
