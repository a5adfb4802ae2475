//! The user's handle of a process on the server.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reknit_seams::{defect, milestone};
use tokio::sync::watch;

use super::Failure;
use super::command::{Command, Key, RetryPolicy};
use super::line::CommandChannel;
use super::log::{Events, Log};
use crate::wire::method;
use crate::wire::process::{
    ReadParams, ReadResult, Signal, SignalParams, SignalResult, TerminateParams, TerminateResult,
    WriteParams, WriteResult, WriteStatus,
};

/// A process on the server. It stays valid across lost connections.
///
/// Clones are handles of the same process. When the last handle and the last subscription to its
/// events are dropped, the client stops following the process, but the process continues to run on
/// the server. [`terminate`](Process::terminate) ends it.
#[derive(Clone)]
pub struct Process(Arc<Handle>);

/// The state that all clones share.
struct Handle {
    key: Key,
    log: Arc<Log>,
    line: CommandChannel,
}

impl Drop for Handle {
    fn drop(&mut self) {
        // If the driver has ended, the client follows no process any longer.
        let _ = self.line.commands.send(Command::Release(self.key.clone()));
    }
}

impl Process {
    pub(super) fn new(key: Key, log: Arc<Log>, line: CommandChannel) -> Self {
        Self(Arc::new(Handle { key, log, line }))
    }

    /// Returns its id on the wire.
    pub fn id(&self) -> &str {
        &self.0.key.id
    }

    /// Subscribes to its events, from the first one on.
    pub fn events(&self) -> Events {
        Events::new(self.0.log.clone(), self.0.clone())
    }

    /// Returns a receiver for the number of its last event, from 1. The receiver is marked as
    /// changed whenever there is a new event, including a failure.
    pub fn wake(&self) -> watch::Receiver<u64> {
        self.0.log.watch()
    }

    /// Returns why it failed, if it did.
    pub fn failure(&self) -> Option<Failure> {
        self.0.log.failure()
    }

    /// Reads its output after the event number `after`: at most `max_bytes`, but at least one
    /// chunk. If there is nothing to read, the call waits for up to `wait`. The call survives lost
    /// connections.
    ///
    /// # Errors
    /// [`Failure::Refused`] if the server no longer has the process, and the errors of every call.
    pub async fn read(
        &self,
        after: u64,
        max_bytes: Option<u64>,
        wait: Duration,
    ) -> Result<ReadResult, Failure> {
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let params = ReadParams {
            process_id: self.id().to_owned(),
            after_seq: Some(after),
            max_bytes,
            wait_ms: (wait_ms > 0).then_some(wait_ms),
        };
        self.call(RetryPolicy::Read, method::READ, &params, wait).await
    }

    /// Writes to its standard input. The bytes of several calls are written in the order of the
    /// calls.
    ///
    /// # Errors
    /// [`Failure::ConnectionLost`] if the connection died before the answer arrived: the bytes may
    /// have been written. If the limit `retry_writes` is on, the client resends them instead, and
    /// they are written once; then this is the error only if the server refuses what was resent, or
    /// no longer knows the process.
    /// [`Failure::NotWritten`] if the process does not read its input, and the errors of every call.
    pub async fn write(&self, bytes: impl Into<Bytes>) -> Result<(), Failure> {
        let write_id = self.0.line.write_id();
        milestone!("exec.client.writes", process = self.id(), write = &*write_id);
        let write_id = Some(write_id);
        let params =
            WriteParams { process_id: self.id().to_owned(), chunk: bytes.into().into(), write_id };
        let WriteResult { status } =
            self.call(RetryPolicy::Write, method::WRITE, &params, Duration::ZERO).await?;
        if status == WriteStatus::Accepted { Ok(()) } else { Err(Failure::NotWritten(status)) }
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// [`Failure::ConnectionLost`] if the connection died before the answer arrived: the signal may
    /// have been sent. And the errors of every call.
    pub async fn signal(&self, signal: Signal) -> Result<(), Failure> {
        let params = SignalParams { process_id: self.id().to_owned(), signal };
        self.call(RetryPolicy::Other, method::SIGNAL, &params, Duration::ZERO)
            .await
            .map(|SignalResult {}| ())
    }

    /// Kills it and all its child processes. Returns whether it was running.
    ///
    /// # Errors
    /// [`Failure::ConnectionLost`] if the connection died before the answer arrived: the process
    /// may have been killed. And the errors of every call.
    pub async fn terminate(&self) -> Result<bool, Failure> {
        let params = TerminateParams { process_id: self.id().to_owned() };
        let kind = if defect!(TerminateRepeated) { RetryPolicy::Read } else { RetryPolicy::Other };
        self.call(kind, method::TERMINATE, &params, Duration::ZERO)
            .await
            .map(|TerminateResult { running }| running)
    }

    async fn call<R: serde::de::DeserializeOwned>(
        &self,
        kind: RetryPolicy,
        method: &'static str,
        params: &impl serde::Serialize,
        wait: Duration,
    ) -> Result<R, Failure> {
        let process = (self.0.key.clone(), self.0.log.clone());
        let outcome = self.0.line.call(kind, method, params, Some(process), wait).await;
        // A closed client returns `Closed` for every call. If the process failed earlier, return
        // that failure instead.
        outcome.map_err(|failure| {
            if failure == Failure::Closed { self.failure().unwrap_or(failure) } else { failure }
        })
    }
}
