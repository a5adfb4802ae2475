//! How the fault `tamper` changes the answers of a server.
//!
//! The fault refuses nothing: the head of an answer does not show whether it belongs to a start, and a
//! client that repeats a start that was carried out runs the command twice.

use crate::schedule::Tampering;
use crate::subject::{Dissector, Label, Message};
use reknit_sse::wire::header;

/// The length of the line end that follows the bytes of a chunk.
const LINE_END: u64 = 2;

/// The number of a run that no server has had.
const ANOTHER: &str = "00000000000000cd";

/// Returns what a client receives instead of a message of its server.
pub(super) fn tamper(how: Tampering, message: &[u8]) -> Option<Vec<u8>> {
    let is_event = message.windows(6).any(|word| word == b"\"eid\":");
    match how {
        Tampering::Drop if is_event => Some(Vec::new()),
        Tampering::Repeat if is_event => Some([message, message].concat()),
        Tampering::Misname => misnamed(message),
        Tampering::Drop | Tampering::Repeat | Tampering::Refuse => None,
    }
}

/// Returns a head that names another run.
fn misnamed(head: &[u8]) -> Option<Vec<u8>> {
    let head = std::str::from_utf8(head).ok()?;
    let epoch = header::EPOCH;
    let (before, after) = head.split_once(epoch)?;
    let (_, after) = after.split_once("\r\n")?;
    Some(format!("{before}{epoch}: {ANOTHER}\r\n{after}").into_bytes())
}

/// A dissector for HTTP answers: each head, each chunk and each body of a known length is a message. A body
/// that lasts until the connection closes is a message without an end.
#[derive(Debug, Default)]
pub(super) struct HttpAnswers {
    read: u64,
    state: State,
    /// The bytes of the current line.
    line: Vec<u8>,
    /// The body that the current head announces.
    body: Body,
}

/// The part of an answer that is read next.
#[derive(Clone, Copy, Debug, Default)]
enum State {
    /// The lines of a head.
    #[default]
    Head,
    /// The line with the size of a chunk.
    Size,
    /// Bytes of a body or a chunk; `chunked` if the line with the next size follows.
    Bytes { left: u64, chunked: bool },
    /// The lines behind the last chunk.
    Trailer,
    /// A body that lasts until the connection closes.
    Rest,
}

/// The body that a head announces.
#[derive(Clone, Copy, Debug, Default)]
enum Body {
    #[default]
    UntilClose,
    Chunks,
    Bytes(u64),
}

impl Dissector for HttpAnswers {
    fn feed(&mut self, bytes: &[u8]) -> Vec<Message> {
        let ends = bytes.iter().filter_map(|byte| {
            self.read += 1;
            let label = self.byte(*byte)?;
            Some(Message { end: self.read, label: Label::Known(label.to_owned()) })
        });
        ends.collect()
    }
}

impl HttpAnswers {
    /// Processes a byte. Returns the label of the message that ends with it.
    fn byte(&mut self, byte: u8) -> Option<&'static str> {
        if let State::Bytes { left, chunked } = self.state {
            let left = left - 1;
            self.state = match (left, chunked) {
                (0, true) => State::Size,
                (0, false) => State::Head,
                _ => State::Bytes { left, chunked },
            };
            return (left == 0).then_some(if chunked { "events" } else { "body" });
        }
        self.line.push(byte);
        if byte != b'\n' {
            return None;
        }
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line).trim().to_ascii_lowercase();
        self.line_ends(&line)
    }

    fn line_ends(&mut self, line: &str) -> Option<&'static str> {
        match self.state {
            State::Head if line.is_empty() => {
                self.state = match std::mem::take(&mut self.body) {
                    Body::Chunks => State::Size,
                    Body::Bytes(0) => State::Head,
                    Body::Bytes(left) => State::Bytes { left, chunked: false },
                    Body::UntilClose => State::Rest,
                };
                return Some("head");
            }
            State::Head => match line.split_once(':') {
                Some(("transfer-encoding", _)) => self.body = Body::Chunks,
                Some(("content-length", length)) => {
                    self.body = length.trim().parse().map_or(Body::UntilClose, Body::Bytes);
                }
                _ => {}
            },
            State::Size => {
                self.state = match u64::from_str_radix(line, 16) {
                    Ok(0) => State::Trailer,
                    Ok(size) => match size.checked_add(LINE_END) {
                        Some(left) => State::Bytes { left, chunked: true },
                        None => State::Rest,
                    },
                    Err(_) => State::Rest,
                };
            }
            State::Trailer if line.is_empty() => {
                self.state = State::Head;
                return Some("end");
            }
            State::Trailer | State::Bytes { .. } | State::Rest => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        "HTTP/1.1 200 OK\r\nx-reknit-epoch: 00000000000000ab\r\ntransfer-encoding: chunked\r\n\r\n";
    const CHUNK: &str = "26\r\n{\"eid\":1,\"type\":\"stdout\",\"text\":\"a\"}\n\n\r\n";

    #[test]
    fn heads_chunks_and_bodies_are_messages() {
        let fixed = "HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nabc";
        let text = [HEAD, CHUNK, "0\r\n\r\n", fixed, HEAD].concat();
        for piece in [1, 7, text.len()] {
            let mut dissector = HttpAnswers::default();
            let pieces = text.as_bytes().chunks(piece);
            let found: Vec<_> = pieces.flat_map(|piece| dissector.feed(piece)).collect();
            let starts = [0].into_iter().chain(found.iter().map(|message| message.end as usize));
            let ends = found.iter().map(|message| message.end as usize);
            let parts: Vec<_> = starts.zip(ends).map(|(from, to)| &text[from..to]).collect();
            let (head, body) = fixed.split_at(fixed.len() - 3);
            assert_eq!(parts, [HEAD, CHUNK, "0\r\n\r\n", head, body, HEAD]);
        }
    }

    #[test]
    fn what_follows_an_invalid_size_is_no_message() {
        for size in ["ffffffffffffffff", "fffffffffffffffe", "x"] {
            let text = format!("{HEAD}{size}\r\nab\r\n");
            let found = HttpAnswers::default().feed(text.as_bytes());
            assert_eq!(found.len(), 1, "the head");
        }
    }

    #[test]
    fn events_are_dropped_and_repeated_and_heartbeats_pass() {
        assert_eq!(tamper(Tampering::Drop, CHUNK.as_bytes()), Some(Vec::new()));
        let twice = tamper(Tampering::Repeat, CHUNK.as_bytes());
        assert_eq!(twice, Some([CHUNK, CHUNK].concat().into_bytes()));
        let heartbeat = b"1a\r\n{\"type\":\"ping\",\"text\":\"\"}\n\n\r\n";
        for how in [Tampering::Drop, Tampering::Repeat, Tampering::Refuse, Tampering::Misname] {
            assert_eq!(tamper(how, heartbeat), None);
        }
    }

    #[test]
    fn a_head_names_another_run() {
        let changed = tamper(Tampering::Misname, HEAD.as_bytes());
        assert_eq!(changed, Some(HEAD.replace("00000000000000ab", ANOTHER).into_bytes()));
    }
}
