//! A dissector for WebSocket: a connection begins with an HTTP head, followed by frames.

use super::{Dissector, Label, Message};

/// How many bytes of a message are kept to build its label.
const HEAD: usize = 512;

/// The maximum length of an HTTP head. A longer one is not treated as HTTP.
const HTTP_HEAD: usize = 64 * 1024;

/// A dissector for the messages of a WebSocket, including its handshake. Ping, pong and close count
/// as messages, too.
///
/// A connection whose handshake does not request or grant a WebSocket is plain HTTP: its heads have
/// labels, its bodies have none.
pub struct WebSocket {
    read: u64,
    state: State,
    label: fn(&[u8]) -> String,
}

enum State {
    /// The part of an HTTP head that has arrived.
    Http(Vec<u8>),
    /// The part of a frame head that has arrived.
    Head(Vec<u8>, Payload),
    /// The payload of a frame.
    Body(Frame, Payload),
    /// Data in an unknown format.
    Unknown,
}

/// The head of the frame whose payload is being read.
struct Frame {
    kind: Kind,
    last: bool,
    mask: [u8; 4],
    /// How many bytes of the payload were read, and how many are missing.
    at: u64,
    missing: u64,
}

#[derive(Clone, Copy)]
enum Kind {
    Data,
    Control(&'static str),
}

/// The first bytes of a message. A message can consist of several frames.
#[derive(Default)]
struct Payload {
    head: Vec<u8>,
}

impl WebSocket {
    /// A dissector that calls `label` with the first bytes of each message (at most 512) to build
    /// its label.
    pub fn new(label: fn(&[u8]) -> String) -> Self {
        Self { read: 0, state: State::Http(Vec::new()), label }
    }

    /// Reads the next unit of input, at least one byte. Returns its length, and the label of the
    /// message that ends with it, if any.
    fn piece(&mut self, bytes: &[u8]) -> (usize, Option<Label>) {
        let length = match &self.state {
            State::Http(_) => {
                bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1)
            }
            State::Head(..) => 1,
            State::Body(frame, _) => usize::try_from(frame.missing)
                .map_or(bytes.len(), |missing| missing.min(bytes.len())),
            State::Unknown => bytes.len(),
        };
        let piece = &bytes[..length];
        let (state, label) = match std::mem::replace(&mut self.state, State::Unknown) {
            State::Http(head) => http(head, piece),
            State::Head(head, payload) => self.frame_head(head, payload, piece),
            State::Body(frame, payload) => self.frame_body(frame, payload, piece),
            State::Unknown => (State::Unknown, None),
        };
        self.state = state;
        (length, label)
    }

    fn frame_head(
        &self,
        mut head: Vec<u8>,
        payload: Payload,
        piece: &[u8],
    ) -> (State, Option<Label>) {
        head.extend(piece);
        match Frame::parse(&head) {
            None => (State::Head(head, payload), None),
            Some(frame) if frame.missing == 0 => self.ended(&frame, payload),
            Some(frame) => (State::Body(frame, payload), None),
        }
    }

    fn frame_body(
        &self,
        mut frame: Frame,
        mut payload: Payload,
        piece: &[u8],
    ) -> (State, Option<Label>) {
        if matches!(frame.kind, Kind::Data) {
            let kept = piece.iter().zip(frame.at..).take(HEAD.saturating_sub(payload.head.len()));
            payload.head.extend(kept.map(|(byte, at)| byte ^ frame.mask[(at % 4) as usize]));
        }
        frame.at += piece.len() as u64;
        frame.missing -= piece.len() as u64;
        if frame.missing == 0 {
            self.ended(&frame, payload)
        } else {
            (State::Body(frame, payload), None)
        }
    }

    fn ended(&self, frame: &Frame, payload: Payload) -> (State, Option<Label>) {
        match frame.kind {
            Kind::Control(name) => (State::Head(Vec::new(), payload), Some(name.to_owned().into())),
            Kind::Data if frame.last => {
                let label = Label::Made { begin: payload.head, by: self.label };
                (State::Head(Vec::new(), Payload::default()), Some(label))
            }
            Kind::Data => (State::Head(Vec::new(), payload), None),
        }
    }
}

