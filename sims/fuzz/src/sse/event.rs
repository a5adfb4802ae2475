//! The events of a hostile server.

use arbitrary::Arbitrary;
use reknit_sse::wire::{Cursor, Ending, Epoch, Event, Gap, OutputStream, Record};
use serde_json::{Value, json};

use crate::script::{Bytes, Name, Number, Rarely, SendOptions};

/// The run of the command.
pub const RUN: Epoch = Epoch(0xc0ffee);

/// The id of a command that a client did not start.
pub const ID: &str = "command";

/// An event; usually one that follows the events before it.
#[derive(Arbitrary, Debug)]
pub enum Line {
    Output {
        bytes: Bytes,
        stderr: bool,
        skip: Rarely<Skip>,
    },
    Gap {
        count: u8,
        skip: Rarely<Skip>,
    },
    Ended {
        how: u8,
        skip: Rarely<Skip>,
    },
    Init {
        id: Rarely<Name>,
        run: Rarely<u8>,
    },
    Ping,
    Detached,
    Status(Name),
    Other(Name),
    /// Something that is not an event.
    Text(Bytes),
}

/// A position that is not the next one.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Skip {
    /// So much later, or earlier.
    By(i8),
    /// This one.
    To(Number),
    /// None.
    Unnumbered,
}

/// How an event is written.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Dress {
    Execd,
    Standard,
    /// As a standard event with this end of its lines.
    CarriageReturn(bool),
    /// As a standard event whose data has two lines.
    Cut(u8),
}

impl Skip {
    fn from(this: &Rarely<Self>, next: u64) -> Option<u64> {
        match this.0 {
            None => Some(next),
            Some(Self::By(by)) => Some(next.saturating_add_signed(by.into())),
            Some(Self::To(number)) => Some(number.value()),
            Some(Self::Unnumbered) => None,
        }
    }
}

impl Line {
    /// Returns the event, and the position that follows it. `next`: the next position. `id`: the command.
    fn record(&self, next: u64, id: &str) -> Option<(Record, u64)> {
        let unlogged = |event| Some((Record::unlogged(0, event), next));
        let logged = |skip, event| {
            let position = Skip::from(skip, next);
            let record = Record { position, timestamp: 0, event };
            Some((record, position.map_or(next, |position| position.saturating_add(1))))
        };
        match self {
            Self::Output { bytes, stderr, skip } => {
                let stream = if *stderr { OutputStream::Stderr } else { OutputStream::Stdout };
                logged(skip, Event::Output(stream, bytes.bytes().into()))
            }
            Self::Ended { how, skip } => {
                let ending = match how % 4 {
                    0 => Ending::Exited(0),
                    1 => Ending::Exited(3),
                    2 => Ending::Killed(9),
                    _ => Ending::Lost("why".to_owned()),
                };
                logged(skip, Event::Ended { ending, took: 5 })
            }
            Self::Gap { count, skip } => {
                let first = Skip::from(skip, next).unwrap_or(0);
                let last = first.saturating_add(u64::from(*count));
                let gap = Event::Gap(Gap { first, last });
                Some((Record::unlogged(0, gap), last.saturating_add(1)))
            }
            Self::Init { id: odd, run } => {
                let command = odd.0.as_ref().map_or_else(|| id.to_owned(), Name::text);
                let epoch = Some(run.0.map_or(RUN, |run| Epoch(run.into())));
                unlogged(Event::Init { command, epoch })
            }
            Self::Ping => unlogged(Event::Ping),
            Self::Detached => unlogged(Event::Detached),
            Self::Status(text) => unlogged(Event::Status(text.text())),
            Self::Other(kind) => unlogged(Event::Other(kind.text())),
            Self::Text(_) => None,
        }
    }

    /// Encodes the event. Also returns the position that follows it.
    pub fn encode(
        &self,
        next: u64,
        id: &str,
        dress: Dress,
        manner: &SendOptions,
    ) -> (Vec<u8>, u64) {
        let Some((record, after)) = self.record(next, id) else {
            let Self::Text(bytes) = self else { unreachable!("all others are events") };
            return (bytes.bytes(), next);
        };
        let json: Value = serde_json::from_str(&record.to_json()).unwrap_or_else(|_| json!({}));
        let json = manner.content(json);
        let cursor = Cursor::new(RUN, record.position.unwrap_or(next - 1));
        let mut bytes = Vec::new();
        match dress {
            Dress::Execd => bytes.extend_from_slice(&[&json, &b"\n\n"[..]].concat()),
            Dress::Standard => {
                bytes.extend_from_slice(format!("id: {cursor}\ndata: ").as_bytes());
                bytes.extend_from_slice(&[&json, &b"\n\n"[..]].concat());
            }
            Dress::CarriageReturn(alone) => {
                let end = if alone { "\r" } else { "\r\n" };
                bytes.extend_from_slice(format!(": x{end}retry: 5{end}data:").as_bytes());
                bytes.extend_from_slice(&[&json, end.as_bytes(), end.as_bytes()].concat());
            }
            Dress::Cut(at) => {
                let (one, two) = json.split_at(usize::from(at).min(json.len()));
                let parts = [&b"data: "[..], one, b"\ndata: ", two, b"\n\n"];
                bytes.extend_from_slice(&parts.concat());
            }
        }
        (bytes, after)
    }
}
