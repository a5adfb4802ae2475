//! The behaviour of one end while its peer sends lines, ends, or does not read. Time is paused.

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;

const PIPE: usize = 4096;
const S: Duration = Duration::from_secs(1);

fn limits() -> LineLimits {
    LineLimits { line_bytes: 50_000, outbox_bytes: 200_000, write_deadline: 8 * S }
}

fn lines(io: DuplexStream) -> Lines {
    let (reader, writer) = tokio::io::split(io);
    Lines::new(reader, writer, limits())
}

/// Creates one end, and the raw byte stream of its peer.
fn raw() -> (Lines, DuplexStream) {
    let (near, far) = duplex(PIPE);
    (lines(near), far)
}

fn note(text: &str) -> Message {
    Message::notification("note", &text)
}

fn text(event: Result<LineEvent, LineError>) -> String {
    match event {
        Ok(LineEvent::Message(message)) => message.to_text(),
        Ok(LineEvent::Malformed(_)) => "malformed".into(),
        Ok(LineEvent::TooLong) => "too long".into(),
        Ok(LineEvent::Room) => "room".into(),
        Err(error) => error.to_string(),
    }
}

#[tokio::test(start_paused = true)]
async fn lines_longer_than_the_pipe_arrive_in_order_in_both_directions() {
    let (near, far) = duplex(PIPE);
    let (mut near, mut far) = (lines(near), lines(far));
    let long = |n: usize| note(&format!("{n} {}", "x".repeat(9000)));
    for n in 0..20 {
        near.send(&long(n));
        far.send(&long(n));
    }
    for n in 0..20 {
        let (at_far, at_near) = tokio::join!(far.next(), near.next());
        assert_eq!((text(at_far), text(at_near)), (long(n).to_text(), long(n).to_text()));
    }
}

