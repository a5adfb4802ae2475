//! The answers of a server on one connection: they must be HTTP, and the streams in them complete and in
//! order.

use std::collections::VecDeque;

use reknit_sse::wire::{Cursor, Decoder, Event, RefusalBody};
use serde_json::Value;

/// The largest event of a server: a line of output, and what JSON and base64 add to it.
const LARGEST: usize = 1 << 20;

/// Reads the answers of one connection, and checks them.
///
/// # Panics
/// All functions, if a server must not say what it said.
pub struct Answers {
    bytes: Vec<u8>,
    at: At,
    /// The id of the last shell session that the server created.
    pub session: Option<String>,
    /// The last run that the server named.
    pub epoch: Option<String>,
    /// The cursors of the requests without an answer; `None` for a request that opens no stream, or may
    /// open one from anywhere.
    asked: Option<VecDeque<Option<String>>>,
}

/// The next part of the answer.
enum At {
    Head,
    /// So many bytes of a body with a length.
    Length(usize, Content),
    /// The size of a chunk.
    Size(Content),
    /// So many bytes of a chunk, and its end.
    Chunk(usize, Content),
    /// A body until the end of the connection.
    Rest(Content),
    /// Answers that the checks cannot separate.
    Unknown,
}

/// A body.
enum Content {
    Stream(Box<Events>),
    Json(Vec<u8>),
    Other,
}

/// A stream of events.
struct Events {
    decoder: Decoder,
    /// The position of the event before the next one, if it is known.
    last: Option<u64>,
    /// Whether nothing may follow.
    is_over: bool,
}

impl Answers {
    pub fn new() -> Self {
        Self {
            bytes: Vec::new(),
            at: At::Head,
            session: None,
            epoch: None,
            asked: Some(VecDeque::new()),
        }
    }

    /// The client sends a request for a stream from a cursor, or another request.
    pub fn asks(&mut self, cursor: Option<String>) {
        if let Some(asked) = &mut self.asked {
            asked.push_back(cursor);
        }
    }

    /// The client has sent bytes that may be any number of requests.
    pub fn lose_count(&mut self) {
        self.asked = None;
    }

    /// The client has sent something whose answers the checks cannot separate.
    pub fn give_up(&mut self) {
        self.at = At::Unknown;
    }

    /// Whether a stream is in progress.
    pub fn is_in_stream(&self) -> bool {
        match &self.at {
            At::Length(_, content)
            | At::Size(content)
            | At::Chunk(_, content)
            | At::Rest(content) => {
                matches!(content, Content::Stream(_))
            }
            At::Head | At::Unknown => false,
        }
    }

