//! Every refusal, and what a hostile client cannot do.

use proptest::prelude::*;
use proptest::sample::select;
use reknit_seams::net::Connect;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Builder;
use tokio::time::{Instant, timeout};

use super::peer::End;
use super::*;

#[tokio::test(start_paused = true)]
async fn every_wrong_request_is_refused_with_its_own_code() {
    let world = World::new(ServerLimits::default()).await;
    let _stream = world.start().await;
    let large = format!(r#"{{"command":"{}"}}"#, "x".repeat(1 << 20));
    for (request, body, status, code) in [
        ("GET /nothing", "", 404, "PATH_NOT_FOUND"),
        ("PUT /command", "", 405, "METHOD_NOT_ALLOWED"),
        ("POST /command", "", 400, "INVALID_REQUEST_BODY"),
        ("POST /command", "{}", 400, "INVALID_REQUEST_BODY"),
        ("POST /command", r#"{"command":"a","operation_id":"/"}"#, 400, "INVALID_REQUEST_BODY"),
        ("POST /command", r#"{"command":"a","uid":0}"#, 400, "NOT_SUPPORTED"),
        ("POST /command", r#"{"command":"other","operation_id":"c"}"#, 409, "OPERATION_ID_IN_USE"),
        ("POST /command", &large, 413, "BODY_TOO_LARGE"),
        ("GET /command/x/resume", "", 404, "COMMAND_NOT_FOUND"),
        ("GET /command/%2F/resume", "", 400, "INVALID_REQUEST_BODY"),
        ("GET /command/c/resume", "", 409, "STREAM_ACTIVE"),
        ("GET /command/c/resume?after_eid=-1", "", 400, "CURSOR_MALFORMED"),
        ("GET /command/c/resume?after_eid=x", "", 400, "CURSOR_MALFORMED"),
        ("GET /command/c/resume?after_eid=1", "", 400, "CURSOR_FUTURE"),
        ("GET /command/c/resume?after_eid=0000000000000001-0", "", 400, "CURSOR_FOREIGN"),
        ("GET /command/status/x", "", 404, "COMMAND_NOT_FOUND"),
        ("GET /command/c/logs", "", 400, "INVALID_REQUEST_BODY"),
        ("GET /command/x/logs", "", 404, "COMMAND_NOT_FOUND"),
        ("DELETE /command", "", 400, "MISSING_QUERY"),
        ("DELETE /command?id=x", "", 404, "COMMAND_NOT_FOUND"),
    ] {
        let answer = world.send(request, &[], body).await;
        assert_eq!(answer.code().await, (status, code.to_owned()), "{request} {body:.40}");
    }
    assert_eq!(world.machine.launches(), 1);
    let owner = world.send("GET /command/c/resume", &[("x-reknit-owner", "?")], "").await;
    assert_eq!(owner.code().await, (400, "INVALID_REQUEST_BODY".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn without_the_token_nothing_happens() {
    let config = ServerConfig { access_token: Some("secret".into()), ..Default::default() };
    let world = World::configured(config, ServerLimits::default()).await;
    let body = r#"{"operation_id":"c","command":"run"}"#;
    for token in ["", "secre", "secret2"] {
        for request in ["POST /command", "GET /ping", "DELETE /command?id=c", "GET /nothing"] {
            let answer = world.send(request, &[("x-execd-access-token", token)], body).await;
            assert_eq!(answer.status, 401);
            let text = answer.text().await;
            assert_eq!(
                text,
                r#"{"error":"Unauthorized: invalid or missing header X-EXECD-ACCESS-TOKEN"}"#
            );
        }
    }
    assert_eq!(world.machine.launches(), 0);
    let token = [("x-execd-access-token", "secret")];
    assert_eq!(world.send("GET /ping", &token, "").await.status, 200);
    assert_eq!(world.send("POST /command", &token, body).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn running_commands_are_bounded() {
    let world = World::new(ServerLimits { running_commands: 1, ..Default::default() }).await;
    let _stream = world.start().await;
    let other = world.send("POST /command", &[], r#"{"command":"other"}"#).await;
    assert_eq!(other.code().await, (503, "SERVICE_UNAVAILABLE".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_slow_head_closes_the_connection_and_a_slow_body_is_refused() {
    let world = World::new(ServerLimits::default()).await;
    for (sent, reply) in [
        ("GET /pi", ""),
        ("", ""),
        (
            "POST /command HTTP/1.1\r\ncontent-length: 9\r\n\r\n{",
            "HTTP/1.1 408 Request Timeout\r\n",
        ),
    ] {
        let mut stream = world.net.connect(&Endpoint::tcp("server", 80)).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        let start = Instant::now();
        let mut received = Vec::new();
        let read = timeout(60 * SECOND, stream.read_to_end(&mut received)).await;
        assert!(read.is_ok(), "{sent:?}");
        let text = String::from_utf8_lossy(&received);
        assert!(text.starts_with(reply), "{text}");
        assert!(start.elapsed() <= 25 * SECOND, "{sent:?}: {:?}", start.elapsed());
    }
    assert_eq!(world.resources.counts().connections, 0);
}

#[tokio::test(start_paused = true)]
async fn bytes_that_are_not_http_close_the_connection_and_harm_no_other() {
    let world = World::new(ServerLimits::default()).await;
    let mut stream = world.start().await;
    for garbage in [&b"\x16\x03\x01\x02\x00"[..], b"\r\n\r\nX\r\n\r\n", &[b'a'; 200_000]] {
        let mut hostile = world.net.connect(&Endpoint::tcp("server", 80)).await.unwrap();
        let mut received = Vec::new();
        let _ = hostile.write_all(garbage).await;
        let read = timeout(60 * SECOND, hostile.read_to_end(&mut received)).await;
        assert!(read.is_ok());
    }
    world.machine.prints(0, "a\n").await;
    assert_eq!(stream.read().await, (vec!["1 a".to_owned()], End::Open));
}

#[tokio::test(start_paused = true)]
async fn idle_connections_do_not_take_the_place_of_others_and_do_not_end_streams() {
    let world = World::new(ServerLimits { connections: 3, ..Default::default() }).await;
    let mut stream = world.start().await;
    let mut idle = Vec::new();
    for _ in 0..20 {
        idle.push(world.net.connect(&Endpoint::tcp("server", 80)).await.unwrap());
        sleep(SECOND / 100).await;
    }
    assert_eq!(world.resources.counts().connections, 3);
    assert_eq!(world.send("GET /ping", &[], "").await.status, 200);
    world.machine.prints(0, "a\n").await;
    assert_eq!(stream.read().await, (vec!["1 a".to_owned()], End::Open));
}

#[tokio::test(start_paused = true)]
async fn if_every_connection_is_in_use_a_new_one_is_closed() {
    let world = World::new(ServerLimits { connections: 1, ..Default::default() }).await;
    let mut stream = world.start().await;
    let refused = world.peer().await.try_send("GET /ping", &[], "").await;
    assert!(refused.is_err());
    world.machine.prints(0, "a\n").await;
    assert_eq!(stream.read().await, (vec!["1 a".to_owned()], End::Open));
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_used_again_until_its_stream() {
    let world = World::new(ServerLimits::default()).await;
    let mut peer = world.peer().await;
    for _ in 0..3 {
        let answer = peer.send("GET /ping", &[], "").await;
        assert_eq!(answer.text().await, "");
    }
    let answer = peer.send("GET /command/status/x", &[], "").await;
    assert_eq!(answer.code().await.0, 404);
    let stream = peer.send("POST /command", &[], r#"{"command":"run"}"#).await;
    assert_eq!(stream.header("connection"), "close");
}

/// Pieces of requests, in any order.
const PIECES: [&[u8]; 20] = [
    b"GET ",
    b"POST ",
    b"DELETE ",
    b"/command",
    b"/c/resume",
    b"?after_eid=18446744073709551616",
    b"?id=c",
    b" HTTP/1.1\r\n",
    b" HTTP/1.0\r\n",
    b"host: a\r\n",
    b"content-length: 5\r\n",
    b"content-length: -1\r\n",
    b"transfer-encoding: chunked\r\n",
    b"last-event-id: \xff\r\n",
    b"x-reknit-owner: a.1\r\n",
    b"\r\n",
    b"\n",
    b"ffffffffffffffffff\r\n",
    b"5\r\n{}   \r\n0\r\n\r\n",
    b"\0\xff{",
];

/// Sends each text on a separate connection.
async fn survives(texts: Vec<Vec<u8>>) {
    let world = World::new(ServerLimits::default()).await;
    let mut stream = world.start().await;
    sleep(SECOND).await;
    for text in texts {
        let mut hostile = world.net.connect(&Endpoint::tcp("server", 80)).await.unwrap();
        let _ = hostile.write_all(&text).await;
        let mut received = Vec::new();
        let _ = timeout(60 * SECOND, hostile.read_to_end(&mut received)).await;
    }
    world.machine.prints(0, "a\n").await;
    let (seen, end) = stream.read().await;
    assert_eq!((seen.last().map(String::as_str), end), (Some("1 a"), End::Open));
    sleep(60 * SECOND).await;
    assert_eq!(world.resources.counts().connections, 1);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]
    #[test]
    fn no_bytes_harm_another_stream_or_keep_a_connection(
        texts in prop::collection::vec(prop::collection::vec(select(&PIECES[..]), 0..12), 1..6),
    ) {
        let texts = texts.into_iter().map(|pieces| pieces.concat()).collect();
        let runtime = Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.unwrap().block_on(survives(texts));
    }
}
