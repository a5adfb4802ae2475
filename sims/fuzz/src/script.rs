//! The data of both kinds of peers: malformed messages, noise, and pieces of either.
//!
//! `arbitrary` generates every type here from arbitrary bytes, and `Debug` prints it, so that a
//! finding is readable.

use std::time::Duration;

use arbitrary::{Arbitrary, Result, Unstructured};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::frames::{self, BINARY, CLOSE, PING, TEXT};

/// The maximum number of steps in a script.
const LONGEST: usize = 96;

/// The steps of a script: as many as the bytes allow. (`Vec` would consume input before each item
/// to decide whether to continue.)
#[derive(Debug)]
pub struct Steps<T>(pub Vec<T>);

impl<'a, T: Arbitrary<'a>> Arbitrary<'a> for Steps<T> {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> Result<Self> {
        let mut steps = Vec::new();
        while !bytes.is_empty() && steps.len() < LONGEST {
            steps.push(bytes.arbitrary()?);
        }
        Ok(Self(steps))
    }
}

/// A value that is present once in eight times: a peer that is wrong at every step does not get
/// far.
#[derive(Clone, Copy, Debug)]
pub struct Rarely<T>(pub Option<T>);

impl<'a, T: Arbitrary<'a>> Arbitrary<'a> for Rarely<T> {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> Result<Self> {
        let is_there = bytes.arbitrary::<u8>()? % 8 == 7;
        Ok(Self(if is_there { Some(bytes.arbitrary()?) } else { None }))
    }
}

/// A name, for a process or anything else. There are few names, so that they repeat.
#[derive(Arbitrary, Clone, Debug)]
pub struct Name {
    /// `p0` to `p3`.
    known: u8,
    odd: Rarely<OddName>,
}

/// An unusual name.
#[derive(Arbitrary, Clone, Debug)]
enum OddName {
    /// The empty string.
    Empty,
    /// This many letters.
    Long(u16),
    /// Any string.
    Any(String),
}

impl Name {
    /// Returns the first of the usual names.
    pub fn first() -> Self {
        Self { known: 0, odd: Rarely(None) }
    }

    /// Returns its encoded form.
    pub fn text(&self) -> String {
        match &self.odd.0 {
            None => format!("p{}", self.known % 4),
            Some(OddName::Empty) => String::new(),
            Some(OddName::Long(count)) => "n".repeat(usize::from(*count)),
            Some(OddName::Any(text)) => text.clone(),
        }
    }
}

/// A number: small ones, so that they repeat, and extreme ones.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Number {
    /// A small number.
    Small(u8),
    /// A number up to some ten thousands.
    Medium(u16),
    /// The greatest number, minus a little.
    Last(u8),
    /// Any number.
    Any(u64),
}

impl Number {
    /// Returns the number.
    pub fn value(self) -> u64 {
        match self {
            Self::Small(number) => u64::from(number % 8),
            Self::Medium(number) => u64::from(number),
            Self::Last(less) => u64::MAX - u64::from(less),
            Self::Any(number) => number,
        }
    }
}

/// Bytes: a few arbitrary ones, or many equal ones.
#[derive(Arbitrary, Clone, Debug)]
pub enum Bytes {
    /// These bytes.
    These(Vec<u8>),
    /// This many: usually up to 2 KiB, sometimes more than fits into a message.
    Many(u16),
}

impl Bytes {
    /// Returns the bytes.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Self::These(bytes) => bytes.clone(),
            Self::Many(count @ 0..0xf000) => vec![b'z'; usize::from(count % 2048)],
            Self::Many(count) => vec![b'z'; usize::from(*count)],
        }
    }

    /// Returns the bytes as encoded in JSON.
    pub fn base64(&self) -> String {
        STANDARD.encode(self.bytes())
    }
}

/// A value of an unexpected type in a message.
#[derive(Arbitrary, Clone, Debug)]
pub enum OddValue {
    /// Null.
    Null,
    /// A boolean.
    Bool(bool),
    /// A negative number.
    Negative(i64),
    /// A number.
    Number(Number),
    /// A number with a fraction, or outside the range of every type.
    Fraction(f64),
    /// A string.
    Text(Name),
    /// A list of this length.
    List(u8),
    /// An object.
    Object,
    /// Nested lists.
    Deep(u8),
}

