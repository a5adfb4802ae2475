//! Reads a stream: bytes in, events out.
//!
//! One decoder reads both framings: a line of JSON is a frame of execd, and `data:` belongs to a
//! standard event. The standard ignores a line that is neither a field nor a comment, so the two
//! cannot be confused. Bytes may be cut anywhere, also inside a character.
//!
//! It is bounded: a frame that exceeds the limit is an error, before it is complete.

use std::collections::VecDeque;
use std::time::Duration;

use reknit_seams::defect;

use super::{Cursor, Record, RecordError};

/// One event, as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// The event.
    pub record: Record,
    /// The cursor in the `id:` of a standard event, if it has one that this crate wrote.
    pub cursor: Option<Cursor>,
}

/// The reason why a stream cannot be read any further.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// A frame is larger than the limit.
    #[error("a frame is larger than {0} bytes")]
    TooLarge(usize),
    /// A line is not UTF-8.
    #[error("a line is not UTF-8")]
    NotUtf8,
    /// The JSON of an event is wrong.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// Reads the events of one connection.
#[derive(Debug)]
pub struct Decoder {
    most: usize,
    /// The bytes of the line that has not ended.
    line: Vec<u8>,
    /// Whether the last byte was a `\r`: a `\n` that follows belongs to it.
    after_cr: bool,
    /// The data of the standard event that has not ended; `None` before its first `data:`.
    data: Option<String>,
    id: Option<Cursor>,
    retry: Option<Duration>,
    ready: VecDeque<Decoded>,
}

impl Decoder {
    /// Creates a decoder for frames of at most `most` bytes.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            line: Vec::new(),
            after_cr: false,
            data: None,
            id: None,
            retry: None,
            ready: VecDeque::new(),
        }
    }

    /// Reads more bytes. The events that they complete are returned by [`next`](Self::next).
    ///
    /// # Errors
    /// [`DecodeError`]; events before the error remain available, and the decoder must not be given
    /// more bytes.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        // The bug: only one of the two ends a line.
        let ends = |byte: &u8| *byte == b'\n' || *byte == b'\r' && !defect!(ReturnsEndNoLine);
        // The bug: an end of a line is not cut in two.
        self.after_cr &= !defect!(ReturnsAreForgotten);
        for piece in bytes.split_inclusive(ends) {
            let piece = if std::mem::take(&mut self.after_cr) && piece == b"\n" {
                continue;
            } else {
                piece
            };
            let end = piece.last().filter(|byte| ends(byte));
            let text = &piece[..piece.len() - usize::from(end.is_some())];
            // The bug: only the newest line of an event counts.
            let data = self.data.as_ref().filter(|_| !defect!(LinesCountAlone));
            let pending = data.map_or(0, String::len);
            if self.line.len() + pending + text.len() > self.most {
                return Err(DecodeError::TooLarge(self.most));
            }
            self.line.extend_from_slice(text);
            if let Some(end) = end {
                self.after_cr = *end == b'\r';
                let line = std::mem::take(&mut self.line);
                self.line_ended(&String::from_utf8(line).map_err(|_| DecodeError::NotUtf8)?)?;
            }
        }
        Ok(())
    }

    /// Returns the next complete event.
    #[allow(clippy::should_implement_trait)] // it is not the end if there is none
    pub fn next(&mut self) -> Option<Decoded> {
        self.ready.pop_front()
    }

    /// Returns the time after which the server wants the client to reconnect.
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Whether the stream could end here: it is not in the middle of a frame.
    pub fn is_between_frames(&self) -> bool {
        self.line.is_empty() && self.data.is_none()
    }

    fn line_ended(&mut self, line: &str) -> Result<(), DecodeError> {
        let line = line.strip_prefix('\u{feff}').unwrap_or(line); // a byte order mark
        if line.starts_with('{') {
            let record = Record::from_json(line)?;
            self.ready.push_back(Decoded { record, cursor: None });
            return Ok(());
        }
        if line.is_empty() {
            return self.event_ended();
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            "id" => self.id = value.parse().ok(),
            "retry" if value.bytes().all(|byte| byte.is_ascii_digit()) => {
                self.retry = value.parse().ok().map(Duration::from_millis);
            }
            _ => {} // a comment, a name of an event, or an unknown field
        }
        Ok(())
    }

    /// A blank line: the standard event is complete.
    fn event_ended(&mut self) -> Result<(), DecodeError> {
        let cursor = self.id.take();
        let Some(data) = self.data.take().filter(|data| !data.is_empty()) else {
            return Ok(());
        };
        let record = Record::from_json(&data)?;
        self.ready.push_back(Decoded { record, cursor });
        Ok(())
    }
}

#[cfg(test)]
#[path = "tests/decode.rs"]
mod tests;
