//! What bytes of a stream come to, as a user says what it read: so many, with this digest.

use std::mem::take;

use bytes::Buf;

use crate::history::{Digest, Stream};

/// Bytes of a stream, added up as they come. How they are divided makes no difference.
#[derive(Default)]
pub(super) struct Sum {
    bytes: u64,
    /// The last of them, which do not fill a word, and zeros behind them.
    word: [u8; 8],
    digest: Digest,
}

impl Sum {
    /// Adds what comes next.
    pub(super) fn put(&mut self, mut bytes: impl Buf) {
        while bytes.has_remaining() {
            let at = (self.bytes % 8) as usize;
            let room = &mut self.word[at..];
            let many = room.len().min(bytes.remaining());
            bytes.copy_to_slice(&mut room[..many]);
            self.bytes += many as u64;
            if many == room.len() {
                self.digest.number(u64::from_le_bytes(take(&mut self.word)));
            }
        }
    }

    /// In words: `p1/stdout 340 bytes 0f3a…`.
    pub(super) fn told(&self, stream: &Stream) -> String {
        let mut digest = self.digest;
        digest.number(u64::from_le_bytes(self.word));
        digest.number(self.bytes);
        format!("{stream} {} bytes {digest}", self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(pieces: &[&str]) -> String {
        let mut sum = Sum::default();
        pieces.iter().for_each(|piece| sum.put(piece.as_bytes()));
        sum.told(&Stream::from("s"))
    }

    #[test]
    fn only_the_bytes_count() {
        let whole = sum(&["sixteen bytes are two words"]);
        assert!(whole.starts_with("s 27 bytes "), "{whole}");
        assert_eq!(sum(&["sixteen ", "", "bytes are t", "w", "o words"]), whole);
        for other in ["sixteen bytes are two wordz", "Sixteen bytes are two words", "sixteen bytes are two words\0"] {
            assert_ne!(sum(&[other]), whole, "{other}");
        }
        assert_eq!(sum(&["eight by", "tes"]), sum(&["eight bytes"]));
    }
}
