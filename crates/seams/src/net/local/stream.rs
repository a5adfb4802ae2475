//! A connection between two processes of a machine.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::lock;

/// The capacity of one direction in bytes, as the default of Linux.
const CAPACITY: usize = 212_992;

/// One direction of a connection.
#[derive(Default)]
struct Direction {
    bytes: VecDeque<u8>,
    /// Whether no more bytes follow.
    ended: bool,
    /// Whether the reader has closed its end.
    unread: bool,
    /// Whether the next read without bytes fails with a reset.
    reset: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// One end of a connection. Dropping it closes the connection: with a reset if data was not read, or
/// if the end was never accepted.
pub(super) struct End {
    from: Arc<Mutex<Direction>>,
    to: Arc<Mutex<Direction>>,
    is_accepted: bool,
}

impl End {
    /// Creates both ends of a connection. The second one waits to be accepted.
    pub(super) fn pair() -> (Self, Self) {
        let (one, other) = (Arc::default(), Arc::<Mutex<Direction>>::default());
        let near = Self { from: Arc::clone(&one), to: other.clone(), is_accepted: true };
        (near, Self { from: other, to: one, is_accepted: false })
    }

    /// Handles that the listener accepts this end.
    pub(super) fn accept(&mut self) {
        self.is_accepted = true;
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl AsyncRead for End {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut from = lock(&self.from);
        if from.bytes.is_empty() {
            if std::mem::take(&mut from.reset) {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
            if from.ended || buf.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
            from.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let count = from.bytes.len().min(buf.remaining());
        let read: Vec<u8> = from.bytes.drain(..count).collect();
        buf.put_slice(&read);
        let writer = from.writer.take();
        drop(from);
        wake(writer);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for End {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut to = lock(&self.to);
        if to.ended || to.unread {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let count = buf.len().min(CAPACITY - to.bytes.len());
        if count == 0 && !buf.is_empty() {
            to.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        to.bytes.extend(&buf[..count]);
        let reader = to.reader.take();
        drop(to);
        wake(reader);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let reader = {
            let mut to = lock(&self.to);
            to.ended = true;
            to.reader.take()
        };
        wake(reader);
        Poll::Ready(Ok(()))
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let (has_unread, writer) = {
            let mut from = lock(&self.from);
            from.unread = true;
            let has_unread = !from.bytes.is_empty();
            from.bytes.clear();
            (has_unread, from.writer.take())
        };
        let reader = {
            let mut to = lock(&self.to);
            to.ended = true;
            to.reset |= has_unread || !self.is_accepted;
            to.reader.take()
        };
        wake(writer);
        wake(reader);
    }
}
