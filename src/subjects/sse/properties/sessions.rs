//! Shell sessions: one command at a time, until they are deleted.

use std::time::Duration;

use super::refusals::MANY;
use crate::history::{Answer, EventKind, Time};
use crate::property::Violation;
use crate::property::violation::{fields, kinds};
use crate::subjects::sse::notes::{SeenRefusal, SseNote};
use crate::subjects::sse::operations::SseOperation;
use crate::subjects::sse::story::{Question, Story};

kinds! {
    pub(super) SESSIONS_RUN_ONE;
    BESIDE = "beside": "{subject:}the server launched the process while {other} ran in the same session {moment}";
    ALONE = "alone": "{subject:}the server refused the command because its session ran another one, but none ran since {asked} {moment}";
}

kinds! {
    pub(super) SESSIONS_ARE_BOUNDED;
    TOO_MANY = "too-many": "{subject:}it ran in a new shell session beside {others} others, but at most {most} may exist {moment}";
    NOT_FULL = "not-full": "{subject:}the server refused a new shell session, but at most {others} of {most} existed since {asked} {moment}";
}

kinds! {
    pub(super) DELETED_IS_GONE;
    AGAIN = "again": "{subject:}the server deleted {session}, although it had deleted it before {moment}";
    RUNS = "runs": "{subject:}the server launched the process in a shell session that it had deleted at {deleted} {moment}";
    KNOWN = "known": "{subject:}the server answered {seen} to a request for a shell session that it had deleted at {deleted} {moment}";
}

/// The time that the server may take to learn of the end of a process.
const LEARNS: Duration = Duration::from_secs(1);

