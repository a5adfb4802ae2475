//! The commands that the user's handles send to the driver.

use std::sync::Arc;
use std::time::Duration;

use reknit_seams::defect;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::Failure;
use super::body::BodySender;
use super::log::Log;
use super::missing_watch::WatchSender;
use crate::wire::process::{ReadParams, StartParams, WriteResult, WriteStatus};
use crate::wire::{DirectoryForm, read};

/// The client's identity of a process: its id on the wire, and a serial number, because an id can
/// be reused.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) id: Arc<str>,
    pub(super) serial: u64,
}

/// A command to the driver.
pub(super) enum Command {
    /// Sends a request to the server.
    Call(Call),
    /// The last handle of the process was dropped.
    Release(Key),
    /// The caller that started the process was dropped before it received the process.
    Abandon(Key),
    /// The subscribers of the process have made progress: its log has room again, or a report to
    /// the server is due.
    Progress(Key),
    /// The reader of the HTTP body with this number was dropped.
    Forget(u64),
    /// Closes the client.
    Close {
        /// Completed when the client is closed.
        done: oneshot::Sender<()>,
    },
}

/// The channel of commands. It is unbounded because `drop` of a handle cannot wait. Permits bound
/// the calls; the number of handles bounds the other commands. Each log sends its next
/// [`Command::Progress`] only after the last one was handled.
pub(super) type Commands = mpsc::UnboundedSender<Command>;

/// How a call is handled if its connection dies after the call was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RetryPolicy {
    /// The call has no side effects; the client resends it.
    Read,
    /// The client resends the call under the same id if the limits allow it.
    Write,
    /// The call starts a process: the call fails, and the client terminates the process if it was
    /// started.
    Start,
    /// The call opens a body: the call and the body fail.
    Body(BodySender),
    /// The call begins a watch: the call fails, and the watch ends.
    Watch(WatchSender),
    /// The call fails.
    Other,
}

/// A request, and the sender for its answer.
pub(super) struct Call {
    pub(super) kind: RetryPolicy,
    pub(super) method: &'static str,
    pub(super) params: Box<RawValue>,
    /// The process of the call, with its log.
    pub(super) process: Option<(Key, Arc<Log>)>,
    /// The deadline of the call.
    pub(super) until: Instant,
    pub(super) answer: oneshot::Sender<Result<Box<RawValue>, Failure>>,
    /// How often the server has ended a connection by its answer: it said that its transport is
    /// closed, or that another connection has the session, or a message was too long for this
    /// client.
    pub(super) refusals: u32,
    /// Whether a connection died between the request and its answer. Then it may have taken effect.
    pub(super) was_cut_off: bool,
}

impl Call {
    /// Creates a call that was not sent yet.
    pub(super) fn new(
        kind: RetryPolicy,
        method: &'static str,
        params: Box<RawValue>,
        process: Option<(Key, Arc<Log>)>,
        until: Instant,
        answer: oneshot::Sender<Result<Box<RawValue>, Failure>>,
    ) -> Self {
        Self { kind, method, params, process, until, answer, refusals: 0, was_cut_off: false }
    }

    /// Completes the call. The refusal of a write that was sent again says nothing about the first
    /// one: the server may have written it, and forgotten the process since.
    pub(super) fn end(self, outcome: Result<Box<RawValue>, Failure>) {
        let may_be_written =
            self.kind == RetryPolicy::Write && self.was_cut_off && !defect!(RefusedRepeatIsFinal);
        let is_refused = |outcome: &Result<Box<RawValue>, Failure>| match outcome {
            Err(Failure::Refused { .. } | Failure::Superseded) => true,
            Err(_) => false,
            Ok(answer) => read::<WriteResult>(Some(answer))
                .is_ok_and(|result| result.status == WriteStatus::UnknownProcess),
        };
        let outcome = if may_be_written && is_refused(&outcome) {
            Err(Failure::ConnectionLost)
        } else {
            outcome
        };
        // The caller may have stopped waiting.
        let _ = self.answer.send(outcome);
    }

    /// Lowers the wait of a read to the time that remains. Otherwise a read that is repeated or
    /// sent late would let the server wait longer than the call may take.
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

    /// Writes the directory of a start in the form that the server reads. Which server that is, is
    /// known only when the call is sent.
    pub(super) fn write_directory_as(&mut self, form: DirectoryForm) {
        if self.kind != RetryPolicy::Start {
            return;
        }
        let Ok(params) = read::<StartParams>(Some(&self.params)) else { return };
        let cwd = params.cwd.clone().in_form(form);
        if let Ok(written) = to_raw_value(&StartParams { cwd, ..params }) {
            self.params = written;
        }
    }

    /// Whether the caller has stopped waiting and the outcome is irrelevant.
    pub(super) fn is_abandoned(&self) -> bool {
        self.answer.is_closed() && self.kind != RetryPolicy::Start
    }
}
