//! The client's side: it finds a broker, or starts one.

use std::io;
use std::path::{Path, PathBuf};

use reknit_seams::process::{Detached, Identity};
use reknit_seams::{Env, defect, milestone, point};
use tokio::time::{Instant, sleep, timeout};

use super::directory::{Directory, Recorded};
use super::record::BrokerRecord;
use crate::limits::{ConnectionLimits, StartLimits};
use crate::upstream::Upstream;
use crate::wire::ClientInfo;

/// A broker that a client looks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerSearch {
    /// The directory of the broker. Its parent must exist.
    pub directory: PathBuf,
    /// The account of the client. A broker for another account is never used.
    pub account: String,
    /// The program that serves the directory, see [`Publication`](super::Publication).
    pub program: Detached,
    /// The client.
    pub client: ClientInfo,
    /// The limits of the connection to the broker.
    pub connection: ConnectionLimits,
    /// The limits of the search.
    pub limits: StartLimits,
}

/// The reason why a client has no broker. The client uses its own app-server.
#[derive(Debug, thiserror::Error)]
pub enum NoBroker {
    /// A broker runs, but does not answer. It may have a turn, so the client does not replace it.
    #[error("the broker ({0}) does not answer")]
    Silent(Identity),
    /// The broker works for another account.
    #[error("the broker works for another account")]
    OtherAccount,
    /// Other clients are starting a broker, and take too long.
    #[error("other clients are starting a broker")]
    Locked,
    /// A broker runs, but its record is damaged. The client does not replace it.
    #[error("a broker runs, but its record {} cannot be read", .0.display())]
    Unreadable(PathBuf),
    /// The new broker did not start.
    #[error("the broker did not start; see {}", .0.display())]
    NotStarted(PathBuf),
    /// An error of the operating system.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl BrokerSearch {
    /// Connects to the broker of the directory, and initializes the connection. If no broker runs
    /// there, starts one. If several clients start one at the same time, there is one broker
    /// afterwards. Takes up to twice `limits.start`.
    ///
    /// No process is ever ended: not a broker that is busy, and not another program that has got
    /// the process id of a dead broker.
    ///
    /// # Errors
    /// [`NoBroker`].
    pub async fn find_or_start(&self, env: &Env) -> Result<Upstream, NoBroker> {
        let directory = Directory::open(env.files.clone(), &self.directory).await?;
        if let Recorded::Broker(record) = directory.read().await?
            && self.is_mine(&record)
            && let Some(broker) = self.probe(env, &record).await
        {
            // The bug: the client uses only a broker that it has started.
            if defect!(RunningBrokersAreLeft) {
                return Err(NoBroker::Silent(record.process()));
            }
            return Ok(broker);
        }
        point!("turn.broker.missing").await;
        let until = Instant::now() + self.limits.start;
        let lock = directory.lock_start(self.limits.poll, until).await?;
        let _lock = lock.ok_or(NoBroker::Locked)?;
        if let Some(broker) = self.find(env, &directory).await? {
            return Ok(broker);
        }
        self.start(env, &directory).await
    }

    /// Connects to the broker of the directory, and initializes the connection. `None` if no broker
    /// of this account answers in time. Starts none, and removes nothing.
    pub async fn connect(&self, env: &Env) -> Option<Upstream> {
        let directory = Directory::open(env.files.clone(), &self.directory).await.ok()?;
        match directory.read().await {
            Ok(Recorded::Broker(record)) if self.is_mine(&record) => self.probe(env, &record).await,
            _ => None,
        }
    }

