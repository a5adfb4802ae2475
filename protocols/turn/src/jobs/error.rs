//! The errors of the job store.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::id::JobId;
use super::state::StateName;

/// An error of the job store.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// No job has this id, or an id that begins like this.
    #[error("there is no job '{0}'")]
    Missing(String),
    /// Several jobs have an id that begins like this.
    #[error("'{reference}' is not unique: {}", names(.ids))]
    Ambiguous {
        /// The beginning of an id.
        reference: String,
        /// The ids.
        ids: Vec<JobId>,
    },
    /// The record of the job is not usable.
    #[error(transparent)]
    Broken(#[from] BrokenRecord),
    /// The state of the job does not allow this.
    #[error("job {id} is {from}, so it cannot become {to}")]
    NotAllowed {
        /// The job.
        id: JobId,
        /// Its state.
        from: StateName,
        /// The state that it should get.
        to: StateName,
    },
    /// The record of the job contains no order for its worker.
    #[error("the record of job {0} contains no order")]
    NoOrder(JobId),
    /// The order of a new job is too long.
    #[error("the order has more than {0} bytes: write the rest into a file, and name the file")]
    OrderTooLong(usize),
    /// The process is not, or no longer, the worker of the job.
    #[error("job {id} is {state}, and this process is not its worker")]
    NotItsWorker {
        /// The job.
        id: JobId,
        /// Its state.
        state: StateName,
    },
    /// Another process held the lock for too long.
    #[error("another process has held the lock of the job records for {} s", .0.as_secs())]
    Locked(Duration),
    /// The file system failed.
    #[error("cannot use {}: {error}", path.display())]
    Files {
        /// The path.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The process table failed.
    #[error("cannot look up or start a process: {0}")]
    Processes(#[source] io::Error),
}

fn names(ids: &[JobId]) -> String {
    ids.iter().map(JobId::as_str).collect::<Vec<_>>().join(", ")
}

/// A record that is not usable. The store keeps it, and never replaces it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the record of job {id} is not usable: {damage}; remove {} to forget the job", path.display())]
pub struct BrokenRecord {
    /// The job.
    pub id: JobId,
    /// The file.
    pub path: PathBuf,
    /// The fault.
    pub damage: Damage,
}

/// The fault of a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// The file is empty.
    #[error("it is empty")]
    Empty,
    /// The file is too large.
    #[error("it has more than {0} bytes")]
    TooLarge(usize),
    /// The file has no readable record.
    #[error("{0}")]
    Malformed(String),
    /// The record has a version that this program does not know.
    #[error("it has version {0}, and this program knows version 1")]
    Version(u64),
}
