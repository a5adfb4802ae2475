//! Dissectors: where the messages of one direction of a connection end, and what they are called.
//!
//! [`LineMessages`] ships, and `WebSocket` behind the feature `websocket`.

#[cfg(feature = "websocket")]
mod websocket;

#[cfg(feature = "websocket")]
pub use websocket::WebSocket;

/// Reads the bytes of one direction of a connection.
pub trait Dissector: Send {
    /// Reads the next bytes; returns the messages that end in them.
    fn feed(&mut self, bytes: &[u8]) -> Vec<Message>;
}

/// A message that a dissector found.
#[derive(Clone, Debug)]
pub struct Message {
    /// How many bytes of the direction had been read when it ended.
    pub end: u64,
    /// What a person calls it: `process/read p1 after 40`.
    pub label: Label,
}

/// What a person calls a message: known, or made of the message's begin where somebody wants to read it. A hunt counts
/// messages by the million, and shows a few.
#[derive(Clone, Debug)]
pub enum Label {
    /// It is called this.
    Known(String),
    /// It is called what is made of its begin.
    Made {
        /// How the message begins.
        begin: Vec<u8>,
        /// What makes the label.
        by: fn(&[u8]) -> String,
    },
}

impl Label {
    /// The label, as text.
    pub fn text(self) -> String {
        match self {
            Self::Known(label) => label,
            Self::Made { begin, by } => by(&begin),
        }
    }
}

impl From<String> for Label {
    fn from(label: String) -> Self {
        Self::Known(label)
    }
}

/// Messages that are lines of text: each is its own label, shortened.
#[derive(Debug, Default)]
pub struct LineMessages {
    read: u64,
    line: Vec<u8>,
}

/// The longest label that is made of a line, in bytes.
const LABEL: usize = 60;

impl Dissector for LineMessages {
    fn feed(&mut self, bytes: &[u8]) -> Vec<Message> {
        let mut messages = Vec::new();
        for &byte in bytes {
            self.read += 1;
            if byte == b'\n' {
                let label = Label::Made { begin: std::mem::take(&mut self.line), by: of_line };
                messages.push(Message { end: self.read, label });
            } else if self.line.len() < LABEL {
                self.line.push(byte);
            }
        }
        messages
    }
}

fn of_line(line: &[u8]) -> String {
    String::from_utf8_lossy(line).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_may_come_in_pieces() {
        let mut lines = LineMessages::default();
        assert!(lines.feed(b"n 1").is_empty());
        let found = lines
            .feed(b" 5\r\nping\nn")
            .into_iter()
            .map(|message| (message.end, message.label.text()));
        assert_eq!(Vec::from_iter(found), [(7, "n 1 5".to_owned()), (12, "ping".to_owned())]);
    }
}
