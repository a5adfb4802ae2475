//! Tests of the views that readers get.

use super::*;

async fn running(machine: &TestMachine) -> (JobStore, Identity, JobId) {
    let (store, worker) = machine.process().await;
    let id = machine.store().await.create(task("")).await.unwrap().id;
    store.claim(&id).await.unwrap();
    (store, worker, id)
}

#[test]
fn a_running_job_with_a_dead_worker_has_failed_for_every_reader() {
    run(async {
        let machine = TestMachine::new();
        let (_, worker, id) = running(&machine).await;
        machine.processes.end(&worker);
        let reader = machine.store().await;
        let dead = State::Failed { message: "the worker of the job died".into() };
        assert_eq!(reader.list(None).await.unwrap().jobs[0].state, dead);
        assert!(machine.get(&format!("{id}.json")).await.contains("failed"));
        assert_eq!(reader.find(id.as_str()).await.unwrap().state, dead);
        let error = reader.cancel(&id).await.unwrap_err();
        assert!(matches!(error, JobError::NotAllowed { from: StateName::Failed, .. }), "{error}");
    });
}

#[test]
fn a_process_with_the_id_of_a_dead_worker_does_not_bring_the_job_back() {
    run(async {
        let machine = TestMachine::new();
        let (_, worker, id) = running(&machine).await;
        machine.processes.start_with_id(worker.pid);
        let state = machine.store().await.read(&id).await.unwrap().state;
        assert_eq!(state.name(), StateName::Failed);
    });
}

#[test]
fn a_queued_job_depends_on_its_launcher_and_then_on_its_worker() {
    run(async {
        let machine = TestMachine::new();
        let (launcher, launching) = machine.process().await;
        let [lost, started] = [launcher.create(task("")).await, launcher.create(task("")).await];
        let (lost, started) = (lost.unwrap().id, started.unwrap().id);
        let (store, worker) = machine.process().await;
        launcher.assign(&started, &worker).await.unwrap();
        machine.processes.end(&launching);
        assert_eq!(store.read(&lost).await.unwrap().state.name(), StateName::Failed);
        assert_eq!(store.read(&started).await.unwrap().state.name(), StateName::Queued);
        store.claim(&lost).await.unwrap_err();
        store.claim(&started).await.unwrap();
    });
}

/// The launcher may be slower than the worker.
#[test]
fn an_assignment_that_comes_late_changes_nothing() {
    run(async {
        let machine = TestMachine::new();
        let launcher = machine.store().await;
        let (store, worker) = machine.process().await;
        let id = launcher.create(task("")).await.unwrap().id;
        let claim = store.claim(&id).await.unwrap();
        launcher.assign(&id, &worker).await.unwrap();
        assert_eq!(
            launcher.read(&id).await.unwrap().state,
            State::Running { worker: worker.clone() }
        );
        store.finish(&claim, Ending::Completed, None).await.unwrap();
        launcher.assign(&id, &worker).await.unwrap();
        assert_eq!(launcher.read(&id).await.unwrap().state, State::Completed);
    });
}

#[test]
fn a_reader_that_cannot_record_the_death_still_reports_it() {
    run(async {
        let machine = TestMachine::new();
        let (_, worker, id) = running(&machine).await;
        machine.processes.end(&worker);
        let reader = machine.store().await;
        let _held = reader.folder.lock().await.unwrap();
        assert_eq!(reader.read(&id).await.unwrap().state.name(), StateName::Failed);
        assert!(machine.get(&format!("{id}.json")).await.contains("running"));
    });
}

#[test]
fn a_list_has_the_newest_first_and_can_be_limited_to_a_session() {
    run(async {
        let machine = TestMachine::new();
        let store = machine.store().await;
        let first = store.create(task("")).await.unwrap().id;
        machine.pass(1);
        let other = NewJob { session: Some("s2".into()), kind: JobKind::Review, ..task("") };
        let second = store.create(other).await.unwrap().id;
        let ids = |listing: Listing| listing.jobs.into_iter().map(|job| job.id).collect::<Vec<_>>();
        assert_eq!(ids(store.list(None).await.unwrap()), [second.clone(), first.clone()]);
        assert_eq!(ids(store.list(Some("s1")).await.unwrap()), [first]);
        assert_eq!(ids(store.list(Some("s3")).await.unwrap()), []);
        assert!(second.as_str().starts_with("review-"));
    });
}

#[test]
fn a_job_is_found_by_its_id_or_a_unique_beginning_in_any_session_and_state() {
    run(async {
        let machine = TestMachine::new();
        let store = machine.store().await;
        let id = store.create(task("")).await.unwrap().id;
        assert_eq!(store.find("task-").await.unwrap().id, id);
        assert!(store.find(id.as_str()).await.unwrap().is_active());
        let longer = format!("{id}0");
        let record = machine.get(&format!("{id}.json")).await.replace(id.as_str(), &longer);
        machine.put(&format!("{longer}.json"), &record).await;
        assert_eq!(store.find(id.as_str()).await.unwrap().id, id);
        let error = store.find("task-").await.unwrap_err();
        assert_eq!(error.to_string(), format!("'task-' is not unique: {id}, {longer}"));
        for reference in ["", "review", "../x"] {
            let error = store.find(reference).await.unwrap_err();
            assert!(matches!(error, JobError::Missing(_)), "{reference}: {error}");
        }
    });
}
