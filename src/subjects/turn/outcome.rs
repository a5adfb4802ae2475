//! The outcomes of a user's commands, as values.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::history::Data;
use reknit_turn::client::ClientError;

/// The outcome of a command, as its user saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CommandOutcome {
    /// How the turn ended.
    pub verdict: SeenVerdict,
    /// The answer that the command printed.
    pub answer: Option<String>,
    /// The commands of the agent that it listed: command line, status and exit code.
    pub commands: Vec<(String, String, Option<i64>)>,
    /// The changes of files that it listed: path and kind.
    pub files: Vec<(String, String)>,
    /// How many commands and changes it left out.
    pub left_out: u64,
    /// The last error of the app-server, if there was one.
    pub error: Option<String>,
    /// The exit status of the command.
    pub status: i32,
}

/// The verdict of a turn, as its user saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SeenVerdict {
    /// The turn completed.
    Completed,
    /// It failed, for this reason.
    Failed(String),
    /// It was interrupted.
    Interrupted,
}

/// The alternate form (`{:#}`) contains the report, too.
impl fmt::Display for CommandOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.verdict {
            SeenVerdict::Completed => f.write_str("completed")?,
            SeenVerdict::Failed(reason) => write!(f, "failed: {reason}")?,
            SeenVerdict::Interrupted => f.write_str("interrupted")?,
        }
        write!(f, " (exit {})", self.status)?;
        if !f.alternate() {
            return Ok(());
        }
        for (command, status, code) in &self.commands {
            let code = code.map_or_else(String::new, |code| format!(" {code}"));
            write!(f, ", `{command}` {status}{code}")?;
        }
        for (path, kind) in &self.files {
            write!(f, ", {kind} of {path}")?;
        }
        if self.left_out > 0 {
            write!(f, ", {} left out", self.left_out)?;
        }
        match &self.error {
            Some(error) => write!(f, ", error: {error}"),
            None => Ok(()),
        }
    }
}

impl From<CommandOutcome> for Data {
    fn from(outcome: CommandOutcome) -> Self {
        Data::of(outcome)
    }
}

/// Why a command got no turn, as its user saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenRefusal(pub ClientError);

impl fmt::Display for SeenRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for SeenRefusal {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl From<SeenRefusal> for Data {
    fn from(refusal: SeenRefusal) -> Self {
        Data::of(refusal)
    }
}
