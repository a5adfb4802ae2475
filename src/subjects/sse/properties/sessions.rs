//! Shell sessions: one command at a time.

use std::time::Duration;

use crate::history::{Answer, Time};
use crate::property::Violation;
use crate::property::violation::{fields, kinds};
use crate::subjects::sse::notes::SeenRefusal;
use crate::subjects::sse::operations::SseOperation;
use crate::subjects::sse::story::{Question, Story};

kinds! {
    pub(super) SESSIONS_RUN_ONE;
    BESIDE = "beside": "{subject:}the server launched the process while {other} ran in the same session {moment}";
    ALONE = "alone": "{subject:}the server refused the command because its session ran another one, but none ran since {asked} {moment}";
}

/// The time that the server may take to learn of the end of a process.
const LEARNS: Duration = Duration::from_secs(1);

pub(super) fn sessions_run_one(story: &Story<'_>) -> Vec<Violation> {
    let name = "sessions_run_one";
    let runs =
        |question: &&Question<'_>| matches!(question.operation, SseOperation::Session { .. });
    let beside = story.questions.iter().filter(runs).filter_map(|question| {
        let at = launched(story, question)?;
        let runs = |other: &&Question<'_>| {
            let is_first = launched(story, other).is_some_and(|other| other <= at);
            let goes_on = ended(story, other).is_none_or(|ended| ended > at);
            other.call < question.call && is_first && goes_on
        };
        let other = others(story, question).find(runs)?.record.clone();
        Some(Violation::new(name, question.record.as_str(), at, &BESIDE, fields! { other }))
    });
    let alone = story.questions.iter().filter_map(|question| {
        let (at, answer) = question.answer?;
        answer.refusal::<SeenRefusal>().filter(|seen| seen.code == "SESSION_BUSY")?;
        let asked = question.asked;
        let may_run = |other: &Question<'_>| {
            let is_refused = matches!(other.answer, Some((_, Answer::Refused(_))));
            let known = ended(story, other).map(|ended| story.waits_until(&other.record, ended));
            !is_refused && other.asked <= at && known.is_none_or(|known| known + LEARNS >= asked)
        };
        let is_alone = !others(story, question).any(may_run) && story.is_prompt(at);
        is_alone.then(|| Violation::new(name, question.call, at, &ALONE, fields! { asked }))
    });
    beside.chain(alone).collect()
}

/// Returns the other commands of the session in which a command runs.
fn others<'s>(
    story: &'s Story<'_>,
    question: &'s Question<'_>,
) -> impl Iterator<Item = &'s Question<'s>> {
    let session = story.sessions.get(&question.call).copied();
    story.commands_of(session).filter(move |other| other.call != question.call)
}

fn launched(story: &Story<'_>, question: &Question<'_>) -> Option<Time> {
    story.processes.get(question.record.as_str())?.launched.first().copied()
}

fn ended(story: &Story<'_>, question: &Question<'_>) -> Option<Time> {
    story.processes.get(question.record.as_str())?.ended.map(|(ended, _)| ended)
}
