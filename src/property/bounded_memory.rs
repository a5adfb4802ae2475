//! `bounded_memory`: retained bytes and queue lengths stay within the subject's bounds at all
//! times.
//!
//! The world records a gauge in the history whenever the gauge reaches a new maximum in the run, and
//! a level whenever it changes.
//! This property compares each gauge that has a [guaranteed](super::Guarantees::memory) bound with
//! that bound, separately for each host.

use std::collections::BTreeSet;

use crate::history::EventKind;

use super::facts::Facts;
use super::findings::Findings;
use super::violation::{fields, kinds};

kinds! {
    pub(super) KINDS;
    EXCEEDED = "exceeded": "{subject:}`{gauge}` rose to {value}, more than {bound} {moment}";
}

/// Reports the first time that each gauge of each host exceeded its bound.
pub(super) fn check(facts: &Facts<'_>, broken: &mut Findings) {
    let bound = |name: &str| {
        facts
            .guarantees()
            .memory
            .iter()
            .find(|(bounded, _)| *bounded == name)
            .map(|(_, bound)| *bound)
    };
    let mut reported = BTreeSet::new();
    for event in &facts.cx.history.events {
        let EventKind::Gauge { name, value } = &event.what else { continue };
        let Some(bound) = bound(name) else { continue };
        facts.cx.judges("bounded_memory");
        if *value > bound && reported.insert((&event.host, *name)) {
            broken.push(
                event.host.as_ref(),
                event.at,
                &EXCEEDED,
                fields! { gauge: *name, value: *value, bound },
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::scripted::history;

    #[test]
    fn a_gauge_may_rise_to_its_bound() {
        history()
            .gauge("server", 100, "retained", 10)
            .gauge("server", 200, "unbounded", 1_000_000)
            .holds("bounded_memory");
    }

    #[test]
    fn only_the_first_excess_is_reported() {
        let scripted = history()
            .gauge("server", 100, "retained", 10)
            .gauge("server", 200, "retained", 11)
            .gauge("server", 300, "retained", 12);
        assert_eq!(
            scripted.violations("bounded_memory"),
            ["server: `retained` rose to 11, more than 10 (at 0.200 s)"]
        );
    }
}
