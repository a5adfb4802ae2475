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

    /// Finds the command that a user means who interrupts or deletes a session: the newest one that runs
    /// there. A user may have several sessions for one process, so the path decides.
    pub(super) fn name_in_sessions(&mut self) {
        let horizon = Time::from(self.cx.plan.horizon);
        let of = |question: &Question<'a>| {
            let until = match question.operation {
                SseOperation::InterruptSession { .. } => question.asked,
                // A launch may take long, and nothing else begins in a deleted session.
                SseOperation::DeleteSession { .. } => horizon,
                _ => return None,
            };
            let session = self.sessions.get(&question.call).copied();
            let launched = self.commands_of(session).filter_map(|run| {
                let launched = *self.processes.get(run.record.as_str())?.launched.first()?;
                (launched <= until).then(|| (launched, run.record.clone()))
            });
            let newest = launched.max().map(|(_, record)| record);
            Some((question.call, newest.unwrap_or_default()))
        };
        let named: Vec<_> = self.questions.iter().filter_map(of).collect();
        for (call, record) in named {
            if let Some(question) = self.question(call) {
                question.record = record;
            }
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

    /// Whether a user asked before a time to delete the shell session in which a command runs.
    pub fn deletes_session_of(&self, run: &Question<'_>, before: Time) -> bool {
        let Some(session) = self.sessions.get(&run.call) else { return false };
        self.questions.iter().any(|question| {
            let deletes = matches!(question.operation, SseOperation::DeleteSession { .. });
            let is_own = self.sessions.get(&question.call) == Some(session);
            deletes && is_own && question.asked <= before
        })
    }
}
