//! WebSocket frames by hand, because a library only writes valid ones.

use std::io::Cursor;

use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

/// The first byte of a complete text frame.
pub const TEXT: u8 = 0x81;
/// The first byte of a complete binary frame.
pub const BINARY: u8 = 0x82;
/// The first byte of a close frame.
pub const CLOSE: u8 = 0x88;
/// The first byte of a ping.
pub const PING: u8 = 0x89;

const MASK: [u8; 4] = [7, 1, 200, 3];

/// Encodes a frame that begins with `first` and claims `claimed` bytes, followed by `payload`.
pub fn frame(first: u8, masked: bool, claimed: u64, payload: &[u8]) -> Vec<u8> {
    let bit = if masked { 0x80 } else { 0 };
    let mut bytes = vec![first];
    match claimed {
        0..126 => bytes.push(bit | claimed as u8),
        126..0x1_0000 => {
            bytes.push(bit | 126);
            bytes.extend((claimed as u16).to_be_bytes());
        }
        _ => {
            bytes.push(bit | 127);
            bytes.extend(claimed.to_be_bytes());
        }
    }
    let start = bytes.len() + if masked { MASK.len() } else { 0 };
    if masked {
        bytes.extend(MASK);
    }
    bytes.extend(payload);
    if masked {
        mask(&mut bytes[start..], MASK);
    }
    bytes
}

/// Encodes a frame with the correct length.
pub fn whole(first: u8, masked: bool, payload: &[u8]) -> Vec<u8> {
    frame(first, masked, payload.len() as u64, payload)
}

fn mask(payload: &mut [u8], key: [u8; 4]) {
    payload.iter_mut().zip(key.iter().cycle()).for_each(|(byte, key)| *byte ^= key);
}

/// Finds messages in the output of the tested end. That end is trusted to write each message as one
/// frame.
#[derive(Default)]
pub struct Reader {
    bytes: Vec<u8>,
}

impl Reader {
    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    /// Returns the head of an HTTP message, up to its empty line, once it is complete.
    pub fn head(&mut self) -> Option<String> {
        let end = self.bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
        Some(String::from_utf8_lossy(&self.bytes.drain(..end).collect::<Vec<_>>()).into_owned())
    }

    /// Returns the next message; skips pings and other control frames.
    pub fn message(&mut self) -> Option<Vec<u8>> {
        loop {
            let mut cursor = Cursor::new(self.bytes.as_slice());
            let (header, len) =
                FrameHeader::parse(&mut cursor).expect("the tested end writes frames")?;
            let (start, len) = (
                cursor.position() as usize,
                usize::try_from(len).expect("it has a place in memory"),
            );
            if self.bytes.len() < start + len {
                return None;
            }
            let mut payload: Vec<u8> = self.bytes.drain(..start + len).skip(start).collect();
            if let Some(key) = header.mask {
                mask(&mut payload, key);
            }
            if header.opcode == OpCode::Data(Data::Text) {
                return Some(payload);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A written frame is read unchanged, for every form of the length, masked or not, and in
    /// pieces.
    #[test]
    fn a_frame_survives_a_round_trip() {
        for len in [0, 1, 125, 126, 65_535, 65_536] {
            for masked in [false, true] {
                let text = vec![b'x'; len];
                let mut reader = Reader::default();
                reader.push(&whole(PING, masked, b"skipped"));
                let bytes = whole(TEXT, masked, &text);
                let (last, before) = bytes.split_last().unwrap();
                reader.push(before);
                assert_eq!(reader.message(), None);
                reader.push(&[*last]);
                assert_eq!(reader.message(), Some(text));
            }
        }
    }

    #[test]
    fn a_head_ends_with_an_empty_line() {
        let mut reader = Reader::default();
        reader.push(b"GET / HTTP/1.1\r\nHost: s\r\n");
        assert_eq!(reader.head(), None);
        reader.push(b"\r\n\x81\x00");
        assert_eq!(reader.head().unwrap(), "GET / HTTP/1.1\r\nHost: s\r\n\r\n");
        assert_eq!(reader.message(), Some(Vec::new()));
    }
}
