//! The data produced and delivered on each stream, moment by moment.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{Ending, EventKind, History, Stream, Time};
use crate::report::items::Numbering;
use crate::report::phrases;

/// The maximum number of characters for delivered data.
const ROOM: usize = 12;

/// The data of a stream at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// The numbers of the produced items: the first and the last.
    pub produced: Option<(u64, u64)>,
    /// The number of produced bytes, if the stream is counted in bytes.
    pub bytes: usize,
    /// The delivered data, in order.
    pub delivered: Vec<Piece>,
    /// How the producer ended.
    pub ended: Option<String>,
    /// How the stream ended for its user, and whether it completed.
    pub ending: Option<(String, bool)>,
}

/// Delivered data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Consecutive items: the first and the last.
    Items(u64, u64),
    /// An item that does not follow the previous one: the previous item, and this item.
    Jump(u64, u64),
    /// A number of bytes that does not match an item of the producer.
    Bytes(usize),
}

/// The unit of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Items, as their producer wrote them.
    Items,
    /// Bytes, because the delivered pieces differ from the produced ones.
    Bytes,
}

/// The column of one stream.
#[derive(Clone, Debug)]
pub struct Column {
    /// The stream.
    pub stream: Stream,
    /// Its cells, by time.
    pub cells: BTreeMap<Time, Cell>,
    /// Whether a user opened it, so that the subject must deliver its items.
    pub opened: bool,
    /// The unit.
    pub unit: Unit,
    /// The total amounts produced and delivered.
    pub totals: (u64, u64),
}

/// Returns a column for each stream of a run with data, in order of their names.
pub fn columns(history: &History) -> Vec<Column> {
    let in_pieces = in_pieces(history);
    let mut columns: BTreeMap<&Stream, Column> = BTreeMap::new();
    let mut numbering = Numbering::default();
    let mut last: BTreeMap<&Stream, u64> = BTreeMap::new();
    for event in &history.events {
        let Some(stream) = event.what.stream() else { continue };
        let unit = if in_pieces.contains(stream) { Unit::Bytes } else { Unit::Items };
        let new = || Column {
            stream: stream.clone(),
            cells: BTreeMap::new(),
            opened: false,
            unit,
            totals: (0, 0),
        };
        let Column { cells, opened, totals, .. } = columns.entry(stream).or_insert_with(new);
        match &event.what {
            EventKind::Produced { bytes, .. } if unit == Unit::Bytes => {
                totals.0 += bytes.len() as u64;
                cells.entry(event.at).or_default().bytes += bytes.len();
            }
            EventKind::Produced { bytes, .. } => {
                numbering.produced(stream, bytes);
                totals.0 += 1;
                let produced = &mut cells.entry(event.at).or_default().produced;
                *produced = Some((produced.map_or(totals.0, |(first, _)| first), totals.0));
            }
            EventKind::Delivered { bytes, .. } if unit == Unit::Bytes => {
                totals.1 += bytes.len() as u64;
                cells.entry(event.at).or_default().add(None, 0, bytes.len());
            }
            EventKind::Delivered { bytes, .. } => {
                let item = numbering.delivered(stream, bytes);
                totals.1 += 1;
                let before = last.get(stream).copied().unwrap_or_default();
                cells.entry(event.at).or_default().add(item, before, bytes.len());
                last.extend(item.map(|item| (stream, item)));
            }
            EventKind::Opened { .. } => *opened = true,
            EventKind::Ended { outcome, .. } => {
                cells.entry(event.at).or_default().ended = Some(outcome.to_string())
            }
            EventKind::StreamEnded { ending, .. } => {
                let ending = (phrases::ending(ending), matches!(ending, Ending::Completed { .. }));
                if !cells.values().any(|cell| cell.ending.as_ref() == Some(&ending)) {
                    cells.entry(event.at).or_default().ending = Some(ending);
                }
            }
            _ => {}
        }
    }
    columns.into_values().filter(|column| column.totals != (0, 0)).collect()
}

/// Returns the streams with a delivered piece that matches no item of the producer.
fn in_pieces(history: &History) -> BTreeSet<&Stream> {
    let mut numbering = Numbering::default();
    let mut found = BTreeSet::new();
    for event in &history.events {
        match &event.what {
            EventKind::Produced { stream, bytes } => numbering.produced(stream, bytes),
            EventKind::Delivered { stream, bytes, .. }
                if !found.contains(stream) && numbering.delivered(stream, bytes).is_none() =>
            {
                found.insert(stream);
            }
            _ => {}
        }
    }
    found
}

impl Cell {
    /// Adds a delivery after the item with the number `before`.
    fn add(&mut self, item: Option<u64>, before: u64, bytes: usize) {
        let piece = match (item, self.delivered.last_mut()) {
            (Some(n), Some(Piece::Items(_, last))) if n == *last + 1 => {
                *last = n;
                return;
            }
            (Some(n), _) if n == before + 1 => Piece::Items(n, n),
            (Some(n), _) => Piece::Jump(before, n),
            (None, Some(Piece::Bytes(many))) => {
                *many += bytes;
                return;
            }
            (None, _) => Piece::Bytes(bytes),
        };
        self.delivered.push(piece);
    }

