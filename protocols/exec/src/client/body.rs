//! The body of an HTTP response on its way from the core to its reader: a bounded queue of pieces,
//! and an ending.
//!
//! The core holds a [`BodySender`], and the reader holds a [`Body`]. An ending that the server sends is
//! delivered in order, after the pieces before it. A local failure (the connection is lost, the
//! reader is too slow, the client is closed) is delivered at once and replaces the queued pieces.
//! The reader receives either ending once.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use reknit_seams::defect;
use tokio::sync::Notify;

use super::Failure;
use super::command::{Command, Commands};

/// How much data may wait for the reader.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyWindow {
    pub(super) pieces: usize,
    pub(super) bytes: usize,
}

/// The state that both ends share.
struct Queue {
    room: BodyWindow,
    waiting: Mutex<Waiting>,
    /// There is only one reader, so a stored permit is enough to wake it.
    wake: Notify,
}

#[derive(Default)]
struct Waiting {
    pieces: VecDeque<Bytes>,
    bytes: usize,
    /// How the body ends after the queued pieces, once that is known.
    ending: Option<Result<(), Failure>>,
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("nothing panics under the lock")
    }

    fn end(&self, ending: Result<(), Failure>, at_once: bool) {
        let mut waiting = self.waiting();
        if waiting.ending.is_some() {
            return;
        }
        waiting.ending = Some(ending);
        if at_once {
            (waiting.pieces, waiting.bytes) = (VecDeque::new(), 0);
        }
        drop(waiting);
        self.wake.notify_one();
    }
}

/// The core's end. If the last copy is dropped before the body has ended, the reader gets
/// [`Failure::Closed`].
#[derive(Clone)]
pub(super) struct BodySender(Arc<SenderInner>);

struct SenderInner {
    number: u64,
    queue: Arc<Queue>,
}

impl Drop for SenderInner {
    fn drop(&mut self) {
        self.queue.end(Err(Failure::Closed), true);
    }
}

impl BodySender {
    /// Returns the number of the body: `http-N` on the wire.
    pub(super) fn number(&self) -> u64 {
        self.0.number
    }

    /// Queues a piece that has arrived.
    ///
    /// # Errors
    /// [`Failure::BodyOverrun`] if the queue has no room for it because the reader is too slow. A
    /// single piece always fits.
    pub(super) fn push(&self, piece: Bytes) -> Result<(), Failure> {
        if piece.is_empty() {
            return Ok(());
        }
        let (queue, room) = (&self.0.queue, self.0.queue.room);
        let mut waiting = queue.waiting();
        let is_full =
            waiting.pieces.len() >= room.pieces || waiting.bytes + piece.len() > room.bytes;
        if is_full && !waiting.pieces.is_empty() {
            return Err(Failure::BodyOverrun);
        }
        waiting.bytes += piece.len();
        waiting.pieces.push_back(piece);
        drop(waiting);
        queue.wake.notify_one();
        Ok(())
    }

    /// Ends the body after the queued pieces. Does nothing if it has already ended.
    pub(super) fn end(&self, ending: Result<(), Failure>) {
        self.0.queue.end(ending, false);
    }

    /// Fails the body at once and drops the queued pieces. Does nothing if it has already ended.
    pub(super) fn fail(&self, failure: Failure) {
        self.0.queue.end(Err(failure), true);
    }
}

impl PartialEq for BodySender {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for BodySender {}

impl fmt::Debug for BodySender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Feed({})", self.number())
    }
}

/// The body of a response, piece by piece. It is valid while the connection that carried its
/// request lives.
///
/// Dropping it discards the rest of the body. The client does not notify the server, which may
/// continue to send.
pub struct Body {
    number: u64,
    queue: Arc<Queue>,
    commands: Commands,
    over: bool,
}

impl Drop for Body {
    fn drop(&mut self) {
        // If the driver has ended, the core has already dropped the body.
        let _ = self.commands.send(Command::Forget(self.number));
    }
}

impl Body {
    /// Returns the next piece, or `None` at the end of the body. A failure is returned once, as the
    /// last item. Cancel safe: dropping the future loses nothing.
    ///
    /// # Errors
    /// [`Failure::ConnectionLost`], at once, if the connection died; [`Failure::BodyOverrun`] if
    /// more data waited than the limits allow; [`Failure::BodyBroken`] if the server could not read
    /// the body to its end; [`Failure::BodyGap`] if pieces are missing; and the errors of a failed
    /// client.
    pub async fn next(&mut self) -> Option<Result<Bytes, Failure>> {
        while !self.over {
            if let Some(next) = self.take() {
                self.over = matches!(next, None | Some(Err(_)));
                return next;
            }
            // `Notify` keeps a wake-up that comes between the look and the wait.
            self.queue.wake.notified().await;
        }
        None
    }

