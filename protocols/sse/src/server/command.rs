//! One command: its log, and the stream that sends it. No clock, no socket, no task.
//!
//! All functions run under the lock of the command, so each is one atomic step: to append an event
//! and make it visible to the stream; to check a cursor and take the stream over; to read the next
//! events, unless the stream has been taken over.
//!
//! # Who has the stream
//! A command has one stream at a time, as in execd. A new stream replaces the old one
//! - if the old one has ended;
//! - at once, if the request is a later one of the [same client](StreamOwner);
//! - if the connection of the old one has taken no bytes for
//!   [`takeover_after`](crate::limits::ServerLimits::takeover_after).
//!
//! Otherwise the request is refused, with the time after which it may succeed. Each stream has a
//! generation. Later actions of an older generation, also its end, have no effect.
//!
//! # When output waits
//! [`Command::waits`] decides it. With [`hold`](crate::limits::ServerLimits::hold), output waits before it
//! removes an event from the log that the client may not have. The newest bytes of the connection
//! may still be in its buffers, and are lost if it breaks. So an event counts as received if the
//! client has resumed after it, or if the connection took
//! [`in_flight`](crate::limits::ServerLimits::in_flight) bytes behind it.
//! - While a stream is attached, output waits for it, unless the stream has taken all events: further
//!   waiting would bring nothing.
//! - After the stream is lost, output waits for the next one. A command of a shell session has no next
//!   one, so its output does not wait.
//! - Before the first stream, and as soon as the last progress of a stream is older than `hold`, output
//!   does not wait.
//! - The ending never waits. So output leaves room for it: output waits before the output and the ending
//!   together remove such an event. A log that cannot hold two events has no room: there the ending
//!   removes the last output.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reknit_resume::{EVER, Holder};
use reknit_seams::defect;
use tokio::time::Instant;

use self::defects::CommandDefects;
use super::link::Link;
use super::log::{CommandLog, Ended, Following};
use crate::wire::{
    CommandId, CommandStatus, Cursor, CursorError, Ending, Event, Gap, OutputStream, Record,
    Refusal, StreamOwner,
};

#[path = "defects/command.rs"]
mod defects;

/// A command of the server.
pub(super) struct Command {
    pub(super) log: CommandLog,
    holder: Holder<StreamState>,
    /// The last stream, if it is lost and no other has followed.
    lost: Option<StreamState>,
    /// The shell session to which the command belongs.
    session: Option<String>,
    /// When it was started, in milliseconds since 1970.
    started: u64,
    started_at: Instant,
    interrupted: bool,
    /// Whether events had to go for new ones.
    overflowed: bool,
    /// The newest stream for which output has waited.
    held_for: u64,
    pub(super) defects: CommandDefects,
}

/// The state of the stream that sends the log.
#[derive(Debug)]
struct StreamState {
    owner: Option<StreamOwner>,
    link: Arc<Link>,
    /// The position up to which the client has the log: it has resumed from here.
    confirmed: u64,
    /// The position up to which the stream has taken the log.
    taken: u64,
}

/// The result of a successful [`Command::attach`].
#[derive(Debug)]
pub(super) struct Attached {
    pub(super) generation: u64,
    /// The connection of the stream that was replaced.
    pub(super) replaced: Option<Arc<Link>>,
    /// The oldest position that is available, and the next one.
    pub(super) oldest: u64,
    pub(super) next: u64,
}

/// The result of [`Command::pull`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pull {
    /// Another stream has taken over.
    Fenced,
    /// Events to send, at least one. The stream continues after `after`.
    Events { records: Vec<Record>, after: u64 },
    /// Nothing yet.
    Nothing,
    /// The ending was read before.
    End,
}

/// Output for an answer with logs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Logs {
    pub(super) gap: Option<Gap>,
    pub(super) output: Vec<u8>,
    /// The cursor of the next request.
    pub(super) next: u64,
}

impl Command {
    pub(super) fn new(
        log: CommandLog,
        session: Option<String>,
        started: u64,
        now: Instant,
    ) -> Self {
        Self {
            log,
            holder: Holder::default(),
            lost: None,
            session,
            started,
            started_at: now,
            interrupted: false,
            overflowed: false,
            held_for: 0,
            defects: CommandDefects::default(),
        }
    }

