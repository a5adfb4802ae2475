//! The client: one logical client over a sequence of connections.
//!
//! - [`Client`]: the user's handle. Dropping it ends its task; [`Client::close`] notifies the
//!   server first.
//! - `requests`: the open streams and calls, and the requests to send, without a clock, a socket or a
//!   task.
//! - `driver`: the only task. It establishes connections, keeps them open, and moves lines between
//!   them and the open requests.
//!
//! A client is [`Connected`](State::Connected), [`Recovering`](State::Recovering) with a deadline,
//! or [`Failed`](State::Failed). A failed client has ended all streams and calls with a reason, and
//! reconnects when the user makes a new request.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use reknit_seams::Env;
use reknit_seams::defect;
use reknit_seams::net::Endpoint;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::limits::ClientLimits;
use super::wire::Name;
use command::{CallKind, CallRequest, Command, WatchSender};

mod command;
mod driver;
mod outcome;
mod requests;

pub use outcome::{Ending, Failure, Number, State};

/// A client. Dropping it ends its task and its connection; open streams and calls fail as closed.
pub struct Client {
    commands: mpsc::Sender<Command>,
    state: Arc<Mutex<State>>,
    limits: ClientLimits,
    _driver: JoinSet<()>,
}

/// The number of commands that may wait for the driver; further ones wait for room.
const COMMANDS: usize = 16;

impl Client {
    /// Starts a client of the server at `server`. It connects at once.
    pub fn start(env: &Env, server: Endpoint, limits: ClientLimits) -> Self {
        let (commands, asked) = mpsc::channel(COMMANDS);
        let state = Arc::new(Mutex::new(State::Recovering));
        let mut driver = JoinSet::new();
        driver.spawn(driver::Driver::new(env.clone(), server, limits, asked, state.clone()).run());
        Self { commands, state, limits, _driver: driver }
    }

    /// Returns whether the client has a connection.
    pub fn state(&self) -> State {
        *self.state.lock().expect("nothing panics under the lock")
    }

    /// Watches a stream from its first number. A name can be watched only once per session, because
    /// numbers are not produced again.
    pub async fn watch(&self, stream: Name) -> Watch {
        let (sender, numbers) = mpsc::channel(self.limits.queued_numbers.max(1));
        let ending = Arc::new(OnceLock::new());
        let sender = WatchSender { numbers: sender, ending: ending.clone() };
        // If the driver has ended, the watch loses its feed, and reports that it was closed.
        let _ = self.commands.send(Command::Watch { stream: stream.clone(), sender }).await;
        Watch { numbers, ending, asked: false, commands: self.commands.clone(), stream }
    }

    /// Adds to a counter, with a memo; returns the new sum. Durable: survives lost connections,
    /// takes effect at most once, and in the order of the calls.
    ///
    /// # Errors
    /// After a [`Failure`], it is unknown whether the add took effect.
    pub async fn add(&self, counter: Name, amount: u32, memo: Name) -> Result<u64, Failure> {
        self.call(CallKind::Add { counter, amount, memo }).await
    }

    /// Returns the sum of a counter. In flight: fails if its connection ends between request and
    /// answer.
    ///
    /// # Errors
    /// [`Failure::ConnectionLost`], and those of every call.
    pub async fn peek(&self, counter: Name) -> Result<u64, Failure> {
        self.call(CallKind::Peek { counter }).await
    }

    /// Holds a lease on a counter for `lasts`, and returns when the lease has expired. Bound: ends
    /// with its connection, at once.
    ///
    /// # Errors
    /// [`Failure::ConnectionLost`], and those of every call.
    pub async fn lease(&self, counter: Name, lasts: Duration) -> Result<(), Failure> {
        self.call(CallKind::Lease { counter, lasts }).await.map(|_| ())
    }

    async fn call(&self, what: CallKind) -> Result<u64, Failure> {
        let (answer, answered) = oneshot::channel();
        // If the driver has ended, `answer` is dropped, and the call fails as closed.
        let _ = self.commands.send(Command::Call(CallRequest { what, answer })).await;
        answered.await.unwrap_or(Err(Failure::Closed))
    }

    /// Ends all streams and calls, and notifies the server if there is a connection. Later requests
    /// fail as closed.
    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.commands.send(Command::Close { done }).await.is_ok() {
            // An error means that the driver has ended already.
            let _ = closed.await;
        }
    }
}

/// A watched stream.
pub struct Watch {
    stream: Name,
    numbers: mpsc::Receiver<Number>,
    ending: Arc<OnceLock<Ending>>,
    asked: bool,
    commands: mpsc::Sender<Command>,
}

impl Watch {
    /// Waits for the next number. Returns `None` when the stream has ended.
    pub async fn next(&mut self) -> Option<Number> {
        self.numbers.recv().await
    }

    /// Returns the ending of the stream, after [`next`](Watch::next) returned `None`.
    pub fn ending(&mut self) -> Ending {
        if defect!(ReasonChanges) && std::mem::replace(&mut self.asked, true) {
            return Ending::Failed(Failure::Closed); // how it is now, not how it ended
        }
        self.ending.get_or_init(|| Ending::Failed(Failure::Closed)).clone()
    }

    /// Returns a handle that closes the watch.
    pub fn closer(&self) -> Closer {
        Closer { stream: self.stream.clone(), commands: self.commands.clone() }
    }
}

/// Closes a [`Watch`] from another task.
#[derive(Clone)]
pub struct Closer {
    stream: Name,
    commands: mpsc::Sender<Command>,
}

impl Closer {
    /// Ends the watch with [`Failure::Closed`], unless it has already ended.
    pub async fn close(&self) {
        // If the driver has ended, everything is closed already.
        let _ = self.commands.send(Command::Unwatch { stream: self.stream.clone() }).await;
    }
}
