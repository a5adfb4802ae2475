//! Repeated entries. They can be folded in the picture of a long run.

use std::collections::BTreeMap;

use crate::report::line::Tone;

use super::entries::{EntryShape, PictureEntry};
use super::lanes::Placement;

/// A run with at most this many entries is shown in full.
const SHORT: usize = 70;
/// A message is routine if its kind is sent more often than the first number; any other entry is
/// routine if its kind occurs more often than the second number.
const OFTEN: (usize, usize) = (2, 6);
/// If more entries than this remain, any entry that occurs twice is routine too.
const STILL_LONG: usize = 500;

/// Whether a run is long enough to be folded.
pub fn is_long(count: usize) -> bool {
    count > SHORT
}

/// Returns which of these entries are routine.
pub fn routine(entries: &[PictureEntry]) -> Vec<bool> {
    let mut kinds: BTreeMap<(Placement, String), usize> = BTreeMap::new();
    let kind = |entry: &PictureEntry| (entry.placement, kind(&entry.text));
    entries.iter().for_each(|entry| *kinds.entry(kind(entry)).or_default() += 1);
    let of = |often: (usize, usize)| -> Vec<bool> {
        let is_routine = |entry: &PictureEntry| match entry.shape {
            EntryShape::Broken(_) | EntryShape::Fault => false,
            _ if entry.tone == Tone::Schedule => kinds[&kind(entry)] > 2 * often.1,
            EntryShape::Message(_) => kinds[&kind(entry)] > often.0,
            _ => kinds[&kind(entry)] > often.1,
        };
        entries.iter().map(is_routine).collect()
    };
    let routine = of(OFTEN);
    let remains = routine.iter().filter(|routine| !**routine).count();
    if remains > STILL_LONG { of((1, 1)) } else { routine }
}

/// Returns the text with its numbers replaced, to compare entries that differ only in numbers: `n
/// s1 #`.
pub fn kind(text: &str) -> String {
    let mut kind = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '0'..='9' if kind.ends_with('#') => {}
            '0'..='9' => kind.push('#'),
            c => kind.push(c),
        }
    }
    kind
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Time;
    use crate::report::picture::lanes::Lane;

    fn message(text: String) -> PictureEntry {
        let (placement, title) = (Placement::Right(Lane(0)), String::new());
        PictureEntry {
            at: Time(0),
            placement,
            text,
            title,
            tone: Tone::Plain,
            shape: EntryShape::Message(0),
        }
    }

    #[test]
    fn entries_that_differ_only_in_numbers_are_alike() {
        assert_eq!(kind("process/read p12 after 40"), "process/read p# after #");
        let mut entries: Vec<_> = (0..5).map(|n| message(format!("n s1 {n}"))).collect();
        entries.push(message("welcome".into()));
        assert_eq!(routine(&entries), [true, true, true, true, true, false]);
    }
}
