//! Bugs of the SDK: docs/found-in-the-wild.md describes them. A test fails if the SDK has mended its bug.

use std::time::Duration;

use opensandbox_peer::sdk::{Outcome, Sdk};
use opensandbox_peer::server::Stage;
use reknit_proxy::{End, Fault, Moment, Rule};
use reknit_sse::limits::ServerLimits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Answers one request with these bytes, and closes the connection. Returns the address.
async fn answers(bytes: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"}") {
            stream.read_buf(&mut request).await.unwrap();
        }
        stream.write_all(bytes.as_bytes()).await.unwrap();
    });
    address
}

/// The command printed one of its two lines before the connection was closed.
const HALF: &str = "{\"type\":\"init\",\"text\":\"c1\",\"timestamp\":1}\n\n\
                    {\"type\":\"stdout\",\"text\":\"one of two\",\"timestamp\":2}\n\n";

async fn is_returned(mut sdk: Sdk, head: &str, body: String) {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{head}\r\n\r\n");
    let at = answers(head + &body).await;
    let run = sdk.run(&at, "echo one of two; echo two of two").await.execution();
    assert_eq!(run.stdout, ["one of two"]);
    assert_eq!((run.complete, run.error, run.exit_code), (false, None, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn bug_14_an_answer_that_ends_early_is_returned_without_an_error() {
    let Some(sdk) = Sdk::start() else { return };
    let chunk = format!("{:x}\r\n{HALF}\r\n0\r\n\r\n", HALF.len());
    is_returned(sdk, "transfer-encoding: chunked", chunk).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bug_14_a_cut_of_an_answer_without_a_length_is_returned_without_an_error() {
    let Some(sdk) = Sdk::start() else { return };
    is_returned(sdk, "connection: close", HALF.to_owned()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bug_15_a_dead_connection_is_never_noticed() {
    let Some(mut sdk) = Sdk::start() else { return };
    let heartbeat = Duration::from_millis(50);
    let limits = ServerLimits { heartbeat, ..ServerLimits::default() };
    let at = Moment::Bytes { toward: End::Client, count: 500 };
    let rule = Rule { conn: None, times: None, at, fault: Fault::HalfOpen { toward: None } };
    let stage = Stage::start(limits, vec![rule]).await;
    let call = serde_json::json!({"do": "run", "command": "sleep 1"});
    // The time of 100 signs of life.
    let outcome = sdk.call(&stage.address(), 100 * heartbeat, call).await;
    assert_eq!((stage.broken(), outcome), (1, Outcome::Silent(true)));
}