    /// Attaches a stream that continues from `cursor`.
    ///
    /// # Errors
    /// If the command cannot be resumed, the cursor is not one of this run, or another stream is
    /// active. Nothing has changed then.
    pub(super) fn attach(
        &mut self,
        id: &CommandId,
        cursor: Cursor,
        owner: Option<StreamOwner>,
        link: Arc<Link>,
        now: Instant,
        takeover_after: Duration,
    ) -> Result<Attached, Refusal> {
        if self.session.is_some() && self.holder.generation() > 0 {
            return Err(Refusal::NotResumable(id.clone()));
        }
        let checked = self.check(cursor);
        // The bug: a request that is refused ends the stream that is there.
        if checked.is_err() && defect!(WrongCursorEndsTheStream) {
            self.holder.release(self.holder.generation());
        }
        checked?;
        let (confirmed, taken) = (cursor.after, cursor.after);
        // The bug: what the lost stream took counts as received by the client of the next one.
        let before = self.lost.as_ref().filter(|_| defect!(NextStreamHasIt));
        let confirmed = before.map_or(confirmed, |lost| confirmed.max(lost.taken));
        let state = StreamState { owner: owner.clone(), link, confirmed, taken };
        let attached_at = self.defects.attached_at();
        let held = self.holder.attach(state, |held| {
            let progress = attached_at.unwrap_or_else(|| held.link.progress());
            let idle = now.saturating_duration_since(progress);
            match (&owner, &held.owner) {
                (Some(new), Some(old)) if new.supersedes(old) => return Ok(()),
                // The bug: also an attempt of another client is an older one.
                (Some(new), Some(old))
                    if new == old || old.supersedes(new) || defect!(OthersAreSuperseded) =>
                {
                    return Err(Refusal::Superseded(id.clone()));
                }
                _ => {}
            }
            if defect!(NewestAlwaysWins) || (idle >= takeover_after && !defect!(StuckStreamStays)) {
                return Ok(());
            }
            let idle = if defect!(RetryIsTheWhole) { Duration::ZERO } else { idle };
            let retry = takeover_after.saturating_sub(idle);
            Err(Refusal::Active { id: id.clone(), retry })
        })?;
        self.lost = None;
        self.defects.attached(now);
        Ok(Attached {
            generation: held.generation,
            replaced: held.replaced.map(|old| old.link),
            oldest: if defect!(OldestIsTheFirst) { 1 } else { self.log.oldest() },
            next: self.log.last() + 1,
        })
    }

    fn check(&self, cursor: Cursor) -> Result<(), CursorError> {
        match self.log.check(cursor) {
            Err(CursorError::Future { .. }) if defect!(FutureCursorAccepted) => Ok(()),
            Err(CursorError::Foreign { .. }) if defect!(EpochIgnored) => {
                self.log.check(Cursor { epoch: None, ..cursor })
            }
            checked => checked,
        }
    }

    /// Whether the cursor is valid, and nothing will ever follow it.
    pub(super) fn is_complete_after(&self, cursor: Cursor) -> bool {
        // The bug: the end of one run is that of every run.
        let is_valid = self.log.check(cursor).is_ok() || defect!(NothingFollowsAnyRun);
        is_valid && self.log.read(cursor.after) == Following::End
    }

    /// Handles the end of the connection of a stream. Returns whether it had the stream. A command of
    /// a shell session ends with it, because no other stream can read its output.
    pub(super) fn detach(&mut self, generation: u64) -> bool {
        let released = self.holder.release(generation);
        let own = released.is_some();
        // The bug: a stream that has brought nothing is none that a command can lose.
        let is_unread = released.as_ref().is_some_and(|stream| stream.taken == 0)
            && defect!(UnreadSessionRunsOn);
        // The bug: a stream that lacks output is none that a command can lose.
        let lacks_output = released.as_ref().is_some_and(|stream| stream.taken < self.log.last())
            && defect!(SlowSessionRunsOn);
        // The bug: the late end of an old stream forgets that a newer one is lost.
        let lost = self.lost.take().filter(|_| !defect!(OldEndForgetsTheLoss));
        self.lost = released.or(lost);
        let ends = self.is_bound() && self.runs() && !defect!(SessionCommandOutlivesStream);
        self.interrupted |= own && ends && !is_unread && !lacks_output;
        if !own && defect!(StaleCloseDetaches) {
            self.holder.release(self.holder.generation());
        }
        own
    }

