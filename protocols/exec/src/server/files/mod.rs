//! The requests for files, `fs/*`.
//!
//! Each runs as its own task, so a slow file system delays only the requests that need it. Two
//! requests of a session are done in their order if they use the same handle, or if one changes
//! what is at, above or below a path of the other; links are not considered for this. Up to
//! [`AT_ONCE`] requests of a connection run at once.
//!
//! A running request is finished even if its connection ends, so a written file is never left half
//! written by a cut. A request that still waits ends with its connection. Open handles and watches
//! belong to the connection, and end with it.
//!
//! - this module: the queue, and the tasks. `running`: what must be done in order. `request`: what a client asks for. `perform`: one
//!   request. `tree`: those that visit many files. `handles`: the open files. `policy`: what a
//!   request may do. `watch`: watches for files to appear.
//!
//! Where codex 0.169.0 has defects, this server improves on it:
//! - A pipe, a socket or a device is never opened; codex waits for a writer forever.
//! - A file that is copied to itself keeps its content; codex empties it.
//! - A name that is not UTF-8 is a result of a walk; codex reports an error.
//! - A policy never hides a file: an access that it denies is an error.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use reknit_resume::Counted;
use reknit_seams::defect;
use tokio::sync::mpsc;

use super::registry::Shared;
use super::request_error::RequestError;
use crate::wire::{RequestId, notification_text};
use handles::Handles;
use perform::Performer;
pub(super) use request::FileRequest;
use request::Footprint;
pub(super) use running::RunningRequests;
use watch::Watches;

mod handles;
mod perform;
mod policy;
mod request;
mod running;
mod tree;
mod watch;

/// How many requests of one connection run at once.
const AT_ONCE: usize = 8;

/// A request that was not started yet.
struct Queued {
    id: RequestId,
    request: FileRequest,
    footprint: Footprint,
    bytes: usize,
}

/// The requests of one connection, and its handles.
pub(super) struct FileRequests {
    shared: Arc<Shared>,
    /// The running requests of the session.
    running: Arc<RunningRequests>,
    queue: VecDeque<Queued>,
    /// How many requests were started and are not answered yet, and how many bytes they hold.
    started: usize,
    started_bytes: usize,
    sender: mpsc::Sender<Outbound>,
    answers: mpsc::Receiver<Outbound>,
    handles: Arc<Handles>,
    watches: Watches,
}

/// A message to the client.
struct Outbound {
    text: String,
    /// The number of bytes of the request that it answers.
    answers: Option<usize>,
}

