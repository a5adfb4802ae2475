//! One session, without clock, socket or task: who is attached, which processes it has, and what is to be sent next.
//!
//! Everything here runs under the session's one lock, in one step: an event enters its log and finds its reader; a
//! connection attaches and finds its cursors. Each entry of a connection brings its [`ConnId`], and is refused unless it is
//! the one that is attached: what an older connection still says, or how late it ends, changes nothing.
//!
//! - here: who is attached. `asks`: what clients ask for, and what is sent. `tasks`: what the tasks of processes say. `time`: what
//!   goes by time alone.
//!
//! # What is sent, and what waits
//! Notifications are pulled from the logs by the task of the attached connection, one event of each process in turn, along
//! one cursor a process. At an attach the cursors stand at "now": what came before is what `process/read` is for. So a
//! number is in the answer of a read, or is sent after it, or both; never neither.
//!
//! While somebody is attached, nothing is lost that was not sent: a process is not read from (and so stops, when its pipe is
//! full) when too many of its events wait, or when its next chunk would make one go that was not sent, until there is room
//! for half as much. After a resume that holds also for what was kept from before, until it was read, or until the grace is
//! over. A detach releases everything.
//!
//! # How long a closed process is kept
//! For the retention (30 s), counted from the later of its close and the last try to attach, while somebody is attached; as long as
//! the session lives, while nobody is; and in any case until its close was sent. So a client that notices a cut late (16 s
//! after its last sign of life) and takes its whole recovery (25 s) still finds it: the server has noticed after 16 s, too,
//! and then the clock stands still. A client that notices earlier than the server is refused for a while: each try starts the
//! clock again. A client that no longer hears the server is heard for up to 16 s more, and the server notices its end 16 s after that:
//! over a connection that is quieter than one that lives, nothing is forgotten. Where a start would find the session full, those go first whose retention, counted from
//! their close alone, is over: a client that comes and goes for hours does not fill its session.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use reknit_resume::{Attachment, Lease, Refused};
use reknit_seams::defect;
use reknit_seams::net::ConnId;
use reknit_seams::process::KILL;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::process::{ProcessId, RetainedProcess, Run, StartId};
use super::refusal::Refusal;
use crate::limits::ServerLimits;

mod asks;
mod tasks;
#[cfg(test)]
mod tests;
mod time;

pub(super) use asks::Reading;
pub(super) use tasks::Room;
pub use tasks::exit_code;

/// All that outlives a connection.
pub(super) struct Session {
    limits: ServerLimits,
    attachment: Attachment<ConnId, Outgoing>,
    /// When a connection last asked for it, in vain or not.
    sought_at: Instant,
    processes: BTreeMap<ProcessId, RetainedProcess>,
    starts: u64,
    /// When it would have been over after its first detachment, for a defect.
    first_until: Option<Instant>,
}

/// What a session knows of a connection.
#[derive(Clone)]
pub(super) struct ClientConnection {
    /// Has its task look what there is for it.
    pub(super) wake: Arc<Notify>,
    /// When its client last gave a sign of life.
    pub(super) signs: watch::Receiver<Instant>,
}

/// What the session owes to the connection that is attached. It comes and goes with the attachment.
struct Outgoing {
    line: ClientConnection,
    /// Of each process whose events are being sent: the number that comes next.
    cursors: BTreeMap<ProcessId, u64>,
    /// The processes that may have told something since they were looked at: whoever has an event to be sent is among them.
    news: BTreeSet<ProcessId>,
    /// Whose event was sent last.
    turn: Option<ProcessId>,
    /// Of each process that was there before: the number from which on nothing was read yet.
    unread: BTreeMap<ProcessId, u64>,
    /// Until when these are held back for.
    grace: Instant,
    /// The starts that this connection asked for, and what became of them.
    starts: BTreeMap<StartId, Option<Result<(), Refusal>>>,
    /// A defect took it away: nothing is sent.
    deaf: bool,
}

impl Outgoing {
    fn new(line: ClientConnection, now: Instant) -> Self {
        Self {
            line,
            cursors: BTreeMap::new(),
            news: BTreeSet::new(),
            turn: None,
            unread: BTreeMap::new(),
            grace: now,
            starts: BTreeMap::new(),
            deaf: false,
        }
    }

    /// Whose turn it is of those that may have told something: of each process one event in turn.
    fn next(&self) -> Option<&ProcessId> {
        let behind = self.turn.as_ref().map_or(Unbounded, Excluded);
        self.news.range((behind, Unbounded)).next().or_else(|| self.news.first())
    }

