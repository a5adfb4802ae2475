//! Watches for files to appear.
//!
//! The server looks at the paths again and again: this works on every file system.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use reknit_seams::defect;
use reknit_seams::files::{Files, Kind};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::request::local;
use super::{Outbound, outbound_notification};
use crate::wire::files::{MissingChanged, WatchMissingParams, WatchMissingResult};
use crate::wire::{RequestId, method, response_text};

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(500);

/// How many paths one watch may have, as in codex 0.169.0.
const MOST_PATHS: usize = 64;

/// How many watches one connection may have.
const MOST_WATCHES: usize = 64;

/// The watches of one connection. Dropping it ends all of them.
#[derive(Default)]
pub(super) struct Watches {
    tasks: JoinSet<()>,
    /// The highest id that was requested. Ids increase, as in codex 0.169.0: a notification never
    /// has the id of a later watch.
    newest: u64,
}

impl Watches {
    /// Answers a request of `bytes` bytes for a watch, and begins the watch if that is possible.
    pub(super) fn start(
        &mut self,
        files: Arc<dyn Files>,
        id: RequestId,
        params: WatchMissingParams,
        bytes: usize,
        sender: mpsc::Sender<Outbound>,
    ) {
        // Discards the results of finished tasks.
        while !defect!(EndedWatchesCount) && self.tasks.try_join_next().is_some() {}
        let watch_id = params.watch_id;
        let is_new = watch_id > self.newest
            && (self.tasks.len() < MOST_WATCHES || defect!(WatchesUnbounded));
        let watch = if is_new { Watch::of(files, params) } else { None };
        if watch.is_some() || !defect!(RefusedWatchKeepsId) {
            self.newest = self.newest.max(watch_id);
        }
        self.tasks.spawn(async move {
            let watching = match &watch {
                Some(watch) => watch.holds().await,
                None => false,
            };
            let text = response_text(&id, &WatchMissingResult { watching });
            // If the connection has ended, this task is about to end too.
            let _ = sender.send(Outbound { text, answers: Some(bytes) }).await;
            if let Some(watch) = watch.filter(|_| watching) {
                while watch.holds().await {
                    sleep(if defect!(WatchLooksRarely) { PAUSE * 20 } else { PAUSE }).await;
                }
                let changed = MissingChanged { watch_id };
                let _ = sender.send(outbound_notification(method::MISSING_CHANGED, &changed)).await;
            }
        });
    }
}

/// The watched path.
struct Watch {
    files: Arc<dyn Files>,
    missing: Vec<PathBuf>,
    present: Option<PathBuf>,
}

impl Watch {
    /// Returns `None` if the paths cannot be watched.
    fn of(files: Arc<dyn Files>, params: WatchMissingParams) -> Option<Self> {
        if params.missing.is_empty() || params.missing.len() > MOST_PATHS {
            return None;
        }
        let path = |path| local(path).ok().map(ToOwned::to_owned);
        let missing = params.missing.iter().map(path).collect::<Option<Vec<PathBuf>>>()?;
        let present = match &params.present {
            Some(present) => Some(path(present)?),
            None => None,
        };
        Some(Self { files, missing, present })
    }

    /// Whether the missing paths are missing, and the present one is present and no link.
    async fn holds(&self) -> bool {
        let mut appeared = 0;
        for path in &self.missing {
            match self.files.metadata(path, false).await {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                _ if defect!(WatchWaitsForAll) && appeared + 1 < self.missing.len() => {
                    appeared += 1
                }
                _ => return false,
            }
        }
        match &self.present {
            Some(present) => {
                let found = self.files.metadata(present, false).await;
                found.is_ok_and(|found| found.kind != Kind::Link)
            }
            None => true,
        }
    }
}
