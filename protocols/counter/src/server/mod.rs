//! The server: it keeps sessions, and attaches connections to them.
//!
//! - `log`: the log of one stream. `session`: one session. Neither uses a clock, a socket or a
//!   task.
//! - `connection`: one connection, one task. It pulls numbers from its session by position, so a
//!   client that reads slowly, or not at all, delays only itself.
//!
//! A single lock protects all sessions; it is never held across an await. Every task has an owner:
//! the server owns the connections, and a stream owns the task that fills its log. Dropping
//! [`Server::run`] ends all of them.

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

/// A listening server.
pub struct Server {
    listener: Listener,
    shared: Arc<Shared>,
}

/// The state that all connections share.
struct Shared {
    limits: ServerLimits,
    source: Arc<dyn Source>,
    ledger: Arc<dyn Ledger>,
    entropy: Arc<dyn Entropy>,
    sessions: Mutex<BTreeMap<SessionId, Session>>,
    /// Wakes the server when an expiry may be earlier than its current timer.
    changed: Notify,
    connections: Arc<AtomicU64>,
    leases: Arc<AtomicU64>,
    /// Values that a defect never releases.
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

    /// Returns the endpoint that the server listens on.
    pub fn endpoint(&self) -> Endpoint {
        self.listener.endpoint()
    }

    /// Returns the server's resource counts, which can be read at any time. The handle does not
    /// keep the server alive.
    pub fn resources(&self) -> ServerResources {
        ServerResources(Arc::downgrade(&self.shared))
    }

    /// Serves until dropped.
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

/// The pause after a failed accept: a shortage of a resource (files, memory) usually lasts for a
/// moment.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The session and the ticket of a connection.
#[derive(Clone, Copy, Debug)]
struct ConnAttachment {
    session: SessionId,
    ticket: Ticket,
    conn: u64,
}

impl Shared {
    fn sessions(&self) -> MutexGuard<'_, BTreeMap<SessionId, Session>> {
        self.sessions.lock().expect("nothing panics under the lock")
    }

    /// Runs `act` on the session of a connection, if that connection is still attached.
    fn with<T>(
        &self,
        attachment: ConnAttachment,
        act: impl FnOnce(&mut Session) -> Result<T, Fenced>,
    ) -> Result<T, Fenced> {
        let mut sessions = self.sessions();
        let session = sessions.get_mut(&attachment.session).ok_or(Fenced)?;
        session.check(attachment.ticket)?;
        act(session)
    }

    /// Attaches a connection to a session. Returns its attachment, whether the session existed before,
    /// and the notifier that wakes the connection.
    fn attach(
        &self,
        session: Option<SessionId>,
        ticket: Ticket,
        conn: u64,
    ) -> Result<(ConnAttachment, bool, Arc<Notify>), Refusal> {
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
        Ok((ConnAttachment { session: id, ticket, conn }, resumed, wake))
    }

    /// Detaches a connection that ended.
    fn detach(&self, attachment: ConnAttachment) {
        let mut sessions = self.sessions();
        let Some(session) = sessions.get_mut(&attachment.session) else { return };
        let ConnAttachment { ticket, conn, .. } = attachment;
        if session.detach(ticket, Instant::now()) {
            milestone!("counter.server.detached", generation = ticket.generation, conn);
        } else {
            milestone!("counter.server.late-close", generation = ticket.generation, conn);
        }
        if defect!(DetachDropsNeighbours) {
            sessions.values().for_each(Session::wake);
            sessions.retain(|id, _| *id == attachment.session);
        }
        self.changed.notify_one();
    }

    /// Removes the session of a client that left.
    fn leave(&self, attachment: ConnAttachment) -> Result<(), Fenced> {
        self.with(attachment, |_| Ok(()))?;
        self.sessions().remove(&attachment.session);
        milestone!(
            "counter.server.left",
            generation = attachment.ticket.generation,
            conn = attachment.conn
        );
        Ok(())
    }

    /// Removes expired streams and sessions. Returns the time of the next expiry.
    fn sweep(&self, now: Instant) -> Option<Instant> {
        let mut next: Option<Instant> = None;
        let mut then = |due: Instant| next = Some(next.map_or(due, |other| other.min(due)));
        self.sessions().retain(|_, session| {
            let retention = match defect!(EndedForgottenAtOnce) {
                true => Duration::ZERO,
                false => self.limits.closed_retention,
            };
            let (forgotten, due) = session.forget_ended(now, retention);
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

    /// Starts the task that fills a stream's log.
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
        // Numbers may arrive in a burst, and the log may be short, so readers must run in between.
        tokio::task::yield_now().await;
    }
}

/// The resource counts of a server. All of them are 0 after the clients have been absent for a
/// while, or after the server was dropped.
#[derive(Clone)]
pub struct ServerResources(Weak<Shared>);

impl ServerResources {
    fn count(&self, count: impl FnOnce(&BTreeMap<SessionId, Session>) -> usize) -> u64 {
        self.0.upgrade().map_or(0, |shared| count(&shared.sessions()) as u64)
    }

    /// The number of sessions.
    pub fn sessions(&self) -> u64 {
        self.count(BTreeMap::len)
    }

    /// The number of streams with a log.
    pub fn streams(&self) -> u64 {
        self.count(|sessions| sessions.values().map(|session| session.kept().count()).sum())
    }

    /// The length of the longest log.
    pub fn longest_log(&self) -> u64 {
        self.count(|sessions| sessions.values().flat_map(Session::kept).max().unwrap_or(0))
    }

    /// The maximum number of replies that wait for one connection.
    pub fn longest_queue(&self) -> u64 {
        self.count(|sessions| sessions.values().map(Session::queued).max().unwrap_or(0))
    }

    /// The number of accepted connections that have not ended.
    pub fn connections(&self) -> u64 {
        self.0.upgrade().map_or(0, |shared| shared.connections.load(Ordering::Relaxed))
    }

    /// The number of leases that have not expired.
    pub fn leases(&self) -> u64 {
        self.0.upgrade().map_or(0, |shared| shared.leases.load(Ordering::Relaxed))
    }
}
