//! The vertical layout: it gives every row a height and every text a line, so that no two texts
//! overlap.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::Time;
use crate::report::line::Tone;

use super::arrows::fate;
use super::axis::{Axis, Band, Moment, PictureRow, rows};
use super::entries::{EntryShape, PictureEntry};
use super::lanes::{HostLanes, Placement, Zone};
use super::messages::Journey;
use super::routine::{is_long, kind, routine};
use super::streams::{Cell, Column};

/// The height of a line of text.
pub const LINE: i32 = 17;
/// The space between two rows.
const PAD: i32 = 5;
/// The height of a row without text, in which only an arrow ends.
const BARE: i32 = 10;
/// The height of a row of idle time.
const IDLE: i32 = 26;
/// At least this many similar entries at one moment are drawn as one.
const BURST: usize = 5;
/// The maximum number of entries in the hover text of a combined entry.
const LISTED: usize = 24;
/// The maximum number of kinds of entries that a fold shows per placement.
const KINDS: usize = 4;

/// A row with its position.
#[derive(Debug)]
pub struct Placed {
    /// The content of the row.
    pub row: PictureRow,
    /// The times of its first and last moments.
    pub span: (Time, Time),
    /// Its upper and lower edges.
    pub edges: (i32, i32),
    /// Whether its time is shown.
    pub timed: bool,
    /// The texts.
    pub notes: Vec<SheetNote>,
    /// The cells of the stream columns: the column, the y position in pixels, and the cell.
    pub cells: Vec<(usize, i32, Cell)>,
}

/// A text with its position.
#[derive(Debug)]
pub struct SheetNote {
    /// The y position of the middle of its first line.
    pub y: i32,
    /// The placement of the text.
    pub placement: Placement,
    /// The lines.
    pub lines: Vec<String>,
    /// The hover text.
    pub title: String,
    /// The kind of the text, for its colour.
    pub tone: Tone,
    /// The drawing of the entry.
    pub mark: NoteMark,
}

/// The drawing of a note, in addition to its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoteMark {
    /// The shape of its only entry.
    One(EntryShape),
    /// One arrow for several messages of a fold that had the same fate as this one.
    Many(Journey),
    /// One arrow for several messages at one moment that had the same fate as this one.
    Burst(Journey),
    /// Nothing.
    Nothing,
}

/// All rows, and the positions of all moments.
#[derive(Debug)]
pub struct Sheet {
    /// The rows, from top to bottom.
    pub rows: Vec<Placed>,
    /// Maps times to y positions.
    pub axis: Axis,
}

/// The common properties of the entries that share one note of a fold: placement, text and fate.
type Kind<'a> = (Placement, String, &'a str);

/// The input of the layout.
pub struct Contents<'a> {
    /// The lanes.
    pub lanes: &'a HostLanes,
    /// The entries to show.
    pub entries: &'a [PictureEntry],
    /// The journeys of messages.
    pub journeys: &'a BTreeMap<usize, Journey>,
    /// The columns of the streams.
    pub columns: &'a [Column],
}

impl Sheet {
    /// Lays out everything.
    pub fn set(contents: &Contents<'_>) -> Self {
        let times = contents.times();
        let routine = routine(contents.entries);
        let moments: Vec<_> = times.iter().map(|at| contents.moment(*at, &routine)).collect();
        let count = moments.iter().map(|moment| moment.weight).sum();
        let mut sheet = Self { rows: Vec::new(), axis: Axis::default() };
        let (mut top, mut bands) = (PAD, Vec::new());
        for row in rows(&moments, is_long(count)) {
            let placed = contents.place(row, &times, top);
            let (from, to) = placed.span;
            let (_, bottom) = placed.edges;
            match &placed.row {
                PictureRow::Moment(_) => {
                    bands.push(Band { from, to, first: top - 1, last: top - 1 })
                }
                PictureRow::Folded(_) => {
                    bands.push(Band { from, to, first: top + 2, last: bottom - 2 })
                }
                PictureRow::Idle(..) => {}
            }
            top = bottom + PAD;
            sheet.rows.push(placed);
        }
        sheet.axis = Axis::new(bands, top + PAD);
        sheet
    }

    /// Returns the row of a time, or the last row before it.
    pub fn row_of(&self, at: Time) -> Option<&Placed> {
        let timed =
            self.rows.iter().filter(|row| !matches!(row.row, PictureRow::Idle(..)) && row.timed);
        timed.take_while(|row| row.span.0 <= at).last()
    }
}

