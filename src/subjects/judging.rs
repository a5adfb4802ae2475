//! What the own properties of several subjects need: which entries are judged, and of which host they are.

use crate::history::{Event, Time};
use crate::property::CheckContext;

/// The entries of a run until its clients are closed.
pub(super) fn judged<'a>(cx: &CheckContext<'a>) -> impl Iterator<Item = &'a Event> {
    let until = Time::from(cx.plan.horizon);
    cx.history.events.iter().take_while(move |event| event.at <= until)
}

/// The host of an entry; nothing where it has none.
pub(super) fn host(event: &Event) -> &str {
    event.host.as_ref().map_or("", |host| host.as_str())
}

/// What a puppet answers has no truth.
pub(super) fn has_puppet(cx: &CheckContext<'_>) -> bool {
    cx.plan.has_puppet(cx.servers)
}
