//! Bugs of the order in which a server handles requests.

use std::time::Duration;

use serde_json::json;
use tokio::net::TcpListener;
use tokio::time::sleep;

use super::peer::{LONG_ENOUGH, Peer, resume, write};
use super::{Seen, compare, reproduce};

/// The number of requests that the client sends at once.
const REQUESTS: u64 = 300;

#[tokio::test]
async fn bug_01_requests_beside_a_flood_deadlock_a_connection() {
    compare(1, &[], async |server| {
        let mut peer = Peer::new(server).await;
        peer.start("p", false, &["/bin/sh", "-c", "yes"]).await;
        sleep(Duration::from_secs(1)).await; // the client reads nothing
        for _ in 0..REQUESTS {
            peer.ask("process/signal", json!({"processId": "q", "signal": "interrupt"})).await;
        }
        sleep(Duration::from_secs(1)).await;
        let before = peer.answered();
        while peer.answered() < before + REQUESTS as usize && peer.receive(LONG_ENOUGH).await {}
        let answered = peer.answered() - before;
        let session = peer.session.clone();
        drop(peer);
        sleep(Duration::from_secs(1)).await;
        let resumed = resume(server, &session).await;
        let silent = answered < REQUESTS as usize;
        let what = format!(
            "{answered} of {REQUESTS} requests were answered; then the client closed its connection, and a resume got {}",
            resumed.map_or("its session".into(), |code| format!("the error {code}"))
        );
        Seen { bug: silent && resumed == Some(-32010), what }
    })
    .await;
}

#[tokio::test]
async fn bug_05_an_http_request_without_an_answer_blocks_all_others() {
    compare(5, &[], async |server| {
        let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/", silent.local_addr().expect("an address"));
        let mut peer = Peer::new(server).await;
        peer.start("p", false, &["/bin/sleep", "60"]).await;
        peer.ask("http/request", json!({"method": "GET", "url": url, "requestId": "1"})).await;
        let end = peer.ask("process/terminate", json!({"processId": "p"})).await;
        terminated(peer.answer(end, LONG_ENOUGH).await.is_some())
    })
    .await;
}

fn terminated(answered: bool) -> Seen {
    let what = if answered { "was answered" } else { "was not answered within 5 s" };
    Seen { bug: !answered, what: format!("a terminate {what}") }
}

#[tokio::test]
async fn bug_06_a_process_that_does_not_read_blocks_its_connection() {
    compare(6, &[], async |server| {
        let mut peer = Peer::new(server).await;
        peer.start("p", false, &["/bin/sleep", "60"]).await;
        let text = "x".repeat(4096);
        let mut accepted = 0;
        loop {
            let id = format!("w{accepted}");
            let asked = peer.ask("process/write", write("p", &id, &text)).await;
            if peer.answer(asked, Duration::from_secs(2)).await.is_none() {
                break;
            }
            accepted += 1;
        }
        let end = peer.ask("process/terminate", json!({"processId": "p"})).await;
        let seen = terminated(peer.answer(end, LONG_ENOUGH).await.is_some());
        Seen { what: format!("{accepted} writes were accepted; then {}", seen.what), ..seen }
    })
    .await;
}

#[tokio::test]
async fn bug_07_concurrent_requests_reorder_stdin() {
    const LINES: usize = 2000;
    compare(7, &["--concurrent-requests", "8"], async |server| {
        let mut peer = Peer::new(server).await;
        peer.start("p", false, &["/bin/cat"]).await;
        for line in 0..LINES {
            peer.ask("process/write", write("p", &format!("w{line}"), &format!("{line}\n"))).await;
        }
        while peer.output().lines().count() < LINES && peer.receive(LONG_ENOUGH).await {}
        let output = peer.output();
        let lines = output.lines().collect::<Vec<_>>();
        let moved = (0..LINES).filter(|n| lines.get(*n) != Some(&n.to_string().as_str())).count();
        Seen { bug: moved > 0, what: format!("{moved} of {LINES} lines were out of place") }
    })
    .await;
}

#[tokio::test]
async fn bug_09_a_late_retry_writes_again() {
    const OTHERS: usize = 4096;
    // The tests of our server check its behaviour.
    reproduce(9, &[], async |server| {
        let mut peer = Peer::new(server).await;
        peer.start("p", false, &["/bin/cat"]).await;
        peer.call("process/write", write("p", "first", "first\n")).await;
        for n in 0..OTHERS {
            peer.call("process/write", write("p", &format!("o{n}"), ".\n")).await;
        }
        let retry = peer.call("process/write", write("p", "first", "first\n")).await;
        while peer.receive(Duration::from_secs(1)).await {}
        let times = peer.output().matches("first").count();
        let what = format!("the process read the line {times} times; the retry got {retry}");
        Seen { bug: times > 1, what }
    })
    .await;
}
