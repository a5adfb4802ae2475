//! Pruning.

use super::*;

async fn over(machine: &TestMachine, store: &JobStore) -> JobId {
    machine.pass(1);
    let id = store.create(task("")).await.unwrap().id;
    let claim = store.claim(&id).await.unwrap();
    store.log(&id).append("a line").await.unwrap();
    machine.put(&format!("{id}.out"), "out").await;
    store.finish(&claim, Ending::Completed, None).await.unwrap();
    id
}

#[test]
fn the_oldest_jobs_that_are_over_go_with_all_their_files() {
    run(async {
        let machine = TestMachine::new();
        let store = machine.store_with(JobLimits { kept: 2, ..JobLimits::default() }).await;
        let mut ids = Vec::new();
        for _ in 0..4 {
            ids.push(over(&machine, &store).await);
        }
        // Creating the fourth job pruned the first one.
        assert_eq!(store.prune().await.unwrap().jobs, [ids[1].clone()]);
        let names = machine.names().await;
        let expected =
            ids[2..].iter().flat_map(|id| ["json", "log", "out"].map(|end| format!("{id}.{end}")));
        assert_eq!(names, expected.collect::<Vec<_>>());
    });
}

#[test]
fn an_active_job_is_never_pruned_however_old_it_is() {
    run(async {
        let machine = TestMachine::new();
        let store = machine.store_with(JobLimits { kept: 0, ..JobLimits::default() }).await;
        let queued = store.create(task("")).await.unwrap().id;
        let running = store.create(task("")).await.unwrap().id;
        store.claim(&running).await.unwrap();
        store.log(&running).append("a line").await.unwrap();
        for _ in 0..60 {
            over(&machine, &store).await;
        }
        store.prune().await.unwrap();
        let ids: Vec<JobId> =
            store.list(None).await.unwrap().jobs.into_iter().map(|job| job.id).collect();
        assert_eq!(ids, [running.clone(), queued]);
        assert_eq!(store.log(&running).tail(1).await.unwrap(), ["a line"]);
    });
}

#[test]
fn the_default_keeps_fifty() {
    run(async {
        let machine = TestMachine::new();
        let store = machine.store().await;
        for _ in 0..55 {
            over(&machine, &store).await;
        }
        store.prune().await.unwrap();
        assert_eq!(store.list(None).await.unwrap().jobs.len(), 50);
    });
}

#[test]
fn leftovers_of_a_crash_go() {
    run(async {
        let machine = TestMachine::new();
        let store = machine.store().await;
        let id = store.create(task("")).await.unwrap().id;
        for name in [
            format!("{id}.new"),
            "task-gone.new".into(),
            "task-gone.log".into(),
            "task-gone.out".into(),
        ] {
            machine.put(&name, "x").await;
        }
        assert_eq!(store.prune().await.unwrap(), Pruned { jobs: vec![], leftovers: 4 });
        assert_eq!(machine.names().await, [format!("{id}.json")]);
    });
}
