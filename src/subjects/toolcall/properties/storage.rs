//! Properties of the host's records: an ended turn is stored, and a session lists its chats as they
//! are.

use std::collections::BTreeSet;

use super::facts::MS;
use super::story::Story;
use crate::history::{Ending, EventKind};
use crate::property::violation::{fields, kinds};
use crate::property::{Violation, ViolationFields};
use crate::subjects::judging::{host, judged, peers_may_lie};
use crate::subjects::toolcall::notes::OfChannel;

kinds! {
    pub(super) ENDED_IS_STORED;
    NOT_STORED = "not-stored": "{subject:}{user} saw its end, but the host's storage did not contain it {moment}";
}

kinds! {
    pub(super) ENTRIES_ARE_TRUE;
    DIFFERS = "differs": "{subject:}its entry in the session was not its summary {moment}";
    UNLISTED = "unlisted": "{subject:}the storage contained it since {since}, but the session did not list it {moment}";
    GHOST = "ghost": "{subject:}the session listed it, but the storage did not contain it {moment}";
}

/// A turn whose end a user sees is in the host's storage.
pub(super) fn ended_is_stored(story: &Story<'_>) -> Vec<Violation> {
    if peers_may_lie(story.cx) {
        return Vec::new();
    }
    let mut stored: BTreeSet<&str> = BTreeSet::new();
    let mut found = Vec::new();
    for event in judged(story.cx) {
        match &event.what {
            EventKind::Observed { saw, .. } => {
                if let Some(OfChannel::TurnStored(turn)) = saw.downcast_ref() {
                    stored.insert(turn);
                }
            }
            EventKind::StreamEnded { stream, ending: Ending::Completed { .. } } => {
                story.cx.judges("ended_is_stored");
                if stored.contains(&*stream.0) {
                    continue;
                }
                let data = fields! { user: host(event) };
                found.push(Violation::new("ended_is_stored", stream, event.at, &NOT_STORED, data));
            }
            _ => {}
        }
    }
    found.truncate(5);
    found
}

/// The session's entry of a chat in memory is the summary of the chat, after a quiet period.
pub(super) fn entries_are_true(story: &Story<'_>) -> Vec<Violation> {
    let differs = judged(story.cx).filter_map(|event| match &event.what {
        EventKind::Observed { saw, .. } => match saw.downcast_ref() {
            Some(OfChannel::EntryDiffers(chat)) => {
                story.cx.judges("entries_are_true");
                let data = ViolationFields::default();
                let chat = chat.as_str();
                Some(Violation::new("entries_are_true", chat, event.at, &DIFFERS, data))
            }
            _ => None,
        },
        _ => None,
    });
    let mut found: Vec<Violation> = differs.take(5).collect();
    if !peers_may_lie(story.cx) {
        found.extend(untrue_lists(story));
    }
    found
}

/// The lists of chats that are not those of the storage.
fn untrue_lists(story: &Story<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for event in judged(story.cx) {
        let EventKind::Observed { saw, .. } = &event.what else { continue };
        let Some(OfChannel::Lists { chats: listed, .. }) = saw.downcast_ref() else { continue };
        story.cx.judges("entries_are_true");
        let (at, before) = (event.at, event.at.before(MS));
        let violation =
            |chat: &str, kind, data| Violation::new("entries_are_true", chat, at, kind, data);
        let ghosts = listed.iter().filter(|chat| !story.existence.at_all(chat, before, at));
        let ghosts = ghosts.map(|chat| violation(chat, &GHOST, ViolationFields::default()));
        let unlisted = story.existence.chats_throughout(before, at);
        let unlisted = unlisted.filter(|(chat, _)| !listed.iter().any(|it| it == chat));
        let unlisted = unlisted.map(|(chat, since)| violation(chat, &UNLISTED, fields! { since }));
        found.extend(ghosts.chain(unlisted));
    }
    found.truncate(5);
    found
}
