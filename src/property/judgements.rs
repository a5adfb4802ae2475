//! How many cases each property judged in a run.
//!
//! A property that is exempt from every case of a run holds, but shows nothing. A hunt counts the schedules in
//! which each property judged a case, so that its developers see which draws are missing.

use std::cell::RefCell;
use std::collections::BTreeMap;

/// The number of cases that each property judged in a run.
///
/// A case is one thing that a property compared with what it demands, after all of its exemptions: one call, one
/// stream, one pause between attempts.
#[derive(Debug, Default)]
pub struct Judgements(RefCell<BTreeMap<&'static str, u64>>);

impl Judgements {
    /// Counts one case of a property.
    pub(super) fn add(&self, property: &'static str) {
        *self.0.borrow_mut().entry(property).or_default() += 1;
    }

    /// Returns the number of cases that a property judged.
    pub fn of(&self, property: &str) -> u64 {
        self.0.borrow().get(property).copied().unwrap_or_default()
    }

    /// Returns the names of the properties that judged a case, in the order of their names.
    pub fn properties(&self) -> Vec<&'static str> {
        self.0.borrow().keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::property::scripted::history;

    #[test]
    fn a_property_counts_only_what_it_compares() {
        let opened = || history().opened("s1", 1, 0).produced("s1", 1_000, "a");
        let delivered = || opened().delivered("s1", 1_010, "a");
        assert_eq!(delivered().judged("gap_free"), 1);
        assert_eq!(opened().judged("gap_free"), 0, "nothing was delivered");
        let by_a_puppet = delivered().puppet("server");
        assert_eq!(by_a_puppet.judged("gap_free"), 0, "nothing is known to be true");
        // It also counts what breaks it.
        let wrong = opened().delivered("s1", 1_010, "b");
        assert_eq!((wrong.violations("gap_free").len(), wrong.judged("gap_free")), (1, 1));
    }

    #[test]
    fn a_count_names_the_properties_that_judged() {
        let judgements = Judgements::default();
        for property in ["one_ending", "gap_free", "one_ending"] {
            judgements.add(property);
        }
        assert_eq!(judgements.properties(), ["gap_free", "one_ending"]);
        assert_eq!(["one_ending", "no_panic"].map(|name| judgements.of(name)), [2, 0]);
    }
}
