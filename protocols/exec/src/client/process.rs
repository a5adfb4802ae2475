//! A process on the server, as its user holds it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reknit_seams::milestone;
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

/// A process on the server. It stays valid over lost connections.
///
/// Copies are handles of the same process. When the last one has gone, and the last subscription to its events, it goes on over
/// there, and nobody follows it here; [`terminate`](Process::terminate) ends it.
#[derive(Clone)]
pub struct Process(Arc<Handle>);

/// What all copies share.
struct Handle {
    key: Key,
    log: Arc<Log>,
    line: CommandChannel,
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Where nobody listens any more, nothing is followed any more.
        let _ = self.line.commands.send(Command::Release(self.key.clone()));
    }
}

impl Process {
    pub(super) fn new(key: Key, log: Arc<Log>, line: CommandChannel) -> Self {
        Self(Arc::new(Handle { key, log, line }))
    }

    /// What it is called on the wire.
    pub fn id(&self) -> &str {
        &self.0.key.id
    }

    /// Subscribes to what it tells, from its first event on.
    pub fn events(&self) -> Events {
        Events::new(self.0.log.clone(), self.0.clone())
    }

    /// The number of the last event that it told, from 1; marked as changed when there is something new to hear, a failure
    /// included.
    pub fn wake(&self) -> watch::Receiver<u64> {
        self.0.log.watch()
    }

    /// Why it failed, if it did.
    pub fn failure(&self) -> Option<Failure> {
        self.0.log.failure()
    }

    /// Reads what it printed after the event number `after`: at most `max_bytes`, but one chunk at least. Waits for something to
    /// read, no longer than `wait`. Survives lost connections.
    ///
    /// # Errors
    /// [`Failure::Refused`] where the server no longer has it, and those of every call.
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

    /// Writes to its standard input. Bytes are written in the order of calling.
    ///
    /// # Errors
    /// [`Failure::ConnectionLost`] where the connection died before the answer came: it may have been written. Where the limit
    /// `retry_writes` is on, it is sent again instead, and written once.
    /// [`Failure::NotWritten`] where nobody reads, and those of every call.
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
    /// [`Failure::ConnectionLost`] where the connection died before the answer came: it may have been sent. And those of every
    /// call.
    pub async fn signal(&self, signal: Signal) -> Result<(), Failure> {
        let params = SignalParams { process_id: self.id().to_owned(), signal };
        self.call(RetryPolicy::Other, method::SIGNAL, &params, Duration::ZERO)
            .await
            .map(|SignalResult {}| ())
    }

    /// Kills it, and all that it started. Says whether there was something to kill.
    ///
    /// # Errors
    /// [`Failure::ConnectionLost`] where the connection died before the answer came: it may have been killed. And those of every
    /// call.
    pub async fn terminate(&self) -> Result<bool, Failure> {
        let params = TerminateParams { process_id: self.id().to_owned() };
        self.call(RetryPolicy::Other, method::TERMINATE, &params, Duration::ZERO)
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
        // A client that is gone answers nobody; why the process failed before is known here.
        outcome.map_err(|failure| {
            if failure == Failure::Closed { self.failure().unwrap_or(failure) } else { failure }
        })
    }
}
