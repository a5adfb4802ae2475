//! Finds the milestones and points that a file expects, or forbids, in the history of a finished
//! run.

use crate::history::{ConnIndex, Event, EventKind, History, Time};
use crate::schedule::{Conn, MilestoneValue, Trigger, TriggerMark, Which};

/// Returns how often a milestone or point was reached in a run, on any host and with any fields.
pub(super) fn times(mark: &TriggerMark, history: &History) -> u64 {
    match mark {
        TriggerMark::Milestone(name) => history.milestones.get(name.as_str()).copied().unwrap_or(0),
        TriggerMark::Point(name) => history.points.get(name.as_str()).copied().unwrap_or(0),
    }
}

/// A trigger to find in a history.
pub(super) trait TriggerQuery {
    /// Returns each entry that matches the trigger.
    fn matches<'h>(&'h self, history: &'h History) -> impl Iterator<Item = &'h Event>;
    /// Whether the trigger was reached at least `nth` times.
    fn seen(&self, history: &History) -> bool;
    /// Returns the trigger as text for a sentence.
    fn text(&self) -> String;
}

impl TriggerQuery for Trigger {
    fn matches<'h>(&'h self, history: &'h History) -> impl Iterator<Item = &'h Event> {
        history.events.iter().filter(move |event| {
            let (name, fields) = match (&event.what, &self.mark) {
                (EventKind::Milestone { name, fields }, TriggerMark::Milestone(wanted))
                    if name == wanted =>
                {
                    (name, fields)
                }
                (EventKind::Point { name, fields, .. }, TriggerMark::Point(wanted))
                    if name == wanted =>
                {
                    (name, fields)
                }
                _ => return false,
            };
            debug_assert_eq!(*name, self.mark.name());
            let field = |wanted: &str| {
                fields.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value)
            };
            self.host.as_ref().is_none_or(|host| event.host.as_ref() == Some(host))
                && self.fields.iter().all(|(name, value)| field(name) == Some(value))
                && self
                    .conn
                    .as_ref()
                    .is_none_or(|conn| names(conn, field("conn"), event.at, history))
        })
    }

    fn seen(&self, history: &History) -> bool {
        times(&self.mark, history) >= self.nth
            && self.matches(history).nth(self.nth as usize - 1).is_some()
    }

    fn text(&self) -> String {
        let fields = self.fields.iter().map(|(name, value)| format!("{name} {value}"));
        let conn = self.conn.iter().map(|conn| format!("on {conn}"));
        let host = self.host.iter().map(|host| format!("at {host}"));
        let details: Vec<_> = fields.chain(conn).chain(host).collect();
        if details.is_empty() {
            self.mark.to_string()
        } else {
            format!("{} ({})", self.mark, details.join(", "))
        }
    }
}

/// Whether a connection name of a schedule refers to the connection whose number a milestone
/// reported.
fn names(conn: &Conn, number: Option<&MilestoneValue>, at: Time, history: &History) -> bool {
    let Some(MilestoneValue::Number(id)) = number else { return false };
    let Some(index) = usize::try_from(*id).ok().and_then(|id| id.checked_sub(1)) else {
        return false;
    };
    let mut later = index + 1..history.conns.len();
    let mut is_last = || {
        !later.any(|later| {
            history.is_named(ConnIndex(later), conn) && history.conns[later].opened <= at
        })
    };
    index < history.conns.len()
        && history.is_named(ConnIndex(index), conn)
        && (conn.which != Which::Last || is_last())
}
