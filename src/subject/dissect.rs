//! Dissectors find where the messages of one direction of a connection end, and label them.
//!
//! reknit ships [`LineMessages`], and `WebSocket` behind the feature `websocket`.

#[cfg(feature = "websocket")]
mod websocket;

#[cfg(feature = "websocket")]
pub use websocket::WebSocket;

/// Reads the bytes of one direction of a connection.
pub trait Dissector: Send {
    /// Reads the next bytes and returns the messages that end in them.
    fn feed(&mut self, bytes: &[u8]) -> Vec<Message>;
}

/// A message that a dissector found.
#[derive(Clone, Debug)]
pub struct Message {
    /// The position in the direction, in bytes, at which the message ends.
    pub end: u64,
    /// The label shown to a person: `process/read p1 after 40`.
    pub label: Label,
}

/// The label of a message: known, or built from the first bytes of the message when it is shown.
/// Labels are built lazily because a hunt counts messages by the million, and shows few of them.
#[derive(Clone, Debug)]
pub enum Label {
    /// A label that is already known.
    Known(String),
    /// A label to be built from the first bytes of the message.
    Made {
        /// The first bytes of the message.
        begin: Vec<u8>,
        /// The function that builds the label.
        by: fn(&[u8]) -> String,
    },
}

impl Label {
    /// Returns the label as text.
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

/// A dissector for messages that are lines of text. The label of a message is the line itself,
/// shortened.
#[derive(Debug, Default)]
pub struct LineMessages {
    read: u64,
    line: Vec<u8>,
}

/// The maximum length of a label that is built from a line, in bytes.
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
