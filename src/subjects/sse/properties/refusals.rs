//! Refusals of the server.

use std::time::Duration;

use super::asked::{is_crowded, process};
use crate::history::{Answer, ConnIndex, EventKind, Time};
use crate::property::violation::{fields, kinds};
use crate::property::{Violation, ViolationFields, ViolationKind};
use crate::schedule::MilestoneValue;
use crate::subjects::judging::{judged, peers_may_lie};
use crate::subjects::sse::notes::{SeenRefusal, SseFailure, SseNote};
use crate::subjects::sse::operations::SseOperation;
use crate::subjects::sse::story::{Question, Story};
use crate::subjects::sse::tables::is_execd;
use crate::subjects::sse::wrong::WrongRequest;
use reknit_sse::client::Failure;

kinds! {
    pub(super) REFUSALS_ARE_TRUE;
    ACCEPTED = "accepted": "{subject:}the server accepted a request that it must refuse as {expected} {moment}";
    OTHER_REASON = "other-reason": "{subject:}the server refused a request as {seen}, but must refuse it as {expected} {moment}";
    RUNS = "runs": "{subject:}the server refused to interrupt the command, but its process ran {moment}";
    WAS_OVER = "was-over": "{subject:}the server accepted to interrupt the command, but its process had ended at {ended} {moment}";
    IS_THERE = "is-there": "{subject:}the server did not know the shell session, but nothing had deleted it {moment}";
    RUNS_NOTHING = "runs-nothing": "{subject:}the server accepted to interrupt the shell session, but its last process had ended at {ended} {moment}";
    IS_BACKGROUND = "is-background": "{subject:}the server refused the logs of a command as one in the foreground, but it runs in the background {moment}";
    NEW_START = "new-start": "{subject:}the server refused a start that it had not seen before, although it ran on since {asked} {moment}";
    DID_NOT_RUN = "did-not-run": "{subject:}the server did not know the command of a start, but each attempt before had no connection or found a full server {moment}";
    AGE = "age": "{subject:}the server asked for the age of a start, but each attempt before had no connection or found a full server {moment}";
    UNEXPECTED = "unexpected": "{subject:}the server refused the request: {why} {moment}";
}

/// The time that the server may take to learn of the start or of the end of a process.
const LEARNS: Duration = Duration::from_secs(1);

pub(super) fn refusals_are_true(story: &Story<'_>) -> Vec<Violation> {
    if is_execd(&story.cx.plan.defects) {
        return Vec::new();
    }
    let of_questions = story.questions.iter().filter_map(|question| untrue(story, question));
    of_questions.chain(refused_streams(story)).chain(asked_ages(story)).collect()
}

/// Returns the streams that failed because of a refusal for which there is no reason: also because of a later
/// attempt of their own follower, which makes one attempt at a time.
fn refused_streams(story: &Story<'_>) -> impl Iterator<Item = Violation> {
    let peers_may_lie = peers_may_lie(story.cx);
    let failures = story.failures.iter();
    let failures = failures.map(|(at, _, of, why)| (*at, *of, why.downcast_ref::<SseFailure>()));
    // After a gap, the history has only notes of what the user receives.
    let noted = story.notes.iter().flat_map(|((_, of), notes)| {
        notes.iter().filter_map(|(at, note)| match note {
            SseNote::Failed(why) => Some((*at, *of, Some(why))),
            _ => None,
        })
    });
    let all = failures.chain(noted).filter(move |_| !peers_may_lie);
    all.filter_map(move |(at, of, why)| {
        let Failure::Refused(refused) = &why?.0 else { return None };
        // `conflict_is_true` judges another reader.
        let is_known = refused.code == "STREAM_ACTIVE" || refused.code.starts_with("CURSOR_");
        let data = fields! { why: refused.to_string() };
        (!is_known).then(|| {
            story.cx.judges("refusals_are_true");
            Violation::new("refusals_are_true", of, at, &UNEXPECTED, data)
        })
    })
}

/// Whether the product's client sends the request of a question, as its only one.
fn is_single(question: &Question<'_>) -> bool {
    matches!(
        question.operation,
        SseOperation::Status(_)
            | SseOperation::Interrupt(_)
            | SseOperation::InterruptSession { .. }
            | SseOperation::Logs { .. }
    )
}

