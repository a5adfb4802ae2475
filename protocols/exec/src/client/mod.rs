//! The client: one logical client over connections that come and go.
//!
//! - [`Client`]: what a user holds. Dropping it ends its tasks; [`Client::close`] ends the connection in order, too.
//! - [`Process`]: a process on the server; [`Events`]: what it tells. Both stay valid over lost connections.
//! - [`Stdio`]: its input and output as a byte stream.
//! - [`Client::http`]: requests that the server sends from where it is; [`Body`]: what comes of one, as long as its connection lives.
//! - `core`: every decision, without clock, socket or task. `driver`: the task around it.
//! - `generation`: one connection, with a task of its own.
//! - `line`, `command`: the way from the handles to the driver. `log`: what a process has told.
//!
//! A client is [`Connected`](State::Connected); or [`Recovering`](State::Recovering), with a deadline; or it has
//! [`Failed`](State::Failed), for good: then everything that waited has ended with one reason, and what is asked for afterwards
//! ends with the same.
//!
//! # What survives a lost connection
//!
//! | | while there is no connection | in flight when it dies |
//! |---|---|---|
//! | events of a process | are read afterwards, in order, each once | |
//! | `read` | waits | is sent again |
//! | `write` | waits | fails; with `retry_writes` it is sent again under the same id, and written once |
//! | `start` | waits | fails; what was started is ended, and its id is taken until then |
//! | `signal`, `terminate` | wait | fail |
//! | `http`, `http_stream` | wait | fail |
//! | a body | | fails at once |
//!
//! # Where it does better than the client that it is compatible with
//!
//! - Early events beyond the bounds are let go and read again, in the place of failing their process.
//! - A hole that lasts though the connection lives is read, too.
//! - A read that is refused for a reason that may pass is repeated, and harms nobody.
//! - A server that answers "transport closed" is met with a recovery, with pauses, and not with a loop.
//! - When another connection has the session, that is one recovery, not the end of every process.
//! - Ids of writes begin with a random prefix: a second client of the same session does not use the first one's.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use reknit_seams::Env;
use reknit_seams::net::Endpoint;
use reknit_seams::point;
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
mod driver;
mod failure;
mod generation;
mod http;
mod line;
mod log;
mod process;
mod state;
mod stdio;

#[cfg(test)]
mod tests;

pub use body::Body;
pub use failure::Failure;
pub use http::{HttpRequest, Response, Streaming};
pub use log::{Event, Events, Via};
pub use process::Process;
pub use state::{ClientResources, State};
pub use stdio::Stdio;

/// A client. Dropping it ends its tasks and its connection; what waits for it fails as closed.
pub struct Client {
    line: CommandChannel,
    state: watch::Receiver<State>,
    resources: Arc<Mutex<ClientResources>>,
    _driver: JoinSet<()>,
}

impl Client {
    /// Starts a client of the server at `server`. It connects at once.
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

    /// Whether it has a connection.
    pub fn state(&self) -> State {
        *self.state.borrow()
    }

    /// Tells of every change of [`state`](Client::state).
    pub fn watch_state(&self) -> watch::Receiver<State> {
        self.state.clone()
    }

    /// What it holds at the moment.
    pub fn resources(&self) -> ClientResources {
        *self.resources.lock().expect("nothing panics under the lock")
    }

    /// Starts a process. Its id has to be free: on the server, and here. A future that is dropped leaves no process behind.
    ///
    /// # Errors
    /// [`Failure::Refused`] where the server could not start it, [`Failure::IdTaken`], and those of every call. Where it fails
    /// with [`Failure::ConnectionLost`] or [`Failure::Unanswered`], whatever was started is ended.
    pub async fn launch(&self, spec: StartParams) -> Result<Process, Failure> {
        let (key, log) = self.line.process(&spec.process_id);
        let mut claim = Claim { key: key.clone(), line: &self.line, open: true };
        let process = Some((key.clone(), log.clone()));
        let started: Result<StartResult, Failure> =
            self.line.call(RetryPolicy::Start, method::START, &spec, process, Duration::ZERO).await;
        // Between the answer and the one who asked for it, the latter may go away.
        point!("exec.client.start.unclaimed").await;
        claim.open = matches!(started, Err(Failure::Malformed(_)));
        started.map(|_| Process::new(key, log, self.line.clone()))
    }

    /// Ends everything, and the connection in order. What is asked for afterwards fails as closed. Processes go on until the
    /// server lets the session go.
    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.line.commands.send(Command::Close { done }).is_ok() {
            // An error says that the driver is gone, which is what was asked for.
            let _ = closed.await;
        }
    }
}

/// Who asked for a process and does not have it yet: going away leaves no process behind.
struct Claim<'a> {
    key: Key,
    line: &'a CommandChannel,
    open: bool,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if self.open {
            // Where nobody listens any more, the session goes, and the process with it.
            let _ = self.line.commands.send(Command::Abandon(self.key.clone()));
        }
    }
}
