//! Properties of the host's records: an ended turn is stored, and a session lists its chats as they
//! are.

use std::collections::BTreeSet;

use super::story::Story;
use crate::history::{Ending, EventKind};
use crate::property::violation::{fields, kinds};
use crate::property::{Violation, ViolationFields};
use crate::subjects::judging::{has_puppet, host, judged};
use crate::subjects::toolcall::notes::OfChannel;

kinds! {
    pub(super) ENDED_IS_STORED;
    NOT_STORED = "not-stored": "{subject:}{user} saw its end, but the host's storage did not contain it {moment}";
}

kinds! {
    pub(super) ENTRIES_ARE_TRUE;
    DIFFERS = "differs": "{subject:}its entry in the session was not its summary {moment}";
}

/// A turn whose end a user sees is in the host's storage.
pub(super) fn ended_is_stored(story: &Story<'_>) -> Vec<Violation> {
    if has_puppet(story.cx) {
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
            EventKind::StreamEnded { stream, ending: Ending::Completed { .. } }
                if !stored.contains(&*stream.0) =>
            {
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
            Some(OfChannel::EntryDiffers(chat)) => Some(Violation::new(
                "entries_are_true",
                chat.as_str(),
                event.at,
                &DIFFERS,
                ViolationFields::default(),
            )),
            _ => None,
        },
        _ => None,
    });
    differs.take(5).collect()
}