impl OddValue {
    fn value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(truth) => json!(truth),
            Self::Negative(number) => json!(number),
            Self::Number(number) => json!(number.value()),
            Self::Fraction(number) => json!(number),
            Self::Text(name) => json!(name.text()),
            Self::List(count) => json!(vec![0; usize::from(*count)]),
            Self::Object => json!({}),
            Self::Deep(depth) => (0..*depth).fold(Value::Null, |inner, _| json!([inner])),
        }
    }
}

/// An error in a message.
#[derive(Arbitrary, Clone, Debug)]
pub enum Corruption {
    /// A field of its content is missing.
    Without(u8),
    /// A field of its content has another value.
    Instead(u8, OddValue),
    /// Its whole content has another value.
    Carries(OddValue),
    /// A field of the message itself has another value, or is added.
    Envelope(u8, OddValue),
    /// It ends early.
    Ends(u16),
    /// One of its bytes is changed.
    Flips(u16, u8),
}

/// The fields of a message.
const ENVELOPE: [&str; 5] = ["id", "method", "params", "result", "error"];

impl Corruption {
    fn corrupt(&self, message: &mut Value) {
        let field = |object: &Map<String, Value>, n: u8| {
            object.keys().nth(usize::from(n) % object.len().max(1)).cloned()
        };
        let key = ["params", "result", "error"]
            .into_iter()
            .find(|key| message.get(key).is_some())
            .unwrap_or("params");
        match self {
            Self::Without(n) => {
                if let Some(carried) = message.get_mut(key).and_then(Value::as_object_mut)
                    && let Some(field) = field(carried, *n)
                {
                    carried.remove(&field);
                }
            }
            Self::Instead(n, odd) => {
                if let Some(carried) = message.get_mut(key).and_then(Value::as_object_mut)
                    && let Some(field) = field(carried, *n)
                {
                    carried.insert(field, odd.value());
                }
            }
            Self::Carries(odd) => message[key] = odd.value(),
            Self::Envelope(n, odd) => {
                message[ENVELOPE[usize::from(*n) % ENVELOPE.len()]] = odd.value()
            }
            Self::Ends(_) | Self::Flips(..) => {}
        }
    }

    fn corrupt_text(&self, text: &mut Vec<u8>) {
        match self {
            Self::Ends(at) => text.truncate(usize::from(*at)),
            Self::Flips(at, bits) => {
                let len = text.len().max(1);
                if let Some(byte) = text.get_mut(usize::from(*at) % len) {
                    *byte ^= bits;
                }
            }
            _ => {}
        }
    }
}

/// How a message is sent.
#[derive(Arbitrary, Clone, Debug)]
pub struct SendOptions {
    corrupt: Rarely<Corruption>,
    binary: bool,
    pieces: Rarely<Pieces>,
}

/// How bytes are split.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Pieces {
    /// Into two frames: the second continues the first.
    Frames(u16),
    /// Into two writes, with a pause between them.
    Slowly(u16, Pause),
    /// The first bytes only, without the rest.
    Stump(u16),
}

/// How often a step is repeated: usually once.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Times(Rarely<u8>);

impl Times {
    /// Returns a number from 1 to 64.
    pub fn count(self) -> u64 {
        u64::from(self.0.0.unwrap_or(0) % 64) + 1
    }
}

/// A duration.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Pause(u8, bool);

impl Pause {
    /// Returns up to a quarter of a second, or up to 25 s.
    pub fn duration(self) -> Duration {
        Duration::from_millis(u64::from(self.0) * if self.1 { 100 } else { 1 })
    }
}

/// The bytes to write, each with the pause after it.
pub type Writes = Vec<(Vec<u8>, Duration)>;

impl SendOptions {
    /// Encodes `message`, perhaps with an error.
    pub fn text(&self, mut message: Value) -> Vec<u8> {
        if let Some(corrupt) = &self.corrupt.0 {
            corrupt.corrupt(&mut message);
        }
        let mut text = message.to_string().into_bytes();
        if let Some(corrupt) = &self.corrupt.0 {
            corrupt.corrupt_text(&mut text);
        }
        text
    }

