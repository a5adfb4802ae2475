//! One connection for both ends: whole messages in, whole messages out, and a keepalive that
//! distinguishes a quiet peer from a dead one.
//!
//! One task polls a [`Link`]. The link writes while it reads, so two ends with much to send do not
//! block each other. It bounds its memory in both directions, and it decides by itself when the
//! peer is dead. It knows nothing about sessions or the content of messages, and spawns no task.
//!
//! The keepalive uses WebSocket's own ping and pong. Any byte from the peer is a sign of life;
//! silence causes a ping, and further silence means that the peer is dead. This works with a peer
//! that never pings, and each ping of the peer is answered. The link also pings if it has sent
//! nothing itself for an interval: the peer's ping may be queued behind a long message that is
//! still in transit, so the peer needs a sign of life before this end can answer. This end's pong
//! may be queued behind a long message too. If writing of that message continues after it had to
//! wait for room, the peer is reading, which is also a sign of life.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Sink, Stream as _};
use reknit_resume::EVER;
use reknit_seams::defect;
use reknit_seams::net::{ConnId, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message as Frame};

use super::WireLimits;

/// The number of bytes in the outbox above which a pulling sender pauses.
const FULL_ENOUGH: usize = 16 * 1024;

/// The size of one read. Frames may be longer.
const READ_BUFFER: usize = 4 * 1024;

/// A connection, as a stream of messages.
pub struct Link {
    socket: WebSocketStream<ActivityStream>,
    id: ConnId,
    limits: WireLimits,
    outbox: VecDeque<Frame>,
    outbox_bytes: usize,
    /// The time since which something waits to be written.
    unwritten: Option<Instant>,
    next_ping: Instant,
    wants_room: bool,
    /// Whether frames are read.
    reads: bool,
    timer: Pin<Box<Sleep>>,
}

/// An event on a link.
#[derive(Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// A frame arrived: a message, if [`Message::parse`](super::Message::parse) accepts it.
    Frame(Bytes),
    /// There is room again, after [`Link::has_room`] had returned `false`.
    Room,
    /// The peer has read everything that was sent before the mark with this number
    /// ([`Link::mark`]).
    Reached(u64),
}

/// The reason why a link is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The peer closed it.
    #[error("closed by the peer")]
    Closed,
    /// The connection broke.
    #[error("broken: {0}")]
    Broken(io::ErrorKind),
    /// The peer sent nothing, and did not answer a ping.
    #[error("silent")]
    Silent,
    /// The peer does not read.
    #[error("stuck: the peer reads no data")]
    Stuck,
    /// The peer sent something that is not a WebSocket frame.
    #[error("the peer sent an invalid WebSocket frame")]
    Malformed,
    /// The peer sent a message that is longer than this end accepts.
    #[error("the peer sent a message that is too long")]
    TooLong,
}

/// A WebSocket handshake failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the WebSocket upgrade failed")]
pub struct NoWebSocket;

impl Link {
    /// Opens a WebSocket to the server at the other end of `stream`. `host` is the server's name.
    pub async fn connect(
        stream: Stream,
        host: &str,
        limits: WireLimits,
    ) -> Result<Self, NoWebSocket> {
        let id = stream.id();
        let request = format!("ws://{host}/");
        let upgraded = tokio_tungstenite::client_async_with_config(
            request,
            ActivityStream::new(stream),
            Some(config(limits)),
        );
        let (socket, _) = upgraded.await.map_err(|_| NoWebSocket)?;
        Ok(Self::new(socket, id, limits))
    }

    /// Creates the server's end of a WebSocket after its handshake. `read` contains bytes that were
    /// already read after the handshake.
    pub async fn accepted(stream: Stream, read: &[u8], limits: WireLimits) -> Self {
        let id = stream.id();
        let (pulse, config) = (ActivityStream::new(stream), Some(config(limits)));
        let socket =
            WebSocketStream::from_partially_read(pulse, read.to_vec(), Role::Server, config).await;
        Self::new(socket, id, limits)
    }

    fn new(mut socket: WebSocketStream<ActivityStream>, id: ConnId, limits: WireLimits) -> Self {
        let now = Instant::now();
        socket.get_mut().has_part = false;
        let next_ping = now + limits.ping_interval;
        let timer = Box::pin(sleep_until(next_ping));
        let (outbox, unwritten) = (VecDeque::new(), None);
        Self {
            socket,
            id,
            limits,
            outbox,
            outbox_bytes: 0,
            unwritten,
            next_ping,
            wants_room: false,
            reads: true,
            timer,
        }
    }

    /// Returns the connection's number in milestones.
    pub fn id(&self) -> u64 {
        self.id.0
    }

    /// Returns a receiver for the time of the peer's last sign of life. It keeps its last value
    /// after the link is dropped.
    pub fn signs(&self) -> watch::Receiver<Instant> {
        self.socket.get_ref().heard.subscribe()
    }

    /// Returns when the peer last sent something, if a part of a frame has arrived. A long frame takes
    /// its time on a slow link.
    pub fn part_received(&self) -> Option<Instant> {
        let activity = self.socket.get_ref();
        activity.has_part.then(|| activity.last_received())
    }

