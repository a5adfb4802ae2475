//! JSON-RPC over lines, for both ends of any byte stream: each line is one message.
//!
//! One task polls [`Lines`]. It writes while it reads, so two ends with much to send do not block
//! each other. It bounds its memory in both directions. There is no keepalive: a peer may be silent
//! for as long as it likes, but it must read.
//!
//! - A line ends with LF or CR LF. An empty line is skipped.
//! - A line that is too long or is not a message is an event. The next line is read as usual, so the
//!   caller chooses whether to continue.
//! - The last line may lack its end. It counts only if it is a whole message; otherwise the peer
//!   ended while it wrote, and the rest is dropped.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use reknit_seams::defect;
use reknit_seams::net::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until, timeout};
use tokio_util::codec::{Decoder, Encoder, LinesCodec, LinesCodecError};

use super::{Malformed, Message};

/// The number of bytes in the outbox above which a pulling sender pauses.
const FULL_ENOUGH: usize = 16 * 1024;

/// The size of one read. Lines may be longer.
const READ_BUFFER: usize = 4 * 1024;

/// The limits of one end of a stream of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineLimits {
    /// The maximum length of a received line in bytes.
    pub line_bytes: usize,
    /// The maximum number of bytes that wait to be written. Above it, the peer counts as stuck.
    pub outbox_bytes: usize,
    /// The peer counts as stuck if it accepts no byte for this long while there is something to
    /// write.
    pub write_deadline: Duration,
}

/// A byte stream, as a stream of messages.
pub struct Lines {
    reader: Box<dyn AsyncRead + Send + Unpin>,
    /// `None` after the output has ended.
    writer: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    limits: LineLimits,
    codec: LinesCodec,
    inbox: BytesMut,
    /// Whether there is nothing more to read from the stream.
    ended: bool,
    outbox: BytesMut,
    /// The time since which the peer has accepted nothing, if something waits to be written.
    unwritten: Option<Instant>,
    /// Whether the output ends after the outbox.
    ends_output: bool,
    /// The error of a failed write, until it is reported.
    broken: Option<io::ErrorKind>,
    wants_room: bool,
    timer: Pin<Box<Sleep>>,
}

/// An event on a stream of lines.
#[derive(Debug)]
pub enum LineEvent {
    /// A message arrived.
    Message(Message),
    /// A line arrived that is not a message.
    Malformed(Malformed),
    /// A line arrived that is longer than the limit. Its rest is skipped.
    TooLong,
    /// There is room again, after [`Lines::has_room`] had returned `false`.
    Room,
}

/// The reason why no more lines can be read, or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// The peer sends nothing more, and every line was returned. It may still read.
    #[error("closed by the peer")]
    Closed,
    /// The stream broke. If only writing failed, later calls still return what the peer has sent.
    #[error("broken: {0}")]
    Broken(io::ErrorKind),
    /// The peer does not read.
    #[error("stuck: the peer reads no data")]
    Stuck,
}

impl Lines {
    /// Creates one end from its two directions.
    pub fn new(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        limits: LineLimits,
    ) -> Self {
        Self {
            reader: Box::new(reader),
            writer: Some(Box::new(writer)),
            limits,
            codec: LinesCodec::new_with_max_length(limits.line_bytes),
            inbox: BytesMut::new(),
            ended: false,
            outbox: BytesMut::new(),
            unwritten: None,
            ends_output: false,
            broken: None,
            wants_room: false,
            timer: Box::pin(sleep_until(Instant::now())),
        }
    }

