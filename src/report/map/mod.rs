//! The map of a sweep as a page: one self-contained HTML file.
//!
//! Each position is a row. Time runs downwards, with one lane per host, as in the
//! [picture](super::picture) of a run. Each fault is a column. A cell is a run, and its colour
//! shows the outcome. A click on a row opens its trials, with a story if there is one. The page
//! needs no scripts and no network. It is a pure function of the sweep and of the caller's
//! additions.
//!
//! - `head`: the schedule, the counts, and a legend. `lane`: a row's part of the drawing. `row`: a
//!   row, and the details behind it.

use crate::hunt::SweepProgress;
use crate::hunt::sweep::{FAULTS, SweepFault};

use super::picture::markup::escaped;
use super::picture::page;

mod head;
mod lane;
mod row;
mod swept;
#[cfg(test)]
mod tests;

use lane::SweepLanes;
pub use swept::Map;

/// The style sheet of the page.
const STYLE: &str = include_str!("map.css");

/// Renders the page.
pub fn html(map: &Map<'_>) -> String {
    let Map { swept, .. } = map;
    let title = match swept.broke {
        0 => format!("{}: a sweep of {} runs, no violation", swept.plan.subject, swept.done),
        broke => format!("{}: a sweep of {} runs, {broke} broke", swept.plan.subject, swept.done),
    };
    let mut body = head::head(map);
    if !swept.trials.is_empty() {
        let (columns, lanes) = (columns(swept), SweepLanes::of(swept));
        body +=
            &format!("<main style=\"--lanes:{}px;--cells:{}\">\n", lanes.width(), columns.len());
        body += &heading(&columns, &lanes);
        body += &row::rows(map, &columns, &lanes);
        body += "</main>\n";
    }
    page(&title, STYLE, &body)
}

/// Returns the faults with at least one trial.
fn columns(swept: &SweepProgress) -> Vec<&'static SweepFault> {
    FAULTS
        .iter()
        .filter(|fault| swept.trials.iter().any(|trial| trial.fault.name == fault.name))
        .collect()
}

/// Renders the header above the rows, which stays visible while scrolling.
fn heading(columns: &[&SweepFault], lanes: &SweepLanes) -> String {
    let faults = columns
        .iter()
        .map(|fault| format!("<b title=\"{}\">{}</b>", escaped(fault.does), escaped(fault.name)));
    let faults: String = faults.collect();
    format!(
        "<div class=\"top line\"><span></span>{}{}<span class=\"cells\">{faults}</span></div>\n",
        lanes.heading(),
        lane::key()
    )
}
