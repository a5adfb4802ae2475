//! `questions_are_answered`: a question of an agent to a window that can answer it is answered.

use std::collections::BTreeMap;

use super::story::{MS, Story, window};
use crate::history::{EventKind, Time};
use crate::property::Violation;
use crate::property::violation::{fields, kinds};
use crate::subjects::judging::{has_puppet, judged};
use crate::subjects::records;
use crate::subjects::toolcall::notes::{Became, By, OfCall};
use crate::subjects::toolcall::setup::{self, Scene};
use reknit_toolcall::host::Unanswered;

kinds! {
    pub(super) QUESTIONS_ARE_ANSWERED;
    UNANSWERED = "unanswered": "{subject:}the question to {client} of {asked} had no answer ({why}), although the newest connection of the client could carry it {moment}";
    OTHER_ANSWER = "other-answer": "{subject:}the question to {client} of {asked} was answered with {answer} {moment}";
}

/// The answer of a window, as JSON.
const ANSWER: &str = r#""text""#;

/// What a window answers to a question that it does not know.
const REFUSAL: &str = "this client does not answer requests";

/// See the module.
pub(super) fn questions_are_answered(story: &Story<'_>) -> Vec<Violation> {
    if has_puppet(story.cx) {
        return Vec::new();
    }
    let mut questions: BTreeMap<(&str, &str), (Time, &str)> = BTreeMap::new();
    let mut found = Vec::new();
    for event in judged(story.cx) {
        let EventKind::Observed { stream, saw } = &event.what else { continue };
        match saw.downcast_ref() {
            Some(OfCall { by: By::Agent, call, what: Became::Asks(client) }) => {
                questions.insert((&stream.0, call), (event.at, client));
            }
            Some(OfCall { by: By::Agent, call, what: Became::Hears(answer) }) => {
                let Some((asked, client)) = questions.remove(&(&*stream.0, call.as_str())) else {
                    continue;
                };
                let (at, turn) = (event.at, &*stream.0);
                let untrue = match answer {
                    Ok(answer) if answer == ANSWER && !is_unknown(story, turn) => None,
                    Err(why) if why.contains(REFUSAL) && is_unknown(story, turn) => None,
                    Ok(answer) => Some((&OTHER_ANSWER, fields! { client, asked, answer })),
                    Err(why) => can_answer(story, turn, client, (asked, at), why)
                        .then(|| (&UNANSWERED, fields! { client, asked, why })),
                };
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

/// Returns whether the newest connection of a client lived while a question had no answer. If the
/// question failed at its deadline, the window must also need less time, without faults.
fn can_answer(
    story: &Story<'_>,
    turn: &str,
    client: &str,
    (from, to): (Time, Time),
    why: &str,
) -> bool {
    let newest = story.of_client(client, from).max_by_key(|attached| attached.at);
    let is_live = newest.is_some_and(|newest| {
        newest.at < from.before(MS) && newest.is_live(from) && newest.is_live(to)
    });
    is_live && (why != Unanswered::Late.to_string() || is_quick(story, turn, client, from, to))
}

/// Returns whether the window does not know the questions of a turn.
fn is_unknown(story: &Story<'_>, turn: &str) -> bool {
    let script = setup::turn(story.cx.plan, records::declared(turn)).script;
    script.iter().any(|scene| matches!(scene, Scene::Ask(asking) if asking.is_unknown))
}

fn is_quick(story: &Story<'_>, turn: &str, client: &str, from: Time, to: Time) -> bool {
    let script = setup::turn(story.cx.plan, records::declared(turn)).script;
    let takes = script.iter().filter_map(|scene| match scene {
        Scene::Ask(asking) => Some(asking.takes.0),
        _ => None,
    });
    let longest = takes.max().unwrap_or_default() + story.moment();
    longest < story.host_limits.reverse_deadline
        && story.is_calm(window(client), from.before(story.moment()), to)
}
