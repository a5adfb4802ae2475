//! The store: how jobs are created, claimed, changed and found.

use std::path::PathBuf;
use std::time::SystemTime;

use reknit_seams::process::Identity;
use reknit_seams::{Env, defect, milestone, point};

use super::error::{BrokenRecord, JobError};
use super::files::{Folder, Kind};
use super::id::JobId;
use super::log::JobLog;
use super::record::{Job, JobKind, NewJob};
use super::state::State;
use crate::limits::JobLimits;

/// The jobs of a workspace. A clone is the same store.
#[derive(Clone)]
pub struct JobStore {
    pub(super) env: Env,
    pub(super) folder: Folder,
    pub(super) limits: JobLimits,
}

/// The right of a worker to report on a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    id: JobId,
    worker: Identity,
}

impl Claim {
    /// Returns the job.
    pub fn id(&self) -> &JobId {
        &self.id
    }
}

/// News of a running job. `None` does not change a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Update {
    /// The phase of the work.
    pub phase: Option<String>,
    /// The thread of the turn.
    pub thread: Option<String>,
    /// The turn.
    pub turn: Option<String>,
}

impl Update {
    /// Takes the values that it lacks from earlier news.
    pub fn fill_from(&mut self, earlier: Self) {
        self.phase = self.phase.take().or(earlier.phase);
        self.thread = self.thread.take().or(earlier.thread);
        self.turn = self.turn.take().or(earlier.turn);
    }
}

/// The end of a job, as its worker reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The turn completed.
    Completed,
    /// The turn failed.
    Failed {
        /// Why.
        message: String,
    },
    /// The user cancelled the turn.
    Cancelled,
}

impl From<Ending> for State {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Completed => Self::Completed,
            Ending::Failed { message } => Self::Failed { message },
            Ending::Cancelled => Self::Cancelled,
        }
    }
}

/// The jobs of a store.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    /// The readable ones, the newest first.
    pub jobs: Vec<Job>,
    /// The records that are not usable.
    pub broken: Vec<BrokenRecord>,
}

impl JobStore {
    /// Opens the store in this directory, an absolute path. Creates the directory if it does not
    /// exist.
    ///
    /// # Errors
    /// If the file system fails.
    pub async fn open(
        env: &Env,
        directory: impl Into<PathBuf>,
        limits: JobLimits,
    ) -> Result<Self, JobError> {
        let folder = Folder::open(env.files.clone(), directory.into(), limits).await?;
        Ok(Self { env: env.clone(), folder, limits })
    }

    /// Creates a queued job, and prunes old ones. The job depends on this process until
    /// [`assign`](Self::assign) names another one.
    ///
    /// # Errors
    /// If the file system or the process table fails, or the lock is busy for too long. An error of
    /// pruning is only logged.
    pub async fn create(&self, new: NewJob) -> Result<Job, JobError> {
        let id = self.draw_id(new.kind);
        self.create_as(id, new).await
    }

    pub(super) async fn create_as(&self, id: JobId, new: NewJob) -> Result<Job, JobError> {
        let order = serde_json::to_vec(&new.order).unwrap_or_default();
        if order.len() > self.limits.order_bytes && !defect!(OrdersHaveNoLimit) {
            return Err(JobError::OrderTooLong(self.limits.order_bytes));
        }
        let starter = self.own()?;
        let title = cut(&new.title, self.limits.title_bytes);
        let job = Job::new(id, NewJob { title, ..new }, starter, self.now());
        point!("turn.jobs.create").await;
        let lock = self.folder.lock().await?;
        self.folder.write(&job).await?;
        let pruned = self.prune_locked().await;
        drop(lock);
        if let Err(error) = pruned {
            tracing::warn!(%error, "cannot prune jobs");
        }
        milestone!("turn.jobs.created", job = job.id.as_str());
        point!("turn.jobs.created").await;
        Ok(job)
    }