    /// Returns the next item if one is available.
    fn take(&self) -> Option<Option<Result<Bytes, Failure>>> {
        let mut waiting = self.queue.waiting();
        if let Some(piece) = waiting.pieces.pop_front() {
            if !defect!(ReadPiecesCount) {
                waiting.bytes -= piece.len();
            }
            return Some(Some(Ok(piece)));
        }
        waiting.ending.clone().map(|ending| ending.err().map(Err))
    }
}

/// Creates both ends of a body.
pub(super) fn body(number: u64, room: BodyWindow, commands: Commands) -> (BodySender, Body) {
    let queue = Arc::new(Queue { room, waiting: Mutex::default(), wake: Notify::new() });
    (
        BodySender(Arc::new(SenderInner { number, queue: queue.clone() })),
        Body { number, queue, commands, over: false },
    )
}

/// Returns the id of a body on the wire.
pub(super) fn request_id(number: u64) -> String {
    format!("http-{number}")
}

/// Returns the number of the body with this id.
pub(super) fn number(request_id: &str) -> Option<u64> {
    request_id.strip_prefix("http-")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    fn ends(pieces: usize, bytes: usize) -> (BodySender, Body) {
        let (commands, _) = mpsc::unbounded_channel();
        body(1, BodyWindow { pieces, bytes }, commands)
    }

    fn piece(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    async fn all(mut body: Body) -> Vec<Result<Bytes, Failure>> {
        let mut all = Vec::new();
        while let Some(next) = body.next().await {
            all.push(next);
        }
        assert_eq!(body.next().await, None, "it stays over");
        all
    }

    #[tokio::test]
    async fn an_ending_from_the_server_follows_the_queued_pieces() {
        let broken = Failure::BodyBroken("gone".into());
        for (ending, last) in [(Ok(()), None), (Err(broken.clone()), Some(Err(broken)))] {
            let (feed, body) = ends(9, 99);
            feed.push(piece("a")).unwrap();
            feed.end(ending);
            feed.fail(Failure::ConnectionLost);
            assert_eq!(
                all(body).await,
                [Ok(piece("a"))].into_iter().chain(last).collect::<Vec<_>>()
            );
        }
    }

    #[tokio::test]
    async fn a_local_failure_replaces_the_queued_pieces_and_is_reported_once() {
        let (feed, body) = ends(9, 99);
        feed.push(piece("a")).unwrap();
        feed.fail(Failure::ConnectionLost);
        feed.fail(Failure::Closed);
        assert_eq!(all(body).await, [Err(Failure::ConnectionLost)]);
    }

    #[tokio::test]
    async fn a_body_of_a_dropped_client_fails_as_closed() {
        let (feed, body) = ends(9, 99);
        let copy = feed.clone();
        drop(feed);
        copy.push(piece("a")).unwrap();
        drop(copy);
        assert_eq!(all(body).await, [Err(Failure::Closed)]);
    }

    #[test]
    fn pieces_and_bytes_are_bounded_and_one_piece_always_has_room() {
        let (feed, _body) = ends(2, 99);
        feed.push(piece("a")).unwrap();
        feed.push(piece("b")).unwrap();
        assert_eq!(feed.push(piece("c")), Err(Failure::BodyOverrun));
        let (feed, _body) = ends(9, 3);
        feed.push(piece("long")).unwrap();
        assert_eq!(feed.push(piece("")), Ok(()), "nothing needs no room");
        assert_eq!(feed.push(piece("a")), Err(Failure::BodyOverrun));
    }

    #[tokio::test]
    async fn a_waiting_reader_is_woken() {
        let (feed, mut body) = ends(9, 99);
        let reader = async { (body.next().await, body.next().await) };
        let writer = async {
            tokio::task::yield_now().await;
            feed.push(piece("a")).unwrap();
            tokio::task::yield_now().await;
            feed.end(Ok(()));
        };
        let (read, ()) = tokio::join!(reader, writer);
        assert_eq!(read, (Some(Ok(piece("a"))), None));
    }

    #[test]
    fn a_request_id_maps_to_the_number_of_its_body() {
        assert_eq!(number(&request_id(7)), Some(7));
        assert_eq!([number("http-"), number("http-x"), number("7"), number("http--1")], [None; 4]);
    }
}
