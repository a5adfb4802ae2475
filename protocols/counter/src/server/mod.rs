//! The server: it keeps sessions, and lends them to connections.
//!
//! - `log`: what is kept of one stream. `session`: one session. Both without clock, socket or task.
//! - `connection`: one connection, one task. It pulls what it sends from its session, by position, so a client that reads
//!   slowly, or not at all, stops nobody but itself.
//!
//! All sessions stand under one lock, which is never held across an await. Tasks are owned: the connections by the server,
//! the task that fills a stream's log by the stream. Dropping [`Server::run`] ends all of them.

use std::any::Any;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use reknit_seams::Env;
use reknit_seams::env::Entropy;
use reknit_seams::net::{Endpoint, Listener};
use reknit_seams::{defect, milestone, point};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::limits::ServerLimits;
use super::outside::{Ledger, Numbers, Source};
use super::wire::{Name, Refusal, SessionId, Ticket};

mod connection;
mod log;
mod session;

use session::{Fenced, Session};

/// A server that listens.
pub struct Server {
    listener: Listener,
    shared: Arc<Shared>,
}

/// What all connections share.
struct Shared {
    limits: ServerLimits,
    source: Arc<dyn Source>,
    ledger: Arc<dyn Ledger>,
    entropy: Arc<dyn Entropy>,
    sessions: Mutex<BTreeMap<SessionId, Session>>,
    /// Something may be due earlier than was thought.
    changed: Notify,
    connections: Arc<AtomicU64>,
    leases: Arc<AtomicU64>,
    /// What a defect never lets go.
    leaked: Mutex<Vec<Box<dyn Any + Send>>>,
}

impl Server {
    /// Listens at `at`, for streams of `source` and counters of `ledger`.
    ///
    /// # Errors
    /// Those of [`Network::listen`](reknit_seams::net::Network::listen).
    pub async fn bind(
        env: &Env,
        at: &Endpoint,
        limits: ServerLimits,
        source: Arc<dyn Source>,
        ledger: Arc<dyn Ledger>,
    ) -> io::Result<Self> {
        let listener = env.net.listen(at).await?;
        let shared = Shared {
            limits,
            source,
            ledger,
            entropy: env.entropy.clone(),
            sessions: Mutex::default(),
            changed: Notify::new(),
            connections: Arc::default(),
            leases: Arc::default(),
            leaked: Mutex::default(),
        };
        Ok(Self { listener, shared: Arc::new(shared) })
    }

    /// Where it listens.
    pub fn endpoint(&self) -> Endpoint {
        self.listener.endpoint()
    }

    /// What it holds, to be asked at any time. Does not keep it alive.
    pub fn resources(&self) -> ServerResources {
        ServerResources(Arc::downgrade(&self.shared))
    }

