//! One session, without clock, socket or task: the attached connection, the processes, and the next
//! event to send.
//!
//! All functions run under the session's single lock, in one step: an event is appended and its
//! reader is notified together; a connection is attached and its cursors are set together. Each
//! call from a connection passes its [`ConnId`] and is refused unless that connection is attached.
//! So a request or a late detach of an older connection changes nothing.
//!
//! - this module: the attachment. `requests`: the requests of clients, and the events to send. `tasks`:
//!   the reports of the tasks of processes. `time`: the timers.
//!
//! # What is sent, and what waits
//! The task of the attached connection pulls notifications from the logs, alternating between
//! processes, with one cursor per process. An attach sets the cursors to "now"; the client gets
//! earlier events by `process/read`. So each event number is in the answer of a read, or is sent
//! afterwards, or both; no event is left out.
//!
//! While a connection is attached, no unsent event is lost. The server pauses reading the output of
//! a process if too many of its events wait, or if its next chunk would evict an unsent one. (The
//! process then blocks when its pipe is full.) Reading continues when there is room for half of the
//! limit. Flow control also pauses a process, until the client has consumed enough of its output:
//! [`flow`](crate::wire::flow). After a resume, the same applies to output retained from before the
//! resume, until the client has read it or the grace period is over. A detach resumes reading for
//! all processes, except that a process with flow control stays within its window.
//!
//! # How long a closed process is kept
//! A closed process is kept at least until its close was sent. While no connection is attached, it
//! is kept as long as the session exists. While one is attached, it is kept for the retention (80
//! s), counted from the later of its close and the last attempt to attach.
//!
//! - A client may notice a cut late (16 s after the server's last sign of life) and use its whole
//!   recovery deadline (45 s). It still finds the process: the server notices the cut after 16 s too,
//!   and from then on the retention does not run.
//! - A client that notices the cut before the server is refused for a while. Each of its attempts
//!   restarts the retention.
//! - A client that no longer hears the server can still be heard for up to 16 s, and the server
//!   notices its end 16 s after that. So nothing is forgotten while the connection has been silent
//!   for longer than a live connection would be.
//!
//! If a start finds the session full, the server forgets the process that closed first among those
//! whose close was sent, if its retention, counted only from its close, is over. So a client that
//! reconnects repeatedly for hours does not fill its session.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use reknit_resume::{Attachment, Lease, Refused};
use reknit_seams::defect;
use reknit_seams::net::ConnId;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use self::defects::SessionDefects;
use super::process::{ProcessId, RetainedProcess, Run, StartId};
use super::request_error::RequestError;
use crate::limits::ServerLimits;
use crate::wire::flow::FlowWindow;

mod defects;
mod requests;
mod tasks;
#[cfg(test)]
mod tests;
mod time;

pub(super) use requests::Reading;
pub(super) use tasks::Room;
pub use tasks::exit_code;

/// All state that outlives a connection.
pub(super) struct Session {
    limits: ServerLimits,
    attachment: Attachment<ConnId, Outgoing>,
    /// When a connection last tried to attach, successfully or not.
    last_attach_attempt: Instant,
    processes: BTreeMap<ProcessId, RetainedProcess>,
    /// The window of the last attached connection.
    window: Option<FlowWindow>,
    starts: u64,
    defects: SessionDefects,
}

/// The session's handle of a connection.
#[derive(Clone)]
pub(super) struct ClientConnection {
    /// Wakes the task of the connection, which then checks for events and answers.
    pub(super) wake: Arc<Notify>,
    /// The time of the client's last sign of life.
    pub(super) signs: watch::Receiver<Instant>,
    /// The window for flow control, if client and server agreed on one.
    pub(super) window: Option<FlowWindow>,
}

/// The state of an attachment: everything that the session has yet to send to the attached
/// connection.
struct Outgoing {
    line: ClientConnection,
    /// For each process whose events are being sent: the number of the next event.
    cursors: BTreeMap<ProcessId, u64>,
    /// The processes that may have new events. Every process with an event to send is in this set.
    pending: BTreeSet<ProcessId>,
    /// The process whose event was sent last.
    turn: Option<ProcessId>,
    /// For each process older than this attachment: the number of the first event that the client
    /// has not read.
    unread: BTreeMap<ProcessId, u64>,
    /// Until when the server holds these unread events.
    grace: Instant,
    /// The starts that this connection requested, with their outcomes.
    starts: BTreeMap<StartId, Option<Result<(), RequestError>>>,
    /// When the connection was attached.
    since: Instant,
    /// How many accepted writes with an id were answered.
    write_answers: u64,
    /// The number of the last of these answers that the server has asked the connection to mark.
    marked: u64,
    /// The number of the last of these answers that has reached the client.
    reached: u64,
    /// Whether a write waits because too many ids are remembered.
    ids_full: bool,
    /// Set by a defect: nothing is sent.
    muted: bool,
}

impl Outgoing {
    fn new(line: ClientConnection, now: Instant) -> Self {
        Self {
            line,
            cursors: BTreeMap::new(),
            pending: BTreeSet::new(),
            turn: None,
            unread: BTreeMap::new(),
            grace: now,
            starts: BTreeMap::new(),
            since: now,
            write_answers: 0,
            marked: 0,
            reached: 0,
            ids_full: false,
            muted: false,
        }
    }

    /// Returns the process whose turn is next, among those that may have new events.
    fn next(&self) -> Option<&ProcessId> {
        let behind = self.turn.as_ref().map_or(Unbounded, Excluded);
        self.pending.range((behind, Unbounded)).next().or_else(|| self.pending.first())
    }

