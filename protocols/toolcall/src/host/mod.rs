//! The host: it keeps sessions, lets agents work in them, and clients watch and run tools.
//!
//! - [`HostCore`]: all of it, without sockets. [`Host`]: with them.
//! - [`Agent`]: who works in the turns; it calls the tools that clients offer by a [`Turn`].
//! - [`Archive`]: where sessions and chats are kept that are not in memory.
//! - `connection`: one connection, one task. [`HostResources`]: what there is.
//!
//! Tasks are owned by [`Host::serve`]: those of connections, of turns, and of restores. Dropping it ends all of them.
//!
//! What it does not do: authenticate clients (a token is wanted for turns, where the host wants one), encrypt, or keep what was
//! under way when it was restarted: a turn and its calls are gone then, and clients are told by snapshots.

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

/// How long the host waits after it could not accept a connection: whatever is short then (files, memory) stays short for a
/// moment.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How much longer than its deadline a restore is let go on.
const A_MOMENT: Duration = Duration::from_millis(1);

/// A host: sessions, who serves them, and who works in them.
pub struct Host {
    shared: Arc<HostShared>,
    agent: Arc<dyn Agent>,
}

/// What a host is made of.
pub struct HostConfig {
    /// The name of its one kind of agent.
    pub provider: String,
    /// The tokens that are good, by resource. Where there are any, turns are only for clients that handed one over.
    pub tokens: BTreeMap<String, String>,
    /// Who works in its turns.
    pub agent: Arc<dyn Agent>,
    /// Where it keeps what is not in memory.
    pub archive: Arc<dyn Archive>,
    /// Its limits.
    pub limits: HostLimits,
}

/// What a task of the host was for.
enum Done {
    Connection,
    /// A restore of a channel is over.
    Restored(String, u64, Option<Stored>),
    /// An agent is done with a turn.
    Turn(String, String),
}

impl Host {
    /// A host in the world of `env`: a new life of it, with a name of its own.
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

    /// What it holds, to be asked at any time. Does not keep it alive.
    pub fn resources(&self) -> HostResources {
        HostResources::of(&self.shared)
    }

    /// Serves whoever connects, until it is dropped.
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
                () = changed.notified() => {}
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
    }
}

/// The tasks of a host that serves.
struct Tasks {
    host: Host,
    all: JoinSet<Done>,
    /// Who works at which turn.
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

    /// Does what is due, and what the core wants to have done; returns when the next thing is due.
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
                // By then the core has given it up: nobody waits, and nothing is left.
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
                // The agent hears of every turn that began, also of one that is stopped before its task runs.
                let playing = agent.turn(Turn { chat, id, text, client, shared });
                let work = async move {
                    playing.await;
                    Done::Turn(name, turn)
                };
                self.turns.insert(key, self.all.spawn(work));
            }
            HostEffect::Stop { chat, turn } => {
                self.turns.remove(&(chat, turn)).iter().for_each(AbortHandle::abort);
            }
        }
    }

    /// A task is over. A turn whose agent panicked is cancelled; one that was stopped is over already.
    fn done(&mut self, done: Result<Done, JoinError>) {
        let mut core = self.host.shared.core();
        match done {
            Ok(Done::Connection) => {}
            Ok(Done::Restored(channel, number, stored)) => {
                core.restored(&channel, number, stored, Instant::now())
            }
            Ok(Done::Turn(chat, turn)) => {
                core.end_turn(&chat, &turn, true, Instant::now());
                self.turns.remove(&(chat, turn));
            }
            Err(error) => {
                let of = self
                    .turns
                    .iter()
                    .find(|(_, handle)| handle.id() == error.id())
                    .map(|(key, _)| key.clone());
                if let Some((chat, turn)) = of {
                    core.end_turn(&chat, &turn, false, Instant::now());
                    self.turns.remove(&(chat, turn));
                }
            }
        }
    }
}
