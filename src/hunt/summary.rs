//! What is left of a run once it is examined: what all runs are summed up by, and its record only where something broke in it.
//!
//! In hunts and sweeps, whoever ran it makes this before handing it on: results wait for those before them, and for whoever collects
//! them. A record may have megabytes, and this has none of them. The runs of one scenario come with their records, for what their file
//! expects of all of them is read there.

use std::time::Duration;

use crate::history::{Digest, History, Time};
use crate::property::Violation;

use super::examine::Examined;

/// A run in short.
#[derive(Debug)]
pub struct RunSummary {
    /// How long it was, in virtual time.
    pub lasted: Duration,
    /// Its digest.
    pub digest: Digest,
    /// The milestones that were reached.
    pub milestones: Vec<&'static str>,
    /// The points that were reached.
    pub points: Vec<&'static str>,
    /// Whether it was repeated.
    pub repeated: bool,
    /// Whether a failure in it is neither surely justified nor surely not.
    pub inconclusive: bool,
    /// What broke in it, and its record; `None` where nothing did.
    pub broke: Option<(Vec<Violation>, History)>,
}

impl From<Examined> for RunSummary {
    fn from(examined: Examined) -> Self {
        let Examined { history, broken, inconclusive, repeated } = examined;
        Self {
            lasted: history.end.since(Time::ZERO),
            digest: history.digest,
            milestones: history.milestones.keys().copied().collect(),
            points: history.points.keys().copied().collect(),
            repeated,
            inconclusive,
            broke: (!broken.is_empty()).then_some((broken, history)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::property::About;
    use crate::property::violation::sample_violation;

    fn summary(broken: Vec<Violation>) -> RunSummary {
        let history = History { end: Time(7), ..History::default() };
        Examined { history, broken, inconclusive: false, repeated: false }.into()
    }

    #[test]
    fn only_a_run_that_broke_keeps_its_record() {
        assert!(summary(Vec::new()).broke.is_none());
        let broken = sample_violation("gap_free", About::Run, Time(1), "it broke");
        let (broken, history) = summary(vec![broken]).broke.unwrap();
        assert_eq!((broken[0].property, history.end), ("gap_free", Time(7)));
    }
}
