//! `views_are_current`: a window shows its user what the host confirmed, and on top of it what the
//! user has done since.

use std::collections::BTreeMap;

use super::story::Story;
use crate::history::{Answer, Call, EventKind, Time};
use crate::property::Violation;
use crate::property::violation::{fields, kinds};
use crate::subjects::judging::{host, judged, peers_may_lie};
use crate::subjects::toolcall::answers::{Did, Reading};
use crate::subjects::toolcall::notes::OfChannel;

kinds! {
    pub(super) VIEWS_ARE_CURRENT;
    OTHER_CHAT = "other-chat": "{subject:}the window of {host} showed the turn {turn} of another chat in it {moment}";
    OTHER_TITLE = "other-title": "{subject:}the window showed the title {title} instead of {truth} {moment}";
}

/// A window shows a turn only in its own chat. A title that a user reads is the newest one that the user
/// gave and that the host has not answered, or otherwise the one that the host confirmed last.
pub(super) fn views_are_current(story: &Story<'_>) -> Vec<Violation> {
    if peers_may_lie(story.cx) {
        return Vec::new();
    }
    let answered: BTreeMap<Call, Time> = judged(story.cx)
        .filter_map(|event| match &event.what {
            EventKind::Answered { call, .. } | EventKind::Failed { call, .. } => {
                Some((*call, event.at))
            }
            _ => None,
        })
        .collect();
    let mut confirmed: BTreeMap<&str, (&str, Time)> = BTreeMap::new();
    let mut found = Vec::new();
    for event in judged(story.cx) {
        let (at, host) = (event.at, host(event));
        match &event.what {
            EventKind::Observed { stream, saw } => match saw.downcast_ref() {
                Some(OfChannel::Title(title)) => drop(confirmed.insert(host, (title, at))),
                // A puppet names its turns as it likes.
                Some(OfChannel::ShowsForeignTurn(turn)) if story.cx.is_honest() => {
                    story.cx.judges("views_are_current");
                    let (turn, channel) = (turn.as_str(), &*stream.0);
                    let data = fields! { host, turn };
                    found.push(Violation::new("views_are_current", channel, at, &OTHER_CHAT, data));
                }
                _ => {}
            },
            EventKind::Answered { call, answer } => {
                let Some(Reading { title: Some(title), .. }) = reading(answer) else { continue };
                let Some((last, seen)) = confirmed.get(host).copied() else { continue };
                let own = pending_title(story, &answered, *call);
                let truth = match own {
                    Own::Unclear => continue,
                    Own::Is(own) => own,
                    // The window reads the state before its user does.
                    Own::None if seen == at => continue,
                    Own::None => last.to_owned(),
                };
                story.cx.judges("views_are_current");
                if *title != truth {
                    let data = fields! { title, truth };
                    found.push(Violation::new("views_are_current", *call, at, &OTHER_TITLE, data));
                }
            }
            _ => {}
        }
    }
    found.truncate(5);
    found
}

fn reading(answer: &Answer) -> Option<&Reading> {
    match answer.done() {
        Some(Did::Reads(reading)) => Some(reading),
        _ => None,
    }
}

/// The title that a user gave and that the host has not answered.
enum Own {
    Is(String),
    None,
    /// The answer arrives, or the user gives the title, in the same moment.
    Unclear,
}

fn pending_title(story: &Story<'_>, answered: &BTreeMap<Call, Time>, reads: Call) -> Own {
    let Some(asked) = story.asked.get(&reads) else { return Own::Unclear };
    let includes_own = asked.operation.fields.get("unconfirmed").and_then(|it| it.as_bool());
    if includes_own != Some(true) {
        return Own::None;
    }
    let mut own: Vec<(Call, Time)> = story
        .asked
        .iter()
        .filter(|(call, other)| {
            other.verb() == "rename"
                && other.at <= asked.at
                && story.window_of(**call) == story.window_of(reads)
        })
        .map(|(call, other)| (*call, other.at))
        .collect();
    own.retain(|(call, _)| answered.get(call).is_none_or(|at| *at >= asked.at));
    let is_unclear = |(call, at): &(Call, Time)| {
        *at == asked.at || answered.get(call).is_some_and(|answer| *answer == asked.at)
    };
    if own.iter().any(is_unclear) {
        return Own::Unclear;
    }
    match own.last() {
        Some((call, _)) => Own::Is(title(story, *call)),
        None => Own::None,
    }
}

/// The title of a rename: the given one, or one that names the host and the call.
fn title(story: &Story<'_>, call: Call) -> String {
    let asked = story.asked.get(&call);
    let given = asked.and_then(|asked| asked.field("title")).map(str::to_owned);
    let host = asked.map_or("", |asked| asked.host);
    given.unwrap_or_else(|| format!("{host} {}", call.0))
}