pub(super) fn sessions_run_one(story: &Story<'_>) -> Vec<Violation> {
    let name = "sessions_run_one";
    let runs =
        |question: &&Question<'_>| matches!(question.operation, SseOperation::Session { .. });
    let beside = story.questions.iter().filter(runs).filter_map(|question| {
        let at = launched(story, question)?;
        let goes_on = |other: &Question<'_>| ended(story, other).is_none_or(|ended| ended > at);
        // A request may be long on its way, so the launches say which command was first, not the calls. Of two launches
        // in the same millisecond, the first command may have ended before the second one began. Two calls may have one
        // record, and so one launch, after a user has lost its count.
        let is_first = |other: &&Question<'_>| {
            let began = launched(story, other);
            let is_other = other.record != question.record;
            let at_once = || other.call < question.call && is_other && goes_on(question);
            began.is_some_and(|began| began < at || began == at && at_once())
        };
        let before = others(story, question).filter(is_first);
        let mut before = before.inspect(|_| story.cx.judges(name));
        let other = before.find(|other| goes_on(other))?.record.clone();
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
        if !story.is_prompt(at) {
            return None;
        }
        story.cx.judges(name);
        let is_alone = !others(story, question).any(may_run);
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
    let launched = story.processes.get(question.record.as_str())?.launched.first().copied();
    // A user whose disk lost the count may use the record of an earlier command again.
    launched.filter(|launched| *launched >= question.asked)
}

fn ended(story: &Story<'_>, question: &Question<'_>) -> Option<Time> {
    story.processes.get(question.record.as_str())?.ended.map(|(ended, _)| ended)
}

pub(super) fn deleted_is_gone(story: &Story<'_>) -> Vec<Violation> {
    let name = "deleted_is_gone";
    // The second deletion of each user. Only its success leaves a note.
    let own = story.questions.iter().filter_map(|run| deletes_own(story, run));
    own.for_each(|_| story.cx.judges(name));
    // A user asks twice at the end of its command.
    let again = story.cx.history.events.iter().filter_map(|event| {
        let EventKind::Observed { stream, saw } = &event.what else { return None };
        let Some(SseNote::DeletedAgain { session }) = saw.downcast_ref() else { return None };
        story.cx.judges(name);
        let data = fields! { session: session.clone() };
        Some(Violation::new(name, stream, event.at, &AGAIN, data))
    });
    let of_questions = story.questions.iter().filter_map(|question| {
        let session = *story.sessions.get(&question.call)?;
        let deleted = deleted(story, session).filter(|deleted| *deleted < question.asked)?;
        if let SseOperation::Session { .. } = question.operation
            && let Some(at) = launched(story, question)
        {
            story.cx.judges(name);
            let record = question.record.as_str();
            return Some(Violation::new(name, record, at, &RUNS, fields! { deleted }));
        }
        let (at, answer) = question.answer?;
        let (seen, knows_it) = match (answer, answer.refusal::<SeenRefusal>()) {
            (Answer::Queued(_), _) => ("a success".to_owned(), true),
            (_, Some(seen)) => (seen.to_string(), KNOWS_IT.contains(&seen.code.as_str())),
            _ => return None,
        };
        story.cx.judges(name);
        let data = fields! { seen, deleted };
        knows_it.then(|| Violation::new(name, question.call, at, &KNOWN, data))
    });
    again.chain(of_questions).collect()
}

/// The codes of refusals that only a session can have that is there.
const KNOWS_IT: &[&str] = &["NOT_RUNNING", "SESSION_BUSY"];

/// Returns when a user learned that the server had deleted a session.
fn deleted(story: &Story<'_>, session: &str) -> Option<Time> {
    let deletions = story.questions.iter().filter(|question| {
        let deletes = matches!(question.operation, SseOperation::DeleteSession { .. });
        deletes && story.sessions.get(&question.call).is_some_and(|own| *own == session)
    });
    let accepted = deletions.filter_map(|question| match question.answer? {
        (at, Answer::Queued(_)) => Some(at),
        _ => None,
    });
    accepted.min()
}

pub(super) fn sessions_are_bounded(story: &Story<'_>) -> Vec<Violation> {
    let name = "sessions_are_bounded";
    // A puppet may create sessions, and delete those of others.
    if !story.cx.is_honest() {
        return Vec::new();
    }
    let most = story.server.sessions as u64;
    let creates = |question: &&Question<'_>| {
        matches!(question.operation, SseOperation::Session { with: None, .. })
    };
    let session = |question: &Question<'_>| story.sessions.get(&question.call).copied();
    let too_many = story.questions.iter().filter(creates).filter_map(|question| {
        let at = launched(story, question)?;
        let exists = |other: &&Question<'_>| {
            let began = launched(story, other).filter(|began| *began < at);
            let lived = began.is_some_and(|began| story.server_lived(began, at));
            let may_be_gone =
                story.is_left(session(other), at) || story.deletes_session_of(other, at);
            other.call != question.call && lived && !may_be_gone
        };
        let others = story.questions.iter().filter(creates).filter(exists).count() as u64;
        // At the horizon, users delete their sessions.
        let is_judged = at < Time::from(story.cx.plan.horizon);
        // With fewer commands, no server can have too many sessions.
        let all = story.questions.iter().filter(creates).count() as u64;
        if is_judged && all > most {
            story.cx.judges(name);
        }
        let record = question.record.as_str();
        (is_judged && others >= most)
            .then(|| Violation::new(name, record, at, &TOO_MANY, fields! { others, most }))
    });
    let refused = story.questions.iter().filter(creates).filter_map(|question| {
        let at = refused_creation(story, question)?;
        story.cx.judges(name);
        let asked = question.asked;
        let may_exist = |other: &&Question<'_>| {
            let gone = session(other).and_then(|session| gone(story, session));
            let was_there = gone.is_none_or(|gone| gone >= asked);
            let is_other = other.call != question.call && other.asked <= at;
            is_other && was_there && refused_creation(story, other).is_none()
        };
        let others = story.questions.iter().filter(creates).filter(may_exist).count() as u64;
        let data = fields! { others, most, asked };
        (others < most).then(|| Violation::new(name, question.call, at, &NOT_FULL, data))
    });
    too_many.chain(refused).collect()
}

/// Returns when the server refused to create a session for a command, for lack of room. The user names the
/// session once it has one.
fn refused_creation(story: &Story<'_>, question: &Question<'_>) -> Option<Time> {
    let (at, answer) = question.answer?;
    let seen = answer.refusal::<SeenRefusal>()?;
    let has_none = !story.sessions.contains_key(&question.call);
    (has_none && seen.code == "SERVICE_UNAVAILABLE").then_some(at)
}

/// The time in which the user of a command that has ended deletes its session, without a fault.
const DELETES: Duration = Duration::from_secs(1);

/// Returns a time at which the server has certainly deleted a session.
fn gone<'a>(story: &Story<'a>, session: &'a str) -> Option<Time> {
    let own = story.commands_of(Some(session)).find_map(|run| deletes_own(story, run));
    own.into_iter().chain(deleted(story, session)).min()
}

/// Returns a time at which the user of a command has certainly deleted the session that it had for it.
fn deletes_own(story: &Story<'_>, run: &Question<'_>) -> Option<Time> {
    let notes = story.notes.get(&(run.host, run.record.as_str()))?;
    let is_own = matches!(run.operation, SseOperation::Session { with: None, .. });
    let (ended, _) = notes.iter().find(|(_, note)| matches!(note, SseNote::Took(_)))?;
    let by = *ended + DELETES;
    let is_calm = story.first_fault.is_none_or(|fault| fault > by);
    // A server whose connections are all in use does not take the deletion.
    (is_own && is_calm && story.server.connections >= MANY).then_some(by)
}