    /// The number from which on nothing may go.
    fn needed(&self, id: &ProcessId, now: Instant) -> Option<u64> {
        let cursor = self.cursors.get(id).copied();
        let unread = self.unread.get(id).copied().filter(|_| now < self.grace);
        cursor.into_iter().chain(unread).min()
    }
}

impl Session {
    /// A new session, attached to the connection that asked for it.
    pub(super) fn new(
        by: ConnId,
        line: ClientConnection,
        limits: ServerLimits,
        now: Instant,
    ) -> Self {
        Self {
            limits,
            attachment: Attachment::new(by, Outgoing::new(line, now)),
            sought_at: now,
            processes: BTreeMap::new(),
            starts: 0,
            first_until: None,
        }
    }

    /// Attaches a connection, with the cursors at "now".
    pub(super) fn attach(
        &mut self,
        by: ConnId,
        line: ClientConnection,
        now: Instant,
    ) -> Result<(), Refused<ConnId>> {
        let mut owed = Outgoing::new(line, now);
        owed.grace = now + self.limits.catch_up_grace;
        for (id, process) in self.processes.iter().filter(|(_, process)| !process.closed()) {
            owed.cursors.insert(id.clone(), process.log.next());
            owed.unread.insert(id.clone(), 0);
        }
        if defect!(AttachSteals) {
            let lease = Lease::begin(now, self.limits.detached_lifetime);
            self.attachment.detach(self.attachment.by().unwrap_or(by), lease);
        }
        self.sought_at = now; // also in vain: a client that comes back has not heard what was sent to the connection before
        self.attachment.attach(by, owed, now)
    }

    /// A connection is over. Inert unless it is the one that is attached; returns whether it is. Everything that waited for
    /// it to take something goes on.
    pub(super) fn detach(&mut self, by: ConnId, now: Instant) -> bool {
        let lifetime = self.limits.detached_lifetime;
        let lease =
            Lease::begin(now, if defect!(DetachedLifetimeShort) { lifetime / 3 } else { lifetime });
        let own = self.attachment.detach(by, lease).is_some();
        if own {
            self.first_until.get_or_insert(lease.until());
            if defect!(PausedForEver) {
                return own;
            }
            self.processes.values().for_each(RetainedProcess::resume);
        }
        own
    }

    /// The defect `SenderClearedAfterUnlock`: a detach takes away what is owed to whoever is attached by now.
    pub(super) fn clear_sender(&mut self) {
        if let Some(owed) = self.attachment.owed_mut() {
            owed.deaf = true;
        }
    }

    /// The defect `DisconnectKills`: processes end with the connection.
    pub(super) fn kill_all(&mut self) {
        self.processes.values_mut().for_each(|process| process.order(KILL));
    }

    /// Whether this connection is the one that is attached.
    pub(super) fn check(&self, by: ConnId) -> Result<(), Refusal> {
        let own = self.attachment.by() == Some(by) || defect!(AttachSteals);
        if own { Ok(()) } else { Err(Refusal::Resumed) }
    }

    /// Which connection is attached.
    pub(super) fn attached_by(&self) -> Option<ConnId> {
        self.attachment.by()
    }

    fn attached(&self) -> bool {
        self.attached_by().is_some()
    }

    /// The number of the next event of a process, for a defect.
    pub(super) fn next_of(&self, id: &ProcessId) -> Option<u64> {
        self.processes.get(id).map(|process| process.log.next())
    }

    /// Whether the session is over.
    pub(super) fn expired(&self, now: Instant) -> bool {
        if defect!(ExpiryTimerUnchecked) && !self.attached() {
            return self.first_until.is_some_and(|until| until <= now);
        }
        self.attachment.expired(now)
    }

    /// Nothing stays.
    pub(super) fn shut_down(&mut self) {
        self.processes.clear();
    }

    /// Has the attached connection look what there is for it.
    fn wake(&self) {
        if let Some(owed) = self.attachment.owed() {
            owed.line.wake.notify_one();
        }
    }

    /// A process has told something: it is to be sent.
    fn notifies(&mut self, id: &ProcessId) {
        if let Some(owed) = self.attachment.owed_mut() {
            owed.news.insert(id.clone());
            owed.line.wake.notify_one();
        }
    }

    /// Tells the connection that asked for a start what became of it.
    fn settle(&mut self, run: &Run, outcome: Result<(), Refusal>) {
        let Some(owed) = self.attachment.owed_mut() else { return };
        if outcome.is_err() {
            owed.cursors.remove(&run.id);
        }
        if let Some(awaited) = owed.starts.get_mut(&run.start) {
            *awaited = Some(outcome);
            owed.line.wake.notify_one();
        }
    }

    /// What it holds.
    pub(super) fn processes(&self) -> impl Iterator<Item = (&ProcessId, &RetainedProcess)> {
        self.processes.iter()
    }
}
