use tokio::sync::mpsc;

use super::*;
use crate::client::body::{self, Body, BodyWindow};

/// Creates the bodies 1 to `n` of a connection. Their requests are answered, and each body has room
/// for two pieces.
fn bodies(n: u64) -> (Bodies, Vec<Body>) {
    let (commands, _) = mpsc::unbounded_channel();
    let mut bodies = Bodies::default();
    let readers = (1..=n).map(|number| {
        let (feed, reader) =
            body::body(number, BodyWindow { pieces: 2, bytes: 99 }, commands.clone());
        bodies.put(feed.clone());
        bodies.answered(&feed, true);
        reader
    });
    let readers = readers.collect();
    (bodies, readers)
}

fn delta(number: u64, seq: u64, text: &'static str) -> BodyDelta {
    BodyDelta {
        request_id: format!("http-{number}"),
        seq,
        delta_base64: bytes::Bytes::from_static(text.as_bytes()).into(),
        done: false,
        error: None,
    }
}

fn last(number: u64, seq: u64, text: &'static str) -> BodyDelta {
    BodyDelta { done: true, ..delta(number, seq, text) }
}

/// Returns what a reader can read without waiting: the bytes, and the ending if there is one.
async fn readable(body: &mut Body) -> (String, Option<Result<(), Failure>>) {
    let (mut text, mut ending) = (String::new(), None);
    while ending.is_none() {
        let next = tokio::select! {
            biased;
            next = body.next() => next,
            () = tokio::task::yield_now() => break,
        };
        match next {
            Some(Ok(piece)) => text.push_str(std::str::from_utf8(&piece).unwrap()),
            Some(Err(failure)) => ending = Some(Err(failure)),
            None => ending = Some(Ok(())),
        }
    }
    (text, ending)
}

#[tokio::test]
async fn a_body_ends_with_the_bytes_of_its_last_piece() {
    let (mut bodies, mut readers) = bodies(1);
    bodies.on_piece(delta(1, 1, "a")).unwrap();
    assert_eq!(readable(&mut readers[0]).await, ("a".to_owned(), None));
    bodies.on_piece(last(1, 2, "b")).unwrap();
    assert_eq!(readable(&mut readers[0]).await, ("b".to_owned(), Some(Ok(()))));
    assert_eq!(bodies.len(), 0);
}

#[tokio::test]
async fn a_piece_that_is_missing_or_repeated_is_a_gap_behind_those_before_it() {
    for seq in [1, 3] {
        let (mut bodies, mut readers) = bodies(2);
        bodies.on_piece(delta(1, 1, "a")).unwrap();
        bodies.on_piece(delta(1, seq, "b")).unwrap();
        assert_eq!(readable(&mut readers[0]).await, ("a".to_owned(), Some(Err(Failure::BodyGap))));
        assert_eq!(readable(&mut readers[1]).await, (String::new(), None), "the other one goes on");
    }
}

#[tokio::test]
async fn a_body_that_the_server_reports_as_broken_keeps_earlier_pieces() {
    let (mut bodies, mut readers) = bodies(1);
    bodies.on_piece(delta(1, 1, "a")).unwrap();
    bodies.on_piece(BodyDelta { error: Some("gone".into()), ..last(1, 2, "b") }).unwrap();
    assert_eq!(
        readable(&mut readers[0]).await,
        ("ab".to_owned(), Some(Err(Failure::BodyBroken("gone".into()))))
    );
}

#[tokio::test]
async fn a_slow_reader_fails_alone_and_at_once() {
    let (mut bodies, mut readers) = bodies(2);
    for (seq, text) in (1..).zip(["a", "b", "c", "d"]) {
        bodies.on_piece(delta(1, seq, text)).unwrap();
    }
    bodies.on_piece(delta(2, 1, "a")).unwrap();
    assert_eq!(readable(&mut readers[0]).await, (String::new(), Some(Err(Failure::BodyOverrun))));
    assert_eq!(readable(&mut readers[1]).await, ("a".to_owned(), None));
    assert_eq!(bodies.len(), 1);
}

#[tokio::test]
async fn a_lost_connection_fails_its_bodies_and_no_later_body() {
    let (mut bodies, mut readers) = bodies(2);
    bodies.on_piece(delta(1, 1, "a")).unwrap();
    bodies.connection_lost();
    for reader in &mut readers {
        assert_eq!(readable(reader).await, (String::new(), Some(Err(Failure::ConnectionLost))));
    }
    let (commands, _) = mpsc::unbounded_channel();
    let (feed, mut newer) = body::body(3, BodyWindow { pieces: 2, bytes: 99 }, commands);
    bodies.put(feed);
    bodies.on_piece(delta(1, 2, "late")).unwrap();
    bodies.on_piece(delta(3, 1, "new")).unwrap();
    assert_eq!(readable(&mut newer).await, ("new".to_owned(), None));
}

#[tokio::test]
async fn pieces_of_unknown_and_forgotten_bodies_are_ignored() {
    let (mut bodies, mut readers) = bodies(2);
    bodies.forget(1);
    for delta in [
        delta(1, 1, "a"),
        delta(9, 1, "b"),
        BodyDelta { request_id: "else".into(), ..delta(2, 1, "c") },
    ] {
        bodies.on_piece(delta).unwrap();
    }
    assert_eq!(readable(&mut readers[1]).await, (String::new(), None));
    assert_eq!(bodies.len(), 1);
}

#[tokio::test]
async fn pieces_that_come_before_the_answer_are_kept() {
    let (commands, _) = mpsc::unbounded_channel();
    let (feed, mut reader) = body::body(1, BodyWindow { pieces: 2, bytes: 99 }, commands);
    let mut bodies = Bodies::default();
    bodies.put(feed.clone());
    bodies.on_piece(delta(1, 1, "a")).unwrap();
    bodies.answered(&feed, true);
    assert_eq!(readable(&mut reader).await, ("a".to_owned(), None));
}

#[tokio::test]
async fn a_request_that_is_refused_has_no_body() {
    let (commands, _) = mpsc::unbounded_channel();
    let (feed, _reader) = body::body(1, BodyWindow { pieces: 2, bytes: 99 }, commands);
    let mut bodies = Bodies::default();
    bodies.put(feed.clone());
    bodies.answered(&feed, false);
    assert_eq!(bodies.len(), 0);
}
