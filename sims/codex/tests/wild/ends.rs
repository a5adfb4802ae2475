//! Bugs at the ends of processes, files and connections.

use std::time::Duration;

use codex_peer::raw::Raw;
use codex_peer::servers::Server;
use futures_util::{SinkExt, StreamExt};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::time::{sleep, timeout};
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::peer::{LONG_ENOUGH, Peer, write};
use super::{Seen, compare};

#[tokio::test]
async fn bug_08_a_write_to_an_ended_process_is_accepted() {
    compare(8, &[], async |server| {
        let mut peer = Peer::new(server).await;
        peer.start("p", false, &["/bin/true"]).await;
        while !peer.events.iter().any(|event| event["method"] == "process/closed") {
            assert!(peer.receive(LONG_ENOUGH).await, "the process ends");
        }
        let answer = peer.call("process/write", write("p", "1", "x")).await;
        Seen {
            bug: answer["result"]["status"] == "accepted",
            what: format!("the answer was {answer}"),
        }
    })
    .await;
}

#[tokio::test]
async fn bug_10_a_terminal_hides_the_signal() {
    compare(10, &[], async |server| {
        let mut peer = Peer::new(server).await;
        let mut codes = Vec::new();
        for (process, tty) in [("pipe", false), ("terminal", true)] {
            peer.start(process, tty, &["/bin/sh", "-c", "kill -9 $$"]).await;
            let exit = loop {
                let exited = peer.events.iter().find(|event| {
                    event["method"] == "process/exited" && event["params"]["processId"] == process
                });
                match exited {
                    Some(event) => break event["params"]["exitCode"].clone(),
                    None => assert!(peer.receive(LONG_ENOUGH).await, "the process ends"),
                }
            };
            codes.push(exit);
        }
        let what = format!(
            "killed by signal 9, it exits with {} through pipes and with {} on a terminal",
            codes[0], codes[1]
        );
        Seen { bug: codes[0] != codes[1], what }
    })
    .await;
}

#[tokio::test]
async fn bug_11_a_write_to_a_fifo_blocks_the_server() {
    compare(11, &[], async |server| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("fifo");
        let made = Command::new("mkfifo").arg(&path).status().await.expect("mkfifo");
        assert!(made.success());
        let mut peer = Peer::new(server).await;
        let file = json!({"path": format!("file://{}", path.display()), "dataBase64": "eA=="});
        peer.ask("fs/writeFile", file).await;
        let status = peer.ask("environment/status", json!({})).await;
        let answered = peer.answer(status, LONG_ENOUGH).await.is_some();
        let survives = survives_sigterm(server).await;
        let answered = if answered { "was answered" } else { "was not answered within 5 s" };
        let what = format!(
            "the next request {answered}; after SIGTERM the server {}",
            if survives { "still ran" } else { "ended" }
        );
        Seen { bug: survives || answered == "was not answered within 5 s", what }
    })
    .await;
}

/// Sends SIGTERM to a server that is a process; returns whether it still runs 5 s later.
async fn survives_sigterm(server: &Server) -> bool {
    let pid = server.pid().and_then(|pid| Pid::from_raw(pid as i32));
    let Some(pid) = pid else { return false };
    kill_process(pid, Signal::TERM).expect("it runs");
    sleep(LONG_ENOUGH).await;
    let stat =
        std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    test_kill_process(pid).is_ok() && !stat.contains(") Z ")
}

#[tokio::test]
async fn bug_12_a_close_is_not_answered() {
    compare(12, &[], async |server| {
        let stream = TcpStream::connect(server.address()).await.expect("a connection");
        let opened = client_async(server.url(), stream).await;
        let mut socket = opened.expect("a WebSocket").0;
        let bye = CloseFrame { code: CloseCode::Normal, reason: "".into() };
        socket.send(Message::Close(Some(bye))).await.expect("it is open");
        let end = timeout(LONG_ENOUGH, socket.next()).await.expect("an end");
        let answered = matches!(end, Some(Ok(Message::Close(Some(_)))));
        let without = if answered { "with" } else { "without" };
        Seen { bug: !answered, what: format!("the connection ended {without} a Close frame") }
    })
    .await;
}

#[tokio::test]
#[ignore = "takes two minutes"]
async fn bug_12_a_connection_without_a_session_stays_open() {
    compare(12, &[], async |server| {
        let mut raw = Raw::connect(server.address()).await;
        let open = raw.receive(Duration::from_secs(60)).await.is_none();
        let what = if open { "still open after 60 s" } else { "closed within 60 s" };
        Seen { bug: open, what: format!("a connection without `initialize` is {what}") }
    })
    .await;
}
