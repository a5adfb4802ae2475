//! What an item consists of, as a history keeps it.
//!
//! The outside world fills up what must have a length: lines of processes, bodies of responses. A long run may print ten megabytes
//! of them, and its history has each byte twice, as it was produced and as it was delivered, and its twin's has them again. Nearly
//! all of that is [`PADDING`]: long runs of it are kept once, for all items, as slices of one page. All else is kept as it is.
//!
//! Nobody sees how an item is cut: [`Content`] is compared by what it says, read without a copy by way of [`Content::reading`], and had
//! in one piece with [`Content::whole`].

use std::borrow::Cow;
use std::fmt;
use std::slice;

use bytes::{Buf, BufMut, Bytes};

/// With this the outside world fills up what must have a length.
pub const PADDING: u8 = b'.';

/// Where all padding is kept.
static PAGE: [u8; 64 * 1024] = [PADDING; 64 * 1024];

/// An item that is shorter is kept as it is.
const LONG: usize = 512;

/// A run that is shorter is kept with the rest: a piece costs something, too.
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
    /// How many bytes there are.
    pub fn len(&self) -> usize {
        match &self.0 {
            Kept::Whole(bytes) => bytes.len(),
            Kept::Pieces { len, .. } => *len,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All bytes in one piece; an item with padding is put together for it.
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

    /// Reads it, from its first byte on.
    pub fn reading(&self) -> Reading<'_> {
        let pieces = match &self.0 {
            Kept::Whole(bytes) => slice::from_ref(bytes),
            Kept::Pieces { pieces, .. } => pieces,
        };
        Reading { pieces, read: 0, left: self.len() }
    }
}

/// Whatever makes [`Bytes`].
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

/// The pieces of an item that has long runs of padding; none where it has not. What lies between them is copied, for else it would keep
/// the whole of the item from being given back.
fn cut(item: &[u8]) -> Vec<Bytes> {
    let mut pieces = Vec::new();
    // The item has been looked at up to `at`, and is in pieces up to `plain`.
    let (mut at, mut plain) = (0, 0);
    // Whatever long run begins in the next bytes covers the last of them.
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

/// With how many equal bytes two texts begin.
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

/// However they are cut.
impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        self.reading() == other.reading()
    }
}

impl Eq for Content {}

/// As [`Bytes`] are shown.
impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Bytes::from(self.whole().into_owned()).fmt(f)
    }
}

/// What is still to be read of a [`Content`]: a [`Buf`] that is cheap to copy, and copies nothing.
#[derive(Clone, Copy)]
pub struct Reading<'a> {
    /// The pieces that have not been read to their ends.
    pieces: &'a [Bytes],
    /// How much of the first of them has been.
    read: usize,
    /// How much is left in all.
    left: usize,
}

impl Reading<'_> {
    /// What is left after this many bytes more.
    ///
    /// # Panics
    ///
    /// If there are not so many.
    #[must_use]
    pub fn skip(mut self, bytes: usize) -> Self {
        self.advance(bytes);
        self
    }

    /// With how many equal bytes two of them begin.
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

    /// Whether it begins with all that is left of another.
    pub fn starts_with(self, other: Self) -> bool {
        self.same_start(other) == other.left
    }
}

/// By what is left.
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

    /// How many bytes an item keeps for itself.
    fn own(content: &Content) -> usize {
        let own =
            pieces(content).iter().filter(|piece| !PAGE.as_ptr_range().contains(&piece.as_ptr()));
        own.map(Bytes::len).sum()
    }

    /// The same, not cut at all.
    fn uncut(item: &[u8]) -> Content {
        Content(Kept::Whole(Bytes::copy_from_slice(item)))
    }

    /// The same, cut into pieces of this size.
    fn cut_at_every(size: usize, item: &[u8]) -> Content {
        Content(Kept::Pieces {
            pieces: item.chunks(size).map(Bytes::copy_from_slice).collect(),
            len: item.len(),
        })
    }

    #[test]
    fn what_came_in_comes_out_and_padding_is_kept_once() {
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
    fn what_is_kept_of_a_long_item_does_not_hold_the_rest_of_it() {
        let item = Bytes::from(item(&[("1 p1/stdout", 5_000), ("\n", 0)]));
        let content = Content::from(item.clone());
        assert!(item.is_unique(), "{content:?}");
    }

    #[test]
    fn contents_are_equal_however_they_are_cut() {
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
