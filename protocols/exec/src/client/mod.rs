//! The client: one logical client over successive connections.
//!
//! - [`Client`]: the user's handle. Dropping it ends its tasks; [`Client::close`] also closes the
//!   connection gracefully.
//! - [`Process`]: a process on the server; [`Events`]: its events. Both stay valid across lost
//!   connections.
//! - [`Stdio`]: its input and output as a byte stream.
//! - [`Client::http`]: requests that the server sends from its machine; [`Body`]: a response body,
//!   valid while its connection lives.
//! - [`Client::files`]: the files on the server's machine; [`RemoteFile`]: an open one, valid while
//!   its connection lives.
//! - `core`: all decisions, without clock, socket or task. `driver`: the task that runs the core.
//! - `generation`: one connection, with its own task.
//! - `line`, `command`: the path from the handles to the driver. `log`: the events of a process.
//!
//! A client is [`Connected`](State::Connected), or [`Recovering`](State::Recovering) with a
//! deadline, or [`Failed`](State::Failed) permanently. When it fails, all pending operations end
//! with one failure, and all later operations return the same failure.
//!
//! # Behaviour when a connection is lost
//!
//! | | while there is no connection | in flight when it dies |
//! |---|---|---|
//! | events of a process | are read afterwards, in order, each once | |
//! | `read` | waits | is resent |
//! | `write` | waits | fails; with `retry_writes` it is resent under the same id, and written once; it fails if the server refuses that |
//! | `start` | waits | fails; a started process is terminated, and its id stays taken until then |
//! | `signal`, `terminate` | wait | fail |
//! | `http`, `http_stream` | wait | fail |
//! | a body | | fails at once |
//! | `read_file`, `metadata`, `canonicalize`, `read_directory`, `walk` | wait | are resent |
//! | `write_file`, `create_directory`, `remove`, `copy`, `open` | wait | fail |
//! | `read_block`, `write_block`, `close` of an open file | wait, then are refused: the file is closed | fail |
//! | a watch for files | | fails at once |
//!
//! If a connection ends with a message that is longer than the client accepts, each read in flight
//! is resent at most [`read_retries`](ClientLimits::read_retries) times, because its answer may be that
//! message; then it fails with [`Failure::AnswerTooLong`]. A read of missing events is resent in pages.
//!
//! # Slow subscribers
//!
//! The client keeps a bounded log of each process. The slowest subscriber decides what the log must
//! keep; it never misses an event silently, and it never delays another process or a call. Before
//! the first subscription the client keeps the events for it, and after the last one was dropped it
//! keeps the newest. So drop a subscription to let a process run whose output is not needed.
//!
//! The effect of a full log depends on the server. The client learns in the handshake which
//! server it has.
//!
//! | server | when a subscriber is slow | what is complete |
//! |---|---|---|
//! | with [flow control](crate::wire::flow) | the server holds the process until the subscriber has caught up, also while no connection is attached | all output, while the session lives |
//! | codex 0.169.0, and others | the client drops live events, and reads them from the server when half of the log is free | all output that the server still retains then; otherwise the process fails with [`Failure::Gap`] |
//!
//! TCP offers back-pressure only for the whole connection: a slow subscriber would delay every
//! other process, every answer and every pong. A client that reads dropped events later needs a
//! server that keeps them, and a server with bounded retention keeps them only if it knows what was
//! consumed. Therefore the client reports what its subscribers have read, and the server holds a
//! process that is a window ahead of the report. A report counts events, not connections, so it is
//! still true after a recovery. The server's retention is the window, so every cut can be repaired.
//!
//! # Improvements over the upstream client
//!
//! - The client drops early events beyond the bounds and reads them again. Upstream fails the
//!   process.
//! - The client also reads missing events while the connection is alive.
//! - If a catch-up is lost with its connection, the client repeats it in pages, and keeps each page
//!   that arrives. Upstream requests everything again.
//! - The client retries a read that the server refused for a transient reason; no process fails
//!   because of it.
//! - After the answer "transport closed", the client recovers with backoff. Upstream retries in a
//!   loop.
//! - If another connection has the session, the client recovers once. Upstream fails every process.
//! - A slow subscriber does not delay other processes. With this crate's server it loses nothing.
//! - Write ids begin with a random prefix, so a second client of the same session does not use the
//!   same ids.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use reknit_seams::Env;
use reknit_seams::net::Endpoint;
use reknit_seams::{defect, point};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use self::command::{Command, Key, RetryPolicy};
use self::line::CommandChannel;
use super::limits::ClientLimits;
use super::wire::method;
use super::wire::process::{StartParams, StartResult};