    /// Creates one end of a connection.
    pub fn of(stream: Stream, limits: LineLimits) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        Self::new(reader, writer, limits)
    }

    /// Appends a message to the outbox, without a version.
    pub fn send(&mut self, message: &Message) {
        self.send_text(&message.to_text());
    }

    /// Appends an encoded message to the outbox. After the end of the output, it is dropped.
    pub fn send_text(&mut self, text: &str) {
        if self.writer.is_none() || self.ends_output {
            return;
        }
        // In JSON, a line break is only possible between two tokens.
        let encoded = if text.contains('\n') {
            self.codec.encode(text.replace('\n', " "), &mut self.outbox)
        } else {
            self.codec.encode(text, &mut self.outbox)
        };
        debug_assert!(encoded.is_ok(), "writing to memory does not fail");
        self.unwritten.get_or_insert_with(Instant::now);
    }

    /// Whether a sender should continue. If not, [`LineEvent::Room`] follows later.
    pub fn has_room(&mut self) -> bool {
        self.wants_room = self.outbox.len() >= FULL_ENOUGH;
        !self.wants_room
    }

    /// Ends the output after the outbox: the peer then reads the end of its input. Reading
    /// continues.
    pub fn end_output(&mut self) {
        self.ends_output = true;
        if self.writer.is_some() {
            self.unwritten.get_or_insert_with(Instant::now);
        }
    }

    /// Waits for the next event; meanwhile it writes. Cancellation safe: dropping the future loses
    /// nothing.
    ///
    /// # Errors
    /// [`LineError`]. Everything that the peer sent before is returned first, except after
    /// [`LineError::Stuck`].
    pub async fn next(&mut self) -> Result<LineEvent, LineError> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Polls for the next event, like [`Lines::next`].
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<LineEvent, LineError>> {
        if self.outbox.len() > self.limits.outbox_bytes {
            return Poll::Ready(Err(LineError::Stuck));
        }
        self.write(cx);
        if self.wants_room && self.outbox.len() < FULL_ENOUGH && self.broken.is_none() {
            self.wants_room = false;
            return Poll::Ready(Ok(LineEvent::Room));
        }
        if let Poll::Ready(event) = self.read(cx) {
            return Poll::Ready(event);
        }
        if let Some(kind) = self.broken.take() {
            return Poll::Ready(Err(LineError::Broken(kind)));
        }
        self.check_timer(cx).map(|()| Err(LineError::Stuck))
    }

    /// Writes the outbox, ends the output, and waits for the end of the input, all of it at most for
    /// `at_most`. If a connection is dropped with unread data, it is reset, and the peer may never
    /// read the final messages.
    pub async fn finish(mut self, at_most: Duration) {
        self.end_output();
        let finished = poll_fn(|cx| {
            loop {
                match ready!(self.poll_next(cx)) {
                    Err(LineError::Stuck) => return Poll::Ready(()),
                    Err(LineError::Closed) if self.writer.is_none() => return Poll::Ready(()),
                    // The input has ended; the rest of the output follows.
                    Err(LineError::Closed) => {
                        ready!(self.check_timer(cx));
                        return Poll::Ready(());
                    }
                    Ok(_) | Err(LineError::Broken(_)) => {}
                }
            }
        });
        // The connection is over in any case, whether or not the peer read the messages.
        let _ = timeout(at_most, finished).await;
    }

    /// Reads the next line.
    fn read(&mut self, cx: &mut Context<'_>) -> Poll<Result<LineEvent, LineError>> {
        loop {
            if let Some(event) = self.decode() {
                return Poll::Ready(Ok(event));
            }
            if self.ended {
                return Poll::Ready(Err(LineError::Closed));
            }
            let mut chunk = [0; READ_BUFFER];
            let mut chunk = ReadBuf::new(&mut chunk);
            match ready!(Pin::new(&mut self.reader).poll_read(cx, &mut chunk)) {
                Ok(()) if chunk.filled().is_empty() => self.ended = true,
                Ok(()) => self.inbox.extend_from_slice(chunk.filled()),
                Err(error) => {
                    self.ended = true;
                    self.inbox.clear();
                    // The codec remembers how much of the inbox it has searched.
                    self.codec = LinesCodec::new_with_max_length(self.limits.line_bytes);
                    return Poll::Ready(Err(LineError::Broken(error.kind())));
                }
            }
        }
    }

    /// Takes the next line out of the inbox.
    fn decode(&mut self) -> Option<LineEvent> {
        if self.ended {
            // The bug: a message counts only with the end of its line.
            if defect!(LastLineIsDropped) {
                return None;
            }
            // Whole lines were taken before the next read, so this is the start of a line.
            let line = self.codec.decode_eof(&mut self.inbox).ok().flatten()?;
            return Message::parse(line.as_bytes()).ok().map(LineEvent::Message);
        }
        loop {
            match self.codec.decode(&mut self.inbox) {
                Ok(None) => return None,
                Ok(Some(line)) if line.trim_ascii().is_empty() => {}
                Ok(Some(line)) => {
                    return Some(match Message::parse(line.as_bytes()) {
                        Ok(message) => LineEvent::Message(message),
                        Err(malformed) => LineEvent::Malformed(malformed),
                    });
                }
                Err(LinesCodecError::MaxLineLengthExceeded) => return Some(LineEvent::TooLong),
                Err(LinesCodecError::Io(error)) => {
                    return Some(LineEvent::Malformed(Malformed(error.to_string())));
                }
            }
        }
    }

    /// Writes as much as the peer accepts.
    fn write(&mut self, cx: &mut Context<'_>) {
        let Some(writer) = &mut self.writer else { return };
        match write(writer, &mut self.outbox, self.ends_output, &mut self.unwritten, cx) {
            Poll::Pending => {}
            Poll::Ready(Ok(())) => {
                self.unwritten = None;
                if self.ends_output {
                    self.writer = None;
                }
            }
            Poll::Ready(Err(error)) => {
                self.broken = Some(error.kind());
                self.writer = None;
                self.outbox.clear();
                self.unwritten = None;
            }
        }
    }

    /// Is ready when the peer counts as stuck.
    fn check_timer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(since) = self.unwritten else { return Poll::Pending };
        // The bug: a peer that reads nothing counts as stuck only once much waits for it.
        if self.outbox.len() < FULL_ENOUGH && defect!(LittleMayWaitForever) {
            return Poll::Pending;
        }
        let due = since + self.limits.write_deadline;
        if self.timer.deadline() != due {
            self.timer.as_mut().reset(due);
        }
        self.timer.as_mut().poll(cx)
    }
}

/// Writes the outbox, and shuts the writer down if the output ends.
fn write(
    writer: &mut (dyn AsyncWrite + Send + Unpin),
    outbox: &mut BytesMut,
    ends: bool,
    unwritten: &mut Option<Instant>,
    cx: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    while !outbox.is_empty() {
        match ready!(Pin::new(&mut *writer).poll_write(cx, outbox))? {
            0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            count => outbox.advance(count),
        }
        *unwritten = Some(Instant::now());
    }
    if ends {
        return Pin::new(writer).poll_shutdown(cx);
    }
    match unwritten {
        Some(_) => Pin::new(writer).poll_flush(cx),
        None => Poll::Ready(Ok(())),
    }
}

#[cfg(test)]
mod tests;
