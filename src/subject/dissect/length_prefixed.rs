//! A dissector for messages that begin with their length.

use super::{Dissector, LABEL, Message, text_or_length};

/// The form of the length in front of each message: an unsigned integer that counts the bytes behind
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LengthFormat {
    /// One byte.
    U8,
    /// Two bytes, the most significant first.
    U16,
    /// Four bytes, the most significant first.
    U32,
    /// Two bytes, the least significant first.
    U16Le,
    /// Four bytes, the least significant first.
    U32Le,
}

impl LengthFormat {
    fn bytes(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::U16 | Self::U16Le => 2,
            Self::U32 | Self::U32Le => 4,
        }
    }

    /// Reads the length from all its bytes.
    fn read(self, bytes: &[u8]) -> u64 {
        let add = |length: u64, byte: &u8| length << 8 | u64::from(*byte);
        match self {
            Self::U8 | Self::U16 | Self::U32 => bytes.iter().fold(0, add),
            Self::U16Le | Self::U32Le => bytes.iter().rev().fold(0, add),
        }
    }
}

/// A dissector for messages with their length in front, as `tokio_util`'s `LengthDelimitedCodec`
/// writes them. The label of a message is its text, shortened, or its length if it is no text. The
/// length in front does not count.
///
/// ```
/// use reknit::subject::{Dissector, LengthPrefixed, LengthFormat};
///
/// let mut dissector = LengthPrefixed::new(LengthFormat::U16);
/// let found = dissector.feed(b"\0\x05hello\0\x03\x01\x02\x03");
/// let labels: Vec<_> = found.into_iter().map(|it| (it.end, it.label.text())).collect();
/// assert_eq!(labels, [(7, "hello".into()), (12, "3 bytes".into())]);
/// ```
#[derive(Debug)]
pub struct LengthPrefixed {
    prefix: LengthFormat,
    read: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The part of the length that has arrived.
    Length(Vec<u8>),
    /// The first bytes of a message with this length, of which so many are missing.
    Message { begin: Vec<u8>, length: u64, missing: u64 },
}

impl LengthPrefixed {
    /// A dissector for lengths of this form.
    pub fn new(prefix: LengthFormat) -> Self {
        Self { prefix, read: 0, state: State::Length(Vec::new()) }
    }
}

impl Dissector for LengthPrefixed {
    fn feed(&mut self, mut bytes: &[u8]) -> Vec<Message> {
        let mut messages = Vec::new();
        while let [first, rest @ ..] = bytes {
            match &mut self.state {
                State::Length(prefix) => {
                    prefix.push(*first);
                    (self.read, bytes) = (self.read + 1, rest);
                    if prefix.len() == self.prefix.bytes() {
                        let length = self.prefix.read(prefix);
                        let begin = Vec::new();
                        self.state = State::Message { begin, length, missing: length };
                    }
                }
                State::Message { begin, missing, .. } => {
                    let here =
                        usize::try_from(*missing).map_or(bytes.len(), |n| n.min(bytes.len()));
                    let (own, rest) = bytes.split_at(here);
                    begin.extend(own.iter().take(LABEL - begin.len()));
                    *missing -= here as u64;
                    (self.read, bytes) = (self.read + here as u64, rest);
                }
            }
            if let State::Message { begin, length, missing: 0 } = &mut self.state {
                let label = text_or_length(std::mem::take(begin), *length);
                messages.push(Message { end: self.read, label });
                self.state = State::Length(Vec::new());
            }
        }
        messages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(prefix: LengthFormat, pieces: &[&[u8]]) -> Vec<(u64, String)> {
        let mut dissector = LengthPrefixed::new(prefix);
        let found = pieces.iter().flat_map(|piece| dissector.feed(piece));
        Vec::from_iter(found.map(|message| (message.end, message.label.text())))
    }

    #[test]
    fn a_message_may_come_in_pieces_of_one_byte() {
        let bytes = b"\0\0\0\x02hi\0\0\0\0\0\0\0\x01!";
        let pieces: Vec<&[u8]> = bytes.chunks(1).collect();
        let expected = [(6, "hi".into()), (10, String::new()), (15, "!".into())];
        assert_eq!(labels(LengthFormat::U32, &pieces), expected);
        assert_eq!(labels(LengthFormat::U32, &[bytes]), expected);
    }

    #[test]
    fn each_form_of_length_is_read() {
        assert_eq!(labels(LengthFormat::U8, &[b"\x01a"]), [(2, "a".into())]);
        assert_eq!(labels(LengthFormat::U16Le, &[b"\x01\0a"]), [(3, "a".into())]);
        assert_eq!(labels(LengthFormat::U32Le, &[b"\x01\0\0\0a"]), [(5, "a".into())]);
        let long = [b"\x01\x00".as_slice(), &[b'a'; 256]].concat();
        assert_eq!(labels(LengthFormat::U16, &[&long]), [(258, "a".repeat(LABEL))]);
    }
}
