//! The legend: a small sample of each kind of mark in the drawing.

use crate::history::{EventKind, History, Nature};

use super::axis::PictureRow;
use super::markup::{Drawing, escaped, spot};
use super::messages::{Arrival, Journey};
use super::sheet::Sheet;
use super::spans::{PictureSpan, class};

/// The number of generations with a separate sample.
const GENERATIONS: u64 = 4;

/// The input of the legend.
pub struct LegendSource<'a> {
    /// The history of the run.
    pub history: &'a History,
    /// The journeys of its messages.
    pub journeys: Vec<&'a Journey>,
    /// The faults.
    pub spans: &'a [PictureSpan],
    /// The rows.
    pub sheet: &'a Sheet,
    /// Whether a property was violated.
    pub broke: bool,
}

impl LegendSource<'_> {
    fn any(&self, of: impl Fn(&Journey) -> bool) -> bool {
        self.journeys.iter().any(|journey| of(journey))
    }

    fn event(&self, of: impl Fn(&EventKind) -> bool) -> bool {
        self.history.events.iter().any(|event| of(&event.what))
    }

    fn fault(&self, nature: Nature) -> bool {
        self.spans.iter().any(|span| span.nature == nature)
    }
}

/// Renders the legend.
pub fn legend(seen: &LegendSource<'_>) -> String {
    let mut samples = vec![sample(
        "time goes down; a moment is a row, so distances are not durations",
        |parts| {
            parts.path(&[spot(20, 0), spot(20, 16)], "lane");
            parts.disc(spot(20, 8), 4, "dot");
        },
    )];
    let generations =
        seen.history.conns.iter().filter_map(|conn| conn.generation).max().unwrap_or_default();
    for generation in 1..=generations.min(GENERATIONS) {
        samples.push(sample(&format!("connection of generation {generation}"), |parts| {
            parts.group(&format!("ribbon g{generation}"), "", |parts| {
                parts.rect(spot(5, 1), spot(35, 15), "band");
                parts.rect(spot(0, 1), spot(5, 15), "bar");
                parts.rect(spot(35, 1), spot(40, 15), "bar");
            });
        }));
    }
    if seen.history.conns.iter().any(|conn| conn.generation.is_none()) {
        samples.push(sample("connection without a generation", |parts| {
            parts.group("ribbon g0", "", |parts| parts.rect(spot(0, 1), spot(5, 15), "bar"));
        }));
    }
    let arrow = |class: &str, text: &str, ends: bool| {
        sample(text, |parts| {
            parts.group(&format!("message g1 {class}"), "", |parts| {
                parts.path(&[spot(1, 4), spot(if ends { 34 } else { 22 }, 10)], "way");
                match ends {
                    true => parts.surface(&[spot(40, 11), spot(31, 6), spot(29, 13)], "head"),
                    false => parts.cross(spot(24, 10), 5, "cross"),
                }
            });
        })
    };
    let kinds: [(bool, &str, &str, bool); 4] = [
        (
            seen.any(|of| of.arrival.at().is_some() && of.held.is_none()),
            "delivered",
            "message, sent and delivered",
            true,
        ),
        (seen.any(|of| of.held.is_some()), "waited", "held on its way by a fault", true),
        (seen.any(|of| of.arrival == Arrival::Lost), "lost", "lost, never delivered", false),
        (
            seen.any(|of| matches!(of.arrival, Arrival::Late(_))),
            "late",
            "late: a newer generation was up",
            true,
        ),
    ];
    samples.extend(
        kinds
            .into_iter()
            .filter(|(is, ..)| *is)
            .map(|(_, class, text, ends)| arrow(class, text, ends)),
    );
    let natures = [
        (Nature::Kills, "fault that kills connections"),
        (Nature::Slows, "fault that slows or holds"),
        (Nature::Harmless, "other fault"),
    ];
    for (nature, text) in natures.into_iter().filter(|(nature, _)| seen.fault(*nature)) {
        samples.push(sample(text, |parts| {
            parts.group(class(nature), "", |parts| parts.rect(spot(0, 1), spot(40, 15), "area"));
        }));
    }
    if seen.event(|what| matches!(what, EventKind::Point { held: true, .. })) {
        samples.push(sample("a task is held here", |parts| {
            parts.group("held", "", |parts| parts.rect(spot(16, 0), spot(24, 16), "area"));
        }));
    }
    if seen.event(|what| matches!(what, EventKind::Died { .. })) {
        samples.push(sample("the host is down", |parts| {
            parts.group("down", "", |parts| {
                parts.rect(spot(16, 0), spot(24, 16), "area");
                parts.cross(spot(20, 8), 5, "way");
            });
        }));
    }
    if seen.sheet.rows.iter().any(|row| matches!(row.row, PictureRow::Folded(_))) {
        samples
            .push(sample("routine, folded", |parts| parts.rect(spot(0, 1), spot(40, 15), "fold")));
    }
    if seen.broke {
        samples.push(sample("a property is violated here", |parts| {
            parts.rect(spot(0, 1), spot(40, 15), "broke")
        }));
    }
    format!("<ul class=\"legend\">{}</ul>\n", samples.concat())
}

fn sample(text: &str, draw: impl FnOnce(&mut Drawing)) -> String {
    let mut drawing = Drawing::default();
    draw(&mut drawing);
    format!(
        "<li><svg width=\"40\" height=\"16\" aria-hidden=\"true\">{}</svg>{}</li>",
        drawing.markup(),
        escaped(text)
    )
}
