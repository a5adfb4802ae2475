//! The map of a sweep: one self-contained HTML file, to be looked at.
//!
//! Each position is a row, time downwards, with a lane a host, as in the [picture](super::picture) of a run; each fault is a column. A
//! cell is a run: its colour says what came of it. A click on a row opens what was tried there, with a story where there is one. Nothing
//! in it needs a script or a network. It is a pure function of the sweep and of what whoever draws it has to add.
//!
//! - `head`: what was swept, the counts, how to read it. `lane`: a row's part of the drawing. `row`: a row, and what it opens.

use std::collections::BTreeMap;

use crate::hunt::Swept;
use crate::hunt::sweep::{FAULTS, Outcome, Row};

use super::picture::markup::escaped;
use super::picture::page;

mod head;
mod lane;
mod row;
#[cfg(test)]
mod tests;

use lane::Lanes;

/// How the page looks.
const STYLE: &str = include_str!("map.css");

/// A sweep that is to be drawn.
#[derive(Clone, Copy, Debug)]
pub struct Map<'a> {
    /// The sweep.
    pub swept: &'a Swept,
    /// What the scenario shows, in a line.
    pub title: &'a str,
    /// The command that sweeps again; with ` --trial N`, it makes one run of it.
    pub again: &'a str,
    /// The stories of some trials, by number.
    pub stories: &'a BTreeMap<usize, String>,
}

/// The page.
pub fn html(map: &Map<'_>) -> String {
    let Map { swept, .. } = map;
    let title = match swept.broke {
        0 => format!("{}: a sweep of {} runs, nothing broke", swept.plan.subject, swept.done),
        broke => format!("{}: a sweep of {} runs, {broke} broke", swept.plan.subject, swept.done),
    };
    let mut body = head::head(map);
    if !swept.trials.is_empty() {
        let (columns, lanes) = (columns(swept), Lanes::of(swept));
        body += &format!("<main style=\"--lanes:{}px;--cells:{}\">\n", lanes.width(), columns.len());
        body += &heading(&columns, &lanes);
        body += &row::rows(map, &columns, &lanes);
        body += "</main>\n";
    }
    page(&title, STYLE, &body)
}

/// The faults that were to be tried anywhere.
fn columns(swept: &Swept) -> Vec<&'static Row> {
    FAULTS.iter().filter(|fault| swept.trials.iter().any(|trial| trial.fault.name == fault.name)).collect()
}

/// What stands above the rows, and stays there.
fn heading(columns: &[&Row], lanes: &Lanes) -> String {
    let faults = columns.iter().map(|fault| format!("<b title=\"{}\">{}</b>", escaped(fault.does), escaped(fault.name)));
    let faults: String = faults.collect();
    format!(
        "<div class=\"top line\"><span></span>{}{}<span class=\"cells\">{faults}</span></div>\n",
        lanes.heading(),
        lane::key()
    )
}

/// An outcome's letter: the class that gives it its colour and its sign.
fn letter(outcome: Option<Outcome>) -> &'static str {
    match outcome {
        None => "x",
        Some(Outcome::Untouched) => "u",
        Some(Outcome::Recovered) => "r",
        Some(Outcome::Failed) => "f",
        Some(Outcome::Broken) => "b",
    }
}
