//! The bytes of an item, stored compactly in a history.
//!
//! The outside world pads the data whose length the scenario sets: lines of processes, bodies of
//! responses. A long run may print ten megabytes. Its history has each byte twice, as produced and
//! as delivered, and the control run has a further copy. Nearly all of these bytes are [`PADDING`].
//! Long runs of padding are therefore stored as slices of one static page, which all items share.
//! All other bytes are stored unchanged.
//!
//! The split into pieces is not visible from outside: [`Content`] is compared by its bytes,
//! [`Content::reading`] reads it without a copy, and [`Content::whole`] returns it in one piece.

use std::borrow::Cow;
use std::fmt;
use std::slice;

use bytes::{Buf, BufMut, Bytes};

/// The byte with which the outside world pads data to a required length.
pub const PADDING: u8 = b'.';

/// The page that all runs of padding share.
static PAGE: [u8; 64 * 1024] = [PADDING; 64 * 1024];

/// The minimum length of an item that is split. Shorter items are stored unchanged.
const LONG: usize = 512;

/// The minimum length of a run of padding that becomes a separate piece: a piece has a cost, too.
const RUN: usize = 256;

/// The bytes of an item.
#[derive(Clone)]
pub struct Content(Kept);

#[derive(Clone)]
enum Kept {
    Whole(Bytes),
    /// No piece is empty.
    Pieces {
        pieces: Box<[Bytes]>,
        len: usize,
    },
}

impl Content {
    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        match &self.0 {
            Kept::Whole(bytes) => bytes.len(),
            Kept::Pieces { len, .. } => *len,
        }
    }

    /// Whether the content is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all bytes in one piece. An item with padding is reassembled into a new buffer.
    pub fn whole(&self) -> Cow<'_, [u8]> {
        match &self.0 {
            Kept::Whole(bytes) => Cow::Borrowed(bytes),
            Kept::Pieces { len, .. } => {
                let mut whole = Vec::with_capacity(*len);
                whole.put(self.reading());
                Cow::Owned(whole)
            }
        }
    }

    /// Returns a reader that starts at the first byte.
    pub fn reading(&self) -> Reading<'_> {
        let pieces = match &self.0 {
            Kept::Whole(bytes) => slice::from_ref(bytes),
            Kept::Pieces { pieces, .. } => pieces,
        };
        Reading { pieces, read: 0, left: self.len() }
    }
}

/// Converts anything that converts to [`Bytes`].
impl<T: Into<Bytes>> From<T> for Content {
    fn from(item: T) -> Self {
        let item = item.into();
        let pieces = if item.len() < LONG { Vec::new() } else { cut(&item) };
        if pieces.is_empty() {
            return Self(Kept::Whole(item));
        }
        Self(Kept::Pieces { pieces: pieces.into(), len: item.len() })
    }
}

/// Splits an item that has long runs of padding into pieces; returns none if it has no such run.
/// The bytes between the runs are copied: a slice would keep the whole buffer of the item alive.
fn cut(item: &[u8]) -> Vec<Bytes> {
    let mut pieces = Vec::new();
    // The search has reached `at`; the bytes before `plain` are already in pieces.
    let (mut at, mut plain) = (0, 0);
    // A long run that begins in the next `RUN` bytes covers the last of them, so it is enough to
    // look at that byte.
    while let Some(last) = item.get(at + RUN - 1) {
        if *last != PADDING {
            at += RUN;
            continue;
        }
        let begin = at
            + item[at..at + RUN]
                .iter()
                .rposition(|byte| *byte != PADDING)
                .map_or(0, |before| before + 1);
        let run = same_start(&item[begin..], &PAGE);
        at = begin + run;
        if run >= RUN {
            pieces.extend((plain < begin).then(|| Bytes::copy_from_slice(&item[plain..begin])));
            pieces.push(Bytes::from_static(&PAGE[..run]));
            plain = at;
        }
    }
    if !pieces.is_empty() && plain < item.len() {
        pieces.push(Bytes::copy_from_slice(&item[plain..]));
    }
    pieces
}

/// Returns the length of the common prefix of two texts.
fn same_start(here: &[u8], there: &[u8]) -> usize {
    const BLOCK: usize = 64;
    let blocks = here.as_chunks::<BLOCK>().0.iter().zip(there.as_chunks::<BLOCK>().0);
    let before = BLOCK * blocks.take_while(|(here, there)| here == there).count();
    before
        + here[before..]
            .iter()
            .zip(&there[before..])
            .take_while(|(here, there)| here == there)
            .count()
}