    /// Draws an id that no other job has: 64 random bits.
    pub(super) fn draw_id(&self, kind: JobKind) -> JobId {
        let mut bytes = [0; 8];
        self.env.entropy.fill(&mut bytes);
        let id = format!("{}-{:016x}", kind.as_str(), u64::from_be_bytes(bytes));
        JobId::new(&id).expect("it has only such characters")
    }

    /// Names the process that a queued job depends on from now on: its worker, which has been started
    /// and has not claimed the job yet. Does nothing if the job is not queued any more.
    ///
    /// # Errors
    /// If the record is missing or not usable, the file system fails, or the lock is busy for too
    /// long.
    pub async fn assign(&self, id: &JobId, worker: &Identity) -> Result<Job, JobError> {
        self.change(id, |job, _| {
            if let State::Queued { starter } = &mut job.state {
                *starter = worker.clone();
            } else if job.is_active() && defect!(AssignsAClaimedJob) {
                job.state = State::Queued { starter: worker.clone() };
            }
            Ok(())
        })
        .await
    }

    /// Makes this process the worker of a queued job.
    ///
    /// # Errors
    /// [`JobError::NotAllowed`] if the job is not queued: it is cancelled, or has a worker. The caller
    /// must then not do the work. Also the errors of [`assign`](Self::assign).
    pub async fn claim(&self, id: &JobId) -> Result<Claim, JobError> {
        let worker = self.own()?;
        self.change(id, |job, now| job.enter(State::Running { worker: worker.clone() }, now))
            .await?;
        milestone!("turn.jobs.claimed", job = id.as_str());
        Ok(Claim { id: id.clone(), worker })
    }

    /// Records news of a running job.
    ///
    /// # Errors
    /// [`JobError::NotItsWorker`] if the job is over or has another worker; then the worker should
    /// interrupt its turn and end. Also the errors of [`assign`](Self::assign).
    pub async fn update(&self, claim: &Claim, update: Update) -> Result<Job, JobError> {
        self.change(&claim.id, |job, _| {
            if !defect!(UpdatesAfterTheEnd) {
                check_worker(job, claim)?;
            }
            job.phase = update.phase.or(job.phase.take());
            job.thread = update.thread.or(job.thread.take());
            job.turn = update.turn.or(job.turn.take());
            Ok(())
        })
        .await
    }

    /// Records the end of a running job, with the text for the user.
    ///
    /// # Errors
    /// As [`update`](Self::update). The recorded end of the job stands.
    pub async fn finish(
        &self,
        claim: &Claim,
        ending: Ending,
        report: Option<&str>,
    ) -> Result<Job, JobError> {
        let ending = match ending {
            Ending::Failed { message } => {
                Ending::Failed { message: cut(&message, self.limits.message_bytes) }
            }
            ending => ending,
        };
        // The bug: the limit of a message cuts a report.
        let most = match defect!(ReportsAreCutAsMessages) {
            true => self.limits.message_bytes,
            false => self.limits.report_bytes,
        };
        let report = report.map(|report| cut(report, most));
        let job = self
            .change(&claim.id, |job, now| {
                if !defect!(OverwritesTheEnd) {
                    check_worker(job, claim)?;
                }
                job.report = report;
                job.enter(ending.into(), now)
            })
            .await?;
        milestone!("turn.jobs.finished", job = job.id.as_str(), state = job.state.name().as_str());
        Ok(job)
    }

    /// Changes a record: the only way in which an existing one is changed. `edit` checks and changes
    /// the job; if it fails, the record does not change.
    pub(super) async fn change(
        &self,
        id: &JobId,
        edit: impl FnOnce(&mut Job, u64) -> Result<(), JobError>,
    ) -> Result<Job, JobError> {
        point!("turn.jobs.change").await;
        let lock = self.folder.lock().await?;
        let before = self.folder.read(id).await?;
        if defect!(UpdatesWithoutLock) {
            point!("turn.jobs.change.unlocked").await;
        }
        let mut job = before.clone();
        edit(&mut job, self.now())?;
        if job != before {
            self.folder.write(&job).await?;
        }
        drop(lock);
        point!("turn.jobs.changed").await;
        Ok(job)
    }

