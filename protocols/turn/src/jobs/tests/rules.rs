//! The life of a job.

use super::*;

#[test]
fn a_job_is_queued_then_running_then_completed() {
    run(async {
        let machine = TestMachine::new();
        let (launcher, starter) = machine.process().await;
        let job = launcher.create(task("fix it")).await.unwrap();
        assert_eq!(job.state, State::Queued { starter });
        assert_eq!((job.created, job.started, job.ended), (1_000_000, None, None));

        let (store, worker) = machine.process().await;
        machine.pass(1);
        let claim = store.claim(&job.id).await.unwrap();
        let running = launcher.read(&job.id).await.unwrap();
        assert_eq!(running.state, State::Running { worker });
        assert_eq!((running.started, running.state.exit_status()), (Some(1_001_000), None));

        let update = Update { phase: Some("editing".into()), ..turn("t1", Some("turn1")) };
        store.update(&claim, update).await.unwrap();
        let running = launcher.read(&job.id).await.unwrap();
        assert_eq!(running.phase.as_deref(), Some("editing"));

        machine.pass(1);
        store.finish(&claim, Ending::Completed, Some("done")).await.unwrap();
        let over = launcher.read(&job.id).await.unwrap();
        assert_eq!((&over.state, over.state.exit_status()), (&State::Completed, Some(0)));
        assert_eq!((over.phase, over.ended), (None, Some(1_002_000)));
        assert_eq!((over.thread.as_deref(), over.turn.as_deref()), (Some("t1"), Some("turn1")));
        assert_eq!(over.report.as_deref(), Some("done"));
    });
}

#[test]
fn an_update_leaves_what_it_does_not_name() {
    run(async {
        let store = TestMachine::new().store().await;
        let id = store.create(task("")).await.unwrap().id;
        let claim = store.claim(&id).await.unwrap();
        store.update(&claim, turn("t1", Some("turn1"))).await.unwrap();
        let phase = Update { phase: Some("running".into()), ..Update::default() };
        let job = store.update(&claim, phase).await.unwrap();
        assert_eq!(job.turn.as_deref(), Some("turn1"));
    });
}

#[test]
fn no_state_follows_a_terminal_one() {
    let all = [
        StateName::Queued,
        StateName::Running,
        StateName::Completed,
        StateName::Failed,
        StateName::Cancelled,
    ];
    let terminal: Vec<_> = all.into_iter().filter(|state| state.is_terminal()).collect();
    assert_eq!(terminal, [StateName::Completed, StateName::Failed, StateName::Cancelled]);
    assert!(!all.iter().any(|state| state.successors().contains(&StateName::Queued)));
}

#[test]
fn only_one_worker_can_claim_a_job() {
    run(async {
        let machine = TestMachine::new();
        let (first, second) = (machine.store().await, machine.store().await);
        let id = first.create(task("")).await.unwrap().id;
        let claim = first.claim(&id).await.unwrap();
        let error = second.claim(&id).await.unwrap_err();
        assert!(matches!(error, JobError::NotAllowed { from: StateName::Running, .. }), "{error}");
        first.finish(&claim, failed("why"), None).await.unwrap();
        assert_eq!(second.read(&id).await.unwrap().state, State::Failed { message: "why".into() });
    });
}

#[test]
fn a_cancelled_queued_job_cannot_be_claimed_and_nothing_is_to_stop() {
    run(async {
        let machine = TestMachine::new();
        let (store, worker) = (machine.store().await, machine.store().await);
        let id = store.create(task("")).await.unwrap().id;
        let plan = store.cancel(&id).await.unwrap();
        assert_eq!((plan.interrupt, plan.worker), (None, None));
        let error = worker.claim(&id).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("job {id} is cancelled, so it cannot become running")
        );
        assert_eq!(store.read(&id).await.unwrap().state, State::Cancelled);
    });
}

#[test]
fn a_cancelled_running_job_takes_no_news_and_no_end() {
    run(async {
        let machine = TestMachine::new();
        let (user, (store, worker)) = (machine.store().await, machine.process().await);
        let id = user.create(task("")).await.unwrap().id;
        let claim = store.claim(&id).await.unwrap();
        store.update(&claim, turn("t1", Some("turn1"))).await.unwrap();
        let plan = user.cancel(&id).await.unwrap();
        assert_eq!(plan.worker, Some(worker));
        let interrupt = plan.interrupt.unwrap();
        assert_eq!((interrupt.thread.as_str(), interrupt.turn.as_deref()), ("t1", Some("turn1")));
        let cancelled = user.read(&id).await.unwrap();
        let late = store.update(&claim, turn("t2", None)).await.unwrap_err();
        assert!(matches!(late, JobError::NotItsWorker { state: StateName::Cancelled, .. }));
        store.finish(&claim, Ending::Completed, Some("late")).await.unwrap_err();
        assert_eq!(user.read(&id).await.unwrap(), cancelled);
        assert_eq!(cancelled.state.exit_status(), Some(130));
    });
}

