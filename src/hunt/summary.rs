//! The summary of an examined run. It holds the data for the tally, and the full history only if
//! the run failed.
//!
//! In hunts and sweeps, the worker makes this summary before it hands over the result, because
//! results queue up for earlier results and for the collector. A history may have megabytes, and
//! the summary of a run without a violation has no history. The runs of one scenario keep their
//! histories until collection: the expectations on all runs are read from them.

use std::time::Duration;

use crate::history::{Digest, History, Time};
use crate::property::Violation;

use super::examine::Examined;

/// The summary of a run.
#[derive(Debug)]
pub struct RunSummary {
    /// The duration of the run, in virtual time.
    pub lasted: Duration,
    /// The digest of the run.
    pub digest: Digest,
    /// The milestones that were reached.
    pub milestones: Vec<&'static str>,
    /// The points that were reached.
    pub points: Vec<&'static str>,
    /// The properties that judged a case.
    pub judging: Vec<&'static str>,
    /// Whether the run was repeated.
    pub repeated: bool,
    /// Whether the run had an inconclusive failure: either outcome would have been correct.
    pub inconclusive: bool,
    /// The violations and the history of the run; `None` if there was no violation.
    pub broke: Option<(Vec<Violation>, History)>,
}

impl From<Examined> for RunSummary {
    fn from(examined: Examined) -> Self {
        let Examined { history, broken, inconclusive, repeated, judging } = examined;
        Self {
            lasted: history.end.since(Time::ZERO),
            digest: history.digest,
            milestones: history.milestones.keys().copied().collect(),
            points: history.points.keys().copied().collect(),
            judging,
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
        let judging = vec!["gap_free"];
        Examined { history, broken, inconclusive: false, repeated: false, judging }.into()
    }

    #[test]
    fn only_a_failed_run_keeps_its_history() {
        assert!(summary(Vec::new()).broke.is_none());
        let broken = sample_violation("gap_free", About::Run, Time(1), "it broke");
        let (broken, history) = summary(vec![broken]).broke.unwrap();
        assert_eq!((broken[0].property, history.end), ("gap_free", Time(7)));
    }
}
