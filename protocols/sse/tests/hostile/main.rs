//! Hostile clients of a server over real sockets. Each is refused, or its connection is closed. A client
//! beside them receives its whole output over its first connection.

mod memory;
mod stage;

use std::time::Duration;

use reknit_sse::wire::{CommandId, RunCommand};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use stage::{TOKEN, World, limits};

const NOW: Duration = Duration::ZERO;

/// More than a deadline of the server, less than two.
const IN_TIME: Duration = Duration::from_millis(950);

#[tokio::test]
async fn bytes_that_are_not_http_end_their_connection() {
    let world = World::new().await;
    world
        .beside(async |_| {
            for garbage in [
                &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
                b"\r\n\r\nX\r\n\r\n",
                b"SSH-2.0-x\r\n",
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                b"GET /ping HTTP/9.9\r\n\r\n",
                b"GET /\x00ping HTTP/1.1\r\n\r\n",
                b"GET /ping HTTP/1.1\r\nhost\r\n\r\n",
                b"POST /command HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n\r\n{}",
                b"POST /command HTTP/1.1\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}",
                b"POST /command HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
                &[0xff; 100_000],
            ] {
                let end = world.send(garbage, b"", NOW).await;
                // The server does not send an answer to a part of a request.
                assert!([0, 400, 401, 408].contains(&end.status()), "{garbage:?}: {end:?}");
            }
        })
        .await;
}

#[tokio::test]
async fn a_slow_head_and_a_slow_body_end_in_time() {
    let world = World::new().await;
    let length = world.request("POST /command", "", "").replace("length: 0", "length: 9999");
    let chunked = length.replace("content-length: 9999", "transfer-encoding: chunked");
    let pause = Duration::from_millis(20);
    world
        .beside(async |_| {
            for (bytes, more, status) in [
                ("GET /ping HTTP/1.1\r\nx: ", "x", 0),
                ("GET /ping HTTP/1.1\r\n", "x: y\r\n", 0),
                (&length, " ", 408),
                (&chunked, "1\r\n \r\n", 408),
            ] {
                let start = Instant::now();
                let end = world.send(bytes.as_bytes(), more.as_bytes(), pause).await;
                assert_eq!(end.status(), status, "{end:?}");
                assert!(start.elapsed() < 2 * IN_TIME, "{bytes}: {:?}", start.elapsed());
            }
        })
        .await;
}

#[tokio::test]
async fn thousands_of_connections_do_not_take_the_place_of_a_client() {
    let world = World::new().await;
    world
        .beside(async |_| {
            for _ in 0..20 {
                let mut open = Vec::new();
                for n in 0..100 {
                    let mut stream = world.connect().await;
                    let sent: &[u8] = if n % 2 == 0 { b"" } else { b"GET /command/" };
                    // The server may have closed it.
                    let _ = stream.write_all(sent).await;
                    open.push(stream);
                }
                let counts = world.resources.counts();
                assert!(counts.connections <= limits().connections, "{counts:?}");
                let end = world.ask(&world.request("GET /ping", "", "")).await;
                assert_eq!(end.status(), 200, "a client of its own finds a place");
            }
        })
        .await;
}

#[tokio::test]
async fn a_resumer_that_is_not_the_client_gets_no_stream_and_a_dead_one_loses_its_own() {
    let world = World::new().await;
    world
        .beside(async |id| {
            let resume = format!("GET /command/{id}/resume");
            for headers in ["", "x-reknit-owner: me.99\r\n", "accept: text/event-stream\r\n"] {
                let end = world.ask(&world.request(&resume, headers, "")).await;
                assert_eq!(end.status(), 409, "{end:?}");
            }
            half_open_resumers(&world).await;
        })
        .await;
}