    /// Appends a message to the outbox.
    pub fn send(&mut self, message: &super::Message) {
        self.send_text(message.to_text());
    }

    /// Appends an encoded message to the outbox.
    pub fn send_text(&mut self, text: impl Into<String>) {
        self.push(Frame::text(text.into()));
    }

    /// Whether a sender should continue. If not, [`LinkEvent::Room`] follows later.
    pub fn has_room(&mut self) -> bool {
        self.wants_room = self.outbox_bytes >= FULL_ENOUGH;
        !self.wants_room
    }

    /// Sets whether frames are read. A link that does not read cannot see that its peer is alive, so
    /// do this only while the outbox has no room: a peer that reads the outbox counts as alive, and
    /// a peer that does not read it is stuck at the write deadline.
    pub fn set_reading(&mut self, reads: bool) {
        self.reads = reads;
    }

    /// Sends a numbered ping. Its pong ([`LinkEvent::Reached`]) proves that the peer has read all
    /// earlier messages: both travel in order, and the peer answers a ping when it reads it.
    pub fn mark(&mut self, number: u64) {
        self.push(Frame::Ping(Bytes::copy_from_slice(&number.to_be_bytes())));
    }

    /// Waits for the next frame; meanwhile it writes, and maintains the keepalive. Cancellation
    /// safe: dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<LinkEvent, LinkError> {
        poll_fn(|cx| self.poll(cx)).await
    }

    /// Writes the rest of the outbox, sends a close, and waits for the peer's close, at most for
    /// `at_most`. If a connection is dropped with unread data, it is reset, and the peer may never
    /// read the final messages.
    pub async fn finish(mut self, at_most: Duration) {
        self.push(Frame::Close(None));
        let last_words = poll_fn(|cx| {
            loop {
                match self.poll(cx) {
                    Poll::Ready(Ok(_)) => {}
                    Poll::Ready(Err(_)) => return Poll::Ready(()),
                    Poll::Pending => return Poll::Pending,
                }
            }
        });
        // The connection is over in any case, whether or not the peer read the messages.
        let _ = timeout(at_most, last_words).await;
    }

    /// Disables the keepalive, as if the peer could never be silent.
    pub fn disable_keepalive(&mut self) {
        self.limits = WireLimits {
            ping_interval: EVER,
            pong_deadline: EVER,
            write_deadline: EVER,
            ..self.limits
        };
        self.next_ping = self.socket.get_ref().last_received() + EVER;
    }

    fn push(&mut self, frame: Frame) {
        self.outbox_bytes += frame.len();
        self.outbox.push_back(frame);
        self.unwritten.get_or_insert_with(Instant::now);
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<LinkEvent, LinkError>> {
        if self.outbox_bytes > self.limits.outbox_bytes {
            return Poll::Ready(Err(LinkError::Stuck));
        }
        loop {
            self.write(cx)?;
            if self.wants_room && self.outbox_bytes < FULL_ENOUGH && !self.is_broken() {
                self.wants_room = false;
                return Poll::Ready(Ok(LinkEvent::Room));
            }
            let received =
                if self.reads { Pin::new(&mut self.socket).poll_next(cx) } else { Poll::Pending };
            if received.is_ready() {
                self.socket.get_mut().has_part = false;
            }
            match received {
                Poll::Ready(Some(Ok(Frame::Text(text)))) => {
                    return Poll::Ready(Ok(LinkEvent::Frame(text.into())));
                }
                Poll::Ready(Some(Ok(Frame::Binary(bytes)))) => {
                    return Poll::Ready(Ok(LinkEvent::Frame(bytes)));
                }
                // The pong is in the socket's buffer; the next iteration writes it first.
                Poll::Ready(Some(Ok(Frame::Ping(_)))) => {
                    self.unwritten = self.unwritten.or_else(|| Some(Instant::now()))
                }
                Poll::Ready(Some(Ok(Frame::Pong(payload)))) => {
                    // The keepalive's own pings have no number.
                    if let Ok(number) = <[u8; 8]>::try_from(&payload[..]) {
                        return Poll::Ready(Ok(LinkEvent::Reached(u64::from_be_bytes(number))));
                    }
                }
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(lost(&error))),
                Poll::Ready(None) => return Poll::Ready(Err(LinkError::Closed)),
                Poll::Pending => match self.check_timers(cx)? {
                    Poll::Ready(()) => {}
                    Poll::Pending => return Poll::Pending,
                },
            }
        }
    }

    /// Writes as much as the peer accepts.
    fn write(&mut self, cx: &mut Context<'_>) -> Result<(), LinkError> {
        while let Some(frame) = self.outbox.front() {
            let len = frame.len();
            let Poll::Ready(ready) = Pin::new(&mut self.socket).poll_ready(cx) else {
                return Ok(());
            };
            ready.map_err(|error| lost(&error))?;
            if self.is_broken() {
                return Ok(()); // what is left goes nowhere, and makes no room
            }
            let Some(frame) = self.outbox.pop_front() else { return Ok(()) };
            self.outbox_bytes -= len;
            Pin::new(&mut self.socket).start_send(frame).map_err(|error| lost(&error))?;
        }
        if self.unwritten.is_some()
            && let Poll::Ready(flushed) = Pin::new(&mut self.socket).poll_flush(cx)
        {
            flushed.map_err(|error| lost(&error))?;
            self.unwritten = None;
        }
        Ok(())
    }

    /// Whether writing has failed. There may still be something to read.
    fn is_broken(&self) -> bool {
        self.socket.get_ref().broken.is_some()
    }

    /// Returns the time at which the peer counts as dead if it stays silent.
    fn dead_at(&self) -> Instant {
        let patience = if defect!(PingWithoutDeadline) { EVER } else { self.limits.pong_deadline };
        self.socket.get_ref().last_received() + self.limits.ping_interval + patience
    }

    /// Returns the time at which the peer counts as stuck if it accepts nothing.
    fn stuck_at(&self) -> Option<Instant> {
        let moved = self.socket.get_ref().moved;
        let last = |since: Instant| if defect!(SlowIsStuck) { since } else { since.max(moved) };
        self.unwritten.map(|since| last(since) + self.limits.write_deadline)
    }

    /// Handles the timers; `Pending` if none is due.
    fn check_timers(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkError>> {
        let now = Instant::now();
        if self.dead_at() <= now {
            return Poll::Ready(Err(LinkError::Silent));
        }
        if self.stuck_at().is_some_and(|at| at <= now) {
            return Poll::Ready(Err(LinkError::Stuck));
        }
        self.next_ping =
            self.next_ping.max(self.socket.get_ref().quiet_since() + self.limits.ping_interval);
        if self.next_ping <= now {
            self.next_ping = now + self.limits.ping_interval;
            if !defect!(KeepaliveLost) {
                self.push(Frame::Ping(Bytes::new()));
                return Poll::Ready(Ok(()));
            }
        }
        let due = self.next_ping.min(self.dead_at());
        let due = self.stuck_at().map_or(due, |stuck| due.min(stuck));
        if self.timer.deadline() != due {
            self.timer.as_mut().reset(due);
        }
        self.timer.as_mut().poll(cx).map(Ok)
    }
}

