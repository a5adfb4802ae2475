//! One job, and its record: a JSON object.
//!
//! The record has version 1. Members that this program does not know survive each change. A version
//! that is not 1 is not readable.

use std::path::Path;

use reknit_seams::defect;
use reknit_seams::process::Identity;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::error::{BrokenRecord, Damage, JobError};
use super::id::JobId;
use super::state::{State, StateName};
use crate::command::{Command, Order};

/// The version of the records that this program writes.
const VERSION: u64 = 1;

/// The kind of a job: the command that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobKind {
    /// `task`.
    Task,
    /// `review`.
    Review,
    /// `adversarial-review`.
    AdversarialReview,
}

impl JobKind {
    /// Returns the name in records, ids and for users.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Review => "review",
            Self::AdversarialReview => "adversarial-review",
        }
    }
}

impl From<&Command> for JobKind {
    fn from(command: &Command) -> Self {
        match command {
            Command::Task { .. } => Self::Task,
            Command::Review { .. } => Self::Review,
            Command::AdversarialReview { .. } => Self::AdversarialReview,
        }
    }
}

/// A job that does not exist yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewJob {
    /// Its kind.
    pub kind: JobKind,
    /// The session of the user that it belongs to.
    pub session: Option<String>,
    /// One line that says what it is about.
    pub title: String,
    /// The directory that it works in.
    pub workspace: String,
    /// The order for its worker. `None` if another program brings the order to the worker.
    pub order: Option<Order>,
}

/// A job. Times are in milliseconds since 1970, by the wall clock, for display only.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// Its kind.
    pub kind: JobKind,
    /// The session of the user that it belongs to.
    pub session: Option<String>,
    /// One line that says what it is about.
    pub title: String,
    /// The directory that it works in.
    pub workspace: String,
    /// The order for its worker, if the record contains it.
    pub order: Option<Order>,
    /// Its state.
    pub state: State,
    /// The last known phase of the work. A job that is over has none.
    pub phase: Option<String>,
    /// The thread of the turn, if it is known.
    pub thread: Option<String>,
    /// The turn, if it is known.
    pub turn: Option<String>,
    /// The text for the user. A failed or cancelled job has what there was.
    pub report: Option<String>,
    /// When it was created.
    pub created: u64,
    /// When its worker started.
    pub started: Option<u64>,
    /// When it was over.
    pub ended: Option<u64>,
    /// The members of the record that this program does not know.
    pub other: Map<String, Value>,
}

impl NewJob {
    /// Creates the job that carries out an order.
    pub fn of(order: Order, session: Option<String>) -> Self {
        Self {
            kind: JobKind::from(&order.command),
            session,
            title: order.command.title(),
            workspace: order.settings.cwd.clone(),
            order: Some(order),
        }
    }
}

impl Job {
    pub(super) fn new(id: JobId, new: NewJob, starter: Identity, now: u64) -> Self {
        let NewJob { kind, session, title, workspace, order } = new;
        Self {
            id,
            kind,
            session,
            title,
            workspace,
            order,
            state: State::Queued { starter },
            phase: None,
            thread: None,
            turn: None,
            report: None,
            created: now,
            started: None,
            ended: None,
            other: Map::new(),
        }
    }

    /// Whether the job is queued or running.
    pub fn is_active(&self) -> bool {
        !self.state.name().is_terminal()
    }

    /// Enters a state. This is the only place where a state changes.
    pub(super) fn enter(&mut self, next: State, now: u64) -> Result<(), JobError> {
        let (from, to) = (self.state.name(), next.name());
        let is_allowed = from.successors().contains(&to)
            || to == StateName::Running && defect!(ClaimsCancelledJobs)
            || to.is_terminal() && defect!(OverwritesTheEnd);
        if !is_allowed {
            return Err(JobError::NotAllowed { id: self.id.clone(), from, to });
        }
        self.state = next;
        if to.is_terminal() {
            // The bug: the job ended when its worker began.
            let early = self.started.filter(|_| defect!(EndsAreTimedEarly));
            (self.phase, self.ended) = (None, early.or(Some(now)));
        } else {
            self.started = Some(now);
        }
        Ok(())
    }

