//! The contents of a channel's state: as a value for properties, and as text for users.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::digests::{is_counted, is_time};
use super::setup::AT_FIRST;
use reknit_toolcall::wire::SnapshotState;
use reknit_toolcall::wire::ahp::state::{ChatState, ResponsePart, SessionStatus};

/// A state without the agents' words. The properties of streams compare the words.
#[derive(Clone, Debug, PartialEq)]
pub struct Contents(Arc<SnapshotState>);

/// No state contains a number that differs from itself.
impl Eq for Contents {}

impl Contents {
    /// Copies a state.
    pub(super) fn of(mut state: SnapshotState) -> Self {
        if let SnapshotState::Chat(chat) = &mut state {
            let active = chat.active_turn.iter_mut().flat_map(|turn| &mut turn.response_parts);
            let over = chat.turns.iter_mut().flat_map(|turn| &mut turn.response_parts);
            for part in active.chain(over) {
                if let ResponsePart::Markdown(text) = part {
                    text.content.clear();
                }
            }
        }
        Self(Arc::new(state))
    }

    /// The state.
    pub(super) fn state(&self) -> &SnapshotState {
        &self.0
    }
}

/// The length in bytes above which the text shows only the length of a part.
const LONG: usize = 80;

/// A state as text: JSON with all fields, except times and generated names. Instead of the time of
/// its last change, a chat shows the event that changed it.
pub(super) fn shown(state: &SnapshotState) -> String {
    let mut shown = plain_value(state);
    if let (SnapshotState::Chat(chat), Value::Object(fields)) = (state, &mut shown) {
        fields.insert("changed".to_owned(), last_change(chat).into());
    }
    shown.to_string()
}

/// A message or a state as JSON, without times and generated names.
pub(super) fn plain_value(value: &impl Serialize) -> Value {
    let mut shown = serde_json::to_value(value).unwrap_or_default();
    plain(&mut shown);
    shown
}

fn plain(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, field| !is_time(name) && !field.as_str().is_some_and(is_counted));
            for (name, field) in fields {
                match (name.as_str(), field.as_str(), field.as_u64()) {
                    ("status", _, Some(bits)) => *field = status(bits).into(),
                    ("content", Some(text), _) if text.len() > LONG => {
                        *field = format!("{} bytes", text.len()).into();
                    }
                    _ => plain(field),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(plain),
        _ => {}
    }
}

/// The names of the bits of a status. `input-needed` includes the bit of `in-progress`.
fn status(bits: u64) -> String {
    let names = [
        (SessionStatus::InputNeeded, "input-needed"),
        (SessionStatus::InProgress, "in-progress"),
        (SessionStatus::Idle, "idle"),
        (SessionStatus::IsRead, "read"),
        (SessionStatus::IsArchived, "archived"),
    ];
    let (mut left, mut found) = (bits, Vec::new());
    for (bits, name) in names.map(|(status, name)| (u64::from(status.bits()), name)) {
        if left & bits == bits {
            left &= !bits;
            found.push(name.to_owned());
        }
    }
    found.extend((left != 0).then(|| left.to_string()));
    found.join(", ")
}

/// The event that changed a chat last.
fn last_change(chat: &ChatState) -> String {
    let at = &chat.modified_at;
    match (&chat.active_turn, chat.turns.last()) {
        (Some(turn), _) if *at == turn.started_at => format!("with the start of {}", turn.id),
        (None, Some(turn))
            if ended_at(turn.started_at.as_deref(), turn.duration).as_ref() == Some(at) =>
        {
            format!("with the end of {}", turn.id)
        }
        (None, None) if at == AT_FIRST => "before the run".to_owned(),
        (None, None) => "with its creation".to_owned(),
        _ => format!("at {at}"),
    }
}

/// The end of a turn with this start and this duration in milliseconds.
pub(super) fn ended_at(started: Option<&str>, duration: Option<i64>) -> Option<String> {
    let started = humantime::parse_rfc3339(started?).ok()?;
    let lasted = std::time::Duration::from_millis(u64::try_from(duration?).ok()?);
    Some(humantime::format_rfc3339_millis(started.checked_add(lasted)?).to_string())
}

#[cfg(test)]
mod tests {
    use reknit_toolcall::state::chat;

    use super::*;

    #[test]
    fn a_state_is_shown_with_all_fields_but_those_that_depend_on_timing() {
        let chat = chat::new("c1", "c1", AT_FIRST.to_owned());
        assert_eq!(
            shown(&SnapshotState::Chat(Box::new(chat))),
            r#"{"resource":"c1","title":"c1","status":"idle","turns":[],"changed":"before the run"}"#
        );
    }

    #[test]
    fn a_status_is_shown_as_the_names_of_its_bits() {
        assert_eq!([status(1), status(8), status(24)], ["idle", "in-progress", "input-needed"]);
        assert_eq!(status(1 | 32 | 64), "idle, read, archived");
        assert_eq!(status(256), "256");
    }
}