#[tokio::test(start_paused = true)]
async fn empty_lines_and_carriage_returns_are_skipped() {
    let (mut near, mut far) = raw();
    far.write_all(b"\n\r\n  \n{\"method\":\"a\"}\r\n{\"method\":\"b\"}\n").await.unwrap();
    assert_eq!(text(near.next().await), r#"{"method":"a"}"#);
    assert_eq!(text(near.next().await), r#"{"method":"b"}"#);
}

#[tokio::test(start_paused = true)]
async fn a_line_may_arrive_byte_by_byte() {
    let (mut near, mut far) = raw();
    let sender = async {
        for byte in "{\"method\":\"\u{e9}\"}\n".as_bytes() {
            far.write_all(&[*byte]).await.unwrap();
            tokio::time::sleep(S).await;
        }
    };
    let (event, ()) = tokio::join!(near.next(), sender);
    assert_eq!(text(event), "{\"method\":\"\u{e9}\"}");
}

#[tokio::test(start_paused = true)]
async fn the_stream_is_usable_after_a_line_that_is_no_message() {
    let (mut near, mut far) = raw();
    far.write_all(b"{oops\n\xff\xfe\n[]\n{\"method\":\"a\"}\n").await.unwrap();
    for expected in ["malformed", "malformed", "malformed", r#"{"method":"a"}"#] {
        assert_eq!(text(near.next().await), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_line_that_is_too_long_is_one_event_and_costs_no_memory() {
    let (mut near, mut far) = raw();
    let sender = async {
        for _ in 0..1000 {
            far.write_all(&[b'x'; 1000]).await.unwrap();
        }
        far.write_all(b"\n{\"method\":\"a\"}\n").await.unwrap();
    };
    let reader = async {
        assert_eq!(text(near.next().await), "too long");
        assert_eq!(text(near.next().await), r#"{"method":"a"}"#);
        assert!(near.inbox.capacity() <= 4 * limits().line_bytes);
    };
    tokio::join!(sender, reader);
}

#[tokio::test(start_paused = true)]
async fn a_last_line_without_its_end_counts_if_it_is_a_whole_message() {
    for (last, expected) in [
        (r#"{"method":"b"}"#, vec![r#"{"method":"b"}"#, "closed by the peer"]),
        (r#"{"method":"b""#, vec!["closed by the peer"]),
        ("", vec!["closed by the peer", "closed by the peer"]),
    ] {
        let (mut near, mut far) = raw();
        far.write_all(format!("{{\"method\":\"a\"}}\n{last}").as_bytes()).await.unwrap();
        drop(far);
        assert_eq!(text(near.next().await), r#"{"method":"a"}"#);
        for expected in expected {
            assert_eq!(text(near.next().await), expected, "{last}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_reads_nothing_is_stuck_at_the_deadline() {
    let (mut near, _far) = raw();
    let before = Instant::now();
    near.send(&note(&"x".repeat(2 * PIPE)));
    assert_eq!(text(near.next().await), "stuck: the peer reads no data");
    assert_eq!(before.elapsed(), 8 * S);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_reads_nothing_is_stuck_at_the_deadline_although_more_is_sent() {
    let (mut near, _far) = raw();
    let before = Instant::now();
    near.send(&note(&"x".repeat(2 * PIPE)));
    for _ in 0..7 {
        assert!(timeout(S, near.next()).await.is_err());
        near.send(&note("more"));
    }
    assert_eq!(text(near.next().await), "stuck: the peer reads no data");
    assert_eq!(before.elapsed(), 8 * S);
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_is_not_stuck() {
    let (mut near, mut far) = raw();
    near.send(&note(&"x".repeat(4 * PIPE)));
    let reader = async {
        let mut chunk = [0; PIPE];
        for _ in 0..4 {
            tokio::time::sleep(7 * S).await;
            far.read_exact(&mut chunk).await.unwrap();
        }
        far.write_all(b"{\"method\":\"a\"}\n").await.unwrap();
    };
    let (event, ()) = tokio::join!(near.next(), reader);
    assert_eq!(text(event), r#"{"method":"a"}"#);
}

#[tokio::test(start_paused = true)]
async fn a_full_outbox_is_an_error() {
    let (mut near, _far) = raw();
    near.send(&note(&"x".repeat(limits().outbox_bytes)));
    assert_eq!(near.next().await.unwrap_err(), LineError::Stuck);
}

#[tokio::test(start_paused = true)]
async fn a_sender_learns_when_there_is_room_again() {
    let (mut near, mut far) = raw();
    assert!(near.has_room());
    near.send(&note(&"x".repeat(FULL_ENOUGH + PIPE)));
    assert!(!near.has_room());
    let reader = async {
        let mut received = vec![0; 2 * PIPE];
        far.read_exact(&mut received).await.unwrap();
    };
    let (event, ()) = tokio::join!(near.next(), reader);
    assert_eq!(text(event), "room");
    assert!(near.has_room());
}

#[tokio::test(start_paused = true)]
async fn what_was_received_counts_even_if_writing_fails() {
    let (mut near, mut far) = raw();
    far.write_all(b"{\"method\":\"a\"}\n{\"method\":\"b\"}\n").await.unwrap();
    drop(far);
    near.send(&note("lost"));
    for expected in [r#"{"method":"a"}"#, r#"{"method":"b"}"#, "closed by the peer"] {
        assert_eq!(text(near.next().await), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn the_peer_reads_the_end_and_may_continue_to_send() {
    let (mut near, mut far) = raw();
    near.send(&note("last"));
    near.end_output();
    near.send(&note("dropped"));
    let peer = async {
        let mut received = String::new();
        far.read_to_string(&mut received).await.unwrap();
        assert_eq!(received, "{\"method\":\"note\",\"params\":\"last\"}\n");
        far.write_all(b"{\"method\":\"a\"}\n").await.unwrap();
    };
    let (event, ()) = tokio::join!(near.next(), peer);
    assert_eq!(text(event), r#"{"method":"a"}"#);
}

#[tokio::test(start_paused = true)]
async fn finishing_writes_everything_and_waits_for_the_peer() {
    let (mut near, mut far) = raw();
    near.send(&note(&"x".repeat(2 * PIPE)));
    let before = Instant::now();
    let peer = async {
        let mut received = String::new();
        far.read_to_string(&mut received).await.unwrap();
        tokio::time::sleep(S).await;
        drop(far);
        received.len()
    };
    let ((), received) = tokio::join!(near.finish(5 * S), peer);
    assert!(received > 2 * PIPE);
    assert_eq!(before.elapsed(), S);
}

#[tokio::test(start_paused = true)]
async fn finishing_does_not_wait_for_a_peer_that_never_ends() {
    let (near, _far) = raw();
    let before = Instant::now();
    near.finish(5 * S).await;
    assert_eq!(before.elapsed(), 5 * S);
}

#[tokio::test(start_paused = true)]
async fn a_line_break_between_two_tokens_stays_in_its_line() {
    let (mut near, mut far) = raw();
    near.send_text("{\"method\":\n\"a\"}");
    near.end_output();
    let peer = async {
        let mut received = String::new();
        far.read_to_string(&mut received).await.unwrap();
        assert_eq!(received, "{\"method\": \"a\"}\n");
    };
    tokio::select! { _ = near.next() => panic!("the peer sends nothing"), () = peer => {} }
}

/// A reader that breaks after its first bytes.
struct Breaks(&'static [u8]);

impl AsyncRead for Breaks {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        chunk: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.0.is_empty() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        chunk.put_slice(std::mem::take(&mut self.0));
        Poll::Ready(Ok(()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_breaks_within_a_line_stays_readable() {
    let mut near = Lines::new(Breaks(b"{\"method\":\"a\"}\n{\"meth"), tokio::io::sink(), limits());
    assert_eq!(text(near.next().await), r#"{"method":"a"}"#);
    assert_eq!(text(near.next().await), "broken: connection reset");
    assert_eq!(text(near.next().await), "closed by the peer");
}
