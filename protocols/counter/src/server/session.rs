//! One session, without a clock, a socket or a task: its streams, its attached connection, and the
//! replies and numbers to send next.
//!
//! All functions run under the server's single lock, so each is one atomic step: to append a number
//! and wake its reader, or to register a reader at its position. An attached connection passes its
//! [`Ticket`] with every request. The session refuses the request if a connection with a greater
//! ticket has attached: a late request of an older generation cannot change anything.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use reknit_seams::{defect, milestone};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::log::{At, Log};
use crate::wire::{Absence, Name, Reply, Ticket};

/// The connection is no longer attached: a connection with a greater ticket has attached, or the
/// session is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fenced;

/// The state that outlives a connection.
pub(super) struct Session {
    /// The greatest ticket so far.
    ticket: Option<Ticket>,
    presence: Presence,
    streams: BTreeMap<Name, Tracked>,
    adds: Adds,
}

/// Whether a connection is attached, or since when none is.
enum Presence {
    Attached(Attachment),
    Away { since: Instant },
}

/// The state of the attached connection.
struct Attachment {
    ticket: Ticket,
    wake: Arc<Notify>,
    /// The next position of each stream that is being sent.
    cursors: BTreeMap<Name, u64>,
    replies: VecDeque<Reply>,
}

/// A stream of a session.
enum Tracked {
    /// An open stream with its log. Dropping it ends the task that fills the log.
    Kept { log: Log, ended: Option<Instant>, _pump: JoinSet<()> },
    /// A stream that ended. The session keeps only its name, so that it cannot be opened again.
    Over,
}

/// The result of a watch request.
pub(super) enum Watching {
    /// The session sends the stream, or reports that it does not exist.
    Done,
    /// The caller must open the stream first.
    Open,
}

/// The adds that took effect. Their ids ascend, so the last id and the most recent sums are
/// sufficient.
#[derive(Default)]
struct Adds {
    last: u64,
    sums: VecDeque<(u64, u64)>,
}

/// Whether an add took effect before.
pub(super) enum AddState {
    /// It did not.
    New,
    /// It did, with this reply.
    Known(Reply),
}