/// Clients resume a command that prints without an end, and read nothing. One after the other is
/// replaced.
async fn half_open_resumers(world: &World) {
    let id = "flood".to_owned();
    let flood =
        RunCommand { background: true, operation_id: Some(id), ..RunCommand::shell("exec yes") };
    let body = serde_json::to_string(&flood).unwrap();
    assert_eq!(world.ask(&world.request("POST /command", "", &body)).await.status(), 200);
    let mut dead = Vec::new();
    for _ in 0..3 {
        let start = Instant::now();
        loop {
            let mut stream = world.connect().await;
            let request = world.request("GET /command/flood/resume", "", "");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut status = [0; 12];
            stream.read_exact(&mut status).await.unwrap();
            if status.ends_with(b"200") {
                dead.push(stream);
                break;
            }
            assert!(status.ends_with(b"409") && start.elapsed() < 20 * IN_TIME, "{status:?}");
            sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(world.resources.counts().streams, 2);
    }
    let end = world.ask(&world.request("DELETE /command?id=flood", "", "")).await;
    assert_eq!(end.status(), 200, "{end:?}");
}

#[tokio::test]
async fn a_wrong_cursor_is_refused_before_the_first_byte_of_a_stream() {
    let world = World::new().await;
    world
        .beside(async |id| {
            let resume = |cursor: &str| format!("GET /command/{id}/resume?after_eid={cursor}");
            for (cursor, code) in [
                ("-1", "CURSOR_MALFORMED"),
                ("1.5", "CURSOR_MALFORMED"),
                ("%00", "CURSOR_MALFORMED"),
                ("1%0d%0ax:y", "CURSOR_MALFORMED"),
                ("18446744073709551616", "CURSOR_MALFORMED"),
                (&"9".repeat(4000), "CURSOR_MALFORMED"),
                ("18446744073709551615", "CURSOR_FUTURE"),
                ("1000000", "CURSOR_FUTURE"),
                ("0000000000000000-0", "CURSOR_FOREIGN"),
                ("ffffffffffffffff-1", "CURSOR_FOREIGN"),
            ] {
                let end = world.ask(&world.request(&resume(cursor), "", "")).await;
                assert_eq!(end.status(), 400, "{cursor}: {end:?}");
                assert!(end.answer.contains(code), "{cursor}: {end:?}");
                let header = format!("last-event-id: {cursor}\r\n");
                let end = world.ask(&world.request(&resume("0"), &header, "")).await;
                assert_eq!(end.status(), 400, "{cursor}: {end:?}");
            }
        })
        .await;
}

#[tokio::test]
async fn an_odd_id_is_refused_and_reaches_no_file() {
    let world = World::new().await;
    let victim = world.path("victim");
    std::fs::write(&victim, "x").unwrap();
    let way = victim.to_str().unwrap().replace('/', "%2f");
    world
        .beside(async |_| {
            for id in [
                "..",
                "%2e%2e",
                ".",
                &format!("..{way}"),
                &format!("x%2f..%2f..{way}"),
                "%00",
                "%ff",
                "%",
                "a%20b",
                "a%0d%0ab",
                &"a".repeat(129),
            ] {
                for path in [
                    format!("GET /command/{id}/resume"),
                    format!("GET /command/status/{id}"),
                    format!("GET /command/{id}/logs"),
                    format!("DELETE /command?id={id}"),
                    format!("DELETE /session/{id}"),
                    format!("POST /session/{id}/run"),
                ] {
                    let end = world.ask(&world.request(&path, "", "")).await;
                    assert!([400, 404].contains(&end.status()), "{path}: {end:?}");
                }
                let body = serde_json::json!({"operation_id": id, "command": "true"}).to_string();
                if id.parse::<CommandId>().is_err() {
                    let end = world.ask(&world.request("POST /command", "", &body)).await;
                    assert_eq!(end.status(), 400, "{id}: {end:?}");
                }
            }
        })
        .await;
    assert!(victim.exists());
    assert_eq!(world.resources.counts().commands, 1);
}

#[tokio::test]
async fn without_the_token_nothing_runs_and_nothing_is_shown() {
    let world = World::new().await;
    let mark = world.path("mark");
    let body = serde_json::to_string(&RunCommand::shell(format!("touch {mark:?}"))).unwrap();
    world
        .beside(async |id| {
            for token in ["", "secre", "secrets", "SECRET", " ", "\u{e9}", &"s".repeat(7000)] {
                for path in [
                    "POST /command".to_owned(),
                    format!("GET /command/{id}/resume"),
                    format!("DELETE /command?id={id}"),
                    "POST /session".to_owned(),
                ] {
                    let request = world.request(&path, "", &body).replace(TOKEN, token);
                    let end = world.ask(&request).await;
                    assert_eq!(end.status(), 401, "{path} {token}: {end:?}");
                    assert!(!end.answer.contains(TOKEN) && !end.answer.contains(id.as_str()));
                }
            }
        })
        .await;
    assert!(!mark.exists());
    assert_eq!(world.resources.counts().commands, 1);
}

#[tokio::test]
async fn requests_in_one_piece_are_answered_in_order_up_to_the_first_stream() {
    let world = World::new().await;
    world
        .beside(async |_| {
            let stays = |text: String| text.replace("connection: close\r\n", "");
            let pings = stays(world.request("GET /ping", "", "")).repeat(500);
            let start = stays(world.request("POST /command", "", r#"{"command":"echo one"}"#));
            let late = world.request("POST /command", "", r#"{"command":"echo two"}"#);
            let end = world.ask(&format!("{pings}{start}{late}")).await;
            assert_eq!(end.answer.matches("HTTP/1.1 200 OK").count(), 501);
            assert!(end.answer.contains("one") && !end.answer.contains("two"), "{end:?}");
        })
        .await;
    assert_eq!(world.resources.counts().commands, 2);
}

#[tokio::test]
async fn many_clients_that_do_anything_at_once_harm_no_other() {
    let world = std::sync::Arc::new(World::new().await);
    world
        .beside(async |id| {
            let mut clients = JoinSet::new();
            for n in 0..24 {
                let (world, id) = (world.clone(), id.clone());
                clients.spawn(async move {
                    for round in 0..20 {
                        let text = match (n + round) % 6 {
                            0 => world.request(&format!("GET /command/{id}/resume"), "", ""),
                            1 => world.request("POST /command", "", r#"{"command":"seq 1000"}"#),
                            2 => "GET / HTTP/1.1\r\n\r\n".to_owned(),
                            3 => "x".repeat(10_000),
                            4 => world.request("POST /session", "", "{}"),
                            _ => world.request(&format!("GET /command/status/{id}"), "", ""),
                        };
                        let mut stream = world.connect().await;
                        // The server may refuse it for lack of room.
                        let _ = stream.write_all(text.as_bytes()).await;
                        if round % 3 > 0 {
                            let _ = stream.read(&mut [0; 1000]).await;
                        }
                    }
                });
            }
            while let Some(done) = clients.join_next().await {
                done.unwrap();
            }
        })
        .await;
    let counts = world.resources.counts();
    assert!(counts.running <= limits().running_commands, "{counts:?}");
}
