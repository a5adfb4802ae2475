//! Tests of the handshake, and of protocol errors that end a connection.

use super::*;

/// Returns the first line of the server's answer to an HTTP request.
async fn http(server: &mut TestServer, request: &str) -> String {
    let mut stream = server.open_connection();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = vec![0; 4096];
    let count = stream.read(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer[..count]).lines().next().unwrap_or("closed").to_owned()
}

#[tokio::test(start_paused = true)]
async fn the_server_answers_plain_http_requests() {
    let mut server = TestServer::new();
    let websocket = "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x\r\n";
    for (request, status) in [
        ("GET /readyz HTTP/1.1\r\n\r\n".to_owned(), "HTTP/1.1 200 OK"),
        ("GET /other HTTP/1.1\r\n\r\n".to_owned(), "HTTP/1.1 404 Not Found"),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), "HTTP/1.1 426 Upgrade Required"),
        (format!("POST / HTTP/1.1\r\n{websocket}\r\n"), "HTTP/1.1 426 Upgrade Required"),
        (format!("GET / HTTP/1.1\r\n{websocket}\r\n"), "HTTP/1.1 101 Switching Protocols"),
        (
            format!("GET / HTTP/1.1\r\nOrigin: http://a.page\r\n{websocket}\r\n"),
            "HTTP/1.1 403 Forbidden",
        ),
        ("GET /readyz HTTP/1.1\r\nOrigin: null\r\n\r\n".to_owned(), "HTTP/1.1 403 Forbidden"),
        ("\u{0}\u{1}\u{2}\r\n\r\n".to_owned(), "HTTP/1.1 400 Bad Request"),
    ] {
        assert_eq!(http(&mut server, &request).await, status, "{request}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_handshake_is_closed_at_the_deadline() {
    let mut server = TestServer::new();
    let mut mute = server.open_connection();
    let mut shy = server.peer().await;
    let began = Instant::now();
    assert_eq!(mute.read(&mut [0; 9]).await.unwrap(), 0);
    assert!(shy.is_closed().await);
    assert_eq!(began.elapsed(), ServerLimits::default().handshake_deadline);
    sleep(ms(2000)).await;
    assert_eq!(server.resources.counts().connections, 0);
}

/// Host 2 opens connections and says nothing, or only opens a WebSocket.
#[tokio::test(start_paused = true)]
async fn a_host_that_opens_silent_connections_takes_no_place_of_another() {
    let mut server = TestServer::with(ServerLimits { connections: 8, ..ServerLimits::default() });
    let (mut one, _) = server.client().await;
    one.start("p1", "sh").await;
    let (mut silent, mut shy) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        shy.push(server.peer_from(2).await);
        silent.push(server.open_connection_from(2));
        sleep(ms(1)).await;
    }
    assert!(shy[0].is_closed().await, "it has been closed to make room");
    let (mut two, _) = server.client().await;
    two.start("p1", "cat").await;
    one.read("p1").await;
    sleep(ms(1)).await;
    assert!(server.resources.counts().connections <= 8);
}

