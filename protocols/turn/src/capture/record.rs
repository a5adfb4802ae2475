//! The texts of one turn, up to a limit.

use reknit_seams::defect;

use super::input::TurnKind;
use super::report::{CommandRun, EditedFile, Report};
use super::verdict::Verdict;
use crate::wire::{Item, MessagePhase, Turn, WorkStatus};

/// The texts that are kept one at a time: answer, message without a phase, last message, review,
/// error. Each gets an equal share of the limit, and the lists get one share together.
const SHARES: usize = 6;

/// The texts of a turn so far.
pub(super) struct Record {
    kind: TurnKind,
    /// The bytes of one share.
    share: usize,
    /// The last final answer.
    answer: Option<String>,
    /// The last message without a phase.
    unphased: Option<String>,
    /// The last message.
    last: Option<String>,
    review: Option<String>,
    error: Option<String>,
    files: Vec<EditedFile>,
    commands: Vec<CommandRun>,
    listed: usize,
    left_out: u64,
    is_cut: bool,
}

impl Record {
    pub fn new(kind: TurnKind, text_bytes: usize) -> Self {
        Self {
            kind,
            share: text_bytes / SHARES,
            answer: None,
            unphased: None,
            last: None,
            review: None,
            error: None,
            files: Vec::new(),
            commands: Vec::new(),
            listed: 0,
            left_out: 0,
            is_cut: false,
        }
    }

    /// Takes a complete item of the main thread. Returns whether it is the final answer. An empty
    /// answer is none.
    pub fn main_item(&mut self, item: &Item) -> bool {
        match item {
            Item::AgentMessage { text, phase, .. } => self.message(text, phase.as_ref()),
            Item::ExitedReviewMode { review, .. } if !review.is_empty() => {
                self.review = Some(self.cut(review));
                self.kind == TurnKind::Review
            }
            _ => {
                self.work(item);
                false
            }
        }
    }

    fn message(&mut self, text: &str, phase: Option<&MessagePhase>) -> bool {
        let is_final = phase == Some(&MessagePhase::FinalAnswer)
            || defect!(InfersFromAnyMessage)
            || (phase == Some(&MessagePhase::PartialAnswer) && defect!(PartialAnswersCount));
        if text.is_empty() {
            return is_final && defect!(CountsAnEmptyAnswer);
        }
        self.last = Some(self.cut(text));
        if is_final || (defect!(ReportsTheLastMessage) && self.answer.is_some()) {
            let text = self.cut(text);
            // The bug: the first of several final answers stands.
            self.answer = self.answer.take().filter(|_| defect!(FirstAnswersStand)).or(Some(text));
        } else if phase.is_none() {
            self.unphased = Some(self.cut(text));
        }
        is_final
    }

    /// Takes a complete piece of work of any thread of the turn.
    pub fn work(&mut self, item: &Item) {
        match item {
            Item::FileChange { changes, status, .. }
                if *status == WorkStatus::Completed || defect!(UnmadeChangesListed) =>
            {
                for change in changes {
                    let (path, diff) = (change.path.clone(), change.diff.clone());
                    if self.has_room(path.len() + diff.len()) {
                        self.files.push(EditedFile { path, kind: change.kind.kind.clone(), diff });
                    }
                }
            }
            Item::CommandExecution { command, exit_code, status, .. }
                if self.has_room(command.len()) =>
            {
                let (command, status) = (command.clone(), status.clone());
                self.commands.push(CommandRun { command, exit_code: *exit_code, status });
            }
            _ => {}
        }
    }

    /// Takes an error of the server.
    pub fn error(&mut self, message: &str) {
        self.error = Some(self.cut(message));
    }

    /// Returns the last error of the server.
    pub fn last_error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Takes the turn as its end contains it. Its messages count only if they were not seen before.
    pub fn end(&mut self, turn: &Turn) {
        let is_known = self.answer.is_some() || self.unphased.is_some();
        if is_known && !defect!(EndsReplaceTheAnswer) {
            return;
        }
        // The bug: any message hides the answer in the report.
        if self.last.is_some() && defect!(CommentsHideTheAnswer) {
            return;
        }
        for item in &turn.items {
            if matches!(item, Item::AgentMessage { .. }) {
                self.main_item(item);
            }
        }
    }

    pub fn into_report(self, thread: String, turn: Option<String>, verdict: Verdict) -> Report {
        let message = self.answer.or(self.unphased);
        let answer = match self.kind {
            TurnKind::Task => message,
            TurnKind::Review => self.review.or(message),
        };
        Report {
            verdict,
            thread,
            turn,
            answer,
            last_message: self.last,
            error: self.error,
            files: self.files,
            commands: self.commands,
            left_out: self.left_out,
            is_cut: self.is_cut,
        }
    }

    /// Whether the lists have room for one more entry of this size. Counts it, too.
    fn has_room(&mut self, bytes: usize) -> bool {
        let bytes = bytes + size_of::<EditedFile>();
        // The bug: the lists have few entries, however short.
        let is_full = self.files.len() + self.commands.len() >= 8 && defect!(FewEntriesAreListed);
        let fits = self.listed + bytes <= self.share && !is_full;
        if fits {
            self.listed += bytes;
        } else {
            self.left_out += 1;
        }
        fits
    }

    fn cut(&mut self, text: &str) -> String {
        let end = text.floor_char_boundary(self.share);
        self.is_cut |= end < text.len() && !defect!(CutIsNotSaid);
        text[..end].to_owned()
    }
}
