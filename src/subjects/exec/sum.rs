//! The length and the digest of a stream's bytes, in which users report what they read.

use std::fmt;
use std::mem::take;

use bytes::Buf;
use serde::Serialize;

use crate::history::Digest;

/// Accumulates the bytes of a stream as they arrive. The division into pieces makes no difference.
#[derive(Default)]
pub(super) struct Sum {
    bytes: u64,
    /// The last bytes, which do not fill a word, padded with zeros.
    word: [u8; 8],
    digest: Digest,
}

impl Sum {
    /// Adds the next bytes.
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

    /// The total of all bytes so far.
    pub(super) fn total(&self) -> Total {
        let mut digest = self.digest;
        digest.number(u64::from_le_bytes(self.word));
        digest.number(self.bytes);
        Total { bytes: self.bytes, digest }
    }
}

/// A length and a digest: `340 bytes 0f3a…`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Total {
    bytes: u64,
    digest: Digest,
}

impl Total {
    /// The length in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl fmt::Display for Total {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes {}", self.bytes, self.digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(pieces: &[&str]) -> Total {
        let mut sum = Sum::default();
        pieces.iter().for_each(|piece| sum.put(piece.as_bytes()));
        sum.total()
    }

    #[test]
    fn only_the_bytes_count() {
        let whole = sum(&["sixteen bytes are two words"]);
        assert!(whole.to_string().starts_with("27 bytes "), "{whole}");
        assert_eq!(sum(&["sixteen ", "", "bytes are t", "w", "o words"]), whole);
        for other in [
            "sixteen bytes are two wordz",
            "Sixteen bytes are two words",
            "sixteen bytes are two words\0",
        ] {
            assert_ne!(sum(&[other]), whole, "{other}");
        }
        assert_eq!(sum(&["eight by", "tes"]), sum(&["eight bytes"]));
    }
}