    /// Returns the first event number that must not be evicted.
    fn needed(&self, id: &ProcessId, now: Instant) -> Option<u64> {
        let cursor = self.cursors.get(id).copied();
        let is_held = now < self.grace || defect!(GraceWithoutEnd);
        let unread = self.unread.get(id).copied().filter(|_| is_held);
        cursor.into_iter().chain(unread).min()
    }
}

impl Session {
    /// Creates a session that is attached to the connection that requested it.
    pub(super) fn new(
        by: ConnId,
        line: ClientConnection,
        limits: ServerLimits,
        now: Instant,
    ) -> Self {
        Self {
            limits,
            window: line.window,
            attachment: Attachment::new(by, Outgoing::new(line, now)),
            last_attach_attempt: now,
            processes: BTreeMap::new(),
            starts: 0,
            defects: SessionDefects::default(),
        }
    }

    /// Attaches a connection, with the cursors at "now".
    pub(super) fn attach(
        &mut self,
        by: ConnId,
        line: ClientConnection,
        now: Instant,
    ) -> Result<(), Refused<ConnId>> {
        let window = line.window;
        let mut owed = Outgoing::new(line, now);
        if !defect!(ResumeHasNoGrace) {
            owed.grace = now + self.limits.catch_up_grace;
        }
        for (id, process) in self.processes.iter().filter(|(_, process)| !process.closed()) {
            owed.cursors.insert(id.clone(), process.log.next());
            // A client does not catch up with a process that it has released.
            let is_released = self.window.is_some() && process.flow.is_none();
            if !is_released || defect!(ReleasedProcessesAreHeld) {
                owed.unread.insert(id.clone(), process.flow.map_or(0, |flow| flow.consumed + 1));
            }
        }
        if defect!(AttachSteals) {
            let lease = Lease::begin(now, self.limits.detached_lifetime);
            self.attachment.detach(self.attachment.by().unwrap_or(by), lease);
        }
        let attached = self.attachment.attach(by, owed, now);
        if attached.is_ok() || !defect!(RefusedAttachCountsNot) {
            self.last_attach_attempt = now; // also if the attach fails: the client may have missed earlier events
        }
        attached?;
        self.window = window;
        if window.is_none() && !defect!(PausedForever) {
            // This client reports nothing, so nothing may wait for its reports.
            self.processes.values_mut().for_each(|process| process.consumed(None));
        }
        Ok(())
    }

    /// Detaches a connection that has ended, and resumes the paused processes, except those that
    /// flow control holds. Does nothing unless this connection is attached; returns whether it was.
    pub(super) fn detach(&mut self, by: ConnId, now: Instant) -> bool {
        let lifetime = self.limits.detached_lifetime;
        let lease =
            Lease::begin(now, if defect!(DetachedLifetimeShort) { lifetime / 3 } else { lifetime });
        let own = self.attachment.detach(by, lease).is_some();
        if own {
            self.defects.detached(lease);
            if defect!(PausedForever) {
                return own;
            }
            if defect!(ReleaseEndsWithConnection) {
                // The bug: the client does not repeat a release that was confirmed.
                self.forget_releases();
            }
            self.processes.values().for_each(RetainedProcess::resume);
        }
        own
    }

    /// Checks that this connection is the attached one.
    pub(super) fn check(&self, by: ConnId) -> Result<(), RequestError> {
        let own = self.attachment.by() == Some(by) || defect!(AttachSteals);
        if own { Ok(()) } else { Err(RequestError::Resumed) }
    }

    /// Returns the attached connection.
    pub(super) fn attached_by(&self) -> Option<ConnId> {
        self.attachment.by()
    }

    /// Returns since when no connection is attached, if none is.
    pub(super) fn detached_since(&self) -> Option<Instant> {
        match &self.attachment {
            Attachment::Detached { lease, .. } => Some(lease.since()),
            Attachment::Attached { .. } => None,
        }
    }

    fn attached(&self) -> bool {
        self.attached_by().is_some()
    }

    /// Whether the session has expired.
    pub(super) fn expired(&self, now: Instant) -> bool {
        if defect!(ExpiryTimerUnchecked) && !self.attached() {
            return self.defects.first_until().is_some_and(|until| until <= now);
        }
        self.attachment.expired(now)
    }

    /// Drops all processes.
    pub(super) fn shut_down(&mut self) {
        self.processes.clear();
    }

    /// Wakes the attached connection.
    fn wake(&self) {
        if let Some(owed) = self.attachment.owed() {
            owed.line.wake.notify_one();
        }
    }

    /// Marks a process as having new events to send.
    fn mark_pending(&mut self, id: &ProcessId) {
        if let Some(owed) = self.attachment.owed_mut() {
            owed.pending.insert(id.clone());
            owed.line.wake.notify_one();
        }
    }

    /// Reports the outcome of a start to the connection that requested it.
    fn settle(&mut self, run: &Run, outcome: Result<(), RequestError>) {
        let Some(owed) = self.attachment.owed_mut() else { return };
        if outcome.is_err() {
            owed.cursors.remove(&run.id);
        }
        if let Some(awaited) = owed.starts.get_mut(&run.start) {
            *awaited = Some(outcome);
            owed.line.wake.notify_one();
        }
    }

    /// Returns how many events of a process wait to be sent: the maximum over all processes.
    pub(super) fn most_unsent(&self) -> u64 {
        let cursors = self.attachment.owed().into_iter().flat_map(|owed| &owed.cursors);
        let unsent = cursors.filter_map(|(id, cursor)| {
            Some(self.processes.get(id)?.log.next().saturating_sub(*cursor))
        });
        unsent.max().unwrap_or_default()
    }

    /// Returns the processes of the session.
    pub(super) fn processes(&self) -> impl Iterator<Item = (&ProcessId, &RetainedProcess)> {
        self.processes.iter()
    }
}
