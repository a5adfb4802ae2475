//! A process as a byte stream for tokio's I/O traits: reads return its output, writes go to its
//! input.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use reknit_seams::defect;
use reknit_seams::net::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Event, Events, Failure, Process};
use crate::wire::process::OutputStream;

/// How many bytes one write sends at most.
const PIECE: usize = 64 * 1024;

/// The output and input of a process on the server, as one byte stream that survives lost
/// connections.
///
/// Reads return the standard output from the first byte on, or the terminal output. They do not
/// return standard error; use [`Process::events`] for that. The stream ends when the process has
/// exited and no other process holds its output open.
///
/// After a successful flush, all written bytes have reached the server. Without a flush, the last
/// piece may be lost when this handle is dropped. Each write is a round trip, so combine many small
/// writes with a [`BufWriter`](tokio::io::BufWriter).
///
/// The protocol cannot signal the end of an input: a shutdown only flushes, and the process
/// continues to read. [`Process::terminate`] ends it. A process that was started without
/// `pipe_stdin` cannot be written to.
///
/// # When a connection is lost
///
/// Reading continues after the recovery where it stopped. If the limit `retry_writes` is on,
/// writing continues too, and each byte is written once. The limit is off by default. Then a write
/// that was in flight fails, and whether it took effect is unknown. Every later write fails for the
/// same reason, so bytes are never written after a missing piece.
///
/// # Errors
///
/// Errors carry a [`Failure`], and repeated calls return the same error. `BrokenPipe`: the process
/// does not read its input, or has exited. [`Failure::Unanswered`]: the process has not read for
/// `call_wait`, and the server's input buffer for it is full. [`Failure::NotKept`]: the stream
/// was created after the client had dropped the first events of the process.
pub struct Stdio {
    process: Process,
    reading: Reading,
    /// Output that has arrived and is not read yet.
    rest: Bytes,
    writing: Writing,
}

enum Reading {
    Waits(BoxFuture<'static, (Events, Option<Event>)>),
    Over(Option<Failure>),
}

enum Writing {
    Ready,
    Waits(BoxFuture<'static, Result<(), Failure>>),
    Broken(Failure),
}

impl Stdio {
    /// Creates a stream of a process. If a process has several streams, each reads all output, and
    /// their writes are interleaved.
    pub fn new(process: Process) -> Self {
        let reading = Reading::next(process.events());
        Self { process, reading, rest: Bytes::new(), writing: Writing::Ready }
    }

    /// Waits until no write is in flight.
    fn poll_written(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Writing::Waits(write) = &mut self.writing {
            self.writing = match ready!(write.as_mut().poll(context)) {
                Ok(()) => Writing::Ready,
                Err(failure) => Writing::Broken(failure),
            };
        }
        Poll::Ready(match &self.writing {
            Writing::Broken(failure) => Err(error(failure)),
            _ => Ok(()),
        })
    }
}

impl Reading {
    fn next(mut events: Events) -> Self {
        Self::Waits(Box::pin(async move {
            let event = events.next().await;
            (events, event)
        }))
    }
}

fn error(failure: &Failure) -> io::Error {
    let kind = match failure {
        Failure::NotWritten(_) if !defect!(BrokenPipeIsOther) => io::ErrorKind::BrokenPipe,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, failure.clone())
}

impl AsyncRead for Stdio {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.rest.is_empty() {
            let (events, event) = match &mut self.reading {
                Reading::Waits(next) => ready!(next.as_mut().poll(context)),
                Reading::Over(None) => return Poll::Ready(Ok(())),
                Reading::Over(Some(failure)) => return Poll::Ready(Err(error(failure))),
            };
            self.reading = match event {
                Some(Event::Failed(_)) if defect!(FailedStreamEnds) => Reading::Over(None),
                Some(Event::Failed(failure)) => Reading::Over(Some(failure)),
                Some(Event::Closed { .. }) | None => Reading::Over(None),
                Some(Event::Output {
                    stream: OutputStream::Stdout | OutputStream::Pty,
                    bytes,
                    ..
                }) => {
                    self.rest = bytes;
                    Reading::next(events)
                }
                Some(Event::Output { .. } | Event::Exited { .. }) => Reading::next(events),
            };
        }
        let count = self.rest.len().min(buffer.remaining());
        buffer.put_slice(&self.rest[..count]);
        self.rest.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stdio {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_written(context))?;
        let piece = Bytes::copy_from_slice(&bytes[..bytes.len().min(PIECE)]);
        let count = piece.len();
        if count > 0 {
            let process = self.process.clone();
            self.writing = Writing::Waits(Box::pin(async move { process.write(piece).await }));
            // Starts the write now instead of at the next poll. The next call returns its error, if
            // any.
            let _ = self.poll_written(context);
        }
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if defect!(FlushWaitsForNothing) {
            return Poll::Ready(Ok(()));
        }
        self.poll_written(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if defect!(ShutdownWaitsForNothing) {
            return Poll::Ready(Ok(()));
        }
        self.poll_flush(context)
    }
}
