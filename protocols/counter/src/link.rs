//! One connection as both ends use it: whole lines in, whole lines out, and a beat that tells a quiet peer from a dead one.
//!
//! A [`Link`] is polled by one task. It writes while it reads, so two ends that both have much to say do not wait for each
//! other; it bounds what it holds in both directions; and it decides by itself when the peer is gone. It knows nothing of
//! sessions, and starts no task.

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

/// How many bytes may wait to be written. Whoever fills a link asks [`has_room`](Link::has_room) first; a peer that has us
/// answer more than that, and reads nothing, is given up.
const OUTBOX: usize = 64 * 1024;

/// How many bytes a sender that pulls keeps in the outbox: enough for a full segment.
const FULL_ENOUGH: usize = 4 * 1024;

/// A connection, as lines.
pub(super) struct Link {
    read: ReadHalf<Stream>,
    write: WriteHalf<Stream>,
    id: ConnId,
    inbox: BytesMut,
    outbox: BytesMut,
    liveness: Liveness,
    /// When the peer was last heard.
    heard: Instant,
    /// When the outbox last was empty or became shorter.
    moved: Instant,
    /// When the peer is to be pinged, and how often it was.
    next_ping: Instant,
    pings: u64,
    wants_room: bool,
}

/// What happened on a link.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// A line came.
    Line(String),
    /// There is room again, which [`Link::has_room`] had denied.
    Room,
}

/// Why a link is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum LinkError {
    #[error("closed by the peer")]
    Closed,
    #[error("broken: {0}")]
    Broken(io::ErrorKind),
    #[error("silent")]
    Silent,
    #[error("stuck: the peer reads nothing")]
    Stuck,
    #[error("the peer sent what is not a line of this protocol")]
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

    /// The number that milestones know it by.
    pub(super) fn id(&self) -> u64 {
        self.id.0
    }

    /// Appends a line to what is to be written.
    pub(super) fn send(&mut self, line: &impl Display) {
        if self.outbox.is_empty() {
            self.moved = Instant::now();
        }
        // Straight into the buffer: a BytesMut takes formatted text without an intermediate String.
        std::fmt::Write::write_fmt(&mut self.outbox, format_args!("{line}\n"))
            .expect("a BytesMut grows");
    }

    /// Whether a sender should go on. If not, [`Heard::Room`] will come.
    pub(super) fn has_room(&mut self) -> bool {
        self.wants_room = self.outbox.len() >= FULL_ENOUGH;
        !self.wants_room
    }

    /// Waits for the next line, and meanwhile writes, and keeps the beat. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Result<Heard, LinkError> {
        loop {
            if let Some(line) = self.take_line()? {
                match line.parse() {
                    Ok(Beat::Ping(n)) => self.send(&Beat::Pong(n)),
                    Ok(Beat::Pong(_)) => {}
                    Err(_) => return Ok(Heard::Line(line)),
                }
                continue;
            }
            if self.wants_room && self.outbox.len() < FULL_ENOUGH {
                self.wants_room = false;
                return Ok(Heard::Room);
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
                () = sleep_until(due) => self.beat()?,
            }
        }
    }

    /// Writes what is left, says that nothing follows, and waits until the peer says so, too; no longer than `at_most`. A
    /// connection that is dropped with something unread is reset, and the peer may never read the last words.
    pub(super) async fn finish(mut self, at_most: Duration) {
        let last_words = async {
            self.write.write_all_buf(&mut self.outbox).await?;
            self.write.shutdown().await?;
            while self.read.read_buf(&mut self.inbox).await? > 0 {
                self.inbox.clear();
            }
            io::Result::Ok(())
        };
        // Whether the peer heard them is no longer of interest.
        let _ = timeout(at_most, last_words).await;
    }

    /// Listens on as if the peer could never be silent.
    pub(super) fn listen_for_ever(&mut self) {
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

    /// When the peer is taken for dead, if it says nothing until then.
    fn dead_at(&self) -> Instant {
        let patience = if defect!(HalfOpenUnnoticed) { EVER } else { self.liveness.pong_deadline };
        self.heard + self.liveness.ping_interval + patience
    }

    /// When the peer is taken for stuck, if it takes nothing until then.
    fn stuck_at(&self) -> Option<Instant> {
        (!self.outbox.is_empty()).then(|| self.moved + self.liveness.write_deadline)
    }

    /// When something is to be done though nothing comes.
    fn due(&self) -> Instant {
        let due = self.next_ping.min(self.dead_at());
        self.stuck_at().map_or(due, |stuck| due.min(stuck))
    }

    fn beat(&mut self) -> Result<(), LinkError> {
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
