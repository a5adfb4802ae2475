//! What bytes of a stream come to, as a user says what it read: so many, with this digest.

use std::fmt;
use std::mem::take;

use bytes::Buf;
use serde::Serialize;

use crate::history::Digest;

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

    /// What it all comes to.
    pub(super) fn total(&self) -> Total {
        let mut digest = self.digest;
        digest.number(u64::from_le_bytes(self.word));
        digest.number(self.bytes);
        Total { bytes: self.bytes, digest }
    }
}

/// What bytes come to: `340 bytes 0f3a…`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Total {
    bytes: u64,
    digest: Digest,
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
