//! The broker's side: it listens, and publishes its address.

use std::io;
use std::path::Path;

use reknit_seams::net::{Endpoint, Listener};
use reknit_seams::process::Identity;
use reknit_seams::{Env, defect, milestone, point};
use tokio::time::Instant;

use super::directory::{Directory, Lock, Recorded};
use super::record::BrokerRecord;
use crate::limits::StartLimits;

/// The reason why a broker cannot serve a directory.
#[derive(Debug, thiserror::Error)]
pub enum NotPublished {
    /// Another broker serves it.
    #[error("another broker runs in this directory")]
    AnotherBroker,
    /// An error of the operating system.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The presence of a broker in its directory.
pub struct Publication {
    directory: Directory,
    process: Identity,
    _lock: Lock,
}

impl Publication {
    /// Listens at `at`, and writes the record of this broker into the directory. Waits for up to
    /// `limits.start` for an earlier broker that is about to end. `account` names the account for
    /// which the app-server works.
    ///
    /// The socket of a dead broker is removed first.
    ///
    /// # Errors
    /// [`NotPublished`].
    pub async fn open(
        env: &Env,
        directory: &Path,
        at: &Endpoint,
        account: &str,
        limits: StartLimits,
    ) -> Result<(Self, Listener), NotPublished> {
        let directory = Directory::open(env.files.clone(), directory).await?;
        let until = Instant::now() + limits.start;
        let lock = directory.lock_run(limits.poll, until).await?;
        let Some(lock) = lock else {
            // The bug: a broker that finds another one removes the socket of that one.
            if let Some(path) = at.path().filter(|_| defect!(RefusedBrokersRemoveTheSocket)) {
                directory.remove_socket(path).await?;
            }
            return Err(NotPublished::AnotherBroker);
        };
        // The bug: the socket of a dead broker stays if no client knew it.
        if let Some(path) = at.path().filter(|_| !defect!(OldSocketsStay)) {
            directory.remove_socket(path).await?;
        }
        let listener = env.net.listen(at).await?;
        let process = env.processes.own()?;
        let record = BrokerRecord::new(&listener.endpoint(), &process, account);
        let record = record.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        point!("turn.broker.listening").await;
        directory.write(&record).await?;
        milestone!("turn.broker.published", pid = process.pid);
        Ok((Self { directory, process, _lock: lock }, listener))
    }

    /// Removes the record of this broker. Call it after [`Broker::serve`](super::super::Broker::serve).
    ///
    /// # Errors
    /// The errors of the operating system.
    pub async fn withdraw(self) -> io::Result<()> {
        match self.directory.read().await? {
            Recorded::Broker(record) if record.process() == self.process => {
                self.directory.remove().await
            }
            _ => Ok(()),
        }
    }
}
