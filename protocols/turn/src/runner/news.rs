//! The news of a job, on their way to its record and its log.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use reknit_seams::defect;
use tokio::sync::Notify;

use crate::capture::Progress;
use crate::client::News;
use crate::jobs::{Claim, JobError, JobStore, Update};

/// How many lines may wait for the log. Beyond that, lines are left out.
const MOST_LINES: usize = 1024;

/// News that wait to be recorded. The client reports news faster than files take them, so only the
/// last value of each part of the record waits.
#[derive(Default)]
struct Waiting {
    update: Update,
    lines: VecDeque<String>,
    left_out: u64,
    is_closed: bool,
}

/// Takes the news of a client, and records them.
#[derive(Default)]
pub(super) struct Recorder {
    waiting: Mutex<Waiting>,
    wake: Notify,
}

impl Recorder {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes news, to record them soon.
    pub fn take(&self, news: &News) {
        let mut waiting = self.waiting();
        match news {
            News::Thread(thread) => waiting.update.thread = Some(thread.clone()),
            News::Turn(Progress::Started { thread, turn }) => {
                if !defect!(ReviewThreadUnrecorded) {
                    waiting.update.thread = Some(thread.clone());
                }
                waiting.update.turn = Some(turn.clone());
            }
            // The bug: the record names the thread of a subagent.
            News::Turn(Progress::Subagent { thread }) if defect!(SubagentThreadsAreRecorded) => {
                waiting.update.thread = Some(thread.clone());
            }
            News::Turn(Progress::Phase(phase)) => {
                waiting.update.phase = Some(phase.as_str().to_owned());
            }
            _ => {}
        }
        if let Some(line) = line(news) {
            // The bug: a turn that is answered late has more news than that.
            let most = if defect!(FewLinesWait) { 8 } else { MOST_LINES };
            if waiting.lines.len() < most {
                waiting.lines.push_back(line);
            } else {
                waiting.left_out += 1;
            }
        }
        self.wake.notify_one();
    }

    /// Says that no more news come.
    pub fn close(&self) {
        self.waiting().is_closed = true;
        self.wake.notify_one();
    }

    /// Records news until [`Recorder::close`] was called and all are recorded. Calls `lost` if the
    /// process is not the worker of the job any more.
    pub async fn record(&self, store: &JobStore, claim: &Claim, lost: impl Fn()) {
        loop {
            let Waiting { update, lines, left_out, is_closed } =
                std::mem::take(&mut *self.waiting());
            if is_closed && defect!(LastNewsAreLost) {
                return;
            }
            // An update without values finds out whether the process is still the worker.
            if update != Update::default() || !lines.is_empty() {
                match store.update(claim, update.clone()).await {
                    // The bug: the worker goes on with a job that is cancelled.
                    Err(JobError::NotItsWorker { .. }) if defect!(WorksOnACancelledJob) => {}
                    Err(JobError::NotItsWorker { .. } | JobError::Missing(_)) => lost(),
                    Err(error) => {
                        tracing::warn!(%error, "cannot record the news of a job");
                        // They are recorded with the next ones. The bug: they are lost.
                        let mut waiting = self.waiting();
                        if defect!(UnrecordedNewsReplaceNewer) {
                            // The bug: the news that came meanwhile are lost.
                            waiting.update = update;
                        } else if !defect!(UnrecordedNewsAreLost) {
                            waiting.update.fill_from(update);
                        }
                    }
                    Ok(_) => {}
                }
            }
            // The bug: the log does not say that lines are missing.
            let left_out = if defect!(GapsAreUnsaid) { 0 } else { left_out };
            let gap = (left_out > 0).then(|| format!("({left_out} lines are left out)"));
            for line in lines.into_iter().chain(gap) {
                if let Err(error) = store.log(claim.id()).append(&line).await {
                    tracing::warn!(%error, "cannot write the log of a job");
                }
            }
            if is_closed {
                return;
            }
            // `Notify` keeps a wake-up that comes between the look and the wait.
            self.wake.notified().await;
        }
    }
}

/// Returns the line for the log, if these news have one.
fn line(news: &News) -> Option<String> {
    Some(match news {
        News::Connected(place) => format!("connected to {place}"),
        News::FellBack { why } => format!("{why}; starting an app-server"),
        News::Thread(thread) => format!("thread {thread}"),
        News::Turn(progress) => match progress {
            Progress::Started { turn, .. } => format!("turn {turn}"),
            Progress::Phase(phase) => phase.as_str().to_owned(),
            Progress::ItemCompleted { item, .. } => format!("done: {}", item.kind()),
            Progress::Error { message, .. } => format!("error: {message}"),
            Progress::Subagent { thread } => format!("subagent on thread {thread}"),
            Progress::Unreadable => "an unreadable line".to_owned(),
            Progress::Cancelling => "cancelling".to_owned(),
            Progress::Named { .. } | Progress::ItemStarted { .. } => return None,
        },
    })
}
