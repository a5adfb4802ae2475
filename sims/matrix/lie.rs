//! Lies of the product: a note is left out of a recorded history, invented in it, or changed.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use reknit::history::{ConnIndex, Event, EventKind, History, Time};
use reknit::schedule::MilestoneValue;

/// The fields that identify the subject of a milestone.
#[rustfmt::skip]
const KEYS: &[&str] = &[
    "attempt", "call", "channel", "chat", "client", "command", "conn", "generation", "id", "job", "last",
    "old", "position", "process", "resumed", "seq", "session", "thread", "turn", "write",
];

/// How long after a note its copy is invented.
const AGAIN: Duration = Duration::from_secs(5);

/// A lie about one milestone.
#[derive(Clone, Copy, Debug)]
pub enum Lie {
    /// The product never notes the milestone.
    Silent,
    /// It notes the milestone once more, with the same fields, before or after it is true.
    Invented,
    /// One of its notes has another value in this field.
    Wrong(&'static str),
}

impl fmt::Display for Lie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent => f.write_str("silent"),
            Self::Invented => f.write_str("invented"),
            Self::Wrong(field) => write!(f, "wrong {field}"),
        }
    }
}

impl Lie {
    /// Returns the lies about a milestone with these fields.
    pub fn about(fields: &'static [&'static str]) -> impl Iterator<Item = Self> {
        let keys = fields.iter().copied().filter(|field| KEYS.contains(field));
        [Self::Silent, Self::Invented].into_iter().chain(keys.map(Self::Wrong))
    }

    /// Returns the events of the history with this lie, in a few variants. Returns nothing if the history
    /// has no such note, or its field no other value. No property judges events after `until`.
    pub fn variants<'h>(
        self,
        history: &'h History,
        until: Time,
        milestone: &'h str,
    ) -> Box<dyn Iterator<Item = Vec<Event>> + 'h> {
        let events = &history.events;
        let notes: Vec<usize> =
            (0..events.len()).filter(|n| is_note(&events[*n], milestone)).collect();
        match self {
            Self::Silent if notes.is_empty() => Box::new(std::iter::empty()),
            Self::Silent => {
                let others = events.iter().filter(|event| !is_note(event, milestone));
                let others: Vec<Event> = others.cloned().collect();
                Box::new(std::iter::once(others))
            }
            Self::Invented => Box::new(few(&notes).into_iter().flat_map(move |note| {
                let moments = false_moments(history, note, until).into_iter();
                moments.map(move |at| with_copy(events, note, at))
            })),
            Self::Wrong(field) => Box::new(few(&notes).into_iter().flat_map(move |note| {
                let others = other_values(events, note, field).into_iter();
                others.map(move |other| with_value(events, note, field, &other))
            })),
        }
    }
}

/// Returns whether an event is a note of a milestone.
fn is_note(event: &Event, milestone: &str) -> bool {
    matches!(event.what, EventKind::Milestone { name, .. } if name == milestone)
}

/// Returns the first note, one in the middle, and the last one.
fn few(notes: &[usize]) -> BTreeSet<usize> {
    let Some(last) = notes.len().checked_sub(1) else { return BTreeSet::new() };
    BTreeSet::from([0, last / 2, last].map(|n| notes[n]))
}

/// Returns up to two moments at which a note is not true. The first one is halfway between the opening of its
/// connection and the note; if the note names no connection, it counts from the start of its host. The
/// second one is some time after the note, if the host lives until then.
fn false_moments(history: &History, note: usize, until: Time) -> Vec<Time> {
    let (before, after) = history.events.split_at(note);
    let Event { at, host, what } = &history.events[note];
    let EventKind::Milestone { fields, .. } = what else { return Vec::new() };
    let conn = ConnIndex::from_fields(fields).and_then(|conn| history.conns.get(conn.0));
    let is_start = |event: &&Event| event.host == *host && matches!(event.what, EventKind::Started);
    let started = before.iter().rev().find(is_start).map(|event| event.at);
    let since = conn.map(|conn| conn.opened).or(started).unwrap_or_default();
    let halfway = Time((since.0 + at.0) / 2);
    let again = *at + AGAIN;
    let dies = after
        .iter()
        .take_while(|event| event.at <= again)
        .any(|event| event.host == *host && matches!(event.what, EventKind::Died { .. }));
    let halfway = (halfway < *at).then_some(halfway);
    let again = (again <= until && !dies).then_some(again);
    halfway.into_iter().chain(again).collect()
}

/// Returns the events with a copy of a note at another moment.
fn with_copy(events: &[Event], note: usize, at: Time) -> Vec<Event> {
    let (before, after) = events.split_at(events.partition_point(|event| event.at <= at));
    [before, &[Event { at, ..events[note].clone() }], after].concat()
}

/// Returns the value of a field of an event.
fn value(event: &Event, field: &str) -> Option<MilestoneValue> {
    let EventKind::Milestone { fields, .. } = &event.what else { return None };
    MilestoneValue::of(fields, field).cloned()
}

/// Returns the least and the greatest other value that a field has in the run.
fn other_values(events: &[Event], note: usize, field: &str) -> BTreeSet<MilestoneValue> {
    let Some(real) = value(&events[note], field) else { return BTreeSet::new() };
    let all = events.iter().filter_map(|event| value(event, field));
    let others: BTreeSet<_> = all.filter(|other| *other != real).collect();
    others.first().into_iter().chain(others.last()).cloned().collect()
}

/// Returns the events with another value in a field of a note.
fn with_value(events: &[Event], note: usize, field: &str, other: &MilestoneValue) -> Vec<Event> {
    let mut events = events.to_vec();
    if let EventKind::Milestone { fields, .. } = &mut events[note].what {
        let changed = fields.iter().map(|(name, real)| {
            let value = if *name == field { other } else { real };
            (*name, value.clone())
        });
        *fields = changed.collect();
    }
    events
}
