//! The client: one logical client over connections that come and go.
//!
//! - [`Client`]: what a user holds. Dropping it ends its task; [`Client::close`] says goodbye first.
//! - `book`: what is owed to the user, and what is to be said to the server. Without clock, socket or task.
//! - `driver`: the one task. It gets connections, keeps them, and moves lines between them and the book.
//!
//! A client is [`Connected`](State::Connected), or [`Recovering`](State::Recovering) with a deadline, or it has
//! [`Failed`](State::Failed): then everything that waited has ended with a reason, and it tries again when it is asked for
//! something new.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use reknit_seams::Env;
use reknit_seams::defect;
use reknit_seams::net::Endpoint;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::limits::ClientLimits;
use super::wire::Name;
use command::{Ask, Asked, Command, Feed};

mod book;
mod command;
mod driver;
mod outcome;

pub use outcome::{Ending, Failure, Number, State};

/// A client. Dropping it ends its task and its connection; what waits for it fails as closed.
pub struct Client {
    commands: mpsc::Sender<Command>,
    state: Arc<Mutex<State>>,
    limits: ClientLimits,
    _driver: JoinSet<()>,
}

/// How many commands may wait for the driver; who asks for more waits.
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

    /// Whether it has a connection.
    pub fn state(&self) -> State {
        *self.state.lock().expect("nothing panics under the lock")
    }

    /// Watches a stream from its first number on. A name is good for one watch: numbers that were made are not made again.
    pub async fn watch(&self, stream: Name) -> Watch {
        let (sender, numbers) = mpsc::channel(self.limits.queued_numbers.max(1));
        let ending = Arc::new(OnceLock::new());
        let feed = Feed { numbers: sender, ending: ending.clone() };
        // Where nobody listens any more, the watch has lost its feed, and is closed.
        let _ = self.commands.send(Command::Watch { stream: stream.clone(), feed }).await;
        Watch { numbers, ending, asked: false, commands: self.commands.clone(), stream }
    }

    /// Adds to a counter, with a memo beside it; answers the new sum. Durable: survives lost connections, takes effect at most
    /// once, and in the order of calling.
    ///
    /// # Errors
    /// A [`Failure`] leaves open whether it took effect.
    pub async fn add(&self, counter: Name, amount: u32, memo: Name) -> Result<u64, Failure> {
        self.call(Asked::Add { counter, amount, memo }).await
    }

    /// Asks for the sum of a counter. In flight: fails if its connection dies between question and answer.
    ///
    /// # Errors
    /// [`Failure::ConnectionLost`], and those of every call.
    pub async fn peek(&self, counter: Name) -> Result<u64, Failure> {
        self.call(Asked::Peek { counter }).await
    }

    /// Holds a lease on a counter for a while, and returns when it has run out. Bound: dies with its connection, at once.
    ///
    /// # Errors
    /// [`Failure::ConnectionLost`], and those of every call.
    pub async fn lease(&self, counter: Name, lasts: Duration) -> Result<(), Failure> {
        self.call(Asked::Lease { counter, lasts }).await.map(|_| ())
    }

    async fn call(&self, what: Asked) -> Result<u64, Failure> {
        let (answer, answered) = oneshot::channel();
        // Where nobody listens any more, `answer` is dropped, and the call is closed.
        let _ = self.commands.send(Command::Call(Ask { what, answer })).await;
        answered.await.unwrap_or(Err(Failure::Closed))
    }

    /// Ends everything, and tells the server if there is a connection. What is asked for afterwards fails as closed.
    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.commands.send(Command::Close { done }).await.is_ok() {
            // An error says that the driver is gone, which is what was asked for.
            let _ = closed.await;
        }
    }
}

/// A stream that is being watched.
pub struct Watch {
    stream: Name,
    numbers: mpsc::Receiver<Number>,
    ending: Arc<OnceLock<Ending>>,
    asked: bool,
    commands: mpsc::Sender<Command>,
}

impl Watch {
    /// Waits for the next number; `None` when the stream has ended.
    pub async fn next(&mut self) -> Option<Number> {
        self.numbers.recv().await
    }

    /// How it ended, after [`next`](Watch::next) returned `None`.
    pub fn ending(&mut self) -> Ending {
        if defect!(ReasonChanges) && std::mem::replace(&mut self.asked, true) {
            return Ending::Failed(Failure::Closed); // how it is now, not how it ended
        }
        self.ending.get_or_init(|| Ending::Failed(Failure::Closed)).clone()
    }

    /// A handle that closes it.
    pub fn closer(&self) -> Closer {
        Closer { stream: self.stream.clone(), commands: self.commands.clone() }
    }
}

/// Closes a [`Watch`] from elsewhere.
#[derive(Clone)]
pub struct Closer {
    stream: Name,
    commands: mpsc::Sender<Command>,
}

impl Closer {
    /// Ends the watch as [`Failure::Closed`], if it has not ended.
    pub async fn close(&self) {
        // Where nobody listens any more, everything is closed already.
        let _ = self.commands.send(Command::Unwatch { stream: self.stream.clone() }).await;
    }
}