mod body;
mod command;
mod core;
mod defects;
mod driver;
mod failure;
mod files;
mod generation;
mod http;
mod line;
mod log;
mod missing_watch;
mod process;
mod state;
mod stdio;

#[cfg(test)]
mod tests;

pub use body::Body;
pub use failure::Failure;
pub use files::{RemoteFile, RemoteFiles};
pub use http::{HttpRequest, Response, Streaming};
pub use log::{Event, Events, Via};
pub use missing_watch::MissingWatch;
pub use process::Process;
pub use state::{ClientResources, State};
pub use stdio::Stdio;

/// A client. Dropping it ends its tasks and its connection; pending operations fail with
/// [`Failure::Closed`].
pub struct Client {
    line: CommandChannel,
    state: watch::Receiver<State>,
    resources: Arc<Mutex<ClientResources>>,
    _driver: JoinSet<()>,
}

impl Client {
    /// Starts a client of the server at `server`. The client begins to connect immediately.
    pub fn start(env: &Env, server: Endpoint, limits: ClientLimits) -> Self {
        let (commands, asked) = mpsc::unbounded_channel();
        let (state, observed) = watch::channel(State::Recovering);
        let resources = Arc::default();
        let line = CommandChannel::new(commands, limits, &*env.entropy);
        let mut tasks = JoinSet::new();
        tasks.spawn(
            driver::Driver::new(env.clone(), server, limits, asked, state, Arc::clone(&resources))
                .run(),
        );
        Self { line, state: observed, resources, _driver: tasks }
    }

    /// Returns the current connection state.
    pub fn state(&self) -> State {
        *self.state.borrow()
    }

    /// Returns a receiver for every change of [`state`](Client::state).
    pub fn watch_state(&self) -> watch::Receiver<State> {
        self.state.clone()
    }

    /// Returns the client's current resource counts.
    pub fn resources(&self) -> ClientResources {
        if defect!(ClientCountsNothing) {
            return ClientResources::default();
        }
        *self.resources.lock().expect("nothing panics under the lock")
    }

    /// Starts a process. Its id must be unused on the server and in this client. If the future is
    /// dropped, the client terminates the process.
    ///
    /// # Errors
    /// [`Failure::Refused`] if the server could not start the process, [`Failure::IdTaken`], and
    /// the errors of every call. If the call fails with [`Failure::ConnectionLost`] or
    /// [`Failure::Unanswered`], the client terminates the process if it was started.
    pub async fn launch(&self, spec: StartParams) -> Result<Process, Failure> {
        let (key, log) = self.line.process(&spec.process_id);
        let mut claim = Claim { key: key.clone(), line: &self.line, open: true };
        let process = Some((key.clone(), log.clone()));
        let started: Result<StartResult, Failure> =
            self.line.call(RetryPolicy::Start, method::START, &spec, process, Duration::ZERO).await;
        // The caller may be dropped between the server's answer and this return.
        point!("exec.client.start.unclaimed").await;
        claim.open = matches!(started, Err(Failure::Malformed(_))) && !defect!(MalformedStartKept);
        started.map(|_| Process::new(key, log, self.line.clone()))
    }

    /// Closes the client and closes its connection gracefully. Later calls fail with
    /// [`Failure::Closed`]. Processes continue to run until the session expires on the server.
    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.line.commands.send(Command::Close { done }).is_ok() {
            // An error means that the driver has ended, so the client is closed.
            let _ = closed.await;
        }
    }
}

/// Guards a start until the caller has its process: if the caller is dropped before, the process is
/// terminated.
struct Claim<'a> {
    key: Key,
    line: &'a CommandChannel,
    open: bool,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if self.open {
            // If the driver has ended, the session will expire, and its processes with it.
            let _ = self.line.commands.send(Command::Abandon(self.key.clone()));
        }
    }
}