fn config(limits: WireLimits) -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(READ_BUFFER)
        .max_message_size(Some(limits.message_bytes))
        .max_frame_size(Some(limits.message_bytes))
}

fn lost(error: &tungstenite::Error) -> LinkError {
    match error {
        tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed => {
            LinkError::Closed
        }
        tungstenite::Error::Io(error) => LinkError::Broken(error.kind()),
        tungstenite::Error::Protocol(
            tungstenite::error::ProtocolError::ResetWithoutClosingHandshake,
        ) => LinkError::Closed,
        tungstenite::Error::Capacity(_) => LinkError::TooLong,
        _ => LinkError::Malformed,
    }
}

/// A stream that records the peer's last sign of life, and the last time of a write.
///
/// A failed write is reported only after all data received before has been read. So the last answer
/// of a peer that has closed still counts, even if a pong had to be written first.
struct ActivityStream {
    stream: Stream,
    heard: watch::Sender<Instant>,
    moved: Instant,
    /// Whether data has arrived since the last whole frame.
    has_part: bool,
    /// Whether the last write found no room.
    waits_for_room: bool,
    /// The error of a failed write.
    broken: Option<io::ErrorKind>,
}

impl ActivityStream {
    fn new(stream: Stream) -> Self {
        let now = Instant::now();
        Self {
            stream,
            heard: watch::Sender::new(now),
            moved: now,
            has_part: false,
            waits_for_room: false,
            broken: None,
        }
    }

    /// Records a write error and reports success to the writer. The reader gets the error when
    /// there is nothing left to read.
    fn defer_write_error<T>(
        &mut self,
        polled: Poll<io::Result<T>>,
        done: T,
    ) -> Poll<io::Result<T>> {
        match polled {
            Poll::Ready(Err(error)) => {
                self.broken = Some(error.kind());
                Poll::Ready(Ok(done))
            }
            polled => polled,
        }
    }

    fn last_received(&self) -> Instant {
        *self.heard.borrow()
    }

    /// Returns the time since which at least one direction has been silent.
    fn quiet_since(&self) -> Instant {
        self.last_received().min(self.moved)
    }
}

impl AsyncRead for ActivityStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.heard.send_replace(Instant::now());
            self.has_part = true;
        }
        match self.broken {
            Some(how) if polled.is_pending() => Poll::Ready(Err(how.into())),
            _ => polled,
        }
    }
}

impl AsyncWrite for ActivityStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.broken.is_some() {
            return Poll::Ready(Ok(buf.len()));
        }
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        let waited = std::mem::replace(&mut self.waits_for_room, polled.is_pending());
        if matches!(polled, Poll::Ready(Ok(_))) {
            self.moved = Instant::now();
            if waited {
                self.heard.send_replace(self.moved);
            }
        }
        self.defer_write_error(polled, buf.len())
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.broken.is_some() {
            return Poll::Ready(Ok(()));
        }
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.defer_write_error(polled, ())
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
