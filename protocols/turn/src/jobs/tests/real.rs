//! Real files and real processes.

use std::collections::BTreeSet;
use std::path::Path;

use reknit_seams::process::{Detached, KILL, Reach};

use super::*;

const DIRECTORY: &str = "REKNIT_JOBS_DIRECTORY";
const JOB: &str = "REKNIT_JOBS_JOB";

async fn store(directory: &Path) -> JobStore {
    let limits = JobLimits { kept: 1000, lock: Duration::from_secs(60), ..JobLimits::default() };
    JobStore::open(&Env::real(), directory, limits).await.unwrap()
}

/// A program that runs one test of this file, as a separate process.
fn this_test(name: &str, directory: &Path, job: &JobId, log: &Path) -> Detached {
    let program = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
    let test = format!("jobs::tests::real::{name}");
    let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    Detached {
        argv: vec![program, test, "--exact".into(), "--nocapture".into()],
        env: vec![variable(DIRECTORY, directory.to_str().unwrap()), variable(JOB, job.as_str())],
        cwd: None,
        log: log.to_owned(),
    }
}

/// Runs `work` if this process was started by [`this_test`]; returns whether it was.
async fn as_worker<F: Future<Output = ()>>(work: impl FnOnce(JobStore, JobId) -> F) -> bool {
    let (Ok(directory), Ok(job)) = (std::env::var(DIRECTORY), std::env::var(JOB)) else {
        return false;
    };
    work(store(directory.as_ref()).await, JobId::new(&job).unwrap()).await;
    true
}

async fn until(store: &JobStore, id: &JobId, is: fn(&Job) -> bool) -> Job {
    let reached = async {
        loop {
            let job = store.read(id).await.unwrap();
            if is(&job) {
                return job;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), reached).await.expect("it comes to this state")
}

/// Eight processes try to claim the same jobs. Each job has one worker, and no update is lost.
#[tokio::test]
async fn many_processes_share_a_store_and_lose_nothing() {
    const JOBS: usize = 12;
    let works = as_worker(|store, _| async move {
        let jobs = store.list(None).await.unwrap().jobs;
        for job in jobs.iter().filter(|job| job.title == "shared") {
            let Ok(claim) = store.claim(&job.id).await else { continue };
            store.update(&claim, turn("t1", Some("turn1"))).await.unwrap();
            store.create(task("made by a worker")).await.unwrap();
            let pid = std::process::id().to_string();
            store.finish(&claim, Ending::Completed, Some(&pid)).await.unwrap();
        }
    });
    if works.await {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("jobs");
    let store = store(&directory).await;
    let mut ids = BTreeSet::new();
    for _ in 0..JOBS {
        ids.insert(store.create(task("shared")).await.unwrap().id);
    }
    let processes = &store.env.processes;
    let mut workers = Vec::new();
    for nth in 0..8 {
        let log = folder.path().join(format!("log{nth}"));
        let name = "many_processes_share_a_store_and_lose_nothing";
        let program = this_test(name, &directory, ids.first().unwrap(), &log);
        workers.push((processes.launch_detached(&program).await.unwrap(), log));
    }
    for (worker, log) in workers {
        while processes.is_alive(&worker).unwrap() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let log = std::fs::read_to_string(log).unwrap();
        assert!(log.contains("1 passed"), "{log}");
    }
    let listing = store.list(None).await.unwrap();
    assert_eq!((listing.jobs.len(), listing.broken), (2 * JOBS, vec![]));
    for job in listing.jobs.iter().filter(|job| job.title == "shared") {
        assert_eq!(
            (&job.state, job.turn.as_deref()),
            (&State::Completed, Some("turn1")),
            "{job:?}"
        );
        assert!(job.report.is_some() && ids.contains(&job.id));
    }
}

#[tokio::test]
async fn a_killed_worker_has_failed_and_a_cancelled_one_ends() {
    let name = "a_killed_worker_has_failed_and_a_cancelled_one_ends";
    let works = as_worker(|store, id| async move {
        let claim = store.claim(&id).await.unwrap();
        store.update(&claim, turn("t1", Some("turn1"))).await.unwrap();
        std::future::pending().await
    });
    if works.await {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path()).await;
    let program = |id: &JobId| this_test(name, folder.path(), id, &store.output_path(id));
    let has_turn = |job: &Job| job.turn.is_some();

    let killed = store.launch(task(""), program).await.unwrap().id;
    let job = until(&store, &killed, has_turn).await;
    let State::Running { worker } = &job.state else { panic!("{job:?}") };
    store.env.processes.signal(worker, KILL, Reach::Process).unwrap();
    let job = until(&store, &killed, |job| !job.is_active()).await;
    assert_eq!(job.state, State::Failed { message: "the worker of the job died".into() });

    let cancelled = store.launch(task(""), program).await.unwrap().id;
    until(&store, &cancelled, has_turn).await;
    let plan = store.cancel(&cancelled).await.unwrap();
    assert_eq!(plan.interrupt.as_ref().unwrap().turn.as_deref(), Some("turn1"));
    let grace = Duration::from_secs(60);
    assert_eq!(plan.stop_worker(&*store.env.processes, grace).await.unwrap(), Stopped::Asked);
    assert_eq!(store.read(&cancelled).await.unwrap().state, State::Cancelled);
}