    /// Reads more bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        while let Some(next) = self.step() {
            self.at = next;
        }
    }

    /// Reads one part of an answer, if it is complete.
    fn step(&mut self) -> Option<At> {
        match std::mem::replace(&mut self.at, At::Unknown) {
            At::Head => match self.take_until(b"\r\n\r\n") {
                Some(head) => return Some(self.head(&head)),
                None => self.at = At::Head,
            },
            At::Length(left, mut content) => {
                let count = left.min(self.bytes.len());
                content.read(self.bytes.drain(..count).as_slice());
                if count == left {
                    self.ended(content);
                    return Some(At::Head);
                }
                self.at = At::Length(left - count, content);
            }
            At::Size(content) => match self.take_until(b"\r\n") {
                Some(line) => {
                    let size = usize::from_str_radix(&line, 16).expect("a size of a chunk");
                    return Some(At::Chunk(size, content));
                }
                None => self.at = At::Size(content),
            },
            At::Chunk(size, mut content) if self.bytes.len() >= size + 2 => {
                let chunk: Vec<u8> = self.bytes.drain(..size + 2).collect();
                let (chunk, end) = chunk.split_at(size);
                assert_eq!(end, b"\r\n", "the end of a chunk");
                content.read(chunk);
                if size > 0 {
                    return Some(At::Size(content));
                }
                self.ended(content);
                return Some(At::Head);
            }
            At::Chunk(size, content) => self.at = At::Chunk(size, content),
            At::Rest(mut content) => {
                content.read(&std::mem::take(&mut self.bytes));
                self.at = At::Rest(content);
            }
            At::Unknown => self.bytes.clear(),
        }
        None
    }

    /// Takes a text and the bytes that end it. Returns the text.
    fn take_until(&mut self, end: &[u8]) -> Option<String> {
        let at = self.bytes.windows(end.len()).position(|bytes| bytes == end)?;
        let text = String::from_utf8(self.bytes[..at].to_vec()).expect("heads are text");
        self.bytes.drain(..at + end.len());
        Some(text)
    }

    /// Reads the head of an answer. Returns what follows.
    fn head(&mut self, head: &str) -> At {
        let mut lines = head.split("\r\n");
        let status =
            lines.next().and_then(|line| line.strip_prefix("HTTP/1.")?.get(2..5)?.parse().ok());
        let status: u16 = status.unwrap_or_else(|| panic!("not the head of an answer: {head}"));
        let headers: Vec<(String, &str)> = lines
            .map(|line| line.split_once(": ").expect("a header has a value"))
            .map(|(name, value)| (name.to_ascii_lowercase(), value))
            .collect();
        let of = |name: &str| headers.iter().find(|(key, _)| key == name).map(|(_, value)| *value);
        if let Some(epoch) = of("x-reknit-epoch") {
            self.epoch = Some(epoch.to_owned());
        }
        let asked =
            if status == 100 { None } else { self.asked.as_mut().and_then(VecDeque::pop_front) };
        let content = match of("content-type") {
            Some("text/event-stream") => {
                let mut events = Events::new();
                if let Some(Some(cursor)) = asked {
                    let cursor: Cursor = cursor.parse().expect("only a cursor opens a stream");
                    let epoch = of("x-reknit-epoch").expect("a stream names its run");
                    assert!(
                        cursor.epoch.is_none_or(|run| run.to_string() == epoch),
                        "{cursor}: {epoch}"
                    );
                    let next: u64 =
                        of("x-reknit-next").expect("a stream says it").parse().expect("a number");
                    assert!(cursor.after < next, "{cursor} is in the future of {next}");
                    events.last = Some(cursor.after);
                }
                Content::Stream(Box::new(events))
            }
            Some(kind) if kind.starts_with("application/json") => Content::Json(Vec::new()),
            _ => Content::Other,
        };
        if status == 100 || status == 204 {
            return At::Head;
        }
        if of("transfer-encoding") == Some("chunked") {
            return At::Size(content);
        }
        match of("content-length") {
            Some(length) => At::Length(length.parse().expect("a length"), content),
            None => At::Rest(content),
        }
    }

    fn ended(&mut self, content: Content) {
        match content {
            Content::Stream(events) => {
                assert!(events.is_over, "a stream is complete without the ending of its command");
                assert!(
                    events.decoder.is_between_frames(),
                    "a stream ends in the middle of an event"
                );
            }
            Content::Json(text) => {
                let json: Value = serde_json::from_slice(&text).expect("a body is JSON");
                if let Some(session) = json["session_id"].as_str() {
                    self.session = Some(session.to_owned());
                }
                serde_json::from_value::<RefusalBody>(json).expect("the fields have their types");
            }
            Content::Other => {}
        }
    }
}

impl Content {
    fn read(&mut self, bytes: &[u8]) {
        match self {
            Self::Stream(events) => events.read(bytes),
            Self::Json(text) => text.extend_from_slice(bytes),
            Self::Other => {}
        }
    }
}

impl Events {
    fn new() -> Self {
        Self { decoder: Decoder::new(LARGEST), last: None, is_over: false }
    }

    fn read(&mut self, bytes: &[u8]) {
        self.decoder.feed(bytes).expect("the server sends events");
        while let Some(decoded) = self.decoder.next() {
            assert!(!self.is_over, "an event follows the last one: {:?}", decoded.record);
            let (event, position) = (decoded.record.event, decoded.record.position);
            let is_logged = matches!(event, Event::Output(..) | Event::Ended { .. });
            assert_eq!(position.is_some(), is_logged, "the position of {event:?}");
            self.is_over = matches!(event, Event::Ended { .. } | Event::Detached);
            let (first, last) = match (event, position) {
                (Event::Gap(gap), _) => (gap.first, gap.last),
                (_, Some(position)) => (position, position),
                _ => continue,
            };
            assert!(
                self.last.is_none_or(|last| first == last + 1),
                "{first} follows {:?}",
                self.last
            );
            self.last = Some(last);
            if let Some(cursor) = decoded.cursor {
                assert_eq!(cursor.after, last, "the cursor after an event");
            }
        }
    }
}
