//! The times after which a client gives up: a follower not too early, a connection and a request not too late.

use std::time::Duration;

use super::followers::reads_at_once;
use crate::history::{Answer, Connection, Data, Time};
use crate::property::Violation;
use crate::property::violation::{fields, kinds};
use crate::subjects::sse::notes::SseFailure;
use crate::subjects::sse::operations::SseOperation;
use crate::subjects::sse::story::{Question, Story};
use reknit_sse::client::Failure;

kinds! {
    pub(super) DEADLINES_HOLD;
    GAVE_UP = "gave-up": "{subject:}the follower on {on} gave up for lack of progress, but its budget of {budget} began at {since} or later {moment}";
    SILENT = "silent": "{subject:}the client still had the connection, although no byte came since {since} {moment}";
    REQUEST = "request": "{subject:}the user still waited for the answer, but a request has only {most} {moment}";
}

/// How exactly a client keeps its times.
const EXACT: Duration = Duration::from_millis(50);

pub(super) fn deadlines_hold(story: &Story<'_>) -> Vec<Violation> {
    let conns = story.cx.history.conns.iter();
    let silent = conns.filter_map(|conn| silent(story, conn));
    let requests = story.questions.iter().filter_map(|question| request(story, question));
    gave_up(story).into_iter().chain(silent).chain(requests).collect()
}

/// Judges a single request: it has the time of one attempt.
fn request(story: &Story<'_>, question: &Question<'_>) -> Option<Violation> {
    // The product's client sends these, each as one request.
    let is_single = matches!(
        question.operation,
        SseOperation::Status(_)
            | SseOperation::Interrupt(_)
            | SseOperation::InterruptSession { .. }
    );
    let most = story.client.open_timeout;
    let bound = question.asked + most + EXACT;
    let answered = question.answer.map(|(at, _)| at);
    let over = answered.or(question.failure.map(|(at, _)| at));
    let is_late = over.is_none_or(|over| over > bound);
    let is_judged = bound < Time::from(story.cx.plan.horizon) && story.is_prompt(bound);
    if !is_single || !is_judged {
        return None;
    }
    story.cx.judges("deadlines_hold");
    let data = fields! { most: Time::from(most) };
    is_late.then(|| Violation::new("deadlines_hold", question.call, bound, &REQUEST, data))
}

/// Judges followers that failed for lack of progress: each has tried for its whole budget.
fn gave_up(story: &Story<'_>) -> Vec<Violation> {
    let of_streams = story.failures.iter().filter_map(|(at, on, of, why)| {
        let question = story.questions.iter().rfind(|question| {
            let is_own = question.host == *on && question.record == *of;
            is_own && question.follows() && question.asked < *at
        });
        Some((*at, question?, *why))
    });
    let followers = story.questions.iter().filter(|question| question.follows());
    let of_calls = followers.filter_map(|question| {
        let refused = match question.answer {
            Some((at, Answer::Refused(why))) => Some((at, why)),
            _ => None,
        };
        let (at, why) = question.failure.or(refused)?;
        Some((at, question, why))
    });
    let all = of_streams.chain(of_calls).filter(|(.., why)| has_no_progress(why));
    let early = all.filter_map(|(at, question, _)| {
        story.cx.judges("deadlines_hold");
        let (budget, since) = (story.client.budget, budget_begins(story, question, at));
        let data = fields! { on: question.host, budget: Time::from(budget), since };
        let record = question.record.as_str();
        (at + EXACT < since + budget)
            .then(|| Violation::new("deadlines_hold", record, at, &GAVE_UP, data))
    });
    early.collect()
}

/// Whether a follower failed because its budget was over.
fn has_no_progress(why: &Data) -> bool {
    let failure = why.downcast_ref::<SseFailure>();
    failure.is_some_and(|failure| matches!(failure.0, Failure::NoProgress(_)))
}

/// Returns the earliest time at which the budget of a follower that failed at a time can have begun: its
/// first attempt, or the loss of the connection over which its user received something last. With signs of
/// life after that, the budget began later.
fn budget_begins(story: &Story<'_>, question: &Question<'_>, failed: Time) -> Time {
    let asked = question.asked;
    // The connections of several followers have the same name. A client that is held may notice a loss before
    // it closes its connection.
    if story.only_follower(question.host, failed).is_none() || !story.is_prompt(failed) {
        return asked;
    }
    let Some(received) = story.last_delivery(question.host, &question.record, failed) else {
        return asked;
    };
    // A connection that is opened in the same millisecond may follow the loss.
    let conns = story.followers_conns(question.host).filter(|conn| conn.opened < received);
    conns.last().and_then(|conn| conn.over.0).map_or(asked, |lost| lost.max(asked))
}

/// Judges the connection of a follower: if it brings no byte, the client gives it up in time.
fn silent(story: &Story<'_>, conn: &Connection) -> Option<Violation> {
    let opens_by = conn.opened + story.client.open_timeout;
    let due = match conn.received.0 {
        // A part of an answer does not prolong the attempt.
        Some(heard) => opens_by.max(heard + story.client.silence),
        None => opens_by,
    };
    let (bound, on) = (due + EXACT, conn.client.as_str());
    // Other connections were not silent for so long.
    let is_silent = conn.over.0.is_none_or(|over| over + EXACT >= due);
    if !is_silent || bound >= Time::from(story.cx.plan.horizon) || conn.is_labelled() {
        return None;
    }
    let mut questions = story.questions.iter();
    let has_follower = questions.any(|question| question.host == on && question.follows());
    if !has_follower || !story.is_prompt(bound) || !reads_at_once(story, on) {
        return None;
    }
    story.cx.judges("deadlines_hold");
    let is_late = conn.over.0.is_none_or(|over| over > bound);
    let data = fields! { since: conn.received.0.unwrap_or(conn.opened) };
    let name = conn.name.as_str();
    is_late.then(|| Violation::new("deadlines_hold", name, bound, &SILENT, data))
}
