//! The texts of the drawing: times, notes on lanes, pauses, folds, and stream cells at the side.

use crate::history::{History, Time};
use crate::report::line::Tone;
use crate::report::phrases;

use super::axis::PictureRow;
use super::entries::EntryShape;
use super::lanes::HostLanes;
use super::markup::{Alignment, Drawing, spot};
use super::ribbons::colour;
use super::sheet::{LINE, NoteMark, Placed, Sheet, SheetNote};
use super::streams::{Cell, Column, Piece, Unit, bytes};
use super::{arrows, markup::escaped};

/// The width of a stream's column.
const COLUMN: i32 = 96;
/// The distance from the last zone to the first column.
const GAP: i32 = 12;

/// Returns the x position of the middle of a stream's column.
pub fn column_x(lanes: &HostLanes, n: usize) -> i32 {
    lanes.room().1 + GAP + n as i32 * COLUMN + COLUMN / 2
}

/// Returns the total width.
pub fn width(lanes: &HostLanes, columns: &[Column]) -> i32 {
    lanes.room().1 + GAP + columns.len() as i32 * COLUMN + GAP
}

/// Draws the background: idle time, folds, and violations.
pub fn draw_background(
    drawing: &mut Drawing,
    lanes: &HostLanes,
    columns: &[Column],
    sheet: &Sheet,
) {
    let right = width(lanes, columns);
    for (n, _) in columns.iter().enumerate() {
        let x = column_x(lanes, n) - COLUMN / 2;
        drawing.rect(spot(x + 3, 0), spot(x + COLUMN - 3, sheet.axis.bottom()), "column");
    }
    for row in &sheet.rows {
        let (top, bottom) = row.edges;
        match row.row {
            PictureRow::Idle(from, to) => {
                drawing.rect(spot(0, top), spot(right, bottom), "idle");
                let middle = spot(lanes.times(), (top + bottom) / 2 + 4);
                drawing.text(middle, Alignment::Ends, "pause", &format!("… {}", pause(from, to)));
            }
            PictureRow::Folded(_) => {
                drawing.rect(spot(0, top - 1), spot(right, bottom + 1), "fold")
            }
            PictureRow::Moment(_) => {}
        }
        for note in row
            .notes
            .iter()
            .filter(|note| matches!(note.mark, NoteMark::One(EntryShape::Broken(_))))
        {
            let (top, height) = (note.y - LINE / 2 - 1, note.lines.len() as i32 * LINE + 2);
            drawing.rect(spot(0, top), spot(right, top + height), "broke");
        }
    }
}

/// Returns a pause as text, rounded to tenths of a second below two minutes.
fn pause(from: Time, to: Time) -> String {
    let pause = to.since(from);
    if pause.as_secs() < 120 {
        format!("{:.1} s", pause.as_secs_f64())
    } else {
        phrases::span(pause)
    }
}

/// Draws all texts.
pub fn draw(
    drawing: &mut Drawing,
    history: &History,
    lanes: &HostLanes,
    columns: &[Column],
    sheet: &Sheet,
) {
    for row in sheet.rows.iter().filter(|row| row.timed) {
        draw_times(drawing, lanes, row);
        for note in &row.notes {
            draw_note(drawing, history, lanes, note);
        }
        for (n, y, cell) in &row.cells {
            draw_cell(drawing, column_x(lanes, *n), *y + 4, cell, &columns[*n]);
        }
    }
}

fn draw_times(drawing: &mut Drawing, lanes: &HostLanes, row: &Placed) {
    let (from, to) = row.span;
    let (x, y) = (lanes.times(), row.edges.0 + LINE / 2 + 4);
    let name = format!("t{}", from.0);
    drawing
        .raw(&format!("<text id=\"{name}\" x=\"{x}\" y=\"{y}\" class=\"time end\">{from}</text>"));
    if let PictureRow::Folded(moments) = &row.row {
        let phrased = format!(
            "… until {to}: {} of routine, folded (list)",
            phrases::count(moments.len() as u64, "moment")
        );
        let phrased = escaped(&phrased);
        let x = lanes.room().0;
        drawing.raw(&format!(
            "<a href=\"#fold-{}\"><text x=\"{x}\" y=\"{y}\" class=\"unfold\">{phrased}</text></a>\n",
            from.0
        ));
    }
}

