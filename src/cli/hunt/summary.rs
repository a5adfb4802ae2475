//! The summary of a hunt: the number of runs, the coverage of its faults, and the unreached
//! milestones and points.

use std::sync::Arc;
use std::time::Duration;

use crate::hunt::RunTotals;
use crate::hunt::coverage::FaultHits;
use crate::hunt::random::Hunted;
use crate::report::{json, table};
use crate::subject::DynSubject;

use super::super::findings::Findings;

/// The line above the table of fault coverage.
const TITLE: &str = "faults: how often each was drawn and began, and what was under way then";

const HEAD: [&str; 8] =
    ["fault", "drawn", "began", "in flight", "handshake", "catch-up", "held task", "nothing"];

/// Returns the summary as text.
pub(super) fn summarize(
    hunted: &Hunted,
    finds: &Findings,
    subject: &Arc<dyn DynSubject>,
    wall: Duration,
) -> String {
    let tally = &hunted.tally;
    let totals = RunTotals { wall, ..tally.totals_of(subject) };
    let rate = tally.runs as f64 / wall.as_secs_f64().max(0.001);
    let mut rendered = faults(hunted);
    rendered += &format!("\n{}", table::totals(&totals));
    rendered += &format!("{rate:.0} schedules a second, digest {}\n", tally.digest);
    rendered + &finds.summary(hunted.broke, "schedule")
}

/// Returns the summary as JSON lines.
pub(super) fn lines(
    hunted: &Hunted,
    finds: &Findings,
    subject: &Arc<dyn DynSubject>,
    wall: Duration,
) -> String {
    let totals = RunTotals { wall, ..hunted.tally.totals_of(subject) };
    json::hunt(hunted, finds.of_hunt()).text() + &json::totals(&totals).text()
}

/// Returns the table of fault coverage.
fn faults(hunted: &Hunted) -> String {
    let row = |word: &str, hit: &FaultHits| {
        let FaultHits { drawn, began, in_flight, handshake, catch_up, held, nothing } = hit;
        let numbers =
            [drawn, began, in_flight, handshake, catch_up, held, nothing].map(u64::to_string);
        std::iter::once(word.to_owned()).chain(numbers).collect::<Vec<_>>()
    };
    let head = HEAD.map(str::to_owned).to_vec();
    let rows: Vec<_> = std::iter::once(head)
        .chain(hunted.coverage.0.iter().map(|(word, hit)| row(word, hit)))
        .collect();
    format!("{TITLE}\n{}", table::columns(&rows))
}