    /// Whether the cell contains nothing unusual.
    pub fn is_routine(&self) -> bool {
        self.ended.is_none()
            && self.ending.is_none()
            && !self.delivered.iter().any(|piece| matches!(piece, Piece::Jump(..)))
    }

    /// Returns the produced items as text.
    pub fn produced_text(&self) -> String {
        let items = match self.produced {
            Some((first, last)) => range(first, last),
            None if self.bytes > 0 => bytes(self.bytes as u64),
            None => String::new(),
        };
        let end = self.ended.as_ref().map_or("", |_| "end");
        [items.as_str(), end]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Returns the delivered items as text, with marks for errors. If there is no space for all
    /// items, returns the first wrong one.
    pub fn delivered_text(&self) -> String {
        let text = |piece: &Piece| match piece {
            Piece::Items(first, last) => range(*first, *last),
            Piece::Jump(_, item) => format!("{item} ✖"),
            Piece::Bytes(many) => bytes(*many as u64),
        };
        let ending =
            self.ending.as_ref().map(|(_, well)| if *well { "end ✔" } else { "failed" }.to_owned());
        let all = self.delivered.iter().map(text).chain(ending).collect::<Vec<_>>().join(", ");
        let wrong = self.delivered.iter().find(|piece| matches!(piece, Piece::Jump(..)));
        match wrong.or(self.delivered.first()).filter(|_| all.chars().count() > ROOM) {
            Some(piece) => format!("{} …", text(piece)),
            None => all,
        }
    }

    /// Returns a description of this moment in sentences.
    pub fn title(&self, stream: &Stream) -> String {
        let mut parts = Vec::new();
        parts.extend(self.produced.map(|(first, last)| format!("produced {}", items(first, last))));
        parts.extend((self.bytes > 0).then(|| format!("produced {} bytes", self.bytes)));
        parts.extend(self.delivered.iter().map(|piece| match piece {
            Piece::Items(first, last) => format!("delivered {}", items(*first, *last)),
            Piece::Jump(0, item) => format!("delivered item {item} first"),
            Piece::Jump(before, item) => format!("delivered item {item} after item {before}"),
            Piece::Bytes(bytes) => format!("delivered {bytes} bytes"),
        }));
        parts.extend(self.ended.as_ref().map(|outcome| format!("its producer ended, {outcome}")));
        parts.extend(self.ending.as_ref().map(|(ending, _)| ending.clone()));
        format!("{stream}: {}", parts.join("; "))
    }

    /// Adds the data of a later moment, for several moments that are shown as one.
    pub fn absorb(&mut self, later: &Cell) {
        self.produced = match (self.produced, later.produced) {
            (Some((first, _)), Some((_, last))) => Some((first, last)),
            (a, b) => a.or(b),
        };
        self.bytes += later.bytes;
        for piece in &later.delivered {
            match (self.delivered.last_mut(), piece) {
                (Some(Piece::Items(_, last)), Piece::Items(first, to)) if *first == *last + 1 => {
                    *last = *to
                }
                (Some(Piece::Bytes(many)), Piece::Bytes(more)) => *many += more,
                _ => self.delivered.push(*piece),
            }
        }
        self.ended = self.ended.take().or_else(|| later.ended.clone());
        self.ending = later.ending.clone().or_else(|| self.ending.take());
    }
}

/// Returns a number of bytes in short form.
pub fn bytes(many: u64) -> String {
    match many {
        0..10_000 => format!("{many} B"),
        10_000..10_000_000 => format!("{} kB", many / 1_000),
        _ => format!("{} MB", many / 1_000_000),
    }
}

fn range(first: u64, last: u64) -> String {
    if first == last { first.to_string() } else { format!("{first}–{last}") }
}

fn items(first: u64, last: u64) -> String {
    if first == last { format!("item {first}") } else { format!("items {first} to {last}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::story::tests::a_gap;

    #[test]
    fn a_jump_is_shown_at_its_moment() {
        let (_, history, _) = a_gap();
        let columns = columns(&history);
        let [column] = &columns[..] else { panic!("one stream: {columns:?}") };
        assert_eq!(column.totals, (60, 41));
        let cell = &column.cells[&Time(4231)];
        assert_eq!(cell.delivered, [Piece::Jump(40, 42)]);
        assert_eq!((cell.delivered_text().as_str(), cell.is_routine()), ("42 ✖, end ✔", false));
        assert_eq!(
            cell.title(&column.stream),
            "s1: delivered item 42 after item 40; completed, total 60"
        );
    }

    #[test]
    fn several_cells_merge_into_one() {
        let mut all = Cell::default();
        for n in 1..=3 {
            let mut cell = Cell { produced: Some((n, n)), ..Cell::default() };
            cell.add(Some(n), n - 1, 1);
            all.absorb(&cell);
        }
        assert_eq!((all.produced_text().as_str(), all.delivered_text().as_str()), ("1–3", "1–3"));
    }
}
