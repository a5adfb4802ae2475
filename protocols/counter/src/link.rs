//! One connection, as both ends use it: whole lines in and out, and a heartbeat that distinguishes
//! a quiet peer from a dead one.
//!
//! A single task polls a [`Link`]. The link writes while it reads, so two ends that both send much
//! data do not wait for each other. It limits its buffers in both directions, and detects a lost
//! peer itself. It contains no session state, and starts no task.

use std::fmt::Display;
use std::io;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use reknit_resume::EVER;
use reknit_seams::defect;
use reknit_seams::net::{ConnId, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::time::{Instant, sleep_until, timeout};

use super::limits::Liveness;
use super::wire::{Beat, LONGEST_LINE};

/// The maximum number of bytes that wait to be written. A sender checks
/// [`has_room`](Link::has_room) first. A peer whose requests cause more answers than that, and that
/// reads nothing, is given up.
const OUTBOX: usize = 64 * 1024;

/// The number of bytes that a pulling sender keeps in the outbox: enough for a full segment.
const FULL_ENOUGH: usize = 4 * 1024;

/// A connection as a sequence of lines.
pub(super) struct Link {
    read: ReadHalf<Stream>,
    write: WriteHalf<Stream>,
    id: ConnId,
    inbox: BytesMut,
    outbox: BytesMut,
    liveness: Liveness,
    /// The time at which data last arrived from the peer.
    heard: Instant,
    /// The time at which the outbox was last empty, or last became shorter.
    moved: Instant,
    /// The time of the next ping.
    next_ping: Instant,
    pings: u64,
    wants_room: bool,
}

/// An event on a link.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LinkEvent {
    /// A line arrived.
    Line(String),
    /// There is room again after [`Link::has_room`] returned `false`.
    Room,
}

/// The reason why a link ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum LinkError {
    #[error("closed by the peer")]
    Closed,
    #[error("broken: {0}")]
    Broken(io::ErrorKind),
    #[error("silent")]
    Silent,
    #[error("stuck: the peer reads no data")]
    Stuck,
    #[error("the peer sent an invalid line")]
    Malformed,
}

impl Link {
    pub(super) fn new(stream: Stream, liveness: Liveness) -> Self {
        let id = stream.id();
        let (read, write) = tokio::io::split(stream);
        let now = Instant::now();
        let (inbox, outbox) = (BytesMut::new(), BytesMut::new());
        let next_ping = now + liveness.ping_interval;
        Self {
            read,
            write,
            id,
            inbox,
            outbox,
            liveness,
            heard: now,
            moved: now,
            next_ping,
            pings: 0,
            wants_room: false,
        }
    }

    /// The connection's number in milestones.
    pub(super) fn id(&self) -> u64 {
        self.id.0
    }

    /// Appends a line to the outbox.
    pub(super) fn send(&mut self, line: &impl Display) {
        if self.outbox.is_empty() {
            self.moved = Instant::now();
        }
        // Formats directly into the buffer, without an intermediate `String`.
        std::fmt::Write::write_fmt(&mut self.outbox, format_args!("{line}\n"))
            .expect("a BytesMut grows");
    }

    /// Returns whether a sender may send more. If not, [`next`](Link::next) later returns
    /// [`LinkEvent::Room`].
    pub(super) fn has_room(&mut self) -> bool {
        self.wants_room = self.outbox.len() >= FULL_ENOUGH;
        !self.wants_room
    }