    /// Connects to the recorded broker. `None` if there is none, or it is dead; its record is removed
    /// then.
    async fn find(&self, env: &Env, directory: &Directory) -> Result<Option<Upstream>, NoBroker> {
        let until = Instant::now() + self.limits.start;
        loop {
            let record = match directory.read().await? {
                Recorded::None => return Ok(None),
                Recorded::Broker(record) => Some(record),
                Recorded::Unreadable => None,
            };
            // The bug: a record that cannot be read is in the way, also if its broker is dead.
            if record.is_none() && defect!(DamagedRecordsStay) {
                return Err(NoBroker::Unreadable(directory.record_path()));
            }
            // The bug: a broker of another account is in the way, also if it is dead.
            if record.as_ref().is_some_and(|record| !self.is_mine(record))
                && defect!(DeadBrokersKeepTheirAccount)
            {
                return Err(NoBroker::OtherAccount);
            }
            let is_trusted = record.is_some() && defect!(DeadBrokerIsTrusted);
            if !is_trusted && !is_alive(env, directory, record.as_ref()).await? {
                milestone!("turn.broker.stale");
                if let Some(path) = record.as_ref().and_then(socket) {
                    directory.remove_socket(&path).await?;
                }
                directory.remove().await?;
                // The bug: the client starts no other broker.
                let dead = record.filter(|_| defect!(DeadBrokersAreNotReplaced));
                return dead.map_or(Ok(None), |dead| Err(NoBroker::Silent(dead.process())));
            }
            let Some(record) = record else {
                return Err(NoBroker::Unreadable(directory.record_path()));
            };
            if !self.is_mine(&record) {
                return Err(NoBroker::OtherAccount);
            }
            if let Some(broker) = self.probe(env, &record).await {
                return Ok(Some(broker));
            }
            // The bug: a busy broker counts as dead.
            if defect!(BusyBrokerIsReplaced) {
                directory.remove().await?;
                return Ok(None);
            }
            if Instant::now() >= until {
                return Err(NoBroker::Silent(record.process()));
            }
            sleep(self.limits.poll).await;
        }
    }

    /// Starts a broker and connects to it.
    async fn start(&self, env: &Env, directory: &Directory) -> Result<Upstream, NoBroker> {
        let until = Instant::now() + self.limits.start;
        let started = env.processes.launch_detached(&self.program).await?;
        milestone!("turn.broker.launched", pid = started.pid);
        loop {
            if let Recorded::Broker(record) = directory.read().await?
                && self.is_mine(&record)
                && let Some(broker) = self.probe(env, &record).await
            {
                return Ok(broker);
            }
            let runs = env.processes.is_alive(&started).unwrap_or(true);
            let is_late = Instant::now() >= until;
            // The bug: only a dead broker is given up, and only once the time is over.
            let is_given_up = match defect!(DeadStartIsAwaited) {
                true => !runs && is_late,
                false => !runs || is_late,
            };
            if is_given_up {
                return Err(NoBroker::NotStarted(self.program.log.clone()));
            }
            sleep(self.limits.poll).await;
        }
    }

    /// Whether the broker works for the client's account.
    fn is_mine(&self, record: &BrokerRecord) -> bool {
        // The bug: a client uses the account of the client that started the broker.
        record.account() == self.account || defect!(AnyAccountIsMine)
    }

    /// Connects to a broker, if it answers `initialize` in time: then its app-server works, too.
    async fn probe(&self, env: &Env, record: &BrokerRecord) -> Option<Upstream> {
        let answer = async {
            let at = record.endpoint().labelled("broker");
            let stream = env.net.connect(&at).await.ok()?;
            let mut broker = Upstream::over(stream, self.connection);
            broker.initialize(self.client.clone()).await.ok()?;
            Some(broker)
        };
        timeout(self.limits.probe, answer).await.ok().flatten()
    }
}

/// Whether the broker with this record may be alive. A broker whose process cannot be seen (in another
/// container), or whose record cannot be read, is alive if it holds the lock of the broker.
async fn is_alive(
    env: &Env,
    directory: &Directory,
    record: Option<&BrokerRecord>,
) -> io::Result<bool> {
    let seen = record.and_then(|record| env.processes.is_alive(&record.process()).ok());
    match seen {
        Some(alive) => Ok(alive),
        // The bug: a broker whose record cannot be read is dead.
        None if record.is_none() && defect!(UnreadableBrokersAreDead) => Ok(false),
        None => {
            let now = Instant::now();
            Ok(directory.lock_run(std::time::Duration::ZERO, now).await?.is_none())
        }
    }
}

fn socket(record: &BrokerRecord) -> Option<PathBuf> {
    record.endpoint().path().map(Path::to_owned)
}