/// Appends a piece, which ends at most one line, to an HTTP head.
fn http(mut head: Vec<u8>, piece: &[u8]) -> (State, Option<Label>) {
    head.extend(piece);
    if !head.ends_with(b"\r\n\r\n") {
        return (if head.len() < HTTP_HEAD { State::Http(head) } else { State::Unknown }, None);
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    let upgrades = text.to_ascii_lowercase().contains("upgrade: websocket");
    let label = text.lines().next().unwrap_or_default().to_owned();
    let state = if upgrades { State::Head(Vec::new(), Payload::default()) } else { State::Unknown };
    (state, Some(label.into()))
}

impl Frame {
    /// Parses a frame head; `None` if `head` is incomplete.
    fn parse(head: &[u8]) -> Option<Self> {
        let (first, second) = (*head.first()?, *head.get(1)?);
        let (masked, short) = (second & 0x80 != 0, second & 0x7f);
        let extended = match short {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let length = head.get(2..2 + extended)?;
        let mask = if masked { head.get(2 + extended..6 + extended)? } else { &[0; 4] };
        let missing = if extended == 0 {
            u64::from(short)
        } else {
            length.iter().fold(0, |length, byte| length << 8 | u64::from(*byte))
        };
        let kind = match first & 0x0f {
            0x8 => Kind::Control("close"),
            0x9 => Kind::Control("ping"),
            0xa => Kind::Control("pong"),
            _ => Kind::Data,
        };
        Some(Self { kind, last: first & 0x80 != 0, mask: mask.try_into().ok()?, at: 0, missing })
    }
}

impl Dissector for WebSocket {
    fn feed(&mut self, mut bytes: &[u8]) -> Vec<Message> {
        let mut messages = Vec::new();
        while !bytes.is_empty() {
            let (length, label) = self.piece(bytes);
            self.read += length as u64;
            bytes = &bytes[length..];
            messages.extend(label.map(|label| Message { end: self.read, label }));
        }
        messages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(head: &[u8]) -> String {
        String::from_utf8_lossy(head).into_owned()
    }

    const UPGRADE: &[u8] = b"GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n";

    fn found(bytes: &[u8], piece: usize) -> Vec<(u64, String)> {
        let mut dissector = WebSocket::new(text);
        let messages = bytes.chunks(piece).flat_map(|piece| dissector.feed(piece));
        messages.map(|message| (message.end, message.label.text())).collect()
    }

    #[test]
    fn messages_are_found_in_input_of_any_chunk_size() {
        let mut bytes = UPGRADE.to_vec();
        bytes.extend([0x81, 2, b'h', b'i']);
        bytes.extend([0x89, 0]);
        bytes.extend([0x81, 0x82, 1, 2, 3, 4, b'h' ^ 1, b'o' ^ 2]);
        bytes.extend([0x01, 1, b'a', 0x8a, 0, 0x80, 1, b'b']);
        let from = UPGRADE.len() as u64;
        let wanted = [
            (from, "GET / HTTP/1.1"),
            (from + 4, "hi"),
            (from + 6, "ping"),
            (from + 14, "ho"),
            (from + 19, "pong"),
            (from + 22, "ab"),
        ];
        let wanted: Vec<_> = wanted.map(|(end, label)| (end, label.to_owned())).into();
        assert_eq!(found(&bytes, bytes.len()), wanted);
        assert_eq!(found(&bytes, 1), wanted);
    }

    #[test]
    fn the_label_of_a_long_message_uses_its_first_bytes() {
        let mut bytes = UPGRADE.to_vec();
        bytes.extend([0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]);
        bytes.resize(bytes.len() + 65_536, b'x');
        let messages = found(&bytes, 1000);
        assert_eq!((messages[1].0, messages[1].1.len()), (bytes.len() as u64, HEAD));
    }

    #[test]
    fn plain_http_has_heads_only() {
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody";
        assert_eq!(found(bytes, 3), [(38, "HTTP/1.1 200 OK".to_owned())]);
    }
}
