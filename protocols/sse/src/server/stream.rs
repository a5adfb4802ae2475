//! The body of a stream: it pulls events from the log by position, and writes them in a framing.
//!
//! A stream of the past and of the present is the same loop. Without events it sends a sign of life
//! at every heartbeat. A stream ends in one of two ways: after the ending of the command, the body
//! ends; in every other case it fails, so that the client receives an incomplete answer. An end of
//! stream without the ending is never a success.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::stream::unfold;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use reknit_seams::env::WallClock;
use reknit_seams::{defect, milestone, point};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::answer::{Body, BodyError};
use super::command::Pull;
use super::registry::Running;
use super::shared::milliseconds;
use crate::limits::ServerLimits;
use crate::wire::{Cursor, Epoch, Event, Framing, Record};

#[path = "defects/stream.rs"]
mod defects;

pub(super) use defects::StreamDefects;

/// A stream that is attached to a command.
pub(super) struct EventStream {
    pub(super) running: Arc<Running>,
    pub(super) generation: u64,
    /// The stream has sent everything up to this position.
    pub(super) after: u64,
    pub(super) epoch: Epoch,
    pub(super) framing: Framing,
    /// The bytes to send before the first event.
    pub(super) head: Bytes,
    pub(super) clock: Arc<dyn WallClock>,
    pub(super) limits: ServerLimits,
    pub(super) changes: watch::Receiver<()>,
    /// When the next sign of life is due.
    pub(super) heartbeat: Instant,
    pub(super) defects: StreamDefects,
}

/// The start of every stream: what a standard client needs, and the name of the command if it was
/// started by this request.
pub(super) fn head(
    framing: Framing,
    limits: &ServerLimits,
    cursor: Cursor,
    init: Option<&Record>,
) -> Bytes {
    let mut head = BytesMut::from(&framing.prelude(limits.retry)[..]);
    if let Some(init) = init {
        head.extend_from_slice(&framing.encode(cursor, init));
    }
    head.freeze()
}

impl EventStream {
    /// Returns the body that sends the stream.
    pub(super) fn into_body(self) -> Body {
        let frames = unfold(self, |mut stream| async move {
            let bytes = stream.next().await?;
            Some((bytes.map(Frame::data), stream))
        });
        BodyExt::boxed_unsync(StreamBody::new(frames))
    }

    /// Returns the next bytes; `None` after the ending.
    async fn next(&mut self) -> Option<Result<Bytes, BodyError>> {
        if !self.head.is_empty() {
            let head = std::mem::take(&mut self.head);
            return Some(Ok(self.sent(head)));
        }
        loop {
            self.changes.mark_unchanged();
            if let Some(passed) = self.hand_off().await {
                return passed.map(Ok);
            }
            point!("sse.server.pull", generation = self.generation).await;
            let (timestamp, most) = (milliseconds(&*self.clock), self.limits.batch_bytes);
            let pulled = self.running.command().pull(self.generation, self.after, most, timestamp);
            match pulled {
                Pull::Events { records, after } => {
                    self.after = after;
                    if !defect!(ReadsWakeNoTask) {
                        self.running.was_read();
                    }
                    let due = self.heartbeat;
                    let bytes = self.encode(&records);
                    if defect!(HeartbeatKeepsItsPace) {
                        self.heartbeat = due;
                    }
                    return Some(Ok(bytes));
                }
                Pull::Nothing => {
                    point!("sse.server.pull.looked", generation = self.generation).await;
                    if defect!(PullLostWakeUp) {
                        self.changes.mark_unchanged();
                    }
                }
                Pull::End => return None,
                Pull::Fenced if defect!(LoserEndsCleanly) => return None,
                Pull::Fenced => return Some(Err(BodyError::Replaced)),
            }
            tokio::select! {
                biased;
                changed = self.changes.changed() => if changed.is_err() {
                    return Some(Err(BodyError::Replaced));
                },
                () = sleep_until(self.heartbeat), if !self.keeps_silent() => {
                    self.defects.has_beaten = true;
                    let ping = Record::unlogged(milliseconds(&*self.clock), Event::Ping);
                    return Some(Ok(self.encode(&[ping])));
                }
            }
        }
    }

    fn encode(&mut self, records: &[Record]) -> Bytes {
        let mut bytes = BytesMut::new();
        for record in records {
            let own = record.position.filter(|_| !defect!(BatchSharesAnId));
            let mut after = own.unwrap_or(self.after);
            if let Event::Gap(gap) = &record.event {
                let (first, last) = (gap.first, gap.last);
                let command = self.running.id.as_str();
                milestone!("sse.server.gap", command, first, last);
                after = last;
            }
            if record.event == Event::Ping && defect!(PingsForgetThePosition) {
                after = 0;
            }
            let cursor = Cursor::new(self.epoch, after);
            bytes.extend_from_slice(&self.framing.encode(cursor, record));
        }
        self.sent(bytes.freeze())
    }

    fn sent(&mut self, bytes: Bytes) -> Bytes {
        self.heartbeat = Instant::now() + self.limits.heartbeat;
        bytes
    }
}
