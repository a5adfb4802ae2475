//! The behaviour of a link while its peer sends, is silent, is stuck, or sends invalid data. Time
//! is paused.

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;
use crate::Message;

const PIPE: usize = 4096;

fn limits() -> WireLimits {
    WireLimits { message_bytes: 100_000, outbox_bytes: 200_000, ..WireLimits::default() }
}

fn stream(io: DuplexStream, id: u64) -> Stream {
    Stream::new(io, ConnId(id))
}

async fn handshake(mut server: DuplexStream) -> DuplexStream {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        request.push(server.read_u8().await.unwrap());
    }
    let request = String::from_utf8(request).unwrap();
    let key = request.lines().find_map(|line| {
        line.to_ascii_lowercase().starts_with("sec-websocket-key").then(|| &line[19..])
    });
    let accept = tungstenite::handshake::derive_accept_key(key.unwrap().trim().as_bytes());
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
    );
    server.write_all(answer.as_bytes()).await.unwrap();
    server
}

/// Creates a link at both ends.
async fn pair() -> (Link, Link) {
    let (client, server) = duplex(PIPE);
    let (client, server) =
        tokio::join!(Link::connect(stream(client, 1), "server", limits()), handshake(server));
    (client.unwrap(), Link::accepted(stream(server, 1), &[], limits()).await)
}

/// Creates a server's link, and the raw byte stream of its peer.
async fn raw() -> (Link, DuplexStream) {
    let (client, server) = duplex(PIPE);
    (Link::accepted(stream(server, 1), &[], limits()).await, client)
}

fn note(text: &str) -> Message {
    Message::notification("note", &text)
}

fn frame(text: &str) -> LinkEvent {
    LinkEvent::Frame(Bytes::from(note(text).to_text()))
}

#[tokio::test(start_paused = true)]
async fn messages_larger_than_the_pipe_arrive_in_order_in_both_directions() {
    let (mut client, mut server) = pair().await;
    for n in 0..20 {
        let long = format!("{n} {}", "x".repeat(3000));
        client.send(&note(&long));
        server.send(&note(&long));
    }
    for n in 0..20 {
        let long = format!("{n} {}", "x".repeat(3000));
        let (at_server, at_client) = tokio::join!(server.next(), client.next());
        assert_eq!((at_server, at_client), (Ok(frame(&long)), Ok(frame(&long))));
    }
}

#[tokio::test(start_paused = true)]
async fn a_link_knows_that_a_part_of_a_message_has_arrived() {
    let (mut client, mut server) = pair().await;
    let moment = Duration::from_millis(1);
    client.send(&note("short"));
    assert!(timeout(moment, client.next()).await.is_err());
    assert_eq!((server.next().await, server.part_received()), (Ok(frame("short")), None));
    let long = "x".repeat(3 * PIPE);
    client.send(&note(&long));
    assert!(timeout(moment, client.next()).await.is_err());
    let arrives = Instant::now();
    assert!(timeout(moment, server.next()).await.is_err());
    assert_eq!(server.part_received(), Some(arrives));
    let (arrived, _) = tokio::join!(server.next(), timeout(moment, client.next()));
    assert_eq!((arrived, server.part_received()), (Ok(frame(&long)), None));
}