    /// Whether the message is sent whole, and without an error.
    pub fn is_exact(&self) -> bool {
        self.corrupt.0.is_none() && !matches!(self.pieces.0, Some(Pieces::Stump(_)))
    }

    /// Encodes `content` alone, perhaps with an error.
    pub fn content(&self, content: Value) -> Vec<u8> {
        let mut message = json!({ "params": content });
        if let Some(corrupt) = &self.corrupt.0 {
            corrupt.corrupt(&mut message);
        }
        let mut text = message["params"].to_string().into_bytes();
        if let Some(corrupt) = &self.corrupt.0 {
            corrupt.corrupt_text(&mut text);
        }
        text
    }

    /// Encodes `message` as a line, into writes. `binary` is a line that ends with CR LF.
    pub fn lines(&self, message: Value) -> Writes {
        let mut line = self.text(message);
        line.extend_from_slice(if self.binary { b"\r\n" } else { b"\n" });
        self.pieces(line)
    }

    /// Splits bytes into writes.
    pub fn pieces(&self, mut line: Vec<u8>) -> Writes {
        let now = Duration::ZERO;
        match self.pieces.0 {
            None => vec![(line, now)],
            Some(Pieces::Frames(at)) => {
                let rest = line.split_off(cut(at, &line));
                vec![(line, now), (rest, now)]
            }
            Some(Pieces::Slowly(at, pause)) => {
                let rest = line.split_off(cut(at, &line));
                vec![(line, pause.duration()), (rest, now)]
            }
            Some(Pieces::Stump(at)) => {
                line.truncate(cut(at, &line));
                vec![(line, now)]
            }
        }
    }

    /// Encodes `message` as frames, into writes.
    pub fn write(&self, message: Value, masked: bool) -> Writes {
        let text = self.text(message);
        let first = if self.binary { BINARY } else { TEXT };
        let now = Duration::ZERO;
        match self.pieces.0 {
            None => vec![(frames::whole(first, masked, &text), now)],
            Some(Pieces::Frames(at)) => {
                let (one, two) = text.split_at(cut(at, &text));
                vec![
                    (frames::whole(first & 0x7f, masked, one), now),
                    (frames::whole(0x80, masked, two), now),
                ]
            }
            Some(Pieces::Slowly(at, pause)) => {
                let mut bytes = frames::whole(first, masked, &text);
                let rest = bytes.split_off(cut(at, &bytes));
                vec![(bytes, pause.duration()), (rest, now)]
            }
            Some(Pieces::Stump(at)) => {
                let mut bytes = frames::whole(first, masked, &text);
                bytes.truncate(cut(at, &bytes));
                vec![(bytes, now)]
            }
        }
    }
}

/// Returns a place in `bytes`.
fn cut(at: u16, bytes: &[u8]) -> usize {
    usize::from(at) % (bytes.len() + 1)
}

/// Invalid or unexpected data.
#[derive(Arbitrary, Clone, Debug)]
pub enum Noise {
    /// A text frame with arbitrary content.
    Text(Bytes),
    /// A binary frame with arbitrary content.
    Binary(Bytes),
    /// A ping.
    Ping(Bytes),
    /// A close.
    Close(Bytes),
    /// A frame of any kind, with a possibly wrong length.
    Frame {
        /// Its kind, and its reserved bits.
        first: u8,
        /// Whether the payload is masked. Only a client's frames should be.
        masked: bool,
        /// The claimed length.
        claimed: Number,
        /// The actual content.
        payload: Bytes,
    },
    /// Arbitrary bytes.
    Raw(Bytes),
}

impl Noise {
    /// Encodes the noise.
    pub fn write(&self, masked: bool) -> Vec<u8> {
        match self {
            Self::Text(bytes) => frames::whole(TEXT, masked, &bytes.bytes()),
            Self::Binary(bytes) => frames::whole(BINARY, masked, &bytes.bytes()),
            Self::Ping(bytes) => frames::whole(PING, masked, &bytes.bytes()),
            Self::Close(bytes) => frames::whole(CLOSE, masked, &bytes.bytes()),
            Self::Frame { first, masked, claimed, payload } => {
                frames::frame(*first, *masked, claimed.value(), &payload.bytes())
            }
            Self::Raw(bytes) => bytes.bytes(),
        }
    }
}
