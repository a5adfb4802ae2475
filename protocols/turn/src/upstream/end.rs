//! How a connection to an app-server ended.

use std::fmt;
use std::io;

use reknit_seams::process::Exit;

/// How a connection to an app-server ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamEnd {
    /// The first reason.
    pub reason: EndReason,
    /// How the process ended, if the connection had one.
    pub exit: Option<Exit>,
    /// The last lines of the process's standard error, shortened.
    pub stderr: String,
}

/// The first reason why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndReason {
    /// The app-server exited, or closed the connection.
    #[error("the app-server disconnected")]
    Closed,
    /// The connection broke.
    #[error("the connection to the app-server broke: {0}")]
    Broken(io::ErrorKind),
    /// The app-server sent a line that is not a message.
    #[error("the app-server sent an unreadable line: {0}")]
    Unreadable(String),
    /// The app-server sent a line that is longer than this many bytes.
    #[error("the app-server sent an unreadable line: it is longer than {0} bytes")]
    TooLong(usize),
    /// The app-server does not read.
    #[error("the app-server reads no data")]
    Stuck,
    /// The app-server sent too many notifications while the client waited for an answer.
    #[error("the app-server sent too many notifications before an answer")]
    Flooded,
    /// This end closed the connection.
    #[error("the connection to the app-server was closed")]
    Asked,
}

impl EndReason {
    /// Whether what arrives after this reason still counts.
    pub(super) fn was_readable(&self) -> bool {
        matches!(self, Self::Closed | Self::Asked)
    }
}

/// One line: the reason, the exit, and the last line of the standard error.
impl fmt::Display for UpstreamEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)?;
        match self.exit {
            Some(Exit::Code(code)) => write!(f, " (exit code {code})")?,
            Some(Exit::Signal(signal)) => write!(f, " (killed by signal {signal})")?,
            None => {}
        }
        match self.stderr.lines().rfind(|line| !line.trim().is_empty()) {
            Some(line) => write!(f, ": {}", line.trim()),
            None => Ok(()),
        }
    }
}

impl std::error::Error for UpstreamEnd {}
