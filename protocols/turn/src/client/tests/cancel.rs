//! A user who cancels the command.

use std::cell::Cell;

use tokio::sync::oneshot;

use super::*;

/// A wish that a test can let come.
fn wish() -> (oneshot::Sender<()>, impl Future<Output = ()>) {
    let (sender, receiver) = oneshot::channel();
    (sender, async { receiver.await.unwrap() })
}

async fn run_until(
    client: Client,
    cancel: impl Future<Output = ()>,
) -> Result<Report, ClientError> {
    client.run(task(), settings(), cancel, |_| {}).await
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_turn_is_interrupted_and_reported() {
    for (status, verdict, exit) in [
        ("interrupted", Verdict::Interrupted(Interruption::Cancelled), 130),
        ("completed", Verdict::Completed(Evidence::Reported), 0),
    ] {
        let mut net = Net::new().await;
        let client = net.client(to_broker());
        let (cancel, wish) = wish();
        let server = async {
            let mut peer = net.server().await;
            peer.start().await;
            cancel.send(()).unwrap();
            let params = peer.answer("turn/interrupt", json!({})).await;
            assert_eq!(params, json!({ "threadId": "t", "turnId": "u" }));
            peer.send(&[completed(status)]).await;
            peer.end().await;
        };
        let (report, ()) = tokio::join!(run_until(client, wish), server);
        let report = report.unwrap();
        assert_eq!((&report.verdict, report.exit_status()), (&verdict, exit));
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_before_the_answer_to_the_start_interrupts_the_turn() {
    let mut net = Net::new().await;
    let client = net.client(to_broker());
    let (cancel, wish) = wish();
    let server = async {
        let mut peer = net.server().await;
        peer.thread().await;
        let (id, _) = peer.expect("turn/start").await;
        cancel.send(()).unwrap();
        tokio::time::sleep(S).await;
        peer.send(&[json!({ "id": id, "result": { "turn": { "id": "u" } } })]).await;
        assert_eq!(peer.answer("turn/interrupt", json!({})).await["turnId"], "u");
        peer.send(&[completed("interrupted")]).await;
    };
    let (report, ()) = tokio::join!(run_until(client, wish), server);
    assert_eq!(report.unwrap().verdict, Verdict::Interrupted(Interruption::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_before_the_turn_starts_none_and_leaves_no_thread() {
    let mut net = Net::new().await;
    let client = net.client(to_broker());
    let (cancel, wish) = wish();
    let server = async {
        let mut peer = net.server().await;
        let (id, _) = peer.expect("thread/start").await;
        cancel.send(()).unwrap();
        tokio::time::sleep(S).await;
        peer.send(&[json!({ "id": id, "result": { "thread": { "id": "t" } } })]).await;
        peer.answer("thread/delete", json!({})).await;
        peer.end().await;
    };
    let (result, ()) = tokio::join!(run_until(client, wish), server);
    let error = result.unwrap_err();
    assert_eq!(error, ClientError::Cancelled { left_behind: None });
    assert_eq!(error.exit_status(), 130);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_does_not_wait_for_a_server_that_answers_nothing() {
    let patience = TurnLimits::default().interrupt;
    let mut net = Net::new().await;
    let client = net.client(to_broker());
    let (cancel, wish) = wish();
    let server = async {
        let mut peer = net.server().await;
        peer.expect("thread/start").await;
        cancel.send(()).unwrap();
        peer.end().await;
    };
    let before = Instant::now();
    let (result, ()) = tokio::join!(run_until(client, wish), server);
    assert_eq!(result.unwrap_err(), ClientError::Cancelled { left_behind: None });
    assert!(before.elapsed() < patience + S, "{:?}", before.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_cancel_ends_the_attempt_to_connect_at_once_and_starts_no_other() {
    let mut net = Net::new().await;
    let app_server = process::Command { argv: vec!["/bin/false".into()], ..Default::default() };
    let client = net.client(Route::BrokerOrDirect { endpoint: broker(), app_server });
    let (cancel, wish) = wish();
    let server = async {
        let mut peer = net.peer().await;
        peer.expect("initialize").await;
        cancel.send(()).unwrap();
        peer.end().await;
    };
    let before = Instant::now();
    let (result, ()) = tokio::join!(run_until(client, wish), server);
    assert_eq!(result.unwrap_err(), ClientError::Cancelled { left_behind: None });
    assert_eq!(before.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_sends_without_end_cannot_hide_a_cancel() {
    let mut net = Net::new().await;
    let client = net.client(to_broker());
    let (cancel, wish) = wish();
    let server = async {
        let mut peer = net.server().await;
        peer.start().await;
        let (read, mut write) = tokio::io::split(peer.0.into_inner());
        let noise = "{\"method\":\"noise\"}\n".repeat(100);
        let is_interrupted = Cell::new(false);
        let flood = async {
            while !is_interrupted.get() {
                write.write_all(noise.as_bytes()).await.unwrap();
            }
        };
        let interrupted = async {
            let mut line = String::new();
            BufReader::new(read).read_line(&mut line).await.unwrap();
            assert!(line.contains("turn/interrupt"), "{line}");
            is_interrupted.set(true);
        };
        cancel.send(()).unwrap();
        tokio::join!(flood, interrupted);
        write.write_all(format!("{}\n", completed("interrupted")).as_bytes()).await.unwrap();
    };
    let (report, ()) = tokio::join!(run_until(client, wish), server);
    assert_eq!(report.unwrap().verdict, Verdict::Interrupted(Interruption::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_run_closes_the_connection() {
    let mut net = Net::new().await;
    let client = net.client(to_broker());
    let mut run = Box::pin(run_until(client, pending()));
    let mut peer = tokio::select! {
        _ = &mut run => panic!("it ended"),
        peer = async { let mut peer = net.server().await; peer.start().await; peer } => peer,
    };
    drop(run);
    peer.end().await;
}
