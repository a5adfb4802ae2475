//! A process as a byte stream, for whatever speaks over tokio's traits: what it prints is read, what is written is its input.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use reknit_seams::net::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Event, Events, Failure, Process};
use crate::wire::process::OutputStream;

/// How many bytes are written at once.
const PIECE: usize = 64 * 1024;

/// What a process on the server prints, and what it reads, as one stream of bytes that survives lost connections.
///
/// Read are its standard output from the first byte on, or its terminal; not what it complains, for which
/// [`Process::events`] is there. The stream ends when the process has exited and nobody holds its output any more.
///
/// What was written has reached the server when a flush succeeds; of what was not flushed, the last piece may be lost with this
/// handle. Each write is a round trip: many small ones are better put together, by a [`BufWriter`](tokio::io::BufWriter).
///
/// The protocol has no word for the end of an input: a shutdown flushes, and the process reads on.
/// [`Process::terminate`] ends it. A process that was started without `pipe_stdin` cannot be written to.
///
/// # When a connection is lost
///
/// Reading goes on afterwards, where it was. Writing does where the limit `retry_writes` is on: each byte is written once. It
/// is off by default; then a write that was in flight fails, nobody knows whether it took effect, and every later one fails for
/// the same reason, so that nothing is ever written behind a hole.
///
/// # Errors
///
/// They carry a [`Failure`], and stay the same however often one asks. `BrokenPipe`: the process does not read, or is over.
/// [`Failure::Unanswered`]: it has not read for as long as `call_wait`, and the server's buffer for it is full.
/// A reader who is slower than the client's log is long is told so ([`Failure::Lagged`]): nothing holds the process up.
pub struct Stdio {
    process: Process,
    reading: Reading,
    /// What was told and is not read yet.
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
    /// The stream of a process. Where it has several, each reads everything, and what they write is mixed.
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
        Failure::NotWritten(_) => io::ErrorKind::BrokenPipe,
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
            // It is on its way at once, and not only when somebody asks for more. Why it fails, if it does, the next call tells.
            let _ = self.poll_written(context);
        }
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_written(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(context)
    }
}
