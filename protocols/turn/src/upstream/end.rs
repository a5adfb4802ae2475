//! How a connection to an app-server ended.

use std::fmt;
use std::io;

use reknit_seams::defect;
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
    /// The app-server sent a line that is longer than this many bytes.
    #[error("the app-server sent a line that is longer than {0} bytes")]
    TooLong(usize),
    /// The app-server does not read.
    #[error("the app-server reads no data")]
    Stuck,
    /// The app-server sent too many lines while the client waited for an answer.
    #[error("the app-server sent too many lines before an answer")]
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
            Some(line) => write!(f, ": {}", plain(line)),
            None => Ok(()),
        }
    }
}

impl std::error::Error for UpstreamEnd {}

/// The maximum length of the shown line in characters.
const LONGEST_SHOWN: usize = 300;

/// Returns a line without colours and other control characters, shortened.
fn plain(line: &str) -> String {
    let mut plain = String::new();
    let mut rest = line.trim().chars();
    while let Some(char) = rest.next() {
        match char {
            // The sequence of a terminal: it ends with a letter.
            '\u{1b}' if !defect!(ColoursAreShown) => {
                let _ = rest.by_ref().find(char::is_ascii_alphabetic);
            }
            char if char.is_control() => {}
            char => plain.push(char),
        }
    }
    plain.chars().take(LONGEST_SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_one_line_without_colours() {
        let stderr = format!("one\n\u{1b}[31mERROR\u{1b}[0m \u{7}two{}\n\n", "x".repeat(999));
        let end = UpstreamEnd { reason: EndReason::Closed, exit: Some(Exit::Code(1)), stderr };
        let shown = end.to_string();
        assert!(shown.starts_with("the app-server disconnected (exit code 1): ERROR twoxxx"));
        assert!(shown.len() < 400 && !shown.contains('\u{1b}'), "{shown}");
    }
}
