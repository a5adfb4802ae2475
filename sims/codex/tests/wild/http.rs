//! A bug of HTTP requests.

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::peer::Peer;
use super::{Seen, compare};

/// Answers one request; returns its head.
async fn answer(listener: &TcpListener, response: &str) -> String {
    let (mut stream, _) = listener.accept().await.expect("a connection");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("a request"));
    }
    stream.write_all(response.as_bytes()).await.expect("it reads the response");
    String::from_utf8_lossy(&head).into_owned()
}

#[tokio::test]
async fn bug_13_a_redirect_carries_a_secret_to_another_origin() {
    compare(13, &[], async |server| {
        let one = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let two = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = |to: &TcpListener| format!("http://{}/", to.local_addr().expect("an address"));
        let mut peer = Peer::new(server).await;
        let secret = json!({"name": "X-Api-Key", "value": "key ", "valueEnvVar": "PATH"});
        let asked =
            json!({"method": "GET", "url": url(&one), "requestId": "1", "headers": [secret]});
        let asked = peer.ask("http/request", asked).await;
        let moved =
            format!("HTTP/1.1 302 Found\r\nLocation: {}\r\nContent-Length: 0\r\n\r\n", url(&two));
        let first = answer(&one, &moved).await;
        assert!(first.contains("x-api-key: key /"), "{first}");
        let second = answer(&two, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
        let answered = peer.answer(asked, super::peer::LONG_ENOUGH).await.expect("an answer");
        assert_eq!(answered["result"]["status"], 200);
        let sent = second.contains("x-api-key: key /");
        let what = if sent { "received" } else { "did not receive" };
        Seen {
            bug: sent,
            what: format!("the other origin {what} the value of the server's variable"),
        }
    })
    .await;
}
