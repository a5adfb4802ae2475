//! The strip at the edge: the whole run at the height of the window, for overview and navigation.

use crate::history::History;
use crate::property::Violation;

use super::lanes::BARS;
use super::markup::escaped;
use super::ribbons::{ConnectionRibbon, colour};
use super::sheet::{Placed, Sheet};
use super::spans::{PictureSpan, class};

/// The number of link targets.
const PLACES: i32 = 48;

/// Returns the markup of the strip.
pub fn strip(
    history: &History,
    sheet: &Sheet,
    conn_ribbons: &[ConnectionRibbon],
    spans: &[PictureSpan],
    broken: &[Violation],
) -> String {
    let whole = sheet.axis.bottom().max(1);
    let part = |y: i32| f64::from(y) * 100.0 / f64::from(whole);
    let piece = |class: &str, left: usize, top: i32, bottom: i32| {
        let (top, height) = (part(top), part(bottom - top).max(0.3));
        format!(
            "<i class=\"{class}\" style=\"left:{left}px;top:{top:.2}%;height:{height:.2}%\"></i>"
        )
    };
    let mut markup = String::from("<nav class=\"strip\" aria-label=\"The whole run\">");
    for ribbon in conn_ribbons {
        let (from, to) =
            (sheet.axis.y(ribbon.opened), sheet.axis.y(ribbon.over.0.max(ribbon.over.1)));
        markup += &piece(
            &format!("bar {}", colour(history, ribbon.conn)),
            4 + 6 * ribbon.slot.min(BARS),
            from,
            to,
        );
    }
    for span in spans {
        markup += &piece(class(span.nature), 0, sheet.axis.y(span.from), sheet.axis.y(span.to));
    }
    markup += &links(sheet, part);
    for (n, broken) in broken.iter().enumerate() {
        let row = sheet.row_of(broken.at).map_or(0, |row| row.edges.1);
        let title = escaped(&format!("{} breaks at {}", broken.property, broken.at));
        markup += &format!(
            "<a class=\"broke\" href=\"#broken-{n}\" style=\"top:{:.2}%\" title=\"{title}\">✖</a>",
            part(row)
        );
    }
    markup + "</nav>\n"
}

/// Returns one link for each part of the run, to the first named row in that part.
fn links(sheet: &Sheet, part: impl Fn(i32) -> f64) -> String {
    let whole = sheet.axis.bottom();
    let named: Vec<&Placed> = sheet.rows.iter().filter(|row| row.timed).collect();
    let places = (0..PLACES).filter_map(|n| {
        let (top, bottom) = (whole * n / PLACES, whole * (n + 1) / PLACES);
        let row = named.iter().find(|row| row.edges.0 >= top).or(named.last())?;
        let (at, top, height) = (row.span.0, part(top), part(bottom - top));
        Some(format!(
            "<a href=\"#t{}\" style=\"top:{top:.2}%;height:{height:.2}%\" title=\"{at}\"></a>",
            at.0
        ))
    });
    places.collect()
}
