//! `no_panic` and `no_livelock`: the two ways in which the run itself breaks. The world detects
//! both and records them in the history.

use std::time::Duration;

use crate::history::{EventKind, Time};

use super::facts::Facts;
use super::findings::Findings;
use super::violation::{fields, kinds};
use super::{About, Violation};

kinds! {
    pub(super) PANICS;
    PANICKED = "panicked": "{subject:}a task panicked: {message} {moment}";
}

kinds! {
    pub(super) LIVELOCKS;
    STOOD_STILL = "stood-still": "{subject:}virtual time stopped: {what} {moment}";
    STUCK = "stuck": "{subject:}it took more than {seconds} s of real time: a task spins without awaiting, or blocks its thread";
}

/// Returns the violation for a run that was abandoned after this much real time. Such a run has no
/// history.
pub fn stuck(patience: Duration) -> Violation {
    let seconds = patience.as_secs_f32().to_string();
    Violation::new("no_livelock", About::Run, Time::ZERO, &STUCK, fields! { seconds })
}

/// Reports every panic.
pub(super) fn no_panic(facts: &Facts<'_>, broken: &mut Findings) {
    facts.cx.judges("no_panic");
    for event in &facts.cx.history.events {
        if let EventKind::Panicked { message } = &event.what {
            let message = message.lines().next().unwrap_or_default();
            broken.push(event.host.as_ref(), event.at, &PANICKED, fields! { message });
        }
    }
}

/// Reports every livelock.
pub(super) fn no_livelock(facts: &Facts<'_>, broken: &mut Findings) {
    facts.cx.judges("no_livelock");
    for event in &facts.cx.history.events {
        if let EventKind::Livelock { what } = &event.what {
            broken.push(event.host.as_ref(), event.at, &STOOD_STILL, fields! { what });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::scripted::history;

    #[test]
    fn a_panic_is_reported_with_its_first_line() {
        let scripted = history().panicked(4_231, "index out of bounds\nsecond line");
        assert_eq!(
            scripted.violations("no_panic"),
            ["server: a task panicked: index out of bounds (at 4.231 s)"]
        );
        scripted.holds("no_livelock");
    }

    #[test]
    fn a_livelock_is_reported() {
        let scripted = history().livelock(7, "100 rounds of triggers");
        assert_eq!(
            scripted.violations("no_livelock"),
            ["virtual time stopped: 100 rounds of triggers (at 0.007 s)"]
        );
        scripted.holds("no_panic");
    }
}
