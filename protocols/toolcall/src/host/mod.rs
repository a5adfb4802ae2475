//! The host: it stores sessions and runs agents in them; clients watch the sessions and run tools.
//!
//! - [`HostCore`]: the host without sockets. [`Host`]: with sockets.
//! - [`Agent`]: handles the turns. It calls the tools of clients through a [`Turn`].
//! - [`Archive`]: the storage of sessions and chats that are not in memory.
//! - `connection`: one connection, one task. [`HostResources`]: resource counts.
//!
//! [`Host::serve`] owns all tasks: those of connections, turns, and restores. Dropping it ends all
//! of them.
//!
//! The host does not authenticate clients (if the host is configured with tokens, a turn requires
//! them), and does not encrypt. It does not restore work in progress after a restart: turns and
//! their calls are lost then, and clients learn this from snapshots.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use reknit_resume::Counted;
use reknit_resume::EVER;
use reknit_seams::Env;
use reknit_seams::defect;
use reknit_seams::net::{Listener, Stream};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::limits::HostLimits;

mod agent;
mod archive;
mod connection;
pub mod core;
mod counts;
mod resources;
mod shared;

pub use self::core::{
    Answer, CallId, CloseReason, HostCore, HostEffect, HostIdentity, Owner, Stored, Unanswered,
};
pub use agent::{Agent, Ended, Permission, Refused, Turn};
pub use archive::{Archive, MemoryArchive};
pub use counts::Counts;
pub use resources::HostResources;

pub(crate) use self::core::stamp;
use shared::HostShared;

/// How long the host waits after a failed accept. A shortage of files or memory usually lasts a
/// moment.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How much longer than its deadline a restore may run.
const A_MOMENT: Duration = Duration::from_millis(1);

/// A host: sessions, the server for them, and the agents that work in them.
pub struct Host {
    shared: Arc<HostShared>,
    agent: Arc<dyn Agent>,
}

/// The configuration of a host.
pub struct HostConfig {
    /// The name of its only kind of agent.
    pub provider: String,
    /// The valid tokens, by resource. If there are any, only a client that sent them may start a
    /// turn.
    pub tokens: BTreeMap<String, String>,
    /// The agent that handles the turns.
    pub agent: Arc<dyn Agent>,
    /// The storage for state that is not in memory.
    pub archive: Arc<dyn Archive>,
    /// The limits.
    pub limits: HostLimits,
}

/// The result of a task of the host.
enum Done {
    Connection,
    /// A restore of a channel has ended.
    Restored(String, u64, Option<Stored>),
    /// An agent has finished a turn.
    Turn(String, String),
}

impl Host {
    /// Creates a host in the world of `env`. It is a new incarnation, with a new name.
    pub fn new(env: &Env, config: HostConfig) -> Self {
        let mut random = [0; 16];
        env.entropy.fill(&mut random);
        let epoch = format!("{:032x}", u128::from_le_bytes(random));
        let identity = HostIdentity { epoch, provider: config.provider, tokens: config.tokens };
        let core = HostCore::new(config.limits, identity, env.clock.clone());
        Self {
            shared: Arc::new(HostShared::new(core, config.limits, config.archive)),
            agent: config.agent,
        }
    }

    /// Returns a handle for the resource counts. The handle does not keep the host alive.
    pub fn resources(&self) -> HostResources {
        HostResources::of(&self.shared)
    }

