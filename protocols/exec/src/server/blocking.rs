//! Defects: requests of one connection that block or overtake each other, as in codex 0.169.0. This
//! server handles requests in order, and sets those aside that have to wait.

use std::future::pending;
use std::time::Duration;

use reknit_seams::defect;
use tokio::time::sleep;

use super::connection::{ConnectionError, ConnectionTask};
use super::process::ProcessId;

/// How long a request may wait for its turn if requests are handled concurrently.
const TURN: Duration = Duration::from_millis(5);

/// The length of the queue of requests at codex.
const REQUESTS: usize = 128;

impl ConnectionTask {
    /// Whether a defect makes the next request wait for an earlier one.
    pub(super) fn is_blocked(&self) -> bool {
        defect!(HttpBlocksRequests) && self.fetches.defects.unanswered > 0
            || defect!(FullStdinBlocksRequests)
                && self.waiting.iter().any(|(_, waiting)| waiting.writes_to().is_some())
    }

    /// The defect `QueuesDeadlock`: one task reads requests and writes answers. If the queue of
    /// requests is full, it waits for their handler. If the queue of answers is full, too, the
    /// handler waits for the task.
    pub(super) async fn deadlock(&mut self) {
        if defect!(QueuesDeadlock) && self.has_backlog(REQUESTS) && !self.link.has_room() {
            pending().await
        }
    }

    /// With the defect `WritesOvertake`, handles new requests before those that wait. Returns whether
    /// the next request comes first, too.
    pub(super) async fn takes_turns(&mut self) -> Result<bool, ConnectionError> {
        if !defect!(WritesOvertake) {
            return Ok(false);
        }
        let before = self.waiting.len();
        self.handle_backlog().await?;
        Ok(self.waiting.len() > before)
    }

    /// Whether a write must wait for an earlier one. With the defect `WritesOvertake`, requests are
    /// handled concurrently: a write waits for nothing but its turn, which a later one may have
    /// earlier.
    pub(super) fn write_waits(&self, process: &ProcessId) -> bool {
        let mut earlier =
            self.waiting.iter().filter(|(_, waiting)| waiting.writes_to() == Some(process));
        let waits = earlier.next().is_some();
        if defect!(WritesOvertake) {
            let wake = self.wake.clone();
            tokio::spawn(async move {
                sleep(TURN).await;
                wake.notify_one();
            });
            return !waits;
        }
        waits
    }
}