fn untrue(story: &Story<'_>, question: &Question<'_>) -> Option<Violation> {
    let (at, answer) = question.answer?;
    let violation =
        |kind, data| Some(Violation::new("refusals_are_true", question.call, at, kind, data));
    let judges = || story.cx.judges("refusals_are_true");
    let refusal = answer.refusal::<SeenRefusal>();
    // The server names each of its refusals. If the connection breaks before the name, the answer is lost, and the
    // client says so.
    if let Some(seen) = refusal
        && is_single(question)
        && !peers_may_lie(story.cx)
    {
        judges();
        if seen.code.is_empty() {
            return violation(&UNEXPECTED, fields! { why: seen.to_string() });
        }
    }
    match &question.operation {
        // A puppet follows its script, whatever it is asked.
        SseOperation::Wrong { .. } if peers_may_lie(story.cx) => None,
        SseOperation::Wrong { request, .. } => {
            let (status, code) = expected(story, question, *request, at)?;
            let expected = format!("{status} {code}");
            match refusal {
                Some(seen) if (seen.status, seen.code.as_str()) == (status, code) => {
                    judges();
                    None
                }
                Some(seen) if is_too_slow(story, question, *request, at, seen) => None,
                Some(seen) => {
                    judges();
                    violation(&OTHER_REASON, fields! { seen: seen.to_string(), expected })
                }
                None if answer.is_refusal() => None,
                None => {
                    judges();
                    violation(&ACCEPTED, fields! { expected })
                }
            }
        }
        SseOperation::Interrupt(_) => {
            let process = process(story, question)?;
            match (refusal, process.ended) {
                (Some(seen), ended) if seen.code == "NOT_RUNNING" => {
                    judges();
                    let ran = ended.is_none_or(|(ended, _)| ended > at);
                    ran.then(|| violation(&RUNS, fields! {})).flatten()
                }
                (None, Some((ended, _))) if story.is_prompt(at) => {
                    judges();
                    // The server reads the last output before it counts a command as ended.
                    let known = story.waits_until(&question.record, ended) + LEARNS;
                    let was_over = known < question.asked;
                    was_over.then(|| violation(&WAS_OVER, fields! { ended })).flatten()
                }
                _ => None,
            }
        }
        SseOperation::InterruptSession { .. } => {
            let (kind, data) = untrue_of_session(story, question, at, refusal)?;
            violation(kind, data)
        }
        SseOperation::Logs { .. } => {
            let is_refused = refusal.is_some_and(|seen| seen.code == "INVALID_REQUEST_BODY");
            let is_background = story.questions.iter().any(|other| {
                let is_run = matches!(other.operation, SseOperation::Run { background: true, .. });
                other.record == question.record && is_run && story.was_launched(&other.record)
            });
            if is_refused {
                judges();
            }
            (is_refused && is_background).then(|| violation(&IS_BACKGROUND, fields! {})).flatten()
        }
        SseOperation::Run { .. } if is_refused_start(story, question, at, answer) => {
            judges();
            let asked = question.asked;
            // The server counts from its question for the age, which may be as long on its way as an attempt.
            let from = asked.before(story.client.open_timeout);
            let begun = story.server_starts.iter().any(|start| (from..=at).contains(start));
            let is_untrue = story.server_lived(asked, at) && !begun;
            if is_untrue {
                return violation(&NEW_START, fields! { asked });
            }
            let is_new = !peers_may_lie(story.cx) && found_no_room(story, question.host, asked, at);
            is_new.then(|| violation(&DID_NOT_RUN, fields! {})).flatten()
        }
        SseOperation::Run { .. } | SseOperation::Follow { .. } => {
            let failure = answer.refusal::<SseFailure>()?;
            let Failure::Refused(refused) = &failure.0 else { return None };
            // The user sends nothing wrong, and `conflict_is_true` judges another reader. A later attempt of the
            // same follower is none: each follower makes one at a time.
            let is_conflict = refused.status == 409 && refused.code != "OPERATION_ID_IN_USE";
            let is_reader = refused.code == "STREAM_ACTIVE" || peers_may_lie(story.cx);
            let is_known = is_conflict && is_reader || refused.code.starts_with("CURSOR_");
            if is_known {
                return None;
            }
            judges();
            violation(&UNEXPECTED, fields! { why: refused.to_string() })
        }
        _ => None,
    }
}

/// Whether the server refused a wrong request because a fault held up its body. The server reads the body
/// of each request that has one before it looks for other mistakes, except of one with a malformed owner.
fn is_too_slow(
    story: &Story<'_>,
    question: &Question<'_>,
    request: WrongRequest,
    at: Time,
    seen: &SeenRefusal,
) -> bool {
    let reads = !request.row().body.is_empty() && request != WrongRequest::BadOwner;
    let waited = at.since(question.asked) >= story.server.body_deadline;
    let is_held_up = story.first_fault.is_some_and(|fault| fault <= at);
    seen.code == "BODY_TOO_SLOW" && reads && waited && is_held_up
}

