//! The seeded bugs of the client: each shows in what it reports or sends.

use super::*;
use crate::testing::with_defect;
use crate::wire::code;

/// Runs this in a runtime with paused time, with the defect on.
fn with(name: &'static str, run: impl Future<Output = ()>) {
    with_defect(name, || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().start_paused(true).build().unwrap().block_on(run);
    });
}

#[test]
fn a_busy_broker_is_taken_for_a_broken_one() {
    with("TakesBusyForAFailure", async {
        let mut net = Net::new().await;
        let client = net.client(fallback::route());
        let server = async {
            net.server().await.refuse("thread/start", code::BUSY).await;
        };
        let ((result, news), ()) = tokio::join!(run(client, task()), server);
        assert!(matches!(result, Err(ClientError::NotStarted(_))));
        assert_eq!(fallbacks(&news), 0);
    });
}

#[test]
fn what_comes_before_the_answer_to_the_start_is_lost() {
    with("ListensAfterTheStart", async {
        let mut net = Net::new().await;
        let client = net.client(to_broker());
        let server = async {
            let mut peer = net.server().await;
            peer.thread().await;
            let (id, _) = peer.expect("turn/start").await;
            let answer = json!({ "id": id, "result": { "turn": { "id": "u" } } });
            peer.send(&[final_answer(), completed("completed"), answer]).await;
        };
        let ((report, _), ()) = tokio::join!(run(client, task()), server);
        assert!(matches!(report.unwrap().verdict, Verdict::Failed(Failure::Disconnected { .. })));
    });
}

#[test]
fn the_client_leaves_before_its_turn_is_interrupted() {
    with("LeavesBeforeTheInterrupt", async {
        let mut net = Net::new().await;
        let client = net.client(to_broker());
        let server = async {
            let mut peer = net.server().await;
            peer.start().await;
            peer.expect("turn/interrupt").await;
            let before = Instant::now();
            peer.end().await;
            before.elapsed()
        };
        let ((report, _), held) = tokio::join!(run(client, task()), server);
        assert_eq!(report.unwrap().verdict, Verdict::Failed(Failure::Idle(600 * S)));
        assert!(held < S, "{held:?}");
    });
}
