//! Unexpected peers at the server's port: plain HTTP, a browser, and a client that sends invalid
//! messages.

use futures_util::{SinkExt, StreamExt};
use reknit_seams::net::Endpoint;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

use super::stage::{NEVER, Stage};

async fn connect(server: &Endpoint) -> TcpStream {
    TcpStream::connect(server.to_string()).await.unwrap()
}

/// Returns the status of the answer to one HTTP request.
async fn status(server: &Endpoint, path: &str, headers: &str) -> String {
    let mut stream = connect(server).await;
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {server}\r\n{headers}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    timeout(NEVER, stream.read_to_end(&mut answer)).await.expect("an end").unwrap();
    String::from_utf8(answer).unwrap().split(' ').nth(1).unwrap().to_owned()
}

#[tokio::test]
async fn the_server_reports_readiness_and_refuses_browsers() {
    let stage = Stage::new().await;
    assert_eq!(status(&stage.server, "/readyz", "").await, "200");
    assert_eq!(status(&stage.server, "/readyz", "Origin: http://somewhere.test\r\n").await, "403");
    assert_eq!(status(&stage.server, "/elsewhere", "").await, "404");
    assert_eq!(status(&stage.server, "/", "").await, "426", "this is for WebSockets");
    let browser = "Origin: http://somewhere.test\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    assert_eq!(status(&stage.server, "/", browser).await, "403");
}

/// A client whose messages the test writes by hand.
struct Raw(WebSocketStream<TcpStream>);

impl Raw {
    async fn connect(server: &Endpoint) -> Self {
        Self(client_async(format!("ws://{server}/"), connect(server).await).await.unwrap().0)
    }

    /// Sends a text, and returns the server's answer.
    async fn ask(&mut self, text: impl ToString) -> Value {
        self.0.send(Message::text(text.to_string())).await.unwrap();
        loop {
            match timeout(NEVER, self.0.next())
                .await
                .expect("an answer")
                .expect("a connection")
                .unwrap()
            {
                Message::Text(answer) => return serde_json::from_str(&answer).unwrap(),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Invalid messages and unsupported requests are refused, and the connection stays open.
#[tokio::test]
async fn a_connection_survives_invalid_messages() {
    let stage = Stage::new().await;
    let mut raw = Raw::connect(&stage.server).await;
    let refused = raw.ask("{").await;
    assert_eq!(
        (&refused["id"], &refused["error"]["code"]),
        (&json!(-1), &json!(-32600)),
        "{refused}"
    );
    let hello = json!({ "id": 1, "method": "initialize", "params": { "clientName": "by hand" } });
    let welcome = raw.ask(hello).await;
    assert!(welcome["result"]["sessionId"].is_string(), "{welcome}");
    let refused = raw.ask("[1, 2").await;
    assert_eq!(
        (&refused["id"], &refused["error"]["code"]),
        (&json!(-1), &json!(-32600)),
        "{refused}"
    );
    raw.0
        .send(Message::text(json!({ "method": "initialized", "params": {} }).to_string()))
        .await
        .unwrap();
    let refused = raw
        .ask(json!({ "id": 2, "method": "fs/nothing", "params": { "path": "/etc/passwd" } }))
        .await;
    assert_eq!(
        (&refused["id"], &refused["error"]["code"]),
        (&json!(2), &json!(-32601)),
        "{refused}"
    );
}