    /// Waits for the next line; writes the outbox and sends heartbeats in the meantime. The future
    /// can be dropped without a loss of data.
    pub(super) async fn next(&mut self) -> Result<LinkEvent, LinkError> {
        loop {
            if let Some(line) = self.take_line()? {
                match line.parse() {
                    Ok(Beat::Ping(n)) => self.send(&Beat::Pong(n)),
                    Ok(Beat::Pong(_)) => {}
                    Err(_) => return Ok(LinkEvent::Line(line)),
                }
                continue;
            }
            if self.wants_room && self.outbox.len() < FULL_ENOUGH {
                self.wants_room = false;
                return Ok(LinkEvent::Room);
            }
            if self.outbox.len() > OUTBOX {
                return Err(LinkError::Stuck);
            }
            let due = self.due();
            self.inbox.reserve(LONGEST_LINE);
            tokio::select! {
                biased;
                written = self.write.write_buf(&mut self.outbox), if !self.outbox.is_empty() => {
                    written.map_err(|error| LinkError::Broken(error.kind()))?;
                    self.moved = Instant::now();
                }
                read = self.read.read_buf(&mut self.inbox) => {
                    if read.map_err(|error| LinkError::Broken(error.kind()))? == 0 {
                        return Err(LinkError::Closed);
                    }
                    self.heard = Instant::now();
                    self.next_ping = self.heard + self.ping_interval();
                }
                () = sleep_until(due) => self.check_timers()?,
            }
        }
    }

    /// Writes the outbox, shuts down the write side, and waits until the peer does the same, for no
    /// longer than `at_most`. Otherwise the drop of a connection with unread data would reset it,
    /// and the peer might never read the last lines.
    pub(super) async fn finish(mut self, at_most: Duration) {
        let last_words = async {
            self.write.write_all_buf(&mut self.outbox).await?;
            self.write.shutdown().await?;
            while self.read.read_buf(&mut self.inbox).await? > 0 {
                self.inbox.clear();
            }
            io::Result::Ok(())
        };
        // The connection ends in any case, so the result does not matter.
        let _ = timeout(at_most, last_words).await;
    }

    /// Disables the detection of a silent or stuck peer.
    pub(super) fn disable_keepalive(&mut self) {
        self.liveness = Liveness { ping_interval: EVER, pong_deadline: EVER, write_deadline: EVER };
        self.next_ping = self.heard + EVER;
    }

    fn take_line(&mut self) -> Result<Option<String>, LinkError> {
        let Some(end) = self.inbox.iter().position(|&byte| byte == b'\n') else {
            return if self.inbox.len() > LONGEST_LINE {
                Err(LinkError::Malformed)
            } else {
                Ok(None)
            };
        };
        if end > LONGEST_LINE {
            return Err(LinkError::Malformed);
        }
        let line = self.inbox.split_to(end);
        self.inbox.advance(1);
        String::from_utf8(line.to_vec()).map(Some).map_err(|_| LinkError::Malformed)
    }

    fn ping_interval(&self) -> Duration {
        if defect!(PingStorm) { Duration::from_millis(2) } else { self.liveness.ping_interval }
    }

    /// The time at which a silent peer counts as dead.
    fn dead_at(&self) -> Instant {
        let patience = if defect!(HalfOpenUnnoticed) { EVER } else { self.liveness.pong_deadline };
        self.heard + self.liveness.ping_interval + patience
    }

    /// The time at which a peer that reads nothing counts as stuck.
    fn stuck_at(&self) -> Option<Instant> {
        (!self.outbox.is_empty()).then(|| self.moved + self.liveness.write_deadline)
    }

    /// The time of the next timer: a ping, or a dead or stuck peer.
    fn due(&self) -> Instant {
        let due = self.next_ping.min(self.dead_at());
        self.stuck_at().map_or(due, |stuck| due.min(stuck))
    }

    fn check_timers(&mut self) -> Result<(), LinkError> {
        let now = Instant::now();
        if self.dead_at() <= now {
            return Err(LinkError::Silent);
        }
        if self.stuck_at().is_some_and(|at| at <= now) {
            return Err(LinkError::Stuck);
        }
        if self.next_ping <= now {
            self.pings += 1;
            self.next_ping = now + self.ping_interval();
            self.send(&Beat::Ping(self.pings));
        }
        Ok(())
    }
}
