//! The picture of a run: one self-contained HTML file, to be looked at.
//!
//! A lane a host, time downwards. Nothing in it needs a script or a network; hovering shows details. It is a pure function of
//! the plan, the history and what broke, as the story is, and tells in the same words.
//!
//! - `entries`: what of a history is told. `streams`: what was produced and delivered. `messages`: how messages fared.
//! - `routine`: what happens again and again. `axis`: from moments to places; idle time and long routine are folded.
//! - `lanes`: what stands where, across. `sheet`: rows with their heights, texts with their lines.
//! - `ribbons`, `spans`, `arrows`, `texts`: connections, faults, messages, and all that is read.
//! - `strip`: the whole at the edge. `head`, `legend`: what stands around the drawing. `markup`: what a page may hold.

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

/// How every page of this crate looks, and this one.
pub(super) const BASE: &str = include_str!("../base.css");
const STYLE: &str = include_str!("picture.css");

/// The most streams that have a column at the side; those that broke come first.
const STREAMS: usize = 12;

/// A run that is to be drawn. Messages are in it where the history is a [detailed](crate::world::Detail::Full) one.
#[derive(Clone, Copy, Debug)]
pub struct Picture<'a> {
    /// The plan that was run.
    pub plan: &'a Plan,
    /// The record of the run.
    pub history: &'a History,
    /// What broke, if anything.
    pub broken: &'a [Violation],
    /// The command that shows this run again.
    pub replay: &'a str,
}

/// The page.
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
    texts::draw_target(&mut drawing, &lanes, &columns, &sheet);
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

/// A page that stands by itself: it asks for nothing from anywhere, and runs nothing.
pub(super) fn page(title: &str, style: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{}</title>\n<style>\n{BASE}{style}</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
        escaped(title)
    )
}
