//! Removing the records of old jobs.

use std::collections::BTreeSet;

use reknit_seams::{defect, milestone};

use super::error::JobError;
use super::files::Kind;
use super::id::JobId;
use super::store::JobStore;

/// The result of a prune.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// The jobs.
    pub jobs: Vec<JobId>,
    /// How many files of jobs without a record, which a crash left behind.
    pub leftovers: usize,
}

impl JobStore {
    /// Removes the oldest jobs that are over, except the newest [`kept`](crate::limits::JobLimits::kept)
    /// of them, with all their files, and files that a crash left behind. It never removes an active
    /// job, nor a record that is not usable.
    ///
    /// # Errors
    /// If the file system fails, or the lock is busy for too long.
    pub async fn prune(&self) -> Result<Pruned, JobError> {
        let lock = self.folder.lock().await?;
        let pruned = self.prune_locked().await;
        drop(lock);
        pruned
    }

    /// Prunes. The caller holds the lock.
    pub(super) async fn prune_locked(&self) -> Result<Pruned, JobError> {
        let entries = self.folder.entries().await?;
        let mut pruned = Pruned::default();
        let (mut over, mut recorded) = (Vec::new(), BTreeSet::new());
        for (id, _) in entries.iter().filter(|(_, kind)| *kind == Kind::Record) {
            recorded.insert(id.clone());
            match self.folder.read(id).await {
                Ok(job) if job.is_active() && !defect!(PrunesActiveJobs) => {}
                Ok(job) => {
                    let ended = job.ended.filter(|_| !defect!(PrunesByCreation));
                    over.push((ended.unwrap_or(job.created), id.clone()));
                }
                Err(JobError::Broken(_)) if defect!(WipesBrokenRecords) => {
                    over.push((0, id.clone()))
                }
                Err(_) => {}
            }
        }
        over.sort();
        // The bug: one job more than the limit is kept.
        let kept = self.limits.kept + usize::from(defect!(KeepsOneJobMore));
        // The bug: one job fewer than the limit is kept.
        let kept = kept.saturating_sub(usize::from(defect!(KeepsOneJobLess)));
        over.truncate(over.len().saturating_sub(kept));
        for (_, id) in over {
            // The record first: files without a record are leftovers for a later prune.
            for kind in [Kind::Record, Kind::NewRecord, Kind::Log, Kind::Output] {
                self.folder.remove(&id, kind).await?;
            }
            milestone!("turn.jobs.pruned", job = id.as_str());
            recorded.remove(&id);
            pruned.jobs.push(id);
        }
        for (id, kind) in entries {
            let is_pruned = pruned.jobs.contains(&id);
            // Only the holder of the lock writes a new record, and that is this process.
            if !is_pruned
                && !defect!(LeftoversStay)
                && (kind == Kind::NewRecord || !recorded.contains(&id))
            {
                self.folder.remove(&id, kind).await?;
                pruned.leftovers += 1;
            }
        }
        Ok(pruned)
    }
}
