//! The commands that users ask to end: by themselves, or with their shell sessions.

use std::collections::BTreeMap;

use super::{Question, Story};
use crate::history::{Answer, Time};
use crate::subjects::sse::notes::SseNote;
use crate::subjects::sse::operations::SseOperation;

impl<'a> Story<'a> {
    /// Returns the commands that users run in a shell session.
    pub fn commands_of(&self, session: Option<&'a str>) -> impl Iterator<Item = &Question<'a>> {
        self.questions.iter().filter(move |question| {
            let own = self.sessions.get(&question.call).copied();
            let runs = matches!(question.operation, SseOperation::Session { .. });
            runs && own.is_some() && own == session
        })
    }

    /// Whether the command that a session is for has ended for its user before a time. The user then
    /// deletes the session.
    pub fn is_left(&self, session: Option<&'a str>, before: Time) -> bool {
        self.commands_of(session).any(|run| {
            let notes = self.notes.get(&(run.host, run.record.as_str()));
            let mut notes = notes.into_iter().flatten();
            matches!(run.operation, SseOperation::Session { with: None, .. })
                && notes.any(|(noted, note)| *noted <= before && matches!(note, SseNote::Took(_)))
        })
    }

    /// Finds the command of each session that a user deletes.
    pub(super) fn name_deleted_sessions(&mut self) {
        for at in 0..self.questions.len() {
            let (before, rest) = self.questions.split_at_mut(at);
            let Some(question) = rest.first_mut() else { return };
            let SseOperation::DeleteSession { process: deleted } = &question.operation else {
                continue;
            };
            let is_of = |earlier: &&Question<'_>| match &earlier.operation {
                SseOperation::Session { process, .. } => {
                    process == deleted && earlier.host == question.host
                }
                _ => false,
            };
            let newest = before.iter().rev().find(is_of);
            question.record = newest.map(|newest| newest.record.clone()).unwrap_or_default();
        }
    }

    /// Finds the commands that users ask to end. A request that is refused asks for nothing.
    pub(super) fn name_interrupted(&mut self) {
        let is_refused =
            |question: &&Question<'_>| matches!(question.answer, Some((_, Answer::Refused(_))));
        let accepted = self.questions.iter().filter(|question| !is_refused(question));
        let interrupted = accepted.flat_map(|question| {
            let own = matches!(question.operation, SseOperation::Interrupt(_));
            let own = own.then(|| question.record.clone());
            let records = own.into_iter().chain(self.interrupted_in_session(question));
            records.map(|record| (record, question.asked))
        });
        let mut first = BTreeMap::new();
        for (record, asked) in interrupted {
            first.entry(record).or_insert(asked);
        }
        self.interrupts = first;
    }

    /// Returns the commands of a session that the interrupt of the session can end: those that were asked
    /// for before its answer, and had not ended before the request.
    fn interrupted_in_session(&self, question: &Question<'a>) -> Vec<String> {
        if !matches!(question.operation, SseOperation::InterruptSession { .. }) {
            return Vec::new();
        }
        let answered = question.answer.map_or(Time::from(self.cx.plan.horizon), |(at, _)| at);
        let can_run = |run: &&Question<'_>| {
            let process = self.processes.get(run.record.as_str());
            let ended = process.and_then(|process| process.ended);
            run.asked <= answered && ended.is_none_or(|(ended, _)| ended >= question.asked)
        };
        let session = self.sessions.get(&question.call).copied();
        let commands = self.commands_of(session).filter(can_run);
        commands.map(|run| run.record.clone()).collect()
    }

    /// Whether a user asked before a time to delete the shell session in which a command runs. A user names
    /// a session by a process that runs in it.
    pub fn deletes_session_of(&self, run: &Question<'_>, before: Time) -> bool {
        let session = self.sessions.get(&run.call).copied();
        let runs_in_it = |question: &Question<'_>, deleted: &str| {
            self.commands_of(session).any(|other| match &other.operation {
                SseOperation::Session { process, .. } => {
                    process == deleted && other.host == question.host && other.call < question.call
                }
                _ => false,
            })
        };
        self.questions.iter().any(|question| match &question.operation {
            SseOperation::DeleteSession { process } => {
                question.asked <= before && runs_in_it(question, process)
            }
            _ => false,
        })
    }
}
