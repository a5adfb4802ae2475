//! The delivered items of a stream as ranges: `items 1 to 41, then 43`.
//!
//! An item's number is its position in the producer's output. A client may deliver pieces that
//! differ from the producer's items; such a piece has no number and is only counted.

use std::collections::BTreeMap;
use std::fmt;

use crate::history::{Content, Stream, Time};

/// Finds the numbers of delivered items.
#[derive(Default)]
pub struct Numbering<'a> {
    streams: BTreeMap<&'a Stream, Produced<'a>>,
}

#[derive(Default)]
struct Produced<'a> {
    items: Vec<&'a Content>,
    next: usize,
}

impl<'a> Numbering<'a> {
    /// Adds an item that a producer wrote.
    pub fn produced(&mut self, stream: &'a Stream, bytes: &'a Content) {
        self.streams.entry(stream).or_default().items.push(bytes);
    }

    /// Returns the number, from 1, of a delivered item: the next item if it is equal, else the
    /// first later item that is equal, else the last earlier item that is equal.
    pub fn delivered(&mut self, stream: &Stream, bytes: &Content) -> Option<u64> {
        let produced = self.streams.get_mut(stream)?;
        let next = produced.next.min(produced.items.len());
        let (before, after) = produced.items.split_at(next);
        let later = after.iter().position(|item| *item == bytes).map(|at| next + at);
        let found = later.or_else(|| before.iter().rposition(|item| *item == bytes))?;
        produced.next = found + 1;
        Some(found as u64 + 1)
    }
}

/// Items in the order of their delivery.
#[derive(Default)]
pub struct Items {
    /// Ranges of consecutive numbers: first and last.
    runs: Vec<(u64, u64)>,
    unnumbered: u64,
    count: u64,
    last: Time,
}

impl Items {
    /// Adds a delivered item.
    pub fn add(&mut self, item: Option<u64>, at: Time) {
        self.count += 1;
        self.last = at;
        match (item, self.runs.last_mut()) {
            (None, _) => self.unnumbered += 1,
            (Some(n), Some((_, last))) if n == *last + 1 => *last = n,
            (Some(n), _) => self.runs.push((n, n)),
        }
    }
}

/// The maximum number of ranges to list.
const RUNS: usize = 4;

impl fmt::Display for Items {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs: Vec<_> = self
            .runs
            .iter()
            .take(RUNS)
            .map(|(a, b)| if a == b { a.to_string() } else { format!("{a} to {b}") })
            .collect();
        if !runs.is_empty() {
            let several = self.runs.len() > 1 || self.runs[0].0 != self.runs[0].1;
            write!(f, "{} {}", if several { "items" } else { "item" }, runs.join(", then "))?;
        }
        if self.runs.len() > RUNS {
            write!(f, ", …")?;
        }
        if self.unnumbered > 0 {
            let also = if runs.is_empty() { "" } else { ", and " };
            write!(
                f,
                "{also}{} with other boundaries than the producer used",
                super::phrases::count(self.unnumbered, "piece")
            )?;
        }
        if self.count > 1 { write!(f, ", until {}", self.last) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items_text(produced: &[&'static str], delivered: &[&'static str]) -> String {
        let stream = Stream::from("s1");
        let produced: Vec<_> = produced.iter().map(|item| Content::from(*item)).collect();
        let (mut numbering, mut items) = (Numbering::default(), Items::default());
        produced.iter().for_each(|item| numbering.produced(&stream, item));
        for (n, item) in delivered.iter().enumerate() {
            let item = numbering.delivered(&stream, &Content::from(*item));
            items.add(item, Time(n as u64));
        }
        items.to_string()
    }

    #[test]
    fn items_in_order_are_one_range() {
        assert_eq!(items_text(&["a", "b", "c"], &["a", "b", "c"]), "items 1 to 3, until 0.002 s");
        assert_eq!(items_text(&["a", "b", "c"], &["a"]), "item 1");
    }

    #[test]
    fn a_gap_a_duplicate_and_a_foreign_item_are_seen() {
        assert_eq!(items_text(&["a", "b", "c"], &["a", "c"]), "items 1, then 3, until 0.001 s");
        assert_eq!(
            items_text(&["a", "b", "c"], &["a", "b", "b", "c"]),
            "items 1 to 2, then 2 to 3, until 0.003 s"
        );
        assert_eq!(
            items_text(&["a"], &["a", "x"]),
            "item 1, and 1 piece with other boundaries than the producer used, until 0.001 s"
        );
    }

    #[test]
    fn equal_items_are_numbered_by_their_order() {
        assert_eq!(items_text(&["a", "a", "a"], &["a", "a", "a"]), "items 1 to 3, until 0.002 s");
    }
}
