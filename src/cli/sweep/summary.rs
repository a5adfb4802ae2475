//! The summary of a sweep: its positions, the outcomes of each fault, and the unreached milestones
//! and points.

use std::sync::Arc;
use std::time::Duration;

use crate::hunt::RunTotals;
use crate::hunt::SweepProgress;
use crate::hunt::sweep::{FAULTS, FaultOutcome, PositionKind};
use crate::report::line::wrap;
use crate::report::{self, json, phrases, table};
use crate::subject::DynSubject;

use super::super::args::SweepArgs;
use super::super::findings::Findings;

/// Returns the summary as text, without the findings.
pub(super) fn summarize(
    swept: &SweepProgress,
    subject: &Arc<dyn DynSubject>,
    wall: Duration,
    width: usize,
) -> String {
    if swept.trials.is_empty() {
        return if swept.broke > 0 {
            "a property is violated without an added fault, so nothing was swept\n".to_owned()
        } else {
            "no position is suitable for a fault\n".to_owned()
        };
    }
    let mut rendered = format!("{}\n{}\n", places(swept), outcomes(swept));
    if swept.done < swept.trials.len() {
        rendered += &format!(
            "stopped after {} of {}\n",
            swept.done,
            phrases::count(swept.trials.len() as u64, "run")
        );
    }
    let idle = swept.trials.iter().filter(|trial| trial.idle.is_some()).count() as u64;
    if idle > 0 {
        rendered += &format!("{} had no effect\n", phrases::count(idle, "fault"));
    }
    let totals = RunTotals { wall, ..swept.tally.totals(&swept.tally.unreached(subject)) };
    let lines: Vec<_> = table::totals(&totals).lines().flat_map(|line| wrap(line, width)).collect();
    lines.into_iter().for_each(|line| rendered += &format!("{line}\n"));
    rendered
}

/// Returns the summary as JSON lines.
pub(super) fn lines(
    swept: &SweepProgress,
    finds: &Findings,
    subject: &Arc<dyn DynSubject>,
    args: &SweepArgs,
    wall: Duration,
) -> String {
    let totals = RunTotals { wall, ..swept.tally.totals(&swept.tally.unreached(subject)) };
    let positions = json::positions(swept).filter(|_| args.positions);
    let last = [json::sweep(swept, finds.of_sweep(&args.file)), json::totals(&totals)];
    positions.chain(last).map(|line| line.text()).collect()
}

/// Returns the number of positions by host or connection, and by kind.
fn places(swept: &SweepProgress) -> String {
    let mut known: Vec<_> =
        swept.positions.iter().map(|position| (position.conn_number(), position.place())).collect();
    known.sort();
    known.dedup();
    let count = |kind: PositionKind, place: Option<&str>| {
        let these = swept
            .positions
            .iter()
            .filter(|it| it.kind() == kind && place.is_none_or(|place| it.place() == place));
        match these.count() {
            0 => "-".to_owned(),
            n => n.to_string(),
        }
    };
    let row = |name: &str, place: Option<&str>| {
        let counts = PositionKind::NAMES.iter().map(|(kind, _)| count(*kind, place));
        std::iter::once(name.to_owned()).chain(counts).collect::<Vec<_>>()
    };
    let head = std::iter::once("positions".to_owned())
        .chain(PositionKind::NAMES.iter().map(|(_, name)| format!("{name}s")))
        .collect();
    let rows = known.iter().map(|(_, place)| row(place, Some(place)));
    let all = row(&format!("all {}", swept.positions.len()), None);
    table::columns(&std::iter::once(head).chain(rows).chain([all]).collect::<Vec<_>>())
}

/// Returns the outcomes of each fault.
fn outcomes(swept: &SweepProgress) -> String {
    let row = |name: &str, counts: [u64; 4]| {
        let cells = std::iter::once(counts.iter().sum()).chain(counts).map(|n: u64| match n {
            0 => "-".to_owned(),
            n => n.to_string(),
        });
        std::iter::once(name.to_owned()).chain(cells).collect::<Vec<_>>()
    };
    let of = |fault| FaultOutcome::ALL.map(|(outcome, ..)| swept.count_outcomes(fault, outcome));
    let tried: Vec<_> = FAULTS.iter().map(|fault| (fault.name, of(fault))).collect();
    let all =
        tried.iter().fold([0; 4], |sum, (_, counts)| std::array::from_fn(|n| sum[n] + counts[n]));
    let head = ["fault", "runs"]
        .into_iter()
        .chain(FaultOutcome::ALL.map(|(_, name, _)| name))
        .map(str::to_owned)
        .collect();
    let rows = tried
        .into_iter()
        .filter(|(_, counts)| counts.iter().any(|n| *n > 0))
        .map(|(name, counts)| row(name, counts));
    table::columns(&std::iter::once(head).chain(rows).chain([row("all", all)]).collect::<Vec<_>>())
}

/// Returns one line per position, with the outcomes of its trials.
pub(super) fn positions(swept: &SweepProgress) -> String {
    let line = |position: &crate::hunt::sweep::Position| {
        let tried = position.trials.iter().filter_map(|trial| swept.trials[*trial].outcome);
        let counts = FaultOutcome::ALL
            .map(|(outcome, name, _)| (tried.clone().filter(|it| *it == outcome).count(), name));
        let came: Vec<_> =
            counts.iter().filter(|(n, _)| *n > 0).map(|(n, name)| format!("{n} {name}")).collect();
        let came = if came.is_empty() { "nothing to try".to_owned() } else { came.join(", ") };
        format!("{:>10}  {}: {came}\n", position.at.to_string(), report::position(position))
    };
    swept.positions.iter().map(line).collect()
}
