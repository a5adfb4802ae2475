//! Finds the WebSocket messages in one direction of a connection, and changes no byte.

use std::io::Cursor;

use bytes::{Bytes, BytesMut};
use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use super::script::End;

/// The longest message that the proxy holds back to read it.
const LONGEST_MESSAGE: usize = 64 << 20;
/// The longest HTTP head before the messages.
const LONGEST_HEAD: usize = 64 << 10;

/// A part of the stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// A message: all bytes of its frames, and the text in them.
    Message { raw: Bytes, text: Vec<u8> },
    /// Other bytes: the HTTP handshake, control frames, or a stream that is no WebSocket.
    Other(Bytes),
}

/// Reads one direction.
pub(crate) struct Frames {
    toward: End,
    state: State,
    /// Bytes of the current head or message, as far as they have arrived.
    held: BytesMut,
    /// How many of them belong to complete frames.
    parsed: usize,
    text: Vec<u8>,
    in_message: bool,
}

enum State {
    Head,
    Messages,
    /// No WebSocket, or one that cannot be read: everything is [`Part::Other`].
    Opaque,
}

impl Frames {
    pub(crate) fn new(toward: End) -> Self {
        Self {
            toward,
            state: State::Head,
            held: BytesMut::new(),
            parsed: 0,
            text: Vec::new(),
            in_message: false,
        }
    }

    /// Takes the next bytes; returns the parts that they complete.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<Part> {
        self.held.extend_from_slice(bytes);
        let mut parts = Vec::new();
        while let Some(part) = self.next() {
            parts.push(part);
        }
        parts
    }

    /// Returns the bytes that complete no part, at the end of the stream.
    pub(crate) fn rest(&mut self) -> Bytes {
        self.held.split().freeze()
    }

    fn next(&mut self) -> Option<Part> {
        match self.state {
            State::Opaque if self.held.is_empty() => None,
            State::Opaque => Some(Part::Other(self.rest())),
            State::Head => self.head(),
            State::Messages => self.frame(),
        }
    }

    fn head(&mut self) -> Option<Part> {
        let end = self.held.windows(4).position(|four| four == b"\r\n\r\n");
        let Some(end) = end else {
            return (self.held.len() > LONGEST_HEAD).then(|| self.give_up());
        };
        let head = self.held.split_to(end + 4).freeze();
        let text = String::from_utf8_lossy(&head).to_ascii_lowercase();
        let upgrades = match self.toward {
            End::Server => text.contains("upgrade: websocket"),
            End::Client => text.lines().next().is_some_and(|line| line.contains(" 101")),
        };
        self.state = if upgrades { State::Messages } else { State::Opaque };
        Some(Part::Other(head))
    }

    /// Reads frames until one completes a part.
    fn frame(&mut self) -> Option<Part> {
        loop {
            let mut cursor = Cursor::new(&self.held[self.parsed..]);
            let (header, length) = match FrameHeader::parse(&mut cursor) {
                Ok(Some(found)) => found,
                Ok(None) => return None,
                Err(_) => return Some(self.give_up()),
            };
            let start = self.parsed + cursor.position() as usize;
            // Compressed text cannot be read.
            if header.rsv1 || length > (LONGEST_MESSAGE - self.text.len()) as u64 {
                return Some(self.give_up());
            }
            let end = start + length as usize;
            if self.held.len() < end {
                return None;
            }
            self.parsed = end;
            if let OpCode::Data(kind) = header.opcode {
                self.in_message = kind != Data::Continue || self.in_message;
                let from = self.text.len();
                self.text.extend_from_slice(&self.held[start..end]);
                if let Some(key) = header.mask {
                    unmask(&mut self.text[from..], key);
                }
                if header.is_final {
                    self.in_message = false;
                    let raw = self.complete();
                    return Some(Part::Message { raw, text: std::mem::take(&mut self.text) });
                }
            } else if !self.in_message {
                return Some(Part::Other(self.complete()));
            }
        }
    }

    fn complete(&mut self) -> Bytes {
        let parsed = std::mem::take(&mut self.parsed);
        self.held.split_to(parsed).freeze()
    }

    fn give_up(&mut self) -> Part {
        self.state = State::Opaque;
        Part::Other(self.rest())
    }
}

fn unmask(text: &mut [u8], key: [u8; 4]) {
    text.iter_mut().zip(key.iter().cycle()).for_each(|(byte, key)| *byte ^= key);
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n";
    const ANSWER: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\n\r\n";

    /// The messages in a stream that arrives in pieces of `step` bytes, and all its bytes.
    fn read(toward: End, stream: &[u8], step: usize) -> (Vec<String>, Vec<u8>) {
        let mut frames = Frames::new(toward);
        let (mut texts, mut all) = (Vec::new(), Vec::new());
        for piece in stream.chunks(step) {
            for part in frames.push(piece) {
                match part {
                    Part::Message { raw, text } => {
                        texts.push(String::from_utf8(text).unwrap());
                        all.extend_from_slice(&raw);
                    }
                    Part::Other(bytes) => all.extend_from_slice(&bytes),
                }
            }
        }
        all.extend_from_slice(&frames.rest());
        (texts, all)
    }

    #[test]
    fn messages_are_found_in_any_pieces_and_no_byte_changes() {
        let mut stream = ANSWER.to_vec();
        stream.extend(b"\x81\x02hi"); // a text
        stream.extend(b"\x89\x01p"); // a ping
        stream.extend(b"\x01\x03abc\x89\x00\x80\x02de"); // a text in two frames, a ping between them
        stream.extend(b"\x82\x01b"); // a binary message
        stream.extend(b"\x81\x05unf"); // a text that does not end
        for step in [1, 2, 3, 7, 1000] {
            let (texts, all) = read(End::Client, &stream, step);
            assert_eq!(texts, ["hi", "abcde", "b"], "{step}");
            assert_eq!(all, stream, "{step}");
        }
    }

    #[test]
    fn masked_text_is_readable() {
        let mut stream = REQUEST.to_vec();
        stream.extend(b"\x81\x83\x01\x02\x03\x04");
        stream.extend([b'a' ^ 1, b'b' ^ 2, b'c' ^ 3]);
        let (texts, all) = read(End::Server, &stream, 5);
        assert_eq!((texts, all), (vec!["abc".to_owned()], stream));
    }

    #[test]
    fn other_streams_pass_at_once() {
        for stream in [
            &b"HTTP/1.1 200 OK\r\n\r\n\x81\x02hi"[..],
            b"HTTP/1.1 101 OK\r\n\r\n\xc1\x02hi", // compressed
            b"HTTP/1.1 101 OK\r\n\r\n\x81\x7f\x7f\xff\xff\xff\xff\xff\xff\xffhi", // too long
            b"HTTP/1.1 101 OK\r\n\r\n\x83\x02hi", // a reserved opcode
        ] {
            let mut frames = Frames::new(End::Client);
            let parts = frames.push(stream);
            let raw: usize = parts
                .iter()
                .map(|part| match part {
                    Part::Other(bytes) => bytes.len(),
                    Part::Message { .. } => panic!("{parts:?}"),
                })
                .sum();
            assert_eq!(raw, stream.len(), "{parts:?}");
        }
        let mut endless = Frames::new(End::Client);
        let noise = vec![b'x'; LONGEST_HEAD + 1];
        assert_eq!(endless.push(&noise), [Part::Other(noise.clone().into())]);
    }
}
