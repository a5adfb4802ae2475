//! Helpers for the specific properties of several subjects: which entries are judged, and to which
//! host an entry belongs.

use crate::history::{Event, Time};
use crate::property::CheckContext;

/// The entries of a run until its clients are closed.
pub(super) fn judged<'a>(cx: &CheckContext<'a>) -> impl Iterator<Item = &'a Event> {
    let until = Time::from(cx.plan.horizon);
    cx.history.events.iter().take_while(move |event| event.at <= until)
}

/// The host of an entry; an empty string if it has none.
pub(super) fn host(event: &Event) -> &str {
    event.host.as_ref().map_or("", |host| host.as_str())
}

/// Whether a puppet plays a server. The answers of a puppet have no ground truth.
#[cfg(any(feature = "exec", feature = "toolcall"))]
pub(super) fn has_puppet(cx: &CheckContext<'_>) -> bool {
    cx.plan.has_puppet(cx.servers)
}