/// Judges the answer to the interrupt of a shell session: it exists until it is deleted, and runs a command
/// or none.
fn untrue_of_session(
    story: &Story<'_>,
    question: &Question<'_>,
    at: Time,
    refusal: Option<&SeenRefusal>,
) -> Option<(&'static ViolationKind, ViolationFields)> {
    if !story.server_lived(Time::ZERO, at) {
        return None;
    }
    let judges = || story.cx.judges("refusals_are_true");
    let session = story.sessions.get(&question.call).copied();
    let commands: Vec<_> = story.commands_of(session).filter(|run| run.asked <= at).collect();
    let process = |run: &Question<'_>| story.processes.get(run.record.as_str());
    match refusal {
        Some(seen) if seen.code == "COMMAND_NOT_FOUND" => {
            let deletes = |other: &Question<'_>| {
                let is_deletion = matches!(other.operation, SseOperation::DeleteSession { .. });
                is_deletion && other.host == question.host && other.asked <= at
            };
            if commands.is_empty() {
                return None;
            }
            judges();
            let is_there = !story.is_left(session, at) && !story.questions.iter().any(deletes);
            is_there.then(|| (&IS_THERE, fields! {}))
        }
        Some(seen) if seen.code == "NOT_RUNNING" => {
            judges();
            let runs = commands.iter().filter_map(|run| process(run)).any(|process| {
                let began = process.launched.first().is_some_and(|at| *at <= question.asked);
                began && process.ended.is_none_or(|(ended, _)| ended > at)
            });
            runs.then(|| (&RUNS, fields! {}))
        }
        Some(_) => None,
        None => {
            let known = |run: &&Question<'_>| {
                let (ended, _) = process(run)?.ended?;
                Some((story.waits_until(&run.record, ended) + LEARNS, ended))
            };
            let ends = commands.iter().map(known).collect::<Option<Vec<_>>>()?;
            let (known, ended) = ends.into_iter().max()?;
            if !story.is_prompt(at) {
                return None;
            }
            judges();
            (known < question.asked).then(|| (&RUNS_NOTHING, fields! { ended }))
        }
    }
}

/// Whether a start failed because the server did not know the command.
fn is_refused_start(story: &Story<'_>, question: &Question<'_>, at: Time, answer: &Answer) -> bool {
    let is_unknown =
        |failure: &SseFailure| matches!(failure.0, Failure::NotFound | Failure::AnotherRun);
    let notes = story.notes.get(&(question.host, question.record.as_str()));
    let mut failed = notes.into_iter().flatten().filter(|(noted, _)| *noted == at);
    answer.refusal::<SseFailure>().is_some_and(is_unknown)
        || *answer == Answer::GivenUp
            && failed.any(|(_, note)| matches!(note, SseNote::Failed(why) if is_unknown(why)))
}

/// Whether each attempt of the followers of a host in a span had no connection, or brought the whole refusal of a server
/// without room. Then none of their starts from this span can have run, and their clients know that: to each server,
/// such a start is new, also after a restart. A refusal whose end is lost is another loss, and so is an attempt without
/// an answer. A client has no name in its losses, so those of all followers of its host count.
fn found_no_room(story: &Story<'_>, on: &str, from: Time, until: Time) -> bool {
    let own = story.losses.iter().filter(|(_, host, _)| *host == on);
    let mut losses = own.filter(|(lost, ..)| (from..=until).contains(lost)).peekable();
    let has_one = losses.peek().is_some(); // a puppet has none
    has_one && losses.all(|(.., why)| *why == UNCONNECTED || why.starts_with(FULL))
}

/// The loss of an attempt that had no connection.
const UNCONNECTED: &str = "no connection";

/// How the loss begins of an attempt that a full server refused.
const FULL: &str = "refused: 503 SERVICE_UNAVAILABLE";

/// Returns the questions for the age of a start to a host none of whose starts can have run: only a start that may have
/// run has an age. A loss comes before the next attempt, and a host that died has lost its followers with their starts.
fn asked_ages(story: &Story<'_>) -> impl Iterator<Item = Violation> {
    let peers_may_lie = peers_may_lie(story.cx);
    if !peers_may_lie {
        // The server would have asked at least then.
        for (on, attempts) in &story.attempts {
            let new = attempts.iter().filter(|at| found_no_room(story, on, Time::ZERO, **at));
            new.for_each(|_| story.cx.judges("refusals_are_true"));
        }
    }
    let asked = judged(story.cx).filter(move |_| !peers_may_lie).filter_map(move |event| {
        let EventKind::Milestone { name: "sse.server.refused", fields } = &event.what else {
            return None;
        };
        let asks = MilestoneValue::text(fields, "code") == Some("START_TOO_EARLY");
        let conn = ConnIndex::from_fields(fields).filter(|_| asks)?;
        // Only a follower repeats a start.
        let conn = story.cx.history.conns.get(conn.0).filter(|conn| !conn.is_labelled())?;
        Some((event.at, conn.client.as_str()))
    });
    let unasked = asked.filter(move |(at, on)| found_no_room(story, on, Time::ZERO, *at));
    unasked.map(|(at, on)| Violation::new("refusals_are_true", on, at, &AGE, fields! {}))
}

/// Returns the refusal of a wrong request, if the run determines it.
fn expected(
    story: &Story<'_>,
    question: &Question<'_>,
    request: WrongRequest,
    at: Time,
) -> Option<(u16, &'static str)> {
    let row = request.row();
    if request != WrongRequest::UsedId {
        return Some(row.refusal);
    }
    let process = process(story, question)?;
    let launched = *process.launched.first()?;
    let is_kept = process.ended.is_none_or(|(ended, _)| {
        at.since(ended) + LEARNS < story.server.ended_retention && !is_crowded(story, at)
    });
    (launched + LEARNS <= question.asked && is_kept).then_some(row.refusal)
}

/// A server with fewer connections may close one that has asked nothing yet.
pub(super) const MANY: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wrong_request_has_a_refusal() {
        for request in WrongRequest::ALL {
            assert!(request.row().refusal.0 >= 400, "{request:?}");
        }
    }
}