impl Session {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            ticket: None,
            presence: Presence::Away { since: now },
            streams: BTreeMap::new(),
            adds: Adds::default(),
        }
    }

    pub(super) fn ticket(&self) -> Option<Ticket> {
        self.ticket
    }

    /// Attaches a connection, and fences the previously attached one, if any. Returns the notifier
    /// of the new connection, and whether an older one was fenced.
    pub(super) fn attach(&mut self, ticket: Ticket) -> (Arc<Notify>, bool) {
        self.ticket = Some(ticket);
        let wake = Arc::new(Notify::new());
        let attachment = Attachment {
            ticket,
            wake: wake.clone(),
            cursors: BTreeMap::new(),
            replies: VecDeque::new(),
        };
        let before = std::mem::replace(&mut self.presence, Presence::Attached(attachment));
        let Presence::Attached(older) = before else { return (wake, false) };
        older.wake.notify_one(); // it looks, and finds that it is fenced
        (wake, true)
    }

    /// Detaches a connection that ended. Returns `false`, and does nothing, if another connection
    /// is attached.
    pub(super) fn detach(&mut self, ticket: Ticket, now: Instant) -> bool {
        let own =
            matches!(&self.presence, Presence::Attached(attached) if attached.ticket == ticket);
        if own || (defect!(StaleCloseDetaches) && self.attached()) {
            self.presence = Presence::Away { since: now };
        }
        own
    }

    pub(super) fn attached(&self) -> bool {
        matches!(self.presence, Presence::Attached(_))
    }

    pub(super) fn away_since(&self) -> Option<Instant> {
        match self.presence {
            Presence::Attached(_) => None,
            Presence::Away { since } => Some(since),
        }
    }

    fn attachment(&mut self, ticket: Ticket) -> Result<&mut Attachment, Fenced> {
        match &mut self.presence {
            Presence::Attached(attached) if attached.ticket == ticket => Ok(attached),
            _ => Err(Fenced),
        }
    }

    /// Fails unless this connection is still attached.
    pub(super) fn check(&mut self, ticket: Ticket) -> Result<(), Fenced> {
        self.attachment(ticket).map(|_| ())
    }

    /// Starts to send a stream from position `next`.
    pub(super) fn watch(
        &mut self,
        ticket: Ticket,
        stream: &Name,
        next: u64,
        limit: usize,
    ) -> Result<Watching, Fenced> {
        let full = self.streams.len() >= limit;
        let why = match self.streams.get(stream) {
            Some(Tracked::Kept { log, .. }) => {
                let live = log.next() - 1;
                let newest = log.at(live);
                let attached = self.attachment(ticket)?;
                if let (true, At::Number(value)) =
                    (defect!(LiveBeforeCatchUp) && next > 1 && live > next, newest)
                {
                    attached.replies.push_back(Reply::Number {
                        stream: stream.clone(),
                        index: live,
                        value,
                    });
                }
                attached.cursors.insert(stream.clone(), next);
                attached.wake.notify_one();
                return Ok(Watching::Done);
            }
            Some(Tracked::Over) => Absence::Over,
            None if next > 1 => Absence::Unknown,
            None if full => Absence::Full,
            None => return self.check(ticket).map(|()| Watching::Open),
        };
        self.reply(ticket, Reply::Lost { stream: stream.clone(), why })?;
        Ok(Watching::Done)
    }

    /// Adds an opened stream, whose log `pump` fills.
    pub(super) fn opened(&mut self, stream: &Name, pump: JoinSet<()>, retained_items: usize) {
        self.streams.insert(
            stream.clone(),
            Tracked::Kept { log: Log::new(retained_items), ended: None, _pump: pump },
        );
    }

    /// First half of the defect `SnapshotThenAttach`: sends the existing numbers from `next`.
    pub(super) fn snapshot(
        &mut self,
        ticket: Ticket,
        stream: &Name,
        next: u64,
    ) -> Result<(), Fenced> {
        let Some(Tracked::Kept { log, .. }) = self.streams.get(stream) else {
            return self.check(ticket);
        };
        let numbers = (next..log.next()).filter_map(|index| match log.at(index) {
            At::Number(value) => Some(Reply::Number { stream: stream.clone(), index, value }),
            _ => None,
        });
        let copied: Vec<_> = numbers.collect();
        self.attachment(ticket)?.replies.extend(copied);
        Ok(())
    }

    /// The position after the newest number of a stream.
    pub(super) fn live(&self, stream: &Name) -> Option<u64> {
        match self.streams.get(stream)? {
            Tracked::Kept { log, .. } => Some(log.next()),
            Tracked::Over => None,
        }
    }

    /// Wakes the attached connection, so that it pulls.
    pub(super) fn wake(&self) {
        if let Presence::Attached(attached) = &self.presence {
            attached.wake.notify_one();
        }
    }

    /// Ends a stream permanently.
    pub(super) fn unwatch(&mut self, ticket: Ticket, stream: &Name) -> Result<(), Fenced> {
        self.attachment(ticket)?.cursors.remove(stream);
        if let Some(tracked) = self.streams.get_mut(stream) {
            *tracked = Tracked::Over;
        }
        Ok(())
    }

    /// Appends a number to a stream, or its end (`None`).
    pub(super) fn made(&mut self, stream: &Name, value: Option<u64>, now: Instant) {
        let Some(Tracked::Kept { log, ended, .. }) = self.streams.get_mut(stream) else { return };
        match value {
            Some(value) => log.append(value),
            None => {
                log.end();
                *ended = Some(now);
            }
        }
        match &self.presence {
            _ if defect!(LostWakeUp) && self.ticket.is_some_and(|ticket| ticket.generation > 1) => {
            } // it knows only who was there when it was opened
            Presence::Attached(attached) if attached.cursors.contains_key(stream) => {
                attached.wake.notify_one()
            }
            _ => {}
        }
    }

    /// Queues a reply.
    pub(super) fn reply(&mut self, ticket: Ticket, reply: Reply) -> Result<(), Fenced> {
        let attached = self.attachment(ticket)?;
        attached.replies.push_back(reply);
        attached.wake.notify_one();
        Ok(())
    }

    /// The number of waiting replies.
    pub(super) fn queued(&self) -> usize {
        match &self.presence {
            Presence::Attached(attached) => attached.replies.len(),
            Presence::Away { .. } => 0,
        }
    }

    /// Takes the next batch to send: first all replies, then at most one entry of each stream, so
    /// that no stream waits for another. Empty if there is nothing to send.
    pub(super) fn pull(&mut self, ticket: Ticket) -> Result<Vec<Reply>, Fenced> {
        let Presence::Attached(attached) = &mut self.presence else { return Err(Fenced) };
        if attached.ticket != ticket {
            return Err(Fenced);
        }
        let mut batch: Vec<Reply> = attached.replies.drain(..).collect();
        let streams = &self.streams;
        attached.cursors.retain(|stream, next| {
            let Some(Tracked::Kept { log, .. }) = streams.get(stream) else {
                batch.push(Reply::Lost { stream: stream.clone(), why: Absence::Over }); // forgotten before all of it was sent
                return false;
            };
            match log.at(*next) {
                At::NotYet => true,
                At::Number(value) => {
                    let value = if defect!(ForeignNumber) {
                        of_first_stream(streams, *next)
                    } else {
                        value
                    };
                    batch.push(Reply::Number { stream: stream.clone(), index: *next, value });
                    *next += 1;
                    true
                }
                At::End { total } => {
                    batch.push(Reply::End { stream: stream.clone(), total });
                    false
                }
                At::Gone { oldest } => {
                    milestone!(
                        "counter.server.gap",
                        stream = stream.as_str(),
                        next = *next,
                        oldest = oldest
                    );
                    batch.push(Reply::Gap { stream: stream.clone(), oldest });
                    false
                }
            }
        });
        Ok(batch)
    }

    /// Returns whether an add took effect.
    pub(super) fn add_state(&self, id: u64) -> AddState {
        if id > self.adds.last || defect!(NoDedupe) {
            return AddState::New;
        }
        let sum = self.adds.sums.iter().find(|(known, _)| *known == id);
        AddState::Known(
            sum.map_or(Reply::Forgotten { id }, |(id, sum)| Reply::Added { id: *id, sum: *sum }),
        )
    }

    /// Notes that an add took effect.
    pub(super) fn added(&mut self, id: u64, sum: u64, remembered: usize) {
        self.adds.last = self.adds.last.max(id);
        self.adds.sums.push_back((id, sum));
        if self.adds.sums.len() > remembered {
            self.adds.sums.pop_front();
        }
    }

    /// Removes the logs of streams that ended at least `retention` ago. Returns their number, and
    /// the time of the next expiry.
    pub(super) fn forget_ended(
        &mut self,
        now: Instant,
        retention: std::time::Duration,
    ) -> (usize, Option<Instant>) {
        let (mut forgotten, mut next) = (0, None);
        for tracked in self.streams.values_mut() {
            let Tracked::Kept { ended: Some(ended), .. } = tracked else { continue };
            let due = *ended + retention;
            if due <= now {
                *tracked = Tracked::Over;
                forgotten += 1;
            } else {
                next = Some(next.map_or(due, |other: Instant| other.min(due)));
            }
        }
        (forgotten, next)
    }

    /// The length of each stream's log.
    pub(super) fn kept(&self) -> impl Iterator<Item = usize> {
        self.streams.values().filter_map(|tracked| match tracked {
            Tracked::Kept { log, .. } => Some(log.len()),
            Tracked::Over => None,
        })
    }
}

/// The number that a server sends if it looks up an index without the stream name; part of the
/// defect `ForeignNumber`.
fn of_first_stream(streams: &BTreeMap<Name, Tracked>, index: u64) -> u64 {
    let numbers = streams.values().filter_map(|tracked| match tracked {
        Tracked::Kept { log, .. } => Some(log.at(index)),
        Tracked::Over => None,
    });
    numbers
        .into_iter()
        .find_map(|at| if let At::Number(value) = at { Some(value) } else { None })
        .unwrap_or(0)
}
