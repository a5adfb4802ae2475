//! The commands of a user for jobs: start, show, wait, cancel, kill, and end a session.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::Value;
use tokio::time::sleep;

use super::notes::{Damaged, JobCancelled, SeenCancels};
use super::watch::{look, stream, wait};
use super::{DIRECTORY, limits, pages, signals, store, tag, worker};
use crate::files::Open;
use crate::history::{Answer, Call, Data};
use crate::process::{Detached, KILL, Reach};
use crate::subject::HostContext;
use crate::subjects::turn::notes::Tag;
use crate::subjects::turn::operations::{Damage, RouteSetup};
use crate::subjects::turn::workspace;
use reknit_turn::command::Order;
use reknit_turn::jobs::{Job, JobError, JobId, JobStore, NewJob};
use reknit_turn::runner::{self, Cancelled};

/// A request of a user about jobs.
pub enum Ask {
    /// Starts a job.
    Launch {
        tag: Tag,
        order: Box<Order>,
        route: RouteSetup,
        session: Option<String>,
        worker: Worker,
    },
    /// Shows all jobs.
    Show,
    /// Waits for the jobs of a turn.
    Wait { turn: String, at_most: Duration },
    /// Cancels the active jobs of a turn.
    Cancel { turn: String },
    /// Sends a signal to the workers of a turn.
    Signal { turn: String, number: i32 },
    /// Ends a session.
    EndSession { session: String },
    /// Damages the records of the jobs of a turn.
    Damage { turn: String, how: Damage },
    /// Reads the record of a job of a turn.
    Read { turn: String },
    /// Prunes the records.
    Prune,
    /// Holds the lock of the records for so long.
    Hold { lasts: Duration },
}

/// The program of a worker.
#[derive(Clone, Copy, Default)]
pub struct Worker {
    /// Whether it cannot be started.
    pub unstartable: bool,
    /// How long it takes to begin.
    pub takes: Duration,
}

/// Carries out a request in a separate command, and records the answer.
pub async fn perform(host: HostContext, call: Call, ask: Ask) {
    let answer = match ask {
        Ask::Launch { tag, order, route, session, worker: Worker { unstartable, takes } } => {
            let program = |id: &_| match unstartable {
                true => worker::missing(),
                false => worker::program(id, route, &tag, takes),
            };
            let launched = launch(&host, *order, session, program).await;
            launched.map(|()| Answer::queued("in the background"))
        }
        Ask::Show => show(&host, call).await.map(|text| text.into()),
        Ask::Wait { turn, at_most } => {
            wait(&host, (call, &turn), at_most).await.map(|states| states.into())
        }
        Ask::Cancel { turn } => cancel(&host, &turn).await.map(|ended| ended.into()),
        Ask::Signal { turn, number } => {
            let done = if number == KILL { "abandoned" } else { "stopped" };
            signal(&host, &turn, number).await.map(|()| done.into())
        }
        Ask::EndSession { session } => {
            end_session(&host, call, &session).await.map(|ended| ended.into())
        }
        Ask::Damage { turn, how } => damage(&host, &turn, how).await.map(|()| "damaged".into()),
        Ask::Read { turn } => read(&host, &turn).await.map(|record| record.into()),
        Ask::Prune => prune(&host).await.map(|text| text.into()),
        Ask::Hold { lasts } => hold(&host, lasts).await.map(|text| text.into()),
    };
    match answer {
        Ok(answer) => host.record.answered(call, answer),
        Err(error) => host.record.refused(call, error.to_string()),
    }
}

/// Shows all jobs: as a summary in the answer, and as pages.
async fn show(host: &HostContext, call: Call) -> Result<String, JobError> {
    let saw = look(host, &stream(call), usize::MAX).await?;
    let store = store(host).await?;
    pages::show(host, &store, call).await?;
    Ok(saw.to_string())
}

async fn prune(host: &HostContext) -> Result<String, JobError> {
    let pruned = store(host).await?.prune().await?;
    Ok(format!("pruned jobs: {}, leftovers: {}", pruned.jobs.len(), pruned.leftovers))
}

/// Holds the lock of the records, as a command that hangs does.
async fn hold(host: &HostContext, lasts: Duration) -> Result<&'static str, JobError> {
    let path = Path::new(DIRECTORY).join("lock");
    let held = async {
        let lock = host.env.files.open(&path, Open::Write).await?;
        let is_free = lock.try_lock().await?;
        sleep(lasts).await;
        Ok(if is_free { "held" } else { "another command holds it" })
    };
    held.await.map_err(|error| JobError::Files { path: path.clone(), error })
}

async fn launch(
    host: &HostContext,
    order: Order,
    session: Option<String>,
    program: impl FnOnce(&JobId) -> Detached,
) -> Result<(), JobError> {
    let new = NewJob::of(order, session);
    store(host).await?.launch(new, program).await.map(drop)
}

