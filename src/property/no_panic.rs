//! `no_panic` and `no_livelock`: the two ways in which a run itself breaks down. The world notices both, and says so in the history.

use crate::history::{Time, What};
use crate::schedule::Host;

use super::Findings;
use super::facts::Facts;

/// Every panic.
pub(super) fn no_panic(facts: &Facts<'_>, broken: &mut Findings) {
    for event in &facts.evidence.history.events {
        if let What::Panicked { message } = &event.what {
            let what = format!("a task panicked: {}", message.lines().next().unwrap_or_default());
            tell(event.host.as_ref(), event.at, &what, broken);
        }
    }
}

/// Every livelock.
pub(super) fn no_livelock(facts: &Facts<'_>, broken: &mut Findings) {
    for event in &facts.evidence.history.events {
        if let What::Livelock { what } = &event.what {
            tell(event.host.as_ref(), event.at, &format!("virtual time stood still: {what}"), broken);
        }
    }
}

fn tell(host: Option<&Host>, at: Time, what: &str, broken: &mut Findings) {
    let host = host.map(|host| format!("{host}: ")).unwrap_or_default();
    broken.other(at, format!("{host}{what} (at {at})"));
}

#[cfg(test)]
mod tests {
    use super::super::told::history;

    #[test]
    fn a_panic_is_told_with_its_first_line() {
        let told = history().panicked(4_231, "index out of bounds\nsecond line");
        assert_eq!(told.breaks("no_panic"), ["server: a task panicked: index out of bounds (at 4.231 s)"]);
        told.holds("no_livelock");
    }

    #[test]
    fn a_livelock_is_told() {
        let told = history().livelock(7, "100 rounds of triggers");
        assert_eq!(told.breaks("no_livelock"), ["virtual time stood still: 100 rounds of triggers (at 0.007 s)"]);
        told.holds("no_panic");
    }
}