    /// Reads a record.
    pub(super) fn parse(id: &JobId, path: &Path, bytes: &[u8]) -> Result<Self, BrokenRecord> {
        let broken = |damage| BrokenRecord { id: id.clone(), path: path.to_owned(), damage };
        if bytes.is_empty() {
            return Err(broken(Damage::Empty));
        }
        let malformed = |why: serde_json::Error| broken(Damage::Malformed(why.to_string()));
        let Versioned { version } = serde_json::from_slice(bytes).map_err(malformed)?;
        if version != VERSION && !defect!(LaterRecordsAreRead) {
            return Err(broken(Damage::Version(version)));
        }
        let record: Record = serde_json::from_slice(bytes).map_err(malformed)?;
        if record.id != *id {
            return Err(broken(Damage::Malformed(format!("it is the record of {}", record.id))));
        }
        record.into_job().map_err(|why| broken(Damage::Malformed(why.to_owned())))
    }

    /// Writes a record.
    pub(super) fn to_bytes(&self) -> serde_json::Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec_pretty(&Record::from(self.clone()))?;
        bytes.push(b'\n');
        Ok(bytes)
    }
}

#[derive(Deserialize)]
struct Versioned {
    version: u64,
}

/// The members of a record.
#[derive(Serialize, Deserialize)]
struct Record {
    version: u64,
    id: JobId,
    kind: JobKind,
    session: Option<String>,
    title: String,
    workspace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    order: Option<Order>,
    state: StateName,
    /// Of a queued job its starter, of a running one its worker.
    process: Option<Process>,
    phase: Option<String>,
    thread: Option<String>,
    turn: Option<String>,
    report: Option<String>,
    /// Why the job failed.
    error: Option<String>,
    created: u64,
    started: Option<u64>,
    ended: Option<u64>,
    #[serde(flatten)]
    other: Map<String, Value>,
}

#[derive(Serialize, Deserialize)]
struct Process {
    pid: u32,
    started: String,
}

impl From<Job> for Record {
    fn from(job: Job) -> Self {
        let state = job.state.name();
        let process = job
            .state
            .process()
            .map(|process| Process { pid: process.pid, started: process.started.clone() });
        let error = match job.state {
            State::Failed { message } => Some(message),
            _ => None,
        };
        Self {
            version: VERSION,
            id: job.id,
            kind: job.kind,
            session: job.session,
            title: job.title,
            workspace: job.workspace,
            order: job.order,
            state,
            process,
            phase: job.phase,
            thread: job.thread,
            turn: job.turn,
            report: job.report,
            error,
            created: job.created,
            started: job.started,
            ended: job.ended,
            other: job.other,
        }
    }
}

impl Record {
    fn into_job(self) -> Result<Job, &'static str> {
        let process =
            self.process.map(|process| Identity { pid: process.pid, started: process.started });
        let state = match (self.state, process) {
            (StateName::Queued, Some(starter)) => State::Queued { starter },
            (StateName::Running, Some(worker)) => State::Running { worker },
            (StateName::Queued | StateName::Running, None) => return Err("it has no process"),
            (StateName::Completed, _) => State::Completed,
            (StateName::Failed, _) => State::Failed { message: self.error.unwrap_or_default() },
            (StateName::Cancelled, _) => State::Cancelled,
        };
        Ok(Job {
            id: self.id,
            kind: self.kind,
            session: self.session,
            title: self.title,
            workspace: self.workspace,
            order: self.order,
            state,
            phase: self.phase,
            thread: self.thread,
            turn: self.turn,
            report: self.report,
            created: self.created,
            started: self.started,
            ended: self.ended,
            // The bug: the members of a later program are lost.
            other: if defect!(MembersAreDropped) { Map::new() } else { self.other },
        })
    }
}
