//! The server's knowledge about the life of a connection: when it last took bytes.
//!
//! A server-sent stream has one direction, so a client cannot answer a ping on it. The only sign of
//! life is that the connection takes bytes. A heartbeat on every stream makes sure that there are
//! always bytes to take. [`Watched`] records each write; [`Link`] holds the record, and closes the
//! connection on demand.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use reknit_seams::defect;
use reknit_seams::net::{ConnId, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// One connection, as other tasks see it.
#[derive(Debug)]
pub(super) struct Link {
    conn: ConnId,
    accepted: Instant,
    state: Mutex<LinkState>,
    /// Wakes the task of the connection.
    changed: Notify,
}

#[derive(Debug)]
struct LinkState {
    /// When the connection last took bytes.
    progress: Instant,
    /// Since when a write waits for the connection.
    blocked_since: Option<Instant>,
    /// Whether an authorized request is in progress.
    serving: bool,
    closed: Option<Closed>,
}

/// Why the server closes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closed {
    /// Another stream has taken its place.
    Replaced,
    /// It took no bytes for too long.
    Stuck,
    /// Another connection needs its place.
    Evicted,
}

impl Link {
    pub(super) fn new(conn: ConnId, now: Instant) -> Self {
        let state = LinkState { progress: now, blocked_since: None, serving: false, closed: None };
        Self { conn, accepted: now, state: Mutex::new(state), changed: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock().expect("nothing panics under the lock")
    }

    /// Returns the number of the connection.
    pub(super) fn conn(&self) -> ConnId {
        self.conn
    }

    /// Returns when the server accepted the connection.
    pub(super) fn accepted(&self) -> Instant {
        self.accepted
    }

    /// Returns when the connection last took bytes.
    pub(super) fn progress(&self) -> Instant {
        self.state().progress
    }

    /// Starts to count the time without progress anew: a stream begins.
    pub(super) fn begin_stream(&self, now: Instant) {
        self.state().progress = now;
    }

    /// Sets whether an authorized request is in progress.
    pub(super) fn serve(&self, serving: bool) {
        self.state().serving = serving;
    }

    /// Whether an authorized request is in progress, or the connection is being closed.
    pub(super) fn is_serving(&self) -> bool {
        let state = self.state();
        state.serving || state.closed.is_some()
    }

    /// Closes the connection. Only the first reason counts.
    pub(super) fn close(&self, why: Closed) {
        self.state().closed.get_or_insert(why);
        self.changed.notify_one();
    }

    /// Completes when the server has a reason to close the connection: one was given, or a write
    /// waits for `write_deadline`. Only the task of the connection may wait.
    pub(super) async fn closed(&self, write_deadline: Duration) -> Closed {
        loop {
            let blocked = {
                let state = self.state();
                if let Some(why) = state.closed {
                    return why;
                }
                state.blocked_since
            };
            let due = blocked.map(|since| since + write_deadline);
            tokio::select! {
                biased;
                // No wake-up is lost between the look and this wait: only the task of the connection
                // waits, so `Notify` stores the permit of a change that comes before the wait.
                () = self.changed.notified() => {}
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    let mut state = self.state();
                    if state.blocked_since == blocked {
                        state.closed.get_or_insert(Closed::Stuck);
                    }
                }
            }
        }
    }

    fn took_bytes(&self) {
        let mut state = self.state();
        state.progress = Instant::now();
        // The bug: a connection that was blocked once counts as blocked since then.
        if !defect!(FirstBlockCounts) {
            state.blocked_since = None;
        }
    }

    fn blocked(&self) {
        let first = {
            let mut state = self.state();
            let first = state.blocked_since.is_none();
            let since = state.blocked_since.filter(|_| !defect!(EachWriteBlocksAnew));
            state.blocked_since = Some(since.unwrap_or_else(Instant::now));
            first
        };
        if first {
            self.changed.notify_one();
        }
    }
}

/// A stream that records its writes.
pub(super) struct Watched {
    stream: Stream,
    link: Arc<Link>,
}

impl Watched {
    pub(super) fn new(stream: Stream, link: Arc<Link>) -> Self {
        Self { stream, link }
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        match &written {
            Poll::Ready(Ok(_)) => self.link.took_bytes(),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.link.blocked(),
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::time::{sleep, timeout};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Returns a link, its watched end with a buffer of 4 bytes, and the other end.
    fn pair() -> (Arc<Link>, Watched, tokio::io::DuplexStream) {
        let (near, far) = tokio::io::duplex(4);
        let link = Arc::new(Link::new(ConnId(1), Instant::now()));
        (link.clone(), Watched::new(Stream::new(near, ConnId(1)), link), far)
    }

    #[tokio::test(start_paused = true)]
    async fn progress_is_the_last_time_that_bytes_were_taken() {
        let (link, mut near, _far) = pair();
        let start = link.progress();
        sleep(SECOND).await;
        near.write_all(b"ab").await.unwrap();
        assert_eq!(link.progress() - start, SECOND);
        sleep(SECOND).await;
        let full = timeout(SECOND, near.write_all(b"cdef")).await;
        assert!(full.is_err());
        assert_eq!(link.progress() - start, 2 * SECOND, "a part of it was taken");
    }

    #[tokio::test(start_paused = true)]
    async fn a_blocked_write_closes_the_connection_at_its_deadline() {
        let (link, mut near, _far) = pair();
        let start = Instant::now();
        let write = near.write_all(b"abcdef");
        let why = tokio::select! {
            _ = write => panic!("nobody reads"),
            why = link.closed(5 * SECOND) => why,
        };
        assert_eq!((why, start.elapsed()), (Closed::Stuck, 5 * SECOND));
    }

    #[tokio::test(start_paused = true)]
    async fn every_byte_taken_moves_the_deadline() {
        use tokio::io::AsyncReadExt;
        let (link, mut near, mut far) = pair();
        let start = Instant::now();
        let slow = async {
            for _ in 0..4 {
                sleep(4 * SECOND).await;
                far.read_u8().await.unwrap();
            }
            std::future::pending::<()>().await
        };
        let why = tokio::select! {
            _ = near.write_all(&[0; 99]) => panic!("it is too slow"),
            () = slow => unreachable!(),
            why = link.closed(5 * SECOND) => why,
        };
        assert_eq!((why, start.elapsed()), (Closed::Stuck, 21 * SECOND));
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_stays_open_until_it_is_closed() {
        let (link, _near, _far) = pair();
        assert!(timeout(1000 * SECOND, link.closed(SECOND)).await.is_err());
        link.close(Closed::Replaced);
        link.close(Closed::Evicted);
        assert_eq!(link.closed(SECOND).await, Closed::Replaced);
    }
}
