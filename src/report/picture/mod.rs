//! The picture of a run as a page: one self-contained HTML file.
//!
//! Each host is a lane, and time runs downwards. The page needs no scripts and no network; hovering
//! shows details. Like the story, it is a pure function of the plan, the history and the
//! violations, and uses the same texts.
//!
//! - `entries`: the entries of the history to show. `streams`: produced and delivered data.
//!   `messages`: the journeys of messages.
//! - `routine`: repeated entries. `axis`: maps times to positions; idle time and long routine
//!   stretches are folded.
//! - `lanes`: the horizontal layout. `sheet`: the vertical layout of rows and texts.
//! - `ribbons`, `spans`, `arrows`, `texts`: connections, faults, messages, and texts.
//! - `strip`: an overview of the run at the edge. `head`, `legend`: the parts around the drawing.
//!   `markup`: elements and escaping.

use crate::history::History;
use crate::property::Violation;
use crate::schedule::Plan;

mod arrows;
mod axis;
mod entries;
mod head;
pub(super) mod lanes;
mod legend;
pub(super) mod markup;
mod messages;
mod ribbons;
mod routine;
mod sheet;
mod spans;
mod streams;
mod strip;
#[cfg(test)]
mod tests;
mod texts;

use arrows::Arrow;
use lanes::HostLanes;
use legend::LegendSource;
use markup::{Drawing, escaped};
use sheet::{Contents, NoteMark, Sheet};

/// The style sheets: for every page of this crate, and for this page.
pub(super) const BASE: &str = include_str!("../base.css");
const STYLE: &str = include_str!("picture.css");

/// The maximum number of streams with a column at the side. Streams with violations come first.
const STREAMS: usize = 12;

/// A run to draw. Messages are shown if the history is [detailed](crate::world::Detail::Full).
#[derive(Clone, Copy, Debug)]
pub struct Picture<'a> {
    /// The plan that was run.
    pub plan: &'a Plan,
    /// The history of the run.
    pub history: &'a History,
    /// The violations, if any.
    pub broken: &'a [Violation],
    /// The command that replays this run.
    pub replay: &'a str,
}

/// Renders the page.
pub fn html(picture: &Picture<'_>) -> String {
    let Picture { plan, history, broken, .. } = *picture;
    let lanes = HostLanes::of(plan, history);
    let journeys = messages::journeys(history);
    let entries = entries::entries(plan, history, broken, &lanes, &journeys);
    let mut columns = streams::columns(history);
    columns
        .sort_by_key(|column| !broken.iter().any(|broken| broken.stream() == Some(&column.stream)));
    let left_out = columns.len().saturating_sub(STREAMS);
    columns.truncate(STREAMS);
    let sheet = Sheet::set(&Contents {
        lanes: &lanes,
        entries: &entries,
        journeys: &journeys,
        columns: &columns,
    });
    let (conn_ribbons, spans) = (ribbons::conn_ribbons(history), spans::faults(history));

    let mut drawing = Drawing::default();
    texts::draw_background(&mut drawing, &lanes, &columns, &sheet);
    ribbons::draw(&mut drawing, history, &lanes, &sheet.axis, &conn_ribbons);
    spans::draw(&mut drawing, history, &lanes, &sheet.axis, &spans);
    spans::draw_lanes(&mut drawing, history, &lanes, &sheet.axis);
    ribbons::draw_ticks(&mut drawing, plan, history, &lanes, &sheet.axis);
    let notes = sheet.rows.iter().flat_map(|row| &row.notes);
    let shown = notes.filter_map(|note| match &note.mark {
        NoteMark::One(entries::EntryShape::Message(n)) => Some((note, journeys.get(n)?, false)),
        NoteMark::Burst(journey) => Some((note, journey, true)),
        _ => None,
    });
    for (nth, (note, journey, many)) in shown.enumerate() {
        let arrow = Arrow { journey, y: note.y, many, nth, title: &note.title };
        arrows::draw(&mut drawing, history, &lanes, &sheet.axis, &arrow);
    }
    texts::draw(&mut drawing, history, &lanes, &columns, &sheet);

    let seen = LegendSource {
        history,
        journeys: journeys.values().collect(),
        spans: &spans,
        sheet: &sheet,
        broke: !broken.is_empty(),
    };
    let class = if lanes.are_many() { "run wide" } else { "run" };
    let (wide, high) = (texts::width(&lanes, &columns), sheet.axis.bottom());
    let more = match left_out {
        0 => String::new(),
        n => format!("<p class=\"about\">{n} more streams have no column here</p>\n"),
    };
    let parts = [
        spans::hatches(),
        strip::strip(history, &sheet, &conn_ribbons, &spans, broken),
        head::head(picture),
        legend::legend(&seen),
        more,
        head::story(picture),
        "<main>\n".to_owned(),
        texts::heading(&lanes, &columns),
        format!(
            "<svg class=\"{class}\" width=\"{wide}\" height=\"{high}\" viewBox=\"0 0 {wide} {high}\">\n"
        ),
        drawing.markup(),
        "</svg>\n</main>\n".to_owned(),
        head::folded(&entries, &sheet),
    ];
    page(&head::title(picture), STYLE, &parts.concat())
}

/// Returns a self-contained page, without scripts and without external resources.
pub(super) fn page(title: &str, style: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{}</title>\n<style>\n{BASE}{style}</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
        escaped(title)
    )
}
