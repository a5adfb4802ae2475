//! Dissectors find where the messages of one direction of a connection end, and label them.
//!
//! reknit ships [`LineMessages`] and [`LengthPrefixed`], and `WebSocket` behind the feature `websocket`.

mod length_prefixed;
#[cfg(feature = "websocket")]
mod websocket;

#[cfg(feature = "websocket")]
pub use websocket::WebSocket;

pub use length_prefixed::{LengthFormat, LengthPrefixed};

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
/// shortened. A line that is no text has its length as label: `4096 bytes`.
#[derive(Debug, Default)]
pub struct LineMessages {
    read: u64,
    /// The position at which the current line begins.
    begin: u64,
    line: Vec<u8>,
}

/// The maximum length of a label that is built from a message, in bytes.
const LABEL: usize = 60;

impl Dissector for LineMessages {
    fn feed(&mut self, bytes: &[u8]) -> Vec<Message> {
        let mut messages = Vec::new();
        for &byte in bytes {
            self.read += 1;
            if byte == b'\n' {
                let line = std::mem::take(&mut self.line);
                let label = text_or_length(line, self.read - self.begin);
                messages.push(Message { end: self.read, label });
                self.begin = self.read;
            } else if self.line.len() < LABEL {
                self.line.push(byte);
            }
        }
        messages
    }
}

/// Returns the first bytes of a message as its label if they are text, and else the `length` of the
/// message in bytes.
fn text_or_length(begin: Vec<u8>, length: u64) -> Label {
    if is_text(&begin) {
        Label::Made { begin, by: |text| String::from_utf8_lossy(text).trim_end().to_owned() }
    } else {
        Label::Known(format!("{length} bytes"))
    }
}

/// Returns whether bytes are the beginning of a text: UTF-8, which may end within a character, without
/// control characters except white space.
fn is_text(begin: &[u8]) -> bool {
    let valid = match std::str::from_utf8(begin) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&begin[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return false,
    };
    !valid.chars().any(|char| char.is_control() && !char.is_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_no_text_has_its_length_as_label() {
        let label = |line: &[u8]| {
            let found = LineMessages::default().feed(line).pop();
            found.map(|message| message.label.text()).unwrap()
        };
        assert_eq!(label(b"\0\x01\x02\n"), "4 bytes");
        assert_eq!(label(b"\xff\xfe text\n"), "8 bytes");
        let long = [vec![0; 4000], b"\n".to_vec()].concat();
        assert_eq!(label(&long), "4001 bytes");
        assert_eq!(label("\t\u{e4} text\r\n".as_bytes()), "\t\u{e4} text");
        // The label ends within a character of two bytes.
        let cut = format!("{}\u{e4}\n", "a".repeat(LABEL - 1));
        assert!(label(cut.as_bytes()).starts_with("aaa"));
    }

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