impl FileRequests {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        let (sender, answers) = mpsc::channel(1);
        Self {
            shared: shared.clone(),
            running: Arc::default(),
            queue: VecDeque::new(),
            started: 0,
            started_bytes: 0,
            sender,
            answers,
            handles: Arc::new(Handles::new(shared.limits.file_handles, &shared.file_handles)),
            watches: Watches::default(),
        }
    }

    /// Attaches the connection to a session.
    pub(super) fn attach(&mut self, running: &Arc<RunningRequests>) {
        self.running = running.clone();
    }

    /// Returns how many requests wait or run.
    pub(super) fn len(&self) -> usize {
        self.queue.len() + self.started
    }

    /// Returns how many bytes the requests hold that wait or run.
    pub(super) fn bytes(&self) -> usize {
        self.queue.iter().map(|queued| queued.bytes).sum::<usize>() + self.started_bytes
    }

    /// Starts a request of `bytes` bytes, or queues it if it has to wait.
    pub(super) fn queue(
        &mut self,
        id: RequestId,
        request: FileRequest,
        bytes: usize,
    ) -> Result<(), RequestError> {
        let mut footprint = request.footprint()?;
        let has_none = footprint.paths.is_empty() && !defect!(HandlePathForgotten);
        if let (Some(handle), true) = (&footprint.handle, has_none) {
            footprint.paths = self.paths_of(handle);
        }
        let queued = Queued { id, request, footprint, bytes };
        let earlier = self.queue.iter().map(|earlier| &earlier.footprint);
        if defect!(FilesStartLast) || self.waits(&queued, earlier) {
            self.queue.push_back(queued);
        } else {
            self.start(queued);
        }
        Ok(())
    }

    /// Returns whether a request must wait for another one: too many run, or it conflicts with one that
    /// runs or is queued before it.
    fn waits<'a>(&self, queued: &Queued, mut earlier: impl Iterator<Item = &'a Footprint>) -> bool {
        let most = if defect!(FileRequestsOneByOne) { 1 } else { AT_ONCE };
        self.started >= most
            || earlier.any(|other| other.conflicts(&queued.footprint))
            || self.running.conflicts(&queued.footprint)
    }

    /// Returns the path of a handle, which may not be open yet.
    fn paths_of(&self, handle: &str) -> Vec<(PathBuf, bool)> {
        let queued = self.queue.iter().rev().map(|queued| &queued.footprint);
        let opening = queued.into_iter().find(|footprint| footprint.opens(handle)).cloned();
        match opening.or_else(|| self.running.opens(handle)) {
            Some(opening) => opening.paths,
            None => self.handles.path(handle).into_iter().collect(),
        }
    }

    /// Starts requests as they can be started, and returns the next message for the client. Cancel
    /// safe: dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> String {
        let running = self.running.clone();
        loop {
            let one_ended = running.one_ended();
            self.start_all();
            tokio::select! {
                biased;
                outbound = self.answers.recv() => {
                    let outbound = outbound.expect("there is a sender as long as there is this");
                    return self.taken(outbound);
                }
                () = one_ended, if !self.queue.is_empty() => {}
            }
        }
    }

    /// Returns the next message if one is available.
    pub(super) fn try_next(&mut self) -> Option<String> {
        let outbound = self.answers.try_recv().ok()?;
        Some(self.taken(outbound))
    }

    /// Frees the place of an answered request for those that wait, before a later one can take it.
    fn taken(&mut self, outbound: Outbound) -> String {
        if let Some(bytes) = outbound.answers {
            self.started -= 1;
            if !defect!(AnsweredBytesCount) {
                self.started_bytes -= bytes;
            }
            self.start_all();
        }
        outbound.text
    }

    /// Starts each queued request that conflicts with no earlier one.
    fn start_all(&mut self) {
        let mut earlier: Vec<Footprint> = Vec::new();
        let mut queue = std::mem::take(&mut self.queue);
        if defect!(WaitingReadsFirst) {
            // The bug: the requests that only read pass those that change something.
            queue.make_contiguous().sort_by_key(|queued| queued.footprint.changes());
        }
        for queued in queue {
            if self.waits(&queued, earlier.iter()) {
                earlier.push(queued.footprint.clone());
                self.queue.push_back(queued);
            } else {
                self.start(queued);
            }
        }
    }

    fn start(&mut self, queued: Queued) {
        let Queued { id, request, footprint, bytes } = queued;
        let sender = self.sender.clone();
        self.started += 1;
        self.started_bytes += bytes;
        if let FileRequest::Watch(params) = request {
            return self.watches.start(self.shared.env.files.clone(), id, params, bytes, sender);
        }
        let running = self.running.begin(footprint);
        let performer = Performer::new(&self.shared, &self.handles, id.clone());
        let counted =
            (!defect!(BegunRequestsUncounted)).then(|| Counted::new(&self.shared.file_requests));
        let longest = self.shared.limits.wire.message_bytes;
        self.shared.spawn_file_task(async move {
            let text = match performer.perform(request).await {
                Ok(text) if text.len() > longest && !defect!(LongAnswerSent) => {
                    too_long(longest).answer(id)
                }
                Ok(text) => text,
                Err(refusal) => refusal.answer(id),
            };
            drop((running, counted)); // it took effect, even if the client never reads the answer
            // If the connection has ended, the client learns nothing.
            let _ = sender.send(Outbound { text, answers: Some(bytes) }).await;
        });
    }

    /// Handles the end of the connection.
    pub(super) fn end(self) {
        if defect!(FileHandlesOutliveConnection) {
            std::mem::forget(self.handles);
        } else {
            self.handles.close_all();
        }
    }
}

fn too_long(most: usize) -> RequestError {
    RequestError::invalid_file_request(format!("the answer has more than {most} bytes"))
}

/// Renders a notification.
fn outbound_notification(method: &str, params: &impl serde::Serialize) -> Outbound {
    Outbound { text: notification_text(method, params), answers: None }
}
