//! The files of the job store, and its lock.
//!
//! | file | content |
//! |---|---|
//! | `lock` | empty; a process that changes a record holds its lock |
//! | `ID.json` | the record |
//! | `ID.new` | the next record, while it is written |
//! | `ID.log` | the log of the worker ([`JobLog`](super::JobLog)) |
//! | `ID.out` | the standard output and the standard error of the worker |

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use reknit_seams::defect;
use reknit_seams::files::{File, Files, Open};
use tokio::time::{Instant, sleep};

use super::error::{BrokenRecord, Damage, JobError};
use super::id::JobId;
use super::record::Job;
use crate::limits::JobLimits;

/// The lock of a store, until it is dropped. The system releases it when its holder dies.
pub(super) struct Lock(#[expect(dead_code, reason = "the file holds the lock")] Box<dyn File>);

/// The kind of a file of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Record,
    NewRecord,
    Log,
    Output,
}

const KINDS: [(Kind, &str); 4] =
    [(Kind::Record, "json"), (Kind::NewRecord, "new"), (Kind::Log, "log"), (Kind::Output, "out")];

/// The files of a store.
#[derive(Clone)]
pub(super) struct Folder {
    pub(super) files: Arc<dyn Files>,
    directory: PathBuf,
    limits: JobLimits,
}

/// How long a process waits at first before it asks for the lock again, and at most.
const POLLS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

impl Folder {
    /// Opens the directory, and creates it and its parents if they do not exist.
    pub(super) async fn open(
        files: Arc<dyn Files>,
        directory: PathBuf,
        limits: JobLimits,
    ) -> Result<Self, JobError> {
        let missing: Vec<&Path> = directory.ancestors().collect();
        for path in missing.into_iter().rev() {
            match files.create_directory(path).await {
                Ok(()) => {
                    let parent = path.parent().unwrap_or(path);
                    files.sync_directory(parent).await.map_err(|error| failed(parent, error))?;
                }
                Err(error) if files.metadata(path, true).await.is_err() => {
                    return Err(failed(path, error));
                }
                Err(_) => {} // it exists
            }
        }
        Ok(Self { files, directory, limits })
    }

    pub(super) fn path(&self, id: &JobId, kind: Kind) -> PathBuf {
        let ending = KINDS.iter().find(|(known, _)| *known == kind).map_or("", |(_, end)| end);
        self.directory.join(format!("{id}.{ending}"))
    }

    /// Takes the lock, and waits until others have released it.
    pub(super) async fn lock(&self) -> Result<Lock, JobError> {
        let path = self.directory.join("lock");
        let failed = |error| failed(&path, error);
        let file = self.files.open(&path, Open::Write).await.map_err(failed)?;
        let (deadline, mut wait) = (Instant::now() + self.limits.lock, POLLS.0);
        while !defect!(UpdatesWithoutLock) && !file.try_lock().await.map_err(failed)? {
            // The bug: a process waits for the lock as long as another one holds it.
            if Instant::now() >= deadline && !defect!(LocksAreAwaited) {
                return Err(JobError::Locked(self.limits.lock));
            }
            sleep(wait).await;
            wait = (wait * 2).min(POLLS.1);
        }
        Ok(Lock(file))
    }

    /// Reads a record. It needs no lock: a record is replaced at once.
    pub(super) async fn read(&self, id: &JobId) -> Result<Job, JobError> {
        let path = self.path(id, Kind::Record);
        let file = match self.files.open(&path, Open::Read).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(JobError::Missing(id.to_string()));
            }
            opened => opened.map_err(|error| failed(&path, error))?,
        };
        let most = self.limits.record_bytes;
        let bytes = file.read_at(0, most + 1).await.map_err(|error| failed(&path, error))?;
        if bytes.len() > most {
            let damage = Damage::TooLarge(most);
            return Err(BrokenRecord { id: id.clone(), path, damage }.into());
        }
        Ok(Job::parse(id, &path, &bytes)?)
    }

    /// Replaces a record at once, durably. The caller holds the lock. After a crash, the record is
    /// the old or the new one.
    pub(super) async fn write(&self, job: &Job) -> Result<(), JobError> {
        if defect!(WritesInTwoSteps) {
            self.write_without_report(job).await?;
        }
        let (new, path) = (self.path(&job.id, Kind::NewRecord), self.path(&job.id, Kind::Record));
        let replaced = async {
            let bytes = job.to_bytes()?;
            // The bug: a record is written that no program reads.
            if bytes.len() > self.limits.record_bytes && !defect!(RecordsHaveNoLimit) {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            // A crashed process may have left the file.
            let file = self.files.open(&new, Open::Replace).await?;
            file.set_mode(0o600).await?;
            file.write_at(0, bytes).await?;
            file.sync().await?;
            self.files.rename(&new, &path).await?;
            self.files.sync_directory(&self.directory).await
        };
        replaced.await.map_err(|error| failed(&path, error))
    }

    /// Lists the files of all jobs.
    pub(super) async fn entries(&self) -> Result<Vec<(JobId, Kind)>, JobError> {
        let entries = self.files.entries(&self.directory, self.limits.entries).await;
        let entries = entries.map_err(|error| failed(&self.directory, error))?;
        let mut found: Vec<(JobId, Kind)> = entries
            .iter()
            .filter_map(|entry| {
                let (id, ending) = entry.name.to_str()?.rsplit_once('.')?;
                let (kind, _) = KINDS.iter().find(|(_, known)| *known == ending)?;
                Some((JobId::new(id)?, *kind))
            })
            .collect();
        found.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(found)
    }

    /// Removes a file of a job; it may be gone already.
    pub(super) async fn remove(&self, id: &JobId, kind: Kind) -> Result<(), JobError> {
        let path = self.path(id, kind);
        match self.files.remove_file(&path).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(&path, error)),
            _ => Ok(()),
        }
    }
}

pub(super) fn failed(path: &Path, error: io::Error) -> JobError {
    JobError::Files { path: path.to_owned(), error }
}