/// Compares the bytes, regardless of the split into pieces.
impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        self.reading() == other.reading()
    }
}

impl Eq for Content {}

/// Formats the content like [`Bytes`].
impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Bytes::from(self.whole().into_owned()).fmt(f)
    }
}

/// The unread rest of a [`Content`]: a [`Buf`] that is cheap to copy and does not copy the data.
#[derive(Clone, Copy)]
pub struct Reading<'a> {
    /// The pieces that are not completely read.
    pieces: &'a [Bytes],
    /// How many bytes of the first piece are read.
    read: usize,
    /// How many bytes are left in total.
    left: usize,
}

impl Reading<'_> {
    /// Skips this many bytes and returns the rest.
    ///
    /// # Panics
    ///
    /// If fewer bytes are left.
    #[must_use]
    pub fn skip(mut self, bytes: usize) -> Self {
        self.advance(bytes);
        self
    }

    /// Returns the length of the common prefix of two readers.
    pub fn same_start(mut self, mut other: Self) -> usize {
        let before = self.left;
        loop {
            let (here, there) = (self.chunk(), other.chunk());
            let (same, shorter) = (same_start(here, there), here.len().min(there.len()));
            self.advance(same);
            other.advance(same);
            if same < shorter || shorter == 0 {
                return before - self.left;
            }
        }
    }

    /// Whether the unread bytes start with all unread bytes of `other`.
    pub fn starts_with(self, other: Self) -> bool {
        self.same_start(other) == other.left
    }
}

/// Compares the unread bytes.
impl PartialEq for Reading<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.left == other.left && self.starts_with(*other)
    }
}

impl Eq for Reading<'_> {}

