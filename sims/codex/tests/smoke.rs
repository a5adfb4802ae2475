//! Each server runs `echo` for a raw client.

use std::path::Path;

use codex_peer::install;
use codex_peer::raw::Raw;
use codex_peer::servers::Server;
use reknit_exec::limits::ServerLimits;
use serde_json::{Value, json};

/// A session in which `echo` runs from its start to its close.
async fn echo(server: &Server) {
    let mut raw = Raw::connect(server.address()).await;
    let welcome = raw.initialize().await;
    assert!(welcome["result"]["sessionId"].is_string(), "{welcome}");
    let start = json!({
        "processId": "p", "argv": ["/bin/echo", "hello"], "cwd": "file:///", "env": {}, "tty": false,
    });
    raw.send(json!({"id": 2, "method": "process/start", "params": start}).to_string()).await;
    let mut lifecycle = Vec::new();
    loop {
        let message: Value = raw.json().await;
        match message["method"].as_str() {
            None => assert_eq!(message["result"]["processId"], "p", "{message}"),
            Some(event) => lifecycle.push((event.to_owned(), message["params"].clone())),
        }
        if message["method"] == "process/closed" {
            break;
        }
    }
    lifecycle.sort_by_key(|(_, params)| params["seq"].as_u64());
    let output = lifecycle.iter().find(|(event, _)| event == "process/output").expect("output");
    assert_eq!(output.1["chunk"], "aGVsbG8K");
    let exited = lifecycle.iter().find(|(event, _)| event == "process/exited").expect("an exit");
    assert_eq!(exited.1["exitCode"], 0);
    assert_eq!(lifecycle.len(), 3, "{lifecycle:?}");
    assert_eq!(lifecycle[2].0, "process/closed");
}

#[tokio::test]
async fn codex_runs_echo() {
    let Some(program) = install::codex() else { return };
    echo(&Server::codex(&program).await).await;
}

#[tokio::test]
async fn our_program_runs_echo() {
    echo(&Server::ours(Path::new(env!("CARGO_BIN_EXE_exec_server"))).await).await;
}

#[tokio::test]
async fn our_server_in_this_process_runs_echo() {
    echo(&Server::here(ServerLimits::default()).await).await;
}
