//! The notes of workers and users about jobs.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::history::{Call, Data};
use crate::process::Identity;
use reknit_turn::jobs::{Job, Listing, StateName, Stopped};
use reknit_turn::runner::{Cancelled, Interrupted, view};

use super::tag;

/// A worker begins. The stream is that of its turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorkerBegan {
    /// The id of its job.
    pub job: String,
    /// Its name in the history.
    pub name: String,
    /// Its process.
    pub process: ProcessNote,
}

/// A process, as a note names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessNote {
    /// The process id.
    pub pid: u32,
    /// Distinguishes it from others with the same id.
    pub started: String,
}

/// A command sends a signal to a process. The stream is that of the turn whose job it ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Signalled {
    /// The process.
    pub to: ProcessNote,
    /// The number of the signal.
    pub number: i32,
}

/// The user damages the record of a job. The stream is that of its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Damaged {
    /// Whether the record was removed.
    pub is_gone: bool,
}

/// A user cancelled a job. The stream is that of its turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JobCancelled {
    /// Whether the record named a thread of a running job before.
    pub had_thread: bool,
    /// Whether the cancel interrupted the turn, or tried to.
    pub interrupts: bool,
    /// Whether the worker had to be killed.
    pub killed: bool,
}

/// The jobs that a command of a user cancelled: for each, its interrupt and the end of its worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SeenCancels(pub Vec<String>);

impl SeenCancels {
    /// Adds a cancelled job.
    pub fn push(&mut self, cancelled: &Cancelled) {
        let Cancelled { interrupted, worker } = cancelled;
        self.0.push(format!("interrupt: {interrupted:?}, worker: {worker:?}"));
    }
}

impl fmt::Display for SeenCancels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cancelled jobs: {}", self.0.len())?;
        self.0.iter().try_for_each(|job| write!(f, "; {job}"))
    }
}

/// A user begins to look at the jobs. The stream is that of the look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Looks;

/// The jobs that a user sees. The note follows a [`Looks`] on the same stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Saw {
    /// Whether the user looked at all jobs of the machine.
    pub all: bool,
    /// The jobs with a usable record.
    pub jobs: Vec<SeenJob>,
    /// The ids of the jobs with an unusable record.
    pub broken: Vec<String>,
    /// The operations of the active jobs that are listed, but are not found by their ids.
    pub not_found: Vec<Call>,
}

/// A job, as a user sees it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SeenJob {
    /// The operation that started it.
    pub call: Call,
    /// Its turn.
    pub turn: String,
    /// Its id.
    pub id: String,
    /// Its state.
    pub state: StateName,
    /// All that the user sees, as JSON.
    pub shown: Value,
    /// The log of a job that is over.
    pub log: Vec<String>,
}

impl From<&Identity> for ProcessNote {
    fn from(process: &Identity) -> Self {
        Self { pid: process.pid, started: process.started.clone() }
    }
}

impl JobCancelled {
    /// Returns the note about a job and the result of its cancel.
    pub fn of(job: &Job, cancelled: &Cancelled) -> Self {
        Self {
            had_thread: job.state.name() == StateName::Running && job.thread.is_some(),
            interrupts: cancelled.interrupted != Interrupted::NotNeeded,
            killed: cancelled.worker == Stopped::Killed,
        }
    }
}

/// The last line of a log that is full.
const FULL: &str = "(the log is full)";

impl SeenJob {
    /// Whether the log says that it is full.
    pub fn has_full_log(&self) -> bool {
        self.log.last().is_some_and(|last| last == FULL)
    }
}

impl From<&Job> for SeenJob {
    fn from(job: &Job) -> Self {
        let tag = tag(job);
        Self {
            call: tag.call,
            turn: tag.turn,
            id: job.id.to_string(),
            state: job.state.name(),
            shown: view::job_json(job, &[]),
            log: Vec::new(),
        }
    }
}

impl Saw {
    /// Returns what a user sees of all jobs.
    pub fn listing(listing: &Listing) -> Self {
        Self {
            all: true,
            jobs: listing.jobs.iter().map(SeenJob::from).collect(),
            broken: listing.broken.iter().map(|broken| broken.id.to_string()).collect(),
            not_found: Vec::new(),
        }
    }

    /// Returns what a user sees of one job.
    pub fn job(job: &Job) -> Self {
        Self { all: false, jobs: vec![job.into()], broken: Vec::new(), not_found: Vec::new() }
    }
}

impl fmt::Display for WorkerBegan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} begins to work, as process {}", self.name, self.process.pid)
    }
}

impl fmt::Display for Signalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a command sends signal {} to process {}", self.number, self.to.pid)
    }
}

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.is_gone { "removes" } else { "damages" };
        write!(f, "the user {what} the record of the job")
    }
}

impl fmt::Display for JobCancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the job is cancelled")?;
        f.write_str(if self.interrupts { ", its turn interrupted" } else { "" })?;
        f.write_str(if self.killed { ", its worker killed" } else { "" })
    }
}

impl fmt::Display for Looks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the user looks at the jobs")
    }
}

impl fmt::Display for Saw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let jobs = self.jobs.iter().map(|job| {
            let log = if job.has_full_log() { " (its log is full)" } else { "" };
            format!("{} {}{log}", job.turn, job.state)
        });
        let broken = self.broken.iter().map(|_| "one is not readable".to_owned());
        let all: Vec<String> = jobs.chain(broken).collect();
        f.write_str(if all.is_empty() { "no jobs" } else { "" })?;
        f.write_str(&all.join(", "))
    }
}

/// Makes each of these types a fact of the history.
macro_rules! data {
    ($($note:ty),*) => {
        $(impl From<$note> for Data {
            fn from(note: $note) -> Self {
                Data::of(note)
            }
        })*
    };
}

data!(WorkerBegan, Signalled, Damaged, JobCancelled, SeenCancels, Looks, Saw);