#[tokio::test(start_paused = true)]
async fn requests_before_the_end_of_the_handshake_are_refused() {
    let mut server = TestServer::new();
    let mut peer = server.peer().await;
    let read = json!({"processId": "p1"});
    let early = peer.call("process/read", read.clone()).await.unwrap_err();
    peer.call("initialize", json!({"clientName": "test"})).await.unwrap();
    let late = peer.call("process/read", read.clone()).await.unwrap_err();
    let twice = peer.call("initialize", json!({"clientName": "test"})).await.unwrap_err();
    assert_eq!((early.0, late.0, twice.0), (-32600, -32600, -32600));
    assert!(early.1 != late.1 && late.1 != twice.1);
    peer.emit("initialized", json!({}));
    assert_eq!(peer.call("process/read", read).await.unwrap_err().1, "unknown process id p1");
    assert_eq!(peer.call("initialize", json!({"clientName": "test"})).await.unwrap_err(), twice);
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_failed_may_be_tried_again() {
    let mut server = TestServer::new();
    let mut peer = server.peer().await;
    assert_eq!(peer.call("initialize", json!({})).await.unwrap_err().0, -32602);
    let unknown = json!({"clientName": "test", "resumeSessionId": "x".repeat(99_999)});
    let (code, text) = peer.call("initialize", unknown).await.unwrap_err();
    assert!(code == -32600 && text.starts_with("unknown session id x") && text.len() < 200);
    let answer = peer
        .call("initialize", json!({"clientName": "test", "resumeSessionId": null}))
        .await
        .unwrap();
    let id = answer["sessionId"].as_str().unwrap();
    assert!(
        id.len() == 36 && id.as_bytes()[14] == b'4' && b"89ab".contains(&id.as_bytes()[19]),
        "{id}"
    );
}

#[tokio::test(start_paused = true)]
async fn malformed_messages_are_answered_with_an_error() {
    let mut server = TestServer::new();
    let (mut peer, _) = server.client().await;
    for malformed in
        ["{", "[]", r#"{"id":1}"#, r#"{"id":1.5,"method":"m"}"#, r#"{"id":null,"method":"m"}"#]
    {
        peer.link.send_text(malformed);
        let (code, _) = peer.answer(-1).await.unwrap_err();
        assert_eq!(code, -32600);
    }
    let (code, text) = peer.call("fs/nothing", json!({"path": "/etc/passwd"})).await.unwrap_err();
    assert_eq!((code, text.as_str()), (-32601, "unknown method fs/nothing"));
    for (method, params) in [
        ("process/read", json!({"processId": 7})),
        ("process/read", json!({"processId": "x".repeat(257)})),
        ("process/read", json!({"processId": "p1", "afterSeq": -1})),
        ("process/start", json!({"processId": "p1", "argv": [], "cwd": "/"})),
        ("process/start", json!({"processId": "p1", "argv": ["sh"], "cwd": "file://elsewhere/"})),
        ("process/start", json!({"processId": "p1", "argv": ["sh"], "cwd": "relative"})),
        ("process/start", json!({"processId": "p1", "argv": ["sh"], "cwd": "file:///"})),
        ("process/start", json!({"processId": "p1", "argv": ["sh"], "cwd": "file:///", "env": {}})),
        (
            "process/start",
            json!({"processId": "p1", "argv": ["sh"], "cwd": "file:///", "tty": false}),
        ),
        ("process/start", json!({"processId": "p1", "argv": ["sh"], "cwd": "/", "env": null})),
        ("process/start", json!({"processId": "p1", "argv": ["sh"], "cwd": "/", "tty": null})),
        ("process/write", json!({"processId": "p1", "chunk": "a"})),
        ("process/write", write("p1", "", "a")),
        ("process/signal", json!({"processId": "p1", "signal": "hangup"})),
    ] {
        assert_eq!(peer.call(method, params).await.unwrap_err().0, -32602, "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_protocol_error_ends_the_connection_but_not_the_session() {
    let mut server = TestServer::new();
    let mut early = server.peer().await;
    early.emit("initialized", json!({}));
    assert!(early.is_closed().await);

    let (mut peer, session) = server.client().await;
    peer.emit("process/unknown", json!({}));
    assert!(peer.is_closed().await);
    let mut peer = server.resume(&session).await.unwrap();
    peer.link.send(&Message::response(RequestId::Number(1), &json!({})));
    assert!(peer.is_closed().await);
    let mut peer = server.resume(&session).await.unwrap();
    peer.emit("initialized", json!({}));
    peer.wait_until_handled().await; // a repetition changes nothing
}

#[tokio::test(start_paused = true)]
async fn the_server_describes_its_machine() {
    let mut server = TestServer::new();
    let mut peer = server.peer().await;
    let early = peer.call("environment/info", json!({})).await.unwrap_err();
    assert_eq!(early.0, -32600);
    let answer = peer.call("initialize", json!({"clientName": "test"})).await.unwrap();
    let info = &answer["environmentInfo"];
    assert_eq!(
        (&info["cwd"], &info["userHomeDir"]),
        (&json!("file:///srv"), &json!("file:///home/u"))
    );
    peer.complete_handshake().await;
    for params in [json!({}), Value::Null] {
        assert_eq!(&peer.call("environment/info", params.clone()).await.unwrap(), info);
        let status = peer.call("environment/status", params).await.unwrap();
        assert_eq!(status, json!({"status": "ready"}));
    }
    assert_eq!(peer.call("environment/status", json!(5)).await.unwrap_err().0, -32602);
}