impl Buf for Reading<'_> {
    fn remaining(&self) -> usize {
        self.left
    }

    fn chunk(&self) -> &[u8] {
        self.pieces.first().map_or(&[], |piece| &piece[self.read..])
    }

    fn advance(&mut self, bytes: usize) {
        assert!(bytes <= self.left, "{bytes} bytes are read of {} that are left", self.left);
        self.left -= bytes;
        self.read += bytes;
        while let Some((first, others)) =
            self.pieces.split_first().filter(|(first, _)| first.len() <= self.read)
        {
            self.read -= first.len();
            self.pieces = others;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Text with padding: `("1 p1", 300)` is a text and 300 bytes of padding.
    fn item(parts: &[(&str, usize)]) -> Vec<u8> {
        parts
            .iter()
            .flat_map(|(text, padding)| [text.as_bytes(), &vec![PADDING; *padding]].concat())
            .collect()
    }

    fn pieces(content: &Content) -> &[Bytes] {
        match &content.0 {
            Kept::Whole(bytes) => slice::from_ref(bytes),
            Kept::Pieces { pieces, .. } => pieces,
        }
    }

    /// How many bytes of an item are not in the shared page.
    fn own(content: &Content) -> usize {
        let own =
            pieces(content).iter().filter(|piece| !PAGE.as_ptr_range().contains(&piece.as_ptr()));
        own.map(Bytes::len).sum()
    }

    /// The same bytes as one piece.
    fn uncut(item: &[u8]) -> Content {
        Content(Kept::Whole(Bytes::copy_from_slice(item)))
    }

    /// The same bytes in pieces of this size.
    fn cut_at_every(size: usize, item: &[u8]) -> Content {
        Content(Kept::Pieces {
            pieces: item.chunks(size).map(Bytes::copy_from_slice).collect(),
            len: item.len(),
        })
    }

    #[test]
    fn content_returns_the_original_bytes_and_stores_padding_once() {
        let page = PAGE.len();
        for (parts, kept) in [
            (&[][..], 0),
            (&[("42", 0)], 2),
            (&[("short", LONG - 6)], LONG - 1),
            (&[("", LONG)], 0),
            (&[("1 p1/stdout", 1_000), ("\n", 0)], 12),
            (&[("", 1_000), ("end", 0)], 3),
            (&[("begin", 1_000)], 5),
            (
                &[("a run that is too short", RUN - 1), ("and one that is not", RUN), ("b", 0)],
                RUN - 1 + 43,
            ),
            (
                &[("many", RUN), ("long", 900), ("runs", 3), ("in one", 2 * page), ("x", RUN - 1)],
                4 + 4 + 13 + RUN,
            ),
            (&[("", page)], 0),
            (&[("longer than the page by a run", page + RUN), ("\n", 0)], 30),
            (&[("a probe", RUN - 1 - 7), ("after another", RUN), ("end", 0)], RUN - 1 + 13 + 3),
            (&[("longer than the page", page + 1), ("\n", 0)], 20 + 1 + 1),
            (&[("much longer", 100 * page - 1)], 11),
        ] {
            let item = item(parts);
            let content = Content::from(item.clone());
            assert!(*content.whole() == *item, "{parts:?}");
            assert_eq!(
                (content.len(), content.is_empty()),
                (item.len(), item.is_empty()),
                "{parts:?}"
            );
            assert_eq!(own(&content), kept, "{parts:?}");
        }
    }

    #[test]
    fn a_run_is_found_wherever_it_begins() {
        for begin in 0..=2 * RUN {
            let with = |run| {
                Content::from(["x".repeat(begin), ".".repeat(run), "x".repeat(LONG)].concat())
            };
            assert_eq!(own(&with(RUN)), begin + LONG, "at {begin}");
            assert_eq!(own(&with(RUN - 1)), begin + RUN - 1 + LONG, "at {begin}");
        }
    }

    #[test]
    fn other_bytes_in_long_runs_are_no_padding() {
        assert_eq!(own(&Content::from("-".repeat(5_000))), 5_000);
    }

    #[test]
    fn the_pieces_of_a_long_item_do_not_keep_its_buffer_alive() {
        let item = Bytes::from(item(&[("1 p1/stdout", 5_000), ("\n", 0)]));
        let content = Content::from(item.clone());
        assert!(item.is_unique(), "{content:?}");
    }

    #[test]
    fn contents_with_different_pieces_are_equal() {
        let item = item(&[("1 p1/stdout", 1_000), ("\n", 0)]);
        for other in [uncut(&item), cut_at_every(1, &item), cut_at_every(1_000, &item)] {
            assert_eq!(Content::from(item.clone()), other);
        }
        let mut wrong = item.clone();
        wrong[700] = b'x';
        for different in [&wrong[..], &item[..1_011], &[&item[..], b"\n"].concat(), b""] {
            assert_ne!(Content::from(item.clone()), uncut(different));
            assert_ne!(uncut(different), Content::from(item.clone()));
        }
    }

    #[test]
    fn a_common_start_is_found_across_the_borders_of_pieces() {
        let item = item(&[("1 p1/stdout", 1_000), ("\n", 0)]);
        let content = Content::from(item.clone());
        for different in [0, 10, 11, 12, 500, 1_010, 1_011] {
            let mut other = item.clone();
            other[different] = b'x';
            for other in [uncut(&other), cut_at_every(7, &other), Content::from(other.clone())] {
                assert_eq!(content.reading().same_start(other.reading()), different);
                let from = different.min(9);
                assert_eq!(
                    content.reading().skip(from).same_start(other.reading().skip(from)),
                    different - from
                );
            }
        }
        for shorter in [0, 5, 11, 700, 1_012] {
            let other = cut_at_every(11, &item[..shorter]);
            assert_eq!(content.reading().same_start(other.reading()), shorter);
            assert_eq!(other.reading().same_start(content.reading()), shorter);
            assert!(content.reading().starts_with(other.reading()));
            assert_eq!(other.reading().starts_with(content.reading()), shorter == item.len());
        }
    }

    #[test]
    fn padding_is_shown_as_any_other_bytes() {
        let item = item(&[("1 p1/stdout", 600), ("\n", 0)]);
        assert_eq!(
            format!("{:?}", Content::from(item.clone())),
            format!("{:?}", Bytes::from(item))
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

        #[test]
        fn any_item_comes_out_as_it_came_in(parts in prop::collection::vec(("[a.]{0,20}", 0..3 * RUN), 0..6), from in any::<prop::sample::Index>()) {
            let parts: Vec<_> = parts.iter().map(|(text, padding)| (&**text, *padding)).collect();
            let item = item(&parts);
            let content = Content::from(item.clone());
            prop_assert_eq!(&*content.whole(), &*item);
            prop_assert!(pieces(&content).iter().all(|piece| !piece.is_empty()) || item.is_empty());
            let from = from.index(item.len() + 1);
            let mut rest = Vec::new();
            rest.put(content.reading().skip(from));
            prop_assert_eq!(&*rest, &item[from..]);
        }
    }
}