#[tokio::test(start_paused = true)]
async fn two_quiet_ends_keep_each_other_alive_for_an_hour() {
    let (mut client, mut server) = pair().await;
    let quiet = async {
        tokio::select! { lost = client.next() => lost, lost = server.next() => lost }
    };
    assert!(timeout(Duration::from_secs(3600), quiet).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_silent_peer_is_pinged_after_8_s_and_dead_after_16() {
    let (mut link, mut peer) = raw().await;
    let start = Instant::now();
    let ping = async {
        let mut ping = [0; 2];
        peer.read_exact(&mut ping).await.unwrap();
        (ping, start.elapsed(), peer)
    };
    let (lost, (ping, pinged, _peer)) = tokio::join!(link.next(), ping);
    assert_eq!((ping, pinged), ([0x89, 0], Duration::from_secs(8)));
    assert_eq!((lost, start.elapsed()), (Err(LinkError::Silent), Duration::from_secs(16)));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_reads_a_long_message_is_alive() {
    let (mut link, mut peer) = raw().await;
    let start = Instant::now();
    link.send(&note(&"x".repeat(60_000)));
    let slow = async {
        for _ in 0..25 {
            tokio::time::sleep(Duration::from_secs(2)).await;
            peer.read_exact(&mut [0; 2_000]).await.unwrap();
        }
        peer
    };
    let (lost, _peer) = tokio::join!(link.next(), slow);
    assert_eq!((lost, start.elapsed()), (Err(LinkError::Stuck), Duration::from_secs(50 + 8)));
}

#[tokio::test(start_paused = true)]
async fn data_received_before_the_end_is_read_after_a_failed_write() {
    let (mut link, mut peer) = raw().await;
    let text = note("the last words").to_text();
    // A ping, which needs a pong, followed by a message.
    peer.write_all(&[0x89, 0x80, 0, 0, 0, 0]).await.unwrap();
    peer.write_all(&[0x81, 0x80 | text.len() as u8, 0, 0, 0, 0]).await.unwrap();
    peer.write_all(text.as_bytes()).await.unwrap();
    drop(peer);
    assert_eq!(link.next().await, Ok(frame("the last words")));
    assert!(link.next().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn any_byte_is_a_sign_of_life() {
    let (mut link, mut peer) = raw().await;
    let start = Instant::now();
    let drip = async {
        // The head of a long frame, and then one byte every 10 s.
        peer.write_all(&[0x82, 0x80 | 100, 0, 0, 0, 0]).await.unwrap();
        for _ in 0..9 {
            tokio::time::sleep(Duration::from_secs(10)).await;
            peer.write_all(b"x").await.unwrap();
        }
        peer
    };
    let (lost, _peer) = tokio::join!(link.next(), drip);
    assert_eq!((lost, start.elapsed()), (Err(LinkError::Silent), Duration::from_secs(90 + 16)));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_read_is_stuck_after_8_s() {
    let (mut link, mut peer) = raw().await;
    link.send(&note(&"x".repeat(10_000)));
    let start = Instant::now();
    let talk = async {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            // An empty pong.
            if peer.write_all(&[0x8a, 0x80, 0, 0, 0, 0]).await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        lost = link.next() => assert_eq!(lost, Err(LinkError::Stuck)),
        () = talk => unreachable!("the link holds the pipe"),
    }
    assert_eq!(start.elapsed(), Duration::from_secs(8));
}

#[tokio::test(start_paused = true)]
async fn a_full_outbox_closes_the_link() {
    let (mut link, _peer) = raw().await;
    for _ in 0..30 {
        link.send(&note(&"x".repeat(10_000)));
    }
    assert_eq!(link.next().await, Err(LinkError::Stuck));
}

#[tokio::test(start_paused = true)]
async fn a_pulling_sender_is_notified_of_room() {
    let (mut client, mut server) = pair().await;
    assert!(server.has_room());
    for _ in 0..30 {
        server.send(&note(&"x".repeat(1000)));
    }
    assert!(!server.has_room());
    let reading = async { while client.next().await.is_ok() {} };
    tokio::select! {
        received = server.next() => assert_eq!(received, Ok(LinkEvent::Room)),
        () = reading => unreachable!("the link is there"),
    }
    assert!(server.has_room());
}

#[tokio::test(start_paused = true)]
async fn an_oversized_or_invalid_frame_closes_the_link() {
    let (mut link, mut peer) = raw().await;
    peer.write_all(&[0x82, 0xff, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0]).await.unwrap();
    assert_eq!(link.next().await, Err(LinkError::TooLong));
    let (mut link, mut peer) = raw().await;
    peer.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    assert_eq!(link.next().await, Err(LinkError::Malformed));
}

#[tokio::test(start_paused = true)]
async fn a_close_is_answered_and_a_drop_counts_as_one() {
    let (client, mut server) = pair().await;
    let (lost, ()) = tokio::join!(server.next(), client.finish(Duration::from_secs(1)));
    assert_eq!(lost, Err(LinkError::Closed));
    let (client, mut server) = pair().await;
    drop(client);
    assert_eq!(server.next().await, Err(LinkError::Closed));
}

#[tokio::test(start_paused = true)]
async fn the_final_messages_arrive() {
    let (mut client, mut server) = pair().await;
    server.send(&note("sorry"));
    let received = async { (client.next().await, client.next().await) };
    let (received, ()) = tokio::join!(received, server.finish(Duration::from_secs(1)));
    assert_eq!(received, (Ok(frame("sorry")), Err(LinkError::Closed)));
}

#[tokio::test(start_paused = true)]
async fn a_mark_is_reached_after_everything_before_it_was_read() {
    let (mut client, mut server) = pair().await;
    server.send(&note("one"));
    server.mark(7);
    server.send(&note("two"));
    let reached = async { server.next().await };
    let read = async {
        assert_eq!(client.next().await, Ok(frame("one")));
        assert_eq!(client.next().await, Ok(frame("two")));
        client.next().await
    };
    tokio::select! {
        biased;
        reached = reached => assert_eq!(reached, Ok(LinkEvent::Reached(7))),
        read = read => panic!("{read:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_link_that_does_not_read_still_writes() {
    let (mut client, mut server) = pair().await;
    server.set_reading(false);
    client.send(&note("later"));
    server.send(&note("now"));
    tokio::select! {
        biased;
        read = server.next() => panic!("{read:?}"),
        read = client.next() => assert_eq!(read, Ok(frame("now"))),
    }
    server.set_reading(true);
    tokio::select! {
        biased;
        read = server.next() => assert_eq!(read, Ok(frame("later"))),
        read = client.next() => panic!("{read:?}"),
    }
}
