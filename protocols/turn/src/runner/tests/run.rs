//! The process that runs a job.

use super::*;
use crate::capture::Verdict;
use crate::jobs::JobError;

fn final_answer() -> Message {
    item("item/completed", "m", "agentMessage", json!({ "text": "yes", "phase": "final_answer" }))
}

#[tokio::test(start_paused = true)]
async fn a_job_records_its_turn_while_it_runs_and_its_report_at_the_end() {
    let machine = Machine::default();
    let (server, mut seen) = machine.serve().await;
    let id = machine.job(None).await;
    let runner = machine.runner().await;
    let watch = async {
        until(&mut seen, "turn/start").await;
        tokio::time::sleep(S).await;
        let job = machine.read(&id).await;
        assert_eq!((job.state.name(), job.thread.as_deref()), (StateName::Running, Some("t")));
        assert_eq!((job.turn.as_deref(), job.phase.as_deref()), (Some("u"), Some("investigating")));
        for message in [final_answer(), completed("completed")] {
            server.send(message).unwrap();
        }
    };
    let (run, ()) = tokio::join!(runner.work(&id, pending()), watch);
    let run = run.unwrap();
    assert_eq!(run.exit_status(), 0);
    let job = machine.read(&id).await;
    assert_eq!(run.recorded.unwrap(), job);
    assert_eq!((&job.state, job.report.as_deref()), (&State::Completed, Some("yes\n")));
    assert_eq!((job.thread.as_deref(), job.turn.as_deref()), (Some("t"), Some("u")));
    let log = machine.process().await.0.log(&id).tail(100).await.unwrap();
    for line in ["thread t", "turn u", "done: agentMessage"] {
        assert!(log.iter().any(|known| known == line), "{log:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_turn_and_a_server_that_is_not_there_fail_the_job() {
    let machine = Machine::default();
    let (server, mut seen) = machine.serve().await;
    let id = machine.job(None).await;
    let runner = machine.runner().await;
    let end = async {
        until(&mut seen, "turn/start").await;
        server.send(completed("failed")).unwrap();
    };
    let (run, ()) = tokio::join!(runner.work(&id, pending()), end);
    assert_eq!(run.unwrap().exit_status(), 1);
    let State::Failed { message } = machine.read(&id).await.state else { panic!("it failed") };
    assert!(message.starts_with("Failed: the turn failed"), "{message}");

    machine.net.refuse(true);
    let id = machine.job(None).await;
    let run = machine.runner().await.work(&id, pending()).await.unwrap();
    assert_eq!(run.exit_status(), 1);
    let State::Failed { message } = machine.read(&id).await.state else { panic!("it failed") };
    assert!(message.starts_with("cannot connect to the broker"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn the_wish_of_the_user_cancels_the_job() {
    let machine = Machine::default();
    let (_server, mut seen) = machine.serve().await;
    let id = machine.job(None).await;
    let runner = machine.runner().await;
    let wish = until(&mut seen, "turn/start");
    let run = runner.work(&id, wish).await.unwrap();
    assert!(matches!(run.result.as_ref().unwrap().verdict, Verdict::Interrupted(_)));
    assert_eq!(run.exit_status(), 130);
    assert_eq!(machine.read(&id).await.state, State::Cancelled);
}

/// Returns whether a worker interrupts its turn after another process has recorded a cancel, and what
/// the record says at the end.
async fn cancelled_by_another() -> (bool, State) {
    let machine = Machine::default();
    let (server, mut seen) = machine.serve().await;
    let id = machine.job(None).await;
    let runner = machine.runner().await;
    let other = async {
        until(&mut seen, "turn/start").await;
        tokio::time::sleep(S).await;
        machine.process().await.0.cancel(&id).await.unwrap();
        server.send(item("item/started", "c", "fileChange", json!({ "changes": [] }))).unwrap();
        let interrupted = until(&mut seen, "turn/interrupt");
        let interrupted = tokio::time::timeout(S, interrupted).await.is_ok();
        server.send(completed("completed")).unwrap();
        interrupted
    };
    let (run, interrupted) = tokio::join!(runner.work(&id, pending()), other);
    assert!(matches!(run.unwrap().recorded, Err(JobError::NotItsWorker { .. })));
    (interrupted, machine.read(&id).await.state)
}

#[tokio::test(start_paused = true)]
async fn a_worker_whose_job_is_cancelled_interrupts_its_turn() {
    assert_eq!(cancelled_by_another().await, (true, State::Cancelled));
    let _on = defect_on("WorksOnACancelledJob");
    assert_eq!(cancelled_by_another().await, (false, State::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_job_and_a_job_without_an_order_run_no_turn() {
    let machine = Machine::default();
    let (_server, mut seen) = machine.serve().await;
    let id = machine.job(None).await;
    machine.process().await.0.cancel(&id).await.unwrap();
    let refused = machine.runner().await.work(&id, pending()).await.unwrap_err();
    assert!(matches!(refused, JobError::NotAllowed { from: StateName::Cancelled, .. }));

    let new = NewJob { order: None, ..NewJob::of(order(), None) };
    let id = machine.process().await.0.create(new).await.unwrap().id;
    let refused = machine.runner().await.work(&id, pending()).await.unwrap_err();
    assert_eq!(refused.to_string(), format!("the record of job {id} contains no order"));
    assert_eq!(machine.read(&id).await.state.name(), StateName::Failed);
    assert!(seen.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn an_order_that_is_too_long_creates_no_job() {
    let machine = Machine::default();
    let mut long = order();
    let thread = TaskThread::New { prompt: "x".repeat(JobLimits::default().order_bytes) };
    long.command = Command::Task { thread, write: false };
    let refused = machine.process().await.0.create(NewJob::of(long, None)).await.unwrap_err();
    assert!(refused.to_string().starts_with("the order has more than 1048576 bytes"));
    assert!(machine.process().await.0.list(None).await.unwrap().jobs.is_empty());
}

/// A flood of news leaves lines out, and says how many. The values of the record are the last ones.
#[tokio::test(start_paused = true)]
async fn a_flood_of_news_costs_limited_memory() {
    let machine = Machine::default();
    let (server, mut seen) = machine.serve().await;
    let id = machine.job(None).await;
    let runner = machine.runner().await;
    let flood = async {
        until(&mut seen, "turn/start").await;
        for nth in 0..3000 {
            server
                .send(item(
                    "item/completed",
                    &nth.to_string(),
                    "fileChange",
                    json!({ "changes": [] }),
                ))
                .unwrap();
        }
        server.send(completed("completed")).unwrap();
    };
    let (run, ()) = tokio::join!(runner.work(&id, pending()), flood);
    assert_eq!(run.unwrap().exit_status(), 0);
    let log = machine.process().await.0.log(&id).tail(10_000).await.unwrap();
    let left_out: usize = log
        .iter()
        .filter_map(|line| {
            line.strip_prefix('(')?.split_once(" lines are left out")?.0.parse().ok()
        })
        .map(|count: usize| count)
        .sum();
    let kept = log.iter().filter(|line| *line == "done: fileChange").count();
    assert!(kept <= 3000 && kept + left_out >= 3000, "{kept} and {left_out}");
}

#[tokio::test(start_paused = true)]
async fn news_that_come_faster_than_the_log_takes_them_are_left_out_and_counted() {
    let machine = Machine::default();
    let id = machine.job(None).await;
    let (store, _) = machine.process().await;
    let claim = store.claim(&id).await.unwrap();
    let recorder = crate::runner::news::Recorder::default();
    for n in 0..1027 {
        recorder.take(&crate::client::News::Thread(format!("t{n}")));
    }
    recorder.close();
    recorder.record(&store, &claim, || panic!("it is the worker")).await;
    let log = store.log(&id).tail(2000).await.unwrap();
    assert_eq!(log.len(), 1025);
    assert_eq!(log[1023..], ["thread t1023", "(3 lines are left out)"]);
    assert_eq!(machine.read(&id).await.thread.as_deref(), Some("t1026"), "the record has the last");
}
