//! The directory of a broker: its record, and two locks.
//!
//! A client holds the lock `start.lock` while it looks for a dead broker and starts a new one. A broker
//! holds the lock `run.lock` as long as it runs. The operating system releases both when their holder
//! ends, however it ends.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reknit_seams::defect;
use reknit_seams::files::{File, Files, Open};
use tokio::time::{Duration, Instant, sleep};

use super::defects;
use super::record::BrokerRecord;

/// The maximum size of a record in bytes.
const LONGEST_RECORD: u64 = 64 * 1024;

/// The lock of the clients.
pub(super) const START: &str = "start.lock";

/// The content of a record's file.
#[derive(Debug)]
pub(super) enum Recorded {
    /// There is no record.
    None,
    /// A broker has written its record.
    Broker(BrokerRecord),
    /// The file contains something else.
    Unreadable,
}

/// A lock. Dropping it releases it.
pub(super) struct Lock(#[expect(dead_code, reason = "the file holds the lock")] Box<dyn File>);

/// The directory of a broker.
pub(super) struct Directory {
    files: Arc<dyn Files>,
    path: PathBuf,
}

impl Directory {
    /// Opens the directory, and creates it if it does not exist. Its parent must exist.
    pub async fn open(files: Arc<dyn Files>, path: &Path) -> io::Result<Self> {
        match files.create_directory(path).await {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        Ok(Self { files, path: path.to_owned() })
    }

    pub fn record_path(&self) -> PathBuf {
        self.path.join("broker.json")
    }

    /// Reads the record.
    pub async fn read(&self) -> io::Result<Recorded> {
        let file = match self.files.open(&self.record_path(), Open::Read).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Recorded::None),
            opened => opened?,
        };
        let size = file.metadata().await?.size;
        if size > LONGEST_RECORD {
            return Ok(Recorded::Unreadable);
        }
        let bytes = file.read_at(0, size as usize).await?;
        Ok(serde_json::from_slice(&bytes).map_or(Recorded::Unreadable, Recorded::Broker))
    }

    /// Writes the record: a reader sees the old one or the new one, also after a crash.
    pub async fn write(&self, record: &BrokerRecord) -> io::Result<()> {
        let new = self.path.join("broker.json.new");
        let file = self.files.open(&new, Open::Replace).await?;
        file.write_at(0, serde_json::to_vec(record)?).await?;
        file.sync().await?;
        self.files.rename(&new, &self.record_path()).await?;
        self.files.sync_directory(&self.path).await
    }

    /// Removes the record.
    pub async fn remove(&self) -> io::Result<()> {
        remove_file(&*self.files, &self.record_path()).await
    }

    /// Removes the file of a socket whose broker is dead.
    pub async fn remove_socket(&self, path: &Path) -> io::Result<()> {
        remove_file(&*self.files, path).await
    }

    /// Takes the lock of the clients. `None` if others hold it until the deadline.
    pub async fn lock_start(&self, poll: Duration, until: Instant) -> io::Result<Option<Lock>> {
        self.lock(START, poll, until).await
    }

    /// Takes the lock of the broker. `None` if another broker runs until the deadline.
    pub async fn lock_run(&self, poll: Duration, until: Instant) -> io::Result<Option<Lock>> {
        self.lock("run.lock", poll, until).await
    }

    async fn lock(&self, name: &str, poll: Duration, until: Instant) -> io::Result<Option<Lock>> {
        let path = self.path.join(name);
        loop {
            let file = self.files.open(&path, Open::Write).await?;
            let is_late = Instant::now() >= until;
            if file.try_lock().await? || defects::passes(name, is_late) {
                return Ok(Some(Lock(file)));
            }
            // The bug: a client waits for the lock as long as others hold it.
            if is_late && !(name == START && defect!(StartLocksAreAwaited)) {
                return Ok(None);
            }
            sleep(poll).await;
        }
    }
}

async fn remove_file(files: &dyn Files, path: &Path) -> io::Result<()> {
    match files.remove_file(path).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
