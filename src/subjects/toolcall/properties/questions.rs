//! `questions_are_answered`: a question of an agent to a window that can answer it is answered.

use std::collections::BTreeMap;
use std::time::Duration;

use super::facts::{MS, text};
use super::room::StatesAsked;
use super::story::{Story, window};
use crate::history::{ConnIndex, EventKind, Time};
use crate::property::violation::{fields, kinds};
use crate::property::{Violation, ViolationFields, ViolationKind};
use crate::subjects::judging::{judged, peers_may_lie};
use crate::subjects::toolcall::notes::{Became, By, OfCall, Question};
use reknit_toolcall::host::Unanswered;

kinds! {
    pub(super) QUESTIONS_ARE_ANSWERED;
    UNANSWERED = "unanswered": "{subject:}the question to {client} of {asked} had no answer ({why}), although the newest connection of the client could carry it {moment}";
    OLDER = "older": "{subject:}the host asked {client} over a connection that it accepted at {asked}, although it accepted the newest one at {newest} {moment}";
    EARLY = "early": "{subject:}the question to {client} of {asked} was answered, although its window needs {takes} for the answer {moment}";
    OTHER_ANSWER = "other-answer": "{subject:}the question to {client} of {asked} was answered with {answer} {moment}";
}

/// The answer of a window, as JSON.
const ANSWER: &str = r#""text""#;

/// The answer of a window to a question that it does not know.
const REFUSAL: &str = "this client does not answer requests";

/// See the module.
pub(super) fn questions_are_answered(story: &Story<'_>) -> Vec<Violation> {
    if peers_may_lie(story.cx) || story.has_no_window() {
        return Vec::new();
    }
    let mut questions: BTreeMap<(&str, &str), (Time, &Question)> = BTreeMap::new();
    let mut found = Vec::new();
    for event in judged(story.cx) {
        if let EventKind::Milestone { name: "toolcall.host.asked", fields } = &event.what {
            let conn = ConnIndex::from_fields(fields).map(|ConnIndex(conn)| conn);
            // A client with one connection leaves the host no choice.
            let mut own = story.of_client(text(fields, "client"), event.at.before(MS));
            if own.any(|other| other.over > event.at && conn.is_some_and(|it| it != other.conn)) {
                story.cx.judges("questions_are_answered");
            }
            let older = conn.and_then(|conn| story.newer_than(conn, event.at));
            found.extend(older.map(|(asked, newest)| {
                let client = text(fields, "client");
                let data = fields! { client, asked, newest };
                let host = event.host.as_ref();
                Violation::new("questions_are_answered", host, event.at, &OLDER, data)
            }));
        }
        let EventKind::Observed { stream, saw } = &event.what else { continue };
        match saw.downcast_ref() {
            Some(OfCall { by: By::Agent, call, what: Became::Asks(question) }) => {
                questions.insert((&stream.0, call), (event.at, question));
            }
            Some(OfCall { by: By::Agent, call, what: Became::Hears(answer) }) => {
                let Some((asked, question)) = questions.remove(&(&*stream.0, call.as_str())) else {
                    continue;
                };
                let (at, turn) = (event.at, &*stream.0);
                let Question { client, is_unknown, .. } = question;
                let untrue = match answer {
                    Ok(answer) if answer == ANSWER && !is_unknown => {
                        early_answer(story, question, (asked, at))
                    }
                    Err(why) if why.contains(REFUSAL) && *is_unknown => None,
                    Ok(answer) => Some((&OTHER_ANSWER, fields! { client, asked, answer })),
                    Err(why) if can_answer(story, question, (asked, at), why) => {
                        Some((&UNANSWERED, fields! { client, asked, why }))
                    }
                    Err(_) => continue,
                };
                story.cx.judges("questions_are_answered");
                found.extend(untrue.map(|(kind, data)| {
                    Violation::new("questions_are_answered", turn, at, kind, data)
                }));
            }
            _ => {}
        }
    }
    found.truncate(5);
    found
}

/// Detects an answer that came before its window can have given it: it is the answer to another
/// question. A second connection answers at once, and so may a puppet.
fn early_answer(
    story: &Story<'_>,
    question: &Question,
    (asked, at): (Time, Time),
) -> Option<(&'static ViolationKind, ViolationFields)> {
    let takes = Duration::from_millis(question.takes);
    let mut own = story.of_client(&question.client, at);
    let is_beside = own.any(|attached| attached.is_second() && attached.over >= asked);
    let is_early = at < asked + takes && !is_beside && story.cx.is_honest();
    is_early.then(|| (&EARLY, fields! { client: &question.client, asked, takes }))
}

/// Returns whether the newest connection of a client lived while a question had no answer. If the
/// question failed at its deadline, the window must also need less time, without faults.
fn can_answer(story: &Story<'_>, question: &Question, (from, to): (Time, Time), why: &str) -> bool {
    let newest = story.of_client(&question.client, from).max_by_key(|attached| attached.at);
    let is_live = newest.is_some_and(|newest| {
        newest.at < from.before(MS) && newest.is_live(from) && newest.is_live(to)
    });
    is_live && (why != Unanswered::Late.to_string() || is_quick(story, question, from, to))
}

/// Returns whether a window can answer a question before its deadline. The states that the window
/// asked for before the question arrive first.
fn is_quick(story: &Story<'_>, question: &Question, from: Time, to: Time) -> bool {
    let host = window(&question.client);
    let longest = Duration::from_millis(question.takes) + story.moment();
    let arrives = StatesAsked::of(story, host).until(from).max(from);
    arrives + longest < from + story.host_limits.reverse_deadline
        && story.is_calm(host, from.before(story.moment()), to)
}