    /// Accepts and serves connections until it is dropped.
    pub async fn serve(self, mut listener: Listener) {
        let changed = self.shared.core().changed();
        let mut tasks = Tasks { host: self, all: JoinSet::new(), turns: BTreeMap::new() };
        loop {
            let due = tasks.carry_out();
            let room = tasks.has_room();
            tokio::select! {
                biased;
                accepted = listener.accept(), if room => match accepted {
                    Ok(stream) => tasks.connect(stream),
                    Err(error) => {
                        tracing::warn!(%error, "accept");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(done) = tasks.all.join_next() => tasks.done(done),
                // No wake-up is lost between `carry_out` and this wait: only this task waits, so
                // `Notify` stores the permit of an effect that comes before the wait.
                () = changed.notified() => {}
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
    }
}

/// The tasks of a running host.
struct Tasks {
    host: Host,
    all: JoinSet<Done>,
    /// The agent task of each turn.
    turns: BTreeMap<(String, String), AbortHandle>,
}

impl Tasks {
    fn has_room(&self) -> bool {
        let shared = &self.host.shared;
        shared.connections.load(Ordering::Relaxed) < shared.limits.connections as u64
    }

    fn connect(&mut self, stream: Stream) {
        let shared = self.host.shared.clone();
        let counted = Counted::new(&shared.connections);
        self.all.spawn(async move {
            connection::serve(shared, stream, counted).await;
            Done::Connection
        });
    }

    /// Handles timeouts and carries out the core's effects. Returns the time of the next timeout.
    fn carry_out(&mut self) -> Option<Instant> {
        let shared = self.host.shared.clone();
        shared.core().catch_up(Instant::now());
        loop {
            let effect = shared.core().effect();
            match effect {
                Some(effect) => self.start(effect),
                None => return shared.core().due(),
            }
        }
    }

    fn start(&mut self, effect: HostEffect) {
        let shared = &self.host.shared;
        match effect {
            HostEffect::Restore(channel, number) => {
                let loaded = shared.archive.load(channel.clone());
                // The core has given the restore up by then: no request waits for it, and no state
                // remains.
                let patience = if defect!(RestoreWithoutDeadline) {
                    EVER
                } else {
                    shared.limits.restore_deadline + A_MOMENT
                };
                self.all.spawn(async move {
                    let stored = timeout(patience, loaded).await;
                    Done::Restored(channel, number, stored.ok().flatten())
                });
            }
            HostEffect::Save(channel, stored) => shared.archive.save(&channel, *stored),
            HostEffect::Forget(channel) => shared.archive.forget(&channel),
            HostEffect::Begin { chat, turn: id, text, client } => {
                let (agent, shared) = (self.host.agent.clone(), shared.clone());
                let key = (chat.clone(), id.clone());
                let (name, turn) = key.clone();
                // The agent's `turn` is called for every turn that began, even if the turn is
                // stopped before its task runs.
                let playing = agent.turn(Turn { chat, id, text, client, shared });
                let work = async move {
                    playing.await;
                    Done::Turn(name, turn)
                };
                self.turns.insert(key, self.all.spawn(work));
            }
            // The agent may run once more before its task ends.
            HostEffect::Stop { chat, turn } => {
                match self.turns.get(&(chat.clone(), turn.clone())) {
                    Some(playing) => playing.abort(),
                    None => shared.core().agent_stopped(&chat, &turn),
                }
            }
        }
    }

    /// Handles a finished task. If the agent of a turn panicked, the turn is cancelled; a stopped
    /// turn is already over.
    fn done(&mut self, done: Result<Done, JoinError>) {
        let mut core = self.host.shared.core();
        match done {
            Ok(Done::Connection) => {}
            Ok(Done::Restored(channel, number, stored)) => {
                core.restored(&channel, number, stored, Instant::now())
            }
            Ok(Done::Turn(chat, turn)) => {
                core.end_turn(&chat, &turn, true, Instant::now());
                core.agent_stopped(&chat, &turn);
                self.turns.remove(&(chat, turn));
            }
            Err(error) => {
                let of = self
                    .turns
                    .iter()
                    .find(|(_, handle)| handle.id() == error.id())
                    .map(|(key, _)| key.clone());
                if let Some((chat, turn)) = of {
                    if error.is_panic() && !defect!(BrokenAgentsTurnGoesOn) {
                        core.end_turn(&chat, &turn, false, Instant::now());
                    }
                    core.agent_stopped(&chat, &turn);
                    self.turns.remove(&(chat, turn));
                }
            }
        }
    }
}