    /// Returns a job.
    ///
    /// # Errors
    /// [`JobError::Missing`] or [`JobError::Broken`], or if the file system fails.
    pub async fn read(&self, id: &JobId) -> Result<Job, JobError> {
        let job = self.folder.read(id).await?;
        point!("turn.jobs.read").await;
        self.reconcile(job).await
    }

    /// Lists the jobs of a session, or all of them.
    ///
    /// # Errors
    /// If the directory is not readable.
    pub async fn list(&self, session: Option<&str>) -> Result<Listing, JobError> {
        let mut listing = Listing::default();
        for id in self.ids().await? {
            match self.read(&id).await {
                Ok(job) => listing.jobs.push(job),
                Err(JobError::Broken(broken)) => listing.broken.push(broken),
                Err(JobError::Missing(_)) => {} // it was pruned meanwhile
                Err(error) => return Err(error),
            }
        }
        // The bug: a job without a session belongs to each session.
        let is_of = |job: &Job, session| match job.session.as_deref() {
            Some(own) => own == session,
            None => defect!(JobsWithoutASessionBelongToAll),
        };
        listing.jobs.retain(|job| session.is_none_or(|session| is_of(job, session)));
        listing.jobs.sort_by(|one, other| (other.created, &other.id).cmp(&(one.created, &one.id)));
        Ok(listing)
    }

    /// Finds a job of any session and in any state by its id, or by the beginning of its id.
    ///
    /// # Errors
    /// [`JobError::Missing`], [`JobError::Ambiguous`] or [`JobError::Broken`], or if the file system
    /// fails.
    pub async fn find(&self, reference: &str) -> Result<Job, JobError> {
        let mut ids = self.ids().await?;
        ids.retain(|id| id.as_str().starts_with(reference) && !reference.is_empty());
        if let Some(exact) = ids.iter().find(|id| id.as_str() == reference) {
            ids = vec![exact.clone()];
        }
        let job = match &ids[..] {
            [] => return Err(JobError::Missing(reference.to_owned())),
            [id] => self.read(id).await?,
            // The bug: the first of several jobs is meant.
            [first, ..] if defect!(AnyMatchIsMeant) => self.read(first).await?,
            _ => return Err(JobError::Ambiguous { reference: reference.to_owned(), ids }),
        };
        if job.is_active() && defect!(FindsOnlyFinishedJobs) {
            return Err(JobError::Missing(reference.to_owned()));
        }
        Ok(job)
    }

    /// Returns the ids of all jobs with a record, in order.
    pub(super) async fn ids(&self) -> Result<Vec<JobId>, JobError> {
        let entries = self.folder.entries().await?;
        Ok(entries
            .into_iter()
            .filter(|(_, kind)| *kind == Kind::Record)
            .map(|(id, _)| id)
            .collect())
    }

    /// Returns the log of a job.
    pub fn log(&self, id: &JobId) -> JobLog {
        JobLog::new(self.env.files.clone(), self.folder.path(id, Kind::Log), self.limits)
    }

    /// Returns the file for the standard output and the standard error of a job's worker.
    pub fn output_path(&self, id: &JobId) -> PathBuf {
        self.folder.path(id, Kind::Output)
    }

    pub(super) fn own(&self) -> Result<Identity, JobError> {
        self.env.processes.own().map_err(JobError::Processes)
    }

    pub(super) fn now(&self) -> u64 {
        let passed = self.env.clock.now().duration_since(SystemTime::UNIX_EPOCH);
        passed.map_or(0, |passed| u64::try_from(passed.as_millis()).unwrap_or(u64::MAX))
    }
}

/// Checks that a job runs, and that the claim is the one of its worker.
fn check_worker(job: &Job, claim: &Claim) -> Result<(), JobError> {
    match &job.state {
        State::Running { worker } if *worker == claim.worker => Ok(()),
        state => Err(JobError::NotItsWorker { id: job.id.clone(), state: state.name() }),
    }
}

/// Cuts a text to so many bytes, and marks the cut.
fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let mut end = most;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end])
}