    /// Returns the next events for a stream, about `most` bytes of output. A gap gets the time
    /// `timestamp`.
    pub(super) fn pull(
        &mut self,
        generation: u64,
        after: u64,
        most: usize,
        timestamp: u64,
    ) -> Pull {
        if !self.holder.is_held_by(generation) {
            return Pull::Fenced;
        }
        let after = self.defects.reads(generation, after);
        let pulled = self.read(after, most, timestamp);
        if let Pull::Events { after, .. } = pulled {
            self.holder.held_mut().expect("checked above").taken = after;
        }
        pulled
    }

    fn read(&self, mut after: u64, most: usize, timestamp: u64) -> Pull {
        let (mut records, mut bytes) = (Vec::new(), 0);
        loop {
            match self.log.read(after) {
                Following::Gap(mut gap) => {
                    gap.last += u64::from(defect!(GapTooLong));
                    if !defect!(OverflowIsSilent) {
                        records.push(Record::unlogged(timestamp, Event::Gap(gap)));
                    }
                    after = gap.last;
                }
                Following::Event(record) => {
                    bytes += size(record);
                    if !records.is_empty() && bytes > most {
                        break;
                    }
                    records.push(record.clone());
                    after = record.position.unwrap_or(after + 1);
                }
                Following::Nothing if self.defects.finished_early() && records.is_empty() => {
                    return Pull::End;
                }
                Following::Nothing | Following::End if !records.is_empty() => break,
                Following::Nothing => return Pull::Nothing,
                Following::End => return Pull::End,
            }
        }
        Pull::Events { records, after }
    }

    /// Returns output for an answer with logs, about `most` bytes of it.
    ///
    /// # Errors
    /// If the cursor is not one of this run.
    pub(super) fn logs(&self, cursor: Cursor, most: usize) -> Result<Logs, CursorError> {
        self.check(cursor)?;
        let mut logs = Logs { gap: None, output: Vec::new(), next: cursor.after };
        loop {
            match self.log.read(logs.next) {
                Following::Gap(gap) => {
                    logs.gap = Some(gap);
                    // The bug: the oldest event that is there is left out, too.
                    logs.next = gap.last + u64::from(defect!(LogsSkipAfterGaps));
                }
                Following::Event(Record { event: Event::Output(stream, bytes), .. }) => {
                    if !logs.output.is_empty() && logs.output.len() + bytes.len() > most {
                        return Ok(logs);
                    }
                    // The bug: in each answer, the newest line of the standard error comes first.
                    if *stream == OutputStream::Stderr && defect!(NewestErrorsFirst) {
                        drop(logs.output.splice(0..0, bytes.iter().copied()));
                    } else {
                        logs.output.extend_from_slice(bytes);
                    }
                    logs.next += 1;
                }
                Following::Event(_) => logs.next += 1,
                // The bug: output that does not fill an answer waits for more.
                Following::Nothing if logs.output.len() < most && defect!(LogsWaitForMore) => {
                    return Ok(Logs { gap: None, output: Vec::new(), next: cursor.after });
                }
                Following::Nothing | Following::End => return Ok(logs),
            }
        }
    }

    /// Returns until when output of this size waits; `None` if it does not wait. See the
    /// [module](self).
    pub(super) fn waits(&self, bytes: usize, hold: Duration, in_flight: usize) -> Option<Instant> {
        let attached = self.holder.held();
        if defect!(SlowReaderHoldsCommand) {
            let held = attached?;
            return (held.taken < self.log.last()).then(|| held.link.progress() + EVER);
        }
        let may_return = !self.is_bound() || defect!(LostSessionHolds);
        let lost = self.lost.as_ref().filter(|_| may_return && !defect!(LossEndsHold));
        let stream = attached.or(lost)?;
        let evicted = if defect!(OverheadIsFree) {
            self.log.would_evict_without_overhead(bytes)
        } else if defect!(EndingHasNoRoom) {
            // The bug: the ending removes an event that waits for the client.
            self.log.would_evict_without_ending(bytes)
        } else {
            self.log.would_evict(bytes)
        };
        let evicted = evicted?;
        // The bug: what a lost stream has taken counts as received.
        let may_have_all = attached.is_some() || defect!(LostStreamHasAll);
        let has_all = may_have_all && stream.taken == self.log.last();
        let waits = self.runs() && !has_all && !self.has_received(stream, evicted, in_flight);
        // The bug: the time does not count from the last progress of the stream.
        let since = match defect!(HoldCountsFromTheStart) {
            true => self.started_at,
            // The bug: it counts from the beginning of the stream.
            false => self.defects.hold_begins().unwrap_or_else(|| stream.link.progress()),
        };
        waits.then(|| since + hold)
    }