fn draw_note(drawing: &mut Drawing, history: &History, lanes: &HostLanes, note: &SheetNote) {
    let (x, alignment) = lanes.set(note.placement);
    let class = match note.mark {
        NoteMark::One(EntryShape::Message(_)) | NoteMark::Many(_) | NoteMark::Burst(_) => {
            "label".to_owned()
        }
        NoteMark::One(EntryShape::Fault) => "word".to_owned(),
        NoteMark::One(EntryShape::Opens(_, conn)) => format!("opens {}", colour(history, conn)),
        _ => "note".to_owned(),
    };
    let class = class.as_str();
    if let NoteMark::One(EntryShape::Broken(n)) = note.mark {
        drawing.raw(&format!("<a id=\"broken-{n}\"></a>"));
    }
    if let NoteMark::Many(journey) = &note.mark {
        arrows::draw_many(drawing, history, lanes, journey, note.y);
    }
    drawing.group(&format!("{class} {}", tone(note.tone)), &note.title, |parts| {
        match &note.mark {
            NoteMark::One(EntryShape::Dot(lane)) => {
                parts.disc(spot(lanes.x(*lane), note.y), 4, "dot")
            }
            NoteMark::One(EntryShape::Opens(lane, _)) => {
                parts.disc(spot(lanes.x(*lane), note.y), 4, "dot")
            }
            _ => {}
        }
        let baseline = if class == "label" { 2 } else { 4 };
        for (n, line) in note.lines.iter().enumerate() {
            let y = note.y + baseline + n as i32 * LINE;
            parts.text(spot(x, y), alignment, "", line);
        }
    });
}

fn tone(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "plain",
        Tone::Schedule => "schedule",
        Tone::Good => "good",
        Tone::Bad => "bad",
        Tone::Broken => "broken",
        Tone::Quiet => "quiet",
    }
}

fn draw_cell(drawing: &mut Drawing, x: i32, y: i32, cell: &Cell, column: &Column) {
    let wrong = cell.delivered.iter().any(|piece| matches!(piece, Piece::Jump(..)));
    let failed = cell.ending.as_ref().is_some_and(|(_, well)| !well);
    let class = if wrong || failed { "cell wrong" } else { "cell" };
    drawing.group(class, &cell.title(&column.stream), |parts| {
        let (produced, delivered) = (cell.produced_text(), cell.delivered_text());
        if !produced.is_empty() {
            parts.text(spot(x - 6, y), Alignment::Ends, "", &produced);
        }
        if !delivered.is_empty() {
            parts.text(spot(x + 6, y), Alignment::Begins, "got", &delivered);
        }
    });
}

/// Renders the names of lanes and streams, which stay visible while scrolling.
pub fn heading(lanes: &HostLanes, columns: &[Column]) -> String {
    let mut drawing = Drawing::default();
    for (lane, host) in lanes.hosts() {
        drawing.text(spot(lanes.x(lane), 28), Alignment::Centred, "host", host.as_str());
    }
    drawing.text(spot(lanes.times(), 28), Alignment::Ends, "time", "time");
    for (n, column) in columns.iter().enumerate() {
        let x = column_x(lanes, n);
        let (produced, delivered) = column.totals;
        let (unit, short): (_, fn(u64) -> String) = match column.unit {
            Unit::Items => ("items", |n| n.to_string()),
            Unit::Bytes => ("bytes", bytes),
        };
        let title = format!(
            "{}: {produced} {unit} produced, {delivered} delivered during the run",
            column.stream
        );
        drawing.group("stream", &title, |parts| {
            parts.text(spot(x, 14), Alignment::Centred, "name", &column.stream.to_string());
            parts.text(spot(x - 4, 27), Alignment::Ends, "of", "produced");
            parts.text(spot(x + 4, 27), Alignment::Begins, "of", "delivered");
            parts.text(spot(x - 4, 40), Alignment::Ends, "of", &short(produced));
            let class = if produced == delivered || !column.opened { "of" } else { "of less" };
            let delivered = if column.opened { short(delivered) } else { "–".to_owned() };
            parts.text(spot(x + 4, 40), Alignment::Begins, class, &delivered);
        });
    }
    let wide = width(lanes, columns);
    format!(
        "<svg class=\"heading\" width=\"{wide}\" height=\"46\" viewBox=\"0 0 {wide} 46\">\n{}</svg>\n",
        drawing.markup()
    )
}
