//! Splits the bytes of a pipe into lines. One line is one event.
//!
//! The lines together are exactly the bytes of the pipe: each line keeps its end. `\n`, `\r` and
//! `\r\n` end a line. A `\r` may be the first half of `\r\n`, so it ends its line when the next byte
//! is known, or the pipe has ended. A line that exceeds the limit is split, where possible between
//! two characters.

use bytes::{Bytes, BytesMut};
use reknit_seams::defect;

/// The longest encoding of a character.
const CHARACTER: usize = 4;

/// The bytes of a pipe that are not a complete line yet.
#[derive(Debug)]
pub(super) struct Lines {
    most: usize,
    pending: BytesMut,
    /// How many of the pending bytes contain no end of a line.
    searched: usize,
}

impl Lines {
    /// Creates a splitter for events of at most `most` bytes, but at least one character.
    pub(super) fn new(most: usize) -> Self {
        Self { most: most.max(CHARACTER), pending: BytesMut::new(), searched: 0 }
    }

    /// Adds bytes of the pipe.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// Returns the next complete line.
    pub(super) fn next(&mut self) -> Option<Bytes> {
        let within = &self.pending[..self.pending.len().min(self.most)];
        let mut unsearched = within[self.searched..].iter();
        let ends = |byte: &u8| *byte == b'\n' || *byte == b'\r' && !defect!(ReturnsAreText);
        // The bug: all lines of a piece are one.
        let end = match defect!(LinesAreJoined) {
            true => unsearched.rposition(ends),
            false => unsearched.position(ends),
        };
        let length = match end.map(|end| self.searched + end) {
            Some(end) if within[end] == b'\n' => end + 1,
            Some(end) => match within.get(end + 1) {
                Some(b'\n') => end + 2,
                Some(_) => end + 1,
                None if within.len() == self.most && !defect!(ReturnAtTheLimitWaits) => end + 1,
                None => {
                    self.searched = end;
                    return None;
                }
            },
            // The bug: a line is split after as many bytes as an event may have.
            None if within.len() == self.most && defect!(SplitsCharacters) => within.len(),
            None if within.len() == self.most => whole_characters(within),
            None => {
                self.searched = within.len();
                return None;
            }
        };
        Some(self.take(length))
    }

    /// Returns what remains when the pipe has ended, after all complete lines.
    pub(super) fn rest(&mut self) -> Option<Bytes> {
        let length = self.pending.len();
        (length > 0).then(|| self.take(length))
    }

    /// Copies the line, so that it does not keep the buffer alive.
    fn take(&mut self, length: usize) -> Bytes {
        self.searched = 0;
        let line = Bytes::copy_from_slice(&self.pending[..length]);
        bytes::Buf::advance(&mut self.pending, length);
        line
    }
}

/// Returns the length of `bytes` without a character that is cut off at its end.
fn whole_characters(bytes: &[u8]) -> usize {
    let start = (1..CHARACTER).find(|back| bytes[bytes.len() - back] & 0xc0 != 0x80);
    let Some(back) = start else { return bytes.len() };
    let lead = bytes[bytes.len() - back];
    let needs = match lead {
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf7 => 4,
        _ => 1,
    };
    if back < needs { bytes.len() - back } else { bytes.len() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Feeds the pieces one after the other. Returns the lines, and the rest.
    fn split(most: usize, pieces: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut lines = Lines::new(most);
        let mut all = Vec::new();
        for piece in pieces {
            lines.feed(piece);
            all.extend(std::iter::from_fn(|| lines.next()));
        }
        all.extend(lines.rest());
        all.into_iter().map(|line| line.to_vec()).collect()
    }

    #[test]
    fn a_line_keeps_its_end() {
        assert_eq!(
            split(99, &[b"a\nb\r\n\n\rc\rd"]),
            [&b"a\n"[..], b"b\r\n", b"\n", b"\r", b"c\r", b"d"]
        );
    }

    #[test]
    fn a_carriage_return_waits_for_the_next_byte() {
        let mut lines = Lines::new(99);
        lines.feed(b"50%\r");
        assert_eq!(lines.next(), None);
        lines.feed(b"51%");
        assert_eq!(lines.next().as_deref(), Some(&b"50%\r"[..]));
        assert_eq!(split(99, &[b"a\r", b"\nb"]), [&b"a\r\n"[..], b"b"]);
    }

    #[test]
    fn a_long_line_is_split_between_characters() {
        assert_eq!(split(4, &[b"123456\n"]), [&b"1234"[..], b"56\n"]);
        assert_eq!(split(4, &["123é\n".as_bytes()]), ["123".as_bytes(), "é\n".as_bytes()]);
        assert_eq!(split(5, &["12😀\n".as_bytes()]), ["12".as_bytes(), "😀\n".as_bytes()]);
        assert_eq!(split(4, &[b"\x80\x80\x80\x80\x80"]), [&b"\x80\x80\x80\x80"[..], b"\x80"]);
        assert_eq!(
            split(4, &[b"123\r", b"\n"]),
            [&b"123\r"[..], b"\n"],
            "never more than the limit"
        );
    }

    proptest! {
        #[test]
        fn lines_are_exactly_the_bytes_and_do_not_depend_on_the_pieces(
            bytes in prop::collection::vec(prop::sample::select(b"ab\n\r\xc3\xa9\xf0".to_vec()), 0..60),
            cuts in prop::collection::vec(0..60_usize, 0..6),
            most in 0..9_usize,
        ) {
            let whole = split(most, &[&bytes]);
            prop_assert_eq!(whole.concat(), bytes.clone());
            prop_assert!(whole.iter().all(|line| (1..=most.max(CHARACTER)).contains(&line.len())));
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<_> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
            prop_assert_eq!(split(most, &pieces), whole);
        }
    }
}
