//! The log of a job: lines that its worker appends, for the user.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use reknit_seams::defect;
use reknit_seams::files::{Files, Open};

use super::error::JobError;
use super::files::failed;
use crate::limits::JobLimits;

/// The log of a job. One process, the worker, appends; others read.
pub struct JobLog {
    files: Arc<dyn Files>,
    path: PathBuf,
    limits: JobLimits,
}

/// The last line of a full log.
const FULL: &str = "(the log is full)\n";

impl JobLog {
    pub(super) fn new(files: Arc<dyn Files>, path: PathBuf, limits: JobLimits) -> Self {
        Self { files, path, limits }
    }

    /// Appends a line. Line breaks in it become spaces. When the log is full, it appends one line that
    /// says so, and drops the rest.
    ///
    /// # Errors
    /// If the file system fails.
    pub async fn append(&self, line: &str) -> Result<(), JobError> {
        let appended = async {
            let file = self.files.open(&self.path, Open::Write).await?;
            let size = file.metadata().await?.size;
            if size == 0 {
                file.set_mode(0o600).await?;
            }
            let most = self.limits.log_bytes as u64;
            let mut line = line.replace(['\n', '\r'], " ");
            line.push('\n');
            // The bug: lines take the room of the last one.
            let reserved = if defect!(LogKeepsNoRoom) { 0 } else { FULL.len() as u64 };
            // A short line could still find room after the last one.
            if self.says_full().await? {
                return Ok(());
            }
            if size + line.len() as u64 + reserved > most {
                if size + FULL.len() as u64 > most {
                    return Ok(());
                }
                line = FULL.to_owned();
            }
            file.write_at(size, line.into_bytes()).await
        };
        appended.await.map_err(|error| failed(&self.path, error))
    }

    /// Whether the last line says that the log is full.
    async fn says_full(&self) -> io::Result<bool> {
        let end = self.end(FULL.len() + 1).await?;
        Ok(end.strip_prefix(b"\n").unwrap_or(&end) == FULL.as_bytes())
    }

    /// Returns the last bytes of the file.
    async fn end(&self, most: usize) -> io::Result<Vec<u8>> {
        let file = match self.files.open(&self.path, Open::Read).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            opened => opened?,
        };
        let size = file.metadata().await?.size;
        file.read_at(size.saturating_sub(most as u64), most).await
    }

    /// Returns the last lines, at most so many. A log that does not exist is empty.
    ///
    /// # Errors
    /// If the file system fails.
    pub async fn tail(&self, lines: usize) -> Result<Vec<String>, JobError> {
        let bytes =
            self.end(self.limits.log_bytes).await.map_err(|error| failed(&self.path, error))?;
        let text = String::from_utf8_lossy(&bytes);
        let all: Vec<&str> = text.lines().collect();
        Ok(all[all.len().saturating_sub(lines)..].iter().map(|line| (*line).to_owned()).collect())
    }
}
