//! The body of an HTTP response on its way from the core to its reader: a bounded queue of pieces, and how it ends.
//!
//! The two ends are a [`Feed`], which the core has, and a [`Body`], which the reader has. What the server says about the body
//! comes in its place, behind the pieces before it; what happens to the body here (its connection is lost, its reader is too
//! slow, the client is closed) comes at once, in the place of the pieces that wait. Either is said once.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use tokio::sync::Notify;

use super::Failure;
use super::command::{Command, Commands};

/// How much may wait for the reader.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyWindow {
    pub(super) pieces: usize,
    pub(super) bytes: usize,
}

/// What both ends have.
struct Queue {
    room: BodyWindow,
    waiting: Mutex<Waiting>,
    /// There is one reader: a permit that is kept wakes it.
    wake: Notify,
}

#[derive(Default)]
struct Waiting {
    pieces: VecDeque<Bytes>,
    bytes: usize,
    /// How it ends behind the pieces, since that is known.
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

/// The core's end. When its last copy goes, and the body has not ended, the client is closed.
#[derive(Clone)]
pub(super) struct Feed(Arc<Fed>);

struct Fed {
    number: u64,
    queue: Arc<Queue>,
}

impl Drop for Fed {
    fn drop(&mut self) {
        self.queue.end(Err(Failure::Closed), true);
    }
}

impl Feed {
    /// The number of the body: `http-N` on the wire.
    pub(super) fn number(&self) -> u64 {
        self.0.number
    }

    /// A piece came.
    ///
    /// # Errors
    /// [`Failure::BodyOverrun`] where there is no room for it: the reader is too slow. One piece always has room.
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

    /// The body is over, behind the pieces that wait. Nothing where it has ended.
    pub(super) fn end(&self, ending: Result<(), Failure>) {
        self.0.queue.end(ending, false);
    }

    /// The body fails at once: what waits is let go. Nothing where it has ended.
    pub(super) fn fail(&self, failure: Failure) {
        self.0.queue.end(Err(failure), true);
    }
}

impl PartialEq for Feed {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Feed {}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Feed({})", self.number())
    }
}

/// The body of a response, piece by piece. It lives as long as the connection over which it was asked for.
///
/// Dropping it forgets what is left of it; the server is not told, and may go on sending.
pub struct Body {
    number: u64,
    queue: Arc<Queue>,
    commands: Commands,
    over: bool,
}

impl Drop for Body {
    fn drop(&mut self) {
        // Where nobody listens any more, there is nothing to forget.
        let _ = self.commands.send(Command::Forget(self.number));
    }
}

impl Body {
    /// The next piece; `None` where the body is over. A failure is said once, and is the last that is said. Dropping the future
    /// loses nothing.
    ///
    /// # Errors
    /// [`Failure::ConnectionLost`] where its connection died, at once; [`Failure::BodyOverrun`] where more waited than the limits
    /// allow; [`Failure::BodyBroken`] where the server could not read it to its end; [`Failure::BodyGap`] where pieces are
    /// missing; and those of a client that has failed.
    pub async fn next(&mut self) -> Option<Result<Bytes, Failure>> {
        while !self.over {
            if let Some(next) = self.take() {
                self.over = matches!(next, None | Some(Err(_)));
                return next;
            }
            self.queue.wake.notified().await;
        }
        None
    }

    /// What comes next, if that is known.
    fn take(&self) -> Option<Option<Result<Bytes, Failure>>> {
        let mut waiting = self.queue.waiting();
        if let Some(piece) = waiting.pieces.pop_front() {
            waiting.bytes -= piece.len();
            return Some(Some(Ok(piece)));
        }
        waiting.ending.clone().map(|ending| ending.err().map(Err))
    }
}

/// The two ends of a body.
pub(super) fn body(number: u64, room: BodyWindow, commands: Commands) -> (Feed, Body) {
    let queue = Arc::new(Queue { room, waiting: Mutex::default(), wake: Notify::new() });
    (
        Feed(Arc::new(Fed { number, queue: queue.clone() })),
        Body { number, queue, commands, over: false },
    )
}

/// What a body is called on the wire.
pub(super) fn request_id(number: u64) -> String {
    format!("http-{number}")
}

/// The number of the body that is called so.
pub(super) fn number(request_id: &str) -> Option<u64> {
    request_id.strip_prefix("http-")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    fn ends(pieces: usize, bytes: usize) -> (Feed, Body) {
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
    async fn what_the_server_says_comes_behind_the_pieces() {
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
    async fn what_happens_here_comes_at_once_and_is_said_once() {
        let (feed, body) = ends(9, 99);
        feed.push(piece("a")).unwrap();
        feed.fail(Failure::ConnectionLost);
        feed.fail(Failure::Closed);
        assert_eq!(all(body).await, [Err(Failure::ConnectionLost)]);
    }

    #[tokio::test]
    async fn a_body_whose_client_has_gone_fails_as_closed() {
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
    async fn a_reader_that_waits_is_woken() {
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
    fn a_body_is_known_by_what_it_is_called() {
        assert_eq!(number(&request_id(7)), Some(7));
        assert_eq!([number("http-"), number("http-x"), number("7"), number("http--1")], [None; 4]);
    }
}