    /// Whether the client has an event for sure.
    fn has_received(&self, stream: &StreamState, position: u64, in_flight: usize) -> bool {
        if position <= stream.confirmed || position <= stream.taken && defect!(BuffersCountAsRead) {
            return true;
        }
        let of = |position| self.log.weight_up_to(position);
        position < stream.taken && of(stream.taken) - of(position) >= in_flight as u64
    }

    /// Records that output waits. Returns whether it is the first time for this stream.
    pub(super) fn held(&mut self) -> bool {
        let generation = self.holder.generation();
        std::mem::replace(&mut self.held_for, generation) != generation
    }

    /// Appends output. Returns the position of the newest event that had to go for it, if it is the
    /// first time.
    pub(super) fn output(
        &mut self,
        timestamp: u64,
        stream: OutputStream,
        line: Bytes,
    ) -> Option<u64> {
        let evicted = self.log.output(timestamp, stream, line);
        self.defects.appended(self.log.last());
        let first = !self.overflowed;
        self.overflowed |= evicted.is_some();
        evicted.filter(|_| first)
    }

    /// Appends the ending. It does not wait: output has left room for it.
    pub(super) fn end(&mut self, timestamp: u64, ending: Ending, now: Instant) {
        let took = now.saturating_duration_since(self.started_at);
        let took = if defect!(TookIsInSeconds) { took.as_secs() } else { took.as_millis() as u64 };
        self.log.end(timestamp, ending, took, now);
    }

    /// Whether it counts as running.
    pub(super) fn runs(&self) -> bool {
        self.log.ended().is_none() && !self.defects.finished_early()
    }

    /// Asks the command to end. Returns `false` if it has ended.
    pub(super) fn interrupt(&mut self) -> bool {
        self.interrupted |= self.runs();
        self.defects.asked_to_end();
        self.runs()
    }

    /// Whether it belongs to a shell session, and so to its connection.
    pub(super) fn is_bound(&self) -> bool {
        self.session.is_some()
    }

    /// Whether the command shall end.
    pub(super) fn interrupted(&self) -> bool {
        self.interrupted
    }

    /// Whether a stream is attached.
    pub(super) fn has_stream(&self) -> bool {
        self.holder.held().is_some()
    }

    /// Returns the state of the command with this id and content.
    pub(super) fn status(&self, id: &CommandId, content: String) -> CommandStatus {
        // The bug: the last event is the one that the lost stream took last.
        let lost = self.lost.as_ref().filter(|_| defect!(StateStaysWithTheStream));
        let last = lost.map_or(self.log.last(), |lost| lost.taken);
        // The bug: the rest of a second is cut off.
        let rest = if defect!(StartsAreWholeSeconds) { self.started % 1000 } else { 0 };
        let status = CommandStatus::running(id.as_str(), content, self.started - rest, last);
        match self.log.ended() {
            Some(Ended { ending: Ending::Killed(_), timestamp, .. })
                if defect!(KilledIsSuccess) =>
            {
                status.ended(&Ending::Exited(0), *timestamp)
            }
            Some(ended) if defect!(EndIsTheStart) => status.ended(&ended.ending, self.started),
            Some(ended) => status.ended(&ended.ending, ended.timestamp),
            None => status,
        }
    }
}

/// Returns the weight of an event in a batch.
fn size(record: &Record) -> usize {
    match &record.event {
        Event::Output(_, bytes) => bytes.len(),
        _ => 0,
    }
}

#[cfg(test)]
#[path = "tests/command.rs"]
mod tests;
