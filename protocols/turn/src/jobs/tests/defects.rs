//! Each seeded bug breaks its rule, and the rule holds without it.

use std::sync::Mutex;

use reknit_seams::net::BoxFuture;
use reknit_seams::process::{Detached, Reach};

use super::*;
use crate::testing::with_defect;

/// Checks that a rule holds, and that the seeded bug breaks it.
fn breaks<F: Future<Output = bool>>(defect: &'static str, holds: fn() -> F) {
    assert!(run(holds()), "{defect} is off");
    assert!(!with_defect(defect, || run(holds())), "{defect} is on");
}

async fn claimed() -> (TestMachine, JobStore, Identity, Claim) {
    let machine = TestMachine::new();
    let (store, worker) = machine.process().await;
    let id = store.create(task("")).await.unwrap().id;
    let claim = store.claim(&id).await.unwrap();
    (machine, store, worker, claim)
}

#[test]
fn wipes_broken_records() {
    breaks("WipesBrokenRecords", || async {
        let machine = TestMachine::new();
        let store = machine.store_with(JobLimits { kept: 0, ..JobLimits::default() }).await;
        machine.put("task-a.json", "{").await;
        store.prune().await.unwrap();
        machine.names().await == ["task-a.json"]
    });
}

#[test]
fn believes_the_dead() {
    breaks("BelievesTheDead", || async {
        let (machine, _, worker, claim) = claimed().await;
        machine.processes.end(&worker);
        !machine.store().await.read(claim.id()).await.unwrap().is_active()
    });
}

#[test]
fn reader_looks_once() {
    breaks("ReaderLooksOnce", || async {
        let machine = TestMachine::new();
        let (launcher, launching) = machine.process().await;
        let id = launcher.create(task("")).await.unwrap().id;
        machine.processes.end(&launching);
        let reader = machine.store().await;
        let (worker, _) = machine.process().await;
        let read = reader.folder.read(&id).await.unwrap();
        worker.claim(&id).await.unwrap();
        reader.reconcile(read).await.unwrap().is_active()
    });
}

#[test]
fn interrupts_only_known_turns() {
    breaks("InterruptsOnlyKnownTurns", || async {
        let (_, store, _, claim) = claimed().await;
        store.update(&claim, turn("t1", None)).await.unwrap();
        store.cancel(claim.id()).await.unwrap().interrupt.is_some()
    });
}

#[test]
fn updates_after_the_end() {
    breaks("UpdatesAfterTheEnd", || async {
        let (_, store, _, claim) = claimed().await;
        store.cancel(claim.id()).await.unwrap();
        let update = Update { phase: Some("running".into()), ..Update::default() };
        let _ = store.update(&claim, update).await;
        store.read(claim.id()).await.unwrap().phase.is_none()
    });
}

#[test]
fn claims_cancelled_jobs() {
    breaks("ClaimsCancelledJobs", || async {
        let store = TestMachine::new().store().await;
        let id = store.create(task("")).await.unwrap().id;
        store.cancel(&id).await.unwrap();
        store.claim(&id).await.is_err()
    });
}

#[test]
fn overwrites_the_end() {
    breaks("OverwritesTheEnd", || async {
        let (_, store, _, claim) = claimed().await;
        store.cancel(claim.id()).await.unwrap();
        let _ = store.finish(&claim, Ending::Completed, None).await;
        store.read(claim.id()).await.unwrap().state == State::Cancelled
    });
}

#[test]
fn signals_any_process_with_the_id() {
    breaks("SignalsAnyProcessWithTheId", || async {
        let (machine, store, worker, claim) = claimed().await;
        let plan = store.cancel(claim.id()).await.unwrap();
        machine.processes.start_with_id(worker.pid);
        plan.stop_worker(&machine.processes, Duration::ZERO).await.unwrap();
        machine.processes.signals().is_empty()
    });
}

#[test]
fn stubborn_workers_are_spared() {
    breaks("StubbornWorkersAreSpared", || async {
        let (machine, store, worker, claim) = claimed().await;
        let plan = store.cancel(claim.id()).await.unwrap();
        plan.stop_worker(&machine.processes, Duration::ZERO).await.unwrap();
        !machine.processes.is_alive(&worker).unwrap()
    });
}

#[test]
fn finds_only_finished_jobs() {
    breaks("FindsOnlyFinishedJobs", || async {
        let (_, store, _, claim) = claimed().await;
        store.find(claim.id().as_str()).await.is_ok()
    });
}

#[test]
fn prunes_active_jobs() {
    breaks("PrunesActiveJobs", || async {
        let (machine, _, _, claim) = claimed().await;
        let store = machine.store_with(JobLimits { kept: 0, ..JobLimits::default() }).await;
        store.prune().await.unwrap();
        store.read(claim.id()).await.is_ok()
    });
}

/// A process table whose launched worker claims its job before the launch returns.
struct FastWorker {
    table: Scripted,
    machine: TestMachine,
    claims: Arc<Mutex<Vec<bool>>>,
}

impl ProcessTable for FastWorker {
    fn own(&self) -> std::io::Result<Identity> {
        self.table.own()
    }

    fn is_alive(&self, process: &Identity) -> std::io::Result<bool> {
        self.table.is_alive(process)
    }

    fn signal(&self, process: &Identity, number: i32, reach: Reach) -> std::io::Result<()> {
        self.table.signal(process, number, reach)
    }

    fn launch_detached<'a>(
        &'a self,
        program: &'a Detached,
    ) -> BoxFuture<'a, std::io::Result<Identity>> {
        Box::pin(async {
            let worker = self.table.launch_detached(program).await?;
            let store =
                self.machine.store_in(self.machine.env(&worker), JobLimits::default()).await;
            let claim = store.claim(&JobId::new(&program.argv[0]).unwrap()).await;
            self.claims.lock().unwrap().push(claim.is_ok());
            Ok(worker)
        })
    }
}

#[test]
fn records_after_the_start() {
    breaks("RecordsAfterTheStart", || async {
        let (machine, claims) = (TestMachine::new(), Arc::default());
        let launcher = machine.processes.start();
        let table = FastWorker {
            table: machine.processes.as_seen_by(&launcher),
            machine: machine.clone(),
            claims: Arc::clone(&claims),
        };
        let env = Env { processes: Arc::new(table), ..machine.env(&launcher) };
        let store = machine.store_in(env, JobLimits::default()).await;
        let program = |id: &JobId| Detached { argv: vec![id.to_string()], ..Detached::default() };
        let job = store.launch(task(""), program).await.unwrap();
        let claimed = *claims.lock().unwrap() == [true];
        claimed && job.state.name() == StateName::Running
    });
}

#[test]
fn jobs_without_a_session_belong_to_all() {
    breaks("JobsWithoutASessionBelongToAll", || async {
        let store = TestMachine::new().store().await;
        store.create(NewJob { session: None, ..task("") }).await.unwrap();
        store.list(Some("s1")).await.unwrap().jobs.is_empty()
    });
}

#[test]
fn log_keeps_no_room() {
    breaks("LogKeepsNoRoom", || async {
        let machine = TestMachine::new();
        let store = machine.store_with(JobLimits { log_bytes: 40, ..JobLimits::default() }).await;
        let id = JobId::new("task-a").unwrap();
        for _ in 0..9 {
            store.log(&id).append("0123456789").await.unwrap();
        }
        store.log(&id).tail(1).await.unwrap() == ["(the log is full)"]
    });
}