#[test]
fn a_job_that_is_over_cannot_be_cancelled() {
    run(async {
        let store = TestMachine::new().store().await;
        let id = store.create(task("")).await.unwrap().id;
        let claim = store.claim(&id).await.unwrap();
        store.finish(&claim, Ending::Completed, None).await.unwrap();
        let error = store.cancel(&id).await.unwrap_err();
        assert!(matches!(error, JobError::NotAllowed { from: StateName::Completed, .. }));
        assert_eq!(store.read(&id).await.unwrap().state, State::Completed);
    });
}

/// The turn has no id between `turn/start` and `turn/started`. The plan names the thread then.
#[test]
fn a_turn_without_an_id_is_interrupted_by_its_thread() {
    run(async {
        let store = TestMachine::new().store().await;
        let id = store.create(task("")).await.unwrap().id;
        let claim = store.claim(&id).await.unwrap();
        store.update(&claim, turn("t1", None)).await.unwrap();
        let interrupt = store.cancel(&id).await.unwrap().interrupt.unwrap();
        assert_eq!((interrupt.thread.as_str(), interrupt.turn), ("t1", None));
    });
}

#[test]
fn a_worker_is_asked_to_end_and_then_killed() {
    run(async {
        let machine = TestMachine::new();
        let (store, worker) = machine.process().await;
        let id = store.create(task("")).await.unwrap().id;
        store.claim(&id).await.unwrap();
        let plan = store.cancel(&id).await.unwrap();
        let grace = Duration::from_secs(5);
        let stopped = plan.stop_worker(&machine.processes, grace).await.unwrap();
        assert_eq!(stopped, Stopped::Killed);
        assert!(!machine.processes.is_alive(&worker).unwrap());
        let sent: Vec<i32> = machine.processes.signals().iter().map(|sent| sent.1).collect();
        assert_eq!(sent, [15, 9]);
        let stopped = plan.stop_worker(&machine.processes, grace).await.unwrap();
        assert_eq!(stopped, Stopped::Already);
    });
}

#[test]
fn a_stranger_with_the_id_of_a_dead_worker_gets_no_signal() {
    run(async {
        let machine = TestMachine::new();
        let (store, worker) = machine.process().await;
        let id = store.create(task("")).await.unwrap().id;
        store.claim(&id).await.unwrap();
        let plan = store.cancel(&id).await.unwrap();
        let stranger = machine.processes.start_with_id(worker.pid);
        let stopped = plan.stop_worker(&machine.processes, Duration::ZERO).await.unwrap();
        assert_eq!(stopped, Stopped::Already);
        assert!(machine.processes.is_alive(&stranger).unwrap());
        assert_eq!(machine.processes.signals(), []);
    });
}

#[test]
fn a_launched_worker_is_recorded_before_and_after_its_start() {
    run(async {
        let machine = TestMachine::new();
        let (store, _) = machine.process().await;
        let program = |id: &JobId| {
            let argv = vec!["worker".to_owned(), id.to_string()];
            reknit_seams::process::Detached {
                argv,
                log: store.output_path(id),
                ..Default::default()
            }
        };
        let job = store.launch(task(""), program).await.unwrap();
        let [(program, worker)] = &machine.processes.launches()[..] else { panic!("one launch") };
        assert_eq!(job.state, State::Queued { starter: worker.clone() });
        assert_eq!(program.argv[1], job.id.as_str());
        assert_eq!(program.log.to_str(), Some(format!("{DIRECTORY}/{}.out", job.id).as_str()));
    });
}

#[test]
fn a_job_whose_worker_cannot_be_started_fails() {
    run(async {
        let store = TestMachine::new().store().await;
        let error = store.launch(task(""), |_| Default::default()).await.unwrap_err();
        assert!(matches!(error, JobError::Processes(_)), "{error}");
        let job = &store.list(None).await.unwrap().jobs[0];
        assert_eq!(job.state.name(), StateName::Failed);
    });
}

#[test]
fn long_texts_are_cut() {
    run(async {
        let limits = JobLimits { title_bytes: 4, report_bytes: 3, ..JobLimits::default() };
        let store = TestMachine::new().store_with(limits).await;
        let id = store.create(task("äöü")).await.unwrap().id;
        let claim = store.claim(&id).await.unwrap();
        let job = store.finish(&claim, Ending::Completed, Some("äöü")).await.unwrap();
        assert_eq!((job.title.as_str(), job.report.as_deref()), ("äö…", Some("ä…")));
    });
}

#[test]
fn a_lock_that_stays_busy_is_an_error_and_a_released_one_is_not() {
    run(async {
        let machine = TestMachine::new();
        let store = machine.store().await;
        let held = store.folder.lock().await.unwrap();
        let error = store.create(task("")).await.unwrap_err();
        assert!(matches!(error, JobError::Locked(_)), "{error}");
        let (created, ()) = tokio::join!(store.create(task("")), async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            drop(held);
        });
        created.unwrap();
    });
}