/// Cancels the active jobs of a turn, each with a separate command. No command waits for the end of the
/// worker of another one.
async fn cancel(host: &HostContext, turn: &str) -> Result<Data, JobError> {
    let store = store(host).await?;
    let jobs = active(&store, turn).await?;
    let cancels = jobs.iter().map(|job| cancel_job(host, &store, job));
    let mut ended = SeenCancels(Vec::new());
    for cancelled in join_all(cancels).await.iter().flatten() {
        ended.push(cancelled);
    }
    Ok(ended.into())
}

/// Cancels a job, if it is active.
async fn cancel_job(host: &HostContext, store: &JobStore, job: &Job) -> Option<Cancelled> {
    let (broker, limits) = (workspace::search(host, ""), limits::cancel(&host.limits));
    let stream = tag(job).stream();
    let env = signals::recorded(host, stream.clone());
    match runner::cancel(store, &env, Some(&broker), &job.id, limits).await {
        Ok(cancelled) => {
            host.record.observed(&stream, JobCancelled::of(job, &cancelled));
            Some(cancelled)
        }
        Err(JobError::NotAllowed { .. } | JobError::Missing(_)) => None, // it is over
        Err(error) => {
            tracing::warn!(%error, "cannot cancel a job");
            None
        }
    }
}

async fn end_session(host: &HostContext, call: Call, session: &str) -> Result<String, JobError> {
    let store = store(host).await?;
    let (broker, limits) = (workspace::search(host, ""), limits::cancel(&host.limits));
    let env = signals::recorded(host, stream(call));
    let end = runner::end_session(&store, &env, Some(&broker), session, limits).await?;
    let failed = match end.failed.len() {
        0 => String::new(),
        failed => format!(", not ended: {failed}"),
    };
    Ok(format!("cancelled jobs: {}{failed}", end.cancelled.len()))
}

/// Sends a signal to the workers of a turn.
async fn signal(host: &HostContext, turn: &str, number: i32) -> Result<(), JobError> {
    let own = host.env.processes.own().map_err(JobError::Processes)?;
    for job in active(&store(host).await?, turn).await? {
        if let Some(worker) = job.state.process().filter(|worker| **worker != own) {
            let _ = host.env.processes.signal(worker, number, Reach::Process); // it may be dead
        }
    }
    Ok(())
}

/// Damages the records of a turn's jobs.
async fn damage(host: &HostContext, turn: &str, how: Damage) -> Result<(), JobError> {
    let store = store(host).await?;
    for job in store.list(None).await?.jobs.iter().filter(|job| tag(job).turn == turn) {
        let path = path(job);
        let damaged = async {
            if how == Damage::Removed {
                return host.env.files.remove_file(&path).await;
            }
            let damaged = damaged(bytes(host, &path).await?, how);
            host.env.files.open(&path, Open::Replace).await?.write_at(0, damaged).await
        };
        host.record.observed(&tag(job).stream(), Damaged { is_gone: how == Damage::Removed });
        damaged.await.map_err(|error| JobError::Files { path: path.clone(), error })?;
    }
    Ok(())
}

/// Returns the path of the record of a job.
fn path(job: &Job) -> PathBuf {
    PathBuf::from(DIRECTORY).join(format!("{}.json", job.id))
}

/// Returns the content of a file.
async fn bytes(host: &HostContext, path: &Path) -> io::Result<Vec<u8>> {
    let file = host.env.files.open(path, Open::Read).await?;
    let size = usize::try_from(file.metadata().await?.size).unwrap_or_default();
    file.read_at(0, size).await
}

/// Returns the record of the newest job of a turn.
async fn read(host: &HostContext, turn: &str) -> Result<String, JobError> {
    let jobs = store(host).await?.list(None).await?.jobs;
    let Some(job) = jobs.iter().find(|job| tag(job).turn == turn) else {
        return Ok("there is no job".to_owned());
    };
    let path = path(job);
    let record = bytes(host, &path).await;
    let record = record.map_err(|error| JobError::Files { path, error })?;
    Ok(String::from_utf8_lossy(&record).into_owned())
}

/// Returns a record with this damage.
fn damaged(mut record: Vec<u8>, how: Damage) -> Vec<u8> {
    let mut json: Value = serde_json::from_slice(&record).unwrap_or_default();
    match how {
        Damage::Half => record.truncate(record.len() / 2),
        Damage::Emptied | Damage::Removed => record.clear(),
        Damage::Grown => record.resize(record.len() + (64 << 10), b' '),
        Damage::Renamed => json["id"] = "task-other".into(),
        Damage::Newer => json["version"] = 99.into(),
        Damage::Orphaned => json["process"] = Value::Null,
        Damage::Orderless => json["order"] = Value::Null,
        Damage::Extended => json["colour"] = "green".into(),
    }
    match how {
        Damage::Renamed
        | Damage::Newer
        | Damage::Orphaned
        | Damage::Orderless
        | Damage::Extended => json.to_string().into_bytes(),
        _ => record,
    }
}

/// Returns the active jobs of a turn, the oldest first.
async fn active(store: &JobStore, turn: &str) -> Result<Vec<Job>, JobError> {
    let jobs = store.list(None).await?.jobs.into_iter().rev();
    Ok(jobs.filter(|job| tag(job).turn == turn && job.is_active()).collect())
}