impl Contents<'_> {
    /// Returns all times at which something is drawn.
    fn times(&self) -> Vec<Time> {
        let occurred = self.entries.iter().map(|entry| entry.at);
        let arrived = self.journeys.values().filter_map(|journey| journey.arrival.at());
        let flowed = self.columns.iter().flat_map(|column| column.cells.keys().copied());
        occurred.chain(arrived).chain(flowed).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Returns the range of entries in this time span.
    fn among(&self, from: Time, to: Time) -> std::ops::Range<usize> {
        self.entries.partition_point(|entry| entry.at < from)
            ..self.entries.partition_point(|entry| entry.at <= to)
    }

    fn moment(&self, at: Time, routine: &[bool]) -> Moment {
        let among = self.among(at, at);
        let cells = self.columns.iter().filter_map(|column| column.cells.get(&at));
        let flows = cells.clone().all(Cell::is_routine);
        let weight = among.len() + cells.count();
        Moment { at, routine: flows && among.into_iter().all(|n| routine[n]), weight }
    }

    fn place(&self, row: PictureRow, times: &[Time], top: i32) -> Placed {
        match row {
            PictureRow::Idle(from, to) => {
                let edges = (top, top + IDLE);
                Placed {
                    row,
                    span: (from, to),
                    edges,
                    timed: false,
                    notes: Vec::new(),
                    cells: Vec::new(),
                }
            }
            PictureRow::Moment(n) => {
                let entries = &self.entries[self.among(times[n], times[n])];
                self.lined_up(row, (times[n], times[n]), self.notes_of(entries), top)
            }
            PictureRow::Folded(ref range) => {
                let span = (times[range.start], times[range.end - 1]);
                self.lined_up(row, span, self.folded(span), top)
            }
        }
    }

    /// Assigns a line to each note and each cell. The notes keep their order; a note shares the
    /// line of the previous note if there is space.
    fn lined_up(
        &self,
        row: PictureRow,
        span: (Time, Time),
        mut notes: Vec<SheetNote>,
        top: i32,
    ) -> Placed {
        let mut free: BTreeMap<Zone, usize> = BTreeMap::new();
        let (mut line, mut lines) = (0, 0);
        for note in &mut notes {
            let zone = note.placement.zone();
            let taken = match zone {
                Zone::All => lines,
                Zone::Number(_) => free
                    .get(&zone)
                    .copied()
                    .unwrap_or_default()
                    .max(free.get(&Zone::All).copied().unwrap_or_default()),
            };
            line = taken.max(line);
            note.y = top + line as i32 * LINE + LINE / 2;
            let below = line + note.lines.len().max(1);
            free.insert(zone, below);
            lines = lines.max(below);
        }
        let y = top + LINE / 2;
        let cells: Vec<_> = (self.columns.iter().enumerate())
            .filter_map(|(n, column)| Some((n, y, merged(column, span)?)))
            .collect();
        let timed = lines > 0 || !cells.is_empty();
        let lines = lines.max(usize::from(!cells.is_empty())) as i32;
        let height = if timed { lines * LINE } else { BARE };
        let extra = if matches!(row, PictureRow::Folded(_)) { LINE } else { 0 };
        notes.iter_mut().for_each(|note| note.y += extra);
        Placed { row, span, edges: (top, top + height + extra), timed, notes, cells }
    }

    /// Returns the notes of one moment: one per entry, but only one for many similar entries in a
    /// row.
    fn notes_of(&self, mut entries: &[PictureEntry]) -> Vec<SheetNote> {
        let mut notes = Vec::new();
        while let Some(first) = entries.first() {
            let alike =
                entries.iter().take_while(|entry| self.are_alike(first, entry)).count().max(1);
            if alike >= BURST {
                let of: Vec<_> = entries[..alike].iter().collect();
                let note = self.one_of(first.placement, &of);
                let mark = self
                    .journey(first)
                    .cloned()
                    .map_or(NoteMark::One(first.shape.clone()), NoteMark::Burst);
                notes.push(SheetNote { mark, ..note });
            } else {
                notes.extend(entries[..alike].iter().map(|entry| self.one(entry)));
            }
            entries = &entries[alike..];
        }
        notes
    }

    fn one(&self, entry: &PictureEntry) -> SheetNote {
        let (lines, title, mark) =
            (entry.lines(self.lanes), entry.title.clone(), NoteMark::One(entry.shape.clone()));
        SheetNote { y: 0, placement: entry.placement, lines, title, tone: entry.tone, mark }
    }

    /// Whether two entries differ only in numbers. Actions of the schedule are never alike, and
    /// messages must have the same fate.
    fn are_alike(&self, a: &PictureEntry, b: &PictureEntry) -> bool {
        let alike = match (self.journey(a), self.journey(b)) {
            (Some(a), Some(b)) => (a.conn, a.from, fate(a)) == (b.conn, b.from, fate(b)),
            _ => {
                a.shape == b.shape
                    && matches!(a.shape, EntryShape::Dot(_))
                    && a.tone != Tone::Schedule
            }
        };
        alike && a.placement == b.placement && kind(&a.text) == kind(&b.text)
    }

    /// Returns the notes of a fold: the number of entries of each kind.
    fn folded(&self, span: (Time, Time)) -> Vec<SheetNote> {
        let mut kinds: Vec<(Kind<'_>, Vec<&PictureEntry>)> = Vec::new();
        for entry in &self.entries[self.among(span.0, span.1)] {
            let kind = (entry.placement, kind(&entry.text), self.journey(entry).map_or("", fate));
            match kinds.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, of)) => of.push(entry),
                None => kinds.push((kind, vec![entry])),
            }
        }
        kinds.sort_by_key(|(_, of)| std::cmp::Reverse(of.len()));
        let mut used: BTreeMap<Placement, usize> = BTreeMap::new();
        let mut notes = Vec::new();
        let mut left_out: BTreeMap<Placement, usize> = BTreeMap::new();
        for ((placement, ..), of) in kinds {
            let used = used.entry(placement).or_default();
            *used += 1;
            if *used > KINDS {
                *left_out.entry(placement).or_default() += of.len();
            } else {
                notes.push(self.one_of(placement, &of));
            }
        }
        notes.extend(left_out.into_iter().map(|(placement, n)| SheetNote {
            y: 0,
            placement,
            lines: vec![format!("and {n} more")],
            title: format!("{n} of other kinds"),
            tone: Tone::Quiet,
            mark: NoteMark::Nothing,
        }));
        notes
    }

    fn journey(&self, entry: &PictureEntry) -> Option<&Journey> {
        match entry.shape {
            EntryShape::Message(n) => self.journeys.get(&n),
            _ => None,
        }
    }

    /// Returns one note for entries of one kind.
    fn one_of(&self, placement: Placement, of: &[&PictureEntry]) -> SheetNote {
        let (first, last) = (of[0], of[of.len() - 1]);
        let text = match of.len() {
            1 => first.text.clone(),
            n if first.text == last.text => format!("{n} × {}", first.text),
            n => format!("{n} × {} … {}", first.text, rest(&first.text, &last.text)),
        };
        let mark = self.journey(first).cloned().map(NoteMark::Many);
        let entry = PictureEntry { text: text.clone(), ..first.clone() };
        let mut titles: Vec<_> = of.iter().take(LISTED).map(|entry| entry.title.clone()).collect();
        titles.extend((of.len() > LISTED).then(|| format!("and {} more", of.len() - LISTED)));
        let title = titles.join("\n");
        SheetNote {
            y: 0,
            placement,
            lines: entry.lines(self.lanes),
            title,
            tone: first.tone,
            mark: mark.unwrap_or(NoteMark::Nothing),
        }
    }
}

/// Returns the rest of a text, from the first word that differs from `before`.
fn rest<'t>(before: &str, text: &'t str) -> &'t str {
    let alike = before.bytes().zip(text.bytes()).take_while(|(a, b)| a == b).count();
    let word = text.as_bytes()[..alike]
        .iter()
        .rposition(|byte| *byte == b' ')
        .map_or(0, |blank| blank + 1);
    &text[word..]
}

/// Returns a column's cells in a time span as one cell, if there are any.
fn merged(column: &Column, (from, to): (Time, Time)) -> Option<Cell> {
    let mut cells = column.cells.range(from..=to).map(|(_, cell)| cell);
    let mut merged = cells.next()?.clone();
    cells.for_each(|cell| merged.absorb(cell));
    Some(merged)
}
