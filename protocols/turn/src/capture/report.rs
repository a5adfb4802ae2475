//! The result of a turn, for its user.

use std::fmt;

use reknit_seams::defect;

use super::verdict::{Interruption, Verdict};
use crate::wire::{ChangeKind, WorkStatus};

/// The result of a turn. Its `Display` is the text for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// How the turn ended.
    pub verdict: Verdict,
    /// The thread of the turn. For a detached review, the thread of the review.
    pub thread: String,
    /// The turn. `None` if its id never came.
    pub turn: Option<String>,
    /// The answer: of a task, the last final answer, or, if the server has no phases, the last
    /// message; of a review, the review. A comment or a plan is no answer. A turn can complete
    /// without one.
    pub answer: Option<String>,
    /// The last message of the agent, in any phase.
    pub last_message: Option<String>,
    /// The last error that the server reported.
    pub error: Option<String>,
    /// The changes of files that were made, in their order.
    pub files: Vec<EditedFile>,
    /// The commands that ran, in their order.
    pub commands: Vec<CommandRun>,
    /// How many changes and commands are left out, because of the limit for text.
    pub left_out: u64,
    /// Whether a text was cut, because of the limit for text.
    pub is_cut: bool,
}

/// A change of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditedFile {
    /// The file.
    pub path: String,
    /// The kind of the change.
    pub kind: ChangeKind,
    /// The change, in the unified format.
    pub diff: String,
}

/// A command that ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandRun {
    /// The command line.
    pub command: String,
    /// Its exit code, if it has one.
    pub exit_code: Option<i64>,
    /// How it ended.
    pub status: WorkStatus,
}

impl Report {
    /// Returns the exit status of the program that ran the turn: 0 if and only if the turn
    /// completed, 130 if the user cancelled it, otherwise 1.
    pub fn exit_status(&self) -> i32 {
        match self.verdict {
            Verdict::Completed(_) => 0,
            Verdict::Failed(_) if defect!(FailureExitsWithZero) => 0,
            // The bug: an interrupt by another client counts as a cancel.
            Verdict::Interrupted(Interruption::Other) if defect!(OtherInterruptsAreCancels) => 130,
            Verdict::Failed(_) | Verdict::Interrupted(Interruption::Other) => 1,
            Verdict::Interrupted(_) => 130,
        }
    }

    /// Returns one line on how the turn ended.
    pub fn summary(&self) -> String {
        match &self.verdict {
            Verdict::Completed(_) if self.answer.is_none() => {
                "The turn completed without an answer.".to_owned()
            }
            Verdict::Completed(_) => "The turn completed.".to_owned(),
            Verdict::Failed(failure) => {
                format!("Failed: {}.", failure.to_string().trim_end_matches('.'))
            }
            Verdict::Interrupted(Interruption::Cancelled) => "The turn is cancelled.".to_owned(),
            Verdict::Interrupted(Interruption::CancelledUnconfirmed) => {
                "The turn is cancelled, but the app-server did not confirm it.".to_owned()
            }
            Verdict::Interrupted(Interruption::Other) => {
                "The turn was interrupted, but not by this client.".to_owned()
            }
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_complete = matches!(self.verdict, Verdict::Completed(_));
        if !is_complete || self.answer.is_none() {
            writeln!(f, "{}", self.summary())?;
        }
        if let Some(answer) = &self.answer {
            writeln!(f, "{}", answer.trim_end())?;
        } else if let Some(last) = &self.last_message {
            writeln!(f, "The last message of the agent:\n{}", last.trim_end())?;
        }
        if let Some(error) = &self.error
            && !is_complete
            && !self.summary().contains(error.as_str())
        {
            writeln!(f, "The last error of the app-server: {error}")?;
        }
        if !self.files.is_empty() {
            writeln!(f, "\nChanged files:")?;
            for file in &self.files {
                writeln!(f, "  {} ({})", file.path, file.kind.as_str())?;
            }
        }
        if !self.commands.is_empty() {
            writeln!(f, "\nCommands:")?;
            for run in &self.commands {
                let exit =
                    run.exit_code.map_or_else(String::new, |code| format!(", exit code {code}"));
                writeln!(f, "  {} ({}{exit})", run.command, run.status.as_str())?;
            }
        }
        if self.left_out > 0 {
            writeln!(f, "\n{} more changes and commands are left out.", self.left_out)?;
        }
        if self.is_cut {
            writeln!(f, "\nA text above is cut, because it is too long.")?;
        }
        Ok(())
    }
}
