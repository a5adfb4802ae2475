//! Helpers for the specific properties of several subjects: which entries are judged, to which
//! host an entry belongs, and what a fault affects.

use crate::history::{Event, Time};
use crate::property::CheckContext;
#[cfg(any(feature = "exec", feature = "sse", feature = "turn"))]
use crate::schedule::Fault;

/// The entries of a run until its clients are closed.
pub(super) fn judged<'a>(cx: &CheckContext<'a>) -> impl Iterator<Item = &'a Event> {
    let until = Time::from(cx.plan.horizon);
    cx.history.events.iter().take_while(move |event| event.at <= until)
}

/// The host of an entry; an empty string if it has none.
pub(super) fn host(event: &Event) -> &str {
    event.host.as_ref().map_or("", |host| host.as_str())
}

/// Whether a fault affects connections only.
#[cfg(any(feature = "exec", feature = "sse", feature = "turn"))]
pub(super) fn is_of_the_network(fault: &Fault) -> bool {
    fault.effect().is_of_the_network()
}

/// Whether clients may see a server that breaks the protocol: a puppet plays it, or messages change on
/// their way. There is no ground truth for what such a server says.
#[cfg(any(feature = "exec", feature = "sse", feature = "toolcall"))]
pub(super) fn peers_may_lie(cx: &CheckContext<'_>) -> bool {
    cx.plan.has_puppet(cx.servers) || cx.was_tampered()
}

/// Generates the list of a subject's properties, and the function that checks all of them, from the
/// same rows. The properties share one story of the run, so the history is read only once.
#[cfg(any(feature = "sse", feature = "toolcall", feature = "turn"))]
macro_rules! story_properties {
    ($story:ident; $($name:literal as $check:path, $kinds:path: $doc:literal;)*) => {
        /// The properties.
        pub(super) const OWN: &[$crate::property::Property] = &[$($crate::property::Property {
            name: $name,
            doc: $doc,
            kinds: $kinds,
            check: |cx| $check(&$story::of(cx)),
        }),*];

        /// Checks all of these properties with one story.
        pub(super) fn violations(
            cx: &$crate::property::CheckContext<'_>,
        ) -> Vec<$crate::property::Violation> {
            let story = $story::of(cx);
            let mut all = Vec::new();
            $(all.append(&mut $check(&story));)*
            all
        }
    };
}
#[cfg(any(feature = "sse", feature = "toolcall", feature = "turn"))]
pub(super) use story_properties;
