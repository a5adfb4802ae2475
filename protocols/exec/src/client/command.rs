//! What the user's handles say to the driver.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::Failure;
use super::body::Feed;
use super::log::Log;
use crate::wire::process::ReadParams;
use crate::wire::read;

/// A process as the client knows it: its id on the wire, and a number of our own, for an id can be used again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) id: Arc<str>,
    pub(super) serial: u64,
}

/// What the driver is asked for.
pub(super) enum Command {
    /// Asks the server for something.
    Call(Call),
    /// Nobody holds the process any more.
    Release(Key),
    /// Whoever started the process has gone before it had it.
    Abandon(Key),
    /// Nobody reads the HTTP body of this number any more.
    Forget(u64),
    /// Ends everything.
    Close {
        /// Told when it is done.
        done: oneshot::Sender<()>,
    },
}

/// The channel of commands. It is unbounded, so that a handle can be let go from a `drop`; calls are bounded by permits, and
/// the rest by the handles that there are.
pub(super) type Commands = mpsc::UnboundedSender<Command>;

/// What becomes of a call when its connection dies, after it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RetryPolicy {
    /// Changes nothing, and is sent again.
    Read,
    /// Is sent again under the same id, if the limits say so.
    Write,
    /// Starts a process: the call fails, and whatever was started is ended.
    Start,
    /// Opens a body: the call fails, and so does the body.
    Body(Feed),
    /// The call fails.
    Other,
}

/// A request, and who waits for its answer.
pub(super) struct Call {
    pub(super) kind: RetryPolicy,
    pub(super) method: &'static str,
    pub(super) params: Box<RawValue>,
    /// The process that it is about, with its log.
    pub(super) process: Option<(Key, Arc<Log>)>,
    /// When it has waited too long.
    pub(super) until: Instant,
    pub(super) answer: oneshot::Sender<Result<Box<RawValue>, Failure>>,
    /// How often the server answered that its transport is closed.
    pub(super) refusals: u32,
}

impl Call {
    /// Ends it.
    pub(super) fn end(self, outcome: Result<Box<RawValue>, Failure>) {
        // Who no longer waits is told nothing.
        let _ = self.answer.send(outcome);
    }

    /// Lowers the wait of a read to the rest of it. A read that is repeated, or sent late, would otherwise let the server wait for
    /// longer than the call may take.
    pub(super) fn lower_wait(&mut self, call_wait: Duration, now: Instant) {
        if self.kind != RetryPolicy::Read {
            return;
        }
        let left = self.until.saturating_duration_since(now + call_wait);
        // Rounded up: the server must not answer before the wait is over.
        let left_ms = u64::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        let Ok(params) = read::<ReadParams>(Some(&self.params)) else { return };
        if params.wait_ms.is_some_and(|wait| wait > left_ms)
            && let Ok(lowered) =
                to_raw_value(&ReadParams { wait_ms: (left_ms > 0).then_some(left_ms), ..params })
        {
            self.params = lowered;
        }
    }

    /// Whether nobody waits for it any more, and nothing has to be known of its outcome.
    pub(super) fn is_abandoned(&self) -> bool {
        self.answer.is_closed() && self.kind != RetryPolicy::Start
    }
}
