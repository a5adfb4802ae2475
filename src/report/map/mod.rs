//! The map of a sweep: one self-contained HTML file, to be looked at.
//!
//! Each position is a row, time downwards, with a lane a host, as in the [picture](super::picture) of a run; each fault is a column. A
//! cell is a run: its colour says what came of it. A click on a row opens what was tried there, with a story where there is one. Nothing
//! in it needs a script or a network. It is a pure function of the sweep and of what whoever draws it has to add.
//!
//! - `head`: what was swept, the counts, how to read it. `lane`: a row's part of the drawing. `row`: a row, and what it opens.

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

/// How the page looks.
const STYLE: &str = include_str!("map.css");

/// The page.
pub fn html(map: &Map<'_>) -> String {
    let Map { swept, .. } = map;
    let title = match swept.broke {
        0 => format!("{}: a sweep of {} runs, nothing broke", swept.plan.subject, swept.done),
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

/// The faults that were to be tried anywhere.
fn columns(swept: &SweepProgress) -> Vec<&'static SweepFault> {
    FAULTS
        .iter()
        .filter(|fault| swept.trials.iter().any(|trial| trial.fault.name == fault.name))
        .collect()
}

/// What stands above the rows, and stays there.
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
