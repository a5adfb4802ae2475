//! Dissectors: where the messages of one direction of a connection end, and what they are called.
//!
//! [`Lines`] and [`WebSocket`] ship.

mod websocket;

pub use websocket::WebSocket;

/// Reads the bytes of one direction of a connection.
pub trait Dissector: Send {
    /// Reads the next bytes; returns the messages that end in them.
    fn feed(&mut self, bytes: &[u8]) -> Vec<Message>;
}

/// A message that a dissector found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// How many bytes of the direction had been read when it ended.
    pub end: u64,
    /// What a person calls it: `process/read p1 after 40`.
    pub label: String,
}

/// Messages that are lines of text: each is its own label, shortened.
#[derive(Debug, Default)]
pub struct Lines {
    read: u64,
    line: Vec<u8>,
}

/// The longest label that is made of a line, in bytes.
const LABEL: usize = 60;

impl Dissector for Lines {
    fn feed(&mut self, bytes: &[u8]) -> Vec<Message> {
        let mut messages = Vec::new();
        for &byte in bytes {
            self.read += 1;
            if byte == b'\n' {
                let label = String::from_utf8_lossy(&self.line).trim_end().to_owned();
                messages.push(Message { end: self.read, label });
                self.line.clear();
            } else if self.line.len() < LABEL {
                self.line.push(byte);
            }
        }
        messages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_may_come_in_pieces() {
        let mut lines = Lines::default();
        assert_eq!(lines.feed(b"n 1"), []);
        let found = lines.feed(b" 5\r\nping\nn");
        assert_eq!(found, [Message { end: 7, label: "n 1 5".into() }, Message { end: 12, label: "ping".into() }]);
    }
}
