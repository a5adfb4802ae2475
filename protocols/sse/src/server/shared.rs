//! The state that all connections of a server share.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, UNIX_EPOCH};

use reknit_seams::env::WallClock;
use reknit_seams::{Env, defect};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use super::link::{Closed, Link};
use super::registry::Registry;
use super::sessions::Sessions;
use crate::limits::ServerLimits;
use crate::wire::{AgeQuestion, Framing};

/// The settings of a server, apart from its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// The token that every request must carry; without one, every client that reaches the port can
    /// run commands as the user of the server.
    pub access_token: Option<String>,
    /// The program and arguments that run a command line, which follows as the last argument. Shell
    /// sessions need a `bash`. If it is empty, the command line is the program itself.
    pub shell: Vec<String>,
    /// The framing of all streams; by default what the client accepts.
    pub framing: Option<Framing>,
}

/// No token, and `bash` without its start-up files.
impl Default for ServerConfig {
    fn default() -> Self {
        let shell = ["bash", "--noprofile", "--norc", "-c"];
        Self { access_token: None, shell: shell.map(str::to_owned).to_vec(), framing: None }
    }
}

/// The state that all connections share.
pub(super) struct Shared {
    pub(super) env: Env,
    pub(super) config: ServerConfig,
    pub(super) limits: ServerLimits,
    /// When the server began.
    since: Instant,
    /// The number of this run of the server in its questions.
    run: OnceLock<u64>,
    registry: Mutex<Registry>,
    sessions: Mutex<Sessions>,
    /// The tasks of the processes.
    processes: Mutex<JoinSet<()>>,
    /// Notified when a timer may be due earlier than before.
    pub(super) changed: Arc<Notify>,
    /// The open connections, oldest first.
    links: Mutex<Vec<Arc<Link>>>,
}

impl Shared {
    pub(super) fn new(env: &Env, config: ServerConfig, limits: ServerLimits) -> Self {
        Self {
            env: env.clone(),
            config,
            limits,
            since: Instant::now(),
            run: OnceLock::new(),
            registry: Mutex::new(Registry::new(limits)),
            sessions: Mutex::new(Sessions::new(limits.sessions)),
            processes: Mutex::default(),
            changed: Arc::default(),
            links: Mutex::default(),
        }
    }

    /// Whether a client that has connected with `link` made a request so long ago that this server did not
    /// run then. The age counts from the question that the client answers, or else from the connection.
    pub(super) fn is_older(
        &self,
        link: &Link,
        answers: Option<AgeQuestion>,
        age: Duration,
    ) -> bool {
        let since_accepted = || link.accepted().saturating_duration_since(self.since);
        // The bug: the age is that of the connection, and this time is that of the request.
        let at = match defect!(AgeMeetsTheRequest) {
            true => self.since.elapsed(),
            false => answers.map_or_else(since_accepted, |question| question.at),
        };
        at < age
    }

    /// Returns a question for the age of a start.
    pub(super) fn ask_age(&self) -> AgeQuestion {
        AgeQuestion { run: self.run(), at: self.since.elapsed() }
    }

    /// Whether this run of the server has asked this.
    pub(super) fn has_asked(&self, question: &AgeQuestion) -> bool {
        let is_own = question.run == self.run() || defect!(QuestionsOfAllRunsCount);
        is_own && question.at <= self.since.elapsed()
    }

    fn run(&self) -> u64 {
        *self.run.get_or_init(|| self.env.entropy.below(u64::MAX))
    }

    pub(super) fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().expect("nothing panics under the lock")
    }

    /// Its lock may be held while that of the registry is taken, not the other way round.
    pub(super) fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().expect("nothing panics under the lock")
    }

    pub(super) fn links(&self) -> MutexGuard<'_, Vec<Arc<Link>>> {
        self.links.lock().expect("nothing panics under the lock")
    }

    /// Runs the task of a process.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let mut processes = self.processes.lock().expect("nothing panics under the lock");
        while processes.try_join_next().is_some() {} // discard the results of finished tasks
        processes.spawn(task)
    }

    /// Adds a connection. If there are too many, the oldest one that does not serve an authorized
    /// request is closed; if all do, the new one is refused.
    pub(super) fn enter(&self, link: Arc<Link>) -> bool {
        let mut links = self.links();
        if links.len() >= self.limits.connections {
            let Some(place) = links.iter().position(|link| !link.is_serving()) else {
                return false;
            };
            links.remove(place).close(Closed::Evicted);
        }
        links.push(link);
        true
    }

    /// Removes a connection.
    pub(super) fn leave(&self, link: &Arc<Link>) {
        self.links().retain(|other| !Arc::ptr_eq(other, link));
    }

    /// Ends all commands and kills every process.
    pub(super) fn shut_down(&self) {
        self.registry().clear();
        self.processes.lock().expect("nothing panics under the lock").abort_all();
    }
}

/// Returns the time of the wall clock in milliseconds since 1970.
pub(super) fn milliseconds(clock: &dyn WallClock) -> u64 {
    let since = clock.now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