    /// Serves until it is dropped.
    pub async fn run(mut self) {
        let mut connections = JoinSet::new();
        loop {
            let due = self.shared.sweep(Instant::now());
            tokio::select! {
                biased;
                accepted = self.listener.accept() => match accepted {
                    Ok(stream) => drop(connections.spawn(connection::serve(self.shared.clone(), stream))),
                    Err(error) => {
                        tracing::warn!(%error, "accept");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(_) = connections.join_next() => {}
                () = self.shared.changed.notified() => {}
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
    }
}

/// How long the server waits after it could not accept a connection: whatever is short then (files, memory) stays short for a
/// moment.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A connection's place in its session.
#[derive(Clone, Copy, Debug)]
struct Place {
    session: SessionId,
    ticket: Ticket,
    conn: u64,
}

impl Shared {
    fn sessions(&self) -> MutexGuard<'_, BTreeMap<SessionId, Session>> {
        self.sessions.lock().expect("nothing panics under the lock")
    }

    /// Does something with the session of a connection, which must be the one that is attached.
    fn with<T>(
        &self,
        place: Place,
        act: impl FnOnce(&mut Session) -> Result<T, Fenced>,
    ) -> Result<T, Fenced> {
        let mut sessions = self.sessions();
        let session = sessions.get_mut(&place.session).ok_or(Fenced)?;
        session.check(place.ticket)?;
        act(session)
    }

    /// Attaches a connection to a session: says to which, whether it was there before, and how the connection is woken.
    fn attach(
        &self,
        session: Option<SessionId>,
        ticket: Ticket,
        conn: u64,
    ) -> Result<(Place, bool, Arc<Notify>), Refusal> {
        let mut sessions = self.sessions();
        let id = match session {
            Some(id) => id,
            None if sessions.len() >= self.limits.sessions => return Err(Refusal::Full),
            None => {
                let id = self.new_id();
                sessions.insert(id, Session::new(Instant::now()));
                id
            }
        };
        let session = sessions.get_mut(&id).ok_or(Refusal::UnknownSession)?;
        if defect!(StillAttachedRefused) && session.attached() {
            return Err(Refusal::StillAttached);
        }
        let resumed = session.ticket().is_some();
        if session.ticket() >= Some(ticket) {
            return Err(Refusal::StaleTicket);
        }
        let (wake, fenced) = session.attach(ticket);
        if fenced {
            milestone!("counter.server.fenced", generation = ticket.generation, conn);
        }
        Ok((Place { session: id, ticket, conn }, resumed, wake))
    }

    /// A connection is over.
    fn detach(&self, place: Place) {
        let mut sessions = self.sessions();
        let Some(session) = sessions.get_mut(&place.session) else { return };
        let Place { ticket, conn, .. } = place;
        if session.detach(ticket, Instant::now()) {
            milestone!("counter.server.detached", generation = ticket.generation, conn);
        } else {
            milestone!("counter.server.late-close", generation = ticket.generation, conn);
        }
        if defect!(DetachDropsNeighbours) {
            sessions.values().for_each(Session::wake);
            sessions.retain(|id, _| *id == place.session);
        }
        self.changed.notify_one();
    }

    /// The client left: nothing of its session stays.
    fn leave(&self, place: Place) -> Result<(), Fenced> {
        self.with(place, |_| Ok(()))?;
        self.sessions().remove(&place.session);
        milestone!("counter.server.left", generation = place.ticket.generation, conn = place.conn);
        Ok(())
    }

    /// Lets go of what is due; returns when the next thing is.
    fn sweep(&self, now: Instant) -> Option<Instant> {
        let mut next: Option<Instant> = None;
        let mut then = |due: Instant| next = Some(next.map_or(due, |other| other.min(due)));
        self.sessions().retain(|_, session| {
            let (forgotten, due) = session.forget_ended(now, self.limits.closed_retention);
            if forgotten > 0 {
                milestone!("counter.server.forgotten", streams = forgotten as u64);
            }
            due.into_iter().for_each(&mut then);
            let Some(since) = session.away_since() else { return true };
            let due = since + self.limits.session_lifetime;
            if defect!(SessionNeverExpires) {
                return true;
            }
            if due <= now {
                milestone!("counter.server.expired");
                return false;
            }
            then(due);
            true
        });
        next
    }

    /// Starts to fill a stream's log.
    fn pump(
        self: &Arc<Self>,
        session: SessionId,
        stream: &Name,
        numbers: Box<dyn Numbers>,
    ) -> JoinSet<()> {
        let mut owner = JoinSet::new();
        let pump = pump(Arc::downgrade(self), session, stream.clone(), numbers);
        if defect!(PumpLeaks) {
            tokio::spawn(pump);
        } else {
            owner.spawn(pump);
        }
        owner
    }

    fn new_id(&self) -> SessionId {
        let mut bytes = [0; 16];
        self.entropy.fill(&mut bytes);
        SessionId(u128::from_le_bytes(bytes))
    }

    fn leak(&self, what: impl Any + Send) {
        self.leaked.lock().expect("nothing panics under the lock").push(Box::new(what));
    }
}

/// Fills a stream's log until the stream ends. Does not keep the server alive.
async fn pump(
    shared: Weak<Shared>,
    session: SessionId,
    stream: Name,
    mut numbers: Box<dyn Numbers>,
) {
    loop {
        let value = numbers.next().await;
        point!("counter.server.made").await;
        let Some(shared) = shared.upgrade() else { return };
        if let Some(session) = shared.sessions().get_mut(&session) {
            session.made(&stream, value, Instant::now());
        }
        if value.is_none() {
            return shared.changed.notify_one();
        }
        drop(shared);
        // Numbers may come in a burst, and logs be short: whoever reads gets its turn.
        tokio::task::yield_now().await;
    }
}

/// What a server holds. All of it is 0 when nobody has been there for a while, or when the server is gone.
#[derive(Clone)]
pub struct ServerResources(Weak<Shared>);

impl ServerResources {
    fn count(&self, count: impl FnOnce(&BTreeMap<SessionId, Session>) -> usize) -> u64 {
        self.0.upgrade().map_or(0, |shared| count(&shared.sessions()) as u64)
    }

    /// Sessions.
    pub fn sessions(&self) -> u64 {
        self.count(BTreeMap::len)
    }

    /// Streams of which numbers are kept.
    pub fn streams(&self) -> u64 {
        self.count(|sessions| sessions.values().map(|session| session.kept().count()).sum())
    }

    /// Numbers that are kept of the stream of which most are.
    pub fn longest_log(&self) -> u64 {
        self.count(|sessions| sessions.values().flat_map(Session::kept).max().unwrap_or(0))
    }

    /// Replies that wait for the connection for which most do.
    pub fn longest_queue(&self) -> u64 {
        self.count(|sessions| sessions.values().map(Session::queued).max().unwrap_or(0))
    }

    /// Connections that were accepted and are not over.
    pub fn connections(&self) -> u64 {
        self.0.upgrade().map_or(0, |shared| shared.connections.load(Ordering::Relaxed))
    }

    /// Leases that have not run out.
    pub fn leases(&self) -> u64 {
        self.0.upgrade().map_or(0, |shared| shared.leases.load(Ordering::Relaxed))
    }
}
